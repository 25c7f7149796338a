"""Mistakes of a run beside the three bounds of weighted majority (theory B1; proved in `proofs_check`)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb, fmpq

from ..construction import Construction
from ..errors import Unsupported
from ..exact import Balls
from ..logarithms import Logarithms
from .experts import ExpertTask
from .weighted_majority import decisions


@dataclass(frozen=True)
class Record:
    """What an exact run of a program says about the bounds.

    Attributes:
        mistakes: M, of the program.
        best: m*, of the best expert.
        expected: expected mistakes of the learner that follows an expert drawn by weight.
        potential_holds: whether W' <= (1 - eps/2) W after every mistake.
        decisions: the labels that the program decides for.
    """

    mistakes: int
    best: int
    expected: Fraction
    potential_holds: bool
    decisions: tuple[int, ...]


def record(built: Construction, task: ExpertTask) -> Record:
    """Run the program in exact numbers; it decides for the label of largest output, the smallest of several.

    Raises:
        Unsupported: a mutant whose outputs are neither formal logarithms nor told apart by balls.
    """
    w = list(task.weights)
    mistakes, holds, expected = 0, True, Fraction(0)
    decided = tuple(_decided(built, task))
    for t, decision in enumerate(decided):
        before, wrong = sum(w, Fraction(0)), task.wrong(t)
        expected += sum((x for x, erred in zip(w, wrong, strict=True) if erred), Fraction(0)) / before
        w = [x * (1 - task.eps) if erred else x for x, erred in zip(w, wrong, strict=True)]
        if decision != task.labels[t]:
            mistakes += 1
            holds = holds and sum(w) <= (1 - task.eps / 2) * before
    best = min(sum(task.wrong(t)[i] for t in range(task.rounds)) for i in range(task.n))
    return Record(mistakes, best, expected, holds, decided)


def _decided(built: Construction, task: ExpertTask) -> list[int]:
    exact = Logarithms()
    try:
        return decisions(built, built.outputs(task, exact), exact)
    except Unsupported:
        with Balls(256).working() as balls:
            return decisions(built, built.outputs(task, balls), balls)


def bounds(task: ExpertTask, best: int) -> dict[str, arb]:
    """The bounds from equal initial weights, enclosed; the textbook one only for eps <= 1/2."""
    x, n = arb(fmpq(task.eps.numerator, task.eps.denominator)), arb(task.n)
    found = {
        "potential": (n.log() - best * (1 - x).log()) / -(1 - x / 2).log(),
        "randomised": (n.log() - best * (1 - x).log()) / x,
    }
    if task.eps <= Fraction(1, 2):
        found["textbook"] = 2 * (1 + x) * best + 2 * n.log() / x
    return found
