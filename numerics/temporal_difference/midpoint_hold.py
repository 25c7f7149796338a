"""td.midpoint-hold measured: from the raw log to centres of the optimal cover, against exact centres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.temporal_difference import midpoint_hold, minimax
from numerics.measurement import Measurement
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle, reversible_chain, with_terminal
from numerics.temporal_difference.hold import Mean, measure_held
from numerics.temporal_difference.krylov import BALL_BITS, MPMATH_BITS
from numerics.torch_arithmetic import TorchArithmetic


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
    """Sampled chains in torch; a small one with terminal successors in mpmath, Arb balls and Q too.

    Raises:
        BadInput: an unknown dtype or device.
    """
    small = with_terminal(reversible_chain(8, 80, seed=seed), 0.1, seed)
    large = [block_cycle(seed=seed), reversible_chain(seed=seed)]
    out = []
    for dtype in dtypes:
        arithmetic = TorchArithmetic(dtype, device)
        sizes = (4, 12) if quick else (1, 4, 8, 12, 20)
        out += [measure_one(task, 30, m, arithmetic, seed) for task in large for m in sizes]
        out.append(measure_one(small, 12, 3, arithmetic, seed))
    precise: tuple[Any, ...] = (MpmathArithmetic(MPMATH_BITS), Balls(BALL_BITS), RATIONALS)
    return out + [measure_one(small, 12, 3, exact, seed) for exact in precise]
