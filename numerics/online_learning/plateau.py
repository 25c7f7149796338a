"""Q-learning over long runs in p bits: the error of the table ends at a plateau, since the update contracts.

Two models, on scalars: only the table is rounded (after every update, exact otherwise as far as float64 is), or every
operation is, in the order Q + alpha ((r + g M) - Q). With only the table rounded every update errs by at most u |Q|, so

    sup error <= u Qmax / (alpha (1 - g)) (1 + small),        Qmax = R/(1 - g),

and with every operation rounded by the plateau of `numerics.online_learning.audit`. The reference is the same run in
float64; its own error is below the bound of float64, 2^-45 of that of fp16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .stalls import rounder

STATES, ACTIONS = 5, 3
TABLE, OPERATIONS = "table rounded", "every operation rounded"


@dataclass(frozen=True)
class Plateau:
    """Largest error over the last half of a run and over all of it, the largest value there can be, and the bound."""

    late: float
    largest: float
    limit: float
    bound: float


def transitions(rounds: int, seed: int) -> list[tuple[int, int, float, int]]:
    """A walk: two successors a pair, uniform actions, a reward for each pair from U(0, 1)."""
    rng = np.random.default_rng(seed)
    after = rng.integers(STATES, size=(STATES, ACTIONS, 2))
    rewards = rng.random((STATES, ACTIONS))
    actions, which = rng.integers(ACTIONS, size=rounds), rng.integers(2, size=rounds)
    state, out = 0, []
    for a, w in zip(actions.tolist(), which.tolist(), strict=True):
        following = int(after[state, a, w])
        out.append((state, a, float(rewards[state, a]), following))
        state = following
    return out


def run(alpha: float, discount: float, precision: int, model: str, rounds: int, seed: int = 0) -> Plateau:
    """The sup error of a run in p bits against the run in float64."""
    near = rounder(precision)
    inner = near if model == OPERATIONS else float
    a, g = inner(alpha), inner(discount)
    Q = [[0.0] * ACTIONS for _ in range(STATES)]
    exact = [[0.0] * ACTIONS for _ in range(STATES)]
    largest = late = 0.0
    gap = [[0.0] * ACTIONS for _ in range(STATES)]
    for t, (s, b, r, following) in enumerate(transitions(rounds, seed)):
        exact[s][b] += alpha * (r + discount * max(exact[following]) - exact[s][b])
        target = inner(inner(r) + inner(g * max(Q[following])))
        Q[s][b] = near(Q[s][b] + inner(a * inner(target - Q[s][b])))
        gap[s][b] = abs(Q[s][b] - exact[s][b])
        largest = max(largest, gap[s][b])
        if t >= rounds // 2:
            late = max(late, gap[s][b])
    limit = 1 / (1 - discount)
    u = 2.0**-precision
    # |Q^| <= Qmax + error, so the error obeys e <= u (Qmax + e) / (alpha (1 - g)).
    share = u / (alpha * (1 - discount))
    bound = share * limit / (1 - share) if share < 1 else float("inf")
    return Plateau(late, largest, limit, bound)
