"""Control tasks: transitions drawn from random decision processes, every number a short fraction."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from constructions.errors import BadInput
from constructions.online_learning.transitions import TERMINAL, ControlTask, Transition

GRID = 16
"""Rewards are multiples of R/16."""


def random_control(
    states: int = 5,
    actions: int = 3,
    rounds: int = 20,
    alpha: Any = "1/8",
    discount: Any = "7/8",
    bound: int = 2,
    seed: int = 0,
    *,
    start: bool = True,
    terminal: bool = True,
) -> ControlTask:
    """A walk through a random decision process: two successors for each pair, one of them likely; uniform actions.

    Args:
        bound: R; rewards are multiples of R/16 within it.
        start: whether the first table is random (within R/(1 - g)) rather than zero.
        terminal: whether about one successor in eight is terminal, after which a new state is drawn.

    Raises:
        BadInput: a size that is not positive.
    """
    for what, value in (("states", states), ("actions", actions), ("rounds", rounds)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInput(f"random_control: expected a positive number of {what}, found {value!r}")
    draw = np.random.Generator(np.random.PCG64(seed))
    successors = draw.integers(states, size=(states, actions, 2))
    rewards = draw.integers(-GRID, GRID + 1, size=(states, actions, 2))
    out, state, action = [], int(draw.integers(states)), int(draw.integers(actions))
    for _ in range(rounds):
        which = int(draw.random() < 1 / 4)
        successor = int(successors[state, action, which])
        reward = Fraction(int(rewards[state, action, which]) * bound, GRID)
        then = int(draw.integers(actions))
        ended = terminal and draw.random() < 1 / 8
        out.append(Transition(state, action, reward, TERMINAL if ended else successor, then, int(draw.integers(2))))
        state, action = int(draw.integers(states)) if ended else successor, then
    name = f"random_control(n={states}, A={actions}, T={rounds}, alpha={alpha}, g={discount}, R={bound}, seed={seed})"
    made = ControlTask(tuple(out), states, actions, alpha, discount, Fraction(bound), name=name)
    return with_table(made, draw) if start else made


def with_table(task: ControlTask, draw: Any, columns: int | None = None) -> ControlTask:
    """The task from a random table within its bound; as many columns as actions unless given."""
    rows = draw.integers(-GRID, GRID + 1, size=(task.states, columns or task.actions)).tolist()
    table = tuple(tuple(task.largest * Fraction(x, GRID) for x in row) for row in rows)
    return ControlTask(
        task.transitions, task.states, task.actions, task.alpha, task.discount, task.bound, table, task.name
    )


def doubled(task: ControlTask, seed: int) -> ControlTask:
    """The task from two random tables side by side (double Q-learning)."""
    return with_table(task, np.random.Generator(np.random.PCG64(seed)), 2 * task.actions)


def cases(sizes: Sequence[tuple[int, int, int]], seed: int, **options: Any) -> list[ControlTask]:
    """A random task of each (states, actions, rounds)."""
    return [random_control(n, A, T, seed=seed, **options) for n, A, T in sizes]
