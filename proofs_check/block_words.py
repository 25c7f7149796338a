"""Matrices of words: an `Arithmetic` in which `stack` keeps its blocks, so that growing matrices are proved at once.

A row of tokens that gains one is [X, x]; products of such blocks are blocks of words again, whatever the sizes. A
matrix that has one block is a plain sum of words.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from constructions.errors import Unsupported

from .claim import Finding, Verdict, rational, table
from .generic_layer import Point, first_difference, prove_words, random_matrix
from .records import word_blocks
from .words import Letter, Rule, Words, evaluate, normal_form, spell, zero


@dataclass(frozen=True)
class Grid:
    """A matrix of blocks; blocks of a row have equal heights, those of a column equal widths."""

    blocks: tuple[tuple[Words, ...], ...]

    @property
    def T(self) -> Grid:
        """The transpose."""
        return Grid(tuple(tuple(block.T for block in column) for column in zip(*self.blocks, strict=True)))

    @property
    def whole(self) -> Words:
        """The only block.

        Raises:
            Unsupported: there are several.
        """
        if len(self.blocks) != 1 or len(self.blocks[0]) != 1:
            raise Unsupported(f"matrix of words: expected one block, found {len(self.blocks)} x {len(self.blocks[0])}")
        return self.blocks[0][0]

    def under(self, rules: Sequence[Rule]) -> Grid:
        """The normal forms of the blocks under hypotheses."""
        return Grid(tuple(tuple(normal_form(block, rules) for block in row) for row in self.blocks))

    def __add__(self, other: Grid) -> Grid:
        rows = zip(self.blocks, other.blocks, strict=True)
        return Grid(tuple(tuple(a + b for a, b in zip(*pair, strict=True)) for pair in rows))

    def __neg__(self) -> Grid:
        return Grid(tuple(tuple(-block for block in row) for row in self.blocks))

    def __sub__(self, other: Grid) -> Grid:
        return self + -other

    def __matmul__(self, other: Grid) -> Grid:
        columns = list(zip(*other.blocks, strict=True))
        return Grid(
            tuple(
                tuple(reduce(Words.__add__, (a @ b for a, b in zip(row, column, strict=True))) for column in columns)
                for row in self.blocks
            )
        )


def grid(*rows: Sequence[Words]) -> Grid:
    """The matrix with these rows of blocks."""
    return Grid(tuple(map(tuple, rows)))


class BlockWords:
    """The operations that chunks need; there is no other one, so a form that needs more cannot be run."""

    name = "matrices of words"

    def add(self, a: Grid, b: Grid) -> Grid:
        return a + b

    def negate(self, a: Grid) -> Grid:
        return -a

    def matmul(self, a: Grid, b: Grid) -> Grid:
        return a @ b

    def transpose(self, a: Grid) -> Grid:
        return a.T

    def stack(self, blocks: Sequence[Sequence[Grid]]) -> Grid:
        rows: list[tuple[Words, ...]] = []
        for line in blocks:
            rows += [sum(parts, ()) for parts in zip(*(block.blocks for block in line), strict=True)]
        return Grid(tuple(rows))


Sample = Callable[[random.Random], Point]
"""Draws values of the letters that satisfy the hypotheses."""

Identities = Mapping[str, tuple[Grid, Grid]]


def letters_of(identities: Identities) -> list[Letter]:
    """Every letter of both sides, in a fixed order."""
    found = {
        letter
        for pair in identities.values()
        for side in pair
        for row in side.blocks
        for block in row
        for word in block.terms
        for letter, _ in word
    }
    return sorted(found, key=lambda x: (x.name, str(x.rows)))


def free_point(sizes: Mapping[Any, int], identities: Identities) -> Sample:
    """Small random rationals for every letter: for identities without hypotheses."""
    letters = letters_of(identities)

    def sample(rng: random.Random) -> Point:
        def size(x: Any) -> int:
            return x if isinstance(x, int) else sizes[x]

        return {x.name: random_matrix(rng, size(x.rows), size(x.columns)) for x in letters}, dict(sizes)

    return sample


def prove_blocks(identities: Identities, rules: Sequence[Rule], sample: Sample, seed: int = 0) -> Finding:
    """Decide that left = right under the hypotheses, block by block, for each named pair.

    Words that do not cancel are refuted where a sampled point tells the two sides apart, else left undecided.
    """
    pairs = {name: pair for key, two in identities.items() for name, pair in _pairs(key, *two)}
    finding = prove_words(pairs, rules)
    if finding.verdict is Verdict.PROVED:
        return finding
    rng = random.Random(f"block words {seed}")
    for _ in range(3):
        values, sizes = sample(rng)
        for name, (left, right) in pairs.items():
            found, expected = (evaluate(side, values, sizes) for side in (left, right))
            place = first_difference(found, expected)
            if place is not None:
                point = {letter: table(value) for letter, value in sorted(values.items())}
                where = {"block": name, "row": place[0], "column": place[1]}
                sides = {"found": rational(found[place]), "expected": rational(expected[place])}
                return Finding(Verdict.REFUTED, {**where, **sides, "counterexample": point})
    return finding


def _pairs(name: str, left: Grid, right: Grid) -> Iterator[tuple[str, tuple[Words, Words]]]:
    several = len(left.blocks) * len(left.blocks[0]) > 1
    for i, rows in enumerate(zip(left.blocks, right.blocks, strict=True)):
        for j, pair in enumerate(zip(*rows, strict=True)):
            yield (f"{name}, block {i + 1}, {j + 1}" if several else name), pair


def factored(finding: Finding, products: Mapping[str, Sequence[Sequence[Grid]]]) -> Finding:
    """The finding, right sides of identities recorded also as they were written: sums of products of one block each.

    Expanded, both sides of an identity without hypotheses are one sum of words; this keeps what was said.
    """

    written = {name: [word_blocks(x.whole for x in factors) for factors in terms] for name, terms in products.items()}
    kept = []
    for record in finding.records:
        identities = [{**x, "factors": written[x["name"]]} if x["name"] in written else x for x in record["identities"]]
        kept.append({**record, "identities": identities})
    return replace(finding, records=tuple(kept))


def with_matrices(finding: Finding, matrices: Mapping[str, Grid]) -> Finding:
    """The finding, with the matrices that its identities speak of recorded block by block."""
    rows = {name: [word_blocks(row) for row in matrix.blocks] for name, matrix in matrices.items()}
    return replace(finding, records=tuple({**record, "matrices": rows} for record in finding.records))


def word_changes(matrix: Grid) -> Iterator[tuple[str, Grid]]:
    """Every change of one word of one block: dropped, or its sign turned; with a text."""
    for i, row in enumerate(matrix.blocks):
        for j, block in enumerate(row):
            for word, c in block.terms.items():
                without = block - Words(*block.shape, {word: c})
                for text, new in (("dropped", without), ("negated", without - Words(*block.shape, {word: c}))):
                    changed = [list(line) for line in matrix.blocks]
                    changed[i][j] = new if new.terms else zero(*block.shape)
                    yield f"block {i + 1}, {j + 1}: {spell(word)} {text}", grid(*changed)
