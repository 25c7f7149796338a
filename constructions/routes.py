"""Routes: which tokens a head's targets see, by token kinds and public places only, never by task values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import sympy as sp

from .errors import BadInput
from .tokens import Span


@dataclass(frozen=True)
class Route:
    """Which sources a target sees: all (`=>`), or the one with the same place in its span (`->`), or, with `causal`,
    those up to that place (`>>`)."""

    source: Span
    target: Span
    same: bool = False
    causal: bool = False

    def __post_init__(self) -> None:
        if self.same and self.causal:
            raise BadInput(f"route {self}: expected one relation, found both same and causal")

    def __str__(self) -> str:
        return f"{self.source} {'->' if self.same else '>>' if self.causal else '=>'} {self.target}"

    def sees(self, source: int, target: int) -> bool:
        """Whether a target sees a source, by their places in their spans."""
        if self.same:
            return source == target
        return source <= target if self.causal else True


def full(source: str | Span, target: str | Span) -> Route:
    """Every source token to every target token."""
    return Route(_span(source), _span(target))


def same(source: str | Span, target: str | Span) -> Route:
    """The i-th source token to the i-th target token; the spans have equal sizes."""
    return Route(_span(source), _span(target), same=True)


def causal(source: str | Span, target: str | Span) -> Route:
    """The first i source tokens to the i-th target token; the spans have equal sizes."""
    return Route(_span(source), _span(target), causal=True)


def causal_routes(kinds: Sequence[str]) -> tuple[Route, ...]:
    """The causal mask of a sequence that holds these kinds in order: each token sees itself and all before it."""
    return tuple(
        causal(kind, kind) if kind == target else full(kind, target)
        for i, target in enumerate(kinds)
        for kind in kinds[: i + 1]
    )


def routes_text(routes: Sequence[Route]) -> str:
    """The routes as text; a causal mask by its kinds."""
    kinds = tuple(dict.fromkeys(route.target.kind for route in routes))
    if routes and tuple(routes) == causal_routes(kinds):
        return f"causal: {', '.join(kinds)}"
    return ", ".join(map(str, routes))


def _span(span: str | Span) -> Span:
    return Span(span) if isinstance(span, str) else span


def mask(routes: Sequence[Route], counts: Mapping[str, int]) -> sp.ImmutableSparseMatrix:
    """R, shape (tokens, tokens), entry (j, i) = how often source j reaches target i: 0 or 1 for disjoint routes."""
    starts, total = {}, 0
    for kind, count in counts.items():
        starts[kind] = total
        total += count
    entries: dict[tuple[int, int], int] = {}
    for route in routes:
        ranges = []
        for span in (route.source, route.target):
            stop = counts[span.kind] if span.stop is None else span.stop
            ranges.append(range(starts[span.kind] + span.start, starts[span.kind] + stop))
        if (route.same or route.causal) and len(ranges[0]) != len(ranges[1]):
            found = f"{len(ranges[0])} and {len(ranges[1])}"
            raise BadInput(f"mask: expected equally many tokens along {route}, found {found}")
        if route.same:
            pairs = list(zip(*ranges, strict=True))
        else:
            placed = product(enumerate(ranges[0]), enumerate(ranges[1]))
            pairs = [(j, i) for (source, j), (target, i) in placed if route.sees(source, target)]
        for pair in pairs:
            entries[pair] = entries.get(pair, 0) + 1
    return sp.ImmutableSparseMatrix(total, total, entries)
