"""td.sample-and-hold measured: from the raw log to held values, in every arithmetic, against exact held values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.temporal_difference import sample_and_hold
from numerics.measurement import Measurement
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle, reversible_chain, with_terminal
from numerics.temporal_difference.hold import Mean, measure_held
from numerics.temporal_difference.krylov import BALL_BITS, MPMATH_BITS
from numerics.torch_arithmetic import TorchArithmetic


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
