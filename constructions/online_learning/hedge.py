"""online.hedge: the weights of weighted majority, penalised by losses instead of mistakes (theory B3).

w_i <- w_i b^{l_i} for losses 0 <= l_i <= 1, and the learner's distribution is w / W. It is weighted majority with
K = n: expert i always says i (so O is the distribution), the label token tells the losses, and the penalty matrix is
e I, since <e_i, l> = l_i. With b = r^D and losses that are multiples of 1/D every weight is rational.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ..errors import BadInput
from ..task import TaskClass, inside_unit_interval
from .expert_weights import Weights
from .experts import SHOWN_ROUNDS, one_hot_basis, orthonormal
from .rounds import OnlineConstruction
from .weighted_majority import ASSUMPTIONS, Advice, online

THEOREM = "online.hedge"
SOURCE = "Hedge in one latent context; this project"
VARIANTS = ("one_block", "two_layer", "replica")
LOSSES = TaskClass("losses", "losses in [0, 1], multiples of 1/D, factor r^D with 0 < r < 1", lambda task: None)


@dataclass(frozen=True)
class LossTask:
    """Losses of n experts over T rounds.

    Attributes:
        losses: in [0, 1], shape (T, n).
        root: r; a loss of 1 multiplies a weight by r^D.
        parts: D.
        weights: initial weights, positive; ones where empty.
        name: where the task comes from.

    Raises:
        BadInput: no round or expert, rounds of different lengths, a loss outside [0, 1] or not a multiple of 1/D, a
            root outside (0, 1), or a weight that is not positive.
    """

    losses: tuple[tuple[Fraction, ...], ...]
    root: Fraction
    parts: int
    weights: tuple[Fraction, ...] = ()
    name: str = "loss task"

    def __post_init__(self) -> None:
        if not self.losses or not self.losses[0] or self.parts < 1:
            raise BadInput(f"{self.name}: expected at least one round, one expert and D >= 1, found {self.losses}")
        for t, row in enumerate(self.losses):
            for i, x in enumerate(row):
                if not 0 <= x <= 1 or (Fraction(x) * self.parts).denominator != 1 or len(row) != self.n:
                    raise BadInput(
                        f"{self.name}, round {t}, expert {i}: expected {self.n} losses in [0, 1], multiples of"
                        f" 1/{self.parts}, found {x} among {len(row)}"
                    )
        weights = tuple(map(Fraction, self.weights)) or (Fraction(1),) * self.n
        if len(weights) != self.n or min(weights) <= 0:
            raise BadInput(f"{self.name}: expected {self.n} positive initial weights, found {len(weights)}")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "root", inside_unit_interval("root", self.root))

    @property
    def n(self) -> int:
        """Number of experts."""
        return len(self.losses[0])

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.losses)

    @property
    def size(self) -> tuple[int, ...]:
        """(n, T)."""
        return self.n, self.rounds

    def only(self, t: int) -> LossTask:
        """Round t alone, from the initial weights."""
        return replace(self, losses=self.losses[t : t + 1])

    def describe(self) -> dict[str, Any]:
        """The task as a short document, in full where it has few rounds."""
        document: dict[str, Any] = {"name": self.name, "n": self.n, "T": self.rounds, "r": str(self.root)}
        if self.rounds <= SHOWN_ROUNDS:
            document["losses"] = [list(map(str, row)) for row in self.losses]
        return {**document, "D": self.parts, "weights": list(map(str, self.weights))}


def construction(
    variant: str,
    n: int,
    root: Fraction,
    parts: int,
    *,
    leak: Fraction = Fraction(1, 16),
    basis: Sequence[Sequence[Any]] | None = None,
) -> OnlineConstruction:
    """One of one_block, two_layer, replica with penalty e I, e = D log r; its answer has a column a round.

    Raises:
        BadInput: another variant, a root outside (0, 1), D < 1, or a basis that is not orthonormal or not of n vectors.
    """
    vectors = one_hot_basis(n) if basis is None else orthonormal(basis)
    if variant not in VARIANTS or len(vectors) != n or parts < 1:
        expected = f"{', '.join(VARIANTS[:2])} or {VARIANTS[2]}, D >= 1 and a basis of {n} vectors"
        raise BadInput(f"{THEOREM}: expected {expected}, found {variant}, D = {parts} and {len(vectors)} vectors")
    r = inside_unit_interval("root", root)
    weights = Weights(n, len(vectors[0]), n, r**parts, leak, vectors, losses=True)
    advice = Advice(
        lambda task, t: [[int(i == k) for i in range(n)] for k in range(n)],
        lambda task, t: list(task.losses[t]),
        lambda task, t: [r ** int(x * parts) for x in task.losses[t]],
    )

    def check(task: LossTask) -> None:
        if (task.n, task.root, task.parts) != (n, r, parts):
            found = f"n = {task.n}, r = {task.root}, D = {task.parts}"
            raise BadInput(f"{THEOREM}: expected a task with n = {n}, r = {r}, D = {parts}, found {found}")

    described = {"theorem": THEOREM, "task_class": LOSSES, "assumptions": ASSUMPTIONS, "source": SOURCE}
    return online(variant, weights, advice, check, **described)
