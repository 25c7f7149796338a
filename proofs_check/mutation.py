"""Judging mutants: refuted, proved equivalent, or undecided."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .claim import Finding, Verdict
from .mutants import Mutant


@dataclass(frozen=True)
class Judgement:
    """What became of a mutant: `outcome` is refuted, equivalent or undecided; `reason` says how it is known."""

    mutant: Mutant
    outcome: str
    reason: str


Certificate = Callable[[Any], Finding]


def judge(mutant: Mutant, certificates: Sequence[tuple[str, Certificate]]) -> Judgement:
    """Try certificates in turn, cheap ones first; the last one must be strong enough that `proved` means equivalent."""
    for i, (name, certificate) in enumerate(certificates):
        finding = certificate(mutant.subject)
        if finding.verdict is Verdict.REFUTED:
            return Judgement(mutant, "refuted", name)
        if i == len(certificates) - 1:
            outcome = "equivalent" if finding.verdict is Verdict.PROVED else "undecided"
            return Judgement(mutant, outcome, name if outcome == "equivalent" else str(finding.evidence.get("missing")))
    raise ValueError("a mutant is judged by at least one certificate")


def sampled(mutants: Iterable[Mutant], count: int | None, seed: int) -> list[Mutant]:
    """All mutants, or `count` of them drawn with a seed (every kind of change is represented first)."""
    everything = list(mutants)
    if count is None or count >= len(everything):
        return everything
    rng = random.Random(seed)
    rng.shuffle(everything)
    first = {mutant.kind: mutant for mutant in reversed(everything)}
    rest = [mutant for mutant in everything if mutant is not first[mutant.kind]]
    return [*first.values(), *rest][:count]
