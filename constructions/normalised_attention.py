"""Softmax and hardmax attention: the scores of a target's sources, over all its routes together, become a distribution.

A head has scores s_ji = sum over its terms of sign <W key_j, query_i>, and moves: field out of target i gets
sum_j a_ji c value_j. As matrices over whole tokens U+ = U + P U A, where Q = sum sign E_key' W' E_query,
P = sum c E_out' E_value and column i of A is

    softmax:  exp(s_ji) / sum_j exp(s_ji)        hardmax:  1/m for the m sources of largest score, 0 for the others,

over the sources j that target i sees (`LinearMoves`: s_ji itself). A source whose key is zero has score 0 and counts
like any other; a target that sees none gets nothing. A bias is a term between two flags, a sink a token of value zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from .arithmetic import Arithmetic, Array, Exact
from .errors import BadInput
from .layers import Delta, Public, added, labelled
from .layout import Layout, Size
from .routes import Route, routes_text
from .tokens import Span, Tokens


@dataclass(frozen=True)
class Score:
    """A term sign <W key, query> of the scores; W of shape (width of query, width of key), None for the identity."""

    key: str
    query: str
    weight: Public | None = None
    sign: int = 1

    def __str__(self) -> str:
        weight = "" if self.weight is None else f"{self.weight} "
        return f"{'+' if self.sign > 0 else '-'}<{weight}{self.key}, {self.query}>"


@dataclass(frozen=True)
class Move:
    """What a head moves: c times field `value` of the sources to field `out` of the target, of the same width."""

    value: str
    out: str
    scale: Exact | sp.Expr = 1

    def __str__(self) -> str:
        factor = {"1": "", "-1": "-"}.get(str(self.scale), f"{self.scale} ")
        return f"{factor}{self.value} to {self.out}"


@dataclass(frozen=True)
class NormalisedHead:
    """One head: its moves, the terms of its scores (none means that all scores are 0), its routes."""

    moves: tuple[Move, ...]
    scores: tuple[Score, ...]
    routes: tuple[Route, ...]

    def check(self, layout: Layout) -> None:
        """Raise `BadInput` unless the selectors fit the layout and each target's sources are those of one span."""
        pairs = [(move.value, move.out) for move in self.moves]
        pairs += [(term.key, term.query) for term in self.scores if term.weight is None]
        for left, right in pairs:
            if layout[left] != layout[right]:
                found = f"{left}:{layout[left]} and {right}:{layout[right]}"
                raise BadInput(f"head {self}: expected equal widths, found {found}")
        for term in self.scores:
            layout[term.key], layout[term.query]
            if term.sign not in (1, -1):
                raise BadInput(f"head {self}: expected signs of 1 or -1, found {term.sign}")
        targets = list(dict.fromkeys(route.target for route in self.routes))
        for i, one in enumerate(targets):
            for other in targets[:i]:
                if one.kind == other.kind and _overlap(one, other):
                    raise BadInput(f"head {self}: expected disjoint or equal targets, found {other} and {one}")

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.moves))} by {' '.join(map(str, self.scores)) or '0'})"


def _overlap(one: Span, other: Span) -> bool:
    ends = [np.inf if span.stop is None else span.stop for span in (one, other)]
    return max(one.start, other.start) < min(ends)


@dataclass(frozen=True)
class Part:
    """The scores along one route, shape (sources, targets); None where they are structurally zero."""

    route: Route
    sources: Size
    targets: Size
    scores: Array | None


@dataclass(frozen=True)
class NormalisedAttention:
    """Parallel heads on the same input, each with its own distribution; their outputs are added to it."""

    heads: tuple[NormalisedHead, ...]
    label: str = ""
    kind: ClassVar[str]

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        yield self.label, added(tokens, self.deltas(tokens, arithmetic), arithmetic)

    def deltas(self, tokens: Tokens, arithmetic: Arithmetic) -> list[Delta]:
        """What the heads add."""
        return [delta for head in self.heads for delta in self._deltas(head, tokens, arithmetic)]

    def _deltas(self, head: NormalisedHead, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[Delta]:
        for target in dict.fromkeys(route.target for route in head.routes):
            if not self.reaches(head, target, tokens):
                continue
            routes = [route for route in head.routes if route.target == target]
            offers = [[_offer(move, route, tokens, arithmetic) for route in routes] for move in head.moves]
            if all(value is None for line in offers for value in line):
                continue
            parts = [_part(head, route, tokens, arithmetic) for route in routes]
            weights = self.weigh(parts, arithmetic)
            for move, line in zip(head.moves, offers, strict=True):
                for value, weight in zip(line, weights, strict=True):
                    if value is not None and weight is not None:
                        yield target, move.out, arithmetic.matmul(value, weight)

    def reaches(self, head: NormalisedHead, target: Span, tokens: Tokens) -> bool:
        """Whether a head can add anything to a target."""
        return True

    def weigh(self, parts: Sequence[Part], arithmetic: Arithmetic) -> Sequence[Array | None]:
        """The weights of the sources of each part, shape (sources, targets); None where they are structurally zero."""
        return distribution(self.kind, parts, arithmetic)

    def describe(self) -> list[tuple[str, str]]:
        """(label, text) a line."""
        texts = [f"{self.kind} {head!s:<24} {routes_text(head.routes)}" for head in self.heads]
        return labelled(self.label, texts)


class SoftmaxAttention(NormalisedAttention):
    """Weights exp(score) over their sum."""

    kind = "softmax"


class HardmaxAttention(NormalisedAttention):
    """Uniform weights on the sources of largest score; ties are averaged."""

    kind = "hardmax"


class LinearMoves(NormalisedAttention):
    """The weights are the scores as they are: linear heads that may add several scores and move several fields."""

    kind = "linear"

    def reaches(self, head: NormalisedHead, target: Span, tokens: Tokens) -> bool:
        return any((target.kind, term.query) in tokens.blocks for term in head.scores)

    def weigh(self, parts: Sequence[Part], arithmetic: Arithmetic) -> list[Array | None]:
        return [None if part.scores is None else masked(part, arithmetic) for part in parts]


def masked(part: Part, arithmetic: Arithmetic) -> Array:
    """The scores of a part, zero where the target does not see the source; an arithmetic may have a method `masked`."""
    if not (part.route.same or part.route.causal) or (part.sources, part.targets) == (1, 1):
        return part.scores
    named = getattr(type(arithmetic), "masked", None)
    if named is not None:
        return named(arithmetic, part)
    mask = arithmetic.matrix(seen(part).astype(int).tolist())
    return arithmetic.hadamard(mask, part.scores)


def _offer(move: Move, route: Route, tokens: Tokens, arithmetic: Arithmetic) -> Array | None:
    """c value along a route; None where it is structurally zero."""
    value = tokens.block(route.source, move.value, arithmetic)
    return value if value is None or move.scale == 1 else scaled(value, move.scale, arithmetic)


def scaled(value: Array, factor: Exact | sp.Expr, arithmetic: Arithmetic) -> Array:
    """An exact number times an array; -1 is a sign in every arithmetic, and words have a method `times`."""
    if factor == -1:
        return arithmetic.negate(value)
    named = getattr(type(arithmetic), "times", None)
    if named is not None:
        return named(arithmetic, value, factor)
    height, width = arithmetic.shape(value)
    return arithmetic.hadamard(arithmetic.matrix([[factor] * width] * height, (height, width)), value)


def _part(head: NormalisedHead, route: Route, tokens: Tokens, arithmetic: Arithmetic) -> Part:
    """The scores along one route."""
    sources, targets = tokens.count(route.source), tokens.count(route.target)
    if (route.same or route.causal) and sources != targets:
        raise BadInput(f"head {head}: expected equally many tokens along {route}, found {sources} and {targets}")
    total = None
    for term in head.scores:
        key = tokens.block(route.source, term.key, arithmetic)
        query = tokens.block(route.target, term.query, arithmetic)
        if key is None or query is None:
            continue
        if term.weight is not None:
            key = arithmetic.matmul(
                term.weight.array(arithmetic.shape(query)[0], arithmetic.shape(key)[0], arithmetic), key
            )
        scores = arithmetic.matmul(arithmetic.transpose(key), query)
        scores = arithmetic.negate(scores) if term.sign < 0 else scores
        total = scores if total is None else arithmetic.add(total, scores)
    return Part(route, sources, targets, total)


def seen(part: Part) -> NDArray[np.bool_]:
    """Which sources of a part each target sees, shape (sources, targets)."""
    source, target = np.indices((part.sources, part.targets))
    if part.route.same:
        return source == target
    return source <= target if part.route.causal else np.ones_like(source, dtype=bool)


def distribution(kind: str, parts: Sequence[Part], arithmetic: Arithmetic) -> list[Array]:
    """The weights of the sources of each part, shape (sources, targets); a column of all parts together sums to one.

    An arithmetic with a method `distribution` (words) names them instead.
    """
    named = getattr(type(arithmetic), "distribution", None)
    if named is not None:
        return named(arithmetic, kind, parts)
    columns = [
        arithmetic.matrix([[0] * p.targets] * p.sources, (p.sources, p.targets)) if p.scores is None else p.scores
        for p in parts
    ]
    stacked = columns[0] if len(parts) == 1 else arithmetic.stack([[column] for column in columns])
    weights = getattr(arithmetic, kind)(stacked, np.vstack([seen(part) for part in parts]))
    out, start = [], 0
    for part in parts:
        out.append(arithmetic.rows(weights, start, start + part.sources))
        start += part.sources
    return out
