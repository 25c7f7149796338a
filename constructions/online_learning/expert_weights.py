"""The public constants of the weighted-majority programs: basis, penalty, bias, at given sizes or at symbolic ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import sympy as sp

from ..arithmetic import Exact
from ..layers import Public, fixed
from ..layout import Layout, Size
from .experts import Basis

Number: TypeAlias = Exact | sp.Expr


@dataclass(frozen=True)
class Weights:
    """The public constants of a construction; sizes may be symbols where there is no basis.

    Attributes:
        n: number of experts.
        width: d, coordinates of a basis vector.
        outcomes: K.
        factor: q = 1 - eps, or a symbol.
        leak: exp(-B), the weight of a foreign key, or a symbol.
        basis: the u_i, orthonormal; None leaves them generic.
        losses: whether a round tells the experts' losses themselves: the penalty is then e I instead of e (J - I).
    """

    n: Size
    width: Size
    outcomes: Size
    factor: Number
    leak: Number
    basis: Basis | None = None
    losses: bool = False

    def layout(self, variant: str) -> Layout:
        """S state, I name, P prediction, Y label, O output, flags; `softmax_only` has A, the predictions by name."""
        flags = {flag: 1 for flag in ("tC", "tQ", "tY") if flag != "tQ" or variant == "two_layer"}
        d, K = self.width, self.outcomes
        more = {"A": K * d} if variant == "softmax_only" else {}
        return Layout(S=d, I=d, P=K, Y=K, O=K, **more, **flags)

    @property
    def columns(self) -> list[list[Fraction]]:
        """U = [u_1, .., u_n], shape (d, n)."""
        assert self.basis is not None
        return [list(row) for row in zip(*self.basis, strict=True)]

    def penalty(self) -> Public:
        """e (J - I), shape (K, K): e [a != b] at labels a, b. With losses e I."""
        e = _log(self.factor)
        if self.losses:
            return Public("e I", lambda rows, columns: [[e * int(i == j) for j in range(columns)] for i in range(rows)])
        return Public("e(J-I)", lambda rows, columns: [[e * int(i != j) for j in range(columns)] for i in range(rows)])

    def bias(self) -> Public:
        """-B = log d, the score of a foreign key."""
        return Public("log d", lambda rows, columns: [[_log(self.leak)]])

    def last_name(self, name: str = "u_n", factor: Number = 1) -> Public:
        """factor u_n, shape (d, 1)."""
        if self.basis is None:
            return Public(name)
        return fixed(name, [[sp.sympify(factor) * sp.sympify(x)] for x in self.basis[-1]])

    def by_name(self) -> Public:
        """I_K (x) U', shape (K n, K d): from A to the prediction of each expert, label by label."""
        if self.basis is None:
            return Public("I(x)U'")
        rows = []
        for k in range(self.outcomes):
            for u in self.basis:
                zeros = [Fraction(0)] * self.width
                rows.append([*zeros * k, *u, *zeros * (self.outcomes - 1 - k)])
        return fixed("I(x)U'", rows)

    def by_label(self) -> Public:
        """I_K (x) 1, shape (K n, K): the label, n times."""
        return Public(
            "I(x)1",
            lambda rows, columns: [[int(i * columns // rows == k) for k in range(columns)] for i in range(rows)],
        )

    def half_penalty(self) -> Public:
        """e/2 (1' (x) U), shape (d, K n): each expert's sum over the labels, at its name."""
        if self.basis is None:
            return Public("e/2 1'(x)U")
        half = _log(self.factor) / 2
        return fixed("e/2 1'(x)U", [[half * sp.sympify(x) for x in row] * self.outcomes for row in self.columns])


def _log(x: Number) -> sp.Expr:
    return sp.log(sp.sympify(x))
