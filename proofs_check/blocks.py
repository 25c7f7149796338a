"""An attention layer on generic tokens at symbolic sizes, by sympy's `BlockMatrix`: the matrices P, Q, M as stated."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import sympy as sp

from constructions.errors import Unsupported
from constructions.layers import LinearAttention, Public, Route
from constructions.layout import Layout, Size, block_matrix


def attention_matrices(layer: LinearAttention, layout: Layout, counts: Mapping[str, Size]) -> list[dict[str, Any]]:
    """For each head, heads with equal value, output, routes and mixing summed: P, Q, and the masks with
    M (R o S) = M_in S M_out; a mixing T stands in M_in.

    Raises:
        Unsupported: a route within part of a kind, or from a token to itself.
    """
    fields, widths = list(layout), list(layout.widths.values())
    out = []
    for heads in layer.merged():
        value, target, mixing = heads[0].value, heads[0].out, heads[0].mixing
        P = block_matrix(widths, widths, {(fields.index(target), fields.index(value)): sp.Identity(layout[value])})
        entries: dict[tuple[int, int], Any] = {}
        for head in heads:
            place = (fields.index(head.key), fields.index(head.query))
            shape = layout[head.key], layout[head.query]
            block = sp.Identity(shape[0]) if head.weight is None else head.weight.T.expression(*shape)
            block = block if head.sign > 0 else -block
            entries[place] = entries[place] + block if place in entries else block
        Q = block_matrix(widths, widths, entries)
        for sources, targets in _products(heads[0].routes):
            out.append({"P": P, "Q": Q, "M_in": _mask(counts, sources, mixing), "M_out": _mask(counts, targets)})
    return out


def _mask(counts: Mapping[str, Size], chosen: set[str], mixing: Public | None = None) -> Any:
    sizes = list(counts.values())
    diagonal = {
        (i, i): sp.Identity(counts[kind]) if mixing is None else mixing.expression(counts[kind], counts[kind])
        for i, kind in enumerate(counts)
        if kind in chosen
    }
    return block_matrix(sizes, sizes, diagonal)


def _products(routes: tuple[Route, ...]) -> list[tuple[set[str], set[str]]]:
    """The routes as sets of kinds, each "all of these to all of those": one pair if possible, else one a route."""
    for route in routes:
        if route.same or not route.source.whole or not route.target.whole:
            raise Unsupported(f"block proof: the route {route} is not between whole kinds")
    pairs = [(route.source.kind, route.target.kind) for route in routes]
    sources, targets = {a for a, _ in pairs}, {b for _, b in pairs}
    if sorted(pairs) == sorted(product(sources, targets)):
        return [(sources, targets)]
    return [({a}, {b}) for a, b in pairs]


def layer_on_blocks(
    layer: LinearAttention, layout: Layout, counts: Mapping[str, Size], blocks: Mapping[tuple[str, str], Any]
) -> dict[tuple[str, str], Any]:
    """Z + sum of P Z M_in (Z' Q Z) M_out, block by block; `blocks` gives Z, missing ones are zero."""
    fields, kinds = list(layout), list(counts)
    Z = sp.BlockMatrix(
        [[blocks.get((kind, field), sp.ZeroMatrix(layout[field], counts[kind])) for kind in kinds] for field in fields]
    )
    total = Z
    for head in attention_matrices(layer, layout, counts):
        scores = sp.block_collapse(head["M_in"] * Z.T * head["Q"] * Z * head["M_out"])
        total = sp.block_collapse(total + head["P"] * Z * scores)
    return {(kind, field): total.blocks[i, j].doit() for i, field in enumerate(fields) for j, kind in enumerate(kinds)}
