"""Block tasks: K linear functions by examples, then shots of one of them without its name, then queries; exact."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy as sp

from ..errors import BadInput

Vector = Sequence[Any]


@dataclass(frozen=True, eq=False)
class BlockTask:
    """One task; numbers are exact, functions, shots and queries may be symbols.

    Attributes:
        functions: A_1 .. A_K, each d_v rows of d numbers.
        inputs: for each block its inputs x, equally many.
        target: t, from 0.
        shots, queries: inputs of A_t.
        name: where it comes from, with its seed.

    Raises:
        BadInput: no block, blocks of unequal sizes, a target that is not a block, or vectors of unequal lengths.
    """

    functions: Sequence[Sequence[Vector]]
    inputs: Sequence[Sequence[Vector]]
    target: int
    shots: Sequence[Vector]
    queries: Sequence[Vector]
    name: str = "block task"

    def __post_init__(self) -> None:
        K = len(self.functions)
        if not K or len(self.inputs) != K:
            raise BadInput(f"{self.name}: expected inputs for {K} blocks, at least one, found {len(self.inputs)}")
        if not 0 <= self.target < K:
            raise BadInput(f"{self.name}: expected a target between 0 and {K - 1}, found {self.target}")
        if len({len(rows) for rows in self.inputs}) > 1 or not self.inputs[0] or not self.shots or not self.queries:
            raise BadInput(f"{self.name}: expected blocks of one size, and shots and queries, found other ones")
        vectors = [*(x for rows in self.inputs for x in rows), *self.shots, *self.queries]
        widths = {len(x) for x in vectors} | {len(row) for A in self.functions for row in A}
        if len(widths) > 1 or len({len(A) for A in self.functions}) > 1:
            raise BadInput(f"{self.name}: expected vectors of one length and functions of one shape, found several")

    @property
    def size(self) -> tuple[int, ...]:
        """(K, d, d_v, examples a block, shots)."""
        A, rows = self.functions[0], self.inputs[0]
        return len(self.functions), len(A[0]), len(A), len(rows), len(self.shots)

    def answer(self, block: int, x: Vector) -> list[Any]:
        """A_block x."""
        return [sum(a * b for a, b in zip(row, x, strict=True)) for row in self.functions[block]]

    @property
    def symbols(self) -> list[str]:
        """Names of the symbols among the numbers, in order."""
        vectors = [*(row for A in self.functions for row in A), *self.shots, *self.queries]
        found = {x.name for row in vectors for e in row if isinstance(e, sp.Expr) for x in e.free_symbols}
        return sorted(found)

    def describe(self) -> dict[str, Any]:
        """The task in full, as text."""

        def text(rows: Sequence[Vector]) -> list[list[str]]:
            return [[str(e) for e in row] for row in rows]

        return {
            "functions": [text(A) for A in self.functions],
            "inputs": [text(rows) for rows in self.inputs],
            "target": self.target,
            "shots": text(self.shots),
            "queries": text(self.queries),
        }


def orthogonal_basis(rng: random.Random, d: int) -> list[list[Fraction]]:
    """d rational orthogonal vectors of different lengths: a Householder reflection with scaled columns."""
    while True:
        v = [Fraction(rng.randint(-3, 3)) for _ in range(d)]
        square = sum(x * x for x in v)
        if square:
            break
    scales = [Fraction(rng.choice([1, 2, 3, -1, -2]), rng.choice([1, 2])) for _ in range(d)]
    return [[scales[i] * ((i == j) - 2 * v[i] * v[j] / square) for j in range(d)] for i in range(d)]


def random_block_task(K: int, d: int, d_v: int, shots: int = 1, seed: int = 0) -> BlockTask:
    """Small integer functions, orthogonal rational inputs, a random target."""
    rng = random.Random(f"blocks {K} {d} {d_v} {shots} {seed}")

    def matrix(rows: int, columns: int) -> list[list[Fraction]]:
        return [[Fraction(rng.randint(-4, 4)) for _ in range(columns)] for _ in range(rows)]

    functions = [matrix(d_v, d) for _ in range(K)]
    inputs = [orthogonal_basis(rng, d) for _ in range(K)]
    tried = matrix(shots, d)
    for x in tried:
        x[0] += 10  # no shot is zero
    name = f"block task (K={K}, d={d}, d_v={d_v}, shots={shots}, seed={seed})"
    return BlockTask(functions, inputs, rng.randrange(K), tried, matrix(3, d), name)


def generic_block_task(K: int, d: int, d_v: int, target: int = 0) -> BlockTask:
    """Functions, one shot and one query of symbols; orthogonal rational inputs."""
    rng = random.Random(f"generic blocks {K} {d}")

    def symbols(letter: str, rows: int, columns: int) -> list[list[sp.Symbol]]:
        return [[sp.Symbol(f"{letter}_{i}_{j}") for j in range(columns)] for i in range(rows)]

    functions = [symbols(f"A{k + 1}", d_v, d) for k in range(K)]
    inputs = [orthogonal_basis(rng, d) for _ in range(K)]
    name = f"generic block task (K={K}, d={d}, d_v={d_v}, target {target})"
    return BlockTask(functions, inputs, target, symbols("x", 1, d), symbols("q", 1, d), name)
