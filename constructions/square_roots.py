"""Q with adjoined square roots: the arithmetic in which balancing is exact.

A balanced construction scales a vector by t = d^(-1/2). Its entries then lie in Q[t_1, t_2, ..] with the rewrite
t_j^2 d_j = 1 (a diagonal change of basis), and every answer that is rational comes out without any t. Equality in this
quotient ring implies equality of real numbers. The converse can fail (t_1 = t_2 where d_1 = d_2): an element of one
term c t_i t_j .. is not zero, since no t_j is, but a sum with a t in it is never called zero or non-zero, `Unsupported`
is raised instead.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import fmpq

from .errors import Unsupported
from .symbols import ObjectArithmetic


class Surd:
    """A sum of rationals times products of distinct t_j; `squares[j]` is t_j^2, shared by one arithmetic."""

    __slots__ = ("squares", "terms")

    def __init__(self, terms: dict[frozenset[int], fmpq], squares: list[fmpq]) -> None:
        self.terms = {word: c for word, c in terms.items() if c != 0}
        self.squares = squares

    def __add__(self, other: Any) -> Surd:
        terms = dict(self.terms)
        for word, c in self._terms_of(other).items():
            terms[word] = terms.get(word, fmpq(0)) + c
        return Surd(terms, self.squares)

    __radd__ = __add__

    def __neg__(self) -> Surd:
        return Surd({word: -c for word, c in self.terms.items()}, self.squares)

    def __sub__(self, other: Any) -> Surd:
        return self + -other

    def __mul__(self, other: Any) -> Surd:
        terms: dict[frozenset[int], fmpq] = {}
        for v, c in self.terms.items():
            for w, d in self._terms_of(other).items():
                product = c * d
                for j in v & w:
                    product *= self.squares[j]
                terms[v ^ w] = terms.get(v ^ w, fmpq(0)) + product
        return Surd(terms, self.squares)

    __rmul__ = __mul__

    def _terms_of(self, other: Any) -> dict[frozenset[int], fmpq]:
        return other.terms if isinstance(other, Surd) else {frozenset(): fmpq(other)}

    @property
    def rational(self) -> fmpq:
        """The value, where no t occurs.

        Raises:
            Unsupported: a t occurs.
        """
        if any(self.terms.keys() - {frozenset()}):
            raise Unsupported("square roots: expected a rational value, found one with square roots in it")
        return self.terms.get(frozenset(), fmpq(0))

    @property
    def nonzero(self) -> bool:
        """Whether it is not zero.

        Raises:
            Unsupported: a sum in which a t occurs.
        """
        return True if len(self.terms) == 1 else self.rational != 0

    def __repr__(self) -> str:
        return " + ".join(f"{c} " + " ".join(f"t{j}" for j in sorted(word)) for word, c in self.terms.items()) or "0"


class SquareRoots(ObjectArithmetic):
    """Matrices over Q[t_1, t_2, ..] / (t_j^2 d_j - 1), for one run: `rsqrt_0(d)` adjoins a new t."""

    def __init__(self) -> None:
        self.squares: list[fmpq] = []
        super().__init__("exact Q with square roots", self._surd)

    def _surd(self, x: Any) -> Surd:
        value = fmpq(x.numerator, x.denominator) if isinstance(x, Fraction) else fmpq(x)
        return Surd({frozenset(): value}, self.squares)

    def nonzero(self, a: Any) -> list[bool]:
        return [x.nonzero for x in a.ravel()]

    def _recip_0(self, x: Surd) -> Surd:
        value = x.rational
        return self._surd(0 if value == 0 else 1 / value)

    def _rsqrt_0(self, x: Surd) -> Surd:
        value = x.rational
        if value == 0:
            return self._surd(0)
        self.squares.append(1 / value)
        return Surd({frozenset([len(self.squares) - 1]): fmpq(1)}, self.squares)
