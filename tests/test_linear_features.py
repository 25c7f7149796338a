"""Batch TD on linear features: against plain fractions, both evaluations, the step, sizes, what is refused."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp
from flint import fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.construction import last
from constructions.errors import BadInput
from constructions.exact import RATIONALS, Balls
from constructions.program import Program
from constructions.temporal_difference import krylov, linear_features
from constructions.temporal_difference.full_context import FeatureLog
from constructions.temporal_difference.linear_features import BatchTask
from numerics import feature_tasks
from numerics.temporal_difference import linear_features as measured
from numerics.temporal_difference.krylov import VARIANTS
from numerics.torch_arithmetic import TorchArithmetic
from proofs_check.claim import Verdict
from proofs_check.mutants import program_mutants
from proofs_check.mutation import sampled
from proofs_check.temporal_difference import linear_features as proofs
from proofs_check.temporal_difference import log_jacobians, memory
from proofs_check.temporal_difference.krylov import krylov_rank

SMALL = st.integers(-3, 3).map(lambda x: Fraction(x, 2))


@st.composite
def logs(draw):
    """Small logs of any rank: features, successors, rewards and queries all free."""
    d, transitions = draw(st.integers(1, 3)), draw(st.integers(1, 4))

    def table(rows):
        return draw(st.lists(st.lists(SMALL, min_size=d, max_size=d), min_size=rows, max_size=rows))

    rewards = draw(st.lists(SMALL, min_size=transitions, max_size=transitions))
    g = Fraction(draw(st.integers(1, 4)), 4)
    return FeatureLog(table(transitions), table(transitions), rewards, table(2), g, "drawn")


def batch_td(log, step, depth):
    """phi_q'w_l at every depth, in plain fractions, sample by sample."""
    w = [Fraction(0)] * log.dimension
    out = []
    for _ in range(depth + 1):
        out.append([sum(a * b for a, b in zip(q, w, strict=True)) for q in log.queries])
        moved = list(w)
        for phi, after, reward in zip(log.features, log.successors, log.rewards, strict=True):
            ahead = log.discount * sum(a * b for a, b in zip(after, w, strict=True))
            delta = reward + ahead - sum(a * b for a, b in zip(phi, w, strict=True))
            moved = [m + step * delta * x for m, x in zip(moved, phi, strict=True)]
        w = moved
    return out


@settings(max_examples=25, deadline=None)
@given(logs(), st.integers(1, 4), st.sampled_from(["1/3", "2", "7/5"]))
def test_whole_program_is_batch_td(log, depth, step):
    task = BatchTask(log, step)
    expected = RATIONALS.matrix(batch_td(log, task.step, depth))
    built = linear_features.construction(task.n, depth)
    assert built.outputs(task, RATIONALS) == expected
    assert built.reference(task, RATIONALS) == expected
    assert built.outputs(task, RATIONALS, faithful=True) == expected


@settings(max_examples=40, deadline=None)
@given(logs(), st.integers(1, 4))
def test_the_dimension_does_not_depend_on_the_step(log, depth):
    tasks = [BatchTask(log, step) for step in ("1/3", "5")]
    A_N, b_N = tasks[0].moments
    powers = [b_N]
    for _ in range(depth - 1):
        powers.append(A_N * powers[-1])
    ranks = {krylov_rank(task, depth) for task in tasks} | {RATIONALS.stack([powers]).rank()}
    assert len(ranks) == 1
    assert measured.dimension(tasks[0], depth) == ranks.pop()


def test_tilings_that_sum_to_one_lose_a_dimension():
    log = feature_tasks.tiled_walk(6, 2, 3, 200)
    task = BatchTask(log, "1/200")
    # Tiles of the first tiling: cells 0..2 and 3..5; of the second: 0..1, 2..4, 5.
    difference = fmpq_mat(task.n, 1, [1, 1, -1, -1, -1])
    assert task.moments[0] * difference == difference * 0
    assert task.moments[0].rank() == task.n - 1
    assert measured.dimension(task, 20) <= task.n - 1


def test_registers_and_sizes_of_the_built_program():
    task = BatchTask(feature_tasks.with_dependent_feature(feature_tasks.random_chain(4, 3, 12)), "1/8")
    built = linear_features.encoder(4, 9)
    kept = last(built.program.steps(built.encode(task, RATIONALS), RATIONALS))
    assert kept.total("source") == krylov_rank(task, 9) == 3
    assert krylov.registers(kept, RATIONALS) == (2 * 4 + 1) * 3
    assert built.program.width == 4 * 4 + 6
    stage_1 = linear_features.moment_layers()
    assert [len(layer.heads) for layer in stage_1[:2]] == [3, 4]
    assert not any("recip_0" in text for layer in stage_1 for _, text in layer.describe())


def test_every_mutant_of_stage_1_is_refuted(mutants_a_theorem):
    """Six of 153 changes, or all of them: none is equivalent."""
    program = Program("stage 1", linear_features.layout(proofs.D), ("raw", "state"), linear_features.moment_layers())
    for mutant in sampled(program_mutants(program), mutants_a_theorem and 6, seed=0):
        verdicts = [prove(mutant.subject).verdict for prove in (proofs.prove_step, proofs.prove_moments)]
        assert Verdict.REFUTED in verdicts, mutant.text


@pytest.mark.parametrize("step", [0, -1, "x", None, float("nan")])
def test_steps_that_are_refused(step):
    with pytest.raises(BadInput, match="expected a positive rational step"):
        BatchTask(feature_tasks.boyan_chain(3), step)


def test_sizes_that_are_refused():
    for build in (linear_features.construction, linear_features.encoder):
        for arguments in ((0, 3), (True, 3), (3, 0), (2.0, 3)):
            with pytest.raises(BadInput, match="expected a positive"):
                build(*arguments)
        with pytest.raises(BadInput, match="expected 3 features, as the construction was built for, found 4"):
            build(3, 2).outputs(BatchTask(feature_tasks.boyan_chain(5), 1), RATIONALS)


def test_jacobian_is_the_derivative_of_batch_td():
    """Steps of batch TD as polynomials in e, one entry of the log moved by e; no dual numbers, no M."""
    p, case = 10_007, log_jacobians.LogJacobian(2, 2, 2, 3, 6)
    J = log_jacobians.log_jacobian(case, random.Random(3), p)
    rng, e = random.Random(3), sp.Symbol("e")
    drawn = {name: memory.random_rows(rng, p, *shape) for name, shape in case.shapes.items()}
    point = {name: sp.Matrix([[int(x) for x in row] for row in value.tolist()]) for name, value in drawn.items()}
    a, g = rng.randrange(1, p), rng.randrange(1, p)
    places = [
        (name, i, j) for name, (rows, columns) in case.shapes.items() for i in range(rows) for j in range(columns)
    ]
    assert J.nrows() == len(places)
    for row, (name, i, j) in enumerate(places):
        x = {letter: value.copy() for letter, value in point.items()}
        x[name][i, j] += e
        X, w, slopes = x["T"] * x["C"], sp.zeros(2, 1), []
        for _ in range(case.depth):
            moved = (w + a * X * (x["R"] + g * w.T * x["Y"] - w.T * X).T).expand()
            slopes += [int(entry.diff(e).subs(e, 0)) % p for entry in moved - w]
            w = moved
        assert slopes == [int(J[row, column]) for column in range(J.ncols())]


def test_the_rank_does_not_need_successors_or_rewards_to_move():
    """The bound holds for smaller classes too: successors known, or rewards known, or coordinates c_t known."""
    for held in ("C", "Y", "R"):
        case = replace(log_jacobians.LogJacobian(4, 2, 3, 3, 10), held=(held,))
        assert log_jacobians.prove_ranks([case]).verdict is Verdict.PROVED


def test_measurements_are_sound():
    log = feature_tasks.with_unit_queries(feature_tasks.tiled_walk(8, 3, 3, 40))
    task = BatchTask(log, "1/40")
    found = {
        name: measured.measure_one(task, 10, variant, arithmetic, 0)
        for name, variant, arithmetic in (
            ("float64", VARIANTS[2], TorchArithmetic("float64")),
            ("float32", VARIANTS[1], TorchArithmetic("float32")),
            ("balls", VARIANTS[2], Balls(256)),
            ("Q", VARIANTS[0], RATIONALS),
        )
    }
    assert all(row.sound for row in found.values())
    assert 0 < found["float64"].error.relative < 1e-13
    assert 1e-9 < found["float32"].error.relative < 1e-4
    assert found["balls"].error.contained
    assert found["balls"].error.radius < 1e-40
    assert found["Q"].error.absolute == found["Q"].bound == 0
