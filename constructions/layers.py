"""Layers: linear attention with public routes, token-wise primitives, release, repetition.

A head adds, to field `out` of every target token i, sign * sum over its sources j of value_j <key_j, query_i>. As
matrices over whole tokens (theory A1): U+ = U + P U [R o (U' Q U)] with P = sign E_out' E_value, Q = E_key' E_query and
R the 0/1 mask of the routes. Routes depend on token kinds and public indices only, never on task values.

A head may hold two public matrices. With a weight W its scores are <W key_j, query_i>, so Q = E_key' W' E_query. With a
mixing T the values travel among its sources first: source j offers sum_i T_ij value_i, so U+ = U + P U M [R o (U' Q U)]
where M is T on the sources. (A trace decay, or a running mean, is such a T.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import sympy as sp

from .arithmetic import Arithmetic, Array, Exact
from .errors import BadInput
from .layout import Layout, Size, block_matrix, is_concrete
from .routes import Route as Route
from .routes import full as full
from .routes import routes_text
from .routes import same as same
from .tokens import Span, Tokens

if TYPE_CHECKING:
    from .mlp import Mlp
    from .normalised_attention import NormalisedAttention
    from .parallel import Parallel
    from .recurrent.delta_rule import DeltaRule

PRIMITIVES = ("recip_0", "rsqrt_0", "eq0", "relu", "exp", "log")
"""The declared token-wise primitives, methods of `Arithmetic`; eq0(x) = 1 - x recip_0(x) is 1 at 0 and else 0."""

ZERO_TO_ZERO = ("recip_0", "rsqrt_0", "relu")
"""The primitives that map 0 to 0, and so leave a block alone that is structurally zero."""


Rows = Sequence[Sequence[Exact | sp.Expr]]


@dataclass(frozen=True)
class Public:
    """A public matrix: it depends on sizes and public constants only, never on task values.

    Attributes:
        name: by which it is printed, and which stands for it where it is a symbol.
        entries: (rows, columns) -> exact entries, or polynomials in sympy symbols; None for a symbol without a value.
        transposed: whether the transpose of the matrix of that name is meant.
    """

    name: str
    entries: Callable[[int, int], Rows] | None = None
    transposed: bool = False

    @property
    def T(self) -> Public:
        """The transpose."""
        return Public(self.name, self.entries, not self.transposed)

    def rows(self, rows: int, columns: int) -> Rows:
        """The entries, shape (rows, columns).

        Raises:
            BadInput: a symbol without a value.
        """
        if self.entries is None:
            raise BadInput(f"public matrix {self.name}: expected entries, found a symbol without a value")
        if self.transposed:
            return list(zip(*self.entries(columns, rows), strict=True))
        return self.entries(rows, columns)

    def array(self, rows: Size, columns: Size, arithmetic: Arithmetic) -> Array:
        """The matrix in an arithmetic; one with a method `symbol` (words) keeps its name instead of its entries."""
        symbol = getattr(type(arithmetic), "symbol", None)
        if symbol is None:
            return _public_array(self, rows, columns, arithmetic)  # type: ignore[arg-type]
        if self.transposed:
            return arithmetic.transpose(symbol(arithmetic, self.name, columns, rows))
        return symbol(arithmetic, self.name, rows, columns)

    def expression(self, rows: Size, columns: Size) -> sp.MatrixBase | sp.MatrixExpr:
        """The matrix in sympy: entries at concrete sizes, a `MatrixSymbol` at symbolic ones or without entries."""
        if is_concrete(rows, columns) and self.entries is not None:
            entries = [sp.sympify(x) for row in self.rows(rows, columns) for x in row]
            return sp.ImmutableDenseMatrix(rows, columns, entries)
        if self.transposed:
            return sp.MatrixSymbol(self.name, columns, rows).T
        return sp.MatrixSymbol(self.name, rows, columns)

    def __str__(self) -> str:
        return self.name + ("'" if self.transposed else "")


@lru_cache(maxsize=8)
def _public_array(matrix: Public, rows: int, columns: int, arithmetic: Any) -> Array:
    """Made once for all the layers that repeat it; an arithmetic may keep public matrices in a format of their own."""
    make = getattr(arithmetic, "public_matrix", arithmetic.matrix)
    return make(matrix.rows(rows, columns), (rows, columns))


def fixed(name: str, entries: Sequence[Sequence[Exact]]) -> Public:
    """The public matrix with these entries, of one shape only."""
    kept = tuple(map(tuple, entries))

    def given(rows: int, columns: int) -> Rows:
        if (rows, columns) != (len(kept), len(kept[0])):
            found = f"{len(kept)} x {len(kept[0])}"
            raise BadInput(f"public matrix {name}: expected {rows} rows and {columns} columns, found {found}")
        return kept

    return Public(name, given)


@dataclass(frozen=True)
class Head:
    """One linear-attention head `sign (value, key, query; out)` along its routes; selectors are whole fields.

    Attributes:
        weight: W of shape (width of query, width of key) in the score <W key, query>; None means the identity.
        mixing: T of shape (sources, sources), by which source j offers sum_i T_ij value_i; None means the identity.
    """

    value: str
    key: str
    query: str
    out: str
    routes: tuple[Route, ...]
    sign: int = 1
    weight: Public | None = None
    mixing: Public | None = None

    def check(self, layout: Layout) -> None:
        """Raise `BadInput` unless the selectors fit the layout."""
        if self.sign not in (1, -1):
            raise BadInput(f"head {self}: expected a sign of 1 or -1, found {self.sign}")
        matched = ((self.value, self.out), (self.key, self.query))
        for left, right in matched if self.weight is None else matched[:1]:
            if layout[left] != layout[right]:
                raise BadInput(
                    f"head {self}: expected equal widths, found {left}:{layout[left]} and {right}:{layout[right]}"
                )
        if self.mixing is not None:
            spans = dict.fromkeys(str(route.source) for route in self.routes)
            if len(spans) > 1:
                raise BadInput(f"head {self}: expected one span of sources with a mixing, found {', '.join(spans)}")

    def P(self, layout: Layout) -> sp.MatrixBase | sp.MatrixExpr:
        """sign E_out' E_value, shape (width, width)."""
        return _selector_product(layout, self.out, self.value, self.sign, None)

    def Q(self, layout: Layout) -> sp.MatrixBase | sp.MatrixExpr:
        """E_key' W' E_query, shape (width, width)."""
        return _selector_product(layout, self.key, self.query, 1, self.weight)

    def M(self, counts: dict[str, int]) -> sp.ImmutableSparseMatrix | None:
        """The mixing among all tokens, shape (tokens, tokens): T on the sources, zero elsewhere; None without one."""
        if self.mixing is None or not self.routes:
            return None
        span = self.routes[0].source
        start = sum(list(counts.values())[: list(counts).index(span.kind)]) + span.start
        size = span.size(counts[span.kind])
        entries = sp.SparseMatrix(self.mixing.expression(size, size)).todok()
        total = sum(counts.values())
        return sp.ImmutableSparseMatrix(total, total, {(start + i, start + j): x for (i, j), x in entries.items()})

    def __str__(self) -> str:
        sign = "+" if self.sign > 0 else "-"
        value = self.value if self.mixing is None else f"{self.value} {self.mixing}"
        key = self.key if self.weight is None else f"{self.weight} {self.key}"
        return f"{sign}({value}, {key}, {self.query}; {self.out})"


def _selector_product(
    layout: Layout, rows: str, columns: str, sign: int, weight: Public | None
) -> sp.MatrixBase | sp.MatrixExpr:
    names, widths = list(layout), list(layout.widths.values())
    if weight is not None:
        block = weight.T.expression(layout[rows], layout[columns])
    else:
        block = sp.Identity(layout[rows]) if not isinstance(layout[rows], int) else sp.SparseMatrix.eye(layout[rows])
    block = sign * block if sign != 1 else block
    return block_matrix(widths, widths, {(names.index(rows), names.index(columns)): block})


@dataclass(frozen=True)
class LinearAttention:
    """Parallel heads on the same input; their outputs are added to it."""

    heads: tuple[Head, ...]
    label: str = ""

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        yield self.label, added(tokens, self.deltas(tokens, arithmetic), arithmetic)

    def deltas(self, tokens: Tokens, arithmetic: Arithmetic) -> list[Delta]:
        """What the heads add."""
        return [
            (route.target, head.out, delta)
            for head in self.heads
            for route in head.routes
            if (delta := attend(head, route, tokens, arithmetic)) is not None
        ]

    def merged(self) -> list[tuple[Head, ...]]:
        """The heads in groups that are one head as matrices: equal value, output, routes and mixing."""
        groups: dict[tuple[str, str, tuple[Route, ...], Public | None], list[Head]] = {}
        for head in self.heads:
            groups.setdefault((head.value, head.out, head.routes, head.mixing), []).append(head)
        return [tuple(heads) for heads in groups.values()]

    def describe(self) -> list[tuple[str, str]]:
        """(label, text) a line."""
        return labelled(self.label, [f"{head!s:<24} {routes_text(head.routes)}" for head in self.heads])


Delta = tuple[Span, str, Array]
"""Something to be added to a field of the tokens of a span."""


def added(tokens: Tokens, deltas: Sequence[Delta], arithmetic: Arithmetic) -> Tokens:
    """The tokens with every delta added."""
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
    return tokens.replacing(blocks)


def labelled(label: str, texts: list[str]) -> list[tuple[str, str]]:
    """Lines of `describe` that share one label."""
    return [(label if i == 0 else "", text) for i, text in enumerate(texts)]


def attend(head: Head, route: Route, tokens: Tokens, arithmetic: Arithmetic) -> Array | None:
    """What one head adds along one route; None where a factor is structurally zero."""
    sources, targets = tokens.count(route.source), tokens.count(route.target)
    if (route.same or route.causal) and sources != targets:
        raise BadInput(f"head {head}: expected equally many tokens along {route}, found {sources} and {targets}")
    value = tokens.block(route.source, head.value, arithmetic)
    key = tokens.block(route.source, head.key, arithmetic)
    query = tokens.block(route.target, head.query, arithmetic)
    if value is None or key is None or query is None:
        return None
    if head.weight is not None:
        heights = arithmetic.shape(query)[0], arithmetic.shape(key)[0]
        key = arithmetic.matmul(head.weight.array(*heights, arithmetic), key)
    if head.mixing is not None:
        value = arithmetic.matmul(value, head.mixing.array(sources, sources, arithmetic))
    if route.same:
        delta = arithmetic.scale_columns(value, arithmetic.dots(key, query))
    elif route.causal:
        before = arithmetic.matrix([[int(j <= i) for i in range(targets)] for j in range(sources)])
        scores = arithmetic.matmul(arithmetic.transpose(key), query)
        delta = arithmetic.matmul(value, arithmetic.hadamard(before, scores))
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
            if self.primitive in ZERO_TO_ZERO:
                yield self.label, tokens
                return
            old = tokens.read(self.span.kind, self.field, 1, arithmetic)
            tokens = tokens.replacing({(self.span.kind, self.field): old})
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


Layer: TypeAlias = (
    "LinearAttention | NormalisedAttention | Parallel | Mlp | DeltaRule | Tokenwise | Release | Forget | Repeat"
)
