"""Coq sources of the claims that hold at every size: what a certificate records as words, for a proof kernel to check.

    verify export-proof td.executor --to DIR        cd DIR && coq_makefile -f _CoqProject -o Makefile && make

A record of kind `words` or `layer` (`proofs_check/records.py`) becomes a section over any commutative ring: sizes and
letters as variables, rules as hypotheses (one of a rule and its transpose), identities as lemmas. A layer with full
routes is stated once more as P, Q and the mask on the whole token matrix (`verify.export_blocks`), and what follows for
any number of layers, digits, tokens or rounds by inductions of the library (`verify.export_theorems`). No lemma has a
proof of its own: the tactic `words` of the library in `coq/` decides it, and what the kernel then relies on is printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from constructions.errors import BadInput
from proofs_check.claim import Assurance, Certificate, Verdict

from . import storage
from .coq_text import Names, Section, Unexported, Used, comment, identifier, lemma
from .export_blocks import whole_layer
from .export_inductions import Induction, grown, iterated
from .export_theorems import GOES_ON
from .row import Options, Row

LIBRARY = ("Words.v", "Reading.v", "Blocks.v", "Iterates.v", "Executor.v")
"""The fixed sources that every theorem needs, each after those that it needs."""

INDUCTIONS = {
    "td.krylov": (("Krylov.v",), ("td_krylov_every_round.v",)),
    "td.doubling": (("Doubling.v",), ("td_doubling_every_depth.v",)),
    "recurrent.delta-rule": (("DeltaRule.v",), ("recurrent_delta_rule_every_chunk.v",)),
    "online.weighted-majority": (("LogWeights.v",), ("online_weighted_majority_every_round.v",)),
    "online.q-learning": ((), ("online_q_learning_every_round.v",)),
    "online.hedge": (("LogWeights.v",), ("online_hedge_every_round.v",)),
}
"""Theorem -> fixed sources before and after its own: an induction, and its use for what was built."""

PACKAGE = "ContextProof"

HEAD = f"""\
From mathcomp Require Import all_ssreflect ssralg matrix.
From {PACKAGE} Require Import Words Reading Blocks Iterates Executor.

Local Open Scope ring_scope.
"""


def section(
    record: Mapping[str, Any], module: str, induction: Induction | str | None = None
) -> tuple[list[str], list[str]]:
    """Lines of one record, in a module of its own, and how it goes on; and the full names of its lemmas.

    Identities whose sides are recorded equal, such as a block that no head writes, say nothing by themselves and are
    left to the statement on the whole token matrix.

    Raises:
        Unexported: no form in Coq.
    """
    s = Section(record)
    symmetric, hypotheses = s.symmetric(), s.hypotheses()
    lines = s.variables()
    lines += [f"Hypothesis {name} : {equation}." for name, equation, proved in symmetric if not proved]
    lines += [f"Hypothesis {name} : {equation}." for name, equation in hypotheses]
    used = Used(s.sizes.values(), s.letters.values(), [x[0] for x in symmetric], [x[0] for x in hypotheses])
    lines += [used.tactic("by_words"), ""]
    proved = []
    for identity in record["identities"]:
        left, right = s.sides(identity)
        if left != right:
            proved.append(s.names.new(identity["name"]))
            lines += lemma(proved[-1], f"{left} = {right}", "by_words.")
    whole = whole_layer(s, used)
    more: tuple[list[str], list[str]] = ([], [])
    if whole is not None:
        lines += whole.lines
        proved.append(whole.layer)
        if isinstance(induction, Induction):
            more = iterated(whole, induction)
    elif isinstance(induction, str):
        more = grown(s, induction)
    if induction is not None and not more[1]:
        raise Unexported(f"no layer on the whole token matrix in {module}, which goes on from step to step")
    lines += more[0]
    proved += more[1]
    body = ["Section At_every_size.", *lines, "", "End At_every_size."]
    return [f"Module {module}.", *body, f"End {module}."], [f"{module}.{name}" for name in proved]


@dataclass(frozen=True)
class Exported:
    """A source made of one certificate: its file name, its text, how many lemmas it states."""

    name: str
    text: str
    lemmas: int


def exported(certificate: Certificate) -> Exported | None:
    """The source of one certificate, None where it records no words or they say nothing by themselves.

    Raises:
        Unexported: no form in Coq.
    """
    records = [record for record in certificate.records if record["kind"] in ("words", "layer")]
    if not records:
        return None
    claim = certificate.claim
    lines = [f"(** {comment(f'{claim.theorem}, {claim.name}: {claim.statement}')}"]
    lines += [f"    Scope: {comment(claim.scope)}", *(f"    Assumed: {comment(x)}" for x in claim.assumptions)]
    lines[-1] += " *)"
    lines += ["", *HEAD.splitlines()]
    names, proved = Names(), []
    for record in records:
        part = record.get("part") or claim.name
        body, lemmas = section(record, names.new(part), GOES_ON.get((claim.theorem, claim.name, part)))
        if lemmas:
            lines += ["", f"(** ** {comment(part)} *)", *body]
            proved += lemmas
    # One tuple of all: what they rest on is looked up once.
    lines += ["", f"Definition all_of_them := ({', '.join(['tt', *proved])}).", "Print Assumptions all_of_them."]
    name = identifier(f"{claim.theorem}_{claim.name}".replace("-", "_"))
    return Exported(f"{name}.v", "\n".join(lines) + "\n", len(proved)) if proved else None


def sources(row: Row, options: Options) -> Iterator[tuple[str, Exported | None]]:
    """Each inductive claim of a theorem by name, with its source.

    Raises:
        BadInput: a claim that is not proved, or that has no form in Coq.
    """
    for claim in row.claims(options):
        if claim.assurance is not Assurance.INDUCTIVE:
            continue
        certificate = claim.certify()
        if certificate.verdict is not Verdict.PROVED:
            found = f"{certificate.verdict}: {certificate.evidence}"
            raise BadInput(f"{row.theorem}, claim {claim.name}: expected a proof to export, found {found}")
        try:
            yield claim.name, exported(certificate)
        except Unexported as error:
            raise BadInput(f"{row.theorem}, claim {claim.name}: expected words to export, found {error}") from error


def export_proof(row: Row, options: Options, folder: Path) -> dict[str, Any]:
    """Write the sources of a theorem beside the fixed library; the document of what was written.

    Raises:
        BadInput: no claim of the theorem records words, one is not proved, or the folder cannot be written to.
    """
    made = list(sources(row, options))
    files = [source for _, source in made if source is not None]
    if not files:
        claims = ", ".join(claim.name for claim in row.claims(options))
        raise BadInput(f"{row.theorem}: expected a claim that rests on identities of words, found none in {claims}")
    before, after = INDUCTIONS.get(row.theorem, ((), ()))
    for name in (*LIBRARY, *before, *after):
        storage.write_text(folder / name, library(name))
    for source in files:
        storage.write_text(folder / source.name, source.text)
    # Other theorems may be there already: dependencies are found by coq_makefile.
    names = sorted(path.name for path in folder.glob("*.v"))
    storage.write_text(folder / "_CoqProject", "\n".join([f"-Q . {PACKAGE}", "-arg -w -arg none", *names]) + "\n")
    exported_claims = [name for name, source in made if source is not None]
    return {
        "theorem": row.theorem,
        "folder": str(folder),
        "files": [{"name": source.name, "lemmas": source.lemmas} for source in files],
        "fixed": [*LIBRARY, *before, *after],
        "not exported": [c.name for c in row.claims(options) if c.name not in exported_claims],
    }


def library(name: str) -> str:
    """The text of a fixed source."""
    return (resources.files("verify") / "coq" / name).read_text(encoding="utf-8")
