"""td.executor measured: from the raw log, or from the exact context, to every TD iterate at every state.

Reference: the exact iterates, in Q, or in Arb balls for hundreds of states (radii are added to the error). Bound: that
of `residual_bound`, from the values alone. Float runs get the exact k as their number of rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flint import arb_mat, fmpq_mat

from constructions.construction import Construction
from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.temporal_difference import executor
from numerics.errors import error_against, residual_bound
from numerics.measurement import Measurement, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle, reversible_chain, with_terminal, with_zero_rewards
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.krylov import BALL_BITS, MPMATH_BITS, VARIANTS
from numerics.torch_arithmetic import TorchArithmetic

EXACT_STATES = 64
"""Up to this many states the reference is exact in Q, beyond it is enclosed in balls."""


def reference_values(task: Task, depth: int) -> tuple[fmpq_mat | arb_mat, str]:
    """v_0 .. v_L as rows, shape (L + 1, n), exact or in balls, and a phrase that says which."""
    if task.n <= EXACT_STATES:
        return executor.td_values(task, depth, RATIONALS), "TD iterates in Q"
    balls = Balls(BALL_BITS)
    with balls.working():
        return executor.td_values(task, depth, balls), f"TD iterates, {balls.name}"


def measure_built(
    built: Construction, task: Task, arithmetic: Any, seed: int, k: int, flags: Sequence[str]
) -> Measurement:
    """One executor construction (whole, or alone) on one task in one arithmetic."""
    depth = built.sizes["L"]
    value, seconds = timed(arithmetic, lambda: built.outputs(task, arithmetic))
    exact, reference = reference_values(task, depth)
    error = error_against(value, exact)
    if isinstance(arithmetic, Balls):
        bound, method = error.radius, "radii of the balls, entry by entry"
    else:
        bound, method = max(residual_bound(value, task)), "a posteriori: exact residuals of the iterates"
    assert bound is not None
    notes = list(flags)
    if bound == float("inf"):
        notes.append("the values are not all finite")
    return Measurement(
        theorem=built.theorem,
        task=task.name,
        arithmetic=arithmetic.name,
        sizes={**built.sizes, "N": task.transitions, "k": k},
        error=error,
        reference=reference,
        bound=bound,
        method=method,
        seconds=seconds,
        seed=seed,
        flags=tuple(notes),
    )


def measure_whole(
    task: Task, depth: int, variant: tuple[str, int, bool], arithmetic: Any, seed: int, rounds: int | None = None
) -> Measurement:
    """Encoder and executor; `rounds` None means the exact k, and 1 where k = 0."""
    name, passes, balanced = variant
    k = krylov_dimension(task, depth, seed).value
    h = max(k, 1) if rounds is None else rounds
    built = executor.construction(task.n, depth, passes=passes, balanced=balanced, rounds=h)
    flags = ["encoder and executor", name]
    if h > k:
        flags.append(f"{h} rounds, exact k = {k}")
    return measure_built(built, task, arithmetic, seed, k, flags)


def measure_alone(task: Task, depth: int, arithmetic: Any, seed: int) -> Measurement:
    """The executor on the exact context, rounded once."""
    k = krylov_dimension(task, depth, seed).value
    return measure_built(
        executor.from_context(task.n, depth), task, arithmetic, seed, k, ["executor alone, exact context rounded once"]
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Executor and whole pipeline on sampled chains; the full run adds 480 states and 19,200 transitions in float64.

    One run is given more rounds than k on purpose: its error is enormous, its bound still holds.

    Raises:
        BadInput: an unknown dtype or device.
    """
    cycle, chain = block_cycle(seed=seed), reversible_chain(seed=seed)
    small = with_terminal(reversible_chain(8, 80, seed=seed), 0.1, seed)
    out = []
    for dtype in dtypes:
        arithmetic = TorchArithmetic(dtype, device)
        out += [measure_whole(task, 30, variant, arithmetic, seed) for task in (cycle, chain) for variant in VARIANTS]
        out.append(measure_alone(cycle, 30, arithmetic, seed))
        out.append(measure_whole(small, 12, VARIANTS[0], arithmetic, seed))
        out.append(measure_whole(with_zero_rewards(small), 12, VARIANTS[0], arithmetic, seed))
    out.append(measure_whole(cycle, 30, VARIANTS[0], TorchArithmetic("float64", device), seed, rounds=24))
    precise: tuple[Any, ...] = (MpmathArithmetic(MPMATH_BITS), Balls(BALL_BITS), RATIONALS)
    out += [measure_whole(small, 12, VARIANTS[0], exact, seed) for exact in precise]
    if not quick:
        large = block_cycle(480, 12, 19_200, seed=seed)
        out.append(measure_whole(large, 30, VARIANTS[2], TorchArithmetic("float64", device), seed))
    return out
