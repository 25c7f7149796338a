"""The protocol in which a program is run, whatever its numbers are.

An array is a matrix of columns: one column per token, one row per coordinate of a field. Arrays are values: no
operation changes its arguments. Implementations may carry leading batch dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from flint import fmpq
from numpy.typing import NDArray

Array = Any
Exact: TypeAlias = int | Fraction | fmpq
"""What an exact matrix is made of."""


@runtime_checkable
class Arithmetic(Protocol):
    """What an arithmetic must offer. `name` says which one it is, with its precision; it is printed with results."""

    name: str

    def matrix(self, rows: Sequence[Sequence[Exact]], shape: tuple[int, int] | None = None) -> Array:
        """An exact matrix, each entry rounded at most once."""

    def one_hot(self, indices: Sequence[int], size: int) -> Array:
        """Shape (size, len(indices)): column t is the unit vector e_{indices[t]}, or zero where the index is -1."""

    def shape(self, a: Array) -> tuple[Any, Any]:
        """(rows, columns), without batch dimensions."""

    def add(self, a: Array, b: Array) -> Array: ...

    def negate(self, a: Array) -> Array: ...

    def matmul(self, a: Array, b: Array) -> Array: ...

    def transpose(self, a: Array) -> Array: ...

    def hadamard(self, a: Array, b: Array) -> Array:
        """Entry by entry product of equal shapes."""

    def scale_columns(self, a: Array, scores: Array) -> Array:
        """a with column i times scores[0, i]; `scores` has one row."""

    def dots(self, a: Array, b: Array) -> Array:
        """One row: the inner product of column i of a with column i of b."""

    def columns(self, a: Array, start: int, stop: int) -> Array: ...

    def rows(self, a: Array, start: int, stop: int) -> Array: ...

    def stack(self, blocks: Sequence[Sequence[Array]]) -> Array:
        """The block matrix of a grid of arrays."""

    def select(self, a: Array, indices: Sequence[int]) -> Array:
        """The columns named, in this order."""

    def embed(self, a: Array, start: int, total: int) -> Array:
        """`total` columns, zero but for a's columns from `start` on."""

    def add_columns(self, a: Array, start: int, b: Array) -> Array:
        """a with b added to its columns from `start` on."""

    def recip_0(self, a: Array) -> Array:
        """Entry by entry 1/x, and 0 where x = 0. Raises `Unsupported` where x = 0 cannot be decided."""

    def rsqrt_0(self, a: Array) -> Array:
        """Entry by entry x^(-1/2), and 0 where x = 0; mpmath, Arb and torch only."""

    def eq0(self, a: Array) -> Array:
        """Entry by entry 1 where x = 0, else 0. Raises `Unsupported` where x = 0 cannot be decided."""

    def exp(self, a: Array) -> Array:
        """Entry by entry. Raises `Unsupported` where the value has no exact form."""

    def log(self, a: Array) -> Array:
        """Entry by entry, of positive entries. Raises `Unsupported` where the value has no exact form."""

    def relu(self, a: Array) -> Array:
        """Entry by entry max(x, 0). Raises `Unsupported` where the sign cannot be decided."""

    def softmax(self, scores: Array, seen: NDArray[np.bool_]) -> Array:
        """Column by column exp(x) over its sum, over the entries seen; 0 elsewhere, and in a column without any.

        Raises:
            Unsupported: the weights have no exact form.
        """

    def hardmax(self, scores: Array, seen: NDArray[np.bool_]) -> Array:
        """Column by column 1/m at the m largest of the entries seen, 0 elsewhere, and in a column without any.

        Raises:
            Unsupported: it cannot be decided which ones are largest.
        """

    def nonzero(self, a: Array) -> list[bool]:
        """For a one-row array: which entries are not zero. Raises `Unsupported` where that cannot be decided."""
