"""Exact constants with logarithms in them, such as log(2/3): sympy expressions, enclosed in Arb."""

from __future__ import annotations

from fractions import Fraction

import flint
import sympy as sp
from flint import arb, fmpq

from .errors import Unsupported

ROUNDING_BITS = 320
"""Bits of the approximation from which an irrational constant is rounded once."""


def enclosed(x: sp.Expr) -> arb:
    """A ball around a sum, product or logarithm of rational numbers, at the precision set.

    Raises:
        Unsupported: any other expression.
    """
    if x.is_Rational:
        return arb(fmpq(int(x.p), int(x.q)))
    if x.is_Add or x.is_Mul:
        parts = [enclosed(part) for part in x.args]
        total = parts[0]
        for part in parts[1:]:
            total = total + part if x.is_Add else total * part
        return total
    if isinstance(x, sp.log):
        inner = enclosed(x.args[0])
        if inner > 0:
            return inner.log()
    raise Unsupported(f"constant {x}: expected sums and products of rational numbers and their logarithms")


def close_rational(x: sp.Expr) -> Fraction:
    """The value of a constant where it is rational, else a rational within about 2^-320 of it, relative."""
    if x.is_Rational:
        return Fraction(int(x.p), int(x.q))
    with flint.ctx.workprec(ROUNDING_BITS):
        mantissa, exponent = enclosed(x).mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
