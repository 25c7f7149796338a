"""Seeded logs seen through features, exact: Boyan chains, random chains, tilings, independent draws.

Probabilities, rewards and features are small rationals, so that work over Q stays cheap. Draws come from Python's
Mersenne twister through integers only, so a seed names one log on every platform. Queries are the features of every
state, in order, unless a generator says otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from constructions.errors import BadInput
from constructions.temporal_difference.full_context import FeatureLog, discount_up_to_one

GRID = 2**16
"""Independent draws are multiples of 1 / GRID: float32 holds them exactly."""

BOYAN_STATES, BOYAN_FEATURES, QUARTERS = 13, 4, 4

Vector = list[Fraction]


def boyan_features(state: int) -> Vector:
    """Features of the classic chain: unit vectors at the states 12, 8, 4, 0, and linear between, in quarters."""
    place = Fraction(BOYAN_STATES - 1 - state, QUARTERS)
    return [max(Fraction(0), 1 - abs(place - i)) for i in range(BOYAN_FEATURES)]


def boyan_chain(transitions: int = 100, discount: Any = 1, seed: int = 0) -> FeatureLog:
    """The classic Boyan chain: 13 states, 4 piecewise-linear features, episodes from state 12 until state 0 absorbs.

    From state s >= 2 to s - 1 or s - 2, each with probability 1/2, reward -3; from state 1 to state 0, reward -2. State
    0 is terminal: a successor 0 has zero features, and no transition starts there. With discount 1 the value of s is
    -2 s, which the features represent. (The values are Boyan's, "Technical update: least-squares temporal difference
    learning", Machine Learning 49, 2002.)

    Raises:
        BadInput: a number of transitions that is no positive int, or a discount outside (0, 1].
    """
    draw = _draw("boyan_chain", transitions, seed)
    steps, state = [], BOYAN_STATES - 1
    for _ in range(transitions):
        after = state - draw.randint(1, 2) if state >= 2 else 0
        steps.append((state, after, Fraction(-3 if state >= 2 else -2)))
        state = after if after else BOYAN_STATES - 1
    features = [boyan_features(s) for s in range(1, BOYAN_STATES)]
    rows = {s: phi for s, phi in enumerate(features, start=1)} | {0: [Fraction(0)] * BOYAN_FEATURES}
    return _log("boyan_chain", f"states={BOYAN_STATES}", steps, rows, features, discount, seed)


def continuing_boyan_chain(
    states: int = 13, d: int = 4, transitions: int = 100, discount: Any = "9/10", seed: int = 0
) -> FeatureLog:
    """A Boyan chain that goes on, in the manner of arXiv 2405.13861: from i to i + 1 or i + 2, from the end anywhere.

    Probabilities of i -> i + 1 are random hundredths in (0, 1), of the last state random weights over all states; the
    last but one always goes to the last. Rewards per state and features are random in [-1, 1], multiples of 1/16. The
    log is one trajectory from a uniform start.

    Raises:
        BadInput: fewer than 2 states, a size that is no positive int, or a discount outside (0, 1].
    """
    generator = "continuing_boyan_chain"
    if isinstance(states, bool) or not isinstance(states, int) or states < 2:
        raise BadInput(f"{generator}: expected at least 2 states, found {states!r}")
    draw = _draw(generator, transitions, seed, d)
    weights = [[0] * states for _ in range(states)]
    for i in range(states - 2):
        forward = draw.randint(1, 99)
        weights[i][i + 1], weights[i][i + 2] = forward, 100 - forward
    weights[states - 2][states - 1] = 1
    weights[states - 1] = [draw.randint(1, 99) for _ in range(states)]
    return _trajectory(generator, draw, weights, d, transitions, discount, seed)


def random_chain(
    states: int = 6, d: int = 3, transitions: int = 100, discount: Any = "9/10", seed: int = 0
) -> FeatureLog:
    """A trajectory of a chain with random transition weights, random features and rewards in [-1, 1], sixteenths.

    Raises:
        BadInput: a size that is no positive int, or a discount outside (0, 1].
    """
    generator = "random_chain"
    if isinstance(states, bool) or not isinstance(states, int) or states < 1:
        raise BadInput(f"{generator}: expected a positive number of states, found {states!r}")
    draw = _draw(generator, transitions, seed, d)
    weights = [[draw.randint(1, 99) for _ in range(states)] for _ in range(states)]
    return _trajectory(generator, draw, weights, d, transitions, discount, seed)


def independent_samples(d: int = 3, transitions: int = 100, discount: Any = "9/10", seed: int = 0) -> FeatureLog:
    """phi_t, phi'_t, R_t and one query, all entries independent standard normals on the grid of 1 / 2^16.

    No chain is behind them: this is the distribution of the source's own check of its constructions.

    Raises:
        BadInput: a size that is no positive int, or a discount outside (0, 1].
    """
    generator = "independent_samples"
    _draw(generator, transitions, seed, d)
    draw = np.random.Generator(np.random.PCG64(seed))
    before, after = _normal(draw, transitions, d), _normal(draw, transitions, d)
    rewards, queries = _normal(draw, 1, transitions)[0], _normal(draw, 1, d)
    g = discount_up_to_one(generator, discount)
    return FeatureLog(before, after, rewards, queries, g, f"{generator}(d={d}, N={transitions}, g={g}, seed={seed})")


def tiled_walk(
    cells: int = 6, tilings: int = 2, width: int = 3, transitions: int = 20, discount: Any = "9/10", seed: int = 0
) -> FeatureLog:
    """A walk on a line seen through shifted tilings: one feature a tile, 1 in it and 0 outside.

    A step is a uniform draw of -1, 0 or 1; beyond the ends it stays. Tiling i has tiles of `width` cells, shifted by i.
    Rewards per cell are random in [-1, 1], sixteenths. The features of each tiling sum to one, so those of two tilings
    are dependent and A_N is singular.

    Raises:
        BadInput: a size that is no positive int, or a discount outside (0, 1].
    """
    generator = "tiled_walk"
    for what, value in (("cells", cells), ("tilings", tilings), ("cells a tile", width)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInput(f"{generator}: expected a positive number of {what}, found {value!r}")
    draw = _draw(generator, transitions, seed)
    counts = [(cells - 1 + i) // width + 1 for i in range(tilings)]
    rows = {
        cell: [Fraction(int(tile == (cell + i) // width)) for i, count in enumerate(counts) for tile in range(count)]
        for cell in range(cells)
    }
    rewards = [Fraction(draw.randint(-16, 16), 16) for _ in range(cells)]
    steps, cell = [], draw.randrange(cells)
    for _ in range(transitions):
        after = min(max(cell + draw.randint(-1, 1), 0), cells - 1)
        steps.append((cell, after, rewards[cell]))
        cell = after
    sizes = f"cells={cells}, tilings={tilings}, width={width}"
    return _log(generator, sizes, steps, rows, list(rows.values()), discount, seed)


def with_unit_queries(log: FeatureLog, alone: bool = False) -> FeatureLog:
    """The log with the d unit vectors before its queries, or as its only ones: their predictions are the weights."""
    d = log.dimension
    units = [[int(i == j) for j in range(d)] for i in range(d)]
    queries = units if alone else [*units, *log.queries]
    return replace(log, queries=queries, name=f"{log.name} with unit queries{' only' if alone else ''}")


def with_zero_rewards(log: FeatureLog) -> FeatureLog:
    """The log with every reward zero: all weights stay zero."""
    return replace(log, rewards=[0] * len(log.rewards), name=f"{log.name} with zero rewards")


def with_dependent_feature(log: FeatureLog) -> FeatureLog:
    """The log with one feature more, the sum of the others: phi_t, phi'_t and queries span no more dimensions."""

    def extended(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
        return [[*row, sum(row, Fraction(0))] for row in rows]

    return replace(
        log,
        features=extended(log.features),
        successors=extended(log.successors),
        queries=extended(log.queries),
        name=f"{log.name} with a dependent feature",
    )


def normal_matrices(count: int, d: int, seed: int = 0) -> list[list[Vector]]:
    """`count` matrices of shape (d, d) of independent standard normals on the grid of 1 / 2^16."""
    _draw("normal_matrices", count, seed, d)
    # A stream of its own, so that the matrices are independent of the samples with the same seed.
    draw = np.random.Generator(np.random.PCG64([seed, 1]))
    return [_normal(draw, d, d) for _ in range(count)]


def small_matrices(count: int, d: int, seed: int = 0) -> list[list[Vector]]:
    """`count` matrices of shape (d, d) with random entries in [-1, 1], eighths."""
    draw = _draw("small_matrices", count, seed, d)
    return [[[Fraction(draw.randint(-8, 8), 8) for _ in range(d)] for _ in range(d)] for _ in range(count)]


def _normal(draw: np.random.Generator, rows: int, columns: int) -> list[Vector]:
    drawn = np.rint(draw.standard_normal((rows, columns)) * GRID).astype(np.int64)
    return [[Fraction(x, GRID) for x in row] for row in drawn.tolist()]


def _trajectory(
    generator: str,
    draw: random.Random,
    weights: Sequence[Sequence[int]],
    d: int,
    transitions: int,
    discount: Any,
    seed: int,
) -> FeatureLog:
    states = len(weights)

    def coarse() -> Fraction:
        return Fraction(draw.randint(-16, 16), 16)

    rewards = [coarse() for _ in range(states)]
    features = [[coarse() for _ in range(d)] for _ in range(states)]
    steps, state = [], draw.randrange(states)
    for _ in range(transitions):
        after = _choose(draw.randrange, weights[state])
        steps.append((state, after, rewards[state]))
        state = after
    return _log(generator, f"states={states}", steps, dict(enumerate(features)), features, discount, seed)


def _choose(below: Callable[[int], int], weights: Sequence[int]) -> int:
    """An index with probability proportional to its integer weight."""
    left = below(sum(weights))
    for index, weight in enumerate(weights):
        if left < weight:
            return index
        left -= weight
    raise AssertionError("a draw below the sum of the weights lies below one of their partial sums")


def _log(
    generator: str,
    sizes: str,
    steps: Sequence[tuple[int, int, Fraction]],
    features: dict[int, Vector],
    queries: Sequence[Vector],
    discount: Any,
    seed: int,
) -> FeatureLog:
    d = len(queries[0])
    before, after = [features[state] for state, _, _ in steps], [features[state] for _, state, _ in steps]
    g = discount_up_to_one(generator, discount)
    name = f"{generator}({sizes}, d={d}, N={len(steps)}, g={g}, seed={seed})"
    return FeatureLog(before, after, [reward for _, _, reward in steps], queries, g, name)


def _draw(generator: str, transitions: Any, seed: Any, d: Any = 1) -> random.Random:
    for what, value in (("transitions N", transitions), ("features d", d)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInput(f"{generator}: expected a positive number of {what}, found {value!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise BadInput(f"{generator}: expected a non-negative int as seed, found {seed!r}")
    return random.Random(seed)
