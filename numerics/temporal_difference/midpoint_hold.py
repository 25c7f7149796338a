"""td.midpoint-hold measured: from the raw log to centres of the optimal cover, against exact centres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constructions.task import Task
from constructions.temporal_difference import midpoint_hold, minimax
from numerics.measurement import Measurement
from numerics.temporal_difference.hold import Mean, measure_held, measure_on_tasks


def centre_depths(cover: minimax.Cover, depth: int) -> list[Mean]:
    """For each depth l <= L the two ends of its block; empty on the zero block."""
    out: list[Mean] = []
    for l in range(depth + 1):
        place, (a, b) = next((s, (a, b)) for s, (a, b) in enumerate(cover.blocks) if b is None or a <= l <= b)
        assert b is not None
        out.append((a, b) if place else ())
    return out


def measure_one(task: Task, depth: int, m: int, arithmetic: Any, seed: int) -> Measurement:
    """The optimal cover with m registers a state, on one task in one arithmetic.

    Raises:
        BadInput: m < 1.
    """
    built = midpoint_hold.construction(task.n, depth, m, task.discount)
    cover = minimax.cover(task.discount, min(m, depth), depth)
    return measure_held(built, centre_depths(cover, depth), task, arithmetic, seed)


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """As `hold.measure_on_tasks`."""
    return measure_on_tasks(measure_one, seed, quick, device, dtypes)
