"""Degree bounds by max-plus evaluation: how large a rational function can a program's answer be?

Every block stands for a matrix of rational functions in the indeterminates of a generic task, with one common
denominator: a product of factors that some `recip_0` or inverse introduced. Kept per block are a bound on the degree
of the numerators and on the bits of their coefficients (log2 of the sum of absolute values, over the integers), and the
multiplicity of each factor in the denominator. Sums meet at the least common multiple: no factor is counted twice.

Running a program over this arithmetic bounds the degree of its answer before any number is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm
from typing import Any

from constructions.entrywise import Entrywise
from constructions.errors import Unsupported


@dataclass(frozen=True)
class Bound:
    """A block: shape, degree and coefficient bits of its numerators (None for a zero block), denominator by factor."""

    rows: int
    columns: int
    degree: int | None
    bits: int = 0
    denominator: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Factor:
    """Something that was inverted: bounds on its degree and coefficient bits."""

    degree: int
    bits: int


class Degrees(Entrywise):
    """An `Arithmetic` of bounds. `kept` answers a gate: its first `kept` tokens are taken to stay."""

    name = "degree bounds"

    def __init__(self, kept: int) -> None:
        self.kept = kept
        self.factors: list[Factor] = []

    @property
    def inverted_degree(self) -> int:
        """Sum of the degrees of everything inverted: where one vanishes, a point is bad or a branch is wrong."""
        return sum(factor.degree for factor in self.factors)

    @property
    def inverted_bits(self) -> int:
        """Sum of the coefficient bits of everything inverted: a prime that divides all of them is a bad one."""
        return sum(factor.bits for factor in self.factors)

    def generic(self, rows: int, columns: int) -> Bound:
        """A matrix of distinct indeterminates."""
        return Bound(rows, columns, 1)

    def matrix(self, rows: Sequence[Sequence[Any]], shape: tuple[int, int] | None = None) -> Bound:
        height, width = shape or (len(rows), len(rows[0]))
        entries = [Fraction(int(x.p), int(x.q)) if hasattr(x, "q") else Fraction(x) for row in rows for x in row]
        if not any(entries):
            return Bound(height, width, None)
        common = lcm(*(x.denominator for x in entries))
        largest = max(abs(x.numerator) * (common // x.denominator) for x in entries)
        denominator = {} if common == 1 else {self._factor(0, common.bit_length()): 1}
        return Bound(height, width, 0, largest.bit_length(), denominator)

    def one_hot(self, indices: Sequence[int], size: int) -> Bound:
        return Bound(size, len(indices), 0)

    def shape(self, a: Bound) -> tuple[int, int]:
        return a.rows, a.columns

    def add(self, a: Bound, b: Bound) -> Bound:
        if a.degree is None or b.degree is None:
            return b if a.degree is None else a
        common = {f: max(a.denominator.get(f, 0), b.denominator.get(f, 0)) for f in {*a.denominator, *b.denominator}}
        sides = [self._over(x, common) for x in (a, b)]
        degree, bits = max(d for d, _ in sides), max(s for _, s in sides) + 1
        return Bound(a.rows, a.columns, degree, bits, common)

    def negate(self, a: Bound) -> Bound:
        return a

    def matmul(self, a: Bound, b: Bound) -> Bound:
        return self._product(a, b, a.rows, b.columns, a.columns)

    def transpose(self, a: Bound) -> Bound:
        return self._reshaped(a, a.columns, a.rows)

    def hadamard(self, a: Bound, b: Bound) -> Bound:
        return self._product(a, b, a.rows, a.columns, 1)

    def scale_columns(self, a: Bound, scores: Bound) -> Bound:
        return self._product(a, scores, a.rows, a.columns, 1)

    def dots(self, a: Bound, b: Bound) -> Bound:
        return self._product(a, b, 1, a.columns, a.rows)

    def columns(self, a: Bound, start: int, stop: int) -> Bound:
        return self._reshaped(a, a.rows, stop - start)

    def rows(self, a: Bound, start: int, stop: int) -> Bound:
        return self._reshaped(a, stop - start, a.columns)

    def stack(self, blocks: Sequence[Sequence[Bound]]) -> Bound:
        rows, columns = sum(line[0].rows for line in blocks), sum(block.columns for block in blocks[0])
        total = Bound(rows, columns, None)
        for line in blocks:
            for block in line:
                total = self.add(total, self._reshaped(block, rows, columns))
        return total

    def select(self, a: Bound, indices: Sequence[int]) -> Bound:
        return self._reshaped(a, a.rows, len(indices))

    def embed(self, a: Bound, start: int, total: int) -> Bound:
        return self._reshaped(a, a.rows, total)

    def add_columns(self, a: Bound, start: int, b: Bound) -> Bound:
        return self.add(a, self._reshaped(b, a.rows, a.columns))

    def recip_0(self, a: Bound) -> Bound:
        """Entries N_i / D become D times the other N's over the product of all N's."""
        if a.degree is None:
            return a
        count = a.rows * a.columns
        factor = self._factor(count * a.degree, count * a.bits)
        degree, bits = self._of(a.denominator)
        return Bound(a.rows, a.columns, degree + (count - 1) * a.degree, bits + (count - 1) * a.bits, {factor: 1})

    def inverse(self, a: Bound) -> Bound:
        """By Cramer's rule: minors times the denominator over the determinant, at most n! terms each."""
        if a.degree is None:
            raise Unsupported("degree bounds: a zero matrix has no inverse")
        n = a.rows
        factorial_bits = n * n.bit_length()
        factor = self._factor(n * a.degree, n * a.bits + factorial_bits)
        degree, bits = self._of(a.denominator)
        return Bound(n, n, (n - 1) * a.degree + degree, (n - 1) * a.bits + factorial_bits + bits, {factor: 1})

    def rsqrt_0(self, a: Bound) -> Bound:
        raise Unsupported("degree bounds: a square root is not a rational function")

    def eq0(self, a: Bound) -> Bound:
        """Its entries are 0 and 1: the same at every point but those where an entry vanishes that is not zero."""
        if a.degree:
            count = a.rows * a.columns
            self._factor(count * a.degree, count * a.bits)
        return Bound(a.rows, a.columns, 0)

    def nonzero(self, a: Bound) -> list[bool]:
        return [i < self.kept for i in range(a.columns)]

    def _factor(self, degree: int, bits: int) -> int:
        self.factors.append(Factor(degree, bits))
        return len(self.factors) - 1

    def _of(self, denominator: Mapping[int, int]) -> tuple[int, int]:
        degree = sum(times * self.factors[f].degree for f, times in denominator.items())
        return degree, sum(times * self.factors[f].bits for f, times in denominator.items())

    def _over(self, a: Bound, common: Mapping[int, int]) -> tuple[int, int]:
        """Degree and bits of a's numerators once they stand over a common multiple of its denominator."""
        assert a.degree is not None
        degree, bits = self._of({f: times - a.denominator.get(f, 0) for f, times in common.items()})
        return a.degree + degree, a.bits + bits

    def _product(self, a: Bound, b: Bound, rows: int, columns: int, terms: int) -> Bound:
        if a.degree is None or b.degree is None or terms == 0:
            return Bound(rows, columns, None)
        both = {*a.denominator, *b.denominator}
        denominator = {f: a.denominator.get(f, 0) + b.denominator.get(f, 0) for f in both}
        bits = a.bits + b.bits + (terms - 1).bit_length()
        return Bound(rows, columns, a.degree + b.degree, bits, denominator)

    @staticmethod
    def _reshaped(a: Bound, rows: int, columns: int) -> Bound:
        return Bound(rows, columns, a.degree, a.bits, a.denominator)
