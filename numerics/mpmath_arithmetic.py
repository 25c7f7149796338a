"""Arithmetic in mpmath floats of any precision, in a context of its own: mpmath's global state is not touched."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import sympy as sp
from mpmath.libmp import from_man_exp, from_rational, round_nearest

from constructions.constants import close_rational
from constructions.errors import BadInput
from constructions.symbols import ObjectArithmetic


class MpmathArithmetic(ObjectArithmetic):
    """numpy object arrays of `mpf` at `bits` bits; every operation rounds to nearest, exponents are unbounded.

    Raises:
        BadInput: `bits` is not an int of at least 2.
    """

    def __init__(self, bits: int) -> None:
        if isinstance(bits, bool) or not isinstance(bits, int) or bits < 2:
            raise BadInput(f"mpmath arithmetic: expected a precision of at least 2 bits, found {bits!r}")
        self.bits = bits
        self.context = mpmath.MPContext()
        self.context.prec = bits
        super().__init__(f"mpmath, {bits} bits", self._round)

    @property
    def unit_roundoff(self) -> Fraction:
        """u = 2^-bits."""
        return Fraction(1, 2**self.bits)

    def _round(self, x: Any) -> Any:
        """An int, Fraction, fmpq or float (at its binary value) rounded once, to nearest."""
        if isinstance(x, float):
            x = Fraction(x)
        if isinstance(x, int):
            return self.context.make_mpf(from_man_exp(x, 0, self.bits, round_nearest))
        if isinstance(x, sp.Expr):
            x = close_rational(x)
        p, q = (x.numerator, x.denominator) if isinstance(x, Fraction) else (int(x.p), int(x.q))
        return self.context.make_mpf(from_rational(p, q, self.bits, round_nearest))

    def _recip_0(self, x: Any) -> Any:
        return x if x == 0 else 1 / x

    def _rsqrt_0(self, x: Any) -> Any:
        return x if x == 0 else 1 / self.context.sqrt(x)

    def _sign(self, x: Any) -> int:
        return (x > 0) - (x < 0)

    def _exp(self, x: Any) -> Any:
        return self.context.exp(x)

    def _log(self, x: Any) -> Any:
        return self.context.log(x)

    def _anchor(self, scores: Sequence[Any]) -> Any:
        return max(scores)
