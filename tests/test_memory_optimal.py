"""The contexts that keep fewer registers than Z_0: sizes, heads, exact answers, both evaluations, every mutant."""

from collections import Counter

import pytest

from constructions.construction import last
from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference import hessenberg, krylov, lanczos, memory_optimal
from numerics import reversible_tasks, tasks
from proofs_check.claim import Finding, Verdict
from proofs_check.mutants import program_mutants
from proofs_check.mutation import judge, sampled
from proofs_check.schwartz_zippel import prove_cases
from proofs_check.temporal_difference import hessenberg as hessenberg_proofs
from proofs_check.temporal_difference import lanczos as lanczos_proofs
from proofs_check.temporal_difference import memory_optimal as proofs
from proofs_check.temporal_difference.generic_tasks import Sizes, case

MODULES = {
    "memory-optimal": (memory_optimal, proofs),
    "hessenberg": (hessenberg, hessenberg_proofs),
    "lanczos": (lanczos, lanczos_proofs),
}


def kept(module, task, depth):
    """The tokens after the encoder, in Q."""
    built = module.encoder(task.n, depth)
    return last(built.program.steps(built.encode(task, RATIONALS), RATIONALS))


def test_the_block_cycle_keeps_300_registers():
    task = tasks.block_cycle()
    assert memory_optimal.registers(kept(memory_optimal, task, 30), RATIONALS) == 24 * 12 + 12 == 300
    assert hessenberg.registers(kept(hessenberg, task, 30), RATIONALS) == 24 * 12 + 12 * 13 // 2 == 366
    assert krylov.exact_context(task, 30).ncols() * (2 * 24 + 1) == 588


def test_lanczos_keeps_nk_plus_2k_minus_1():
    task = reversible_tasks.birth_death_chain(6)
    assert lanczos.registers(kept(lanczos, task, 12), RATIONALS) == 6 * 6 + 2 * 6 - 1


@pytest.mark.parametrize("name", MODULES)
def test_sizes_of_the_programs(name):
    module, _ = MODULES[name]
    n, h, passes = 5, 4, 2
    encoder = module.encoder_program(n, h, passes)
    width = {"memory-optimal": 3 * n + 2 * h + 5, "hessenberg": 3 * n + 2 * h + 5, "lanczos": 4 * n + 6}[name]
    first, each = {"memory-optimal": (4, 2), "hessenberg": (3, 2), "lanczos": (2, 3)}[name]
    assert (encoder.width, encoder.attention_layers) == (width, 2 + first + (each + passes) * h)
    heads = {"memory-optimal": 4, "hessenberg": 3, "lanczos": 5}[name]
    executor = module.from_context(n, 6).program
    assert (len(executor.heads), executor.attention_layers) == (heads, 6)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("depth", [1, 2, 4, 7])
def test_faithful_and_fused_agree_with_td(name, depth):
    """L below, at and beyond k; the dense run has public matrices on scores and along routes to the token itself."""
    module, _ = MODULES[name]
    for task in (reversible_tasks.birth_death_chain(4), reversible_tasks.symmetric_chain(3, 5)):
        for built in (module.construction(task.n, depth, passes=2), module.from_context(task.n, depth)):
            right = built.reference(task, RATIONALS)
            assert built.outputs(task, RATIONALS) == right
            assert built.outputs(task, RATIONALS, faithful=True) == right


def test_below_k_the_coefficients_are_those_of_the_projection():
    task = tasks.dirichlet_chain(n=4, transitions=24)
    context = memory_optimal.encoder(4, 2).outputs(task, RATIONALS)
    B, a = RATIONALS.rows(context, 0, 4), RATIONALS.rows(context, 4, 5).transpose()
    missed = task.A * task.A * task.r - B * a
    assert missed != missed * 0
    assert all(x == 0 for x in (B.transpose() * missed).entries())


@pytest.mark.parametrize("name", MODULES)
def test_bad_sizes_are_refused(name):
    module, _ = MODULES[name]
    for arguments in ((0, 3), (3, 0), (True, 2)):
        with pytest.raises(BadInput):
            module.construction(*arguments)
    with pytest.raises(BadInput, match="at most n = 3 rounds, found 5"):
        module.encoder(3, 5, rounds=5)
    with pytest.raises(BadInput, match="expected 4 states"):
        module.construction(4, 3).outputs(reversible_tasks.birth_death_chain(3), RATIONALS)


@pytest.mark.parametrize("name", MODULES)
def test_every_executor_mutant_is_refuted_or_equivalent(name):
    (claim,) = [c for c in _claims(name) if c.name == "values"]
    outcomes = {m.text: claim.certify(m.subject) for m in program_mutants(claim.build())}
    survivors = {text: c for text, c in outcomes.items() if c.verdict is not Verdict.REFUTED}
    print(name, Counter(str(c.verdict) for c in outcomes.values()), list(survivors))
    assert all(c.verdict is Verdict.PROVED for c in survivors.values()), survivors
    assert len(survivors) < len(outcomes) / 8


def _claims(name):
    _, room = MODULES[name]
    return room.claims(list, list, list)


@pytest.mark.parametrize("name", MODULES)
def test_encoder_mutants_are_refuted_or_equivalent(name, mutants_a_theorem):
    """Equivalent: the same context on generic tasks of every Krylov dimension at n = 3 (Schwartz-Zippel)."""
    _, room = MODULES[name]
    strata = [Sizes(3, k, 0, 3) for k in (3, 2, 1)]
    cases = room.generic_cases(strata)

    def certificate(program):
        return prove_cases([case(program, room.generic_difference, s, "context") for s in strata])

    assert certificate(cases[0].program).verdict is Verdict.PROVED
    chosen = sampled(program_mutants(cases[0].program), mutants_a_theorem, seed=0)
    judged = [judge(mutant, [("strata", _guarded(certificate))]) for mutant in chosen]
    outcomes = Counter(j.outcome for j in judged)
    print(name, dict(outcomes), [j.mutant.text for j in judged if j.outcome != "refuted"])
    assert outcomes["undecided"] == 0, [j.mutant.text for j in judged if j.outcome == "undecided"]
    assert outcomes["refuted"] > outcomes["equivalent"]


def _guarded(certificate):
    def run(subject):
        try:
            return certificate(subject)
        except BadInput as error:
            return Finding(Verdict.REFUTED, {"failure": str(error)})

    return run
