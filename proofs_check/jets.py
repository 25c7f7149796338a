"""First-order jets over Q: values with their exact derivatives by some symbols, as one more arithmetic.

A program run over `Jets` gives its output at a point and its Jacobian there. Reciprocals and gates are decided by the
value; a zero whose derivative is not zero decides nothing and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy as sp
from flint import fmpq, fmpq_mat

from constructions.errors import Unsupported
from constructions.exact import RATIONALS
from constructions.symbols import ObjectArithmetic


class Jet:
    """value + slope . d, with slope of shape (1, symbols), or None for a constant."""

    __slots__ = ("slope", "value")

    def __init__(self, value: fmpq, slope: fmpq_mat | None = None) -> None:
        self.value, self.slope = value, slope

    def __add__(self, other: Jet) -> Jet:
        if self.slope is None:
            return Jet(self.value + other.value, other.slope)
        slope = self.slope if other.slope is None else self.slope + other.slope
        return Jet(self.value + other.value, slope)

    def __neg__(self) -> Jet:
        return Jet(-self.value, None if self.slope is None else -self.slope)

    def __mul__(self, other: Jet) -> Jet:
        parts = [x.slope * y.value for x, y in ((self, other), (other, self)) if x.slope is not None and y.value != 0]
        return Jet(self.value * other.value, sum(parts[1:], parts[0]) if parts else None)

    @property
    def moves(self) -> bool:
        """Whether the derivative is not zero."""
        return self.slope is not None and any(x != 0 for x in self.slope.entries())


class Jets(ObjectArithmetic):
    """Q with first derivatives by the symbols named, each at the value given."""

    def __init__(self, point: Mapping[str, Any]) -> None:
        self.point = {name: RATIONALS.scalar(x) for name, x in point.items()}
        self.places = {name: i for i, name in enumerate(point)}
        super().__init__(f"jets over Q in {len(point)} symbols", self._element)

    def _element(self, x: Any) -> Jet:
        if isinstance(x, sp.Symbol) and x.name in self.places:
            slope = fmpq_mat(1, len(self.places))
            slope[0, self.places[x.name]] = 1
            return Jet(self.point[x.name], slope)
        if isinstance(x, sp.Expr):
            raise Unsupported(f"{self.name}: expected a number or one of the symbols, found {x}")
        return Jet(RATIONALS.scalar(x))

    def nonzero(self, a: Any) -> list[bool]:
        return [self._decided(x) for x in a.ravel()]

    def _decided(self, x: Jet) -> bool:
        if x.value == 0 and x.moves:
            raise Unsupported(f"{self.name}: a gate is zero here and not beside")
        return bool(x.value != 0)

    def _recip_0(self, x: Jet) -> Jet:
        if not self._decided(x):
            return Jet(fmpq(0))
        return Jet(1 / x.value, None if x.slope is None else x.slope * (-1 / (x.value * x.value)))

    def jacobian(self, outputs: Any) -> fmpq_mat:
        """Derivatives of an array's entries, row-major: shape (entries, symbols)."""
        flat, width = list(outputs.ravel()), len(self.places)
        zero = [fmpq(0)] * width
        entries = [d for x in flat for d in (zero if x.slope is None else x.slope.entries())]
        return fmpq_mat(len(flat), width, entries)
