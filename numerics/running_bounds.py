"""Running error analysis: every value carries a rigorous bound on its distance from the exact value.

The exact value is that of the same operations on the exact inputs (the tasks and weights before they were rounded). An
operation passes on the bounds of its operands and adds that of its own rounding:

    |a b - a* b*| <= |a| e_b + e_a (|b| + e_b) + local,        |1/x - 1/x*| <= e / (|x| (|x| - e)) + local,  ..

`local` is had from the operation itself in `RoundedArithmetic` (how far a carried result moved, exactly), and from the
standard model in torch: u |c| for one operation, ((1 + u)^(n + 1) - 1) |A| |B| for inner products of length n, in
whatever order and with or without fused additions. exp and log of torch are taken to be within 4 units in the last
place. Where a comparison is not decided by the bounds (a gate, an argmax), what depends on it gets the bound that holds
either way, infinity for a release, and `undecided` counts it.

Bounds are floats themselves (float64; float32 beside torch formats of at most 24 bits). They are sums and products of
non-negative numbers, each rounded once, so k operations understate by at most the factor (1 - eps/2)^k: every bound is
multiplied by 1 + (k + 4) eps. Non-zero bounds are at least FLOOR, whose square is a normal number, so that no product
of two underflows; zero is kept for what is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from constructions.arithmetic import Array, Exact
from numerics.bound_backends import NumpyBounds, TorchBounds
from numerics.errors import round_up
from numerics.formats import exact_ratio
from numerics.rounded_arithmetic import RoundedArithmetic
from numerics.torch_arithmetic import TorchArithmetic


@dataclass(eq=False)
class Bounded:
    """Computed values, and bounds on their distances from the exact ones; same shape.

    `magnitude` keeps |value| once it was asked for: the blocks that a program reads in every layer are read again.
    """

    value: Any
    error: Any
    magnitude: Any = None


class RunningBounds:
    """An arithmetic around another one, over `Bounded` arrays.

    Args:
        inner: a `RoundedArithmetic` or a `TorchArithmetic`.
    """

    def __init__(self, inner: RoundedArithmetic | TorchArithmetic) -> None:
        self.inner: Any = inner
        self.name = inner.name
        self.undecided = 0
        self.lost = False
        self.backend: NumpyBounds | TorchBounds = (
            TorchBounds(inner) if isinstance(inner, TorchArithmetic) else NumpyBounds(inner)
        )

    def __repr__(self) -> str:
        return f"{self.name}, with running bounds"

    # Exact numbers.

    def matrix(self, rows: Sequence[Sequence[Exact]], shape: tuple[int, int] | None = None) -> Bounded:
        if shape is None:
            shape = (len(rows), len(rows[0]) if len(rows) else 0)
        return self._given(self.inner.matrix(rows, shape), rows)

    def public_matrix(self, rows: Sequence[Sequence[Exact]], shape: tuple[int, int]) -> Bounded:
        """A public matrix, in the format of weights where the inner arithmetic has one."""
        make = getattr(self.inner, "public_matrix", self.inner.matrix)
        return self._given(make(rows, shape), rows)

    def _given(self, value: Array, rows: Any) -> Bounded:
        flat = rows.ravel().tolist() if isinstance(rows, np.ndarray) else [x for row in rows for x in row]
        found = [_distance(v, x) for v, x in zip(self.backend.entries(value), flat, strict=True)]
        return self._kept(value, self.backend.bounds(found, self.inner.shape(value)), 0)

    def one_hot(self, indices: Sequence[int], size: int) -> Bounded:
        value = self.inner.one_hot(indices, size)
        return Bounded(value, self.backend.size(value) * 0)

    # Arrays moved about.

    def shape(self, a: Bounded) -> tuple[Any, Any]:
        return self.inner.shape(a.value)

    def negate(self, a: Bounded) -> Bounded:
        return Bounded(self.inner.negate(a.value), a.error)

    def transpose(self, a: Bounded) -> Bounded:
        return Bounded(*(self.inner.transpose(x) for x in (a.value, a.error, self._size(a))))

    def columns(self, a: Bounded, start: int, stop: int) -> Bounded:
        return self._both(a, lambda x: self.inner.columns(x, start, stop))

    def rows(self, a: Bounded, start: int, stop: int) -> Bounded:
        return self._both(a, lambda x: self.inner.rows(x, start, stop))

    def select(self, a: Bounded, indices: Sequence[int]) -> Bounded:
        return self._both(a, lambda x: self.inner.select(x, indices))

    def embed(self, a: Bounded, start: int, total: int) -> Bounded:
        return self._both(a, lambda x: self.inner.embed(x, start, total))

    def stack(self, blocks: Sequence[Sequence[Bounded]]) -> Bounded:
        values = self.inner.stack([[x.value for x in line] for line in blocks])
        return Bounded(values, self.backend.real(self.inner.stack([[x.error for x in line] for line in blocks])))

    def _both(self, a: Bounded, move: Callable[[Any], Any]) -> Bounded:
        return Bounded(move(a.value), self.backend.real(move(a.error)))

    # Operations.

    def add(self, a: Bounded, b: Bounded) -> Bounded:
        value, local, count = self.backend.add(a.value, b.value)
        return self._kept(value, a.error + b.error + local, count + 2)

    def add_columns(self, a: Bounded, start: int, b: Bounded) -> Bounded:
        width = self.shape(b)[1]
        middle = self.add(self.columns(a, start, start + width), b)
        total = self.shape(a)[1]
        parts = [self.columns(a, 0, start), middle, self.columns(a, start + width, total)]
        return self.stack([[x for x in parts if self.shape(x)[1]]])

    def hadamard(self, a: Bounded, b: Bounded) -> Bounded:
        return self._product(a, b, self.backend.product, lambda x, y: x * y, 1)

    def scale_columns(self, a: Bounded, scores: Bounded) -> Bounded:
        return self.hadamard(a, scores)

    def matmul(self, a: Bounded, b: Bounded) -> Bounded:
        return self._product(a, b, self.backend.matmul, lambda x, y: x @ y, a.value.shape[-1])

    def dots(self, a: Bounded, b: Bounded) -> Bounded:
        summed = self.backend.column_sums
        return self._product(a, b, self.backend.dots, lambda x, y: summed(x * y), a.value.shape[-2])

    def _size(self, a: Bounded) -> Any:
        if a.magnitude is None:
            a.magnitude = self.backend.size(a.value)
        return a.magnitude

    def _product(self, a: Bounded, b: Bounded, run: Any, combine: Callable[[Any, Any], Any], length: int) -> Bounded:
        value, local, growth, count = run(a.value, b.value)
        x, y = self._size(a), self._size(b)
        # In torch the local part growth |A| |B| joins one of two products of bounds. Sums are formed of the smaller
        # operand, so that the larger one is only read.
        with np.errstate(all="ignore"):
            if math.prod(x.shape) >= math.prod(y.shape):
                error = combine(x, b.error + growth * y) + combine(a.error, y + b.error)
            else:
                error = combine(x + a.error, b.error) + combine(growth * x + a.error, y)
        return self._kept(value, error + local, count + length + 4, length)

    def recip_0(self, a: Bounded) -> Bounded:
        return self._inverse(a, "recip_0", lambda x, low: x * low)

    def rsqrt_0(self, a: Bounded) -> Bounded:
        return self._inverse(a, "rsqrt_0", lambda x, low: 2 * low * low**0.5)

    def _inverse(self, a: Bounded, name: str, slope: Callable[[Any, Any], Any]) -> Bounded:
        value, local, count = self.backend.primitive(a.value, name)
        x = abs(self.backend.real(a.value))
        with np.errstate(invalid="ignore"):
            low = x - a.error
        safe = self.backend.where(low > 0, low, 1.0)
        error = a.error / slope(self.backend.where(low > 0, x, 1.0), safe) + local
        error = self.backend.where(low > 0, error, np.inf)
        exact_zero = (a.value == 0) & (a.error == 0)
        # A value taken for zero by a threshold was not inverted.
        guessed = (value == 0) & ~exact_zero
        return self._kept(
            value, self.backend.where(exact_zero, 0.0, self.backend.where(guessed, np.inf, error)), count + 8
        )

    def eq0(self, a: Bounded) -> Bounded:
        value = self.inner.eq0(a.value)
        zero, apart = self._signs(a)
        certain = zero | (apart & (value == 0))
        self.undecided += int((~certain).sum())
        return Bounded(value, self.backend.where(certain, 0.0, 1.0))

    def nonzero(self, a: Bounded) -> list[bool]:
        zero, apart = self._signs(a)
        unsure = int((~(zero | apart)).sum())
        self.undecided += unsure
        # Other tokens may have to be kept: nothing later has a bound.
        self.lost |= unsure > 0
        return self.inner.nonzero(a.value)

    def _signs(self, a: Bounded) -> tuple[Any, Any]:
        x = abs(self.backend.real(a.value))
        return (a.value == 0) & (a.error == 0), x > a.error

    def relu(self, a: Bounded) -> Bounded:
        return self._kept(self.inner.relu(a.value), a.error, 0)

    def exp(self, a: Bounded) -> Bounded:
        value, local, count = self.backend.primitive(a.value, "exp")
        top = self.backend.size(value) + local
        return self._kept(value, top * self.backend.library.expm1(a.error) + local, count + 8)

    def log(self, a: Bounded) -> Bounded:
        value, local, count = self.backend.primitive(a.value, "log")
        low = self.backend.real(a.value) - a.error
        error = self.backend.where(low > 0, a.error / self.backend.where(low > 0, low, 1.0) + local, np.inf)
        return self._kept(value, error, count + 6)

    def softmax(self, scores: Bounded, seen: NDArray[np.bool_]) -> Bounded:
        """With r_i = e_i plus the rounding of x_i - max x, s = softmax of the values and D = sum_j s_j (e^{r_j} - 1),

            |s_i - s*_i| <= s_i (e^{r_i} - 1 + D) / (1 - D)    where D < 1,

        since a common shift does not matter; the weights computed are within (1 + u)^(n + 8) of s, and underflows.
        """
        backend, u = self.backend, self.backend.unit
        with np.errstate(all="ignore"):
            return self._softmax(scores, seen, backend, u)

    def _softmax(self, scores: Bounded, seen: NDArray[np.bool_], backend: Any, u: float) -> Bounded:
        value = self.inner.softmax(scores.value, seen)
        visible = backend.mask(seen)
        x = backend.where(visible, backend.real(scores.value), 0.0)
        n = seen.shape[-2]
        lost = (n + 8) * u / (1 - (n + 8) * u) if (n + 8) * u < 0.5 else np.inf
        floor = (n + 2) * backend.smallest
        weights = backend.real(value) * (1 + 2 * lost) + floor
        moved = backend.where(visible, scores.error + 3 * u * (abs(x) + backend.column_max(abs(x))), 0.0)
        growth = backend.library.expm1(moved)
        spread = backend.column_sums(backend.where(visible, weights * growth, 0.0)) * (1 + 2.0**-20)
        safe = backend.where(spread < 1, 1 - spread, 1.0)
        error = weights * (growth + spread) / safe * (1 + 2.0**-20) + lost * weights + floor
        error = backend.where((spread < 1) & (error < 1), error, 1.0 + 2 * backend.smallest + u)
        return self._kept(value, backend.where(visible, error, 0.0), n + 16)

    def hardmax(self, scores: Bounded, seen: NDArray[np.bool_]) -> Bounded:
        backend = self.backend
        value = self.inner.hardmax(scores.value, seen)
        visible = backend.mask(seen)
        x = backend.real(scores.value)
        chosen = visible & (value > 0)
        best = backend.column_max(backend.where(chosen, x, -np.inf))
        doubt = backend.column_max(backend.where(chosen, scores.error, 0.0))
        both = scores.error + doubt
        slack = backend.where(both > 0, both * (1 + 16 * backend.eps) + 8 * backend.eps * (abs(x) + abs(best)), 0.0)
        behind = best - x > slack
        winners = backend.column_sums(backend.real(chosen))
        tied = (winners <= 1) | (doubt == 0)
        sure = backend.column_all(~visible | chosen | behind) & tied
        self.undecided += int((~sure).sum())
        share = backend.where(winners > 1, backend.unit * backend.real(value) + backend.smallest, 0.0)
        error = backend.where(sure, backend.where(chosen, share, 0.0), 1.0)
        return self._kept(value, backend.where(visible, error, 0.0), 4)

    def _kept(self, value: Any, error: Any, count: int, length: int = 1) -> Bounded:
        """With the bound rounded up after `count` operations, infinite where nothing is known."""
        return Bounded(value, self.backend.up(value, error, count, length, self.lost))


def _distance(value: Any, exact: Any) -> float:
    """|value - exact|, rounded up."""
    if isinstance(exact, (int, float, Fraction)) and value == exact:
        return 0.0
    if isinstance(value, float) and not np.isfinite(value):
        return np.inf
    gap = abs(Fraction(*exact_ratio(value)) - Fraction(*exact_ratio(exact)))
    if isinstance(exact, sp.Expr) and not exact.is_Rational:
        # A constant with logarithms is known to within 2^-320 of itself.
        gap += abs(Fraction(*exact_ratio(value))) * Fraction(1, 2**300)
    return round_up(gap)
