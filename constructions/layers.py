"""Layers: linear attention with public routes, token-wise primitives, release, repetition.

A head adds, to field `out` of every target token i, sign * sum over its sources j of value_j <key_j, query_i>. As
matrices over whole tokens (theory A1): U+ = U + P U [R o (U' Q U)] with P = sign E_out' E_value, Q = E_key' E_query and
R the 0/1 mask of the routes. Routes depend on token kinds and public indices only, never on task values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from .arithmetic import Arithmetic, Array
from .errors import BadInput
from .layout import Layout, Size, block_matrix
from .tokens import Span, Tokens

PRIMITIVES = ("recip_0", "rsqrt_0")
"""The declared token-wise primitives; each is a method of `Arithmetic`, and each maps 0 to 0."""


@dataclass(frozen=True)
class Route:
    """Which sources a target sees: all of them (`=>`), or the one with the same place in its span (`->`)."""

    source: Span
    target: Span
    same: bool = False

    def __str__(self) -> str:
        return f"{self.source} {'->' if self.same else '=>'} {self.target}"


def full(source: str | Span, target: str | Span) -> Route:
    """Every source token to every target token."""
    return Route(_span(source), _span(target))


def same(source: str | Span, target: str | Span) -> Route:
    """The i-th source token to the i-th target token; the spans have equal sizes."""
    return Route(_span(source), _span(target), same=True)


def _span(span: str | Span) -> Span:
    return Span(span) if isinstance(span, str) else span


@dataclass(frozen=True)
class Head:
    """One linear-attention head `sign (value, key, query; out)` along its routes; selectors are whole fields."""

    value: str
    key: str
    query: str
    out: str
    routes: tuple[Route, ...]
    sign: int = 1

    def check(self, layout: Layout) -> None:
        """Raise `BadInput` unless the selectors fit the layout."""
        if self.sign not in (1, -1):
            raise BadInput(f"head {self}: expected a sign of 1 or -1, found {self.sign}")
        for left, right in ((self.value, self.out), (self.key, self.query)):
            if layout[left] != layout[right]:
                raise BadInput(
                    f"head {self}: expected equal widths, found {left}:{layout[left]} and {right}:{layout[right]}"
                )

    def P(self, layout: Layout) -> sp.MatrixBase | sp.MatrixExpr:
        """sign E_out' E_value, shape (width, width)."""
        return _selector_product(layout, self.out, self.value, self.sign)

    def Q(self, layout: Layout) -> sp.MatrixBase | sp.MatrixExpr:
        """E_key' E_query, shape (width, width)."""
        return _selector_product(layout, self.key, self.query, 1)

    def __str__(self) -> str:
        sign = "+" if self.sign > 0 else "-"
        return f"{sign}({self.value}, {self.key}, {self.query}; {self.out})"


def _selector_product(layout: Layout, rows: str, columns: str, sign: int) -> sp.MatrixBase | sp.MatrixExpr:
    names, widths = list(layout), list(layout.widths.values())
    identity = sp.Identity(layout[rows]) if not isinstance(layout[rows], int) else sp.SparseMatrix.eye(layout[rows])
    block = sign * identity if sign != 1 else identity
    return block_matrix(widths, widths, {(names.index(rows), names.index(columns)): block})


def mask(routes: Sequence[Route], counts: dict[str, int]) -> sp.ImmutableSparseMatrix:
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
        pairs = zip(*ranges, strict=True) if route.same else ((j, i) for j in ranges[0] for i in ranges[1])
        for pair in pairs:
            entries[pair] = entries.get(pair, 0) + 1
    return sp.ImmutableSparseMatrix(total, total, entries)


@dataclass(frozen=True)
class LinearAttention:
    """Parallel heads on the same input; their outputs are added to it."""

    heads: tuple[Head, ...]
    label: str = ""

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        deltas = [
            (route.target, head.out, delta)
            for head in self.heads
            for route in head.routes
            if (delta := attend(head, route, tokens, arithmetic)) is not None
        ]
        blocks: dict[tuple[str, str], Array] = {}
        for target, field, delta in deltas:
            key = (target.kind, field)
            old = blocks.get(key, tokens.blocks.get(key))
            if target.whole:
                blocks[key] = delta if old is None else arithmetic.add(old, delta)
            elif old is None:
                blocks[key] = arithmetic.embed(delta, target.start, tokens.total(target.kind))
            else:
                blocks[key] = arithmetic.add_columns(old, target.start, delta)
        yield self.label, tokens.replacing(blocks)

    def merged(self) -> list[tuple[str, str, tuple[Route, ...], list[tuple[int, str, str]]]]:
        """Heads with the same value, output and routes as one: (value, out, routes, [(sign, key, query), ..])."""
        groups: dict[tuple[str, str, tuple[Route, ...]], list[tuple[int, str, str]]] = {}
        for head in self.heads:
            groups.setdefault((head.value, head.out, head.routes), []).append((head.sign, head.key, head.query))
        return [(*key, terms) for key, terms in groups.items()]

    def describe(self) -> list[tuple[str, str]]:
        """(label, text) a line."""
        return _labelled(self.label, [f"{head!s:<24} {', '.join(map(str, head.routes))}" for head in self.heads])


def _labelled(label: str, texts: list[str]) -> list[tuple[str, str]]:
    return [(label if i == 0 else "", text) for i, text in enumerate(texts)]


def attend(head: Head, route: Route, tokens: Tokens, arithmetic: Arithmetic) -> Array | None:
    """What one head adds along one route; None where a factor is structurally zero."""
    sources, targets = tokens.count(route.source), tokens.count(route.target)
    if route.same and sources != targets:
        raise BadInput(f"head {head}: expected equally many tokens along {route}, found {sources} and {targets}")
    value = tokens.block(route.source, head.value, arithmetic)
    key = tokens.block(route.source, head.key, arithmetic)
    query = tokens.block(route.target, head.query, arithmetic)
    if value is None or key is None or query is None:
        return None
    if route.same:
        delta = arithmetic.scale_columns(value, arithmetic.dots(key, query))
    else:
        # V (K' Q) or (V K') Q: whichever multiplies less. Symbolic sizes take the first; the product is the same.
        v, k = arithmetic.shape(value)[0], arithmetic.shape(key)[0]
        sizes = (v, k, sources, targets)
        if all(isinstance(size, int) for size in sizes) and v * k * (sources + targets) < sources * targets * (v + k):
            delta = arithmetic.matmul(arithmetic.matmul(value, arithmetic.transpose(key)), query)
        else:
            delta = arithmetic.matmul(value, arithmetic.matmul(arithmetic.transpose(key), query))
    return arithmetic.negate(delta) if head.sign < 0 else delta


@dataclass(frozen=True)
class Tokenwise:
    """One declared primitive, applied in place to a field of some tokens."""

    primitive: str
    span: Span
    field: str
    label: str = ""

    def __post_init__(self) -> None:
        if self.primitive not in PRIMITIVES:
            raise BadInput(f"token-wise layer: expected one of {', '.join(PRIMITIVES)}, found {self.primitive}")

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        old = tokens.blocks.get((self.span.kind, self.field))
        if old is None:
            yield self.label, tokens
            return
        part = tokens.block(self.span, self.field, arithmetic)
        new = getattr(arithmetic, self.primitive)(part)
        if not self.span.whole:
            total = tokens.total(self.span.kind)
            stop = total if self.span.stop is None else self.span.stop
            pieces = [arithmetic.columns(old, 0, self.span.start), new, arithmetic.columns(old, stop, total)]
            new = arithmetic.stack([[p for p in pieces if arithmetic.shape(p)[1]]])
        yield self.label, tokens.replacing({(self.span.kind, self.field): new})

    def describe(self) -> list[tuple[str, str]]:
        return [(self.label, f"{self.field} <- {self.primitive}({self.field})".ljust(24) + f" {self.span}")]


@dataclass(frozen=True)
class Release:
    """Drop all tokens of a kind, or (with `gate`) those whose one-coordinate field `gate` is zero."""

    kind: str
    gate: str | None = None
    label: str = ""

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        if self.gate is None:
            yield self.label, tokens.without(self.kind)
            return
        gate = tokens.blocks.get((self.kind, self.gate))
        kept = [] if gate is None else [i for i, live in enumerate(arithmetic.nonzero(gate)) if live]
        yield self.label, tokens.selected(self.kind, kept, arithmetic)

    def describe(self) -> list[tuple[str, str]]:
        return [(self.label, f"release {self.kind}" + (f" where {self.gate} = 0" if self.gate else ""))]


@dataclass(frozen=True)
class Forget:
    """Drop every field but those named: the registers that need not stay."""

    keep: tuple[str, ...]
    label: str = ""

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        yield self.label, tokens.narrowed(self.keep)

    def describe(self) -> list[tuple[str, str]]:
        return [(self.label, f"keep the fields {', '.join(self.keep)} only")]


@dataclass(frozen=True)
class Repeat:
    """The same layers, a public number of times."""

    layers: tuple[Any, ...]
    times: Size

    def __post_init__(self) -> None:
        if isinstance(self.times, int) and self.times < 0:
            raise BadInput(f"repeat: expected a non-negative number of times, found {self.times}")

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        for depth in range(1, self.times + 1):
            for layer in self.layers:
                for label, tokens in layer.steps(tokens, arithmetic):  # noqa: B020 (the state is threaded through)
                    yield f"{label} {depth}", tokens

    def describe(self) -> list[tuple[str, str]]:
        inner = [line for layer in self.layers for line in layer.describe()]
        return [("repeat", f"{self.times} times:"), *(("  " + label, text) for label, text in inner)]


Layer = LinearAttention | Tokenwise | Release | Forget | Repeat
