"""Seeded task generators: sampled chains and worst-case rings, as exact `Task`s that are named after their settings.

Sampled logs visit each state once first (full coverage), then draw S_t uniformly. Rewards are standard normal, divided
by the largest magnitude and rounded to multiples of 2^-16: floats whose binary value keeps work over Q cheap, yet fine
enough that they are generic (on a coarse grid the rewards of a cycle sum to zero now and then, and k drops).
Draws come from numpy's PCG64, so a seed names one task on every platform.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constructions.errors import BadInput
from constructions.task import Task, exact_discount

GRID = 2.0**16
"""Sampled rewards are multiples of 1 / GRID."""


def block_cycle(
    n: int = 24, blocks: int = 12, transitions: int = 960, discount: Any = "9/10", seed: int = 0, noise: float = 0.0
) -> Task:
    """n states in equal blocks on a cycle; a uniform jump into the next block, a constant reward per block.

    Lumpable whatever is sampled, so the Krylov dimension is `blocks` for generic rewards and L >= blocks (theory A9).
    `noise` adds that many standard deviations of normal noise to each reward, which makes it n.

    Raises:
        BadInput: a size that is not positive, blocks that do not divide n, or fewer transitions than states.
    """
    generator = "block_cycle"
    check_sizes(generator, n, transitions, seed)
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1 or n % blocks:
        raise BadInput(f"{generator}: expected a number of blocks that divides n = {n}, found {blocks!r}")
    if not 0 <= noise < float("inf"):
        raise BadInput(f"{generator}: expected a finite noise >= 0, found {noise}")
    draw = seeded(seed)
    size = n // blocks
    rewards = _normal_rewards(draw, blocks)
    states = _starts(draw, n, transitions)
    successors = (states // size + 1) % blocks * size + draw.integers(size, size=transitions)
    observed = rewards[states // size]
    if noise:
        observed = np.rint((observed + noise * draw.standard_normal(transitions)) * GRID) / GRID
    sizes = f"n={n}, blocks={blocks}, N={transitions}" + (f", noise={noise}" if noise else "")
    return _task(generator, sizes, states, successors, observed, n, discount, seed)


def reversible_chain(n: int = 24, transitions: int = 960, discount: Any = "9/10", seed: int = 0) -> Task:
    """Transitions sampled from a reversible chain: weights w_ij = u_ij u_ji, u uniform; rewards normal per state.

    Raises:
        BadInput: a size that is not positive, or fewer transitions than states.
    """
    generator = "reversible_chain"
    check_sizes(generator, n, transitions, seed)
    draw = seeded(seed)
    u = draw.random((n, n))
    weights = u * u.T
    return sampled(generator, weights, transitions, discount, seed, draw, f"n={n}, N={transitions}")


def dirichlet_chain(
    n: int = 24, transitions: int | None = None, discount: Any = "9/10", seed: int = 0, concentration: float = 1.0
) -> Task:
    """Transitions sampled from a chain whose rows are Dirichlet(concentration); 40 transitions a state by default.

    Raises:
        BadInput: a size or concentration that is not positive, or fewer transitions than states.
    """
    generator = "dirichlet_chain"
    if transitions is None and isinstance(n, int):
        transitions = 40 * n
    check_sizes(generator, n, transitions, seed)
    if not 0 < concentration < float("inf"):
        raise BadInput(f"{generator}: expected a positive finite concentration, found {concentration}")
    assert transitions is not None
    draw = seeded(seed)
    # A row of gamma draws is a Dirichlet row once divided by its sum; a row that underflows to zero jumps anywhere.
    weights = draw.standard_gamma(concentration, (n, n))
    weights[weights.sum(axis=1) == 0] = 1.0
    sizes = f"n={n}, N={transitions}, concentration={concentration}"
    return sampled(generator, weights, transitions, discount, seed, draw, sizes)


def ring(rewards: Any, discount: Any = "99/100", name: str = "ring") -> Task:
    """The deterministic ring i -> i + 1 mod n with the given rewards (ints, floats or Fractions), one visit a state.

    Raises:
        BadInput: no reward.
    """
    observed = np.asarray(rewards)
    if observed.ndim != 1 or observed.size == 0:
        raise BadInput(f"ring: expected a flat sequence of rewards, found shape {observed.shape}")
    n = int(observed.size)
    states = np.arange(n, dtype=np.int64)
    terminal = np.zeros(n, dtype=bool)
    g = exact_discount(discount)
    return Task(states, (states + 1) % n, observed, terminal, n, g, f"{name}(n={n}, N={n}, g={g})")


def half_ring(n: int = 1000, discount: Any = "99/100") -> Task:
    """The ring with reward 1 on the first half and -1 on the second: the worst case of the hold methods (theory A9).

    Raises:
        BadInput: n is not a positive even int.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 2 or n % 2:
        raise BadInput(f"half_ring: expected a positive even number of states, found {n!r}")
    return ring(np.repeat(np.array([1, -1], dtype=np.int64), n // 2), discount, "half_ring")


def with_terminal(task: Task, probability: float, seed: int = 0) -> Task:
    """The task with each successor made terminal with this probability, so that P is sub-stochastic.

    Raises:
        BadInput: a probability outside [0, 1].
    """
    if not 0 <= probability <= 1:
        raise BadInput(f"with_terminal: expected a probability between 0 and 1, found {probability}")
    _check_seed("with_terminal", seed)
    ends = task.terminal | (seeded(seed).random(task.transitions) < probability)
    return _changed(task, f"terminal={probability} (seed={seed})", terminal=ends)


def with_zero_rewards(task: Task) -> Task:
    """The task with every reward zero: k = 0 and all iterates vanish."""
    return _changed(task, "zero rewards", rewards=np.zeros(task.transitions, dtype=np.int64))


def with_absorbing(task: Task, state: int) -> Task:
    """The task with every successor of one state replaced by itself; its rewards stay.

    Raises:
        BadInput: no such state.
    """
    if isinstance(state, bool) or not isinstance(state, (int, np.integer)) or not 0 <= state < task.n:
        raise BadInput(f"with_absorbing: expected a state between 0 and {task.n - 1}, found {state!r}")
    own = task.states == state
    successors = np.where(own, state, task.successors)
    return _changed(task, f"absorbing={state}", successors=successors, terminal=task.terminal & ~own)


def _changed(task: Task, what: str, **fields: Any) -> Task:
    return replace(task, **fields, name=f"{task.name} with {what}")


def sampled(
    generator: str,
    weights: NDArray,
    transitions: int,
    discount: Any,
    seed: int,
    draw: np.random.Generator,
    sizes: str,
    rewards: NDArray | None = None,
) -> Task:
    """The task of a log sampled from the chain whose rows are proportional to `weights`, shape (n, n).

    Rewards per state are drawn as the module says, unless they are given, shape (n,).
    """
    n = len(weights)
    rewards = _normal_rewards(draw, n) if rewards is None else np.rint(rewards * GRID) / GRID
    states = _starts(draw, n, transitions)
    # Inverse distribution function, row by row; the last bound is exact so that no draw falls past it.
    bounds = np.cumsum(weights, axis=1)
    uniform = draw.random(transitions) * bounds[states, -1]
    successors = np.empty(transitions, dtype=np.int64)
    for state in range(n):
        own = states == state
        successors[own] = np.searchsorted(bounds[state], uniform[own], side="right")
    return _task(generator, sizes, states, np.minimum(successors, n - 1), rewards[states], n, discount, seed)


def _task(
    generator: str,
    sizes: str,
    states: NDArray,
    successors: NDArray,
    rewards: NDArray,
    n: int,
    discount: Any,
    seed: int,
) -> Task:
    g: Fraction = exact_discount(discount)
    terminal = np.zeros(len(states), dtype=bool)
    return Task(states, successors, rewards, terminal, n, g, f"{generator}({sizes}, g={g}, seed={seed})")


def seeded(seed: int) -> np.random.Generator:
    """The generator of all draws: PCG64."""
    return np.random.Generator(np.random.PCG64(seed))


def _starts(draw: np.random.Generator, n: int, transitions: int) -> NDArray[np.int64]:
    return np.concatenate([np.arange(n, dtype=np.int64), draw.integers(n, size=transitions - n)])


def _normal_rewards(draw: np.random.Generator, count: int) -> NDArray[np.float64]:
    normal = draw.standard_normal(count)
    return np.rint(normal / np.abs(normal).max() * GRID) / GRID


def check_sizes(generator: str, n: Any, transitions: Any, seed: Any) -> None:
    """Raise `BadInput` unless n, N >= n and the seed are ints of a size that makes sense."""
    for what, value in (("states n", n), ("transitions N", transitions)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise BadInput(f"{generator}: expected a positive number of {what}, found {value!r}")
    if transitions < n:
        raise BadInput(f"{generator}: expected at least n = {n} transitions to cover every state, found {transitions}")
    _check_seed(generator, seed)


def _check_seed(generator: str, seed: Any) -> None:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise BadInput(f"{generator}: expected a non-negative int as seed, found {seed!r}")
