"""Held values measured: float errors of the hold programs, worst-case rings against m, decoders on the witness task.

The bound of a hold program does not look at its error. With v^_t the computed iterates on the work token and e_t their
bounds from exact residuals (`residual_bound`), an answer that should be v_tau is off by at most
e_tau + |answer - v^_tau|, one that should be a centre by (e_a + e_b) / 2 + |answer - (v^_a + v^_b) / 2|; all of it is
exact, in Q.

Worst-case errors of whole families and optimised decoders are `observed` evidence: float64, nothing enclosed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq
from numpy.typing import NDArray
from scipy.optimize import linprog

from constructions.construction import Construction
from constructions.errors import BadInput
from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.temporal_difference import minimax, sample_and_hold
from constructions.tokens import Tokens
from numerics.errors import error_against, exact_entries, residual_bound, round_up
from numerics.measurement import Measurement, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle, half_ring, reversible_chain, with_terminal
from numerics.temporal_difference.krylov import BALL_BITS, MPMATH_BITS
from numerics.temporal_difference.projection import iterates, truncation_errors
from numerics.torch_arithmetic import TorchArithmetic

Array = NDArray[np.float64]

Mean = tuple[int, ...]
"""Depths whose iterates an answer is the mean of; empty for the answer 0."""


def run_captured(built: Construction, task: Task, arithmetic: Any) -> tuple[Any, list[Any]]:
    """The answer, and the iterates v_0, v_1, .. as they stood on the work token, rows of shape (1, n)."""
    rows = [arithmetic.matrix([[0] * task.n])]

    def watched(steps: Any) -> Any:
        for label, tokens in steps:
            if label.startswith("record"):
                rows.append(arithmetic.transpose(_work(tokens, task.n, arithmetic)))
            yield label, tokens

    built.task_class.require(task)
    steps = built.program.steps(built.encode(task, arithmetic), arithmetic)
    return built.decode(watched(steps), arithmetic), rows


def _work(tokens: Tokens, n: int, arithmetic: Any) -> Any:
    return tokens.read("work", "x", n, arithmetic)


def held_bound(answer: Any, rows: Sequence[Any], means: Sequence[Mean], task: Task, arithmetic: Any) -> float:
    """The a posteriori bound over all depths, rounded up; infinite where a value is not finite."""
    values = arithmetic.stack([[row] for row in rows])
    bounds = residual_bound(values, task)
    _, iterates_ = exact_entries(values)
    _, answers = exact_entries(answer)
    n, worst = task.n, Fraction(0)
    for l, mean in enumerate(means):
        if not all(np.isfinite(bounds[t]) for t in mean):
            return float("inf")
        gap = fmpq(0)
        for i in range(n):
            parts = [iterates_[t * n + i] for t in mean]
            found = answers[l * n + i]
            if found is None or any(x is None for x in parts):
                return float("inf")
            target = sum((x for x in parts if x is not None), fmpq(0)) / max(len(parts), 1)
            gap = max(gap, abs(found - target))
        share = sum((Fraction(bounds[t]) for t in mean), Fraction(0)) / max(len(mean), 1)
        worst = max(worst, share + Fraction(int(gap.p), int(gap.q)))
    return round_up(worst)


def measure_held(
    built: Construction, means: Sequence[Mean], task: Task, arithmetic: Any, seed: int, flags: Sequence[str] = ()
) -> Measurement:
    """One hold program on one task in one arithmetic, against the exact held values in Q."""
    (answer, rows), seconds = timed(arithmetic, lambda: run_captured(built, task, arithmetic))
    error = error_against(answer, built.reference(task, RATIONALS))
    if isinstance(arithmetic, Balls):
        bound, method = error.radius, "radii of the balls, entry by entry"
    else:
        bound = held_bound(answer, rows, means, task, arithmetic)
        method = "a posteriori: exact residuals of the iterates, and the answers against them"
    assert bound is not None
    return Measurement(
        theorem=built.theorem,
        task=task.name,
        arithmetic=arithmetic.name,
        sizes={**built.sizes, "N": task.transitions},
        error=error,
        reference="held values in Q",
        bound=bound,
        method=method,
        seconds=seconds,
        seed=seed,
        flags=tuple(flags),
    )


@dataclass(frozen=True)
class HoldErrors:
    """Worst float64 errors over states and depths for m registers a state, beside exact figures.

    Attributes:
        m: registers a state.
        sample_and_hold: of Thm 4.5's schedule.
        midpoint_hold: of the optimal cover.
        truncation: m exact steps, then v_m.
        law: e*(g, m, L).
        psi: Psi_m.
    """

    m: int
    sample_and_hold: float
    midpoint_hold: float
    truncation: float
    law: float
    psi: float


def measure_on_tasks(
    measure_one: Callable[[Task, int, int, Any, int], Measurement],
    seed: int,
    quick: bool,
    device: Any,
    dtypes: Sequence[str],
) -> list[Measurement]:
    """A hold scheme on sampled chains in torch; on a small one with terminal successors in mpmath, balls and Q too.

    `measure_one` takes (task, depth, m, arithmetic, seed).

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


def hold_errors(values: Array, discount: Any, sizes: Sequence[int]) -> list[HoldErrors]:
    """Errors of the hold schemes on given iterates.

    Args:
        values: rows v_0 .. v_L, shape (L + 1, n), of a task with |r|_inf <= 1.
        discount: g.
        sizes: the m wanted, at least 1.

    Raises:
        BadInput: a discount outside (0, 1), or an m that is not a positive int.
    """
    depth = len(values) - 1
    truncated = truncation_errors(values, max(min(max(sizes, default=0), depth), 0))
    out = []
    for m in sizes:
        law = minimax.law(discount, m, depth)
        depths = sample_and_hold.schedule(discount, m).depths
        sampled = np.array([0, *(x for x in depths if x <= depth)])
        last = sampled[np.searchsorted(sampled, np.arange(depth + 1), side="right") - 1]
        hold = float(np.abs(values - values[last]).max())
        centres = np.zeros_like(values)
        for a, b in law.cover.blocks[1:]:
            assert b is not None
            centres[a : b + 1] = (values[a] + values[b]) / 2
        midpoint = float(np.abs(values - centres).max())
        out.append(
            HoldErrors(
                m, hold, midpoint, float(truncated[min(m, depth)]), float(law.value), float(minimax.psi(discount, m))
            )
        )
    return out


def half_ring_errors(
    sizes: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 100, 128, 200), n: int = 1000, discount: Any = "99/100"
) -> list[HoldErrors]:
    """The schemes on the half ring, L = n: the worst case of both hold methods (theory A9)."""
    task = half_ring(n, discount)
    rewards = np.array(task.rewards, dtype=np.float64)
    g = float(task.discount)
    values = np.zeros((n + 1, n))
    for l in range(n):
        values[l + 1] = rewards + g * np.roll(values[l], -1)
    return hold_errors(values, discount, sizes)


def task_errors(task: Task, depth: int, sizes: Sequence[int]) -> list[HoldErrors]:
    """The schemes on any task, float64; |r|_inf <= 1 is what makes `law` a bound."""
    A = np.array([[float(Fraction(int(x.p), int(x.q))) for x in row] for row in task.A.tolist()])
    r = np.array([float(Fraction(int(x.p), int(x.q))) for x in task.r.entries()])
    return hold_errors(iterates(A, r, depth), task.discount, sizes)


def slope(errors: Sequence[HoldErrors], field: str, low: int, high: int) -> float:
    """The slope of log error against log m by least squares, m from `low` to `high`."""
    chosen = [x for x in errors if low <= x.m <= high]
    if len(chosen) < 2:
        raise BadInput(f"slope: expected at least two sizes between {low} and {high}, found {len(chosen)}")
    logs = np.log([x.m for x in chosen]), np.log([getattr(x, field) for x in chosen])
    return float(np.polyfit(*logs, 1)[0])


def _chebyshev(matrix: Array, target: Array) -> tuple[float, Array]:
    """min over y of |target - matrix y|_inf and a minimiser, by a linear program."""
    rows, columns = matrix.shape
    ones = np.ones((rows, 1))
    found = linprog(
        np.array([*([0.0] * columns), 1.0]),
        A_ub=np.block([[-matrix, -ones], [matrix, -ones]]),
        b_ub=np.concatenate([-target, target]),
        bounds=[*([(None, None)] * columns), (0, None)],
        method="highs",
    )
    return float(found.fun), np.asarray(found.x[:columns])


def decoder_error(values: Array, decoder: Array) -> tuple[float, Array]:
    """max over depths of min over states of |v_l - D s|_inf, and those states, shape (L + 1, m)."""
    found = [_chebyshev(decoder, row) for row in values]
    return max(error for error, _ in found), np.array([state for _, state in found])


@dataclass(frozen=True)
class DecoderSearch:
    """The smallest error that a search over decoders reached on the witness task, beside e*."""

    task: str
    m: int
    random: float
    optimised: float
    law: float


def search_decoders(
    discount: Any, m: int, depth: int, *, trials: int = 5, steps: int = 3, seed: int = 0
) -> DecoderSearch:
    """Random decoders, and alternating linear programs (states given D, D given states) from random and hold starts.

    By td.minimax no error can be below e*; the search tries.

    Raises:
        BadInput: as `minimax.witness_task` does, or m < 1.
    """
    law = minimax.law(discount, m, depth)
    if m < 1:
        raise BadInput(f"decoder search: expected a positive number of registers m, found {m}")
    task = minimax.witness_task(discount, m, depth)
    rewards, g = np.array(task.rewards, dtype=np.float64), float(task.discount)
    values = np.zeros((depth + 1, task.n))
    for l in range(depth):
        values[l + 1] = rewards + g * values[l][task.successors]
    draw = np.random.Generator(np.random.PCG64(seed))
    centres = np.array([(values[a] + values[b or a]) / 2 for a, b in law.cover.blocks[1:]]).T
    starts = [centres, *(draw.standard_normal((task.n, m)) for _ in range(trials))]
    best_random = best = np.inf
    for index, start in enumerate(starts):
        decoder = start
        for step in range(steps + 1):
            error, states = decoder_error(values, decoder)
            if step == 0 and index:
                best_random = min(best_random, error)
            best = min(best, error)
            if step < steps:
                decoder = np.array([_chebyshev(states, values[:, i])[1] for i in range(task.n)])
    return DecoderSearch(task.name, m, float(best_random), float(best), float(law.value))


PANEL = (4, 8, 12, 20)
SOURCE_PANEL = {"sample_and_hold": (1.1, 1.0, 0.12, 0.053), "truncation": (1.2, 0.73, 0.45, 0.15)}
"""The source's figures on its reversible panel, m = 4, 8, 12, 20; its settings are not stated."""


def reproduce_hold(quick: bool = True, seed: int = 0, device: str = "cpu") -> list[dict[str, Any]]:
    """The source's figures for less context beside ours: the half ring, and the panel of reversible chains.

    Ours are float64 on the CPU whatever the device; the panel has 20 tasks (quick) or 100, and its figure is the
    largest error. "Agrees" means within a factor of 2, and for the ring within the source's span.
    """
    ring = half_ring_errors()
    ratios = [x.sample_and_hold / x.psi for x in ring]
    setting = "half ring, n = L = 1000, g=99/100, m = 1 .. 200"
    rows = [
        _row("sample-and-hold / Psi_m", "smallest and largest over m", setting, "0.45 .. 2.7", ratios, seed),
        _row(
            "slope of log error",
            "sample-and-hold, m = 2..64",
            setting,
            "-0.89",
            [_slope(ring, "sample_and_hold")],
            seed,
        ),
        _row("slope of log error", "truncation, m = 2..64", setting, "-0.14", [_slope(ring, "truncation")], seed),
        _row("slope of log error", "midpoint hold, m = 2..64", setting, "none", [_slope(ring, "midpoint_hold")], seed),
        _row(
            "truncation / sample-and-hold",
            "largest over m",
            setting,
            "37",
            [max(x.truncation / x.sample_and_hold for x in ring)],
            seed,
        ),
    ]
    count = 20 if quick else 100
    found = [task_errors(reversible_chain(seed=seed + i), 30, PANEL) for i in range(count)]
    setting = f"reversible chain, n=24, g=9/10, L=30, N=960, {count} tasks"
    for field, source in (*SOURCE_PANEL.items(), ("midpoint_hold", (None,) * 4)):
        for place, (m, theirs) in enumerate(zip(PANEL, source, strict=True)):
            ours = max(getattr(errors[place], field) for errors in found)
            text = "none" if theirs is None else str(theirs)
            rows.append(_row(f"{field.replace('_', ' ')}, m = {m}", "largest error", setting, text, [ours], seed))
    return rows


def _slope(errors: Sequence[HoldErrors], field: str) -> float:
    return slope(errors, field, 2, 64)


def _row(name: str, quantity: str, setting: str, source: str, ours: Sequence[float], seed: int) -> dict[str, Any]:
    """A row of a reproduction; the source's figure is a number, a span "a .. b", or "none" where it has none."""
    low, high = min(ours), max(ours)
    if source == "none":
        agrees, reason = True, "the source has no such figure"
    elif ".." in source:
        span = [float(x) for x in source.split("..")]
        agrees, reason = span[0] <= low and high <= span[1], ""
    else:
        agrees = 0.5 <= high / float(source) <= 2
        reason = "" if agrees else "the source states neither generator nor range of m"
    text: float | str = high if len(ours) == 1 else f"{low:.3f} .. {high:.3f}"
    return {
        "name": "error-law",
        "quantity": f"{name}: {quantity}",
        "setting": setting,
        "source": source,
        "ours": text,
        "agrees": agrees,
        "reason": reason,
        "seed": seed,
    }
