"""Prediction with expert advice: tasks, and orthonormal bases for the experts' names (theory B1).

A round: n experts predict one of K labels each, the learner predicts, the label is revealed. A learner with weights w_i
> 0 predicts a label of largest W_k = sum of w_i over the experts that say k, and multiplies the weight of every expert
that was wrong by 1 - eps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from flint import fmpq, fmpq_mat

from ..errors import BadInput
from ..task import TaskClass, inside_unit_interval

SHOWN_ROUNDS = 40
"""A counterexample shows tasks up to this length."""


@dataclass(frozen=True)
class ExpertTask:
    """Predictions of n experts and labels over T rounds, all exact.

    Attributes:
        predictions: label in 0..K-1 of each expert in each round, shape (T, n).
        labels: what happened, length T.
        outcomes: K, number of labels.
        eps: penalty of a mistake, strictly between 0 and 1; a string such as ``"1/3"`` is read as written.
        weights: initial weights, positive; ones where empty.
        name: where the task comes from, with its seed.

    Raises:
        BadInput: no round, no expert, rounds of different lengths, a prediction or label outside the labels, eps
            outside (0, 1), or a weight that is not positive.
    """

    predictions: tuple[tuple[int, ...], ...]
    labels: tuple[int, ...]
    outcomes: int
    eps: Fraction
    weights: tuple[Fraction, ...] = ()
    name: str = "expert task"

    def __post_init__(self) -> None:
        if not self.predictions or not self.predictions[0]:
            raise BadInput(f"{self.name}: expected at least one round and one expert, found {self.predictions}")
        n = len(self.predictions[0])
        if len(self.labels) != len(self.predictions):
            raise BadInput(f"{self.name}: expected {len(self.predictions)} labels, found {len(self.labels)}")
        for t, (said, label) in enumerate(zip(self.predictions, self.labels, strict=True)):
            if len(said) != n:
                raise BadInput(f"{self.name}, round {t}: expected {n} predictions, found {len(said)}")
            for who, x in [*((f"expert {i}", x) for i, x in enumerate(said)), ("the label", label)]:
                if not isinstance(x, int) or not 0 <= x < self.outcomes:
                    raise BadInput(
                        f"{self.name}, round {t}, {who}: expected a label from 0 to {self.outcomes - 1}, found {x!r}"
                    )
        weights = tuple(map(Fraction, self.weights)) or (Fraction(1),) * n
        if len(weights) != n or min(weights) <= 0:
            found = ", ".join(map(str, weights))
            raise BadInput(f"{self.name}: expected {n} positive initial weights, found {found}")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "eps", inside_unit_interval("eps", self.eps))

    @property
    def n(self) -> int:
        """Number of experts."""
        return len(self.predictions[0])

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.labels)

    @property
    def size(self) -> tuple[int, ...]:
        """(n, T)."""
        return self.n, self.rounds

    def only(self, t: int) -> ExpertTask:
        """Round t alone, from the initial weights."""
        return replace(self, predictions=self.predictions[t : t + 1], labels=self.labels[t : t + 1])

    def wrong(self, t: int) -> list[bool]:
        """Which experts err in round t."""
        return [x != self.labels[t] for x in self.predictions[t]]

    def describe(self) -> dict[str, Any]:
        """The task as a short document, in full where it has at most `SHOWN_ROUNDS` rounds."""
        document: dict[str, Any] = {"name": self.name, "n": self.n, "T": self.rounds, "K": self.outcomes}
        document |= {"eps": str(self.eps), "weights": list(map(str, self.weights))}
        if self.rounds <= SHOWN_ROUNDS:
            document |= {"predictions": [list(x) for x in self.predictions], "labels": list(self.labels)}
        return document


EXPERTS = TaskClass("expert advice", "n experts, K labels, 0 < eps < 1, positive initial weights", lambda task: None)

Basis = tuple[tuple[Fraction, ...], ...]
"""The vectors u_1, .., u_n, each of d rational coordinates."""


def orthonormal(vectors: Sequence[Sequence[Any]]) -> Basis:
    """The vectors as exact fractions.

    Raises:
        BadInput: none, unequal lengths, or <u_i, u_j> is not 1 for i = j and 0 else.
    """
    basis = tuple(tuple(map(Fraction, vector)) for vector in vectors)
    if not basis or not basis[0] or any(len(u) != len(basis[0]) for u in basis):
        raise BadInput(f"basis: expected at least one vector, all of one length, found lengths {list(map(len, basis))}")
    for i, u in enumerate(basis):
        for j, v in enumerate(basis[: i + 1]):
            product = sum((x * y for x, y in zip(u, v, strict=True)), Fraction(0))
            if product != (i == j):
                raise BadInput(f"basis: expected <u_{j}, u_{i}> = {int(i == j)}, found {product}")
    return basis


def one_hot_basis(n: int) -> Basis:
    """The unit vectors of Q^n.

    Raises:
        BadInput: n is not a positive int.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise BadInput(f"basis: expected a positive number of experts, found {n!r}")
    return tuple(tuple(Fraction(int(i == j)) for j in range(n)) for i in range(n))


def householder_basis(direction: Sequence[Any], n: int | None = None) -> Basis:
    """The first n columns of I - 2 v v' / v'v, rational and orthonormal for every rational v other than zero.

    Raises:
        BadInput: v is zero, or shorter than n.
    """
    v = [Fraction(x) for x in direction]
    norm = sum((x * x for x in v), Fraction(0))
    count = len(v) if n is None else n
    if not norm or not 0 < count <= len(v):
        raise BadInput(
            f"basis: expected a direction other than zero of length at least {count}, found {list(direction)}"
        )
    return tuple(tuple(int(i == j) - 2 * v[i] * v[j] / norm for j in range(len(v))) for i in range(count))


def cayley_basis(upper: Sequence[Sequence[int]]) -> Basis:
    """(I - A)(I + A)^{-1} for the skew A with these rows above its diagonal: rational, orthonormal, without symmetry.

    ``upper[i]`` lists A_ij for j > i, so that ``[[1, 2], [3]]`` is a basis of Q^3.
    """
    d = len(upper) + 1
    A = fmpq_mat(d, d)
    for i, row in enumerate(upper):
        for j, x in zip(range(i + 1, d), row, strict=True):
            A[i, j], A[j, i] = fmpq(x), -fmpq(x)
    unit = fmpq_mat(d, d, [int(i == j) for i in range(d) for j in range(d)])
    rotated = (unit - A) * (unit + A).inv()
    return tuple(tuple(Fraction(int(x.p), int(x.q)) for x in row) for row in rotated.tolist())
