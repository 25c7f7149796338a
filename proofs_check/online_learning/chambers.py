"""Chambers: the ties of Q(s', .) fixed, everything else symbols, so that every branch of a round is decided.

A round of Q-learning branches on which values of Q(s', .) are largest. In the chamber of a weak order of the actions
the table is written by symbols of known sign, with the first class on top:

    Q(s', b) = y - B - (h_1 + .. + h_k)   for b in class k (from 0),   y > 0, h_i > 0,

so Q(s', b) + B > 0 says only that the largest value exceeds -B. Where a program branches on nothing but the largest,
two classes suffice: those on top, each with y - B, and the others, each with a gap h_b of its own. The other entries of
the table are free symbols. The reward is written by its error: delta = (q - p)/2, r = delta - g M + Q(s, a), and
D = alpha (p + q)/2, so that p, q >= 0 says |alpha delta| <= D. A terminal successor has M = 0 and no order.

Polynomials in these symbols have a sign where every coefficient has it and every symbol is of known sign. A ReLU of
unknown sign is (x + |x|)/2 with |x| one more symbol, the same for x and -x: relu(x) - relu(-x) = x is then an identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import sympy as sp
from flint import Ordering, fmpq, fmpq_mpoly_ctx

from constructions.arithmetic import Array
from constructions.errors import Unsupported
from constructions.symbols import ObjectArithmetic

ALPHA, DISCOUNT, BOUND, GATE = sp.symbols("alpha g B D", positive=True)
"""The public constants of a program as symbols."""
ABSOLUTES = 16
"""How many numbers of unknown sign a run may rectify."""


@dataclass(frozen=True)
class Chamber:
    """One place of a round, and the order of the values of its successor.

    Attributes:
        state: s.
        action: a.
        successor: s', or -1 where it is terminal.
        classes: the actions by value, largest first; in a coarse chamber the second class is in no order.
        coarse: whether only the largest values are told from the others.
    """

    state: int
    action: int
    successor: int
    classes: tuple[tuple[int, ...], ...]
    coarse: bool

    def __str__(self) -> str:
        below = ", " if self.coarse else " = "
        order = " > ".join(
            "{" + (" = " if not k else below).join(map(str, c)) + "}" for k, c in enumerate(self.classes)
        )
        successor = "terminal" if self.successor < 0 else str(self.successor)
        return f"s = {self.state}, a = {self.action}, s' = {successor}" + (f", {order}" if order else "")

    def symbols(self) -> tuple[str, ...]:
        """The gaps h, each positive."""
        if self.coarse:
            return tuple(f"h{b}" for b in self.classes[1]) if len(self.classes) > 1 else ()
        return tuple(f"h{k}" for k in range(1, len(self.classes)))

    def gaps(self, action: int) -> tuple[str, ...]:
        """The gaps between the largest value and that of an action."""
        (k,) = [k for k, members in enumerate(self.classes) if action in members]
        if self.coarse:
            return (f"h{action}",) if k else ()
        return tuple(f"h{i}" for i in range(1, k + 1))


def chambers(states: int, actions: int, *, coarse: bool) -> Iterator[Chamber]:
    """Every chamber of every place of a round."""
    orders = list(top_sets(actions) if coarse else weak_orders(tuple(range(actions))))
    for s, a, successor in product(range(states), range(actions), range(-1, states)):
        for classes in orders if successor >= 0 else [()]:
            yield Chamber(s, a, successor, classes, coarse)


def top_sets(actions: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """The sets that may be largest, each with the rest."""
    for bits in product((True, False), repeat=actions):
        if any(bits):
            groups = [tuple(b for b in range(actions) if bits[b] is wanted) for wanted in (True, False)]
            yield tuple(group for group in groups if group)


def weak_orders(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All orders with ties, largest class first."""
    if not items:
        yield ()
        return
    for bits in product((True, False), repeat=len(items)):
        if any(bits):
            first = tuple(x for x, top in zip(items, bits, strict=True) if top)
            for others in weak_orders(tuple(x for x, top in zip(items, bits, strict=True) if not top)):
                yield first, *others


class ChamberArithmetic(ObjectArithmetic):
    """Q[symbols] in one chamber: signs are read off, hardmax and relu decided by them.

    Args:
        positive: symbols that are > 0.
        nonnegative: symbols that are >= 0.
        free: symbols of any sign.
    """

    def __init__(self, positive: Sequence[str], nonnegative: Sequence[str], free: Sequence[str]) -> None:
        absolutes = [f"abs{i}" for i in range(ABSOLUTES)]
        names = [*positive, *nonnegative, *absolutes, *free]
        self.ring = fmpq_mpoly_ctx.get(names, Ordering.degrevlex)
        self.strict, self.signed = len(positive), len(positive) + len(nonnegative) + ABSOLUTES
        gens = self.ring.gens()
        self.symbols: dict[str, Any] = dict(zip(names, gens, strict=True))
        self.absolutes = list(gens[self.signed - ABSOLUTES : self.signed])
        self.rectified: dict[str, Any] = {}
        self.zero = self.ring.constant(0)
        super().__init__("polynomials in a chamber", self._element)

    def _element(self, x: Any) -> Any:
        if isinstance(x, sp.Expr) and not x.is_Rational:
            if x.is_Symbol and x.name in self.symbols:
                return self.symbols[x.name]
            if x.is_Add or x.is_Mul:
                return reduce(lambda a, b: a + b if x.is_Add else a * b, [self._element(part) for part in x.args])
            raise Unsupported(f"{self.name}: {x} is not a polynomial in its symbols")
        if isinstance(x, type(self.zero)):
            return x
        if isinstance(x, sp.Expr):
            return self.ring.constant(fmpq(int(x.p), int(x.q)))
        return self.ring.constant(fmpq(x.numerator, x.denominator) if not isinstance(x, fmpq) else x)

    def matmul(self, a: Array, b: Array) -> Array:
        """The product; most entries of a weight are zero, and are skipped."""
        out = self._zeros(a.shape[0], b.shape[1])
        rows = [[(k, x) for k, x in enumerate(row) if not x.is_zero()] for row in a.tolist()]
        columns = [{k: x for k, x in enumerate(column) if not x.is_zero()} for column in b.T.tolist()]
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                products = [x * column[k] for k, x in row if k in column]
                if products:
                    out[i, j] = reduce(lambda x, y: x + y, products)
        return out

    def nonzero(self, a: Array) -> list[bool]:
        raise Unsupported(f"{self.name}: whether a polynomial vanishes depends on its symbols")

    def bound(self, x: Any) -> tuple[int, bool] | None:
        """(sign, strict): 1 where x >= 0 in the chamber, -1 where x <= 0, strict where never zero; None if unknown."""
        signs, strict = set(), False
        for monomial, c in x.to_dict().items():
            if any(monomial[self.signed :]):
                return None
            signs.add(1 if c > 0 else -1)
            strict = strict or not any(monomial[self.strict :])
        return (signs.pop() if signs else 0, strict) if len(signs) < 2 else None

    def _relu(self, x: Any) -> Any:
        known = self.bound(x)
        if known is not None:
            return x if known[0] > 0 else self.zero
        return (x + self._absolute(x)) / 2

    def _absolute(self, x: Any) -> Any:
        lead = x.leading_coefficient()
        monic = x / lead
        key = str(monic)
        if key not in self.rectified:
            if len(self.rectified) == ABSOLUTES:
                raise Unsupported(f"{self.name}: more than {ABSOLUTES} numbers of unknown sign in one run")
            self.rectified[key] = self.absolutes[len(self.rectified)]
        return self.rectified[key] * abs(lead)

    def _hardmax(self, scores: Sequence[Any]) -> list[Any]:
        for best in scores:
            below = [self.bound(best - x) for x in scores]
            if all(b is not None and (b == (0, False) or (b[0] > 0 and b[1])) for b in below):
                ties = [b == (0, False) for b in below]
                share = self.ring.constant(fmpq(1, sum(ties)))
                return [share if tie else self.zero for tie in ties]
        raise Unsupported(f"{self.name}: cannot decide which of {', '.join(map(str, scores))} is largest")


@dataclass(frozen=True)
class Setting:
    """A chamber in symbols.

    Attributes:
        arithmetic: with the public constants as symbols.
        table: Q, polynomials, a row for each state.
        reward: r.
        increment: alpha delta, by which Q(s, a) has to grow.
    """

    arithmetic: ChamberArithmetic
    table: list[list[Any]]
    reward: Any
    increment: Any


def setting(chamber: Chamber, states: int, actions: int) -> Setting:
    """The table and the reward of a chamber as polynomials."""
    free = [f"Q{s}_{b}" for s in range(states) for b in range(actions) if s != chamber.successor]
    arithmetic = ChamberArithmetic(["y", "B", "alpha", "g", *chamber.symbols()], ["p", "q"], free)
    x = arithmetic.symbols
    x["D"] = x["alpha"] * (x["p"] + x["q"]) / 2
    top = x["y"] - x["B"]

    def value(s: int, b: int) -> Any:
        if s != chamber.successor:
            return x[f"Q{s}_{b}"]
        return reduce(lambda total, gap: total - x[gap], chamber.gaps(b), top)

    table = [[value(s, b) for b in range(actions)] for s in range(states)]
    delta = (x["q"] - x["p"]) / 2
    best = top if chamber.successor >= 0 else arithmetic.zero
    reward = delta - x["g"] * best + table[chamber.state][chamber.action]
    return Setting(arithmetic, table, reward, x["alpha"] * delta)


def at_point(polynomial: Any, values: Mapping[str, fmpq], names: Sequence[str]) -> fmpq:
    """A polynomial at numbers; symbols without a value do not occur in it."""
    return polynomial(*[values.get(name, fmpq(0)) for name in names])


def uncovered(actions: int, *, coarse: bool) -> str | None:
    """None if every order of the values of a successor lies in exactly one chamber, whose symbols rebuild it.

    A chamber depends on the order of the values alone, so values 0..A-1 represent them all.
    """
    places = [c for c in chambers(1, actions, coarse=coarse) if (c.state, c.action, c.successor) == (0, 0, 0)]
    for values in product(range(actions), repeat=actions):
        found = [c for c in places if _holds(c, values)]
        if len(found) != 1:
            return f"the values {values} lie in {len(found)} chambers"
    return None


def _holds(chamber: Chamber, values: Sequence[int]) -> bool:
    """Whether there are y > 0 and gaps h > 0 with these values: solved for, class by class, and put back."""
    top = max(values)
    gaps: dict[str, int] = {}
    ordered = sorted(range(len(values)), key=lambda b: len(chamber.gaps(b)))
    for b in ordered:
        names = chamber.gaps(b)
        if names:
            gaps[names[-1]] = top - values[b] - sum(gaps[name] for name in names[:-1])
    rebuilt = [top - sum(gaps[name] for name in chamber.gaps(b)) for b in range(len(values))]
    return list(values) == rebuilt and all(gap > 0 for gap in gaps.values())
