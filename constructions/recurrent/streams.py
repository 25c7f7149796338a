"""Streams: what a recurrent layer reads, exactly; random ones with a seed, and the generic one made of symbols."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import sympy as sp

from ..arithmetic import Exact
from ..errors import BadInput

Entry: TypeAlias = Any
"""An exact number, or a sympy expression in symbols."""
Rows = Sequence[Sequence[Entry]]


@dataclass(frozen=True, eq=False)
class Stream:
    """Tokens in order, a row each, and the state before the first; exact numbers or symbols.

    Attributes:
        keys, values, queries: shapes (T, d_k), (T, d_v), (T, d_k).
        rates, gates: b and a, length T.
        initial: S_0, shape (d_v, d_k).
        name: where it comes from, with its seed.

    Raises:
        BadInput: no token, or shapes that do not fit together.
    """

    keys: Rows
    values: Rows
    queries: Rows
    rates: Sequence[Entry]
    gates: Sequence[Entry]
    initial: Rows
    name: str = "stream"

    def __post_init__(self) -> None:
        T = len(self.keys)
        if not T:
            raise BadInput(f"{self.name}: expected at least one token, found none")
        for field in ("values", "queries", "rates", "gates"):
            if len(getattr(self, field)) != T:
                raise BadInput(f"{self.name}: expected {T} {field}, one a key, found {len(getattr(self, field))}")
        d_v, d_k = len(self.initial), len(self.initial[0]) if self.initial else 0
        for field, width in (("keys", d_k), ("queries", d_k), ("values", d_v)):
            found = {len(row) for row in getattr(self, field)}
            if found != {width}:
                raise BadInput(f"{self.name}: expected {field} of width {width}, found {sorted(found)}")

    @property
    def size(self) -> tuple[int, ...]:
        """(T, d_k, d_v)."""
        return len(self.keys), len(self.keys[0]), len(self.initial)

    @property
    def symbols(self) -> list[str]:
        """Names of the symbols among the numbers, in order."""
        rows = (*self.keys, *self.values, *self.queries, self.rates, self.gates, *self.initial)
        found = {x.name for row in rows for entry in row if isinstance(entry, sp.Expr) for x in entry.free_symbols}
        return sorted(found)

    def describe(self) -> dict[str, Any]:
        """Every token, as text."""
        tokens = [
            {"k": list(map(str, k)), "v": list(map(str, v)), "q": list(map(str, q)), "b": str(b), "a": str(a)}
            for k, v, q, b, a in zip(self.keys, self.values, self.queries, self.rates, self.gates, strict=True)
        ]
        return {"tokens": tokens, "initial": [list(map(str, row)) for row in self.initial]}


def generic_stream(T: int, d_k: int, d_v: int) -> Stream:
    """Every number a symbol."""

    def matrix(letter: str, rows: int, columns: int) -> list[list[sp.Symbol]]:
        return [[sp.Symbol(f"{letter}_{i}_{j}") for j in range(columns)] for i in range(rows)]

    k, v, q, s = matrix("k", T, d_k), matrix("v", T, d_v), matrix("q", T, d_k), matrix("s", d_v, d_k)
    b, a = (matrix(letter, 1, T)[0] for letter in "ba")
    return Stream(k, v, q, b, a, s, f"generic stream (T={T}, d_k={d_k}, d_v={d_v})")


def random_stream(
    T: int,
    d_k: int,
    d_v: int,
    seed: int = 0,
    *,
    rates: Sequence[Exact] | None = None,
    gates: Sequence[Exact] | None = None,
) -> Stream:
    """Small rationals; rates and gates are drawn from those given, else from all kinds (0, 1, 2 and between)."""
    rng = random.Random(f"stream {T} {d_k} {d_v} {seed}")

    def draw() -> Fraction:
        return Fraction(rng.randint(-4, 4), rng.randint(1, 3))

    def matrix(rows: int, columns: int) -> list[list[Fraction]]:
        return [[draw() for _ in range(columns)] for _ in range(rows)]

    k, v, q, s = matrix(T, d_k), matrix(T, d_v), matrix(T, d_k), matrix(d_v, d_k)
    b = [rng.choice(rates) if rates else rng.choice([Fraction(rng.randint(1, 7), 4), 0, 1, 2]) for _ in range(T)]
    a = [rng.choice(gates) if gates else rng.choice([Fraction(rng.randint(1, 4), 5), 1]) for _ in range(T)]
    return Stream(k, v, q, b, a, s, f"random stream (T={T}, d_k={d_k}, d_v={d_v}, seed={seed})")
