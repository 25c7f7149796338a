"""How far computed values are from exact ones: exact differences, and a bound that needs no exact solution.

A float stands for its binary value. Differences are taken in Q (against balls: in Arb); only a final figure becomes a
float, and it is rounded up, so that neither an error nor a bound is ever understated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat, fmpz, fmpz_mat

from constructions.errors import BadInput
from constructions.task import Task

_WORKING_BITS = 512
"""Precision of differences against balls, far beyond that of the values compared."""


@dataclass(frozen=True)
class ErrorFigures:
    """Errors in the maximum norm, rounded up.

    Attributes:
        absolute: max |value - exact|; infinite where a value is NaN or infinite.
        relative: the same divided by max |exact|; infinite where only that is zero.
        where: (row, column) of the largest error; None for an empty array.
        contained: whether every exact entry lies within its own enclosure (a ball, or the allowance given); None
            where there is none.
        radius: the largest radius of an enclosure; None where there is none.
    """

    absolute: float
    relative: float
    where: tuple[int, int] | None
    contained: bool | None = None
    radius: float | None = None


def round_up(x: Fraction | fmpq | int) -> float:
    """The smallest float that is at least x."""
    p, q = (x.numerator, x.denominator) if isinstance(x, (int, Fraction)) else (int(x.p), int(x.q))
    try:
        value = p / q
    except OverflowError:
        return math.inf if p > 0 else -np.finfo(np.float64).max
    if math.isfinite(value):
        a, b = value.as_integer_ratio()
        if a * q < p * b:
            value = math.nextafter(value, math.inf)
    return value


def ball_up(x: arb) -> float:
    """A float that is at least every point of a ball."""
    upper = _dyadic(x.upper())
    return math.inf if upper is None else round_up(upper)


def ball_down(x: arb) -> float:
    """A float that is at most every point of a ball."""
    return -ball_up(-x)


def _dyadic(x: arb) -> fmpq | None:
    """The midpoint of a ball, exactly."""
    if not x.is_finite():
        return None
    man, exponent = x.mid().man_exp()
    return fmpq(int(man)) * fmpq(2) ** int(exponent)


def exact_entries(value: Any) -> tuple[tuple[int, int], list[fmpq | None]]:
    """Shape and row-major entries in Q of a tensor, a numpy array (floats or mpf) or an fmpq_mat; None if not finite.

    Raises:
        BadInput: the array is not a matrix.
    """
    if isinstance(value, fmpq_mat):
        return (value.nrows(), value.ncols()), value.entries()
    if hasattr(value, "detach"):
        # float64 holds every narrower format exactly.
        value = value.detach().cpu().double().numpy()
    array = np.asarray(value)
    if array.ndim != 2:
        raise BadInput(f"error figures: expected a matrix of values, found shape {array.shape}")
    shape = (int(array.shape[0]), int(array.shape[1]))
    return shape, [_exact(x) for x in array.ravel().tolist()]


def _exact(x: Any) -> fmpq | None:
    if hasattr(x, "_mpf_"):
        sign, man, exponent, _ = x._mpf_
        if not man and exponent:
            return None
        magnitude = fmpq(int(man)) * fmpq(2) ** int(exponent)
        return -magnitude if sign else magnitude
    if isinstance(x, float):
        return fmpq(*x.as_integer_ratio()) if math.isfinite(x) else None
    return fmpq(x.numerator, x.denominator)


def error_against(
    value: Any, exact: fmpq_mat | arb_mat, allowance: Sequence[Fraction | float] | None = None
) -> ErrorFigures:
    """Errors of computed values against exact ones of the same shape.

    Args:
        value: torch tensor, numpy array of floats or mpf, fmpq_mat, or arb_mat. For balls the error is that of their
            midpoints, and each ball must contain its exact entry.
        exact: the exact values, or balls that hold them (their radii are added to the errors).
        allowance: an error bound per entry, row-major, for `contained`.

    Raises:
        BadInput: the shapes differ.
    """
    target = exact.entries()
    limits: list[fmpq | None] | None = None
    if isinstance(value, arb_mat):
        balls = value.entries()
        shape, entries = (value.nrows(), value.ncols()), [_dyadic(x) for x in balls]
        limits = [_dyadic(x.rad()) if x.is_finite() else None for x in balls]
    else:
        shape, entries = exact_entries(value)
        if allowance is not None:
            limits = [_exact(x) for x in allowance]
    if shape != (exact.nrows(), exact.ncols()):
        raise BadInput(f"error figures: expected values of shape {(exact.nrows(), exact.ncols())}, found {shape}")
    gaps: list[fmpq | None]
    if isinstance(exact, arb_mat):
        with ctx.workprec(_WORKING_BITS):
            # Upper end points: at this precision they exceed the distances by nothing that matters.
            gaps = [
                None if x is None else _dyadic(abs(arb(x) - y).upper()) for x, y in zip(entries, target, strict=True)
            ]
            scale = Fraction(max((ball_down(abs(y)) for y in target), default=0.0))
    else:
        gaps = [None if x is None else abs(x - y) for x, y in zip(entries, target, strict=True)]
        scale = _fraction(max(map(abs, target), default=fmpq(0)))
    contained = radius = None
    if limits is not None:
        pairs = zip(gaps, limits, strict=True)
        contained = all(limit is None or (gap is not None and gap <= limit) for gap, limit in pairs)
        radius = math.inf if None in limits else round_up(max((x for x in limits if x is not None), default=fmpq(0)))
    if not gaps:
        return ErrorFigures(0.0, 0.0, None, contained, radius)
    worst = gaps.index(None) if None in gaps else max(range(len(gaps)), key=lambda i: gaps[i] or fmpq(0))
    largest = gaps[worst]
    absolute = math.inf if largest is None else round_up(largest)
    return ErrorFigures(absolute, _relative(absolute, scale), divmod(worst, shape[1]), contained, radius)


def _relative(absolute: float, scale: Fraction) -> float:
    if absolute == 0:
        return 0.0
    if math.isinf(absolute) or scale <= 0:
        return math.inf
    return round_up(Fraction(absolute) / scale)


def _fraction(x: fmpq) -> Fraction:
    return Fraction(int(x.p), int(x.q))


def residual_bound(values: Any, task: Task) -> list[float]:
    """Rigorous error bounds of TD iterates, one per depth, however they were computed.

    With exact v_{l+1} = r + A v_l, the errors e_l = |v^_l - v_l|_inf of values v^_0, .., v^_L obey e_0 = |v^_0|_inf and
    v^_{l+1} - v_{l+1} = A (v^_l - v_l) + (v^_{l+1} - r - A v^_l), hence

        e_{l+1} <= g |P|_inf e_l + |v^_{l+1} - r - A v^_l|_inf .

    The residuals are exact: with v^ scaled to integers, A v^ is one product of integer matrices by the counts.

    Args:
        values: rows v^_0 .. v^_L, shape (L + 1, n): torch tensor, numpy array of floats or mpf, or fmpq_mat.
        task: gives A, r; its counts are used, no attention.

    Returns:
        e_0, .., e_L, each rounded up; infinite from the first depth whose values are not all finite.

    Raises:
        BadInput: the number of columns is not n.
    """
    (rows, columns), entries = exact_entries(values)
    if columns != task.n or not rows:
        raise BadInput(f"residual bound: expected values of shape (L + 1, {task.n}), found {(rows, columns)}")
    n = task.n
    finite = rows
    for place, x in enumerate(entries):
        if x is None:
            finite = place // n
            break
    bounds: list[float] = []
    residuals = _residuals([x for x in entries[: finite * n] if x is not None], finite, task)
    contraction = _norm(task)
    for residual in residuals:
        previous = Fraction(bounds[-1]) if bounds and math.isfinite(bounds[-1]) else Fraction(0)
        bounds.append(math.inf if bounds and math.isinf(bounds[-1]) else round_up(contraction * previous + residual))
    return bounds + [math.inf] * (rows - finite)


def _norm(task: Task) -> Fraction:
    """g |P|_inf, the largest row sum of A."""
    rows = zip(task.counts.sum(axis=1).tolist(), task.visits.tolist(), strict=True)
    return task.discount * max(Fraction(going, visits) for going, visits in rows)


def _residuals(entries: list[fmpq], depths: int, task: Task) -> list[Fraction]:
    """|v^_0|_inf, then |v^_{l+1} - r - A v^_l|_inf for each l, exact."""
    if not depths:
        return []
    n, g = task.n, task.discount
    out = [max(_fraction(abs(x)) for x in entries[:n])]
    if depths == 1:
        return out
    scale = fmpz(math.lcm(*{int(x.q) for x in entries}))
    scaled = [x.p * (scale // x.q) for x in entries]
    moved = fmpz_mat(task.counts.tolist()) * fmpz_mat(depths, n, scaled).transpose()
    # Row i over the common denominator q N_i s R: (v^_{l+1} - r - A v^_l)_i, with g = p / q and R that of the rewards.
    visits, sums = task.visits.tolist(), task.reward_sums
    common = math.lcm(*(x.denominator for x in sums))
    p, q = g.numerator, g.denominator
    own = [fmpz(q * v * common) for v in visits]
    rewards = [fmpz(int(x * common)) * q * scale for x in sums]
    factor = fmpz(p * common)
    products = moved.entries()
    width = depths
    for l in range(depths - 1):
        tops = [abs(own[i] * scaled[(l + 1) * n + i] - rewards[i] - factor * products[i * width + l]) for i in range(n)]
        out.append(max(Fraction(int(top), int(d * scale)) for top, d in zip(tops, own, strict=True)))
    return out
