"""The temporal-difference theorems in the audit: executor, Krylov encoder, memory-optimal context.

Running bound: the smaller of `RunningBounds` and of `residual_bound`, e_{l+1} <= g |P| e_l + |v_{l+1} - r - A v_l|,
whose residuals are exact. A priori: that of `a_priori` for executors on their exact context. Encoders have none: it
would contain the conditioning of the Krylov basis. They get the exact k as their number of rounds, but for the variant
that leaves the gates to the floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from flint import fmpq_mat

from constructions.construction import Construction
from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.temporal_difference import executor, krylov, memory_optimal
from numerics.audit import Plan, Setting, StageFinder, Subject, Trial, entries_of, exact_trace, smaller
from numerics.errors import residual_bound
from numerics.reversible_tasks import birth_death_chain
from numerics.running_bounds import RunningBounds
from numerics.tasks import block_cycle, reversible_chain
from numerics.temporal_difference.a_priori import executor_recursion, memory_optimal_recursion
from numerics.temporal_difference.dimension import krylov_dimension

METHOD = "running bounds of all operations, or exact residuals of the iterates"
Build = Callable[[int, int, int], Construction]
TASKS = ("cycle", "slow", "chain")
EXACT_CONTEXT = "executor alone, exact context"
FLOAT_GATES = "one pass, gates left to the floats"
VARIANTS: dict[str, tuple[tuple[str, Build], ...]] = {
    executor.THEOREM: (
        (EXACT_CONTEXT, lambda n, depth, k: executor.from_context(n, depth)),
        ("one pass", lambda n, depth, k: executor.construction(n, depth, rounds=k)),
        ("two passes", lambda n, depth, k: executor.construction(n, depth, passes=2, rounds=k)),
        ("two passes, balanced", lambda n, d, k: executor.construction(n, d, passes=2, balanced=True, rounds=k)),
        (FLOAT_GATES, lambda n, depth, k: executor.construction(n, depth)),
    ),
    krylov.THEOREM: (
        ("one pass", lambda n, depth, k: krylov.construction(n, depth, rounds=k)),
        ("two passes", lambda n, depth, k: krylov.construction(n, depth, passes=2, rounds=k)),
        ("two passes, balanced", lambda n, d, k: krylov.construction(n, d, passes=2, balanced=True, rounds=k)),
    ),
    memory_optimal.THEOREM: (
        (EXACT_CONTEXT, lambda n, depth, k: memory_optimal.from_context(n, depth)),
        ("two passes", lambda n, depth, k: memory_optimal.construction(n, depth, passes=2, rounds=k)),
    ),
}


RECURSIONS = {executor.THEOREM: executor_recursion, memory_optimal.THEOREM: memory_optimal_recursion}


def audit_task(name: str, plan: Plan) -> tuple[Task, int]:
    """The task of a name, and L."""
    if name == "cycle":
        task, depth = block_cycle(12, 6, 72, seed=plan.seed) if plan.quick else block_cycle(seed=plan.seed), 12
    elif name == "slow":
        task, depth = birth_death_chain(6 if plan.quick else 12, seed=plan.seed), 24
    else:
        task, depth = reversible_chain(8 if plan.quick else 24, 80 if plan.quick else 960, seed=plan.seed), 12
    return task, plan.horizon or depth


def subjects(theorem: str, plan: Plan) -> Iterator[Subject]:
    """Every variant on every task chosen.

    Raises:
        BadInput: an unknown task.
    """
    for name in plan.chosen(theorem, TASKS, 1 if plan.quick else 3):
        task, depth = audit_task(name, plan)
        k = max(krylov_dimension(task, depth, plan.seed).value, 1)
        exact = executor.td_values(task, depth, RATIONALS)
        for variant, build in VARIANTS[theorem]:
            built = build(task.n, depth, k)
            if variant == FLOAT_GATES and built.sizes["h"] == k:
                continue
            steps = partial(_steps, built, task)
            trace = [] if variant == FLOAT_GATES else exact_trace(steps)
            run = partial(_run, built, task, k, trace)
            sizes, reference = {**built.sizes, "k": k}, "TD iterates in Q"
            recursion = RECURSIONS[theorem](task, depth) if variant == EXACT_CONTEXT else None
            bound = _no_bound if recursion is None else recursion.bound
            yield Subject(theorem, variant, task.name, sizes, exact, reference, run, bound)


def _no_bound(setting: Setting) -> None:
    return None


def _steps(built: Construction, task: Task, arithmetic: Any) -> Any:
    return built.program.steps(built.encode(task, arithmetic), arithmetic)


def _run(built: Construction, task: Task, k: int, trace: Any, setting: Setting, arithmetic: Any) -> Trial:
    bounds = RunningBounds(arithmetic)
    finder = StageFinder(trace, bounds, setting.tolerance)
    kept = k

    def watched() -> Iterator[Any]:
        nonlocal kept
        for label, tokens in finder.watch(_steps(built, task, bounds)):
            kept = tokens.counts.get("source", kept)
            yield label, tokens

    answer = built.decode(watched(), bounds)
    depth, n = built.sizes["L"], task.n
    flags = [f"comparisons not decided by running bounds: {bounds.undecided}"] if bounds.undecided else []
    if built.theorem == krylov.THEOREM:
        values, limits = _decoded(built, task, answer, bounds)
        flags.append("the context is decoded exactly")
    else:
        values, limits = entries_of(answer, bounds)
        rows = residual_bound(answer.value, task)
        limits = smaller(limits, [limit for limit in rows for _ in range(n)])
    whole = "raw" in built.program.kinds
    branches = {"rank": (int(kept != k), 1 if whole else 0)}
    if kept != k:
        flags.append(f"{kept} tokens kept, exact k = {k}")
    assert len(values) == (depth + 1) * n
    return Trial(values, limits, METHOD, branches, finder.first, tuple(flags), finder.violated)


def _decoded(built: Construction, task: Task, answer: Any, bounds: RunningBounds) -> tuple[Any, list[float]]:
    """Iterates that the computed context decodes to in Q, and their bounds from residuals."""
    depth, n = built.sizes["L"], task.n
    entries, _ = entries_of(answer, bounds) if answer is not None else ([], [])
    size = (depth + 1) * n
    if None in entries:
        return [None] * size, [float("inf")] * size
    context = fmpq_mat(*bounds.shape(answer), entries) if entries else None
    values = krylov.decoded_values(context, n, depth, RATIONALS)
    return list(values.entries()), [limit for limit in residual_bound(values, task) for _ in range(n)]
