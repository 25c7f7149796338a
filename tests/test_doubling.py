"""A depth-L query by doubling: the answers of direct iteration, layers and width, both evaluations, long depths."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference import doubling
from numerics import tasks
from numerics.temporal_difference import doubling as measured
from numerics.torch_arithmetic import TorchArithmetic
from proofs_check.claim import Verdict
from proofs_check.mutants import Mutant, program_mutants
from proofs_check.mutation import sampled
from proofs_check.temporal_difference import doubling as proofs


def iterated(task, depth):
    """v_depth in Python's fractions, state by state."""
    A = [[Fraction(int(x.p), int(x.q)) for x in row] for row in task.A.tolist()]
    r = [Fraction(int(x.p), int(x.q)) for (x,) in task.r.tolist()]
    v = [Fraction(0)] * task.n
    for _ in range(depth):
        v = [r[i] + sum(a * x for a, x in zip(A[i], v, strict=True)) for i in range(task.n)]
    return v


@given(depth=st.integers(1, 70), n=st.integers(1, 4), seed=st.integers(0, 20), ends=st.booleans(), whole=st.booleans())
def test_any_depth_equals_direct_iteration(depth, n, seed, ends, whole):
    task = tasks.dirichlet_chain(n=n, transitions=4 * n, seed=seed)
    task = tasks.with_terminal(task, 0.3, seed) if ends else task
    built = (doubling.construction if whole else doubling.from_context)(n, depth)
    found = built.outputs(task, RATIONALS)
    assert [Fraction(int(x.p), int(x.q)) for x in found.entries()] == iterated(task, depth)


@pytest.mark.parametrize("depth", [1, 2, 3, 8, 13])
def test_faithful_and_fused_agree(depth):
    for task in (tasks.block_cycle(n=4, blocks=2, transitions=8), tasks.dirichlet_chain(n=3, transitions=9)):
        for built in (doubling.construction(task.n, depth), doubling.from_context(task.n, depth)):
            assert built.outputs(task, RATIONALS, faithful=True) == built.outputs(task, RATIONALS)


def test_layers_and_width():
    for depth in (1, 2, 3, 64, 100, 10**6):
        program = doubling.from_context(8, depth).program
        assert program.attention_layers == len(f"{depth:b}") + 2
    for n in (1, 2, 5, 24):
        assert doubling.from_context(n, 30).program.width <= 7 * n + 4
        assert doubling.construction(n, 30).program.width <= 7 * n + 4


def test_zero_rewards_give_zero():
    task = tasks.with_zero_rewards(tasks.dirichlet_chain(n=3, transitions=9))
    for built in (doubling.construction(3, 5), doubling.from_context(3, 5)):
        assert all(x == 0 for x in built.outputs(task, RATIONALS).entries())


@pytest.mark.parametrize("arguments", [(0, 3), (3, 0), (3, -1), (3, True), (3, 2.0)])
def test_bad_sizes_are_refused(arguments):
    for build in (doubling.construction, doubling.from_context):
        with pytest.raises(BadInput, match=r"td\.(doubling|krylov|statistics)"):
            build(*arguments)
    with pytest.raises(BadInput, match="expected 4 states"):
        doubling.construction(4, 3).outputs(tasks.half_ring(n=2), RATIONALS)


def test_every_mutant_of_the_layers_is_refuted_or_equivalent(mutants_a_theorem):
    """The one equivalent change forgets a field that is still zero."""
    (claim,) = [c for c in proofs.claims(list, list, list) if c.name == "layers-44"]
    chosen = sampled(program_mutants(claim.build()), mutants_a_theorem and 25, seed=1)
    survivors = {m.text: claim.certify(m.subject).verdict for m in chosen}
    survivors = {text: verdict for text, verdict in survivors.items() if verdict is not Verdict.REFUTED}
    assert set(survivors) <= {"forget Y: forget q too"}
    assert set(survivors.values()) <= {Verdict.PROVED}


def test_digits_are_looked_at_one_by_one():
    built = proofs.build_all()[:40]
    assert proofs.prove_digits(built).verdict is Verdict.PROVED
    swapped = [proofs.Built(44, doubling.doubling_program(proofs.N, proofs.HEIGHT, 42))]
    assert proofs.prove_digits(swapped).verdict is Verdict.REFUTED
    assert all(isinstance(m, Mutant) for m in proofs.digit_mutants(built))


def test_float64_at_long_depths_lies_within_its_bound():
    depth = 10**5
    task = tasks.dirichlet_chain(n=3, transitions=12, discount="99999/100000")
    built = doubling.from_context(3, depth)
    value = built.outputs(task, TorchArithmetic("float64"))
    bound = measured.depth_bound(value, task, depth)
    exact, reference = measured.value_at(task, depth)
    assert "512 bits" in reference
    error = measured.error_against(value, exact)
    assert error.absolute <= bound
    assert error.relative < 1e-9
    wrong = measured.error_against(doubling.from_context(3, 99_900).outputs(task, TorchArithmetic("float64")), exact)
    assert wrong.relative > 1e-5
