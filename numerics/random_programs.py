"""Random straight-line programs over an arithmetic, run with running bounds and in balls: rows that test the bounds.

A program draws small matrices of short fractions and applies random operations of the protocol, each to earlier results
of fitting shapes. Results beyond 2^12 are not used further, so that narrow formats see some without overflow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpq

from constructions.errors import Unsupported
from constructions.exact import Balls
from numerics.errors import ball_up
from numerics.formats import exact_ratio
from numerics.running_bounds import RunningBounds

SIDE = 3
OPERATIONS = (
    "add", "add", "hadamard", "matmul", "matmul", "dots", "scale_columns", "recip_0", "rsqrt_0", "exp", "log", "relu",
    "softmax", "hardmax", "add_columns", "transpose",
)  # fmt: skip
REFERENCE = Balls(300)


@dataclass(frozen=True)
class BoundRow:
    """One operation of a program.

    Attributes:
        operation: which.
        error: the largest error of an entry, rounded up.
        bound: the largest bound.
        sound: whether every entry is within its own bound.
        same: whether the values are those of the run without bounds, bit for bit.
    """

    operation: str
    error: float
    bound: float
    sound: bool
    same: bool


def measured_rows(arithmetic: Any, seed: int, length: int = 8) -> list[BoundRow]:
    """A row for each operation of the program of a seed, inputs included; what balls do not decide is left out."""
    rng = np.random.default_rng(seed)
    bounds = RunningBounds(arithmetic)
    rows, kept = [], []
    with REFERENCE.working():
        for _ in range(2):
            tops = rng.integers(-9, 10, size=(SIDE, SIDE)).tolist()
            bottom = int(rng.integers(1, 8))
            exact = [[fmpq(x, bottom) for x in row] for row in tops]
            kept.append((bounds.matrix(exact), REFERENCE.matrix(exact)))
            rows.append(_row("matrix", bounds, *kept[-1], arithmetic.matrix(exact)))
        for _ in range(length):
            name = OPERATIONS[int(rng.integers(len(OPERATIONS)))]
            i, j = rng.integers(len(kept), size=2)
            try:
                found = _apply(name, bounds, kept[i][0], kept[j][0])
                plain = _apply(name, arithmetic, kept[i][0].value, kept[j][0].value)
                exact = _apply(name, REFERENCE, kept[i][1], kept[j][1])
            except Unsupported:
                continue
            rows.append(_row(name, bounds, found, exact, plain))
            if all(x.is_finite() and abs(x) < 2**12 for x in exact.entries()):
                kept.append((found, exact))
    return rows


def _apply(name: str, arithmetic: Any, a: Any, b: Any) -> Any:
    seen = np.array([[i <= j for j in range(SIDE)] for i in range(SIDE)])
    if name in ("softmax", "hardmax"):
        return getattr(arithmetic, name)(a, seen)
    if name in ("recip_0", "rsqrt_0", "log"):
        # Of b o b + 1: away from zero, so that bounds are finite.
        ones = arithmetic.matrix([[1] * SIDE] * SIDE)
        return getattr(arithmetic, name)(arithmetic.add(arithmetic.hadamard(b, b), ones))
    if name == "exp":
        return arithmetic.exp(arithmetic.negate(arithmetic.relu(a)))
    if name in ("relu", "transpose"):
        return getattr(arithmetic, name)(a)
    if name == "dots":
        return _broadcast(arithmetic, arithmetic.dots(a, b))
    if name == "scale_columns":
        return arithmetic.scale_columns(a, arithmetic.rows(b, 0, 1))
    if name == "add_columns":
        return arithmetic.add_columns(a, 1, arithmetic.columns(b, 0, 2))
    return getattr(arithmetic, name)(a, b)


def _broadcast(arithmetic: Any, row: Any) -> Any:
    return arithmetic.stack([[row]] * SIDE)


def _row(name: str, bounds: RunningBounds, found: Any, exact: arb_mat, plain: Any) -> BoundRow:
    limits = np.asarray(found.error.tolist()).ravel().tolist()
    errors = [
        ball_up(abs(arb(fmpq(*exact_ratio(value))) - target)) if np.isfinite(float(value)) else np.inf
        for value, target in zip(bounds.backend.entries(found.value), exact.entries(), strict=True)
    ]
    sound = all(error <= limit for error, limit in zip(errors, limits, strict=True))
    pairs = zip(bounds.backend.entries(found.value), bounds.backend.entries(plain), strict=True)
    return BoundRow(name, max(errors), max(limits), sound, all(x == y or (x != x and y != y) for x, y in pairs))
