"""The mutants of a claim's object, and judging them: refuted, proved equivalent, or undecided."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from constructions.program import Program

from .claim import Claim, Finding, Verdict
from .instances import Instance
from .mutants import Mutant, program_mutants
from .schwartz_zippel import Case

LARGEST_CASE = 4
"""Cases with more states than this are left out of mutants: what a change does, it does on small ones."""


Wanted = Callable[[str, str], bool]
"""Which changes are made, by their kind and text."""


def everything(kind: str, text: str) -> bool:
    """Every change."""
    return True


def mutants_of(claim: Claim, wanted: Wanted = everything) -> Iterator[Mutant]:
    """Every single change of the object that a claim speaks of, or those wanted; none where it speaks of no object.

    A program has its own changes; instances and cases have those of their programs, each change made wherever a program
    has it and the unchanged ones left out; anything else is the claim's to say.
    """
    subject = claim.build()
    if claim.mutants is not None:
        yield from (mutant for mutant in claim.mutants(subject) if wanted(mutant.kind, mutant.text))
    elif isinstance(subject, Program):
        yield from program_mutants(subject, wanted)
    elif subject and isinstance(subject[0], Instance):
        yield from instance_mutants(subject, wanted)
    elif subject and isinstance(subject[0], Case):
        yield from _together(
            (mutant, replace(case, program=mutant.subject))
            for case in subject
            if case.identity.sizes.get("n", 0) <= LARGEST_CASE
            for mutant in program_mutants(case.program, wanted)
        )


def instance_mutants(instances: Sequence[Instance], wanted: Wanted = everything) -> Iterator[Mutant]:
    """Every single change of the programs of some instances, or those wanted by their kind and text."""
    return _together(
        (mutant, replace(one, construction=replace(one.construction, program=mutant.subject)))
        for one in instances
        for mutant in program_mutants(one.construction.program, wanted)
    )


def _together(changes: Iterable[tuple[Mutant, Any]]) -> Iterator[Mutant]:
    """One mutant for each text, of all the subjects that have it."""
    grouped: dict[tuple[str, str], list[Any]] = {}
    for mutant, subject in changes:
        grouped.setdefault((mutant.kind, mutant.text), []).append(subject)
    for (kind, text), subjects in grouped.items():
        yield Mutant(kind, text, subjects)


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
