"""td.memory-optimal measured: nk + k registers, in floats, from the raw log and from the exact context.

Reference and bound are those of td.executor: exact iterates in Q, and exact residuals of the values computed. Float
runs get the exact k as their number of rounds. The price of so few registers is conditioning: the powers A^j r become
parallel, and on a slow chain digits go (`conditioning` has the curve).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from constructions.construction import Construction
from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.temporal_difference import memory_optimal
from numerics.measurement import Measurement
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.reversible_tasks import birth_death_chain, symmetric_chain
from numerics.tasks import block_cycle, reversible_chain, with_terminal
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.executor import measure_built
from numerics.temporal_difference.krylov import BALL_BITS, MPMATH_BITS
from numerics.torch_arithmetic import TorchArithmetic

Build = Callable[..., Construction]
FORMULA = "nk + k"


def measure_kept(
    build: Build, task: Task, depth: int, passes: int, arithmetic: Any, seed: int, flags: Sequence[str]
) -> Measurement:
    """Encoder and executor of one kept context, with the exact k as number of rounds (1 where k = 0)."""
    k = krylov_dimension(task, depth, seed).value
    built = build(task.n, depth, passes=passes, rounds=max(k, 1))
    notes = ["encoder and executor", f"{passes} pass" + ("es" if passes > 1 else ""), *flags]
    return measure_built(built, task, arithmetic, seed, k, notes)


def measure_context(build: Build, task: Task, depth: int, arithmetic: Any, seed: int) -> Measurement:
    """The executor alone on the exact context, rounded once; `build` is `from_context` of a module."""
    k = krylov_dimension(task, depth, seed).value
    built = build(task.n, depth)
    notes = ["executor alone, exact context rounded once"]
    return measure_built(built, task, arithmetic, seed, k, notes)


def measure_module(
    module: Any, formula: str, tasks: Sequence[tuple[Task, int]], seed: int, device: Any, dtypes: Sequence[str]
) -> list[Measurement]:
    """One and two passes and the executor alone in floats on every task; the last task in mpmath, balls and Q too."""
    out = []
    for dtype in dtypes:
        arithmetic = TorchArithmetic(dtype, device)
        for task, depth in tasks:
            for passes in (1, 2):
                out.append(measure_kept(module.construction, task, depth, passes, arithmetic, seed, [formula]))
            out.append(measure_context(module.from_context, task, depth, arithmetic, seed))
    task, depth = tasks[-1]
    precise: tuple[Any, ...] = (MpmathArithmetic(MPMATH_BITS), Balls(BALL_BITS), RATIONALS)
    out += [measure_kept(module.construction, task, depth, 1, exact, seed, [formula]) for exact in precise]
    return out


def general_tasks(seed: int, quick: bool) -> list[tuple[Task, int]]:
    """(task, depth): a block cycle with k = 12, a slow and a fast chain; the last one is small and has terminals."""
    small = with_terminal(reversible_chain(8, 80, seed=seed), 0.1, seed)
    tasks = [(block_cycle(seed=seed), 30), (birth_death_chain(12, seed=seed), 48)]
    return [*tasks, *([] if quick else [(symmetric_chain(seed=seed), 30)]), (small, 12)]


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Sampled chains, fast and slow.

    Raises:
        BadInput: an unknown dtype or device.
    """
    return measure_module(memory_optimal, FORMULA, general_tasks(seed, quick), seed, device, dtypes)
