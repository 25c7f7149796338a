"""The least context for a tolerance: on one log, and over all logs with the same discount, depth and reward bound.

A scheme answers every depth l <= L from m registers a state. On the log its worst error is measured in float64
(`observed`). Over all logs with |r|_inf <= R it is at most R times an exact number: the mass of the largest block for
truncation, sample-and-hold and the anchored prefix, e*(g, m, L) for midpoint hold, which no scheme can beat; projection
and the anchored residual have no such bound. With k registers, the exact Krylov dimension, the log is answered exactly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from constructions.errors import BadInput
from constructions.temporal_difference import anchored, minimax, sample_and_hold
from numerics.errors import round_up
from numerics.temporal_difference.error_law import ANSWERS
from numerics.temporal_difference.projection import arnoldi, iterates

Array = NDArray[np.float64]

BOUNDED = ("truncation", "sample_and_hold", "anchored_prefix")
"""Schemes that hold sampled values: their worst error is a mass."""
LIMIT = 256
"""Largest m that is looked at."""


@dataclass(frozen=True)
class Recommendation:
    """The least m of a scheme for a tolerance.

    Attributes:
        scheme: its name.
        m: the least m whose error on this log is within the tolerance; None if there is none up to the limit.
        error: the error on this log at m.
        guarantee: a bound on the error at m over all logs with this reward bound, rounded up; None where none is known.
        m_all: the least m whose guarantee is within the tolerance; None if there is none up to the limit.
    """

    scheme: str
    m: int | None
    error: float | None
    guarantee: float | None
    m_all: int | None


def worst_mass(discount: Fraction, depth: int, depths: Sequence[int]) -> Fraction:
    """The largest mass of a block between sampled depths up to L: the worst error for |r|_inf <= 1."""
    kept = [x for x in depths if x <= depth]
    return sample_and_hold.hold_error(discount, kept, depth) if kept else minimax.mass(discount, 0, depth)


def _depths(scheme: str, discount: Fraction, m: int) -> Sequence[int]:
    if scheme == "truncation" or m == 0:
        return range(1, m + 1)
    if scheme == "sample_and_hold":
        return sample_and_hold.schedule(discount, m).depths
    found = anchored.split(discount, m)
    return (*range(1, found.k + 1), *found.samples)


def worst_error(scheme: str, discount: Fraction, m: int, depth: int) -> Fraction | None:
    """The worst error over all logs with |r|_inf <= 1, exact; None for a scheme without a bound."""
    if scheme == "midpoint_hold":
        return minimax.minimax_error(discount, m, depth)
    if scheme in BOUNDED:
        return worst_mass(discount, depth, _depths(scheme, discount, m))
    return None


def recommend(
    A: Array | csr_matrix, r: Array, discount: Fraction, depth: int, tolerance: float, k: int
) -> list[Recommendation]:
    """The least m of every scheme, and of the exact context.

    Args:
        A: shape (n, n), dense or scipy sparse.
        r: shape (n,), mean rewards; R = max |r|.
        discount: g.
        depth: L >= 1.
        tolerance: largest error allowed, in the units of the values.
        k: the exact Krylov dimension.

    Raises:
        BadInput: a tolerance that is not a positive finite number, or a discount outside (0, 1).
    """
    if not 0 < tolerance < float("inf"):
        raise BadInput(f"tolerance: expected a positive finite number, found {tolerance}")
    values, bound = iterates(A, r, depth), Fraction(float(np.abs(r).max(initial=0.0)))
    basis = arnoldi(A, r, min(k, depth))
    limit = min(depth + int(1 / (1 - discount)), LIMIT)
    nothing = float(np.abs(values).max())
    out = []
    for scheme, answer in ANSWERS.items():

        def on_log(m: int, answer: Callable[..., Array] = answer) -> float:
            return nothing if m == 0 else float(np.abs(values - answer(values, basis, discount, m)).max())

        everywhere = partial(_scaled, scheme, discount, depth, bound)
        m_all = _least_everywhere(scheme, discount, depth, bound, tolerance, limit)
        top = k if scheme == "projection" else limit if m_all is None else m_all
        m = _least(lambda m: on_log(m) <= tolerance, top)
        if m is None:
            out.append(Recommendation(scheme, None, None, None, m_all))
        else:
            out.append(Recommendation(scheme, m, on_log(m), everywhere(m), m_all))
    return [*out, Recommendation("exact", k, 0.0, None, min(len(r), depth))]


def _scaled(scheme: str, discount: Fraction, depth: int, bound: Fraction, m: int) -> float | None:
    worst = worst_error(scheme, discount, m, depth)
    return None if worst is None else round_up(bound * worst)


def _least_everywhere(
    scheme: str, discount: Fraction, depth: int, bound: Fraction, tolerance: float, limit: int
) -> int | None:
    """The least m up to the limit whose guarantee is within the tolerance: in Q, floats only skip what is far."""

    def kept(m: int) -> bool:
        worst = worst_error(scheme, discount, m, depth)
        return worst is not None and bound * worst <= Fraction(tolerance)

    if scheme == "midpoint_hold":
        # e* does not grow with m.
        return bisect_left(range(limit), True, key=kept) if kept(limit) else None
    if scheme not in BOUNDED:
        return None
    near = tolerance * (1 + 1e-9)
    g, scale = float(discount), float(bound) / float(1 - discount)

    def close(m: int) -> bool:
        inner = [x for x in _depths(scheme, discount, m) if x <= depth]
        starts, ends = np.array([0, *inner]), np.array([*(x - 1 for x in inner), depth])
        return bool(scale * (g**starts - g**ends).max() <= near)

    return _least(lambda m: close(m) and kept(m), limit)


def _least(holds: Callable[[int], Any], limit: int) -> int | None:
    return next((m for m in range(limit + 1) if holds(m)), None)
