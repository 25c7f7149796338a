"""Quotients of polynomials with integer coefficients, in lowest terms, by FLINT's `fmpz_mpoly`."""

from __future__ import annotations

from typing import Any


class Ratio:
    """top / bottom without common factor, bottom with a positive leading coefficient, so that equal ones look alike."""

    __slots__ = ("bottom", "top")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, top: Any, bottom: Any) -> None:
        if not bottom.is_one():
            common = top.gcd(bottom)
            if not common.is_one():
                top, bottom = top / common, bottom / common
            if bottom.leading_coefficient() < 0:
                top, bottom = -top, -bottom
        self.top, self.bottom = top, bottom

    def _other(self, x: Any) -> Ratio:
        if isinstance(x, Ratio):
            return x
        context = self.top.context()
        return Ratio(context.constant(x), context.constant(1))

    def __add__(self, other: Any) -> Ratio:
        other = self._other(other)
        if self.bottom == other.bottom:
            return Ratio(self.top + other.top, self.bottom)
        return Ratio(self.top * other.bottom + other.top * self.bottom, self.bottom * other.bottom)

    __radd__ = __add__

    def __neg__(self) -> Ratio:
        out = object.__new__(Ratio)
        out.top, out.bottom = -self.top, self.bottom
        return out

    def __sub__(self, other: Any) -> Ratio:
        return self + -self._other(other)

    def __rsub__(self, other: Any) -> Ratio:
        return -self + other

    def __mul__(self, other: Any) -> Ratio:
        other = self._other(other)
        return Ratio(self.top * other.top, self.bottom * other.bottom)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Ratio:
        other = self._other(other)
        if other.top.is_zero():
            raise ZeroDivisionError("a quotient by the zero polynomial")
        return Ratio(self.top * other.bottom, self.bottom * other.top)

    def __pow__(self, exponent: int) -> Ratio:
        if exponent < 0:
            return Ratio(self.bottom**-exponent, self.top**-exponent)
        return Ratio(self.top**exponent, self.bottom**exponent)

    def __eq__(self, other: object) -> bool:
        other = self._other(other)
        return bool(self.top == other.top and self.bottom == other.bottom)

    def __bool__(self) -> bool:
        return not self.top.is_zero()

    def __repr__(self) -> str:
        if self.bottom.is_one():
            return str(self.top)
        return f"({self.top})/({self.bottom})"
