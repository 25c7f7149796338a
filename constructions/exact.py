"""Arithmetics over python-flint's dense matrices: Q, GF(p) and Arb balls.

The matrix types of python-flint share constructor, `+`, `*`, `transpose` and `entries`; one base class serves all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import flint
import sympy as sp
from flint import arb, arb_mat, fmpq, fmpq_mat, fmpz

from .arithmetic import Array, Exact
from .constants import enclosed
from .entrywise import Entrywise
from .errors import BadInput, Unsupported


class FlintArithmetic(Entrywise):
    """Dense matrices of one python-flint type; `scalar` turns an exact number into an entry, rounding at most once."""

    def __init__(
        self, name: str, build: Callable[[int, int, list], Any], scalar: Callable[[Any], Any], zero: Any
    ) -> None:
        self.name = name
        self.build = build
        self.scalar = scalar
        self.zero = zero

    def __repr__(self) -> str:
        return self.name

    def matrix(self, rows: Sequence[Sequence[Exact]], shape: tuple[int, int] | None = None) -> Array:
        height, width = shape or (len(rows), len(rows[0]))
        return self.build(height, width, [self.scalar(x) for row in rows for x in row])

    def one_hot(self, indices: Sequence[int], size: int) -> Array:
        one = self.scalar(1)
        entries = [self.zero] * (size * len(indices))
        for t, i in enumerate(indices):
            if i >= 0:
                entries[i * len(indices) + t] = one
        return self.build(size, len(indices), entries)

    def shape(self, a: Array) -> tuple[int, int]:
        return a.nrows(), a.ncols()

    def add(self, a: Array, b: Array) -> Array:
        return a + b

    def negate(self, a: Array) -> Array:
        return -a

    def matmul(self, a: Array, b: Array) -> Array:
        return a * b

    def transpose(self, a: Array) -> Array:
        return a.transpose()

    def hadamard(self, a: Array, b: Array) -> Array:
        return self.build(*self.shape(a), [x * y for x, y in zip(a.entries(), b.entries(), strict=True)])

    def scale_columns(self, a: Array, scores: Array) -> Array:
        factors = scores.entries()
        height, width = self.shape(a)
        return self.build(height, width, [x * factors[i % width] for i, x in enumerate(a.entries())])

    def dots(self, a: Array, b: Array) -> Array:
        height, width = self.shape(a)
        xs, ys = a.entries(), b.entries()
        sums = [
            sum((xs[i] * ys[i] for i in range(column, height * width, width)), self.zero) for column in range(width)
        ]
        return self.build(1, width, sums)

    def columns(self, a: Array, start: int, stop: int) -> Array:
        height, width = self.shape(a)
        if (start, stop) == (0, width):
            return a
        entries = a.entries()
        return self.build(
            height, stop - start, [x for i in range(height) for x in entries[i * width + start : i * width + stop]]
        )

    def rows(self, a: Array, start: int, stop: int) -> Array:
        _, width = self.shape(a)
        return self.build(stop - start, width, a.entries()[start * width : stop * width])

    def stack(self, blocks: Sequence[Sequence[Array]]) -> Array:
        shapes = [[self.shape(block) for block in line] for line in blocks]
        widths = {sum(columns for _, columns in line) for line in shapes}
        if not all(shapes) or len(widths) != 1 or any(len({rows for rows, _ in line}) != 1 for line in shapes):
            raise BadInput(f"block matrix: expected blocks that fit together, found shapes {shapes}")
        entries: list[Any] = []
        for line in blocks:
            tables = [(block.entries(), block.ncols()) for block in line]
            for i in range(line[0].nrows()):
                for table, width in tables:
                    entries.extend(table[i * width : (i + 1) * width])
        return self.build(sum(line[0].nrows() for line in blocks), sum(b.ncols() for b in blocks[0]), entries)

    def select(self, a: Array, indices: Sequence[int]) -> Array:
        height, width = self.shape(a)
        entries = a.entries()
        return self.build(height, len(indices), [entries[i * width + j] for i in range(height) for j in indices])

    def embed(self, a: Array, start: int, total: int) -> Array:
        height, width = self.shape(a)
        entries = a.entries()
        out: list[Any] = []
        for i in range(height):
            out += [self.zero] * start + entries[i * width : (i + 1) * width] + [self.zero] * (total - start - width)
        return self.build(height, total, out)

    def add_columns(self, a: Array, start: int, b: Array) -> Array:
        return a + self.embed(b, start, a.ncols())

    def recip_0(self, a: Array) -> Array:
        return self._entrywise(a, self._recip_0)

    def rsqrt_0(self, a: Array) -> Array:
        return self._entrywise(a, self._rsqrt_0)

    def eq0(self, a: Array) -> Array:
        return self._entrywise(a, lambda x: self.scalar(1) if self.is_zero(x) else self.zero)

    def nonzero(self, a: Array) -> list[bool]:
        return [not self.is_zero(x) for x in a.entries()]

    def is_zero(self, x: Any) -> bool:
        """Whether an entry is zero; decided, never guessed."""
        return x == 0

    def _entrywise(self, a: Array, function: Callable[[Any], Any]) -> Array:
        return self.build(*self.shape(a), [function(x) for x in a.entries()])

    def _table(self, a: Array) -> list[list[Any]]:
        return a.tolist()

    def _from_table(self, rows: list[list[Any]], shape: tuple[int, int]) -> Array:
        return self.build(*shape, [x for row in rows for x in row])

    def _recip_0(self, x: Any) -> Any:
        return self.zero if self.is_zero(x) else 1 / x

    def _rsqrt_0(self, x: Any) -> Any:
        raise Unsupported(f"{self.name}: a square root is not a rational operation; use an unbalanced construction")


def _fmpq(x: Any) -> fmpq:
    if isinstance(x, Fraction):
        return fmpq(x.numerator, x.denominator)
    if isinstance(x, sp.Expr):
        if not x.is_Rational:
            raise Unsupported(f"exact Q: {x} is not rational")
        return fmpq(int(x.p), int(x.q))
    return fmpq(x)


class Rationals(FlintArithmetic):
    """Q. Only exp(0) and log(1) are rational; so the softmax of equal scores is, and no other."""

    def __init__(self) -> None:
        super().__init__("exact Q", fmpq_mat, _fmpq, fmpq(0))

    def _sign(self, x: fmpq) -> int:
        return (x > 0) - (x < 0)

    def _exp(self, x: fmpq) -> fmpq:
        if x != 0:
            raise Unsupported(f"{self.name}: exp({x}) is not rational; use logarithms")
        return fmpq(1)

    def _log(self, x: fmpq) -> fmpq:
        if x != 1:
            raise Unsupported(f"{self.name}: log({x}) is not rational; use logarithms")
        return fmpq(0)


RATIONALS = Rationals()
"""Q, by `fmpq_mat`: the reference in which everything about a sampled task is decided."""


class PrimeField(FlintArithmetic):
    """GF(p): `nmod_mat` where p fits a machine word, `fmpz_mod_mat` beyond.

    A denominator that p divides makes the prime a bad one: `ZeroDivisionError`, and the caller draws again.
    """

    def __init__(self, p: int) -> None:
        self.p = p
        if p < 2**63:

            def element(x: Any) -> Any:
                return flint.nmod(x, p)

            def build(rows: int, columns: int, entries: list) -> Any:
                return flint.nmod_mat(rows, columns, entries, p)
        else:
            element = flint.fmpz_mod_ctx(fmpz(p))
            context = element

            def build(rows: int, columns: int, entries: list) -> Any:
                return flint.fmpz_mod_mat(rows, columns, entries, context)

        def scalar(x: Any) -> Any:
            if isinstance(x, fmpq):
                return element(int(x.p)) / element(int(x.q))
            x = Fraction(x)
            if x.denominator == 1:
                return element(x.numerator)
            return element(x.numerator) / element(x.denominator)

        super().__init__(f"GF({p})" if p < 10**6 else f"GF(p), p of {p.bit_length()} bits", build, scalar, element(0))


class Balls(FlintArithmetic):
    """Arb balls at `bits` bits of working precision: rigorous enclosures.

    python-flint's precision is global to the process: enter `working()` around every computation. A sign or a zero
    that the balls do not decide raises `Unsupported`; gates and ranks are taken from Q instead.
    """

    def __init__(self, bits: int = 256) -> None:
        self.bits = bits
        super().__init__(f"Arb balls, {bits} bits", arb_mat, self._ball, arb(0))

    @contextmanager
    def working(self) -> Iterator[Balls]:
        """Set the precision for the block, and restore it."""
        with flint.ctx.workprec(self.bits):
            yield self

    @staticmethod
    def _ball(x: Any) -> arb:
        if isinstance(x, Fraction):
            return arb(fmpq(x.numerator, x.denominator))
        return enclosed(x) if isinstance(x, sp.Expr) else arb(x)

    def is_zero(self, x: arb) -> bool:
        if x.contains(0):
            if x.is_zero():
                return True
            raise Unsupported(f"{self.name}: cannot decide whether {x} is zero; decide the gate in Q or raise the bits")
        return False

    def _rsqrt_0(self, x: arb) -> arb:
        return self.zero if self.is_zero(x) else x.rsqrt()

    def _sign(self, x: arb) -> int:
        return 0 if self.is_zero(x) else 1 if x > 0 else -1

    def _relu(self, x: arb) -> arb:
        return x.max(arb(0))

    def _exp(self, x: arb) -> arb:
        return x.exp()

    def _log(self, x: arb) -> arb:
        if not x > 0:
            raise Unsupported(f"{self.name}: cannot decide whether {x} has a logarithm")
        return x.log()

    def _anchor(self, scores: Sequence[arb]) -> arb:
        # A midpoint is an exact number: subtracting it adds nothing to the radii.
        return max((x.mid() for x in scores), key=float)
