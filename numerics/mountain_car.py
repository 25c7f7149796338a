"""Mountain car seen through tilings: logs of transitions (phi, phi', R) with sparse 0/1 features, and their moments.

Dynamics, bounds and resets are those of gymnasium's MountainCar-v0; its time limit of 200 steps ends an episode without
making the last successor terminal. The policy pushes along the velocity with probability 1 - eps and else uniformly.
Each reward is -1, and the goal is terminal: phi' = 0 there. Positions are float64 throughout, by the very operations of
gymnasium's `step`; tile indices follow from them.

Tiling i (from 0) of the eight has 8 x 8 tiles over the box of positions and velocities, shifted by i/8 of a tile in
position and (3i mod 8)/8 of a tile in velocity; beyond the last tile the index stays. Features that no phi and no phi'
has are left out: a log has d <= 512 of them. Every phi has one feature in each tiling, so the sum of one tiling's
features minus that of another's vanishes on every phi and phi', terminal ones included: rank A_N <= d - 7.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from constructions.errors import BadInput
from constructions.task import exact_discount
from numerics.tasks import check_sizes, seeded

TILINGS, TILES, LIMIT = 8, 8, 200
"""Tilings; tiles along each axis; steps an episode may take."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TileLog:
    """N transitions seen through 0/1 features, one in each tiling; every count is an exact integer.

    Attributes:
        features: of phi_t, the indices of its ones in tiling order, shape (N, tilings).
        successors: of phi'_t, likewise; ignored where `terminal`.
        terminal: whether phi'_t = 0, shape (N,).
        tiling: which tiling a feature belongs to, shape (d,).
        discount: g.
        name: generator, settings, seed.
    """

    features: Integers
    successors: Integers
    terminal: NDArray[np.bool_]
    tiling: Integers
    discount: Fraction
    name: str

    @property
    def transitions(self) -> int:
        """N."""
        return len(self.features)

    @property
    def d(self) -> int:
        """Number of features that occur."""
        return len(self.tiling)

    def rows(self, start: int = 0, stop: int | None = None) -> tuple[csr_matrix, csr_matrix]:
        """phi_t and phi'_t of transitions start..stop as rows, int64 CSR of shape (.., d)."""
        chosen = slice(start, stop)
        going = ~self.terminal[chosen]
        return (
            _one_hot(self.features[chosen], np.ones(len(going), dtype=bool), self.d),
            _one_hot(self.successors[chosen], going, self.d),
        )

    @cached_property
    def moments(self) -> tuple[Integers, Integers, Integers]:
        """sum phi phi', sum phi phi'_next', sum R phi without attention; shapes (d, d), (d, d), (d,)."""
        X, Y = self.rows()
        return (X.T @ X).toarray(), (X.T @ Y).toarray(), -np.asarray(X.sum(axis=0)).ravel()

    @property
    def scaled_A(self) -> Integers:
        """The integers q A_N, where g = p / q, shape (d, d)."""
        own, ahead, _ = self.moments
        return self.discount.denominator * own - self.discount.numerator * ahead

    def batch_td(self, step: Fraction) -> tuple[Floats, Floats]:
        """M = I - a A_N and s_0 = a b_N, each entry its rational rounded once; shapes (d, d), (d,).

        Raises:
            BadInput: the numerators do not fit float64.
        """
        denominator = step.denominator * self.discount.denominator
        # Quotients of integers below 2^53 are rounded once.
        if denominator + step.numerator * int(np.abs(self.scaled_A).max()) >= 2**53:
            raise BadInput(f"{self.name}: expected a step and a discount of few digits, found step {step}")
        top = np.eye(self.d, dtype=np.int64) * denominator - step.numerator * self.scaled_A
        return top / denominator, step.numerator * self.moments[2] / step.denominator

    @cached_property
    def visited(self) -> Integers:
        """The distinct phi_t, by the indices of their ones, shape (.., tilings)."""
        return np.unique(self.features, axis=0)

    def values(self, w: Floats) -> Floats:
        """phi'w at the distinct phi_t, shape (..,)."""
        return w[self.visited].sum(axis=1)

    def tiling_differences(self) -> Integers:
        """Columns: the features of the first tiling minus those of another; A_N maps them to zero. Shape (d, 7)."""
        first = (self.tiling == 0).astype(np.int64)
        return np.stack([first - (self.tiling == i) for i in range(1, TILINGS)], axis=1)


def _one_hot(indices: Integers, kept: NDArray[np.bool_], width: int) -> csr_matrix:
    """Rows with ones at the indices, empty where not kept."""
    ends = np.concatenate([[0], np.cumsum(kept * indices.shape[1])])
    chosen = indices[kept].ravel()
    return csr_matrix((np.ones(chosen.size, dtype=np.int64), chosen, ends), shape=(len(indices), width))


def mountain_car(
    transitions: int = 20_000, exploration: Any = "1/5", discount: Any = "99/100", seed: int = 0
) -> TileLog:
    """A log of N transitions, episode after episode.

    Args:
        transitions: N.
        exploration: eps, how often the action is uniform.
        discount: g.
        seed: of resets (gymnasium's generator) and of the policy (PCG64).

    Raises:
        BadInput: gymnasium is not installed, N is not positive, eps is outside [0, 1], or a discount outside (0, 1).
    """
    generator = "mountain_car"
    check_sizes(generator, 1, transitions, seed)
    eps, g = Fraction(exploration), exact_discount(discount)
    if not 0 <= eps <= 1:
        raise BadInput(f"{generator}: expected an exploration between 0 and 1, found {exploration}")
    steps = list(_steps(transitions, float(eps), seed))
    places = np.array([(*before, *after) for before, after, _ in steps])
    terminal = np.array([done for _, _, done in steps])
    starts, ends = tiles(places[:, 0], places[:, 1]), tiles(places[:, 2], places[:, 3])
    found = np.unique(np.concatenate([starts, ends[~terminal]]))
    # Terminal successors are in no feature: any index does.
    features, successors = (np.searchsorted(found, x) for x in (starts, np.where(terminal[:, None], starts, ends)))
    name = f"{generator}(N={transitions}, eps={eps}, d={len(found)}, g={g}, seed={seed})"
    return TileLog(features, successors, terminal, found // TILES**2, g, name)


def environment() -> Any:
    """gymnasium's MountainCar-v0 without wrappers.

    Raises:
        BadInput: gymnasium is not installed.
    """
    try:
        gymnasium = importlib.import_module("gymnasium")
    except ImportError:
        raise BadInput("mountain car: expected the package gymnasium to be installed, found none") from None
    return gymnasium.make("MountainCar-v0").unwrapped


State = tuple[float, float]


def advance(car: Any, position: float, velocity: float, action: int) -> tuple[State, bool]:
    """The state after an action and whether it is terminal, by the operations of gymnasium's `step` in their order."""
    velocity += (action - 1) * car.force + math.cos(3 * position) * (-car.gravity)
    velocity = min(max(velocity, -car.max_speed), car.max_speed)
    position = min(max(position + velocity, car.min_position), car.max_position)
    if position == car.min_position and velocity < 0:
        velocity = 0.0
    return (position, velocity), position >= car.goal_position and velocity >= car.goal_velocity


def _steps(transitions: int, eps: float, seed: int) -> Iterator[tuple[State, State, bool]]:
    """(state, next state, terminal) of each transition."""
    car, draw = environment(), seeded(seed)
    explores, actions = (draw.random(transitions) < eps).tolist(), draw.integers(3, size=transitions).tolist()
    car.reset(seed=seed)
    position, velocity = map(float, car.state)
    steps = 0
    for t in range(transitions):
        action = actions[t] if explores[t] else 2 if velocity >= 0 else 0
        after, done = advance(car, position, velocity, action)
        yield (position, velocity), after, done
        steps += 1
        if done or steps == LIMIT:
            car.reset()
            after, steps = (float(car.state[0]), float(car.state[1])), 0
        position, velocity = after


def tiles(positions: Floats, velocities: Floats) -> Integers:
    """Feature indices in tiling order, shape (.., tilings): 64 i + 8 (tile in position) + (tile in velocity)."""
    car = environment()
    along = (positions - car.min_position) / (car.max_position - car.min_position) * TILES
    across = (velocities + car.max_speed) / (2 * car.max_speed) * TILES
    columns = []
    for i in range(TILINGS):
        place = [
            np.minimum(np.floor(axis + shift / TILINGS), TILES - 1)
            for axis, shift in ((along, i), (across, 3 * i % TILINGS))
        ]
        columns.append(i * TILES**2 + TILES * place[0] + place[1])
    return np.stack(columns, axis=-1).astype(np.int64)
