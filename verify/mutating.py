"""`verify mutate`: every single change of the built objects and of the references, and every hypothesis dropped.

A theorem's mutants are judged together, by their texts: the same change of the same heads may stand before several
claims (in symbols, on instances, on generic tasks). It is

    refuted      if one claim refutes it;
    equivalent   if every claim that has it accepts it: one by a proof for all sizes, by Schwartz-Zippel or of the
                 values changed, and, where the theorem runs whole programs, one that runs this one whole. A claim about
                 single steps may leave it open (another way through them) if Schwartz-Zippel accepts the whole program;
    survived     if nothing but instances accept it: the certificates cannot tell it from the construction;
    undecided    if a claim leaves it open.

The changes are those of the objects of proofs (programs in symbols, small generic cases, listed values); instances are
the same construction at other sizes and help to judge. Claims outside the quick profile are left out: they say the same
of the same constructions, in more layers.

What a claim compares with is changed too: one entry of each block of an instance's reference, its rows a step late, a
coefficient of each identity on record. A hypothesis is a rewrite rule of the certificate's records; without it the
re-checker must refuse some record, else it is superfluous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from constructions.construction import Construction
from proofs_check.claim import Assurance, Certificate, Claim, Verdict
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


Change = tuple[str, str]
"""Kind and text."""

RAISE = 2**64
"""By how much a reference is wrong: more than any bound of a claim that is no equality."""

Reference = Callable[[Any, Any], Any]
"""As in `Construction`: (task, arithmetic) -> the answer."""


def judge_theorem(
    claims: Sequence[Claim], count: int | None, seed: int, known: Collection[Change] = ()
) -> Iterator[Judged]:
    """Judge a theorem's mutants, all of them or `count` drawn with the seed, but for those known already."""
    objects: dict[Change, list[Try]] = {}
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
    for change in ((mutant.kind, mutant.text) for mutant in drawn):
        if change not in known:
            yield Judged(claims[0].theorem, *change, *_judge(objects[change], runs_whole))


def _judge(tries: Sequence[Try], runs_whole: bool) -> tuple[str, str]:
    accepted: list[Try] = []
    missing: list[str] = []
    steps: list[str] = []
    for attempt in tries:
        certificate = attempt.claim.certify(attempt.subject)
        if certificate.verdict is Verdict.REFUTED:
            return "refuted", attempt.claim.name
        if certificate.verdict is Verdict.PROVED:
            accepted.append(attempt)
        else:
            text = f"{attempt.claim.name}: {certificate.evidence.get('missing', 'undecided')}"
            (missing if attempt.whole else steps).append(text)
    if missing or (steps and not any(attempt.proves and attempt.whole for attempt in accepted)):
        return "undecided", "; ".join([*missing, *steps])
    names = "; ".join(attempt.claim.name for attempt in accepted)
    if not any(attempt.proves for attempt in accepted):
        return "survived", names
    by_values = any(attempt.claim.mutants is not None for attempt in accepted)
    if runs_whole and not by_values and not any(attempt.whole for attempt in accepted):
        return "undecided", f"{names}: no claim runs the changed program whole"
    return "equivalent", "; left open by ".join([names, *steps])


def judge_references(claim: Claim, records: Sequence[Any]) -> Iterator[Judged]:
    """What the claim compares with, changed: refuted if the certificate, or the re-checker, notices, survived else."""

    def judged(text: str, refuted: bool) -> Judged:
        outcome = "refuted" if refuted else "survived"
        return Judged(claim.theorem, "reference", f"{claim.name}: {text}", outcome, claim.name)

    subject = claim.build()
    if isinstance(subject, list) and subject and isinstance(subject[0], Instance):
        smallest = min(subject, key=lambda one: one.task.size)
        own = smallest.construction.outputs
        recorded = len(_with_reference(claim, smallest, smallest.construction.reference).records)
        for text, other in _other_references(smallest.construction):
            asked: list[Any] = []

            def reference(task: Any, arithmetic: Any, other: Reference = other, asked: list[Any] = asked) -> Any:
                asked.append(task)
                return other(task, arithmetic)

            found = _with_reference(claim, smallest, reference)
            accepted = found.verdict is Verdict.PROVED
            if not asked or (accepted and len(found.records) < recorded):
                continue  # the claim compares with something of its own, or only chooses by it what it records
            if accepted and _with_reference(claim, smallest, own).verdict is Verdict.REFUTED:
                reason = f"{claim.name} says that program and reference differ"
                yield Judged(claim.theorem, "reference", f"{claim.name}: reference with {text}", "equivalent", reason)
            else:
                yield judged(f"reference with {text}", found.verdict is Verdict.REFUTED)
    for i, record in enumerate(records):
        for k, identity in enumerate(record.get("identities", [])):
            if not identity["right"]:
                continue
            (coefficient, word), *rest = identity["right"]
            doubled = {**identity, "right": [[str(2 * Fraction(coefficient)), word], *rest]}
            identities = [*record["identities"][:k], doubled, *record["identities"][k + 1 :]]
            text = f"{record.get('part', f'record {i + 1}')}: {identity['name']} with its first coefficient doubled"
            yield judged(text, not _holds({**record, "identities": identities}))


def _with_reference(claim: Claim, instance: Instance, reference: Reference) -> Certificate:
    """What the claim says of one instance with another algorithm to equal."""
    return claim.certify([replace(instance, construction=replace(instance.construction, reference=reference))])


def _other_references(construction: Construction) -> Iterator[tuple[str, Reference]]:
    """Other algorithms to equal: wrong in one entry, or late by one step."""

    def raised(row: int) -> Reference:
        def reference(task: Any, arithmetic: Any) -> Any:
            right = construction.reference(task, arithmetic)
            if right is None:
                return arithmetic.matrix([[1]])
            rows, columns = arithmetic.shape(right)
            one = [[RAISE * ((i, j) == (row, columns - 1)) for j in range(columns)] for i in range(rows)]
            return arithmetic.add(right, arithmetic.matrix(one))

        return reference

    def late(task: Any, arithmetic: Any) -> Any:
        right = construction.reference(task, arithmetic)
        rows, columns = arithmetic.shape(right)
        first = arithmetic.matrix([[0] * columns])
        return arithmetic.stack([[first], [arithmetic.rows(right, 0, rows - 1)]])

    start = 0
    for name, height in construction.answer:
        if height:
            yield f"the first row of {name} raised", raised(start)
        start += height
    if construction.reads is not None:
        yield "every depth a step late", late


def _holds(record: Any) -> bool:
    try:
        KINDS[record["kind"]](record)
    except Refused:
        return False
    return True


def judge_hypotheses(claim: Claim, records: Sequence[Any]) -> Iterator[Judged]:
    """Each hypothesis of the claim's records dropped: refuted if a record then fails, equivalent (superfluous) else."""
    dropped: dict[str, str] = {}
    for record in records:
        groups: dict[str, list[Any]] = {}
        for rule in record.get("rules", []):
            groups.setdefault(_spelt(rule[0], record["letters"]), []).append(rule)
        for text, rules in groups.items():
            if _holds({**record, "rules": [rule for rule in record["rules"] if rule not in rules]}):
                dropped.setdefault(text, "equivalent")
            else:
                dropped[text] = "refuted"
    for text, outcome in dropped.items():
        reason = "needed" if outcome == "refuted" else "superfluous"
        yield Judged(claim.theorem, "hypothesis", f"{claim.name}: without the hypothesis on {text}", outcome, reason)


def _spelt(word: Any, letters: Any) -> str:
    """The letters of a word, the same for its transpose."""
    back = [(name, transposed if letters[name]["symmetric"] else 1 - transposed) for name, transposed in reversed(word)]
    return min(" ".join(name + "'" * transposed for name, transposed in side) for side in (word, back))


def tally(judged: Sequence[Judged]) -> dict[str, int]:
    """{"total", "refuted", "equivalent", "undecided", "survived"}."""
    counts = Counter(j.outcome for j in judged)
    return {"total": len(judged), **{outcome: counts[outcome] for outcome in OUTCOMES}}
