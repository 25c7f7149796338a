"""td.doubling measured: one depth-L query in bit_length(L) + 2 layers, up to L = 10^6.

Reference: L steps of v+ = r + A v, in Q up to L = 64, beyond it in balls. Bound, a posteriori and by another route:
(I - A) v_L = r - A^L r, the power in balls, so an answer v^ is off by |(I - A) v^ - r + A^L r|_inf / (1 - g |P|_inf) at
most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flint import arb, arb_mat, fmpq_mat

from constructions.construction import Construction
from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.temporal_difference import doubling, executor
from numerics.errors import ball_up, error_against, exact_entries
from numerics.measurement import Measurement, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.reversible_tasks import birth_death_chain
from numerics.tasks import block_cycle, dirichlet_chain, reversible_chain
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.krylov import MPMATH_BITS
from numerics.torch_arithmetic import TorchArithmetic

BALLS = Balls(512)
EXACT_DEPTH = 64
"""Up to this depth the reference is exact in Q."""
LONG = 10**6


def value_at(task: Task, depth: int) -> tuple[fmpq_mat | arb_mat, str]:
    """v_depth as a row, shape (1, n), by direct iteration, and a phrase that says in which arithmetic."""
    if depth <= EXACT_DEPTH:
        values = executor.td_values(task, depth, RATIONALS)
        return RATIONALS.rows(values, depth, depth + 1), "direct iteration in Q"
    with BALLS.working():
        A, r = BALLS.matrix(task.A.tolist()), BALLS.matrix(task.r.tolist())
        v = r
        for _ in range(depth - 1):
            v = r + A * v
        return v.transpose(), f"direct iteration, {BALLS.name}"


def depth_bound(value: Any, task: Task, depth: int) -> float:
    """The bound of the module's text for one answer v^, shape (1, n); infinite if it is not finite."""
    _, entries = exact_entries(value)
    if any(x is None for x in entries):
        return float("inf")
    contraction = max(sum(row) for row in task.A.tolist())
    with BALLS.working():
        A, r = BALLS.matrix(task.A.tolist()), BALLS.matrix(task.r.tolist())
        v = BALLS.matrix([[x] for x in entries])
        residual = v - A * v - r + A**depth * r
        largest = arb(0)
        for x in residual.entries():
            largest = largest.max(abs(x))
        return ball_up(largest / (1 - arb(contraction)))


def measure_depth(
    built: Construction, task: Task, arithmetic: Any, seed: int, exact: tuple[fmpq_mat | arb_mat, str], what: str
) -> Measurement:
    """One answer at depth L in one arithmetic."""
    depth = built.sizes["L"]
    value, seconds = timed(arithmetic, lambda: built.outputs(task, arithmetic))
    error = error_against(value, exact[0])
    if isinstance(arithmetic, Balls):
        assert error.radius is not None
        bound, method = error.radius, "radii of the balls, entry by entry"
    else:
        bound, method = depth_bound(value, task, depth), "a posteriori: residual of (I - A) v = r - A^L r, in balls"
    k = krylov_dimension(task, min(depth, task.n), seed).value
    return Measurement(
        theorem=doubling.THEOREM,
        task=task.name,
        arithmetic=arithmetic.name,
        sizes={**built.sizes, "N": task.transitions, "k": k},
        error=error,
        reference=exact[1],
        bound=bound,
        method=method,
        seconds=seconds,
        seed=seed,
        flags=(what, f"{built.program.attention_layers} attention layers"),
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """L = 30 and 64 from the raw log (two balanced passes, exact k) and the exact context, L = 10^6 from the latter.

    At L = 10^6 the discount is 1 - 10^-6, so that v_L is still far from its limit.

    Raises:
        BadInput: an unknown dtype or device.
    """
    floats = [TorchArithmetic(dtype, device) for dtype in dtypes]
    out = []
    for task, depth in ((block_cycle(seed=seed), 30), (reversible_chain(seed=seed), 64)):
        exact, k = value_at(task, depth), krylov_dimension(task, depth, seed).value
        whole = doubling.construction(task.n, depth, passes=2, balanced=True, rounds=k)
        alone = doubling.from_context(task.n, depth)
        for arithmetic in floats:
            out.append(measure_depth(whole, task, arithmetic, seed, exact, "encoder and doubling, two balanced passes"))
            out.append(
                measure_depth(alone, task, arithmetic, seed, exact, "doubling alone, exact context rounded once")
            )
    slow = dirichlet_chain(4, 24, "999999/1000000", seed)
    tasks = [slow] if quick else [slow, birth_death_chain(5, discount="999999/1000000", seed=seed)]
    for task in tasks:
        exact, built = value_at(task, LONG), doubling.from_context(task.n, LONG)
        precise: tuple[Any, ...] = (*floats, MpmathArithmetic(MPMATH_BITS), BALLS)
        what = "doubling alone, exact context rounded once"
        out += [measure_depth(built, task, arithmetic, seed, exact, what) for arithmetic in precise]
    return out
