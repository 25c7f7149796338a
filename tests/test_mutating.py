"""`verify mutate`: what becomes of a change when one claim, several, or none can tell it from the construction."""

import json
from dataclasses import replace

import pytest

from constructions.exact import RATIONALS
from proofs_check.claim import Assurance, Claim, Finding, Verdict
from proofs_check.mutants import Mutant
from verify.catalogue import CATALOGUE
from verify.command_line import main
from verify.mutating import judge_hypotheses, judge_references, judge_theorem, tally
from verify.mutation_files import Judgements
from verify.row import Options


def claims_of(theorem):
    return [c for c in CATALOGUE[theorem].claims(Options(quick=True)) if c.quick]


class AllBut:
    """As if every change but the one with this text were judged already."""

    def __init__(self, text):
        self.text = text

    def __contains__(self, change):
        return change[1] != self.text


def outcomes(claims, count=None, known=()):
    return {j.text: j.outcome for j in judge_theorem(claims, count, 0, known)}


def accepting(claim):
    return replace(claim, prove=lambda subject: Finding(Verdict.PROVED, {}))


def test_a_prover_that_accepts_everything_is_noticed():
    """With instances alone nothing is refuted, and what only instances accept has survived."""
    instances = accepting(next(c for c in claims_of("td.statistics") if c.name == "instances"))
    assert set(outcomes([instances], 12).values()) == {"survived"}


def test_one_refutation_is_enough_and_a_doubt_is_kept():
    claims = {c.name: c for c in claims_of("td.statistics")}
    counts, instances = claims["counts"], claims["instances"]
    text = "count: +(y, x, x; z) negated"

    def outcome(*claims):
        (found,) = outcomes(claims, known=AllBut(text)).values()
        return found

    assert outcome(counts, accepting(instances)) == "refuted"
    assert outcome(accepting(counts), instances) == "refuted"
    assert outcome(accepting(counts), accepting(instances)) == "equivalent"
    doubting = replace(counts, prove=lambda subject: Finding(Verdict.UNDECIDED, {"missing": "a method"}))
    assert outcome(doubting, accepting(instances)) == "undecided"


def test_a_proof_that_runs_nothing_does_not_settle_a_theorem_that_is_run():
    """The changes are in the proof's program only: no claim has run the changed program whole."""
    claims = {c.name: c for c in claims_of("td.statistics")}
    program = claims["counts"].build()
    apart = program.with_layers((replace(program.layers[0], label="elsewhere"), *program.layers[1:]))
    by_program = replace(accepting(claims["counts"]), build=lambda: apart)
    found = outcomes([by_program, accepting(claims["instances"])])
    assert {outcome for text, outcome in found.items() if text.startswith("elsewhere")} == {"undecided"}


def test_values_that_are_listed_are_proved_by_their_claim():
    def even(numbers):
        return Finding(Verdict.REFUTED if numbers[0] % 2 else Verdict.PROVED, {})

    def others(numbers):
        return [Mutant("value", str(n), [n]) for n in (3, 4)]

    law = Claim("td.x", "law", "2 is even", "2", Assurance.EXACT, ("none",), lambda: [2], even, mutants=others)
    assert outcomes([law]) == {"3": "refuted", "4": "equivalent"}


def test_hypotheses_are_needed_and_a_superfluous_one_is_named():
    step = next(c for c in claims_of("td.executor") if c.name == "step")
    (judged,) = judge_hypotheses(step, step.certify().records)
    assert (judged.outcome, "B" in judged.text, "W" in judged.text) == ("refuted", True, True)

    def with_one_more(subject):
        finding = step.prove(subject)
        (record,) = finding.records
        idle = [[["Z", 0]], []]
        letters = {**record["letters"], "Z": {"shape": ["n", "n"], "symmetric": False}}
        zero = [["0"] * len(record["point"]["B"])] * len(record["point"]["B"])
        record = {**record, "letters": letters, "point": {**record["point"], "Z": zero}}
        return replace(finding, records=({**record, "rules": [*record["rules"], idle]},))

    padded = {j.text: j.outcome for j in judge_hypotheses(step, with_one_more(step.build()).records)}
    assert sorted(padded.values()) == ["equivalent", "refuted"]


def test_another_reference_is_refuted():
    """Of instances by the certificate, of words by the re-checker; a prover that does not compare lets it survive."""
    for name in ("instances", "counts"):
        claim = next(c for c in claims_of("td.statistics") if c.name == name)
        judged = list(judge_references(claim, claim.certify().records))
        assert judged
        assert {j.outcome for j in judged} == {"refuted"}
    instances = next(c for c in claims_of("td.executor") if c.name == "end-to-end")

    def looks_and_accepts(subject):
        subject[0].construction.reference(subject[0].task, RATIONALS)
        return Finding(Verdict.PROVED, {})

    judged = judge_references(replace(instances, prove=looks_and_accepts), [])
    texts = {j.text.partition(": ")[2]: j.outcome for j in judged}
    expected = ("reference with the first row of v at depth raised", "reference with every depth a step late")
    assert texts == dict.fromkeys(expected, "survived")
    assert not list(judge_references(accepting(instances), []))


def test_the_command_counts_and_goes_on(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*more):
        with pytest.raises(SystemExit) as caught:
            main(["mutate", "td.statistics", "--count", "8", "--json", *more])
        return caught.value.code, json.loads(capsys.readouterr().out)

    code, document = run()
    assert code == 0
    counts = document["mutants"]
    assert counts["total"] == sum(counts[name] for name in ("refuted", "equivalent", "undecided", "survived"))
    assert counts["survived"] == counts["undecided"] == 0
    assert document["theorems"][0]["theorem"] == "td.statistics"
    assert tally([]) == {"total": 0, "refuted": 0, "equivalent": 0, "undecided": 0, "survived": 0}

    # An interrupted command: what it has judged is taken over as it stands, the rest is judged.
    (path,) = tmp_path.glob("runs/mutate/*.json")
    choices = {"count": 8, "seed": 0}
    whole = Judgements.begin("td.statistics", choices, resume=True)
    assert whole.complete
    assert len(whole.judged) == counts["total"]
    first = whole.judged[0]
    part = Judgements(path, whole.choices, [replace(first, reason="judged before"), *whole.judged[1:5]])
    part.write()
    code, document = run("--resume")
    assert code == 0
    assert document["mutants"] == counts
    assert Judgements.begin("td.statistics", choices, resume=True).judged[0].reason == "judged before"

    path.write_text(path.read_text().replace('"judged before"', '"judged after"'))
    with pytest.raises(SystemExit) as caught:
        main(["mutate", "td.statistics", "--count", "8", "--resume"])
    assert caught.value.code == 2
    assert "digest" in capsys.readouterr().err
    assert run("--seed", "1")[0] == 0
