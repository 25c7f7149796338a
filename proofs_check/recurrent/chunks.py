"""Chunks of the gated delta rule for all sizes, by words: one token, one token more, two chunks (theory F1, F2, F6).

`constructions.recurrent.delta_rule` is run on letters: a chunk of C tokens is six letters, a token five. What the grown
chunk does to a generic state must be what the recurrence does, written here from its definition. Since a chunk starts
with one token and grows by tokens or by chunks, the three steps prove every chunk, of every size, in every bracketing;
gates are letters too, so nothing is used of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import sympy as sp

from constructions.recurrent.delta_rule import Chunk, Token, affine_map, append, final_state, merge, outputs, single

from ..block_words import BlockWords, Grid, factored, free_point, grid, prove_blocks, with_matrices, word_changes
from ..claim import Finding
from ..generic_layer import Point
from ..mutants import Mutant
from ..words import identity, letter, rule, zero

C, D, D_V = sp.symbols("C d_k d_v", integer=True, positive=True)
SIZES = {C: 2, C + 1: 3, D: 3, D_V: 2}
"""Where a wrong identity is refuted."""
WORDS: Any = BlockWords()
STATE = grid([letter("S", D_V, D)])
FIELDS = tuple(field.name for field in fields(Chunk))


@dataclass(frozen=True)
class Grown:
    """A chunk as it was built, and the state and outputs that the recurrence gives to `STATE`.

    Attributes:
        name: how it was built.
        chunk: what was built.
        state, outputs: what the recurrence gives.
        written: the state as it is made of the one before the last step, a sum of products.
    """

    name: str
    chunk: Chunk
    state: Grid
    outputs: Grid
    written: Sequence[Sequence[Grid]]


def generic_token(mark: str = "") -> Token:
    """k, v, q, b, A as letters."""
    shapes = {"k": (D, 1), "v": (D_V, 1), "q": (D, 1), "b": (1, 1), "A": (D, D)}
    return Token(*(grid([letter(name + mark, *shapes[name])]) for name in ("k", "v", "q", "b", "A")))


def generic_chunk(mark: str = "") -> Chunk:
    """H, W, Z, G, P, R as letters."""
    shapes = {"H": (D, C), "W": (D, C), "Z": (D_V, C), "G": (D, D), "P": (D, C), "R": (D_V, C)}
    return Chunk(*(grid([letter(name + mark, *shape)]) for name, shape in shapes.items()))


def recurrence(state: Grid, token: Token) -> Grid:
    """S A (I - k b k') + v b k'."""
    (before, gate, moved), (value, rate, key) = written(state, token)
    return before @ gate @ moved + value @ rate @ key


def written(state: Grid, token: Token) -> tuple[tuple[Grid, Grid, Grid], tuple[Grid, Grid, Grid]]:
    """The recurrence as a sum of products."""
    moved = grid([identity(D)]) - token.key @ token.rate @ token.key.T
    return (state, token.gate, moved), (token.value, token.rate, token.key.T)


def grown() -> list[Grown]:
    """The three ways in which a chunk comes to be."""
    token, chunk, other = generic_token(), generic_chunk("1"), generic_chunk("2")
    after = recurrence(STATE, token)
    before, read = final_state(chunk, STATE, WORDS), outputs(chunk, STATE, WORDS)
    later = recurrence(before, token)
    moved, added = affine_map(other, WORDS)
    stack = WORDS.stack
    return [
        Grown("one token", single(token, WORDS), after, after @ token.query, written(STATE, token)),
        Grown(
            "a token more",
            append(chunk, token, WORDS),
            later,
            stack([[read, later @ token.query]]),
            written(before, token),
        ),
        Grown(
            "two chunks",
            merge(chunk, other, WORDS),
            final_state(other, before, WORDS),
            stack([[read, outputs(other, before, WORDS)]]),
            ((before, moved), (added,)),
        ),
    ]


def prove_grown(subjects: Sequence[Grown]) -> Finding:
    """Every chunk does to a generic state what the recurrence does."""
    parts = {}
    for subject in subjects:
        identities = {
            "state": (final_state(subject.chunk, STATE, WORDS), subject.state),
            "outputs": (outputs(subject.chunk, STATE, WORDS), subject.outputs),
        }
        finding = prove_blocks(identities, [], free_point(SIZES, identities))
        built = {name: getattr(subject.chunk, name) for name in ("keys", "weights", "values", "gate")}
        parts[subject.name] = with_matrices(factored(finding, {"state": subject.written}), built)
    return Finding.all_of(parts)


def prove_system(subjects: Sequence[Grown]) -> Finding:
    """W (I + L)' = [.., g_i k_i b_i, ..] and Z (I + L)' = [.., v_i b_i, ..] survive a token, and start with one.

    L gains the row (A'H)'k b, the last column of (I + L)' is that row transposed above 1. L is strictly lower
    triangular, so the solutions are W' = T diag(b g) K and Z' = T diag(b) V.
    """
    first, more = (next(x.chunk for x in subjects if x.name == name) for name in ("one token", "a token more"))
    token, chunk = generic_token(), generic_chunk("1")
    N, X, Y = letter("N", C, C), letter("X", D, C), letter("Y", D_V, C)
    (H,), (A,), (k,), (b,), (v,), (G,) = (
        x.blocks[0] for x in (chunk.keys, token.gate, token.key, token.rate, token.value, chunk.gate)
    )
    grown = grid([N, H.T @ A @ k @ b], [zero(1, C), identity(1)])
    (W,), (Z,) = chunk.weights.blocks[0], chunk.values.blocks[0]
    start = {"W of one token": (first.weights, grid([A @ k @ b])), "Z of one token": (first.values, grid([v @ b]))}
    step = {
        "W (I + L)'": (more.weights @ grown, grid([X, G @ A @ k @ b])),
        "Z (I + L)'": (more.values @ grown, grid([Y, v @ b])),
    }
    # Where the hypotheses hold: X = W N and Y = Z N.
    free = free_point(SIZES, {**start, **step})

    def sample(rng: random.Random) -> Point:
        values, sizes = free(rng)
        return {**values, "X": values["W1"] * values["N"], "Y": values["Z1"] * values["N"]}, sizes

    rules = [*rule(W @ N, X), *rule(Z @ N, Y)]
    return Finding.all_of(
        {
            "start": prove_blocks(start, [], free_point(SIZES, start)),
            "step": prove_blocks(step, rules, sample),
        }
    )


def grown_mutants(subjects: Sequence[Grown]) -> Iterator[Mutant]:
    """One word of one block of a grown chunk dropped or turned."""
    for i, subject in enumerate(subjects):
        for field in FIELDS:
            for text, changed in word_changes(getattr(subject.chunk, field)):
                new = replace(subject, chunk=replace(subject.chunk, **{field: changed}))
                yield Mutant("word", f"{subject.name}: {field}, {text}", [*subjects[:i], new, *subjects[i + 1 :]])


def system_mutants(subjects: Sequence[Grown]) -> Iterator[Mutant]:
    """Those of the columns that the system determines."""
    for mutant in grown_mutants(subjects):
        if not mutant.text.startswith("two chunks") and (": weights" in mutant.text or ": values" in mutant.text):
            yield mutant


@dataclass(frozen=True)
class Brackets:
    """Three chunks merged in both ways."""

    left: Chunk
    right: Chunk


def brackets() -> Brackets:
    """(1 2) 3 and 1 (2 3) of generic chunks."""
    a, b, c = (generic_chunk(mark) for mark in "123")
    return Brackets(merge(merge(a, b, WORDS), c, WORDS), merge(a, merge(b, c, WORDS), WORDS))


def prove_monoid(subject: Brackets) -> Finding:
    """Both brackets are one chunk, word by word; and the map of two chunks is the map of one after the other."""
    identities = {field: (getattr(subject.left, field), getattr(subject.right, field)) for field in FIELDS}
    a, b = generic_chunk("1"), generic_chunk("2")
    (M1, B1), (M2, B2), (M, B) = (affine_map(x, WORDS) for x in (a, b, merge(a, b, WORDS)))
    identities.update({"M = M_1 M_2": (M, M1 @ M2), "B = B_1 M_2 + B_2": (B, B1 @ M2 + B2)})
    finding = prove_blocks(identities, [], free_point(SIZES, identities))
    return factored(finding, {"M = M_1 M_2": [[M1, M2]], "B = B_1 M_2 + B_2": [[B1, M2], [B2]]})


def bracket_mutants(subject: Brackets) -> Iterator[Mutant]:
    """One word of one block of one bracket."""
    for field in FIELDS:
        for text, changed in word_changes(getattr(subject.left, field)):
            left = replace(subject.left, **{field: changed})
            yield Mutant("word", f"{field}, {text}", replace(subject, left=left))
