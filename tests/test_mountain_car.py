"""Mountain car logs: gymnasium's own steps, tilings, exact moments, the rank that tilings cost; two more tasks."""

import sys
from fractions import Fraction

import numpy as np
import pytest
from flint import nmod_mat

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference.full_context import FeatureLog
from constructions.temporal_difference.linear_features import BatchTask
from numerics import mountain_car as car_room
from numerics.environment_tasks import drift_kernel, goal_gridworld
from numerics.mountain_car import TILINGS, mountain_car
from numerics.temporal_difference.linear_features import PRIME, dimension, tile_dimension
from numerics.temporal_difference.registers import sparse_counts


@pytest.fixture(scope="module")
def log():
    pytest.importorskip("gymnasium")
    return mountain_car(3_000, seed=2)


def test_steps_are_those_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    car, rng = car_room.environment(), np.random.default_rng(0)
    theirs = gymnasium.make("MountainCar-v0").unwrapped
    reached = 0
    for episode in range(3):
        theirs.reset(seed=episode)
        for _ in range(200):
            position, velocity = map(float, theirs.state)
            action = int(rng.integers(3)) if rng.random() < 0.2 else 2 if velocity >= 0 else 0
            _, reward, done, _, _ = theirs.step(action)
            assert car_room.advance(car, position, velocity, action) == (tuple(map(float, theirs.state)), done)
            assert reward == -1
            reached += done
            if done:
                break
    assert reached
    # Both walls, where velocity is lost or the goal is passed.
    for state, action in (((-1.19, -0.07), 0), ((0.49, 0.07), 2), ((0.6, 0.07), 2)):
        theirs.state = state
        _, _, done, _, _ = theirs.step(action)
        assert car_room.advance(car, *state, action) == (tuple(map(float, theirs.state)), done)


def test_a_log_is_episodes_one_after_the_other(log):
    ends = np.flatnonzero(log.terminal)
    assert ends.size
    joined = (log.features[1:] == log.successors[:-1]).all(axis=1)
    assert joined[~log.terminal[:-1]].mean() > 0.98  # all but the time limit's
    again = mountain_car(3_000, seed=2)
    assert np.array_equal(again.features, log.features)
    assert again.name == log.name
    assert not np.array_equal(mountain_car(3_000, seed=3).terminal, log.terminal)


def test_every_phi_has_one_feature_in_each_tiling(log):
    assert (log.tiling[log.features] == np.arange(TILINGS)).all()
    assert (log.tiling[log.successors[~log.terminal]] == np.arange(TILINGS)).all()
    X, Y = log.rows()
    assert (X.sum(axis=1) == TILINGS).all()
    assert np.array_equal(np.asarray(Y.sum(axis=1)).ravel() == 0, log.terminal)


def test_tile_edges():
    pytest.importorskip("gymnasium")
    corners = car_room.tiles(np.array([-1.2, 0.6, -1.2 + 1.8 / 8]), np.array([-0.07, 0.07, -0.07]))
    assert corners[0].tolist() == [64 * i for i in range(8)]
    assert corners[1].tolist() == [64 * i + 63 for i in range(8)]
    assert corners[2].tolist() == [64 * i + 8 for i in range(8)]
    inside = car_room.tiles(np.array([-1.2 + 1.8 / 8 * 0.55]), np.array([-0.07 + 0.14 / 8 * 0.55]))
    # Shifts of i/8 and (3i mod 8)/8 carry a point at .55 of a tile over its edge from 4/8 on.
    assert inside[0].tolist() == [64 * i + 8 * (i >= 4) + (3 * i % 8 >= 4) for i in range(8)]


def test_rank_is_d_minus_seven():
    """Exactly: seven integer vectors are mapped to zero, and the rank modulo a prime is no smaller than the rest."""
    pytest.importorskip("gymnasium")
    log = mountain_car(20_000)
    null = log.tiling_differences()
    assert not (log.scaled_A @ null).any()
    assert nmod_mat(*null.shape, null.ravel().tolist(), PRIME).rank() == TILINGS - 1
    rank = nmod_mat(log.d, log.d, log.scaled_A.ravel().tolist(), PRIME).rank()
    assert rank == log.d - 7
    assert tile_dimension(log, 500) == (log.d - 7, "rank modulo 2^61 - 1 = min(d - 7, L)")


def test_moments_and_dimension_are_those_of_the_dense_log(log):
    """A short piece of the log as a dense feature log in Q."""
    short = car_room.TileLog(
        log.features[:40] % 9, log.successors[:40] % 9, log.terminal[:40], log.tiling[:9], Fraction(9, 10), "short"
    )
    X, Y = (m.toarray().tolist() for m in short.rows())
    task = BatchTask(FeatureLog(X, Y, [-1] * 40, X[:1], short.discount), "1/40")
    A_N, b_N = task.moments
    assert RATIONALS.matrix(short.scaled_A.tolist()) == A_N * 10
    assert RATIONALS.matrix([[x] for x in short.moments[2].tolist()]) == b_N
    M, s_0 = short.batch_td(Fraction(1, 40))
    assert M.tolist() == [[int(x.p) / int(x.q) for x in row] for row in task.A.tolist()]
    assert s_0.tolist() == [int(x.p) / int(x.q) for x in task.r.entries()]
    for depth in (1, 2):
        assert tile_dimension(short, depth)[0] == dimension(task, depth) == depth
    w = np.arange(9.0)
    assert set(short.values(w).tolist()) == set((np.array(X) @ w).tolist())


def test_without_gymnasium_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(BadInput, match="expected the package gymnasium to be installed, found none"):
        mountain_car(100)


def test_bad_settings_are_refused(log):
    with pytest.raises(BadInput, match="positive number of transitions"):
        mountain_car(0)
    with pytest.raises(BadInput, match="exploration between 0 and 1"):
        mountain_car(10, 2)
    with pytest.raises(BadInput, match="few digits"):
        log.batch_td(Fraction(1, 3**40))
    with pytest.raises(BadInput, match="few digits"):
        log.batch_td(Fraction(3**40))
    with pytest.raises(BadInput, match="positive number of rows"):
        goal_gridworld(0)
    with pytest.raises(BadInput, match="at least n = 50 transitions"):
        drift_kernel(50, 49)


def test_gridworld_walks_to_neighbours_and_stays_at_walls():
    task = goal_gridworld(3, 4, 4_000, seed=1)
    y, x = np.divmod(np.arange(12), 4)
    near = np.abs(y[:, None] - y) + np.abs(x[:, None] - x) <= 1
    own = np.eye(12, dtype=bool)
    edge = (y % 2 == 0) | (x % 3 == 0)
    assert np.array_equal(task.counts > 0, near & (~own | edge[:, None]))
    assert [str(total / visits) for total, visits in zip(task.reward_sums, task.visits, strict=True)] == ["0"] * 11 + [
        "1"
    ]


def test_drift_kernel_moves_ahead_and_is_dense():
    task = drift_kernel(40, 40_000)
    angle = np.exp(2j * np.pi * np.arange(40) / 40)
    moved = np.angle((task.counts @ angle) / task.visits / angle) / (2 * np.pi)
    assert np.abs(moved - 0.05).max() < 0.02
    assert sparse_counts(task).nnz > 15 * 40
    assert int(np.argmax([float(x) for x in task.r.entries()])) == 20
