"""online.q-learning measured: tables in number formats, and what a finite softmax temperature costs.

Measured is the table after every round, with strict feedback, against tables in Q. The bound does not look at those:
with computed tables Q^_t and the exact round F_t, entry by entry,

    |Q^_{t+1} - Q_{t+1}|(s, a) <= (1 - alpha) E_t(s, a) + alpha g max_b E_t(s', b) + |Q^_{t+1} - F_t(Q^_t)|(s, a),

and where the round changes nothing E_t plus the residual; residuals are exact. In balls the program's own order,
Q + alpha (r + g M - Q), widens an entry by 1 + alpha + alpha g a round, the contracted one, which is
(1 - alpha) Q + alpha (r + g M), by (1 - alpha) + alpha g < 1: the radius of both is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from flint import arb, fmpq, fmpq_mat

from constructions.exact import RATIONALS, Balls
from constructions.online_learning import q_learning
from constructions.online_learning.action_values import rates_for
from constructions.online_learning.rounds import OnlineConstruction
from constructions.online_learning.softmax_gap import accumulated_bound
from constructions.online_learning.transitions import ControlTask, changed, tables
from numerics.control_tasks import random_control
from numerics.errors import ball_up, error_against, exact_entries, round_up
from numerics.measurement import Measurement, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.torch_arithmetic import TorchArithmetic

BITS = 113
BALL_BITS = 256
ALPHA, DISCOUNT, BOUND = "1/10", "9/10", 2
"""Step size and discount that no binary format holds, and R."""
TEMPERATURES = (1, 4, 16, 64, 256)

Row = dict[str, Any]


def built_for(variant: str, task: ControlTask, **options: Any) -> OnlineConstruction:
    """A realisation over unit vectors for a task."""
    rates = rates_for(task.states, task.actions, task.alpha, task.discount, task.bound, **options)
    return q_learning.construction(variant, rates, task.bound)


def measure_tables(variant: str, task: ControlTask, arithmetic: Any, seed: int) -> Measurement:
    """The tables of all rounds, side by side, shape (n, A T)."""
    built = built_for(variant, task)
    answer, seconds = timed(arithmetic, lambda: built.outputs(task, arithmetic))
    exact = RATIONALS.rows(built.reference(task, RATIONALS), 0, task.states)
    found = arithmetic.rows(answer, 0, task.states)
    error = error_against(found, exact)
    flags = [variant]
    if error.radius is not None:
        bound, method = error.radius, "radius of the balls"
        flags.append(f"radius of the contracted recursion: {contracted_radius(task, arithmetic):.1e}")
    else:
        bound, method = residual_bound(found, task), "a posteriori: exact residuals of every round, entry by entry"
    if isinstance(arithmetic, TorchArithmetic):
        flags += _in_floats(variant, task, answer, arithmetic)
    sizes = {**built.sizes, "T": task.rounds}
    reference = "Q-learning in Q"
    return Measurement(
        built.theorem, task.name, arithmetic.name, sizes, error, reference, bound, method, seconds, seed, tuple(flags)
    )


def _in_floats(variant: str, task: ControlTask, answer: Any, arithmetic: TorchArithmetic) -> list[str]:
    found, rest = answer[: task.states], answer[task.states + 1 :]
    scalar = scalar_tables(task, arithmetic)
    different = int((found != scalar).sum())
    same = "bit-identical to the scalar recursion" if not different else f"{different} entries differ from the scalar"
    return [same, "clean: exactly" if not rest.any() else "clean: no"]


def scalar_tables(task: ControlTask, arithmetic: TorchArithmetic) -> Any:
    """Q + alpha ((r + g max) - Q), one rounded operation after another, the tables side by side; no attention."""
    import torch

    def number(x: Fraction) -> Any:
        return arithmetic.matrix([[x]])[0, 0]

    alpha, discount, zero = number(task.alpha), number(task.discount), number(Fraction(0))
    Q = arithmetic.matrix(task.table or [[0] * task.actions] * task.states)
    out = []
    for x in task.transitions:
        best = Q[x.successor].max() if x.successor >= 0 else zero
        Q = Q.clone()
        Q[x.state, x.action] += alpha * ((number(x.reward) + discount * best) - Q[x.state, x.action])
        out.append(Q)
    return torch.cat(out, 1)


def residual_bound(values: Any, task: ControlTask) -> float:
    """A rigorous bound on the error of computed tables, however they were computed; rounded up.

    Args:
        values: tables side by side, shape (n, A T): torch tensor, numpy array of floats or mpf, or fmpq_mat.
    """
    return max(residual_limits(values, task))


def residual_limits(values: Any, task: ControlTask) -> list[float]:
    """The same for every entry, row by row."""
    (n, width), entries = exact_entries(values)
    if None in entries:
        return [math.inf] * (n * width)
    found = fmpq_mat(n, width, entries)
    A, g, alpha = task.actions, _fmpq(task.discount), _fmpq(task.alpha)
    start = task.table or ((Fraction(0),) * A,) * n
    Q = [[_fmpq(x) for x in row] for row in start]
    limits = [[0.0] * A for _ in range(n)]
    out = [[0.0] * width for _ in range(n)]
    for t, x in enumerate(task.transitions):
        best = max(Q[x.successor]) if x.successor >= 0 else fmpq(0)
        widest = max(limits[x.successor]) if x.successor >= 0 else 0.0
        now = [[found[s, A * t + b] for b in range(A)] for s in range(n)]
        Q[x.state][x.action] = (1 - alpha) * Q[x.state][x.action] + alpha * (_fmpq(x.reward) + g * best)
        own = limits[x.state][x.action]
        limits[x.state][x.action] = round_up(
            (1 - task.alpha) * Fraction(own) + task.alpha * task.discount * Fraction(widest)
        )
        for s in range(n):
            for b in range(A):
                residual = abs(now[s][b] - Q[s][b])
                if residual:
                    limits[s][b] = round_up(Fraction(limits[s][b]) + Fraction(int(residual.p), int(residual.q)))
            out[s][A * t : A * (t + 1)] = limits[s]
        Q = now
    return [limit for row in out for limit in row]


def _fmpq(x: Fraction | int) -> fmpq:
    return fmpq(x.numerator, x.denominator)


def contracted_radius(task: ControlTask, balls: Balls) -> float:
    """The largest radius of (1 - alpha) Q + alpha (r + g max) in balls."""

    def largest(Q: Any, x: Any) -> arb:
        return reduce(lambda a, b: a.max(b), Q[x.successor])

    with balls.working():
        runs = changed(task, largest, lambda x: arb(_fmpq(x)))
        return max(ball_up(x.rad()) for table in runs for row in table for x in row)


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Every exact realisation in torch; the first one in mpmath, balls and exactly too.

    Raises:
        BadInput: an unknown dtype or device.
    """
    task = _task(5, 3, 60 if quick else 400, seed)
    out = [
        measure_tables(variant, task, TorchArithmetic(dtype, device), seed)
        for dtype in dtypes
        for variant in q_learning.EXACT
    ]
    precise: tuple[Any, ...] = (MpmathArithmetic(BITS), Balls(BALL_BITS), RATIONALS)
    return out + [measure_tables("four_layer", _task(5, 3, 60, seed), arithmetic, seed) for arithmetic in precise]


def _task(states: int, actions: int, rounds: int, seed: int) -> ControlTask:
    return random_control(states, actions, rounds, ALPHA, DISCOUNT, BOUND, seed)


def softmax_gap(task: ControlTask, beta: int, device: Any = "cpu") -> float:
    """The largest Q - Q~ over all rounds and entries, Q~ the table of `softmax` in float64."""
    built = built_for("softmax", task, beta=beta)
    arithmetic = TorchArithmetic("float64", device)
    found = built.outputs(task, arithmetic)[: task.states].cpu()
    exact = TorchArithmetic("float64").matrix(_side_by_side(task, tables))
    return float((exact - found).max())


def _side_by_side(task: ControlTask, rule: Callable[[ControlTask], Any]) -> list[list[Fraction]]:
    after = list(rule(task))[1:]
    return [[x for table in after for x in table[s]] for s in range(task.states)]


def reproduce_temperature(quick: bool = True, seed: int = 0, device: Any = "cpu") -> list[Row]:
    """How far the table of softmax falls below that of hardmax, beside the bound (`source`), for growing beta.

    Raises:
        BadInput: a device that is not there.
    """
    rows: list[Row] = []
    for states, actions in ((5, 3), (4, 8)):
        task = random_control(states, actions, 60 if quick else 600, "1/2", DISCOUNT, BOUND, seed, start=False)
        for beta in TEMPERATURES[::2] if quick else TEMPERATURES:
            limit = ball_up(accumulated_bound(actions, Fraction(beta), task.discount))
            ours = softmax_gap(task, beta, device)
            rows.append(
                {
                    "name": "softmax-temperature",
                    "quantity": f"largest max - softmax gap of a table, |A| = {actions}, beta = {beta}",
                    "setting": f"{task.name}, float64",
                    "source": limit,
                    "ours": ours,
                    "agrees": ours <= limit,
                    "reason": "source: the bound g/(1 - g) min(ln A, (A - 1)/e)/beta",
                    "seed": seed,
                }
            )
    return rows
