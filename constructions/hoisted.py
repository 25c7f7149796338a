"""The fused evaluation with what a loop repeats taken out of it.

Where no layer of a `Repeat` writes the keys or queries of its heads, their scores K'Q are the same in every turn: they
are computed once, heads with equal value, output and route summed, those with equal value side by side, and a turn is
one product V (K'Q) for each value. The executor is such a loop: only the last row moves. Other layers, and loops that
are not so, run as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .arithmetic import Arithmetic, Array
from .layers import LinearAttention, Repeat
from .program import Program
from .tokens import Tokens

Scores = dict[tuple[str, str, str, str], Array]
"""(source kind, value, target kind, out) -> summed scores Q'K, shape (targets, sources)."""


def hoistable(layer: object) -> bool:
    """Whether a layer is a loop of attention layers between whole kinds, which leaves their keys and queries alone."""
    if not isinstance(layer, Repeat) or not all(isinstance(inner, LinearAttention) for inner in layer.layers):
        return False
    heads = [head for inner in layer.layers for head in inner.heads]
    written = {head.out for head in heads}
    routes = [route for head in heads for route in head.routes]
    return all(head.mixing is None and not written & {head.key, head.query} for head in heads) and all(
        route.source.whole and route.target.whole and not route.same and not route.causal for route in routes
    )


def hoisted_steps(program: Program, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
    """As `Program.steps`, with the same labels; equal in exact arithmetic, to rounding in floats."""
    for layer in program.layers:
        steps = (
            _turns(layer, tokens, arithmetic)
            if isinstance(layer, Repeat) and hoistable(layer)
            else layer.steps(tokens, arithmetic)
        )
        for label, tokens in steps:
            yield label, tokens


def _turns(loop: Repeat, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
    groups = [_groups(_scores(layer, tokens, arithmetic), arithmetic) for layer in loop.layers]
    for turn in range(1, loop.times + 1):
        for layer, grouped in zip(loop.layers, groups, strict=True):
            blocks: dict[tuple[str, str], Array] = {}
            for group in grouped:
                values = tokens.blocks.get(group.read)
                if values is None:
                    continue
                moved, start = arithmetic.matmul(values, group.scores), 0
                for place, width in group.written:
                    delta = arithmetic.columns(moved, start, start + width)
                    old = blocks.get(place, tokens.blocks.get(place))
                    blocks[place] = delta if old is None else arithmetic.add(old, delta)
                    start += width
            tokens = tokens.replacing(blocks)
            yield f"{layer.label} {turn}", tokens


@dataclass(frozen=True)
class Group:
    """What one product moves: field `read` = (kind, value) times scores, whose columns go to `written`, in order."""

    read: tuple[str, str]
    written: tuple[tuple[tuple[str, str], int], ...]
    scores: Array


def _groups(scores: Scores, arithmetic: Arithmetic) -> list[Group]:
    """One group for each field that is read: few products, each large enough for the fast ones of a library."""
    out = []
    for read in dict.fromkeys(place[:2] for place in scores):
        parts = {place[2:]: matrix for place, matrix in scores.items() if place[:2] == read}
        written = tuple((place, arithmetic.shape(matrix)[0]) for place, matrix in parts.items())
        matrices = list(parts.values())
        stacked = arithmetic.stack([[matrix] for matrix in matrices]) if len(matrices) > 1 else matrices[0]
        # Transposed last, so that a column of scores, which a turn multiplies by the values, is in one piece in memory.
        out.append(Group(read, written, arithmetic.transpose(stacked)))
    return out


def _scores(layer: LinearAttention, tokens: Tokens, arithmetic: Arithmetic) -> Scores:
    summed: Scores = {}
    for head in layer.heads:
        for route in head.routes:
            key = tokens.block(route.source, head.key, arithmetic)
            query = tokens.block(route.target, head.query, arithmetic)
            if key is None or query is None:
                continue
            if head.weight is not None:
                heights = arithmetic.shape(query)[0], arithmetic.shape(key)[0]
                key = arithmetic.matmul(head.weight.array(*heights, arithmetic), key)
            scores = arithmetic.matmul(arithmetic.transpose(query), key)
            scores = arithmetic.negate(scores) if head.sign < 0 else scores
            place = route.source.kind, head.value, route.target.kind, head.out
            summed[place] = arithmetic.add(summed[place], scores) if place in summed else scores
    return summed
