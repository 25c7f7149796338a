"""Claims and certificates: what is said, how strongly, and what was found.

A verdict has three values. `proved` and `refuted` are decided in Q, in a polynomial ring or in the free matrix algebra;
anything else is `undecided`, with what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from constructions.errors import BadInput, Unsupported

from .mutants import Mutant


class Verdict(StrEnum):
    """Three values, never a bare bool."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


class Assurance(StrEnum):
    """How far a proved claim reaches, strongest first."""

    INDUCTIVE = "inductive"
    EXACT = "exact"
    PROBABILISTIC = "probabilistic"
    ENCLOSED = "enclosed"
    BOUNDED = "bounded"
    OBSERVED = "observed"


@dataclass(frozen=True)
class Finding:
    """A verdict and what supports it, JSON-ready.

    Attributes:
        verdict: proved, refuted or undecided.
        evidence: what a reader is told.
        records: what another program can check again (`proofs_check.records`); empty where there is no such form yet.
    """

    verdict: Verdict
    evidence: dict[str, Any]
    records: tuple[dict[str, Any], ...] = ()

    @staticmethod
    def all_of(findings: dict[str, Finding]) -> Finding:
        """Refuted if any is refuted, else undecided if any is, else proved; the first failing part is named."""
        evidence = {name: finding.evidence for name, finding in findings.items()}
        for verdict in (Verdict.REFUTED, Verdict.UNDECIDED):
            failing = [name for name, finding in findings.items() if finding.verdict is verdict]
            if failing:
                return Finding(verdict, {"failing": failing[0], **evidence[failing[0]], "parts": len(findings)})
        records = [
            {**record, "part": f"{name}: {record['part']}" if record.get("part") else name}
            for name, finding in findings.items()
            for record in finding.records
        ]
        return Finding(Verdict.PROVED, evidence, tuple(records))


@dataclass(frozen=True)
class Claim:
    """A statement about a built object, and the method that decides it.

    Attributes:
        theorem: id of the theorem.
        name: short name, unique within the theorem.
        statement: one sentence.
        scope: sizes and inputs that a proof covers.
        assurance: how strong a proof is.
        assumptions: hypotheses, declared primitives, cited lemmas.
        build: makes the object that the claim speaks of.
        prove: decides the claim for that object, or for a mutant of it.
        quick: whether it belongs to the quick profile.
        mutants: the single changes of the object that the claim must refute; None for those of its kind, which
            `proofs_check.mutation.mutants_of` knows.
    """

    theorem: str
    name: str
    statement: str
    scope: str
    assurance: Assurance
    assumptions: tuple[str, ...]
    build: Callable[[], Any] = field(repr=False)
    prove: Callable[[Any], Finding] = field(repr=False)
    quick: bool = True
    mutants: Callable[[Any], Iterable[Mutant]] | None = field(default=None, repr=False)

    def certify(self, subject: Any = None) -> Certificate:
        """Decide the claim for the object as built, or for the one given (a mutant, say).

        An object that does not fit together cannot run, which refutes the claim; an arithmetic that cannot decide a
        step leaves it undecided.
        """
        start = time.perf_counter()
        subject = self.build() if subject is None else subject
        try:
            finding = self.prove(subject)
        except BadInput as error:
            finding = Finding(Verdict.REFUTED, {"failure": f"the construction cannot be run: {error}"})
        except Unsupported as error:
            finding = Finding(Verdict.UNDECIDED, {"missing": str(error)})
        return Certificate(self, finding.verdict, finding.evidence, time.perf_counter() - start, finding.records)


@dataclass(frozen=True)
class Certificate:
    """A claim with its verdict, the evidence, what it cost, and the records to check it again by."""

    claim: Claim
    verdict: Verdict
    evidence: dict[str, Any]
    seconds: float
    records: tuple[dict[str, Any], ...] = ()

    def to_json(self, *, timed: bool = True) -> dict[str, Any]:
        """The document of one certificate; without `seconds` the same seed gives the same bytes."""
        document: dict[str, Any] = {
            "theorem": self.claim.theorem,
            "claim": self.claim.name,
            "statement": self.claim.statement,
            "scope": self.claim.scope,
            "assurance": str(self.claim.assurance),
            "assumptions": list(self.claim.assumptions),
            "verdict": str(self.verdict),
            "evidence": self.evidence,
        }
        if timed:
            document["seconds"] = round(self.seconds, 4)
        return document


def rational(x: Any) -> str:
    """A rational number as text, shortened where its digits would fill a page."""
    text = str(x)
    return text if len(text) <= 60 else f"{text[:24]}..{text[-24:]} ({len(text)} characters)"


def table(matrix: Any) -> list[list[str]]:
    """A small exact matrix as text, for counterexamples."""
    return [[rational(x) for x in row] for row in matrix.tolist()]
