"""The faithful evaluation: P, Q and R as whole matrices, the sequence as one matrix U of shape (width, tokens).

Attention and release share no code with the fused evaluation, so the two check each other; proofs and mutants at the
level of single matrix entries use it too. Cost and memory are those of the matrices as stated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from .arithmetic import Arithmetic, Array
from .errors import Unsupported
from .layers import Forget, LinearAttention, Public, Release, Repeat, Tokenwise
from .layout import Layout
from .mlp import Mlp
from .normalised_attention import LinearMoves, NormalisedAttention
from .parallel import Parallel
from .program import Program
from .routes import mask
from .tokens import Tokens


@dataclass(frozen=True)
class DenseHead:
    """U+ = U + P U M [R o (U' Q U)] with exact matrices: P, Q of shape (width, width), R, M of shape (tokens, tokens).

    M mixes values among the sources; None stands for the identity.
    """

    P: sp.ImmutableSparseMatrix
    Q: sp.ImmutableSparseMatrix
    R: sp.ImmutableSparseMatrix
    M: sp.ImmutableSparseMatrix | None = None

    def delta(self, U: Array, arithmetic: Arithmetic) -> Array:
        """What the head adds to U."""
        P, Q, R = (arithmetic.matrix(exact_rows(m)) for m in (self.P, self.Q, self.R))
        values = arithmetic.matmul(P, U)
        if self.M is not None:
            values = arithmetic.matmul(values, arithmetic.matrix(exact_rows(self.M)))
        scores = arithmetic.matmul(arithmetic.transpose(U), arithmetic.matmul(Q, U))
        return arithmetic.matmul(values, arithmetic.hadamard(R, scores))


def dense_heads(layer: LinearAttention, layout: Layout, counts: dict[str, int]) -> list[DenseHead]:
    """The heads of a layer as matrices; heads with equal value, output, routes, mixing are one (as in P_TD, Q_TD)."""
    out = []
    for heads in layer.merged():
        first = heads[0]
        P = _sum_of_blocks(layout, [(1, first.out, first.value, None)])
        Q = _sum_of_blocks(layout, [(head.sign, head.key, head.query, head.weight) for head in heads])
        out.append(DenseHead(P, Q, mask(first.routes, counts), first.M(counts)))
    return out


@dataclass(frozen=True)
class DenseNormalised:
    """U+ = U + P U A, A the softmax or hardmax (`kind`) of U' Q U, by column, over the pairs where R is not 0."""

    kind: str
    P: sp.ImmutableSparseMatrix
    Q: sp.ImmutableSparseMatrix
    R: sp.ImmutableSparseMatrix

    def delta(self, U: Array, arithmetic: Arithmetic) -> Array:
        """What the head adds to U."""
        P, Q = (arithmetic.matrix(exact_rows(m)) for m in (self.P, self.Q))
        scores = arithmetic.matmul(arithmetic.transpose(U), arithmetic.matmul(Q, U))
        seen = np.zeros(self.R.shape, dtype=bool)
        for pair in self.R.todok():
            seen[pair] = True
        return arithmetic.matmul(arithmetic.matmul(P, U), getattr(arithmetic, self.kind)(scores, seen))


@dataclass(frozen=True)
class DenseMlp:
    """U+ = U + V relu(W U): W of shape (hidden units, width), V of shape (width, hidden units)."""

    W: sp.ImmutableSparseMatrix
    V: sp.ImmutableSparseMatrix

    def delta(self, U: Array, arithmetic: Arithmetic) -> Array:
        """What the block adds to U."""
        W, V = (arithmetic.matrix(exact_rows(m)) for m in (self.W, self.V))
        return arithmetic.matmul(V, arithmetic.relu(arithmetic.matmul(W, U)))


DensePart = DenseHead | DenseNormalised | DenseMlp
"""What a layer adds to U is the sum of its parts' deltas."""


def dense_parts(layer: Any, layout: Layout, counts: dict[str, int]) -> list[DensePart]:
    """The heads of an attention layer, or the one block of a ReLU layer, as matrices."""
    if isinstance(layer, LinearAttention):
        return [*dense_heads(layer, layout, counts)]
    if isinstance(layer, Parallel):
        return [part for inner in layer.layers for part in dense_parts(inner, layout, counts)]
    return [dense_mlp(layer)] if isinstance(layer, Mlp) else [*dense_normalised(layer, layout, counts)]


def dense_normalised(layer: NormalisedAttention, layout: Layout, counts: dict[str, int]) -> list[DensePart]:
    """The heads of a layer as matrices."""
    out: list[DensePart] = []
    for head in layer.heads:
        P = _sum_of_blocks(layout, [(move.scale, move.out, move.value, None) for move in head.moves])
        Q = _sum_of_blocks(layout, [(term.sign, term.key, term.query, term.weight) for term in head.scores])
        R = mask(head.routes, counts)
        out.append(DenseHead(P, Q, R) if isinstance(layer, LinearMoves) else DenseNormalised(layer.kind, P, Q, R))
    return out


def dense_mlp(layer: Mlp) -> DenseMlp:
    """The two matrices of a ReLU block, its groups of units one after another."""
    read: dict[tuple[int, int], Any] = {}
    written: dict[tuple[int, int], Any] = {}
    start = 0
    for group in layer.groups:
        for part in group.reads:
            for (i, j), x in _block(part.weight, group.units, layer.layout[part.field]).items():
                place = (start + i, layer.layout.offset(part.field) + j)
                read[place] = read.get(place, 0) + part.scale * x
        for part in group.writes:
            for (i, j), x in _block(part.weight, layer.layout[part.field], group.units).items():
                place = (layer.layout.offset(part.field) + i, start + j)
                written[place] = written.get(place, 0) + part.scale * x
        start += group.units
    width = layer.layout.width
    return DenseMlp(sp.ImmutableSparseMatrix(start, width, read), sp.ImmutableSparseMatrix(width, start, written))


def _block(weight: Public | None, rows: int, columns: int) -> dict[tuple[int, int], Any]:
    """The entries of a public matrix, or of the identity."""
    if weight is None:
        return {(i, i): sp.Integer(1) for i in range(rows)}
    return sp.SparseMatrix(weight.expression(rows, columns)).todok()


def _sum_of_blocks(layout: Layout, terms: list[tuple[Any, str, str, Public | None]]) -> sp.ImmutableSparseMatrix:
    """Sum of c E_rows' W' E_columns; W None is the identity."""
    entries: dict[tuple[int, int], Any] = {}
    for sign, rows, columns, weight in terms:
        top, left = layout.offset(rows), layout.offset(columns)
        for (i, j), x in _block(None if weight is None else weight.T, layout[rows], layout[columns]).items():
            entries[top + i, left + j] = entries.get((top + i, left + j), 0) + sign * x
    return sp.ImmutableSparseMatrix(layout.width, layout.width, entries)


def assemble(tokens: Tokens, layout: Layout, arithmetic: Arithmetic) -> Array:
    """U of shape (width, tokens): kinds side by side, fields stacked, missing blocks zero."""
    grid = []
    for field in layout:
        line = []
        for kind, count in tokens.counts.items():
            block = tokens.blocks.get((kind, field))
            line.append(arithmetic.matrix([[0] * count] * layout[field]) if block is None else block)
        grid.append(line)
    return arithmetic.stack(grid)


def split(U: Array, counts: dict[str, int], layout: Layout, arithmetic: Arithmetic) -> Tokens:
    """The inverse of `assemble`, with every block present."""
    blocks, start = {}, 0
    for kind, count in counts.items():
        part = arithmetic.columns(U, start, start + count)
        for field in layout:
            top = layout.offset(field)
            blocks[kind, field] = arithmetic.rows(part, top, top + layout[field])
        start += count
    return Tokens(counts, blocks)


def apply_heads(U: Array, parts: Sequence[DensePart], arithmetic: Arithmetic) -> Array:
    """U + sum of what the parts add, all computed from U."""
    out = U
    for part in parts:
        out = arithmetic.add(out, part.delta(U, arithmetic))
    return out


def exact_rows(matrix: sp.MatrixBase) -> list[list[Any]]:
    """A sparse exact matrix as nested lists of ints, fractions and (where its entries have symbols) expressions."""
    rows: list[list[Any]] = [[0] * matrix.cols for _ in range(matrix.rows)]
    for (i, j), value in matrix.todok().items():
        rows[i][j] = _exact(value)
    return rows


def _exact(value: sp.Expr) -> int | Fraction | sp.Expr:
    if value.is_Rational:
        return int(value.p) if value.q == 1 else Fraction(int(value.p), int(value.q))
    return value


def dense_steps(program: Program, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
    """Run a program faithfully, yielding (label, tokens) after each layer, every block present."""
    counts = dict(tokens.counts)
    U = assemble(tokens, program.layout, arithmetic)
    for label, U, counts in _run(list(program.layers), U, counts, program.layout, arithmetic):  # noqa: B020
        yield label, split(U, counts, program.layout, arithmetic)


def _run(layers: list[Any], U: Array, counts: dict, layout: Layout, arithmetic: Arithmetic) -> Iterator[tuple]:
    for layer in layers:
        if isinstance(layer, Repeat):
            for depth in range(1, layer.times + 1):
                for label, U, counts in _run(list(layer.layers), U, counts, layout, arithmetic):  # noqa: B020
                    yield f"{label} {depth}", U, counts
            continue
        if isinstance(layer, LinearAttention | NormalisedAttention | Parallel | Mlp):
            U = apply_heads(U, dense_parts(layer, layout, counts), arithmetic)
        elif isinstance(layer, Tokenwise):
            tokens = split(U, counts, layout, arithmetic)
            ((_, tokens),) = layer.steps(tokens, arithmetic)
            U = assemble(tokens, layout, arithmetic)
        elif isinstance(layer, Release):
            start = sum(list(counts.values())[: list(counts).index(layer.kind)])
            own = range(start, start + counts[layer.kind])
            if layer.gate is None:
                kept: list[int] = []
            else:
                gate = arithmetic.rows(U, layout.offset(layer.gate), layout.offset(layer.gate) + 1)
                live = arithmetic.nonzero(arithmetic.columns(gate, own.start, own.stop))
                kept = [i for i, alive in zip(own, live, strict=True) if alive]
            U = arithmetic.select(U, [i for i in range(sum(counts.values())) if i not in own or i in kept])
            counts = {k: len(kept) if k == layer.kind else c for k, c in counts.items()}
            if layer.gate is None:
                del counts[layer.kind]
        elif isinstance(layer, Forget):
            tokens = split(U, counts, layout, arithmetic).narrowed(layer.keep)
            U = assemble(tokens, layout, arithmetic)
        else:
            raise Unsupported(f"faithful evaluation: no rule for a layer of type {type(layer).__name__}")
        yield layer.label, U, counts
