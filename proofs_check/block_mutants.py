"""Mutants of normalised attention and of ReLU blocks, and of single weights of whole programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import sympy as sp

from constructions.dense import DenseHead, DenseMlp, DenseNormalised, DensePart
from constructions.layout import Layout
from constructions.mlp import Map, Mlp
from constructions.normalised_attention import HardmaxAttention, NormalisedAttention, NormalisedHead, SoftmaxAttention

Change = tuple[str, str, Any]
"""(kind, text, what is there instead)."""

Weights = Sequence[Sequence[DensePart]]
"""A program as matrices: the parts of each layer."""

MATRICES = {DenseHead: ("P", "Q"), DenseNormalised: ("P", "Q"), DenseMlp: ("W", "V")}
"""The weights of each part; its mask is none."""


def normalised_changes(layer: NormalisedAttention, layout: Layout) -> Iterator[Change]:
    """Single changes of the heads (but for their routes), and soft for hard or hard for soft."""
    other = HardmaxAttention if isinstance(layer, SoftmaxAttention) else SoftmaxAttention
    yield "primitive", f"{other.kind} for {layer.kind}", other(layer.heads, layer.label)
    for i, head in enumerate(layer.heads):
        before, after = layer.heads[:i], layer.heads[i + 1 :]
        yield "head", f"{head} dropped", replace(layer, heads=before + after)
        for kind, text, changed in _head_changes(head, layout):
            yield kind, f"{head} {text}", replace(layer, heads=(*before, changed, *after))


def _head_changes(head: NormalisedHead, layout: Layout) -> Iterator[Change]:
    for i, move in enumerate(head.moves):
        moves = head.moves[:i], head.moves[i + 1 :]
        for text, scale in (("negated", -move.scale), ("doubled", 2 * move.scale)):
            yield "sign", f"with {move} {text}", replace(head, moves=(*moves[0], replace(move, scale=scale), *moves[1]))
        for name in ("value", "out"):
            for field in alike(layout, getattr(move, name)):
                changed = replace(move, **{name: field})
                yield "selector", f"with {name} {field} in {move}", replace(head, moves=(*moves[0], changed, *moves[1]))
    for i, term in enumerate(head.scores):
        before, after = head.scores[:i], head.scores[i + 1 :]
        yield "score", f"without {term}", replace(head, scores=before + after)
        yield "sign", f"with {term} negated", replace(head, scores=(*before, replace(term, sign=-term.sign), *after))
        for name in ("key", "query"):
            for field in alike(layout, getattr(term, name)):
                swapped = replace(term, **{name: field})  # type: ignore[arg-type]
                yield "selector", f"with {name} {field} in {term}", replace(head, scores=(*before, swapped, *after))


def mlp_changes(layer: Mlp) -> Iterator[Change]:
    """Single changes of the groups of units."""
    for i, group in enumerate(layer.groups):
        before, after = layer.groups[:i], layer.groups[i + 1 :]
        yield "units", f"{group} dropped", replace(layer, groups=before + after)
        for side in ("reads", "writes"):
            parts: tuple[Map, ...] = getattr(group, side)
            for j, part in enumerate(parts):
                for text, new in (
                    ("dropped", ()),
                    ("negated", (replace(part, scale=-part.scale),)),
                    ("doubled", (replace(part, scale=2 * part.scale),)),
                    *((f"with {field}", (replace(part, field=field),)) for field in alike(layer.layout, part.field)),
                ):
                    changed = replace(group, **{side: (*parts[:j], *new, *parts[j + 1 :])})
                    kind = "selector" if text.startswith("with") else "sign"
                    yield kind, f"{group}: {part} {text}", replace(layer, groups=(*before, changed, *after))


def alike(layout: Layout, field: str) -> list[str]:
    """The other fields of the same width."""
    return [other for other in layout if other != field and layout[other] == layout[field]]


def weight_changes(layers: Weights, layout: Layout) -> Iterator[tuple[str, Weights]]:
    """Every non-zero weight of a program zeroed, negated, doubled; (text, the program as changed)."""
    for l, parts in enumerate(layers):
        for h, part in enumerate(parts):
            for name in MATRICES[type(part)]:
                matrix = getattr(part, name)
                entries = matrix.todok()
                for (i, j), value in sorted(entries.items()):
                    for text, new in (("zeroed", 0), ("negated", -value), ("doubled", 2 * value)):
                        changed = {place: x for place, x in {**entries, (i, j): new}.items() if x}
                        weights = sp.ImmutableSparseMatrix(*matrix.shape, changed)
                        swapped = [*parts[:h], replace(part, **{name: weights}), *parts[h + 1 :]]
                        where = f"layer {l + 1}, part {h + 1}: {name}[{_place(name, i, j, layout)}]"
                        yield f"{where} {text}", [*layers[:l], swapped, *layers[l + 1 :]]


def _place(name: str, row: int, column: int, layout: Layout) -> str:
    """Row and column of a weight, coordinates of the token by their fields."""
    sides = {"P": (True, True), "Q": (True, True), "W": (False, True), "V": (True, False)}[name]
    return ", ".join(
        "{}.{}".format(*layout.named(place)) if coordinate else f"unit {place}"
        for place, coordinate in zip((row, column), sides, strict=True)
    )
