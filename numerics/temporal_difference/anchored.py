"""td.anchored measured: both readings from the raw log, in every arithmetic, against their exact values in Q.

The prefix reading answers with iterates, so it has the a posteriori bound of the hold programs. The residual reading
answers with the iterates of a projection too, for which no bound is offered but the radii of balls.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.temporal_difference import anchored
from numerics.errors import error_against
from numerics.measurement import Measurement, timed
from numerics.temporal_difference.hold import measure_held, measure_on_tasks
from numerics.temporal_difference.sample_and_hold import held_depths


def measure_one(task: Task, depth: int, m: int, arithmetic: Any, seed: int, reading: str = "prefix") -> Measurement:
    """The even split of m registers a state, on one task in one arithmetic.

    Raises:
        BadInput: no sampled depth up to L, or an unknown reading.
    """
    found = anchored.split(task.discount, m)
    built = anchored.construction(task.n, depth, found.k, found.samples, reading)
    flags = (f"reading: {reading}",)
    if reading == "prefix":
        means = held_depths((*range(1, found.k + 1), *found.samples), depth)
        return measure_held(built, means, task, arithmetic, seed, flags)
    answer, seconds = timed(arithmetic, lambda: built.outputs(task, arithmetic))
    error = error_against(answer, built.reference(task, RATIONALS))
    enclosed = isinstance(arithmetic, Balls) and error.radius is not None
    exact = arithmetic is RATIONALS
    return Measurement(
        theorem=built.theorem,
        task=task.name,
        arithmetic=arithmetic.name,
        sizes={**built.sizes, "N": task.transitions},
        error=error,
        reference="projection and held residuals in Q",
        bound=error.radius if enclosed and error.radius is not None else 0.0 if exact else float("inf"),
        method="radii of the balls, entry by entry" if enclosed else "exact" if exact else "none",
        seconds=seconds,
        seed=seed,
        flags=flags,
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """As `hold.measure_on_tasks`, one reading after the other."""
    return [
        measurement
        for reading in anchored.READINGS
        for measurement in measure_on_tasks(
            partial(measure_one, reading=reading), seed, quick, device, dtypes, sizes=(4, 8, 12, 20)
        )
    ]
