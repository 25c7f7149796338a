"""td.minimax measured: decoders that try to beat e* on the witness task, and lower bounds of a task by linear programs.

Lower bound. Let u_0 = v_{t_0}, u_s = v_{t_s} - v_{t_{s-1}} for m + 1 ends t_0 < .. < t_m <= L, and w = (1, 2, .., 2).
If |sum c_s u_s|_inf >= t sum w_s |c_s| for all c, then by Tikhomirov some u_s is at distance >= t w_s from any
range of m dimensions, so no context of m registers errs by less than t. For c of signs sigma this follows from weights
y on the states, |y|_1 <= 1, with sigma_s (u_s . y) >= t w_s for all s: y is the dual of a linear program, which floats
solve. What is returned is checked in Q, so it holds whatever the solver did.

Optimised decoders are `observed` evidence: float64, nothing enclosed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.temporal_difference import minimax
from constructions.temporal_difference.executor import td_values
from numerics.temporal_difference.projection import iterates
from numerics.temporal_difference.registers import sparse_model

Array = NDArray[np.float64]

GRAIN = 10**6
"""Duals are rounded to multiples of 1 / GRAIN."""


def task_lower_bound(task: Task, ends: Sequence[int]) -> Fraction:
    """A lower bound, in Q, of the error of every context of len(ends) - 1 registers a state on one task.

    Args:
        task: any log; with few states, or deterministic, because values at the states that matter are exact.
        ends: t_0 < .. < t_m, all within the depths that must be answered.

    Raises:
        BadInput: ends that do not increase from 1 on.
    """
    if not ends or list(ends) != sorted(set(ends)) or ends[0] < 1:
        raise BadInput(f"{task.name}: expected depths that increase from 1 or more, found {list(ends)}")
    A, r = sparse_model(task)
    values = iterates(A, r, ends[-1])
    increments = np.diff(values[[0, *ends]], axis=0).T
    weights = np.array([1.0, *([2.0] * (len(ends) - 1))])
    exact: dict[int, list[Fraction]] = {}
    bounds: dict[tuple[int, ...], Fraction] = {}
    for pattern in itertools.product((1, -1), repeat=len(ends) - 1):
        sigma = (1, *pattern)
        signed = increments * np.array(sigma)
        # Any weights are a certificate: the program's dual, rounded, and the best single state.
        solved = {i: Fraction(round(x * GRAIN), GRAIN) for i, x in enumerate(_dual(signed, weights).tolist())}
        single = int(np.argmax((signed / weights).min(axis=1)))
        for chosen in ({i: x for i, x in solved.items() if x}, {single: Fraction(1)}):
            for i in chosen.keys() - exact.keys():
                exact[i] = _exact_increments(task, i, ends)
            size = max(Fraction(1), sum(map(abs, chosen.values()), Fraction(0)))
            shares = [sum((x * exact[i][s] for i, x in chosen.items()), Fraction(0)) for s in range(len(ends))]
            least = min(sign * x / (2 if s else 1) for s, (sign, x) in enumerate(zip(sigma, shares, strict=True)))
            bounds[pattern] = max(bounds.get(pattern, Fraction(0)), least / size)
    return min(bounds.values())


def _dual(signed: Array, weights: Array) -> Array:
    """y of largest t in floats: signed' y >= t weights, |y|_1 <= 1; dual of min |signed c|_inf, w'c = 1, c >= 0."""
    n, count = signed.shape
    # Variables y+, y-, t; maximise t.
    found = linprog(
        np.array([*([0.0] * (2 * n)), -1.0]),
        A_ub=np.block([[-signed.T, signed.T, weights[:, None]], [np.ones((1, 2 * n)), np.zeros((1, 1))]]),
        b_ub=np.array([*([0.0] * count), 1.0]),
        bounds=[*([(0, None)] * (2 * n)), (None, None)],
        method="highs",
    )
    return np.asarray(found.x[:n] - found.x[n : 2 * n])


def _exact_increments(task: Task, state: int, ends: Sequence[int]) -> list[Fraction]:
    """u_0 .. u_m at one state; along its path where every state has one successor, else by exact iteration of all."""
    if task.transitions == task.n and not task.terminal.any():
        g, rewards = task.discount, dict(zip(task.states.tolist(), task.exact_rewards, strict=True))
        onward = dict(zip(task.states.tolist(), task.successors.tolist(), strict=True))
        out, depth, power = [], 0, Fraction(1)
        for end in ends:
            part = Fraction(0)
            while depth < end:
                part += power * Fraction(rewards[state])
                power *= g
                state, depth = onward[state], depth + 1
            out.append(part)
        return out
    values = td_values(task, ends[-1], RATIONALS)
    rows = [Fraction(int(x.p), int(x.q)) for x in (values[end, state] for end in (0, *ends))]
    return [b - a for a, b in itertools.pairwise(rows)]


def ring_lower_bound(discount: Any, m: int, depth: int) -> tuple[int, Fraction, Fraction]:
    """On the ring of all sign patterns: its number of states, the bound by linear programs, and e*(g, m, L).

    Raises:
        BadInput: as `minimax.witness_task` does.
    """
    task = minimax.witness_task(discount, m, depth)
    law = minimax.law(discount, m, depth)
    return task.n, task_lower_bound(task, [x for x in law.packing.ends if x is not None]), law.value


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
