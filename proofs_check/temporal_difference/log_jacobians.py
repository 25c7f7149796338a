"""td.linear-features: how many numbers logs with features make matter, by Jacobians modulo primes (theory A5).

As in `memory`, the rank at a random point is a lower bound on the generic one, and the gauge bounds it from above. Here
the map starts at the log itself: its features, successors and rewards move.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flint import nmod_mat

from ..claim import Finding, Verdict
from ..mutants import Mutant
from ..records import rank_record
from ..schwartz_zippel import random_prime
from . import memory

LARGEST_RECORDED = 3
"""Features up to which the Jacobians themselves are kept in the certificate."""


@dataclass(frozen=True)
class LogJacobian:
    """Logs of N transitions whose features span k dimensions, and the rank claimed for their outputs.

    The map is (T, C, Y, R) -> (M^j s_0)_{j<L} with features X = T C; a and g are public.

    Attributes:
        d, k, samples, depth: sizes.
        expected: the rank.
        held: letters among T, C, Y, R that do not move.
    """

    d: int
    k: int
    samples: int
    depth: int
    expected: int
    held: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"d = {self.d}, k = {self.k}, N = {self.samples}, L = {self.depth}"

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Of the letters."""
        return {
            "T": (self.d, self.k),
            "C": (self.k, self.samples),
            "Y": (self.d, self.samples),
            "R": (1, self.samples),
        }

    @property
    def upper(self) -> int:
        """Outputs are T H^j h: at most d L numbers, and d k + k of them by the gauge of td.memory."""
        return min(self.d * self.depth, self.d * self.k + self.k)


@dataclass(frozen=True)
class Dual:
    """value + e change with e^2 = 0, both matrices modulo p: products carry derivatives."""

    value: nmod_mat
    change: nmod_mat

    def __matmul__(self, other: Dual) -> Dual:
        return Dual(self.value * other.value, self.value * other.change + self.change * other.value)

    def __sub__(self, other: Dual) -> Dual:
        return Dual(self.value - other.value, self.change - other.change)

    def times(self, scalar: int) -> Dual:
        """A public multiple."""
        return Dual(self.value * scalar, self.change * scalar)

    @property
    def T(self) -> Dual:
        return Dual(self.value.transpose(), self.change.transpose())


def log_jacobian(case: LogJacobian, rng: random.Random, p: int) -> nmod_mat:
    """A row for every entry that may move, a column for every output; at a random point modulo p."""
    point = {name: memory.random_rows(rng, p, *shape) for name, shape in case.shapes.items()}
    a, g = rng.randrange(1, p), rng.randrange(1, p)
    rows = []
    for name, (height, width) in case.shapes.items():
        for place in range(0 if name in case.held else height * width):
            moves = {letter: nmod_mat(*shape, [0] * (shape[0] * shape[1]), p) for letter, shape in case.shapes.items()}
            moves[name][divmod(place, width)] = 1
            x = {letter: Dual(value, moves[letter]) for letter, value in point.items()}
            rows.append([int(entry) for output in _outputs(case, x, a, g) for entry in output.change.entries()])
    return nmod_mat(len(rows), case.d * case.depth, [entry for row in rows for entry in row], p)


def _outputs(case: LogJacobian, x: dict[str, Dual], a: int, g: int) -> Iterator[Dual]:
    """M^j s_0 for j < L, by w - a X (X - g Y)' w."""
    X = x["T"] @ x["C"]
    E = X - x["Y"].times(g)
    w = (X @ x["R"].T).times(a)
    for _ in range(case.depth):
        yield w
        w = w - (X @ (E.T @ w)).times(a)


def prove_ranks(cases: Sequence[LogJacobian], seed: int = 0) -> Finding:
    """At random points modulo primes every rank is the one claimed, and it meets the upper bound."""
    rng = random.Random(f"linear features {seed}")
    found, kept = [], []
    for case in cases:
        matrices = [log_jacobian(case, rng, random_prime(rng, memory.BITS)) for _ in range(memory.POINTS)]
        ranks = [matrix.rank() for matrix in matrices]
        where: dict[str, Any] = {"d": case.d, "k": case.k, "N": case.samples, "L": case.depth}
        for block, number in (("Jacobian", max(ranks)), ("upper bound", case.upper)):
            if number != case.expected:
                wrong = {"block": block, "found": number, "expected": case.expected}
                return Finding(Verdict.REFUTED, {**where, **wrong})
        found.append({**where, "rank": case.expected})
        if case.d <= LARGEST_RECORDED:
            kept.append(rank_record(matrices[ranks.index(case.expected)], f"{case}"))
    return Finding(Verdict.PROVED, {"jacobians": found}, tuple(kept))


def rank_cases(features: int) -> list[LogJacobian]:
    """Every k <= d <= features with N = k + 1: rank dk at L = k, dk + k at L = k + 1 and k + 2."""
    return [
        LogJacobian(d, k, k + 1, k + more, d * k + (k if more else 0))
        for d in range(1, features + 1)
        for k in range(1, d + 1)
        for more in (0, 1, 2)
    ]


def rank_mutants(cases: Sequence[LogJacobian]) -> Iterator[Mutant]:
    """Another depth, another rank, a letter that does not move, one transition; one case each."""
    for case in cases:
        for change in (-1, 1):
            yield Mutant("loop", f"{case}: depth {change:+d}", [replace(case, depth=case.depth + change)])
            yield Mutant("entry", f"{case}: rank {change:+d}", [replace(case, expected=case.expected + change)])
        for held in case.shapes:
            yield Mutant("entry", f"{case}: {held} held", [replace(case, held=(held,))])
        yield Mutant("entry", f"{case}: one transition", [replace(case, samples=1)])
