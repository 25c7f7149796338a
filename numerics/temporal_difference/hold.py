"""Held values measured: float errors of the hold programs, with bounds that do not look at them.

The bound of a hold program does not look at its error. With v^_t the computed iterates on the work token and e_t their
bounds from exact residuals (`residual_bound`), an answer that should be v_tau is off by at most
e_tau + |answer - v^_tau|, one that should be a centre by (e_a + e_b) / 2 + |answer - (v^_a + v^_b) / 2|; all of it is
exact, in Q.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq

from constructions.construction import Construction
from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.tokens import Tokens
from numerics.errors import error_against, exact_entries, residual_bound, round_up
from numerics.measurement import Measurement, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle, reversible_chain, with_terminal
from numerics.temporal_difference.krylov import BALL_BITS, MPMATH_BITS
from numerics.torch_arithmetic import TorchArithmetic

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


def measure_on_tasks(
    measure_one: Callable[[Task, int, int, Any, int], Measurement],
    seed: int,
    quick: bool,
    device: Any,
    dtypes: Sequence[str],
    sizes: Sequence[int] = (1, 4, 8, 12, 20),
) -> list[Measurement]:
    """A hold scheme on sampled chains in torch; on a small one with terminal successors in mpmath, balls and Q too.

    `measure_one` takes (task, depth, m, arithmetic, seed); `sizes` are the m of the full profile.

    Raises:
        BadInput: an unknown dtype or device.
    """
    small = with_terminal(reversible_chain(8, 80, seed=seed), 0.1, seed)
    large = [block_cycle(seed=seed), reversible_chain(seed=seed)]
    out = []
    for dtype in dtypes:
        arithmetic = TorchArithmetic(dtype, device)
        chosen = (4, 12) if quick else sizes
        out += [measure_one(task, 30, m, arithmetic, seed) for task in large for m in chosen]
        out.append(measure_one(small, 12, 3, arithmetic, seed))
    precise: tuple[Any, ...] = (MpmathArithmetic(MPMATH_BITS), Balls(BALL_BITS), RATIONALS)
    return out + [measure_one(small, 12, 3, exact, seed) for exact in precise]
