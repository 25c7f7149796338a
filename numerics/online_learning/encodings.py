"""Weighted majority over long runs with its state in p bits: how the state is encoded matters more than the format.

Decisions are taken from the state in float64, so that the state alone counts. Encodings of n experts' -log w: as they
are (raw); less their least after every round (renormalised); mistakes as integers, with log(1 - eps) in the query's
weights (counts); the same less their least (relative counts); log weights with what each addition lost in a second
number (compensated); and rounded up or down at random, right on average (stochastic).

A common term of all log weights changes no decision. The error of a state is therefore that of the difference of two
log weights, the largest over pairs and rounds. The process of theory B4 is not recorded there; this one gives its
figures: four experts err independently with probabilities from 1/10 to 1/2, evenly spaced, on one of two labels, each
the right one half of the time. Once all four have stalled, all weights are equal and decisions those of the plain
majority, which differs from the best expert in 20.1% of rounds.

Embeddings that are not orthogonal are no matter of the format: the read-out u_j' sum_i u_i L_i adds the Gram matrix's
other entries, times log weights that grow, to L_j. Its process: one expert of n errs with probability 1/10, the others
guess, and the u_i are random unit vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .stalls import array_rounder, increment, iterated

EXPERTS = 4
MISTAKES = tuple(Fraction(1, 10) + Fraction(4 * i, 30) for i in range(EXPERTS))
"""Probabilities of a mistake: 1/10, 7/30, 11/30, 1/2."""
ENCODINGS = ("raw", "renormalised", "counts", "relative counts", "compensated", "stochastic")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Runs:
    """Independent runs side by side, one for each seed.

    Attributes:
        wrong: who errs, shape (T, seeds, n).
        said: the label that each expert says, of the same shape.
        labels: shape (T, seeds).
    """

    wrong: NDArray[np.bool_]
    said: NDArray[np.int64]
    labels: NDArray[np.int64]

    @property
    def mistakes(self) -> NDArray[np.int64]:
        """Of each expert before each round, shape (T, seeds, n)."""
        return np.concatenate([np.zeros_like(self.wrong[:1], dtype=np.int64), np.cumsum(self.wrong, axis=0)[:-1]])


@lru_cache(maxsize=4)
def drawn(rounds: int, seeds: Sequence[int], chances: tuple[Fraction, ...] = MISTAKES) -> Runs:
    """Runs of experts who err with the probabilities given; the runs of a seed do not depend on the other seeds."""
    wrong, labels = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        labels.append(rng.integers(2, size=rounds))
        wrong.append(rng.random((rounds, len(chances))) < np.array(chances, dtype=np.float64))
    right, off = np.stack(labels, 1), np.stack(wrong, 1)
    return Runs(off, np.where(off, 1 - right[..., None], right[..., None]), right)


def states(encoding: str, runs: Runs, h: float, precision: int, seed: int = 0) -> Floats:
    """-log w before every round as the encoding has it, up to a common term; shape (T, seeds, n).

    Args:
        encoding: one of `ENCODINGS`.
        runs: who errs.
        h: what a mistake costs.
        precision: p of the state.
        seed: of stochastic rounding.
    """
    if encoding in ("raw", "counts"):
        before = runs.mistakes
        table = iterated(h if encoding == "raw" else 1.0, precision, int(before.max(initial=0)))
        return table[before] * (1.0 if encoding == "raw" else h)
    return _looped(encoding, runs.wrong, h, precision, seed)


def _looped(encoding: str, wrong: NDArray[np.bool_], h: float, precision: int, seed: int) -> Floats:
    near, rng = array_rounder(precision), np.random.default_rng(seed)
    out = np.empty(wrong.shape)
    x, lost = np.zeros((2, *wrong.shape[1:]))
    step = 1.0 if encoding == "relative counts" else h
    for t, erred in enumerate(wrong):
        out[t] = x + lost
        if encoding == "compensated":
            part = near(lost + step)
            total = near(x + part)
            lost = np.where(erred, near(part - near(total - x)), lost)
            x = np.where(erred, total, x)
        elif encoding == "stochastic":
            x = np.where(erred, _either(x + step, precision, rng.random(x.shape)), x)
        else:
            x = near(x + step * erred)
            x = near(x - x.min(axis=-1, keepdims=True))
    return out * h if encoding == "relative counts" else out


def _either(x: Floats, precision: int, draw: Floats) -> Floats:
    """x rounded up with the probability that makes the mean x, else down."""
    digits, exponent = np.frexp(x)
    scaled = np.ldexp(digits, precision)
    low = np.floor(scaled)
    return np.ldexp(low + (draw < scaled - low), exponent - precision)


def decisions(logs: Floats, said: NDArray[np.int64]) -> NDArray[np.int64]:
    """The label of larger mass in each round, 0 of equal ones; `logs` are -log w, experts along the last axis."""
    weights = np.exp(logs.min(axis=-1, keepdims=True) - logs)
    return (2 * (weights * said).sum(axis=-1) > weights.sum(axis=-1) * (1 + 1e-13)).astype(int)


def spread(error: Floats) -> Floats:
    """The largest error of a difference of two experts, whatever term is common to all; experts along the last axis."""
    return error.max(axis=-1) - error.min(axis=-1)


@dataclass(frozen=True)
class Outcome:
    """Of each seed the largest error of a difference of log weights, and the share of decisions that differ."""

    error: Floats
    wrong: Floats


def outcome(encoding: str, precision: int, eps: Fraction, rounds: int, seeds: Sequence[int]) -> Outcome:
    """An encoding in p bits against float64, whose own state is that of exact counts times log(1 - eps)."""
    runs = drawn(rounds, tuple(seeds))
    h = -math.log1p(-float(eps))
    found = states(encoding, runs, h if "counts" in encoding else increment(eps, precision), precision, seeds[0])
    exact = runs.mistakes.astype(np.float64) * h
    off = decisions(found, runs.said) != decisions(exact, runs.said)
    return Outcome(spread(found - exact).max(axis=0), off.mean(axis=0))


def crosstalk(n: int, d: int, rounds: int, seed: int, eps: Fraction) -> tuple[Floats, float, float]:
    """Embeddings in R^d that are not orthogonal, in float64.

    Returns:
        The largest error of a read-out log weight before each round, the share of mistakes that weighted majority
        makes, and the share that it makes with these embeddings.
    """
    runs = drawn(rounds, (seed,), (Fraction(1, 10), *[Fraction(1, 2)] * (n - 1)))
    U = np.random.default_rng((seed, d)).standard_normal((n, d))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    exact = runs.mistakes.astype(np.float64) * -math.log1p(-float(eps))
    found: Floats = exact @ (U @ U.T)
    shares = [float((decisions(logs, runs.said) != runs.labels).mean()) for logs in (exact, found)]
    return np.abs(found - exact).max(axis=(1, 2)), shares[0], shares[1]
