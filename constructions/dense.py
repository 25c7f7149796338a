"""The faithful evaluation: P, Q and R as whole matrices, the sequence as one matrix U of shape (width, tokens).

Attention and release share no code with the fused evaluation, so the two check each other; proofs and mutants at the
level of single matrix entries use it too. Cost and memory are those of the matrices as stated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy as sp

from .arithmetic import Arithmetic, Array
from .errors import Unsupported
from .layers import Forget, LinearAttention, Release, Repeat, Tokenwise, mask
from .layout import Layout
from .program import Program
from .tokens import Tokens


@dataclass(frozen=True)
class DenseHead:
    """U+ = U + P U [R o (U' Q U)] with exact matrices: P, Q of shape (width, width), R of shape (tokens, tokens)."""

    P: sp.ImmutableSparseMatrix
    Q: sp.ImmutableSparseMatrix
    R: sp.ImmutableSparseMatrix


def dense_heads(layer: LinearAttention, layout: Layout, counts: dict[str, int]) -> list[DenseHead]:
    """The heads of a layer as matrices; heads with equal value, output and routes are one (as in P_TD, Q_TD)."""
    out = []
    for value, target, routes, terms in layer.merged():
        P = _sum_of_selectors(layout, [(1, target, value)])
        Q = _sum_of_selectors(layout, terms)
        out.append(DenseHead(P, Q, mask(routes, counts)))
    return out


def _sum_of_selectors(layout: Layout, terms: list[tuple[int, str, str]]) -> sp.ImmutableSparseMatrix:
    entries: dict[tuple[int, int], int] = {}
    for sign, rows, columns in terms:
        top, left = layout.offset(rows), layout.offset(columns)
        for i in range(layout[rows]):
            entries[top + i, left + i] = entries.get((top + i, left + i), 0) + sign
    return sp.ImmutableSparseMatrix(layout.width, layout.width, entries)


def assemble(tokens: Tokens, layout: Layout, arithmetic: Arithmetic) -> Array:
    """U of shape (width, tokens): kinds side by side, fields stacked, missing blocks zero."""
    grid = []
    for field in layout:
        line = []
        for kind, count in tokens.counts.items():
            if count == 0:
                continue
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


def apply_heads(U: Array, heads: list[DenseHead], arithmetic: Arithmetic) -> Array:
    """U + sum over heads of P U [R o (U' Q U)]."""
    out = U
    for head in heads:
        P, Q, R = (arithmetic.matrix(integer_rows(m)) for m in (head.P, head.Q, head.R))
        scores = arithmetic.matmul(arithmetic.transpose(U), arithmetic.matmul(Q, U))
        out = arithmetic.add(out, arithmetic.matmul(arithmetic.matmul(P, U), arithmetic.hadamard(R, scores)))
    return out


def integer_rows(matrix: sp.MatrixBase) -> list[list[int]]:
    """A sparse integer matrix as nested lists of ints."""
    rows = [[0] * matrix.cols for _ in range(matrix.rows)]
    for (i, j), value in matrix.todok().items():
        rows[i][j] = int(value)
    return rows


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
        if isinstance(layer, LinearAttention):
            U = apply_heads(U, dense_heads(layer, layout, counts), arithmetic)
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
