"""Arithmetic over numpy object arrays: any scalar type, in particular polynomials with integer coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import sympy as sp
from flint import Ordering, fmpq, fmpq_mpoly_ctx, fmpz_mpoly_ctx

from .arithmetic import Array, Exact
from .entrywise import Entrywise
from .errors import Unsupported


class ObjectArithmetic(Entrywise):
    """Matrices as numpy arrays of Python objects with `+` and `*`; `scalar` makes an entry from an exact number."""

    def __init__(self, name: str, scalar: Callable[[Any], Any]) -> None:
        self.name = name
        self.scalar = scalar

    def __repr__(self) -> str:
        return self.name

    def matrix(self, rows: Sequence[Sequence[Exact]], shape: tuple[int, int] | None = None) -> Array:
        height, width = shape or (len(rows), len(rows[0]))
        out = np.empty((height, width), dtype=object)
        for i, row in enumerate(rows):
            for j, x in enumerate(row):
                out[i, j] = self.scalar(x)
        return out

    def one_hot(self, indices: Sequence[int], size: int) -> Array:
        out = self._zeros(size, len(indices))
        for t, i in enumerate(indices):
            if i >= 0:
                out[i, t] = self.scalar(1)
        return out

    def shape(self, a: Array) -> tuple[int, int]:
        return a.shape[-2], a.shape[-1]

    def add(self, a: Array, b: Array) -> Array:
        return a + b

    def negate(self, a: Array) -> Array:
        return -a

    def matmul(self, a: Array, b: Array) -> Array:
        if a.shape[-1] == 0:
            return self._zeros(a.shape[-2], b.shape[-1])
        return a @ b

    def transpose(self, a: Array) -> Array:
        return a.T

    def hadamard(self, a: Array, b: Array) -> Array:
        return a * b

    def scale_columns(self, a: Array, scores: Array) -> Array:
        return a * scores

    def dots(self, a: Array, b: Array) -> Array:
        return (a * b).sum(axis=0, keepdims=True)

    def columns(self, a: Array, start: int, stop: int) -> Array:
        return a[:, start:stop]

    def rows(self, a: Array, start: int, stop: int) -> Array:
        return a[start:stop]

    def stack(self, blocks: Sequence[Sequence[Array]]) -> Array:
        return np.block([list(line) for line in blocks])

    def select(self, a: Array, indices: Sequence[int]) -> Array:
        return a[:, list(indices)]

    def embed(self, a: Array, start: int, total: int) -> Array:
        out = self._zeros(a.shape[0], total)
        out[:, start : start + a.shape[1]] = a
        return out

    def add_columns(self, a: Array, start: int, b: Array) -> Array:
        out = a.copy()
        out[:, start : start + b.shape[1]] += b
        return out

    def recip_0(self, a: Array) -> Array:
        return self._entrywise(a, self._recip_0)

    def rsqrt_0(self, a: Array) -> Array:
        return self._entrywise(a, self._rsqrt_0)

    def eq0(self, a: Array) -> Array:
        live = iter(self.nonzero(a))
        return self._entrywise(a, lambda _: self.scalar(0 if next(live) else 1))

    def nonzero(self, a: Array) -> list[bool]:
        return [bool(x != 0) for x in a.ravel()]

    def _zeros(self, height: int, width: int) -> Array:
        out = np.empty((height, width), dtype=object)
        # fill, not out[...] = x: numpy would take a polynomial for a sequence
        out.fill(self.scalar(0))
        return out

    def _entrywise(self, a: Array, function: Callable[[Any], Any]) -> Array:
        out = np.empty_like(a)
        for index, x in np.ndenumerate(a):
            out[index] = function(x)
        return out

    def _table(self, a: Array) -> list[list[Any]]:
        return a.tolist()

    def _from_table(self, rows: list[list[Any]], shape: tuple[int, int]) -> Array:
        out = np.empty(shape, dtype=object)
        for index in np.ndindex(*shape):
            out[index] = rows[index[0]][index[1]]
        return out

    def _recip_0(self, x: Any) -> Any:
        raise Unsupported(f"{self.name}: no reciprocal")

    def _rsqrt_0(self, x: Any) -> Any:
        raise Unsupported(f"{self.name}: no square root")


class Polynomials(ObjectArithmetic):
    """Z[names] by FLINT's `fmpz_mpoly`, or Q[names] by `fmpq_mpoly`: canonical forms, so equality is decided.

    Entries of exact matrices may be sympy polynomials in symbols of these names.

    A polynomial is neither zero nor invertible for every value of its symbols, so `recip_0` and `nonzero` are refused.
    """

    def __init__(self, names: Sequence[str], *, rational: bool = False) -> None:
        context = fmpq_mpoly_ctx if rational else fmpz_mpoly_ctx
        self.ring = context.get(list(names) or ["t"], Ordering.degrevlex)
        self.symbols = dict(zip(names, self.ring.gens(), strict=False))
        super().__init__(f"{'Q' if rational else 'Z'}[{len(names)} symbols]", self._element)

    def _element(self, x: Any) -> Any:
        if isinstance(x, Fraction):
            return self.ring.constant(fmpq(x.numerator, x.denominator))
        if not isinstance(x, sp.Expr) or x.is_Integer:
            return self.ring.constant(x if not isinstance(x, sp.Expr) else int(x))
        if x.is_Rational:
            return self.ring.constant(fmpq(int(x.p), int(x.q)))
        if x.is_Symbol and x.name in self.symbols:
            return self.symbols[x.name]
        if x.is_Pow and x.exp.is_Integer and x.exp > 0:
            return self._element(x.base) ** int(x.exp)
        if x.is_Add or x.is_Mul:
            parts = [self._element(part) for part in x.args]
            return reduce(lambda a, b: a + b if x.is_Add else a * b, parts)
        raise Unsupported(f"{self.name}: {x} is not a polynomial in its symbols")

    def generic(self, name: str, rows: int, columns: int) -> Array:
        """The matrix of the symbols ``name_i_j``; they must be among the names of the ring."""
        out = np.empty((rows, columns), dtype=object)
        for i in range(rows):
            for j in range(columns):
                out[i, j] = self.symbols[f"{name}_{i}_{j}"]
        return out

    def nonzero(self, a: Array) -> list[bool]:
        raise Unsupported(f"{self.name}: whether a polynomial vanishes depends on its symbols")


def symbol_names(**shapes: tuple[int, int]) -> list[str]:
    """Names ``x_i_j`` for generic matrices of the given shapes, in order."""
    return [f"{name}_{i}_{j}" for name, (rows, columns) in shapes.items() for i in range(rows) for j in range(columns)]
