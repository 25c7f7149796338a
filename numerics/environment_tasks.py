"""Two sampled environments whose values live in few dimensions though their Krylov space is large (theory A9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from constructions.errors import BadInput
from constructions.task import Task
from numerics.tasks import check_sizes, sampled, seeded

DRIFT, WIDTH = 0.05, 0.08
"""How far the drift kernel moves in a step, and its standard deviation, on a circle of length 1."""


def drift_kernel(n: int = 200, transitions: int = 200_000, discount: Any = "9/10", seed: int = 0) -> Task:
    """n points x_i = i/n on a circle; P_ij proportional to exp(-dist(x_i + .05, x_j)^2 / (2 .08^2)); a bump as reward.

    The reward of a state is exp(-dist(x_i, 1/2)^2 / (2 .08^2)). Smoothing makes the values smooth: few vectors suffice
    up to an error, while every row of P is dense.

    Raises:
        BadInput: a size that is not positive, or fewer transitions than states.
    """
    generator = "drift_kernel"
    check_sizes(generator, n, transitions, seed)
    x = np.arange(n) / n
    weights = np.exp(-(_distance(x[:, None] + DRIFT, x[None, :]) ** 2) / (2 * WIDTH**2))
    rewards = np.exp(-(_distance(x, 0.5) ** 2) / (2 * WIDTH**2))
    sizes = f"n={n}, N={transitions}"
    return sampled(generator, weights, transitions, discount, seed, seeded(seed), sizes, rewards)


def _distance(x: Any, y: Any) -> Any:
    """On the circle of length 1."""
    return np.abs((x - y + 0.5) % 1 - 0.5)


def goal_gridworld(
    rows: int = 9, columns: int = 14, transitions: int = 1173, discount: Any = "99/100", seed: int = 0
) -> Task:
    """A uniform random walk on a grid; a step into a wall stays; reward 1 in the last corner, 0 elsewhere.

    Raises:
        BadInput: a size that is not positive, or fewer transitions than states.
    """
    generator = "goal_gridworld"
    for what, value in (("rows", rows), ("columns", columns)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInput(f"{generator}: expected a positive number of {what}, found {value!r}")
    n = rows * columns
    check_sizes(generator, n, transitions, seed)
    y, x = np.divmod(np.arange(n), columns)
    weights = np.zeros((n, n))
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        reached = np.clip(y + down, 0, rows - 1) * columns + np.clip(x + right, 0, columns - 1)
        np.add.at(weights, (np.arange(n), reached), 1.0)
    rewards = (np.arange(n) == n - 1).astype(np.float64)
    sizes = f"{rows}x{columns}, N={transitions}"
    return sampled(generator, weights, transitions, discount, seed, seeded(seed), sizes, rewards)
