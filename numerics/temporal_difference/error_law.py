"""Error against the number of registers: every scheme on panels of tasks and on worst-case rings (theory A6, A9).

Schemes with m registers a state: projection (m Arnoldi vectors), truncation (m exact steps, then v_m), sample-and-hold
(Thm 4.5), anchored prefix and anchored residual (the even split), midpoint hold (the optimal cover). Errors are
float64, `observed`, over all depths l <= L and states; that midpoint hold keeps e* on a task is decided in balls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.stats import linregress, t

from constructions.errors import BadInput
from constructions.exact import Balls
from constructions.task import Task
from constructions.temporal_difference import anchored, minimax, sample_and_hold
from constructions.temporal_difference.executor import td_values
from constructions.temporal_difference.midpoint_hold import centres
from numerics.tasks import half_ring
from numerics.temporal_difference.projection import arnoldi, iterates
from numerics.temporal_difference.registers import sparse_model

Array = NDArray[np.float64]

RING_SIZES = (1, 2, 4, 8, 16, 32, 64, 100, 128, 200)
BITS = 128


@dataclass(frozen=True)
class SchemeErrors:
    """Worst float64 errors over states and depths for m registers a state, beside exact figures.

    Attributes:
        m: registers a state.
        law: e*(g, m, L).
        psi: Psi_m.
    """

    m: int
    projection: float
    truncation: float
    sample_and_hold: float
    anchored_prefix: float
    anchored_residual: float
    midpoint_hold: float
    law: float
    psi: float


def scheme_errors(
    A: Array | csr_matrix, r: Array, discount: Any, depth: int, sizes: Sequence[int], k: int | None = None
) -> list[SchemeErrors]:
    """Errors of all schemes on one task.

    Args:
        A: shape (n, n), dense or scipy sparse.
        r: shape (n,), |r|_inf <= 1 for `law` to be a bound.
        discount: g.
        depth: L.
        sizes: the m wanted, at least 1.
        k: the Krylov dimension, decided exactly elsewhere; no more Arnoldi vectors are made.

    Raises:
        BadInput: a discount outside (0, 1), or an m that is not a positive int.
    """
    values = iterates(A, r, depth)
    most = min(max(sizes, default=0), depth, r.size if k is None else k)
    basis = arnoldi(A, r, most)
    out = []
    for m in sizes:
        errors = {
            name: float(np.abs(values - answer(values, basis, discount, m)).max()) for name, answer in ANSWERS.items()
        }
        law = {"law": float(minimax.minimax_error(discount, m, depth)), "psi": float(minimax.psi(discount, m))}
        out.append(SchemeErrors(m=m, **errors, **law))
    return out


Basis = tuple[Array, Array, float]
"""Arnoldi vectors, their matrix H and |r|_2, as `projection.arnoldi` returns them."""


def projection(values: Array, basis: Basis, discount: Any, m: int) -> Array:
    """Galerkin projection on m Arnoldi vectors."""
    return projected(*basis, m, len(values) - 1)


def truncation(values: Array, basis: Basis, discount: Any, m: int) -> Array:
    """v_l up to m, then v_m."""
    return values[np.minimum(np.arange(len(values)), m)]


def held(values: Array, basis: Basis, discount: Any, m: int) -> Array:
    """Sample-and-hold with the schedule of Thm 4.5."""
    return values[last_samples(sample_and_hold.schedule(discount, m).depths, len(values) - 1)]


def anchored_prefix(values: Array, basis: Basis, discount: Any, m: int) -> Array:
    """The even split, prefix reading."""
    found = anchored.split(discount, m)
    return values[last_samples((*range(1, found.k + 1), *found.samples), len(values) - 1)]


def anchored_residual(values: Array, basis: Basis, discount: Any, m: int) -> Array:
    """The even split, residual reading: u_l + (v - u) at the last sample."""
    found, depth = anchored.split(discount, m), len(values) - 1
    inner, last = projected(*basis, found.k, depth), last_samples(found.samples, depth)
    return inner + (values - inner)[last] * (last > 0)[:, None]


def midpoints(values: Array, basis: Basis, discount: Any, m: int) -> Array:
    """The centres of the optimal cover."""
    out = np.zeros_like(values)
    for a, b in minimax.cover(discount, m, len(values) - 1).blocks[1:]:
        assert b is not None
        out[a : b + 1] = (values[a] + values[b]) / 2
    return out


ANSWERS: dict[str, Callable[[Array, Basis, Any, int], Array]] = {
    "projection": projection,
    "truncation": truncation,
    "sample_and_hold": held,
    "anchored_prefix": anchored_prefix,
    "anchored_residual": anchored_residual,
    "midpoint_hold": midpoints,
}
"""scheme -> (iterates v_0..v_L, basis, g, m >= 1) -> what it answers at every depth and state, shape (L + 1, n)."""


SCHEMES = tuple(ANSWERS)


def last_samples(depths: Sequence[int], depth: int) -> NDArray[np.int64]:
    """For each l <= L the last of the increasing depths up to l, 0 before the first; shape (L + 1,)."""
    sampled = np.array([0, *(x for x in depths if x <= depth)])
    return sampled[np.searchsorted(sampled, np.arange(depth + 1), side="right") - 1]


def projected(W: Array, H: Array, length: float, m: int, depth: int) -> Array:
    """u_0 .. u_L of the projection on the first m Arnoldi vectors as rows, shape (L + 1, n)."""
    m = min(m, H.shape[0])
    state = np.zeros((depth + 1, m))
    for l in range(depth if m else 0):
        state[l + 1] = H[:m, :m] @ state[l]
        state[l + 1, 0] += length
    return state @ W[:, :m].T


def half_ring_errors(sizes: Sequence[int] = RING_SIZES, n: int = 1000, discount: Any = "99/100") -> list[SchemeErrors]:
    """The schemes on the half ring, L = n: the worst case of both hold methods (theory A9)."""
    return scheme_errors(*sparse_model(half_ring(n, discount)), discount, n, sizes)


def task_errors(task: Task, depth: int, sizes: Sequence[int], k: int | None = None) -> list[SchemeErrors]:
    """The schemes on any task; |r|_inf <= 1 is what makes `law` a bound, `k` its Krylov dimension where known."""
    A, r = sparse_model(task)
    return scheme_errors(A.toarray() if task.n <= 64 else A, r, task.discount, depth, sizes, k)


def keeps_law(task: Task, depth: int, sizes: Sequence[int]) -> bool:
    """Whether midpoint hold errs by at most e*(g, m, L) at each m on this task: decided in balls of exact iterates."""
    with Balls(BITS).working() as balls:
        values = td_values(task, depth, balls)
        for m in sizes:
            law = minimax.law(task.discount, m, depth)
            blocks = [(a, b) for a, b in law.cover.blocks if b is not None]
            limit = arb(fmpq(law.value.numerator, law.value.denominator))
            gaps = (values - centres(task, blocks, depth, balls)).entries()
            # A single depth is answered exactly, so at e* = 0 every difference is zero and no ball decides that.
            if law.value and not all(abs(gap) <= limit for gap in gaps):
                return False
    return True


@dataclass(frozen=True)
class Slope:
    """A slope of log error against log m or log Psi_m, with its 95 % confidence interval (t distribution)."""

    value: float
    low: float
    high: float


def slope(errors: Sequence[SchemeErrors], field: str, low: int, high: int, against: str = "m") -> Slope:
    """Least squares on the sizes from `low` to `high`.

    Raises:
        BadInput: fewer than three sizes there, or an error of zero.
    """
    chosen = [x for x in errors if low <= x.m <= high]
    if len(chosen) < 3:
        raise BadInput(f"slope: expected at least three sizes between {low} and {high}, found {len(chosen)}")
    points = [(getattr(x, against), getattr(x, field)) for x in chosen]
    if any(y <= 0 for _, y in points):
        raise BadInput(f"slope: expected positive errors of {field}, found 0")
    found = linregress(*np.log(np.array(points)).T)
    half = float(t.ppf(0.975, len(points) - 2) * found.stderr)
    return Slope(float(found.slope), float(found.slope) - half, float(found.slope) + half)


def spread(errors: Sequence[SchemeErrors], field: str, over: Callable[[SchemeErrors], float]) -> tuple[float, float]:
    """Smallest and largest quotient of a scheme's error and another figure."""
    found = [getattr(x, field) / over(x) for x in errors]
    return min(found), max(found)
