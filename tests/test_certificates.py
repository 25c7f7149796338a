"""Claims are proved on the built objects, and refuted on mutants: at least four a claim, and where in which block."""

from dataclasses import replace

import pytest
from named_mutants import REFUTED

from constructions.exact import RATIONALS
from constructions.layers import Repeat
from constructions.temporal_difference import executor as executor_room
from constructions.temporal_difference import krylov
from constructions.tokens import Tokens
from numerics import tasks
from proofs_check.claim import Verdict
from proofs_check.generic_layer import prove_layers
from proofs_check.mutation import mutants_of
from proofs_check.temporal_difference import executor as executor_proofs
from proofs_check.words import identity
from verify.catalogue import CATALOGUE
from verify.row import Options

QUICK = Options(quick=True)
CLAIMS = {
    f"{claim.theorem} {claim.name}": claim for row in CATALOGUE.values() for claim in row.claims(QUICK) if claim.quick
}


@pytest.mark.parametrize("name", CLAIMS)
def test_proved(name):
    certificate = CLAIMS[name].certify()
    assert certificate.verdict is Verdict.PROVED, certificate.evidence
    assert certificate.to_json()["assumptions"]


@pytest.mark.parametrize("name", REFUTED)
def test_named_mutants_are_refuted(name):
    claim = CLAIMS[name]
    mutants = list(mutants_of(claim, lambda kind, text: any(piece in text for piece in REFUTED[name])))
    assert len(REFUTED[name]) >= 4
    for text in REFUTED[name]:
        matching = [mutant for mutant in mutants if text in mutant.text]
        assert matching, f"no mutant '{text}'"
        certificate = claim.certify(matching[0].subject)
        assert certificate.verdict is Verdict.REFUTED, (text, certificate.evidence)


def test_every_claim_about_a_built_object_has_mutants():
    assert set(CLAIMS) - set(REFUTED) == {
        "td.krylov orthogonality",
        "td.krylov identities",
        "td.dimension argument",
        "td.memory gauge",
        "td.memory-optimal identities",
        "td.hessenberg identities",
        "td.lanczos identities",
        "td.bits recursion",
        "td.bits packing-argument",
        "td.policy-class necessary",
        "td.policy-class identities",
        "td.identifiability null-direction",
        "td.learnability bounds",
        "td.linear-features strata",
    }


def test_refutation_names_block_row_column_and_counterexample():
    claim = CLAIMS["td.executor step"]
    (mutant,) = [m for m in mutants_of(claim) if m.text.endswith("-(r, x, x; r) without source => query")]
    evidence = claim.certify(mutant.subject).evidence
    assert evidence["block"] == "query.r"
    assert {"row", "column", "found", "expected"} <= set(evidence)
    assert set(evidence["counterexample"]) == {"B", "W", "H", "s", "E", "c"}

    claim = CLAIMS["td.executor end-to-end"]
    mutant = next(m for m in mutants_of(claim) if "+(r, x, y; r) negated" in m.text)
    evidence = claim.certify(mutant.subject).evidence
    assert evidence["block"] == "v at depth"
    assert evidence["counterexample"]["log"]


def test_every_executor_mutant_is_refuted_or_equivalent():
    """The only survivors move the head that reads the y of a query, which is zero: they change nothing."""
    claim = CLAIMS["td.executor values"]
    survivors = [m.text for m in mutants_of(claim) if claim.certify(m.subject).verdict is not Verdict.REFUTED]
    assert survivors
    assert all("+(r, x, y; r)" in text and "query" in text for text in survivors)
    assert all(claim.certify(m.subject).verdict is Verdict.PROVED for m in mutants_of(claim) if m.text in survivors)


def test_every_entry_mutant_of_the_executor_matrices_is_refuted():
    claim = CLAIMS["td.executor matrices"]
    verdicts = {claim.certify(mutant.subject).verdict for mutant in mutants_of(claim)}
    assert verdicts == {Verdict.REFUTED}


def test_hypotheses_are_needed():
    """Without W' B = I the words of the step do not cancel: undecided, with the words that are left."""
    program = executor_proofs.executor_program(executor_proofs.N, executor_proofs.L)
    layer = executor_proofs.only_step(program)
    assert layer is not None
    x = executor_proofs._letters()
    Y = x["B"] + x["W"] @ (x["H"] - identity(executor_proofs.K)).T
    before = {("source", "x"): x["B"], ("source", "y"): Y, ("source", "r"): x["s"].T}
    after = {**before, ("source", "r"): (x["H"] @ x["s"]).T}
    tokens = Tokens({"source": executor_proofs.K, "query": executor_proofs.Q}, before)
    finding = prove_layers([layer], program.layout, tokens, after, [], executor_proofs._sample)
    assert finding.verdict is Verdict.UNDECIDED
    assert "source.r" in finding.evidence["missing"]


def test_a_layer_between_rounds_is_noticed():
    """The rounds are read by their labels, so a layer with a label of its own must not slip in."""
    claim = CLAIMS["td.krylov rounds"]
    program = claim.build()
    stray = replace(program.layers[4], label="extra")
    for place in (4, 8, len(program.layers)):
        changed = program.with_layers((*program.layers[:place], stray, *program.layers[place:]))
        assert claim.certify(changed).verdict is Verdict.REFUTED


def test_ab_equals_bh_fails_below_k_and_the_executor_still_holds():
    """L < k_n: A B != B H, so the certificate must rest on A^j r = B H^j g0 for j < L only."""
    task = tasks.dirichlet_chain(n=4, transitions=24, seed=0)
    context = krylov.exact_context(task, 2)
    assert context is not None
    B, Y = RATIONALS.rows(context, 0, 4), RATIONALS.rows(context, 4, 8)
    H = (Y - B).transpose() * B + RATIONALS.one_hot(range(2), 2)
    assert task.A * B != B * H
    built = executor_room.from_context(4, 2)
    assert built.outputs(task, RATIONALS) == built.reference(task, RATIONALS)


def test_loop_bound_is_part_of_the_program():
    program = executor_room.executor_program(3, 5)
    (loop,) = program.layers
    assert isinstance(loop, Repeat)
    assert program.attention_layers == 5
    assert (program.width, len(program.heads)) == (7, 2)


def test_same_seed_gives_the_same_certificate():
    claim = CLAIMS["td.krylov context"]
    assert claim.certify().to_json(timed=False) == claim.certify().to_json(timed=False)
    again = {c.name: c for c in CATALOGUE["td.krylov"].claims(QUICK)}["context"]
    assert claim.certify().to_json(timed=False) == again.certify().to_json(timed=False)


@pytest.mark.slow
@pytest.mark.parametrize("theorem", CATALOGUE)
def test_large_claims_are_proved(theorem):
    for claim in CATALOGUE[theorem].claims(Options()):
        assert claim.certify().verdict is Verdict.PROVED
