"""Tasks with expert advice: sampled ones, and the adversaries against whom the bounds are tight (theory B1).

An adversary sees the learner's exact weights and labels each round so that the learner errs; the learner follows the
largest mass, and the smallest label of several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import lcm
from typing import Any

import numpy as np

from constructions.errors import BadInput
from constructions.online_learning.experts import ExpertTask
from constructions.online_learning.hedge import LossTask
from constructions.task import inside_unit_interval

Choose = Callable[[list[Fraction], np.random.Generator], tuple[tuple[int, ...], int]]
"""(weights, generator) -> (predictions, label) of a round."""


def sampled_experts(
    n: int, rounds: int, eps: Any = "1/3", outcomes: int = 2, seed: int = 0, *, weighted: bool = False
) -> ExpertTask:
    """Labels uniform, expert i right with probability drawn from U(.3, .9), else uniform among the other labels.

    With `weighted` the initial weights are small random fractions.
    """
    _positive(n, rounds)
    rng = np.random.default_rng(seed)
    labels = rng.integers(outcomes, size=rounds)
    right = rng.random((rounds, n)) < rng.uniform(0.3, 0.9, size=n)
    shift = rng.integers(1, max(outcomes, 2), size=(rounds, n))
    said = np.where(right, labels[:, None], (labels[:, None] + shift) % outcomes)
    tops, bottoms = rng.integers(1, 10, size=(2, n)).tolist()
    weights = tuple(map(Fraction, tops, bottoms)) if weighted else ()
    name = f"sampled experts, n = {n}, T = {rounds}, K = {outcomes}, seed {seed}"
    predictions = tuple(map(tuple, said.tolist()))
    return ExpertTask(predictions, tuple(labels.tolist()), outcomes, Fraction(eps), weights, name)


def sampled_losses(n: int, rounds: int, root: Any = "4/5", parts: int = 4, seed: int = 0) -> LossTask:
    """Losses uniform among 0, 1/D, .., 1, initial weights small random fractions."""
    _positive(n, rounds)
    rng = np.random.default_rng(seed)
    losses = tuple(tuple(Fraction(x, parts) for x in row) for row in rng.integers(parts + 1, size=(rounds, n)).tolist())
    tops, bottoms = rng.integers(1, 10, size=(2, n)).tolist()
    name = f"sampled losses, n = {n}, T = {rounds}, D = {parts}, seed {seed}"
    return LossTask(losses, Fraction(root), parts, tuple(map(Fraction, tops, bottoms)), name)


def against_random_experts(n: int, rounds: int, eps: Any = "1/3", seed: int = 0) -> ExpertTask:
    """Experts say fair coins; the label is what the learner does not predict."""

    def choose(w: list[Fraction], rng: np.random.Generator) -> tuple[tuple[int, ...], int]:
        said = tuple(rng.integers(2, size=n).tolist())
        return said, 1 - majority(said, w)

    return _adversary("against random experts", n, rounds, eps, seed, choose)


def opposed_pair(rounds: int, eps: Any = "1/3", seed: int = 0) -> ExpertTask:
    """Two experts that always disagree; the label is what the learner does not predict."""
    return _adversary("opposed pair", 2, rounds, eps, seed, lambda w, rng: ((0, 1), 1 - majority((0, 1), w)))


def balanced_split(n: int, rounds: int, eps: Any = "1/2", seed: int = 0) -> ExpertTask:
    """Each round the experts that err have the smallest mass that is at least half: W falls as slowly as it can."""
    splits = list(product((0, 1), repeat=n))

    def choose(w: list[Fraction], rng: np.random.Generator) -> tuple[tuple[int, ...], int]:
        common = lcm(*(x.denominator for x in w))
        scaled = [int(x * common) for x in w]
        masses = {split: sum(x for x, chosen in zip(scaled, split, strict=True) if chosen) for split in splits}
        wrong = min((split for split in splits if 2 * masses[split] >= sum(scaled)), key=masses.__getitem__)
        # Those who err say 0, the label is 1: also where the masses are equal, the learner says 0.
        return tuple(1 - x for x in wrong), 1

    return _adversary("balanced split", n, rounds, eps, seed, choose)


def perfect_expert(n: int, rounds: int, eps: Any = "1/3", seed: int = 0) -> ExpertTask:
    """Expert 0 is always right, the others say what the learner should not: wrong while they have the majority."""

    def choose(w: list[Fraction], rng: np.random.Generator) -> tuple[tuple[int, ...], int]:
        label = int(rng.integers(2))
        return (label, *(1 - label for _ in range(n - 1))), label

    return _adversary("one perfect expert", n, rounds, eps, seed, choose)


def majority(said: Sequence[int], w: Sequence[Fraction], outcomes: int = 2) -> int:
    """The label of largest mass, the smallest of several."""
    masses = [sum((x for p, x in zip(said, w, strict=True) if p == k), Fraction(0)) for k in range(outcomes)]
    return masses.index(max(masses))


def _adversary(kind: str, n: int, rounds: int, eps: Any, seed: int, choose: Choose) -> ExpertTask:
    _positive(n, rounds)
    penalty = inside_unit_interval("eps", eps)
    rng = np.random.default_rng(seed)
    w = [Fraction(1)] * n
    predictions, labels = [], []
    for _ in range(rounds):
        said, label = choose(w, rng)
        w = [x if p == label else x * (1 - penalty) for x, p in zip(w, said, strict=True)]
        predictions.append(said)
        labels.append(label)
    name = f"{kind}, n = {n}, T = {rounds}, eps = {penalty}, seed {seed}"
    return ExpertTask(tuple(predictions), tuple(labels), 2, penalty, (), name)


def _positive(n: int, rounds: int) -> None:
    if n < 1 or rounds < 1:
        raise BadInput(f"expert task: expected at least one expert and one round, found n = {n}, T = {rounds}")
