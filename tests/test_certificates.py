"""Claims are proved on the built objects, and refuted on mutants: at least four a claim, and where in which block."""

from dataclasses import replace

import pytest

from constructions.exact import RATIONALS
from constructions.layers import Repeat
from constructions.temporal_difference import dimension as dimension_room
from constructions.temporal_difference import executor as executor_room
from constructions.temporal_difference import krylov
from constructions.tokens import Tokens
from numerics import tasks
from proofs_check.claim import Verdict
from proofs_check.generic_layer import prove_layers
from proofs_check.mutants import Mutant, entry_mutants, program_mutants
from proofs_check.schwartz_zippel import Case
from proofs_check.temporal_difference import dimension as dimension_proofs
from proofs_check.temporal_difference import executor as executor_proofs
from proofs_check.temporal_difference import full_context as full_context_proofs
from proofs_check.temporal_difference import memory as memory_proofs
from proofs_check.temporal_difference import midpoint_hold as midpoint_proofs
from proofs_check.temporal_difference import minimax as minimax_proofs
from proofs_check.temporal_difference import sample_and_hold as hold_proofs
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


def instance_mutants(claim):
    """Each change, by its text, on every instance whose program has it; unchanged instances are left out."""
    changed = {}
    for instance in claim.build():
        for mutant in program_mutants(instance.construction.program):
            mutated = replace(instance, construction=replace(instance.construction, program=mutant.subject))
            changed.setdefault((mutant.kind, mutant.text), []).append(mutated)
    for (kind, text), instances in changed.items():
        yield Mutant(kind, text, instances)


def case_mutants(claim):
    """Each change, by its text, on every small case whose program has it."""
    changed = {}
    for case in claim.build():
        if case.identity.sizes["n"] <= 4:
            for mutant in program_mutants(case.program):
                changed.setdefault((mutant.kind, mutant.text), []).append(replace(case, program=mutant.subject))
    for (kind, text), cases in changed.items():
        yield Mutant(kind, text, cases)


VALUE_MUTANTS = {
    dimension_room.Proposal: dimension_proofs.proposal_mutants,
    memory_proofs.Jacobian: memory_proofs.jacobian_mutants,
    hold_proofs.WorstCase: hold_proofs.worst_case_mutants,
    midpoint_proofs.Covered: midpoint_proofs.cover_mutants,
    minimax_proofs.Law: minimax_proofs.law_mutants,
    minimax_proofs.Witness: minimax_proofs.witness_mutants,
}
"""What a list of values is made of -> its mutants."""


def mutants_of(claim):
    subject = claim.build()
    if isinstance(subject, list) and type(subject[0]) in VALUE_MUTANTS:
        yield from VALUE_MUTANTS[type(subject[0])](subject)
    elif isinstance(subject, list) and isinstance(subject[0], Case):
        yield from case_mutants(claim)
    elif isinstance(subject, list) and hasattr(subject[0], "construction"):
        yield from instance_mutants(claim)
    elif isinstance(subject, list) and isinstance(subject[0], full_context_proofs.Sized):
        for sized in subject:
            if (sized.d, sized.samples) == (2, 3):
                for mutant in entry_mutants(sized.heads, full_context_proofs.layout_of(sized)):
                    changed = replace(sized, heads=mutant.subject)
                    yield Mutant("entry", f"{sized}: {mutant.text}", [changed])
    elif isinstance(subject, list):
        n, k, heads = subject[-1]
        for mutant in entry_mutants(heads, executor_room.executor_program(n, 1).layout):
            yield replace(mutant, subject=[(n, k, mutant.subject)])
    else:
        yield from program_mutants(subject)


# Per claim: pieces of the texts of mutants (sign, selector, route, loop or round, primitive) that it must refute.
REFUTED = {
    "td.statistics counts": [
        "count: +(y, x, x; z) negated",
        "count: +(y, x, x; z) with value x",
        "count: +(r, x, x; q) along state => state",
        "count: +(one, x, x; c) dropped",
        "count: layer dropped",
    ],
    "td.statistics normalise": [
        "normalise: +(z, c, gam; y) negated",
        "normalise: +(z, c, gam; y) with query one",
        "normalise: +(q, c, one; r) along state => state",
        "invert visits: recip_0 of q",
    ],
    "td.statistics instances": [
        "count: +(y, x, x; z) negated",
        "count: +(r, x, x; q) with value one",
        "normalise: +(z, c, gam; y) with query one",
        "invert visits: layer dropped",
        "count: +(one, x, x; c) without raw => state",
    ],
    "td.krylov rounds": [
        "round 2: A b, d: +(x, y, x; z) negated",
        "round 1: w, next: +(x, c, one; y) with key one",
        "round 3: pass 1: -(x, y, x; x) with key x",
        "round 2: pass 2: layer dropped",
        "b_1 = r: +(x, r, one; x) along state -> slot[0]",
        "round 4: 1/d: layer dropped",
        "gate: layer dropped",
        "normalise: +(z, c, gam; y) negated",
    ],
    "td.krylov compilation": [
        "compile: +(y, z, z; y) negated",
        "compile: +(y, z, z; y) with query x",
        "compile: +(r, x, z; r) along state -> source",
        "compile: +(x, one, one; y) dropped",
        "compile: layer dropped",
    ],
    "td.krylov narrow": [
        "w beside A b: layer dropped",
        "compile: +(x, y, y; y) negated",
        "round 1: w, next: +(y, one, one; x) along slot[0] -> source[1]",
        "normalise: -(y, one, one; y) dropped",
    ],
    "td.krylov context": [
        "compile: +(y, z, z; y) negated",
        "compile: +(r, x, z; r) with query x",
        "round 2: A b, d: +(x, y, x; z) negated",
        "round 1: w, next: +(z, one, one; x) dropped",
        "compile: +(y, z, z; y) along slot -> source",
        "gate: layer dropped",
    ],
    "td.krylov dimension": [
        "gate: layer dropped",
        "compile: +(one, x, z; c) dropped",
        "b_1 = r: layer dropped",
        "round 1: w, next: +(x, c, one; z) dropped",
    ],
    "td.krylov decoding": [
        "compile: +(y, z, z; y) negated",
        "compile: +(r, x, z; r) dropped",
        "b_1 = r: +(x, r, one; x) with value y",
        "compile: +(x, one, one; y) dropped",
    ],
    "td.krylov balanced": [
        "compile: +(y, z, z; y) negated",
        "compile: +(r, x, z; r) dropped",
        "compile: +(y, z, z; y) with key y",
        "b_1 = r: +(x, r, one; x) with value y",
        "round 2: A b: layer dropped",
    ],
    "td.executor step": [
        "-(r, x, x; r) negated",
        "-(r, x, x; r) with key y",
        "-(r, x, x; r) without source => query",
        "+(r, x, y; r) dropped",
        "-(r, x, x; r) along source -> source",
    ],
    "td.executor values": [
        "repeated L - 1 times",
        "repeated L + 1 times",
        "+(r, x, y; r) negated",
        "+(r, x, y; r) with query x",
        "-(r, x, x; r) along query => query",
    ],
    "td.krylov context-generic": [
        "compile: +(y, z, z; y) negated",
        "round 2: pass 1: layer dropped",
        "round 1: w, next: +(x, c, one; z) with key one",
        "b_1 = r: +(x, r, one; x) with value y",
    ],
    "td.executor values-generic": [
        "repeated 4 - 1 times",
        "+(r, x, y; r) negated",
        "-(r, x, x; r) with key y",
        "-(r, x, x; r) without source => query",
    ],
    "td.executor end-to-end-generic": [
        "repeated 5 + 1 times",
        "compile: +(r, x, z; r) dropped",
        "round 2: A b, d: +(x, y, x; z) negated",
        "-(r, x, x; r) with key y",
    ],
    "td.executor enclosure": [
        "+(r, x, y; r) negated",
        "repeated 6 - 1 times",
        "compile: +(y, z, z; y) negated",
        "b_1 = r: +(x, r, one; x) with value y",
    ],
    "td.executor matrices": ["Q[0, 0] negated", "Q[0, 4] zeroed", "R[0, 0] zeroed", "P[8, 8] doubled"],
    "td.executor end-to-end": [
        "repeated 6 - 1 times",
        "+(r, x, y; r) negated",
        "-(r, x, x; r) without source => query",
        "b_1 = r: layer dropped",
        "compile: +(y, z, z; y) negated",
    ],
    "td.full-context td": [
        "-(r, C x, x; r) negated",
        "-(r, C x, x; r) without weight C",
        "-(r, C x, x; r) with weight C'",
        "+(r, C x, y; r) dropped",
        "-(r, C x, x; r) without sample => query",
        "repeated L - 1 times",
    ],
    "td.full-context td-lambda": [
        "-(r Lambda, C x, x; r) without mixing Lambda",
        "+(r Lambda, C x, y; r) with mixing Lambda'",
        "+(r Lambda, C x, y; r) with query x",
        "-(r Lambda, C x, x; r) with weight C'",
        "repeated L + 1 times",
    ],
    "td.full-context residual-gradient": [
        "+(r, C y, x; r) dropped",
        "+(r, C y, x; r) with key x",
        "-(r, C y, y; r) negated",
        "-(r, C x, x; r) along query => query",
        "-(r, C y, y; r) without weight C",
    ],
    "td.full-context average-reward": [
        "-(r T, C x, x; h) without mixing T",
        "+(r T, C x, y; h) with mixing T'",
        "-(r T, C x, x; h) with value h",
        "-(r T, C x, x; h) with out r",
        "+(h, C x, y; h) dropped",
        "-(h, C x, x; h) without sample => query",
    ],
    "td.full-context matrices": [
        "td (2, 3): head 1: Q[0, 1] negated",
        "td-lambda (2, 3): head 1: M[2, 0] doubled",
        "td-lambda (2, 3): head 1: M[1, 1] zeroed",
        "residual-gradient (2, 3): head 1: Q[2, 3] zeroed",
        "average-reward (2, 3): head 1: M[1, 2] negated",
        "average-reward (2, 3): head 2: R[0, 3] zeroed",
        "average-reward (2, 3): head 1: P[5, 4] doubled",
    ],
    "td.full-context instances": [
        "step: -(r, C x, x; r) negated",
        "repeated 4 - 1 times",
        "step: -(r Lambda, C x, x; r) without mixing Lambda",
        "step 2: +(r, C2 y, x; r) with weight C2'",
        "step: -(h, C x, x; h) dropped",
        "step 3: layer dropped",
    ],
    "td.sample-and-hold statistics": [
        "count: +(y, x, x; y) negated",
        "count: +(r, x, x; r) along state => state",
        "invert visits: layer dropped",
        "normalise: +(y, c, gam; y) with query one",
        "normalise: -(r, one, one; r) dropped",
    ],
    "td.sample-and-hold record": [
        "record: +(x, y, x; x) negated",
        "record: +(x, r, one; x) dropped",
        "record: -(x, one, one; x) dropped",
        "record: -(x, one, gm; x) negated",
        "record: +(x, one, gp; x) with query cp",
        "record: -(one, one, one; cp) negated",
        "gate gm: layer dropped",
        "repeated T - 1 times",
    ],
    "td.sample-and-hold hold": [
        "step: -(r, x, x; r) negated",
        "step: -(r, x, x; r) with value c",
        "step: -(r, x, x; r) along slot => slot",
        "step: -(one, one, one; c) dropped",
        "gate r: eq0 of c",
        "repeated L + 1 times",
    ],
    "td.sample-and-hold instances": [
        "record: +(x, one, gp; x) negated",
        "record: +(x, y, x; x) with value y",
        "gate gp: layer dropped",
        "step: -(r, x, x; r) without slot => query",
        "normalise: -(y, one, one; y) dropped",
        "repeated 5 - 1 times",
    ],
    "td.sample-and-hold worst-case": [
        "g=9/10, m=4: error lowered",
        "g=9/10, m=4: error raised",
        "g=9/10, m=4: first sample later",
        "g=4/5, m=6: last sample dropped",
        "g=1/3, m=3: one depth more",
    ],
    "td.midpoint-hold record": [
        "record: +(x, gam, gm; x) negated",
        "record: +(x, gam, gp; x) with key one",
        "record: +(x, gam, gm; x) with query gp",
        "record: +(cm, one, one; gm) dropped",
        "gate gp: eq0 of gm",
        "repeated T + 1 times",
    ],
    "td.midpoint-hold differences": [
        "differences: layer dropped",
        "differences: -(x, one, one; x) negated",
        "differences: -(x, one, one; x) with key gam",
        "differences: -(x, one, one; x) with value y",
        "differences: -(x, one, one; x) along slot[:3] => slot[1:4]",
    ],
    "td.midpoint-hold hold": [
        "step: -(r, x, x; r) negated",
        "step: -(r, x, x; r) with query y",
        "step: +(c, one, one; r) dropped",
        "gate r: layer dropped",
        "repeated L - 1 times",
    ],
    "td.midpoint-hold instances": [
        "record: +(x, gam, gm; x) dropped",
        "record: +(x, gam, gp; x) with key one",
        "differences: layer dropped",
        "differences: -(x, one, one; x) negated",
        "step: -(one, one, one; c) dropped",
        "repeated 4 - 1 times",
    ],
    "td.midpoint-hold error": [
        "g=9/10, m=4: error lowered",
        "g=9/10, m=4: error raised",
        "g=9/10, m=4: end 0 moved by +1",
        "g=9/10, m=12: end 7 moved by -1",
        "g=4/5, m=1: end 0 moved by -1",
    ],
    "td.minimax law": [
        "g=9/10, m=5, L=None: e* lowered",
        "g=9/10, m=5, L=None: e* raised",
        "g=9/10, m=5, L=None: cover end 1 moved by +1",
        "g=9/10, m=5, L=None: packing end 2 moved by -1",
        "g=99/100, m=12, L=30: last interval dropped",
        "g=99/100, m=12, L=30: one register less",
    ],
    "td.minimax witness": [
        "m=0, g=1/2, segment 0: first reward negated",
        "m=2, g=9/10, segment 2: first reward halved",
        "m=2, g=1/2, segment 5: first successor itself",
        "m=1, g=9/10, segment 2: first reward doubled",
        "m=3, g=4/5, segment 5: first successor itself",
        "m=2, g=1/2: end 1 moved by +1",
    ],
    "td.minimax ratio": [
        "g=9/10, m=4, L=None: e* lowered",
        "g=9/10, m=4, L=None: e* doubled",
        "g=1/100, m=8, L=None: packing end 0 moved by -1",
        "g=1/2, m=2, L=None: cover end 1 moved by +1",
    ],
    "td.dimension necessary": [
        "repeated 6 - 1 times",
        "gate: layer dropped",
        "+(r, x, y; r) negated",
        "b_1 = r: layer dropped",
        "compile: +(r, x, z; r) dropped",
    ],
    "td.dimension too-small": ["k Krylov vectors: ", "k Krylov vectors doubled: ", "k iterates: ", "everything: "],
    "td.memory rank": [
        "tasks of dimension k, n = 3, k = 2, L = 3: depth -1",
        "tasks of dimension k, n = 3, k = 2, L = 2: depth +1",
        "tasks of dimension k, n = 4, k = 2, L = 3: H held",
        "tasks of dimension k, n = 4, k = 2, L = 3: B held",
        "tasks of dimension k, n = 3, k = 3, L = 4: as stochastic",
    ],
    "td.memory classes": [
        "stochastic, n = 3, k = 3, L = 4: as sub-stochastic",
        "sub-stochastic, n = 3, k = 3, L = 4: as stochastic",
        "sub-stochastic, n = 4, k = 4, L = 5: depth -1",
        "stochastic, n = 4, k = 4, L = 5: H held",
        "stochastic, n = 4, k = 4, L = 5: g held",
    ],
    "td.memory-optimal values": [
        "-(r, one, one; r) negated",
        "+(r shift', one, one; r) without mixing shift'",
        "+(r shift', one, one; r) with mixing shift",
        "+(r last, one, q; r) without mixing last",
        "+(r last, one, q; r) along source -> source",
        "-(r, x, x; r) along query => query",
        "repeated L - 1 times",
    ],
    "td.memory-optimal context": [
        "a = -t_{k+1}: -(r, t, t; q) negated",
        "+(t, shift' t, t; u) with weight shift",
        "first dead slot: layer dropped",
        "dead slots: layer dropped",
        "round 2: pass 1: -(t, y, x; t) dropped",
        "round 1: w, next: +(z, one, one; x) without source[0] -> source[1]",
    ],
    "td.memory-optimal registers": [
        "forget workspace: layer dropped",
        "forget workspace: forget q too",
        "gate: layer dropped",
        "gate of the sources: layer dropped",
    ],
    "td.memory-optimal generic": [
        "repeated 5 - 1 times",
        "a = -t_{k+1}: -(r, t, t; q) with key u",
        "first dead slot: -(c, one, one; r) dropped",
        "+(t, shift' t, t; u) without weight shift'",
    ],
    "td.memory-optimal end-to-end": [
        "repeated 6 + 1 times",
        "+(r last, one, q; r) dropped",
        "+(r shift', one, one; r) with mixing shift",
        "dead slots: layer dropped",
    ],
    "td.hessenberg values": [
        "-(r, one, one; r) dropped",
        "+(r, u, t; r) negated",
        "+(r, u, t; r) with key t",
        "-(r, x, x; r) without source => query",
        "repeated L + 1 times",
    ],
    "td.hessenberg context": [
        "round 2: pass 1: +(t, y, x; u) negated",
        "places: layer dropped",
        "collect: +(u, one, one; u) dropped",
        "round 1: pass 1: +(t, y, x; u) with key x",
    ],
    "td.hessenberg registers": [
        "forget workspace: layer dropped",
        "forget workspace: forget u too",
        "gate: layer dropped",
        "collect: +(c, one, one; c) dropped",
    ],
    "td.hessenberg generic": [
        "repeated 5 - 1 times",
        "round 1: pass 1: +(t, y, x; u) dropped",
        "round 2: A b, d: +(x, y, x; z) negated",
        "collect: layer dropped",
    ],
    "td.hessenberg end-to-end": [
        "repeated 6 - 1 times",
        "+(r, u, t; r) with query u",
        "round 1: pass 1: +(t, y, x; u) dropped",
        "-(r, one, one; r) along source => source",
    ],
    "td.lanczos values": [
        "+(r, one, q; r) negated",
        "+(r shift, one, m; r) with mixing shift'",
        "+(r shift, one, m; r) with query q",
        "+(r shift', one, one; r) without mixing shift'",
        "repeated L - 1 times",
    ],
    "td.lanczos context": [
        "count: +(x, x, x; u) dropped",
        "round 2: pass 1: +(one, y, x; m) negated",
        "round 1: pass 1: +(one, y, x; q) with key x",
        "round 2: d, next: +(one, x, u; c) with query x",
    ],
    "td.lanczos registers": [
        "forget workspace: layer dropped",
        "forget workspace: forget m too",
        "gate: layer dropped",
        "collect: +(c, one, one; c) dropped",
    ],
    "td.lanczos generic": [
        "repeated 5 - 1 times",
        "collect: +(m, one, one; m) dropped",
        "round 2: pass 1: +(one, y, x; m) with value q",
        "round 1: w: layer dropped",
    ],
    "td.lanczos end-to-end": [
        "repeated 3 - 1 times",
        "+(r shift, one, m; r) dropped",
        "-(r, one, one; r) negated",
        "count: +(x, x, x; u) with value y",
    ],
}


@pytest.mark.parametrize("name", REFUTED)
def test_named_mutants_are_refuted(name):
    claim = CLAIMS[name]
    mutants = list(mutants_of(claim))
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
