"""The public constants of the Q-learning programs: bases, step size, discount, bounds, and the layout of a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import sympy as sp

from ..arithmetic import Exact
from ..errors import BadInput
from ..layers import Public, Rows, fixed
from ..layout import Layout, Size
from ..task import exact_discount
from .experts import Basis, one_hot_basis, orthonormal
from .transitions import step_size

Number: TypeAlias = Exact | sp.Expr


@dataclass(frozen=True)
class Rates:
    """The public constants of a construction; sizes may be symbols where there are no bases.

    Attributes:
        actions: A.
        width: coordinates of a state's vector.
        action_width: coordinates of an action's vector.
        alpha: step size, or a symbol.
        discount: g, or a symbol.
        bound: B, which exceeds every |Q|, or a symbol.
        gate: D >= |alpha delta| (`relu_gated` alone).
        beta: inverse temperature (softmax alone).
        states: the vectors of the states; None leaves them generic. Orthonormal where the table is to be read from it.
        actions_basis: the orthonormal v_a; None leaves them generic.
        count: n, which `relu_gated` reads where `states` is None.
    """

    actions: Size
    width: Size
    action_width: Size
    alpha: Number
    discount: Number
    bound: Number
    gate: Number = 0
    beta: Number = 1
    states: Basis | None = None
    actions_basis: Basis | None = None
    count: Size = 0

    @property
    def U(self) -> list[list[Fraction]]:
        """The states' vectors side by side, shape (width, n)."""
        assert self.states is not None
        return _columns(self.states)

    @property
    def V(self) -> list[list[Fraction]]:
        """[v_1, .., v_A], shape (action_width, A)."""
        assert self.actions_basis is not None
        return _columns(self.actions_basis)

    def layout(self, **more: Size) -> Layout:
        """What every realisation has, and its own fields: row, names idC and idU, cur, act, rew, nxt, qs, flags."""
        d, e = self.width, self.action_width
        own = {"row": d, "idC": e, "idU": e, "cur": d, "act": e, "rew": 1, "nxt": d, "qs": e}
        return Layout(**own, **more, tB=1, tX=1, tN=1)

    def any_action(self, factor: Number = 1, name: str = "1'V'") -> Public:
        """factor sum_a v_a', shape (1, action_width): factor at every action's vector."""
        if self.actions_basis is None:
            return Public(name)
        total = [sum(row, Fraction(0)) for row in self.V]
        return fixed(name, [[times(factor, x) for x in total]])

    def scaled_identity(self, name: str, factor: Number) -> Public:
        """factor I."""
        return Public(
            name, lambda rows, columns: [[times(factor, int(i == j)) for j in range(columns)] for i in range(rows)]
        )

    @cached_property
    def by_state(self) -> Public:
        """U', shape (n, width): the coordinates by state."""
        return Public("U'") if self.states is None else fixed("U'", self.states)

    @cached_property
    def by_action(self) -> Public:
        """V', shape (A, action_width): the coordinates by action."""
        return Public("V'") if self.actions_basis is None else fixed("V'", self.actions_basis)

    def selected(self, name: str, rows: Sequence[Sequence[int]]) -> Public:
        """A matrix over the actions times V', shape (len(rows), action_width)."""
        if self.actions_basis is None:
            return Public(name)
        products = [
            [
                sum((c * v[k] for c, v in zip(row, self.actions_basis, strict=True)), Fraction(0))
                for k in range(len(self.V))
            ]
            for row in rows
        ]
        return fixed(name, products)


def rates_for(
    states: int,
    actions: int,
    alpha: Any,
    discount: Any,
    bound: Any,
    *,
    basis: Sequence[Sequence[Any]] | None = None,
    names: Sequence[Sequence[Any]] | None = None,
    beta: Any = 1,
    B: Any = None,
) -> Rates:
    """The constants for n states and A actions, rewards within `bound`.

    Raises:
        BadInput: no state or no action, alpha outside (0, 1], g outside (0, 1), beta not positive, or a basis that is
            not orthonormal or has another number of vectors.
    """
    alpha, discount, R, beta = step_size(alpha), exact_discount(discount), Fraction(bound), Fraction(beta)
    for what, size in (("state", states), ("action", actions)):
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise BadInput(f"Q-learning: expected at least one {what}, found {size!r}")
    if beta <= 0:
        raise BadInput(f"Q-learning: expected a positive inverse temperature beta, found {beta}")
    u = one_hot_basis(states) if basis is None else orthonormal(basis)
    v = one_hot_basis(actions) if names is None else orthonormal(names)
    for what, vectors, size in (("states", u, states), ("actions", v, actions)):
        if len(vectors) != size:
            raise BadInput(f"Q-learning: expected a basis of {size} vectors for the {what}, found {len(vectors)}")
    largest = R / (1 - discount)
    limit = largest + 1 if B is None else Fraction(B)
    return Rates(actions, len(u[0]), len(v[0]), alpha, discount, limit, 2 * alpha * largest, beta, u, v)


def repeated_name(states: int, name: Public, factor: Number) -> Public:
    """factor at every one of the units, read from an action's vector: shape (states, action_width)."""

    def entries(rows: int, columns: int) -> Rows:
        (row,) = name.rows(1, columns)
        return [[times(factor, x) for x in row]] * rows

    return Public(f"{factor} {name}", entries)


def times(factor: Any, x: Any) -> Any:
    """The product of two exact numbers, one of which may hold symbols."""
    if isinstance(factor, sp.Expr) or isinstance(x, sp.Expr):
        return sp.sympify(factor) * sp.sympify(x)
    return factor * x


def _columns(basis: Basis) -> list[list[Fraction]]:
    return [list(row) for row in zip(*basis, strict=True)]
