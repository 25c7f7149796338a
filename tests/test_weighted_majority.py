"""online.weighted-majority: four realisations against direct formulas, in every arithmetic; bad input; every weight."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.exact import RATIONALS, Balls
from constructions.logarithms import Logarithms
from constructions.online_learning import expert_weights, fixed_share, hedge, weighted_majority
from constructions.online_learning.experts import (
    ExpertTask,
    cayley_basis,
    householder_basis,
    one_hot_basis,
    orthonormal,
)
from constructions.online_learning.regret import bounds, record
from constructions.online_learning.rounds import hidden
from numerics import expert_tasks
from numerics.online_learning import fixed_share as fixed_share_measured
from numerics.online_learning import hedge as hedge_measured
from numerics.online_learning.weighted_majority import measure_state, reproduce_regret
from numerics.torch_arithmetic import TorchArithmetic
from proofs_check.claim import Verdict
from proofs_check.mutation import judge, sampled
from proofs_check.online_learning import one_round, token_table

VARIANTS = list(weighted_majority.VARIANTS)
EPS = Fraction(1, 3)
EXACT = Logarithms()


def built(variant, task, leak=Fraction(1, 5), basis=None):
    return weighted_majority.construction(variant, task.n, task.outcomes, task.eps, leak=leak, basis=basis)


def plain_weights(task):
    """Weights before each round and at the end, by a loop of its own."""
    w, out = list(task.weights), []
    for said, label in zip(task.predictions, task.labels, strict=True):
        out.append(list(w))
        w = [x if p == label else x * (1 - task.eps) for x, p in zip(w, said, strict=True)]
    return [*out, w]


@st.composite
def tasks(draw):
    n, outcomes, rounds = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    label = st.integers(0, outcomes - 1)
    predictions = draw(st.lists(st.tuples(*[label] * n), min_size=rounds, max_size=rounds))
    labels = draw(st.lists(label, min_size=rounds, max_size=rounds))
    eps = draw(st.fractions("1/9", "8/9", max_denominator=9))
    weights = draw(st.lists(st.fractions("1/9", 9, max_denominator=9), min_size=n, max_size=n))
    return ExpertTask(tuple(predictions), tuple(labels), outcomes, eps, tuple(weights))


@settings(max_examples=12)
@given(tasks(), st.sampled_from(VARIANTS), st.fractions("1/9", 9, max_denominator=9), st.booleans())
def test_rounds_equal_a_plain_loop(task, variant, leak, rotated):
    basis = householder_basis(range(1, task.n + 2), task.n) if rotated else one_hot_basis(task.n)
    construction = built(variant, task, leak, basis)
    answer = construction.outputs(task, EXACT)
    d, K, J = len(basis[0]), task.outcomes, weighted_majority.FOREIGN[variant]
    weights = plain_weights(task)
    for t in range(task.rounds):
        masses = [sum((x for x, p in zip(weights[t], task.predictions[t], strict=True) if p == k), 0) for k in range(K)]
        total = sum(weights[t]) + J * leak
        column = answer[:, t : t + 1]
        logs = EXACT.matmul(EXACT.matrix(basis), column[:d])
        assert (EXACT.exp(logs) == EXACT.matrix([[x] for x in weights[t + 1]])).all()
        assert (column[d : d + K] == EXACT.matrix([[m / total] for m in masses])).all()
        assert (column[d + K : d + 2 * K] == EXACT.matrix([[m / sum(weights[t])] for m in masses])).all()
        assert (column[d + 2 * K :] == EXACT.scalar(0)).all()


@pytest.mark.parametrize("variant", VARIANTS)
def test_fused_equals_faithful(variant):
    task = expert_tasks.sampled_experts(3, 3, "1/4", 3, 1, weighted=True)
    construction = built(variant, task, basis=cayley_basis([[1, 2, -1], [1, 3], [2]])[:3])
    assert (construction.outputs(task, EXACT) == construction.outputs(task, EXACT, faithful=True)).all()
    for dtype in ("float64", "float32"):
        run = TorchArithmetic(dtype)
        one, other = construction.outputs(task, run), construction.outputs(task, run, faithful=True)
        np.testing.assert_allclose(one, other, atol=100 * float(run.format.unit_roundoff))


@pytest.mark.parametrize("variant", VARIANTS)
def test_feedback_is_the_whole_hidden_vector(variant):
    """What is left in any field comes back: a label flag that is not cleared changes the next round."""
    task = expert_tasks.sampled_experts(2, 2, "1/4", 2, 3)
    construction = built(variant, task)
    (*_, (_, first)), (*_, (_, second)) = construction.runs(task, EXACT)
    fed = construction.fed_back(first, EXACT)
    assert set(fed) == set(construction.program.layout)
    assert (fed["S"] == first.blocks["label", "S"]).all()
    assert fed["tC"][0, 0] == 1
    assert all((block == EXACT.scalar(0)).all() for field, block in fed.items() if field not in ("S", "tC"))
    assert set(hidden(second, "label", construction.program.layout, EXACT)) == set(fed)


def test_leak_tends_to_one():
    task = ExpertTask(((0, 0, 0),) * 40, (1,) * 40, 2, EPS)
    for variant, J in weighted_majority.FOREIGN.items():
        O = built(variant, task, leak=Fraction(1)).outputs(task, EXACT)[3:5]
        leaks = [1 - float(Fraction(int(x.plain.p), int(x.plain.q))) for x in (O[0, 0] + O[1, 0], O[0, -1] + O[1, -1])]
        assert leaks[0] == pytest.approx(J / (3 + J))
        assert leaks[1] == 0 if J == 0 else leaks[1] > 0.999


def test_state_bits_do_not_depend_on_the_realisation():
    """With unit vectors S is the scalar recursion, bit by bit: one addition of the same constant a mistake."""
    task = expert_tasks.sampled_experts(4, 12, "1/10", 3, 2)
    for dtype in ("float32", "float16"):
        run = TorchArithmetic(dtype)
        e = run.matrix([[sp.log(sp.Rational(9, 10))]])[0, 0]
        state = run.matrix([[0]] * 4)
        for t in range(task.rounds):
            state = state + run.matrix([[int(x)] for x in task.wrong(t)]) * e
        for variant in VARIANTS[:3]:
            assert (built(variant, task).outputs(task, run)[:4, -1:] == state).all()


@pytest.mark.parametrize("arithmetic", [TorchArithmetic("float32"), TorchArithmetic("bfloat16"), Balls(128), EXACT])
def test_measurements_are_sound(arithmetic):
    task = expert_tasks.sampled_experts(3, 20, "1/10", 2, 0, weighted=True)
    found = measure_state(built("one_block", task), task, arithmetic, 0)
    assert found.sound
    assert found.bound < 1


@pytest.mark.parametrize("room", [hedge_measured, fixed_share_measured])
def test_hedge_and_fixed_share_are_measured_soundly(room):
    found = room.measure(seed=1)
    assert {m.arithmetic.partition(",")[0] for m in found} >= {"torch float32", "torch float64", "mpmath", "Arb balls"}
    assert all(m.sound and "clean: no" not in m.flags for m in found)
    assert all(m.bound < 2000 * m.error.absolute for m in found if "float" in m.arithmetic)
    assert [m.error.absolute for m in found if m.arithmetic.startswith(("exact Q", "Q with"))] == [0]


def test_a_round_of_fixed_share_does_not_stretch_its_norm():
    """On unit vectors, on the names, and on vectors across both."""
    task = expert_tasks.sampled_experts(3, 1, "1/4", 3, 2)
    construction = fixed_share.construction(3, 3, task.eps, Fraction(1, 10), basis=householder_basis([1, 2, 3, 4], 3))
    context = dict(construction.round.begin(task, RATIONALS))
    U = construction.round.enter(task, 0, context, RATIONALS).blocks["expert", "I"]
    columns = [*np.eye(4, dtype=int).tolist(), [1, 2, 3, 4], [3, -1, 2, -5]]
    for x in [RATIONALS.matrix([[entry] for entry in column]) for column in columns] + [
        RATIONALS.columns(U, i, i + 1) for i in range(3)
    ]:
        tokens = construction.round.enter(task, 0, {**context, "S": x}, RATIONALS)
        after = construction.program.run(tokens, RATIONALS).blocks["label", "S"]
        assert fixed_share_measured.norm(after, U) <= fixed_share_measured.norm(x, U)
    # Across the names the norm is Euclidean; the fourth vector of the reflection is orthogonal to them.
    left_out = RATIONALS.matrix([[entry] for entry in householder_basis([1, 2, 3, 4])[3]])
    assert float(fixed_share_measured.norm(left_out, U)) == 1


def test_residuals_see_one_changed_state():
    """A state that is off by one in one round: that round's residual is one, the next one's at most one."""
    task = expert_tasks.sampled_experts(3, 4, "1/4", 2, 0, weighted=True)
    construction = fixed_share.construction(3, 2, task.eps, Fraction(1, 10))
    states = RATIONALS.rows(construction.reference(task, RATIONALS), 0, 3)
    assert fixed_share_measured.residual_sum(construction, task, states) == 0
    states[1, 2] += 1
    assert 1 < fixed_share_measured.residual_sum(construction, task, states) <= 2


def test_adversaries_and_bounds():
    rows = {row["quantity"]: row for row in reproduce_regret()}
    assert all(row["agrees"] is not False for row in rows.values())
    assert rows["balanced split: mistakes / potential bound"]["ours"] >= 0.95
    assert rows["against random experts: mistakes, potential bound"]["ours"] == 60
    task = expert_tasks.perfect_expert(5, 20)
    found = record(built("replica", task), task)
    assert (found.best, found.potential_holds) == (0, True)
    assert found.mistakes <= bounds(task, 0)["potential"]


def test_every_weight_sampled(request):
    """Single weights zeroed, negated, doubled: refuted, or proved equivalent from an arbitrary state."""
    cases = [one_round.RoundCase(variant, one_hot_basis(2)) for variant in VARIANTS]
    everything = list(one_round.round_mutants(cases))
    assert len(everything) == 402
    _judged(sampled(everything, None if request.config.getoption("--full") else 24, 0))


@pytest.mark.slow
def test_every_weight():
    cases = [one_round.RoundCase(variant, one_hot_basis(2)) for variant in VARIANTS]
    assert _judged(list(one_round.round_mutants(cases))) == {"refuted": 386, "equivalent": 16}


def _judged(mutants):
    judged = [judge(mutant, [("one round", one_round.prove_rounds)]) for mutant in mutants]
    outcomes = Counter(j.outcome for j in judged)
    assert outcomes["undecided"] == 0, [j.mutant.text for j in judged if j.outcome == "undecided"]
    # Larger gates of units that are off anyway, or slopes that cut nothing: nothing else may survive.
    assert all("doubled" in j.mutant.text and "W[unit" in j.mutant.text for j in judged if j.outcome == "equivalent")
    return dict(outcomes)


@pytest.mark.parametrize("variant", ["one_block", "two_layer", "replica"])
def test_hedge(variant):
    """The distribution of a plain loop, and the losses that it expects."""
    task = expert_tasks.sampled_losses(3, 4, seed=1)
    construction = hedge.construction(variant, 3, task.root, task.parts, leak=Fraction(1, 2))
    answer, w = construction.outputs(task, EXACT), list(task.weights)
    for t, losses in enumerate(task.losses):
        total = sum(w) + weighted_majority.FOREIGN[variant] * Fraction(1, 2)
        assert (answer[3:6, t : t + 1] == EXACT.matrix([[x / total] for x in w])).all()
        w = [x * task.root ** int(loss * task.parts) for x, loss in zip(w, losses, strict=True)]
    with pytest.raises(BadInput, match="losses in \\[0, 1\\], multiples of 1/4, found 1/3"):
        hedge.LossTask(((Fraction(1, 3),),), Fraction(1, 2), 4)
    with pytest.raises(BadInput, match="root: expected a number strictly between 0 and 1, found 2"):
        hedge.construction(variant, 3, Fraction(2), 4)


def test_fixed_share():
    """Against a plain loop; the total is what the mistakes leave, and no weight dies out."""
    task = expert_tasks.sampled_experts(3, 8, "1/2", 2, 4)
    share = Fraction(1, 5)
    construction = fixed_share.construction(3, 2, task.eps, share, basis=householder_basis([1, 2, 3, 4], 3))
    answer, w = construction.outputs(task, RATIONALS), list(task.weights)
    for t in range(task.rounds):
        masses = [sum((x for x, p in zip(w, task.predictions[t], strict=True) if p == k), Fraction(0)) for k in (0, 1)]
        assert [Fraction(int(x.p), int(x.q)) for x in RATIONALS.columns(answer, t, t + 1).entries()[4:6]] == masses
        lost = [x * Fraction(1, 2) if erred else x for x, erred in zip(w, task.wrong(t), strict=True)]
        w = [(1 - share) * x + share * sum(lost) / 3 for x in lost]
        assert min(w) >= share * sum(w) / 3
    for faithful in (False, True):
        assert construction.outputs(task, RATIONALS, faithful=faithful) == construction.reference(task, RATIONALS)
    with pytest.raises(BadInput, match="share: expected a number strictly between 0 and 1, found 0"):
        fixed_share.construction(3, 2, EPS, Fraction(0))


def test_public_matrices_are_what_the_table_assumes():
    """The hypotheses of the table on entries: names of a reflection, three labels, every prediction and label."""
    basis, K = householder_basis([1, 2, 3, 4], 3), 3
    weights = expert_weights.Weights(3, 4, K, Fraction(2, 3), Fraction(1, 5), basis)
    U, by_name = EXACT.matrix(weights.columns), weights.by_name().array(9, 12, EXACT)
    assert (EXACT.matrix(np.eye(3, dtype=int).tolist()) == U.T @ U).all()
    e = EXACT.log(EXACT.matrix([[Fraction(2, 3)]]))[0, 0]
    penalty, half = weights.penalty().array(K, K, EXACT), weights.half_penalty().array(4, 9, EXACT)
    by_label = weights.by_label().array(9, K, EXACT)
    for said in itertools.product(range(K), repeat=3):
        P = weighted_majority.one_hot(said, K)
        A = EXACT.matrix([[sum(P[k][i] * row[i] for i in range(3))] for k in range(K) for row in weights.columns])
        coordinates = EXACT.matmul(by_name, A)
        assert (coordinates == EXACT.matrix([[x] for row in P for x in row])).all()
        assert (EXACT.matmul(by_name.T, coordinates) == A).all()
        for label in range(K):
            y = EXACT.matrix(weighted_majority.one_hot([label], K))
            wrong = EXACT.matrix([[int(x != label)] for x in said])
            gap = EXACT.add(coordinates, EXACT.negate(EXACT.matmul(by_label, y)))
            distance = EXACT.add(EXACT.relu(gap), EXACT.relu(EXACT.negate(gap)))
            assert (EXACT.matmul(EXACT.matrix(P).T, EXACT.matmul(penalty.T, y)) == wrong * e).all()
            assert (EXACT.matmul(half, distance) == EXACT.matmul(U, wrong * e)).all()


def test_table_says_what_the_output_is():
    (case,) = [token_table.table_case("replica")]
    finding = token_table.prove_table([case])
    assert finding.verdict is Verdict.PROVED
    assert finding.evidence["replica"]["label.S"] == "U l + U P' e(J-I) y"


def test_bad_input_is_one_sentence():
    ok = {"predictions": ((0, 1),), "labels": (1,), "outcomes": 2, "eps": EPS}
    for change, text in (
        ({"eps": 1}, "eps: expected a number strictly between 0 and 1, found 1"),
        ({"eps": "-1/2"}, "eps: expected a number strictly between 0 and 1"),
        ({"predictions": ((),)}, "at least one round and one expert"),
        ({"predictions": ((0, 2),)}, "expert 1: expected a label from 0 to 1, found 2"),
        ({"labels": (5,)}, "the label: expected a label from 0 to 1, found 5"),
        ({"labels": (0, 1)}, "expected 1 labels, found 2"),
        ({"weights": (Fraction(1), Fraction(0))}, "expected 2 positive initial weights, found 1, 0"),
    ):
        with pytest.raises(BadInput, match=text):
            ExpertTask(**{**ok, **change})
    for vectors, text in (
        (((1, 0), (1, 0)), "<u_0, u_1> = 0, found 1"),
        (((1, 1),), "<u_0, u_0> = 1, found 2"),
        ((), "at least one vector"),
    ):
        with pytest.raises(BadInput, match=text):
            orthonormal(vectors)
    for arguments, text in (
        (("five_block", 2, 2, EPS), "expected one of one_block, two_layer"),
        (("one_block", 0, 2, EPS), "positive number of experts, found 0"),
        (("one_block", 2, 2, Fraction(3, 2)), "eps: expected a number strictly between 0 and 1, found 3/2"),
    ):
        with pytest.raises(BadInput, match=text):
            weighted_majority.construction(*arguments)
    with pytest.raises(BadInput, match="expected a basis of 3 vectors, found 2"):
        weighted_majority.construction("one_block", 3, 2, EPS, basis=one_hot_basis(2))
    with pytest.raises(BadInput, match="expected a task with n = 3, K = 2, eps = 1/3, found n = 2"):
        weighted_majority.construction("one_block", 3, 2, EPS).outputs(ExpertTask(**ok), EXACT)
