"""online.fixed-share measured: the state in number formats.

Measured is S after every round, with strict feedback, against states in Q. A round F_t is linear. On U w it is
w -> (1 - a) v + (a/n) 1 1'v with 0 <= v_i <= w_i for w >= 0, so no column of its matrix sums to more than one; what is
orthogonal to all u_i it multiplies by 1 - a. So it does not stretch the norm |x| = |U'x|_1 + |x - U U'x|_2, and with
computed states S^_t

    max_i |S^_t - S_t|_i <= |S^_t - S_t| <= |S^_{t-1} - S_{t-1}| + |S^_t - F_t(S^_{t-1})|.

The residuals of the rounds are taken exactly, F_t being the program itself in Q, and summed; the exact states are not
looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import arb, fmpq, fmpq_mat

from constructions.exact import RATIONALS, Balls
from constructions.online_learning import fixed_share
from constructions.online_learning.experts import ExpertTask, one_hot_basis
from constructions.online_learning.rounds import OnlineConstruction
from numerics import expert_tasks
from numerics.errors import ErrorFigures, ball_up, error_against, exact_entries, round_up
from numerics.measurement import Measurement, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.torch_arithmetic import TorchArithmetic

from .weighted_majority import ROTATED

SHARE = Fraction(1, 10)


def measure_state(built: OnlineConstruction, task: ExpertTask, arithmetic: Any, seed: int) -> Measurement:
    """S after every round, shape (d, T), and whether the cleared fields are zero."""
    answer, seconds = timed(arithmetic, lambda: built.outputs(task, arithmetic))
    d, clean = built.sizes["d"], built.sizes["d"] + 2 * built.sizes["K"]
    found = arithmetic.rows(answer, 0, d)
    error = error_against(found, RATIONALS.rows(built.reference(task, RATIONALS), 0, d))
    bound, method = _bound(built, task, found, error)
    rest = arithmetic.rows(answer, clean, arithmetic.shape(answer)[0])
    left = error_against(rest, fmpq_mat(*arithmetic.shape(rest))).absolute
    flags = (
        "unit vectors" if built.sizes["n"] == d else "rotated basis",
        "clean: exactly" if left == 0 else f"left in cleared fields: {left:.1e}",
    )
    sizes = {**built.sizes, "T": task.rounds}
    return Measurement(
        built.theorem, task.name, arithmetic.name, sizes, error, "Fixed-Share in Q", bound, method, seconds, seed, flags
    )


def _bound(built: OnlineConstruction, task: ExpertTask, found: Any, error: ErrorFigures) -> tuple[float, str]:
    if error.radius is not None:
        return error.radius, "radius of the balls"
    (d, rounds), entries = exact_entries(found)
    if None in entries:
        return math.inf, "values that are not finite"
    return round_up(residual_sum(built, task, fmpq_mat(d, rounds, entries))), "sum of the exact residuals of the rounds"


def residual_sum(built: OnlineConstruction, task: ExpertTask, computed: fmpq_mat) -> Fraction:
    """sum_t |S^_t - F_t(S^_{t-1})| in the norm that a round does not stretch, S^ of shape (d, T)."""
    assert built.round is not None
    context, total = dict(built.round.begin(task, RATIONALS)), Fraction(0)
    for t in range(task.rounds):
        tokens = built.round.enter(task, t, context, RATIONALS)
        exact = built.program.run(tokens, RATIONALS).blocks["label", "S"]
        state = RATIONALS.columns(computed, t, t + 1)
        total += norm(state - exact, tokens.blocks["expert", "I"])
        context["S"] = state
    return total


def norm(x: fmpq_mat, U: fmpq_mat) -> Fraction:
    """|U'x|_1 + |x - U U'x|_2 of a column, the root rounded up."""
    inside = U.transpose() * x
    outside = x - U * inside
    square = sum((y * y for y in outside.entries()), fmpq(0))
    along = sum((abs(y) for y in inside.entries()), fmpq(0))
    return Fraction(int(along.p), int(along.q)) + Fraction(ball_up(arb(square).sqrt()))


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """With unit vectors and in a rotated basis in floats; the latter in mpmath, balls and exactly too.

    Raises:
        BadInput: an unknown dtype or device.
    """
    task = expert_tasks.sampled_experts(4, 40 if quick else 200, "1/10", 3, seed, weighted=True)
    unit, rotated = (
        fixed_share.construction(4, 3, task.eps, SHARE, basis=basis) for basis in (one_hot_basis(4), ROTATED)
    )
    floats = [TorchArithmetic(dtype, device) for dtype in dtypes]
    out = [measure_state(built, task, arithmetic, seed) for built in (unit, rotated) for arithmetic in floats]
    return out + [measure_state(rotated, task, exact, seed) for exact in (MpmathArithmetic(113), Balls(256), RATIONALS)]
