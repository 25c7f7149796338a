"""`verify mutate`: every single change of the built objects, and every hypothesis dropped, put before the certificates.

A theorem's mutants are judged together, by their texts: the same change of the same heads may stand before several
claims (in symbols, on instances, on generic tasks). It is

    refuted      if one claim refutes it;
    equivalent   if every claim that has it accepts it: one by a proof for all sizes, by Schwartz-Zippel or of the
                 values changed, and, where the theorem runs whole programs, one that runs this one whole;
    survived     if nothing but instances accept it: the certificates cannot tell it from the construction;
    undecided    if a claim leaves it open.

The changes are those of the objects of proofs (programs in symbols, small generic cases, listed values); instances are
the same construction at other sizes and help to judge. A hypothesis is a rewrite rule of the certificate's records;
without it the re-checker must refuse some record, else it is superfluous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from proofs_check.claim import Assurance, Claim, Verdict
from proofs_check.instances import Instance
from proofs_check.mutants import Mutant
from proofs_check.mutation import mutants_of, sampled
from proofs_check.schwartz_zippel import Case

from .recheck import KINDS, Refused

OUTCOMES = ("refuted", "equivalent", "undecided", "survived")


@dataclass(frozen=True)
class Judged:
    """What became of one change, and which claim said so."""

    theorem: str
    kind: str
    text: str
    outcome: str
    reason: str


@dataclass(frozen=True)
class Try:
    """A changed object before one claim: whether a proof of it settles the change, and whether it is run whole."""

    claim: Claim
    subject: Any
    proves: bool
    whole: bool


def judge_theorem(claims: Sequence[Claim], count: int | None, seed: int) -> Iterator[Judged]:
    """Judge a theorem's mutants, all of them or `count` drawn with the seed."""
    objects: dict[tuple[str, str], list[Try]] = {}
    # Instances first: they are quick to refute.
    for claim in sorted(claims, key=lambda claim: claim.assurance is not Assurance.EXACT):
        subject = claim.build()
        kind = type(subject[0]) if isinstance(subject, list) and subject else type(subject)
        for mutant in mutants_of(claim):
            attempt = Try(claim, mutant.subject, kind is not Instance, kind in (Instance, Case))
            objects.setdefault((mutant.kind, mutant.text), []).append(attempt)
    runs_whole = any(attempt.whole for tries in objects.values() for attempt in tries)
    if any(attempt.proves for tries in objects.values() for attempt in tries):
        objects = {key: tries for key, tries in objects.items() if any(attempt.proves for attempt in tries)}
    drawn = sampled([Mutant(kind, text, None) for kind, text in objects], count, seed)
    for mutant in drawn:
        yield Judged(
            claims[0].theorem, mutant.kind, mutant.text, *_judge(objects[mutant.kind, mutant.text], runs_whole)
        )


def _judge(tries: Sequence[Try], runs_whole: bool) -> tuple[str, str]:
    accepted: list[Try] = []
    missing = []
    for attempt in tries:
        certificate = attempt.claim.certify(attempt.subject)
        if certificate.verdict is Verdict.REFUTED:
            return "refuted", attempt.claim.name
        if certificate.verdict is Verdict.PROVED:
            accepted.append(attempt)
        else:
            missing.append(f"{attempt.claim.name}: {certificate.evidence.get('missing', 'undecided')}")
    if missing:
        return "undecided", "; ".join(missing)
    names = "; ".join(attempt.claim.name for attempt in accepted)
    if not any(attempt.proves for attempt in accepted):
        return "survived", names
    by_values = any(attempt.claim.mutants is not None for attempt in accepted)
    if runs_whole and not by_values and not any(attempt.whole for attempt in accepted):
        return "undecided", f"{names}: no claim runs the changed program whole"
    return "equivalent", names


def judge_hypotheses(claim: Claim) -> Iterator[Judged]:
    """Each hypothesis of the claim's records dropped: refuted if a record then fails, equivalent (superfluous) else."""
    records = claim.certify().records
    dropped: dict[str, str] = {}
    for record in records:
        groups: dict[str, list[Any]] = {}
        for rule in record.get("rules", []):
            groups.setdefault(_spelt(rule[0], record["letters"]), []).append(rule)
        for text, rules in groups.items():
            rest = {**record, "rules": [rule for rule in record["rules"] if rule not in rules]}
            try:
                KINDS[record["kind"]](rest)
                dropped.setdefault(text, "equivalent")
            except Refused:
                dropped[text] = "refuted"
    for text, outcome in dropped.items():
        reason = f"{claim.name}: {'needed' if outcome == 'refuted' else 'superfluous'}"
        yield Judged(claim.theorem, "hypothesis", f"without the hypothesis on {text}", outcome, reason)


def _spelt(word: Any, letters: Any) -> str:
    """The letters of a word, the same for its transpose."""
    back = [(name, transposed if letters[name]["symmetric"] else 1 - transposed) for name, transposed in reversed(word)]
    return min(" ".join(name + "'" * transposed for name, transposed in side) for side in (word, back))


def tally(judged: Sequence[Judged]) -> dict[str, int]:
    """{"total", "refuted", "equivalent", "undecided", "survived"}."""
    counts = Counter(j.outcome for j in judged)
    return {"total": len(judged), **{outcome: counts[outcome] for outcome in OUTCOMES}}
