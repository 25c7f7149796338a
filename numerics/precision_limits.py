"""How few bits are enough, and how errors grow with bits, horizon and conditioning; with the figures of B4 and C3.

Formats p4, p5, .. have a range of exponents that is never left, so that the significand alone counts. A least
significand is found by bisection: the property fails one bit below it. (No property is proved monotone in p; where one
is not, some smaller p may hold by luck.) Laws are exponents fitted by least squares on logarithms, with a name. Every
sentence names its model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.temporal_difference import executor, krylov, memory_optimal
from numerics.errors import error_against
from numerics.online_learning import encodings
from numerics.online_learning import precision_figures as online_figures
from numerics.precision_rows import Row, Rows, growth_of
from numerics.recurrent import precision_figures as recurrent_figures
from numerics.reversible_tasks import birth_death_chain
from numerics.rounded_arithmetic import RoundedArithmetic
from numerics.tasks import block_cycle
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.torch_arithmetic import parse_device

LOW, HIGH = 4, 160
TENTH = Fraction(1, 10)
PRECISE = 113
"""Bits that no context here loses altogether."""


def least_bits(holds: Callable[[int], bool], low: int = LOW, high: int = HIGH) -> int | None:
    """The least p in [low, high] with a property, by bisection; None if it does not hold at high."""
    if not holds(high):
        return None
    if holds(low):
        return low
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _shown(least: int | None) -> int | str:
    return f"none up to {HIGH} bits" if least is None else least


def relative_error(build: Callable[[Task, int, int], Any], task: Task, depth: int, precision: int) -> float:
    """Largest error of the iterates over the largest iterate, every operation rounded to p bits."""
    k = max(krylov_dimension(task, depth, 0).value, 1)
    answer = build(task, depth, k).outputs(task, RoundedArithmetic(f"p{precision}"))
    return error_against(answer, executor.td_values(task, depth, RATIONALS)).relative


def _accurate(build: Callable[[Task, int, int], Any], task: Task, depth: int, precision: int) -> bool:
    return relative_error(build, task, depth, precision) < 1e-3


def _decides(encoding: str, rounds: int, seed: int, precision: int) -> bool:
    return not encodings.outcome(encoding, precision, TENTH, rounds, (seed,)).wrong.any()


CONTEXTS: dict[str, Callable[[Task, int, int], Any]] = {
    "Arnoldi, one pass": lambda t, L, k: executor.construction(t.n, L, rounds=k),
    "Arnoldi, two passes": lambda t, L, k: executor.construction(t.n, L, passes=2, rounds=k),
    "Arnoldi, two passes, balanced": lambda t, L, k: executor.construction(t.n, L, passes=2, balanced=True, rounds=k),
    "memory-optimal": lambda t, L, k: memory_optimal.construction(t.n, L, passes=2, rounds=k),
    "memory-optimal, exact context": lambda t, L, k: memory_optimal.from_context(t.n, L),
}


def rank_found(task: Task, depth: int, precision: int) -> bool:
    """Whether gates at d_j <= 2^-p keep exactly k tokens, two passes, every operation rounded; h = min(n, L) rounds."""
    k = krylov_dimension(task, depth, 0).value
    built = krylov.construction(task.n, depth, passes=2)
    arithmetic = RoundedArithmetic(f"p{precision}", zero_below=2.0**-precision)
    context = built.outputs(task, arithmetic)
    return (0 if context is None else arithmetic.shape(context)[1]) == k


def least_significands(rows: Rows, quick: bool) -> None:
    """Errors below 1/1000, by context and conditioning; the exact rank; decisions."""
    sizes = (4, 6) if quick else (4, 6, 8, 12)
    lines: dict[str, list[float]] = {}
    for name, build in CONTEXTS.items():
        found = []
        for n in sizes:
            task = birth_death_chain(n, seed=rows.seed)
            least = least_bits(partial(_accurate, build, task, 4 * n))
            found.append(least)
        lines[name] = [HIGH if x is None else x for x in found]
        shown = " ".join("-" if x is None else str(x) for x in found)
        setting = f"lazy birth-death walk, g=9/10, L = 4n, n = k = {' '.join(map(str, sizes))}; every operation rounded"
        rows.add(f"least significand for a relative error below 1/1000, {name}", setting, shown)
    rows.draw("Least significand, every operation rounded", "k", "bits", sizes, lines, "linear")
    cycle = block_cycle(6, 3, 36, seed=rows.seed)
    least = least_bits(lambda p: rank_found(cycle, 6, p))
    setting = f"{cycle.name}; two passes, gates at d <= 2^-p, every operation rounded"
    rows.add("least significand for the exact rank", setting, _shown(least))
    rounds = 2_000 if quick else 20_000
    for encoding in ("raw", "relative counts"):
        right = least_bits(partial(_decides, encoding, rounds, rows.seed), high=25)
        rows.add(
            f"least significand for right decisions, {encoding}",
            f"weighted majority, n=4, eps=1/10, T={rounds}; the state alone rounded",
            _shown(right),
        )


def error_against_bits(rows: Rows) -> None:
    """log2 of the error against p falls with slope -1."""
    task = block_cycle(6, 3, 36, seed=rows.seed)
    precisions = (8, 12, 16, 20, 24, 32, 40)
    lines = {}
    for name in ("Arnoldi, one pass", "Arnoldi, two passes, balanced"):
        errors = [relative_error(CONTEXTS[name], task, 12, p) for p in precisions]
        slope = float(np.polyfit(precisions, np.log2(errors), 1)[0])
        lines[name] = [math.log2(x) for x in errors]
        setting = f"{task.name}, L=12; p = {' '.join(map(str, precisions))}; every operation rounded"
        rows.add(f"slope of log2 error against bits, {name}", setting, slope, -1.0, abs(slope + 1) < 0.15)
    rows.draw("Error against bits, every operation rounded", "p", "log2 relative error", precisions, lines, "linear")


def error_against_horizon(rows: Rows, quick: bool) -> None:
    """Errors of s are forgotten at rate g, but v_l takes one more rounding a step until its increments vanish."""
    task = birth_death_chain(6, seed=rows.seed)
    depths = (12, 24, 48, 96) if quick else (12, 24, 48, 96, 192)
    for name in ("Arnoldi, two passes, balanced", "memory-optimal, exact context"):
        errors = [relative_error(CONTEXTS[name], task, depth, 24) for depth in depths]
        slope, growth = growth_of(depths, errors)
        setting = f"{task.name}; L = {' '.join(map(str, depths))}; p = 24, every operation rounded"
        rows.add(f"growth of the error with L, {name}", setting, f"{growth}, exponent {slope:.2f}")


def condition_number(task: Task, k: int) -> float:
    """Of r, A r, .., A^(k - 1) r, each divided by its norm, in the Euclidean norm."""
    v = np.array([int(x.p) / int(x.q) for x in executor.td_values(task, k, RATIONALS).entries()]).reshape(k + 1, task.n)
    basis = np.diff(v, axis=0)
    return float(np.linalg.cond(basis / np.linalg.norm(basis, axis=1, keepdims=True)))


def error_against_conditioning(rows: Rows, quick: bool) -> None:
    """The exponent of the condition number of the Krylov basis in the error, by context."""
    sizes = (3, 4, 5, 6, 7, 8) if quick else (3, 4, 5, 6, 7, 8, 10, 12)
    tasks = [birth_death_chain(n, seed=rows.seed) for n in sizes]
    numbers = [condition_number(task, krylov_dimension(task, task.n, 0).value) for task in tasks]
    lines: dict[str, list[float]] = {}
    for name, build in CONTEXTS.items():
        errors = [relative_error(build, task, 4 * task.n, PRECISE) for task in tasks]
        slope, growth = growth_of(numbers, errors)
        lines[name] = [max(0.0, math.log2(x) + PRECISE) for x in errors]
        setting = (
            f"lazy birth-death walk, g=9/10, L = 4n, n = k = {sizes[0]} .. {sizes[-1]}, condition numbers "
            f"{numbers[0]:.0f} .. {numbers[-1]:.1e}; p = {PRECISE}, every operation rounded"
        )
        rows.add(f"growth of the error with the conditioning, {name}", setting, f"{growth}, exponent {slope:.2f}")
    places = [math.log2(x) for x in numbers]
    title, x = f"Bits lost, p = {PRECISE}, every operation rounded", "log2 of the condition number"
    rows.draw(title, x, "bits lost", places, lines, "linear")


def reproduce_precision(quick: bool = True, seed: int = 0, device: Any = "cpu") -> list[Row]:
    """All figures of the module's text; runs are on the processor.

    Raises:
        BadInput: a device that is not there.
    """
    parse_device(device)
    rows = Rows(seed)
    least_significands(rows, quick)
    error_against_bits(rows)
    error_against_horizon(rows, quick)
    error_against_conditioning(rows, quick)
    online_figures.add_figures(rows, quick)
    recurrent_figures.add_figures(rows, quick)
    return rows.rows
