"""Q-learning over long runs in p bits: the error of the table ends at a plateau, since the update contracts.

Two models: the table alone is rounded (after every update, exact otherwise as far as float64 is), or every operation
is, in the order Q + alpha ((r + g M) - Q). With only the table rounded every update errs by at most u |Q|, so

    sup error <= u Qmax / (alpha (1 - g)) (1 + small),        Qmax = R/(1 - g),

and with every operation rounded by the plateau of `numerics.online_learning.audit`. The reference is the same run in
float64; its own error is below the bound of float64, 2^-45 of that of fp16.

The process of theory B4 is not recorded there. Its figures need successors that differ (over deterministic ones the
update stalls and fp32 errs by 1e-5), rewards fixed for each pair (reward noise of .3 undoes the stall of fp16 at
g = .99), and the table alone rounded (g = .9 rounded to fp32 costs 2e-6 by itself). So: transition probabilities are
uniform numbers divided by their sum, rewards uniform and divided by their largest, R = 1, pairs uniform, and the error
is that of the table at the end. In bf16 the largest entry stalls where alpha (r + g M - Q) is below half a unit: at 32
for alpha = .1, g = .99, and at 2 for alpha = .01, g = .9; the error is what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .stalls import array_rounder

STATES, ACTIONS = 5, 3
TABLE, OPERATIONS = "table rounded", "every operation rounded"
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plateau:
    """Errors of the table, one for each seed.

    Attributes:
        end: the largest error after the last round.
        largest: over all rounds.
        limit: Qmax.
        bound: on `largest`, where the table alone is rounded.
    """

    end: Floats
    largest: Floats
    limit: float
    bound: float


@dataclass(frozen=True)
class Experience:
    """Transitions of all seeds, shape (T, seeds) each: state, action, reward, successor."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: Floats
    successors: NDArray[np.int64]


def experience(rounds: int, seeds: Sequence[int]) -> Experience:
    """The process of the module's text; the transitions of a seed do not depend on the other seeds."""
    columns: list[tuple[NDArray, ...]] = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        chances = rng.random((STATES, ACTIONS, STATES))
        edges = (chances / chances.sum(axis=-1, keepdims=True)).cumsum(axis=-1)[..., :-1]
        rewards = rng.random((STATES, ACTIONS))
        rewards /= rewards.max()
        s, a = rng.integers(STATES, size=rounds), rng.integers(ACTIONS, size=rounds)
        following = (rng.random((rounds, 1)) >= edges[s, a]).sum(axis=-1)
        columns.append((s, a, rewards[s, a], following))
    return Experience(*(np.stack(column, axis=1) for column in zip(*columns, strict=True)))


def run(
    alpha: float, discount: float, precisions: Sequence[int], model: str, rounds: int, seeds: Sequence[int]
) -> list[Plateau]:
    """The errors of runs in p bits, for every p of `precisions`, against the runs in float64."""
    given, here = experience(rounds, seeds), np.arange(len(seeds))
    near = [array_rounder(p) for p in precisions]
    inner = [f if model == OPERATIONS else np.asarray for f in near]
    rates = [[f(np.array([x])) for f in inner] for x in (alpha, discount)]
    # The last table is the reference.
    Q = np.zeros((len(near) + 1, len(seeds), STATES, ACTIONS))
    largest = np.zeros((len(near), len(seeds)))
    for t in range(rounds):
        s, a, r, after = given.states[t], given.actions[t], given.rewards[t], given.successors[t]
        M, q = Q[:, here, after].max(axis=-1), Q[:, here, s, a]
        for j, (f, i, al, g) in enumerate(zip(near, inner, *rates, strict=True)):
            q[j] = f(q[j] + i(al * i(i(i(r) + i(g * M[j])) - q[j])))
        q[-1] += alpha * (r + discount * M[-1] - q[-1])
        Q[:, here, s, a] = q
        np.maximum(largest, np.abs(q[:-1] - q[-1]), out=largest)
    end = np.abs(Q[:-1] - Q[-1]).max(axis=(2, 3))
    limit = 1 / (1 - discount)
    out = []
    for j, precision in enumerate(precisions):
        # |Q^| <= Qmax + error, so the error obeys e <= u (Qmax + e) / (alpha (1 - g)).
        share = 2.0**-precision / (alpha * (1 - discount))
        bound = share * limit / (1 - share) if share < 1 else float("inf")
        out.append(Plateau(end[j], largest[j], limit, bound))
    return out
