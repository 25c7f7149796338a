"""td.linear-features measured: from raw transitions with features to every prediction of batch TD.

Reference and bound are those of td.full-context with the step a I: exact predictions in Q by moments, and exact
residuals of the weights, which the run reports because the unit vectors are among its queries. Float runs get the
exact k = dim K_L(M, s_0) as their number of rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import nmod_mat

from constructions.exact import RATIONALS, Balls
from constructions.temporal_difference import krylov, linear_features
from constructions.temporal_difference.linear_features import BatchTask
from numerics.errors import error_against
from numerics.feature_tasks import boyan_chain, random_chain, tiled_walk, with_unit_queries
from numerics.measurement import Measurement, timed
from numerics.mountain_car import TILINGS, TileLog
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.temporal_difference.full_context import exact_predictions, prediction_bound
from numerics.temporal_difference.krylov import BALL_BITS, MPMATH_BITS, VARIANTS
from numerics.torch_arithmetic import TorchArithmetic

PRIME = 2**61 - 1


def dimension(task: BatchTask, depth: int) -> int:
    """dim K_L(M, s_0), decided in Q."""
    context = krylov.exact_context(task, depth)
    return 0 if context is None else context.ncols()


def tile_dimension(log: TileLog, depth: int) -> tuple[int, str]:
    """dim K_L(M, s_0) = dim K_L(A_N, b_N) of a tile log, and how it is known.

    The rank modulo a prime of [b, A b, .., A^{L-1} b], with q A_N for A, never exceeds the rank over Q. From above
    there are L and d - 7: the space lies in the span of the phi_t, on which differences of two tilings vanish.
    """
    A = nmod_mat(log.d, log.d, log.scaled_A.ravel().tolist(), PRIME)
    vector = nmod_mat(log.d, 1, log.moments[2].tolist(), PRIME)
    entries: list[int] = []
    limit = min(log.d - (TILINGS - 1), depth)
    for _ in range(limit):
        entries += [int(x) for x in vector.entries()]
        vector = A * vector
    rank = nmod_mat(limit, log.d, entries, PRIME).rank()
    return rank, "rank modulo 2^61 - 1 = min(d - 7, L)" if rank == limit else "at least: rank modulo 2^61 - 1"


def measure_one(task: BatchTask, depth: int, variant: tuple[str, int, bool], arithmetic: Any, seed: int) -> Measurement:
    """The whole program on one task in one arithmetic; the log's first queries must be the unit vectors."""
    name, passes, balanced = variant
    k = dimension(task, depth)
    built = linear_features.construction(task.n, depth, passes=passes, balanced=balanced, rounds=max(k, 1))
    weights = [linear_features.step_matrix(task)] * depth
    value, seconds = timed(arithmetic, lambda: built.outputs(task, arithmetic))
    error = error_against(value, exact_predictions("td", task.log, weights, Fraction(0)))
    if isinstance(arithmetic, Balls):
        bound, method = error.radius, "radii of the balls, entry by entry"
    else:
        bound = prediction_bound(value, "td", task.log, weights, Fraction(0))
        method = "a posteriori: exact residuals of the weights, componentwise"
    assert bound is not None
    notes = ["encoder and executor", name, f"step {task.step}"]
    if bound == math.inf:
        notes.append("the values are not all finite")
    return Measurement(
        theorem=linear_features.THEOREM,
        task=task.name,
        arithmetic=arithmetic.name,
        sizes={**built.sizes, "N": len(task.log.features), "k": k},
        error=error,
        reference="batch TD in Q, by moments",
        bound=bound,
        method=method,
        seconds=seconds,
        seed=seed,
        flags=tuple(notes),
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Boyan chain, tilings whose features are dependent, a random chain; step 1/N. The full run has longer logs.

    Raises:
        BadInput: an unknown dtype or device.
    """
    transitions = 100 if quick else 500
    logs = [
        (boyan_chain(transitions, "9/10", seed), 30),
        (tiled_walk(12, 3, 4, transitions, "9/10", seed), 30),
        (random_chain(8, 5, transitions, "9/10", seed), 12),
    ]
    tasks = [(BatchTask(with_unit_queries(log), Fraction(1, transitions)), depth) for log, depth in logs]
    out = [
        measure_one(task, depth, variant, TorchArithmetic(dtype, device), seed)
        for dtype in dtypes
        for task, depth in tasks
        for variant in VARIANTS
    ]
    small = BatchTask(with_unit_queries(tiled_walk(seed=seed)), Fraction(1, 20))
    precise: tuple[Any, ...] = (MpmathArithmetic(MPMATH_BITS), Balls(BALL_BITS))
    out += [measure_one(small, 6, VARIANTS[2], arithmetic, seed) for arithmetic in precise]
    return [*out, measure_one(small, 6, VARIANTS[0], RATIONALS, seed)]
