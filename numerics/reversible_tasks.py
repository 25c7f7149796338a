"""Tasks with N_ij = N_ji, exactly: closed paths of birth-death chains, and edges counted once in each direction.

A path that returns to its start crosses every edge of a line as often up as down. A log that lists every drawn edge in
both directions has symmetric counts whatever the graph. Draws come from numpy's PCG64, as in `numerics.tasks`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from constructions.errors import BadInput
from constructions.task import Task, exact_discount
from numerics.tasks import GRID


def birth_death_chain(
    n: int = 24, transitions: int | None = None, discount: Any = "9/10", seed: int = 0, lazy: bool = True
) -> Task:
    """A closed path on the line 0..n-1: once up and down again, then at random until it is long enough and back at 0.

    Args:
        transitions: at least so many; None for the sweep alone, after which P is the lazy walk itself: inside the line
            it stays with probability 1/2 and moves up or down with 1/4 each, at both ends it stays with 1/2.
        lazy: whether the path stays once at every visit of its sweep and then with probability 1/2; else it stays only
            where a step would leave the line.

    Raises:
        BadInput: a size that is not positive, or fewer transitions than the sweep has.
    """
    generator = "birth_death_chain"
    every = [i for i in [*range(n), *range(n - 2, 0, -1)] for _ in range(1 + lazy)] if isinstance(n, int) else []
    path = [*every, 0] if n != 1 else [0, 0]
    sweep = len(path) - 1
    transitions = sweep if transitions is None else transitions
    _check(generator, n, transitions, seed)
    if transitions < sweep:
        raise BadInput(f"{generator}: expected at least {sweep} transitions, up the line and back, found {transitions}")
    draw = np.random.Generator(np.random.PCG64(seed))
    while len(path) <= transitions or path[-1] != 0:
        step = 0 if lazy and draw.random() < 0.5 else int(draw.choice([-1, 1]))
        path.append(min(max(path[-1] + step, 0), n - 1))
    visited = np.array(path, dtype=np.int64)
    name = f"{generator}(n={n}, N={len(path) - 1}, {'lazy, ' if lazy else ''}g={exact_discount(discount)}, seed={seed})"
    return _task(visited[:-1], visited[1:], n, discount, draw, name)


def symmetric_chain(n: int = 24, edges: int | None = None, discount: Any = "9/10", seed: int = 0) -> Task:
    """Edges between uniform pairs of states, each counted in both directions: mixes fast, N_ij = N_ji.

    A cycle through all states comes first, so that every state is visited; 20 n edges by default.

    Raises:
        BadInput: a size that is not positive, or fewer edges than states.
    """
    generator = "symmetric_chain"
    edges = 20 * n if edges is None and isinstance(n, int) else edges
    _check(generator, n, edges, seed)
    assert edges is not None
    if edges < n:
        raise BadInput(f"{generator}: expected at least n = {n} edges to cover every state, found {edges}")
    draw = np.random.Generator(np.random.PCG64(seed))
    every = np.arange(n, dtype=np.int64)
    left = np.concatenate([every, draw.integers(n, size=edges - n)])
    right = np.concatenate([(every + 1) % n, draw.integers(n, size=edges - n)])
    name = f"{generator}(n={n}, N={2 * edges}, g={exact_discount(discount)}, seed={seed})"
    return _task(np.concatenate([left, right]), np.concatenate([right, left]), n, discount, draw, name)


def with_endings(task: Task) -> Task:
    """The task with one transition more from every state, to a terminal successor with reward 0: N_ij is unchanged."""
    n, none = task.n, np.zeros(task.n, dtype=np.int64)
    return Task(
        np.concatenate([task.states, np.arange(n, dtype=np.int64)]),
        np.concatenate([task.successors, none]),
        np.concatenate([task.rewards, none.astype(task.rewards.dtype)]),
        np.concatenate([task.terminal, np.ones(n, dtype=bool)]),
        n,
        task.discount,
        f"{task.name} with endings",
    )


def _task(states: Any, successors: Any, n: int, discount: Any, draw: np.random.Generator, name: str) -> Task:
    """Standard normal rewards per state, scaled to a largest magnitude of one and put on the grid."""
    normal = draw.standard_normal(n)
    rewards = (np.rint(normal / np.abs(normal).max() * GRID) / GRID)[states]
    terminal = np.zeros(len(states), dtype=bool)
    return Task(states, successors, rewards, terminal, n, exact_discount(discount), name)


def _check(generator: str, n: Any, transitions: Any, seed: Any) -> None:
    for what, value in (("states n", n), ("transitions", transitions)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise BadInput(f"{generator}: expected a positive number of {what}, found {value!r}")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise BadInput(f"{generator}: expected a non-negative int as seed, found {seed!r}")
