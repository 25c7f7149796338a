"""How few bits are enough, and how errors grow: the figures of theory B4 and C3 beside ours.

Formats p4, p5, .. have a range of exponents that is never left, so that the significand alone counts. A least
significand is found by bisection: the property fails one bit below it. (No property is proved monotone in p; where one
is not, some smaller p may hold by luck.) Every sentence names its model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.temporal_difference import executor, krylov, memory_optimal
from numerics.errors import error_against
from numerics.formats import parse_format
from numerics.online_learning import plateau, stalls
from numerics.recurrent.state_formats import growth_of, relative_errors
from numerics.reversible_tasks import birth_death_chain
from numerics.rounded_arithmetic import RoundedArithmetic
from numerics.tasks import block_cycle
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.torch_arithmetic import parse_device

Row = dict[str, Any]
LOW, HIGH = 4, 160
TENTH = Fraction(1, 10)
BITS = {"bf16": 8, "fp16": 11, "fp32": 24, "fp64": 53}


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


def relative_error(build: Callable[[Task, int, int], Any], task: Task, depth: int, precision: int) -> float:
    """Largest error of the iterates over the largest iterate, every operation rounded to p bits."""
    k = max(krylov_dimension(task, depth, 0).value, 1)
    answer = build(task, depth, k).outputs(task, RoundedArithmetic(f"p{precision}"))
    return error_against(answer, executor.td_values(task, depth, RATIONALS)).relative


def _accurate(build: Callable[[Task, int, int], Any], task: Task, depth: int, precision: int) -> bool:
    return relative_error(build, task, depth, precision) < 1e-3


def _decides(encoding: str, rounds: int, seed: int, precision: int) -> bool:
    return stalls.encoding_row(encoding, precision, TENTH, rounds, seed)["wrong"] == 0


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


class Rows:
    """Collects rows with the keys name, quantity, setting, source, ours, agrees, reason, seed, and drawings."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rows = seed, list[Row]()

    def add(
        self, quantity: str, setting: str, ours: Any, source: Any = None, agrees: bool | None = None, reason: str = ""
    ) -> None:
        """One row; a numeric figure of the source agrees within a factor of 3 where nothing else is said."""
        if agrees is None and isinstance(source, (int, float)) and isinstance(ours, (int, float)):
            agrees = bool(source / 3 <= ours <= source * 3) if source else ours == 0
        self.rows.append(
            {
                "name": "precision",
                "quantity": quantity,
                "setting": setting,
                "source": "none" if source is None else source,
                "ours": ours if ours is not None else f"none up to {HIGH} bits",
                "agrees": agrees,
                "reason": "" if agrees or agrees is None else reason or "apart by more than a factor of 3",
                "seed": self.seed,
            }
        )

    def draw(self, title: str, x: str, y: str, places: Sequence[Any], lines: dict[str, Any], scale: str) -> None:
        """A drawing of lines, carried by the row added last."""
        figure = {"kind": "lines", "title": title, "x": x, "y": y, "scale": scale}
        self.rows[-1]["figure"] = {**figure, "places": list(places), "lines": lines}


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
    rows.add("least significand for the exact rank", f"{cycle.name}; two passes, gates at d <= 2^-p", least)
    rounds = 2_000 if quick else 20_000
    for encoding in ("raw", "relative counts"):
        right = least_bits(partial(_decides, encoding, rounds, rows.seed), high=25)
        rows.add(
            f"least significand for right decisions, {encoding}",
            f"weighted majority, n=4, eps=1/10, T={rounds}; the state alone rounded",
            right,
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


def stall_rows(rows: Rows, quick: bool) -> None:
    """The closed form against iteration, where it stalls, and what encodings do."""
    cases = stalls.law_cases(quick)
    same = sum(stalls.law_holds(*case) for case in cases)
    text = "constant increment -log(1 - eps), every addition rounded; p = 4, 8, 11, 24, nine eps"
    rows.add(f"stall law: cases bit-exact of {len(cases)}", text, same, 36, same == len(cases))
    for name, known in (("bf16", 272), ("fp16", 2179), ("fp32", 2e7)):
        p = BITS[name]
        updates, _ = stalls.stall(stalls.increment(TENTH, p), p)
        rows.add(f"updates until the stall, {name}", "eps=1/10; every addition rounded", updates, known)
    places = [1_000, 10_000, 100_000, 1_000_000]
    h = stalls.increment(TENTH, 24)
    step, sums = Fraction(h), stalls.closed_form(h, 24, places[-1])
    slope, growth = growth_of(places, [float(abs(Fraction(float(sums[m])) - m * step)) for m in places])
    setting = "1e3 .. 1e6 updates, eps=1/10; every addition rounded"
    rows.add("growth of the sum's error before the stall, fp32", setting, growth, "quadratic", growth == "quadratic")
    rows.rows[-1]["reason"] = f"exponent {slope:.2f}"
    rounds = 20_000 if quick else 100_000
    setting = f"n=4, eps=1/10, T={rounds}, accuracies from U(.3, .9); the state alone rounded, decisions in float64"
    figures = {"bf16": (4.2e3, 0.195), "fp16": (None, 0.157), "fp32": (3.2, 0.0), "fp64": (4e-9, None)}
    why = "accuracies are another draw"
    for name, (error, wrong) in figures.items():
        ours = stalls.encoding_row("raw", BITS[name], TENTH, rounds, rows.seed)
        for quantity, found, source in (
            ("error", ours["error"], error),
            ("share of wrong decisions", ours["wrong"], wrong),
        ):
            # Errors grow with T: a shorter run is not compared.
            shown = source if source is None or not quick else f"{source:g} at T=100000"
            rows.add(f"{quantity}, raw log weights, {name}", setting, found, shown, None, why)
    for name in ("bf16", "fp16", "fp32"):
        for encoding in stalls.ENCODINGS[1:]:
            ours = stalls.encoding_row(encoding, BITS[name], TENTH, rounds, rows.seed)
            none = 0.0 if (name, encoding) == ("bf16", "relative counts") else None
            rows.add(f"share of wrong decisions, {encoding}, {name}", setting, ours["wrong"], none)
            whole = 0.0 if (name, encoding) == ("fp32", "counts") else None
            rows.add(f"error of the state, {encoding}, {name}", setting, ours["error"], whole)


def plateau_rows(rows: Rows, quick: bool) -> None:
    """Sup errors of Q-learning, and the bound for a rounded table."""
    rounds = 20_000 if quick else 100_000
    figures = {(0.1, 0.9): (1.25, 1.3e-2, 6e-7), (0.1, 0.99): (56, 19, 1.3e-5), (0.01, 0.9): (7.0, 1.2, 5e-6)}
    for (alpha, discount), sources in figures.items():
        for name, source in zip(("bf16", "fp16", "fp32"), sources, strict=True):
            setting = f"|S|=5, |A|=3, T={rounds}, alpha={alpha}, g={discount}, rewards in [0, 1]"
            full = plateau.run(alpha, discount, BITS[name], plateau.OPERATIONS, rounds, rows.seed)
            why = "another process, other rewards: the source's are not known"
            rows.add(f"sup error, every operation rounded, {name}", setting, full.largest, source, None, why)
            table = plateau.run(alpha, discount, BITS[name], plateau.TABLE, rounds, rows.seed)
            rows.add(
                f"sup error, only the table rounded, {name}; beside it u Qmax/(alpha (1 - g))",
                setting,
                table.largest,
                table.bound,
                table.largest <= table.bound,
                "the bound is violated",
            )


def state_rows(rows: Rows, quick: bool) -> None:
    """The delta rule's state by format, decay, rate and T."""
    at = (100, 300, 1000) if quick else (100, 1000, 10_000)
    known = {
        ("bf16", 1.0, 2.0): (0.017, "sqrt"),
        ("bf16", 1.0, 1.0): (7.5e-3, "flat"),
        ("fp16", 1.0, 1.0): (1e-3, "flat"),
    }
    lines: dict[str, list[float]] = {}
    for name in ("bf16", "fp16", "fp32"):
        for gate, rate in ((1.0, 1.0), (1.0, 2.0), (0.99, 1.0), (0.9, 1.0)):
            for model in ("state", "input", "all"):
                errors = relative_errors(gate, rate, parse_format(name), model, at, rows.seed)
                slope, growth = growth_of(at, errors)
                source = known.get((name, gate, rate)) if model == "all" else None
                setting = f"unit keys, d=16, a={gate:g}, b={rate:g}, T={at[0]}; rounded: {model}, growth to T={at[-1]}"
                expected = source or ((None, "flat") if model == "state" and (gate < 1 or rate < 2) else None)
                agrees = None if expected is None else growth == expected[1]
                if source is not None:
                    agrees = bool(agrees) and source[0] / 3 <= errors[0] <= source[0] * 3
                rows.add(
                    f"state of the delta rule, {name}, {model} rounded",
                    setting,
                    f"{errors[0]:.2g} -> {errors[-1]:.2g}, {growth} (T^{slope:.2f})",
                    "none" if expected is None else f"{expected[0] or ''} {expected[1]}".strip(),
                    agrees,
                    "growth or size differ",
                )
                if model == "state" and name == "bf16":
                    lines[f"a={gate:g}, b={rate:g}"] = errors
    rows.draw("State of the delta rule in bf16, the state alone rounded", "T", "relative error", at, lines, "log")


def reproduce_precision(quick: bool = True, seed: int = 0, device: Any = "cpu") -> list[Row]:
    """All figures of the module's text; runs are on the processor.

    Raises:
        BadInput: a device that is not there.
    """
    parse_device(device)
    rows = Rows(seed)
    least_significands(rows, quick)
    error_against_bits(rows)
    stall_rows(rows, quick)
    plateau_rows(rows, quick)
    state_rows(rows, quick)
    return rows.rows
