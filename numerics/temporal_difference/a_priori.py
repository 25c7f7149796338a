"""A-priori bounds for executors on their exact context: from the context, L and the format alone, without a float run.

An executor is an affine recursion s_{l+1} = H s_l, c_{l+1} = c_l - B s_l with v_l = -c_l. Let a step's own rounding err
by at most x_l (in s) and y_l (in c), entry by entry. Errors pass through the same recursion, so

    e_l <= |H^l| e_0 + sum_{m<l} |H^{l-1-m}| x_m                                                  (of s),
    E_l <= |B sum_{i<l} H^i| e_0 + sum_{m<l} |B sum_{i<l-1-m} H^i| x_m + sum_{m<l} y_m            (of v).

The matrices are exact, and only then are absolute values taken: where A B = B H, the sums are those of powers of A on
B, bounded by g^i, and errors are forgotten at that rate. It holds without A B = B H too, which fails for L < k_n.

On each way from s to what a step adds there are at most N factors 1 + d, |d| <= u, the rounding of the context and the
additions to the state included. With |s^_l| <= |s_l| + e_l and G = (1 + u)^N - 1,

    x_l = G (I + S) (|s_l| + e_l),     y_l = G (|v_l| + E_l + |B| (|s_l| + e_l)),

S the products of absolute values: (|B| + |Y|)' |B| for the executor of Thm 4.3, and I + N + |a| u' for that of the
memory-optimal context, which clears s first. Underflow adds multiples of the smallest number. N = n + k + 12: inner
products of length n and k in either order (one rounding more than their length each), their factors' own rounding
(two), two additions, and six to spare; the memory-optimal steps have mixings by public matrices besides, and
N = 2 (n + k) + 16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import NDArray

from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.temporal_difference import krylov, memory_optimal
from numerics.audit import TORCH, Setting
from numerics.errors import round_up

Floats = NDArray[np.float64]
SLACK = 1 + 2.0**-30
"""The recursion is in float64: sums and products of non-negative numbers, fewer than 2^20 in a row."""


@dataclass(frozen=True)
class Recursion:
    """An executor on one task, entries rounded up to floats.

    Attributes:
        powers: |H^j|, j = 0 .. L, shape (k, k) each.
        sums: |B sum_{i<j} H^i|, shape (n, k) each.
        states: |s_l|, shape (k,) each.
        values: |v_l|, shape (n,) each.
        spread: I + S, shape (k, k).
        reading: |B|, shape (n, k).
        columns: 1 and the sum of the absolute values that multiply a product's loss by underflow, shape (k,).
        roundings: N.
    """

    powers: tuple[Floats, ...]
    sums: tuple[Floats, ...]
    states: tuple[Floats, ...]
    values: tuple[Floats, ...]
    spread: Floats
    reading: Floats
    columns: Floats
    roundings: int

    def bound(self, setting: Setting) -> float | None:
        """On every entry of v_0 .. v_L; None where torch may round factors first, infinite beyond a format's range."""
        if setting.model == TORCH and setting.device != "cpu":
            return None
        target = setting.number_format
        u, (n, k) = float(target.unit_roundoff), self.reading.shape
        grown = math.expm1(self.roundings * math.log1p(u)) * SLACK
        smallest = max(round_up(target.smallest), 2.0**-900)
        under = 4 * smallest * (n + k)
        first = u * self.states[0] + smallest
        e, E, own, read = first, np.zeros(n), list[Floats](), np.zeros(n)
        worst = 0.0
        for m in range(len(self.powers) - 1):
            size = self.states[m] + e
            # Each product, and each number that is rounded first, may lose half the smallest number.
            whole = 1 + size.sum()
            lost = under * (whole * self.columns + size @ self.columns)
            own.append((grown * self.spread @ size + lost) * SLACK)
            read = (read + grown * (self.values[m] + E + self.reading @ size) + under * whole) * SLACK
            e, E = self.powers[m + 1] @ first, self.sums[m + 1] @ first + read
            for j, x in enumerate(own):
                e, E = e + self.powers[m - j] @ x, E + self.sums[m - j] @ x
            e, E = e * SLACK, E * SLACK
            worst = max(worst, float(E.max()))
            # Every partial sum of a step, whatever its order: values times keys, scores, what is added, the states.
            parts = (
                (whole * self.columns.max(), self.spread.max(), (self.spread @ size).max()),
                ((self.reading @ size + self.values[m] + E).max(), (self.states[m + 1] + e).max()),
            )
            if not 4 * max(max(part) for part in parts) <= target.largest:
                return math.inf
        return worst


def executor_recursion(task: Task, depth: int) -> Recursion | None:
    """Of td.executor on its exact context; None where k = 0."""
    context = krylov.exact_context(task, depth)
    if context is None:
        return None
    n, k = task.n, context.ncols()
    B, Y, g = (RATIONALS.rows(context, *cut) for cut in ((0, n), (n, 2 * n), (2 * n, 2 * n + 1)))
    identity = RATIONALS.matrix([[int(i == j) for j in range(k)] for i in range(k)])
    # s+' = s' + s' B' (Y - B).
    H = (identity + B.transpose() * (Y - B)).transpose()
    both = _up(B) + _up(Y)
    return _recursion(B, H, g.transpose(), depth, np.eye(k) + both.T @ _up(B), 1 + both.sum(axis=0), n + k + 12)


def memory_optimal_recursion(task: Task, depth: int) -> Recursion | None:
    """Of td.memory-optimal on its exact context; None where k = 0."""
    context = memory_optimal.exact_context(task, depth)
    if context is None:
        return None
    n, k = task.n, context.ncols()
    B, a = RATIONALS.rows(context, 0, n), RATIONALS.rows(context, n, n + 1).entries()
    H = RATIONALS.matrix([[int(i == j + 1) + (a[i] if j == k - 1 else fmpq(0)) for j in range(k)] for i in range(k)])
    size = _up(RATIONALS.matrix([a]))[0]
    spread = 2 * np.eye(k) + np.eye(k, k=-1)
    spread[:, -1] += size
    start = RATIONALS.matrix([[int(i == 0)] for i in range(k)])
    return _recursion(B, H, start, depth, spread, 2 + size, 2 * (n + k) + 16)


def _recursion(
    B: fmpq_mat, H: fmpq_mat, start: fmpq_mat, depth: int, spread: Floats, columns: Floats, roundings: int
) -> Recursion:
    n, k = B.nrows(), B.ncols()
    power = RATIONALS.matrix([[int(i == j) for j in range(k)] for i in range(k)])
    total, value, state = B * 0, fmpq_mat(n, 1), start
    powers, sums, states, values = (list[Floats]() for _ in range(4))
    for _ in range(depth + 1):
        powers.append(_up(power))
        sums.append(_up(total))
        states.append(_up(state).ravel())
        values.append(_up(value).ravel())
        total, value = total + B * power, value + B * state
        power, state = power * H, H * state
    kept = (tuple(powers), tuple(sums), tuple(states), tuple(values))
    return Recursion(*kept, spread * SLACK, _up(B), columns * SLACK, roundings)


def _up(matrix: fmpq_mat) -> Floats:
    """Absolute values as floats, rounded up."""
    return np.array([round_up(abs(x)) for x in matrix.entries()]).reshape(matrix.nrows(), matrix.ncols())
