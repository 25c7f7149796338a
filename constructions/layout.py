"""Layouts: the named coordinate blocks of a token, and the selectors that pick them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import sympy as sp

from .errors import BadInput

Size = Any
"""A block width or a token count: a non-negative int, or a sympy expression where a proof is for every size."""


@dataclass(frozen=True, init=False)
class Layout:
    """Named blocks ("fields") stacked into one token of `width` coordinates.

    ``Layout(x=3, y=3, r=1)`` describes tokens (x; y; r) of width 7. Widths may be sympy symbols.

    Raises:
        BadInput: no field, or a width that is neither a positive int nor a sympy expression.
    """

    widths: Mapping[str, Size]

    def __init__(self, **widths: Size) -> None:
        if not widths:
            raise BadInput("layout: expected at least one field, found none")
        for name, width in widths.items():
            if isinstance(width, sp.Expr):
                continue
            if isinstance(width, bool) or not isinstance(width, int) or width < 1:
                raise BadInput(f"layout: expected a positive width for field {name}, found {width!r}")
        object.__setattr__(self, "widths", MappingProxyType(dict(widths)))

    def __iter__(self) -> Iterator[str]:
        return iter(self.widths)

    def __contains__(self, name: object) -> bool:
        return name in self.widths

    def __reduce__(self) -> tuple:
        return (_layout, (dict(self.widths),))

    def __hash__(self) -> int:
        return hash(tuple(self.widths.items()))

    def __getitem__(self, name: str) -> Size:
        """Width of one field."""
        try:
            return self.widths[name]
        except KeyError:
            raise BadInput(f"layout: expected one of the fields {', '.join(self.widths)}, found {name}") from None

    @property
    def width(self) -> Size:
        """Number of coordinates of a token."""
        return sum(self.widths.values())

    def offset(self, name: str) -> Size:
        """Index of the first coordinate of a field."""
        self[name]
        total: Size = 0
        for field, width in self.widths.items():
            if field == name:
                break
            total = total + width
        return total

    def selector(self, name: str) -> sp.MatrixBase | sp.MatrixExpr:
        """E_name, the 0/1 matrix of shape (width of the field, width of the token) with E_name u = field of u.

        Sparse at concrete sizes, a `BlockMatrix` of identities and zeros at symbolic ones.
        """
        return block_row(self, {name: sp.Identity(self[name])}, self[name])

    def named(self, coordinate: int) -> tuple[str, int]:
        """The field that a coordinate lies in, and its index there (for messages)."""
        for field, width in self.widths.items():
            if coordinate < width:
                return field, coordinate
            coordinate -= width
        raise BadInput(f"layout: expected a coordinate below {self.width}, found {coordinate + self.width}")

    def __str__(self) -> str:
        return "(" + "; ".join(f"{name}:{width}" for name, width in self.widths.items()) + ")"


def _layout(widths: dict[str, Size]) -> Layout:
    return Layout(**widths)


def is_concrete(*sizes: Size) -> bool:
    """Whether every size is an int."""
    return all(isinstance(size, int) for size in sizes)


def block_row(layout: Layout, blocks: Mapping[str, Any], rows: Size) -> sp.MatrixBase | sp.MatrixExpr:
    """A matrix of `rows` rows whose column blocks follow the layout; fields not in `blocks` are zero."""
    return block_matrix(
        [rows], list(layout.widths.values()), {(0, list(layout).index(f)): b for f, b in blocks.items()}
    )


def block_matrix(
    heights: list[Size], widths: list[Size], blocks: Mapping[tuple[int, int], Any]
) -> sp.MatrixBase | sp.MatrixExpr:
    """Assemble blocks into a sparse matrix (concrete sizes) or a `BlockMatrix` (symbolic sizes); the rest is zero."""
    if is_concrete(*heights, *widths):
        entries: dict[tuple[int, int], Any] = {}
        for (i, j), block in blocks.items():
            top, left = sum(heights[:i]), sum(widths[:j])
            for (row, column), value in sp.SparseMatrix(block).todok().items():
                entries[top + row, left + column] = value
        return sp.ImmutableSparseMatrix(sum(heights), sum(widths), entries)
    return sp.BlockMatrix(
        [
            [blocks.get((i, j), sp.ZeroMatrix(height, width)) for j, width in enumerate(widths)]
            for i, height in enumerate(heights)
        ]
    )
