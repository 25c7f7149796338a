"""Formal logarithms: numbers a + sum_i c_i log q_i, in which rational identities stay rational.

Over Q the q_i are primes, whose logarithms are linearly independent over Q; and e^a is irrational for rational a != 0.
So a number has one such form, it is zero only where the form is, and every sign can be decided. exp of an integer
combination of logarithms is the rational prod q_i^{c_i}; the softmax of scores that differ by such combinations is
rational. Products of two logarithms and other exponentials are refused with `Unsupported`.

Over a field of fractions Q(w, ..) the q_i are its symbols (positive numbers) and irreducible polynomials.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any, Protocol, TypeAlias

import flint
import sympy as sp
from flint import Ordering, arb, fmpq, fmpq_mat, fmpz, fmpz_mpoly_ctx

from .arithmetic import Array
from .errors import Unsupported
from .ratios import Ratio
from .symbols import ObjectArithmetic

Atom: TypeAlias = int | str | fmpq
"""What a logarithm is taken of: a prime, a symbol or an irreducible polynomial as text, an unfactored number."""


class Field(Protocol):
    """The field of the coefficients: elements with + - * / and ==."""

    name: str

    def element(self, x: Any) -> Any:
        """An exact number (over fractions: or a symbol) as an element."""

    def factors(self, x: Any) -> dict[Atom, int] | None:
        """The exponents of a positive element's atoms; None for one not known to be positive."""

    def power(self, atom: Atom, exponent: int) -> Any:
        """An atom to an integer power."""

    def integer(self, x: Any) -> int | None:
        """The element as an int; None where it is none."""

    def bound(self, x: Any) -> int | None:
        """1 where x >= 0 for all values of the symbols, -1 where x <= 0 for all, 0 where x = 0, else None."""


class RationalField:
    """Q, by fmpq."""

    name = "Q"

    def element(self, x: Any) -> fmpq:
        if isinstance(x, sp.Expr):
            if not x.is_Rational:
                raise Unsupported(f"Q: {x} is not rational")
            return fmpq(int(x.p), int(x.q))
        return fmpq(x.numerator, x.denominator) if isinstance(x, Fraction) else fmpq(x)

    def factors(self, x: fmpq) -> dict[Atom, int] | None:
        if x <= 0:
            return None
        out: dict[Atom, int] = {int(p): e for p, e in x.p.factor()}
        return out | {int(p): -e for p, e in x.q.factor()}

    def power(self, atom: Atom, exponent: int) -> fmpq:
        return fmpq(atom) ** exponent

    def integer(self, x: fmpq) -> int | None:
        return int(x.p) if x.q == 1 else None

    def bound(self, x: fmpq) -> int | None:
        return (x > 0) - (x < 0)


class UnfactoredField:
    """Q, by fmpq, with logarithms of positive numbers as they stand: for numbers that cannot be factored in time.

    exp takes them back exactly. Whether a number with logarithms vanishes is not decided: log 4 is not seen to be
    2 log 2.
    """

    name = "Q, unfactored,"

    def __init__(self) -> None:
        self.rationals = RationalField()
        self.element, self.integer, self.bound = self.rationals.element, self.rationals.integer, self.rationals.bound

    def factors(self, x: fmpq) -> dict[Atom, int] | None:
        return None if x <= 0 else {x: 1} if x != 1 else {}

    def power(self, atom: Any, exponent: int) -> fmpq:
        return atom**exponent


class FractionField:
    """Q(symbols): positive numbers, and bits, which are 0 or 1.

    Args:
        positive: names of symbols that stand for any positive number.
        bits: names of symbols that stand for 0 or 1.
    """

    def __init__(self, positive: Sequence[str], bits: Sequence[str] = ()) -> None:
        self.names = (*positive, *bits)
        self.positive = len(positive)
        self.ring = fmpz_mpoly_ctx.get(list(self.names), Ordering.degrevlex)
        self.one = self.ring.constant(1)
        self.gens = [Ratio(x, self.one) for x in self.ring.gens()]
        self.symbols = dict(zip(self.names, self.gens, strict=True))
        self.atoms: dict[Atom, Ratio] = {}
        self.name = f"Q({', '.join(self.names)})"

    def element(self, x: Any) -> Ratio:
        if isinstance(x, sp.Symbol):
            if x.name not in self.symbols:
                raise Unsupported(f"{self.name}: no symbol {x}")
            return self.symbols[x.name]
        if isinstance(x, int):
            return Ratio(self.ring.constant(x), self.one)
        value = RationalField().element(x)
        return Ratio(self.ring.constant(value.p), self.ring.constant(value.q))

    def factors(self, x: Ratio) -> dict[Atom, int] | None:
        if not self._positive(x.top) or not self._positive(x.bottom):
            return None
        out: dict[Atom, int] = {}
        for polynomial, sign in ((x.top, 1), (x.bottom, -1)):
            content, parts = polynomial.factor()
            for prime, e in fmpz(content).factor():
                out[int(prime)] = out.get(int(prime), 0) + sign * e
            for factor, e in parts:
                self.atoms[str(factor)] = Ratio(factor, self.one)
                out[str(factor)] = out.get(str(factor), 0) + sign * e
        return out

    def power(self, atom: Atom, exponent: int) -> Ratio:
        return (self.element(atom) if isinstance(atom, int) else self.atoms[atom]) ** exponent

    def integer(self, x: Ratio) -> int | None:
        return int(x.top.leading_coefficient() if x else 0) if x.top.is_constant() and x.bottom.is_one() else None

    def bound(self, x: Ratio) -> int | None:
        if not x:
            return 0
        if x.top.is_constant() and x.bottom.is_one():
            return 1 if x.top.leading_coefficient() > 0 else -1
        above, below = self._sign(x.top), self._sign(x.bottom)
        return above * below if above and below else None

    def relu_of_bits(self, x: Ratio) -> Ratio | None:
        """relu of a polynomial in bits alone: the multilinear function with its values; None for anything else."""
        terms = x.top.to_dict()
        if not x.bottom.is_constant() or any(any(m[: self.positive]) for m in terms):
            return None
        occurring = sorted({i for m in terms for i, e in enumerate(m) if e})
        total = self.element(0)
        for values in product((0, 1), repeat=len(occurring)):
            at = dict(zip(occurring, values, strict=True))
            value = sum(int(c) for m, c in terms.items() if all(at[i] for i, e in enumerate(m) if e))
            corner = [self.gens[i] if at[i] else 1 - self.gens[i] for i in occurring]
            total += reduce(lambda a, b: a * b, corner, self.element(max(value, 0)))
        return total / Ratio(x.bottom, self.one)

    def equal_on_bits(self, x: LogNumber, y: LogNumber) -> bool:
        """Whether two numbers agree for all values of the symbols, bits being 0 or 1: b^2 = b in the numerators."""
        difference = x - y
        return all(self._vanishes(c.top) for c in (difference.plain, *difference.logs.values()))

    def _vanishes(self, polynomial: Any) -> bool:
        reduced: dict[tuple[int, ...], Any] = {}
        for m, c in polynomial.to_dict().items():
            key = m[: self.positive] + tuple(min(e, 1) for e in m[self.positive :])
            reduced[key] = reduced.get(key, 0) + c
        return not any(reduced.values())

    def _positive(self, polynomial: Any) -> bool:
        """Whether it is a sum of positive multiples of products of positive symbols."""
        terms = polynomial.to_dict().items()
        return bool(terms) and all(c > 0 and not any(m[self.positive :]) for m, c in terms)

    def _sign(self, polynomial: Any) -> int | None:
        """1 where it is nowhere negative, -1 where it is nowhere positive, else None.

        A polynomial in positive symbols whose coefficients all have one sign has it. The coefficients are polynomials
        in bits, decided at every choice of the bits that occur in them.
        """
        coefficients: dict[tuple[int, ...], list[tuple[tuple[int, ...], Any]]] = {}
        for monomial, c in polynomial.to_dict().items():
            coefficients.setdefault(monomial[: self.positive], []).append((monomial[self.positive :], c))
        signs = {sign for terms in coefficients.values() for sign in _signs_on_bits(terms)} - {0}
        return signs.pop() if len(signs) == 1 else None


def _signs_on_bits(terms: Iterable[tuple[tuple[int, ...], Any]]) -> set[int]:
    """The signs that a polynomial in bits takes."""
    supports = [(frozenset(i for i, e in enumerate(exponents) if e), c) for exponents, c in terms]
    occurring = sorted(frozenset().union(*(support for support, _ in supports)))
    signs = set()
    for values in product((0, 1), repeat=len(occurring)):
        chosen = {i for i, value in zip(occurring, values, strict=True) if value}
        total = sum(int(c) for support, c in supports if support <= chosen)
        signs.add((total > 0) - (total < 0))
    return signs


class LogNumber:
    """plain + sum of coefficient times log atom; coefficients are not zero."""

    __slots__ = ("logs", "plain")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, plain: Any, logs: Mapping[Atom, Any]) -> None:
        self.plain = plain
        self.logs = {atom: c for atom, c in logs.items() if c} if logs else {}

    def __add__(self, other: Any) -> LogNumber:
        if not isinstance(other, LogNumber):
            return LogNumber(self.plain + other, self.logs)
        logs = dict(self.logs)
        for atom, c in other.logs.items():
            logs[atom] = logs[atom] + c if atom in logs else c
        return LogNumber(self.plain + other.plain, logs)

    __radd__ = __add__

    def __neg__(self) -> LogNumber:
        return LogNumber(-self.plain, {atom: -c for atom, c in self.logs.items()})

    def __sub__(self, other: Any) -> LogNumber:
        return self + -other

    def __mul__(self, other: Any) -> LogNumber:
        if not isinstance(other, LogNumber):
            other = LogNumber(other, {})
        if self.logs and other.logs:
            raise Unsupported("logarithms: a product of two logarithms")
        plain = self.plain * other.plain
        with_logs, factor = (self, other.plain) if self.logs else (other, self.plain)
        return LogNumber(plain, {atom: c * factor for atom, c in with_logs.logs.items()} if with_logs.logs else {})

    __rmul__ = __mul__

    def __truediv__(self, other: LogNumber) -> LogNumber:
        if other.logs:
            raise Unsupported("logarithms: a quotient by a logarithm")
        return LogNumber(self.plain / other.plain, {atom: c / other.plain for atom, c in self.logs.items()})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogNumber):
            return not self.logs and bool(self.plain == other)
        return bool(self.plain == other.plain) and self.logs == other.logs

    def __repr__(self) -> str:
        parts = [f"{c} log {atom}" for atom, c in sorted(self.logs.items(), key=lambda item: str(item[0]))]
        return " + ".join([*([str(self.plain)] if self.plain != 0 or not parts else []), *parts])


class Logarithms(ObjectArithmetic):
    """Matrices of formal logarithms over Q, or over a field of fractions."""

    def __init__(self, field: Field | None = None) -> None:
        self.field = field or RationalField()
        self.known: dict[int, LogNumber] = {}
        super().__init__(f"{self.field.name} with logarithms", self._number)

    def _number(self, x: Any) -> LogNumber:
        """An exact number, or a sympy expression: sums and products of numbers, symbols and logarithms of those."""
        if isinstance(x, LogNumber):
            return x
        if isinstance(x, int):
            # Numbers are never changed, so the constants of public matrices are made once.
            return self.known.get(x) or self.known.setdefault(x, LogNumber(self.field.element(x), {}))
        if isinstance(x, sp.Expr) and not x.is_Rational and not x.is_Symbol:
            if isinstance(x, sp.log):
                return self._log(self._number(x.args[0]))
            if x.is_Add or x.is_Mul:
                parts = [self._number(part) for part in x.args]
                return reduce(lambda a, b: a + b if x.is_Add else a * b, parts)
            if x.is_Pow and x.exp.is_Integer:
                base = self._number(x.base)
                powers = [base if x.exp > 0 else self.scalar(1) / base] * abs(int(x.exp))
                return reduce(lambda a, b: a * b, powers)
            raise Unsupported(f"{self.name}: {x} is no sum of numbers and logarithms")
        return LogNumber(self.field.element(x), {})

    def matmul(self, a: Array, b: Array) -> Array:
        """The product; most entries of a public matrix are zero, and are skipped."""
        out = self._zeros(a.shape[0], b.shape[1])
        columns = [[(k, x) for k, x in enumerate(column) if x.logs or x.plain] for column in b.T.tolist()]
        for i, row in enumerate(a.tolist()):
            live = {k: x for k, x in enumerate(row) if x.logs or x.plain}
            for j, column in enumerate(columns):
                products = [live[k] * x for k, x in column if k in live]
                if products:
                    out[i, j] = reduce(lambda x, y: x + y, products)
        return out

    def rationals(self, a: Array) -> fmpq_mat:
        """The matrix in Q.

        Raises:
            Unsupported: an entry with a logarithm in it.
        """
        if any(x.logs for x in a.ravel()):
            raise Unsupported(f"{self.name}: expected rational numbers, found {next(x for x in a.ravel() if x.logs)}")
        return fmpq_mat(*a.shape, [x.plain for x in a.ravel()])

    def _log(self, x: LogNumber) -> LogNumber:
        factors = None if x.logs else self.field.factors(x.plain)
        if factors is None:
            raise Unsupported(f"{self.name}: log of {x}, not known to be a positive number without logarithms")
        return LogNumber(self.field.element(0), {atom: self.field.element(e) for atom, e in factors.items() if e})

    def _exp(self, x: LogNumber) -> LogNumber:
        exponents = {atom: self.field.integer(c) for atom, c in x.logs.items()}
        if x.plain != 0 or None in exponents.values():
            raise Unsupported(f"{self.name}: exp({x}) is not rational")
        powers = [self.field.power(atom, e) for atom, e in exponents.items() if e is not None]
        return LogNumber(reduce(lambda a, b: a * b, powers, self.field.element(1)), {})

    def _recip_0(self, x: LogNumber) -> LogNumber:
        if x == 0:
            return x
        if self._bound(x) is None:
            raise Unsupported(f"{self.name}: cannot decide whether {x} is zero")
        return self.scalar(1) / x

    def _sign(self, x: LogNumber) -> int:
        if isinstance(self.field, RationalField):
            return self._rational_sign(x)
        if x == 0:
            return 0
        raise Unsupported(f"{self.name}: the sign of {x} depends on its symbols")

    def _relu(self, x: LogNumber) -> LogNumber:
        bound = self._bound(x)
        if bound is not None:
            return x if bound > 0 else self.scalar(0)
        corners = self.field.relu_of_bits(x.plain) if isinstance(self.field, FractionField) and not x.logs else None
        if corners is None:
            raise Unsupported(f"{self.name}: cannot decide the sign of {x}")
        return LogNumber(corners, {})

    def _bound(self, x: LogNumber) -> int | None:
        if isinstance(self.field, RationalField):
            return self._rational_sign(x)
        return None if x.logs else self.field.bound(x.plain)

    @staticmethod
    def _rational_sign(x: LogNumber) -> int:
        """Decided in Q without logarithms, else by balls: the number is then not zero, so some precision separates."""
        if not x.logs:
            return (x.plain > 0) - (x.plain < 0)
        bits = 64
        while True:
            with flint.ctx.workprec(bits):
                value = sum((arb(c) * arb(atom).log() for atom, c in x.logs.items()), arb(x.plain))
                if not value.contains(0):
                    return 1 if value > 0 else -1
            bits *= 2
