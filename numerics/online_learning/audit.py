"""Weighted majority and Q-learning in the audit.

Weighted majority, one block over unit vectors, all initial weights one. A priori: an expert that erred j times holds
S_j = j e, e = log(1 - eps), and fl(S + c) with the rounded increment c. With errors a_j and g = |c - e| <= u |e|,

    a_{j+1} <= a_j + g + u (|S_{j+1}| + a_j + g),    all else adds exact zeros: one-hot values, public ones.

Q-learning, four layers over unit vectors: with V = R/(1 - g) + e_t >= |Q^_t| and local error rho(V) of a round,

    e_{t+1} <= (1 - alpha (1 - g)) e_t + rho(V),    so the error ends at a plateau near rho / (alpha (1 - g)),
    rho(V) = u [V + alpha ((A + 7) g V + 4 g (B + V) + 5 R + 12 V)] (1 + u)^16 .

Term by term: the last sum u V; in alpha delta, M errs by (A + 3) u V (a mean of at most A ties) and by 4 u (B + V)
where rounding Q + B lets another action win; r and g are rounded (u R, 2 u g V), three terms are added (3 u (R + g V +
V)) and alpha is rounded and multiplied (3 u (R + 2 V)). The power holds what is of higher order, for 16 operations.
All this holds while |Q^| < B, that is e + 4 u B < 1 (B = R/(1 - g) + 1 is rounded too); else the bound is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq, fmpq_mat

from constructions.exact import RATIONALS, Balls
from constructions.logarithms import Logarithms
from constructions.online_learning import weighted_majority
from constructions.online_learning.experts import ExpertTask
from constructions.online_learning.rounds import OnlineConstruction
from constructions.online_learning.transitions import ControlTask
from numerics import expert_tasks
from numerics.audit import (
    STAGE_BITS,
    TORCH,
    Plan,
    Setting,
    StageFinder,
    Subject,
    Trial,
    entries_of,
    exact_trace,
    smaller,
)
from numerics.control_tasks import random_control
from numerics.errors import ball_up
from numerics.formats import BinaryFormat
from numerics.online_learning.q_learning import built_for, residual_limits
from numerics.running_bounds import RunningBounds

OPERATIONS = "running bounds of all operations"
EXPERT_TASKS = ("sampled", "opposed", "perfect")
CONTROL_TASKS = ("slow discount", "fast discount")
LEAK = Fraction(1, 5)


def majority_task(name: str, plan: Plan) -> ExpertTask:
    """The task of a name, eps = 1/10."""
    rounds = plan.horizon or (40 if plan.quick else 80)
    if name == "sampled":
        return expert_tasks.sampled_experts(4, rounds, "1/10", 3, plan.seed)
    if name == "opposed":
        return expert_tasks.opposed_pair(rounds, "1/10", plan.seed)
    return expert_tasks.perfect_expert(4, rounds, "1/10", plan.seed)


def majority_subjects(theorem: str, plan: Plan) -> Iterator[Subject]:
    """One block on every task chosen.

    Raises:
        BadInput: an unknown task.
    """
    balls = Balls(STAGE_BITS)
    for name in plan.chosen(theorem, EXPERT_TASKS, 1 if plan.quick else 3):
        task = majority_task(name, plan)
        built = weighted_majority.construction("one_block", task.n, task.outcomes, task.eps, leak=LEAK)
        with balls.working():
            exact = built.reference(task, balls)
            state = balls.rows(exact, 0, task.n)
        right = weighted_majority.decisions(built, built.reference(task, Logarithms()), Logarithms())
        trace = exact_trace(partial(_all_steps, built, task))
        run = partial(_run_majority, built, task, right, trace)
        sizes = {**built.sizes, "T": task.rounds}
        reference = f"balls of {STAGE_BITS} bits"
        bound = partial(majority_bound, task)
        yield Subject(theorem, "one block, state S", task.name, sizes, state, reference, run, bound)


def _all_steps(built: OnlineConstruction, task: Any, arithmetic: Any) -> Iterator[Any]:
    for steps in built.runs(task, arithmetic):
        yield from steps


def _answers(built: OnlineConstruction, task: Any, bounds: RunningBounds, finder: StageFinder) -> Any:
    """The answers of all rounds, each round's steps watched."""
    answers, place = [], 0
    for t, steps in enumerate(built.runs(task, bounds)):
        answers.append(built.decode(finder.watch(steps, f"round {t + 1}, ", place), bounds))
        place += len(steps)
    return bounds.stack([answers])


def _run_majority(
    built: OnlineConstruction, task: ExpertTask, right: list[int], trace: Any, setting: Setting, arithmetic: Any
) -> Trial:
    bounds = RunningBounds(arithmetic)
    finder = StageFinder(trace, bounds, setting.tolerance)
    answer = _answers(built, task, bounds, finder)
    values, limits = entries_of(bounds.rows(answer, 0, task.n), bounds)
    K = task.outcomes
    O = np.asarray(bounds.backend.real(bounds.rows(answer, task.n, task.n + K).value).tolist())
    wrong = sum(int(a) != b for a, b in zip(np.argmax(O, axis=0), right, strict=True))
    flags = _stalls(values, task)
    return Trial(values, limits, OPERATIONS, {"decision": (wrong, task.rounds)}, finder.first, flags, finder.violated)


def _stalls(values: list[Any], task: ExpertTask) -> tuple[str, ...]:
    """Rounds in which an expert erred and its log weight did not move."""
    T, stuck = task.rounds, 0
    for t in range(1, T):
        stuck += sum(
            erred and values[i * T + t] is not None and values[i * T + t] == values[i * T + t - 1]
            for i, erred in enumerate(task.wrong(t))
        )
    return (f"stall: {stuck} updates without effect",) if stuck else ()


def majority_bound(task: ExpertTask, setting: Setting) -> float | None:
    """The a-priori bound of the module's text; infinite where the exact state leaves the format."""
    u = setting.number_format.unit_roundoff
    with ctx.workprec(128):
        e = Fraction(ball_up(abs(arb(fmpq(1) - fmpq(task.eps.numerator, task.eps.denominator)).log())))
    mistakes = max(sum(task.wrong(t)[i] for t in range(task.rounds)) for i in range(task.n))
    # The increment is e rounded, then multiplied by one: relative error u (its format holds it as a normal number).
    error, gap = Fraction(0), u * e + setting.number_format.smallest
    for j in range(1, mistakes + 1):
        error = error + gap + u * (j * e + error + gap)
        error = Fraction(math.nextafter(float(error), math.inf))
        if j * e + error > setting.number_format.largest:
            return math.inf
    return math.nextafter(float(error), math.inf)


def control_task(name: str, plan: Plan) -> ControlTask:
    """The task of a name: alpha = 1/10, g = 9/10 or 1/2."""
    rounds = plan.horizon or (24 if plan.quick else 40)
    discount = "9/10" if name == "slow discount" else "1/2"
    return random_control(4, 3, rounds, "1/10", discount, seed=plan.seed, start=False, terminal=False)


def control_subjects(theorem: str, plan: Plan) -> Iterator[Subject]:
    """Four layers on every task chosen.

    Raises:
        BadInput: an unknown task.
    """
    for name in plan.chosen(theorem, CONTROL_TASKS, 1 if plan.quick else 2):
        task = control_task(name, plan)
        built = built_for("four_layer", task)
        exact = built.reference(task, RATIONALS)
        tables = RATIONALS.rows(exact, 0, task.states)
        trace = exact_trace(partial(_all_steps, built, task), RATIONALS)
        run = partial(_run_control, built, task, tables, trace)
        sizes = {**built.sizes, "T": task.rounds}
        bound = partial(control_bound, task)
        yield Subject(theorem, "four layers, tables", task.name, sizes, tables, "Q-learning in Q", run, bound)


def _run_control(
    built: OnlineConstruction, task: ControlTask, tables: fmpq_mat, trace: Any, setting: Setting, arithmetic: Any
) -> Trial:
    bounds = RunningBounds(arithmetic)
    finder = StageFinder(trace, bounds, setting.tolerance)
    answer = _answers(built, task, bounds, finder)
    found = bounds.rows(answer, 0, task.states)
    values, limits = entries_of(found, bounds)
    limits = smaller(limits, residual_limits(found.value, task))
    A, T = task.actions, task.rounds
    width = A * T

    def greedy(entries: Any, t: int, s: int) -> set[int]:
        row = [entries[s * width + A * t + b] for b in range(A)]
        return {b for b in range(A) if None not in row and row[b] == max(row)}

    exact = tables.entries()
    pairs = [(t, x.successor) for t, x in enumerate(task.transitions) if x.successor >= 0]
    wrong = sum(greedy(values, t, s) != greedy(exact, t, s) for t, s in pairs)
    flags = (f"comparisons not decided by running bounds: {bounds.undecided}",) if bounds.undecided else ()
    method = f"{OPERATIONS}, or exact residuals of the rounds"
    branches = {"argmax": (wrong, len(pairs))}
    return Trial(values, limits, method, branches, finder.first, flags, finder.violated)


def control_bound(task: ControlTask, setting: Setting) -> float | None:
    """The a-priori bound of the module's text; none where torch may round factors first."""
    if setting.model == TORCH and setting.device != "cpu":
        return None
    return plateau(task, setting.number_format)[0]


def plateau(task: ControlTask, target: BinaryFormat) -> tuple[float, float]:
    """The bound after T rounds, and its limit for T to infinity; infinite where the table may leave its domain."""
    u, alpha, g = float(target.unit_roundoff), float(task.alpha), float(task.discount)
    R, Q, A = float(task.bound), float(task.largest), task.actions
    higher = (1 + u) ** 16

    def local(V: float) -> float:
        inner = (A + 7) * g * V + 4 * g * (Q + 1 + V) + 5 * R + 12 * V
        return u * (V + alpha * inner) * higher + 16 * float(target.smallest)

    error, last = u * Q, math.inf
    after = error
    rounds = task.rounds
    for t in range(10**6):
        if t == rounds:
            after = error
        last, error = error, (1 - alpha * (1 - g)) * error + local(Q + error)
        if error + 4 * u * (Q + 1) >= 1 or target.largest < 4 * (Q + 1):
            return (math.inf if t <= rounds else after), math.inf
        if t > rounds and error <= last * (1 + 1e-12):
            break
    # Rounding of this recursion itself: under 20 operations a round, each below 2^-53, contracted like the errors.
    slack = 1 + 2.0**-40
    return after * slack, error * slack
