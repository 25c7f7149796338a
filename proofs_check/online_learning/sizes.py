"""A program that was built at symbolic sizes, at numbers: public matrices by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import sympy as sp

from constructions.layers import Head, LinearAttention, Public
from constructions.mlp import Map, Mlp
from constructions.normalised_attention import NormalisedAttention
from constructions.parallel import Parallel
from constructions.program import Program


def at_sizes(changed: Program, built: Program, values: Mapping[Any, Any]) -> Program:
    """The layers of a program with the public matrices of the same names of another, and its symbols at values."""
    publics = {public.name: public for layer in built.layers for public in publics_in(layer)}
    layers = [layer_at(layer, publics, values, built.layout) for layer in changed.layers]
    return Program(changed.name, built.layout, built.kinds, tuple(layers))


def publics_in(layer: Any) -> Iterator[Public]:
    """The public matrices of a layer, none transposed."""
    if isinstance(layer, Parallel):
        for inner in layer.layers:
            yield from publics_in(inner)
    elif isinstance(layer, Mlp):
        maps = [part for group in layer.groups for part in (*group.reads, *group.writes)]
        yield from (_upright(part.weight) for part in maps if part.weight is not None)
    else:
        terms = [term for head in layer.heads for term in ((head,) if isinstance(head, Head) else head.scores)]
        yield from (_upright(term.weight) for term in terms if term.weight is not None)


def _upright(public: Public) -> Public:
    return public.T if public.transposed else public


def layer_at(layer: Any, publics: Mapping[str, Public], sizes: Mapping[sp.Symbol, int], layout: Any) -> Any:
    """A layer with public matrices by name, symbols at numbers, and (a ReLU block) the layout."""

    def public(old: Public | None) -> Public | None:
        return None if old is None else replace(publics[old.name], transposed=old.transposed)

    def number(x: Any) -> Any:
        return x.subs(sizes) if isinstance(x, sp.Expr) else x

    def mapped(part: Map) -> Map:
        return replace(part, weight=public(part.weight), scale=number(part.scale))

    if isinstance(layer, Parallel):
        return replace(layer, layers=tuple(layer_at(inner, publics, sizes, layout) for inner in layer.layers))
    if isinstance(layer, LinearAttention):
        return replace(layer, heads=tuple(replace(head, weight=public(head.weight)) for head in layer.heads))
    if isinstance(layer, NormalisedAttention):
        heads = [
            replace(
                head,
                moves=tuple(replace(move, scale=number(move.scale)) for move in head.moves),
                scores=tuple(replace(term, weight=public(term.weight)) for term in head.scores),
            )
            for head in layer.heads
        ]
        return replace(layer, heads=tuple(heads))
    groups = [
        replace(
            group,
            units=int(number(sp.sympify(group.units))),
            reads=tuple(map(mapped, group.reads)),
            writes=tuple(map(mapped, group.writes)),
        )
        for group in layer.groups
    ]
    return replace(layer, layout=layout, groups=tuple(groups))
