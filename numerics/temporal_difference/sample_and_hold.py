"""td.sample-and-hold measured: from the raw log to held values, in every arithmetic, against exact held values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constructions.task import Task
from constructions.temporal_difference import sample_and_hold
from numerics.measurement import Measurement
from numerics.temporal_difference.hold import Mean, measure_held, measure_on_tasks


def held_depths(depths: Sequence[int], depth: int) -> list[Mean]:
    """For each depth l <= L the sampled depth whose value is held, in a tuple; empty before the first."""
    last = [max((x for x in depths if x <= l), default=0) for l in range(depth + 1)]
    return [(tau,) if tau else () for tau in last]


def measure_one(task: Task, depth: int, m: int, arithmetic: Any, seed: int) -> Measurement:
    """The schedule of Thm 4.5 with m registers a state, on one task in one arithmetic.

    Raises:
        BadInput: m < 1, or no sampled depth up to L.
    """
    depths = sample_and_hold.schedule(task.discount, m).depths
    built = sample_and_hold.construction(task.n, depth, depths)
    return measure_held(built, held_depths(depths, depth), task, arithmetic, seed)


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """As `hold.measure_on_tasks`."""
    return measure_on_tasks(measure_one, seed, quick, device, dtypes)
