"""The executor by softmax attention: direct iteration in Q, both evaluations, what is compiled, why delta and null."""

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st

from constructions.errors import BadInput, Unsupported
from constructions.exact import RATIONALS, Balls
from constructions.logarithms import Logarithms, UnfactoredField
from constructions.temporal_difference import softmax_executor
from constructions.temporal_difference.softmax_executor import CONTEXTS, PARTS, from_context, public_total
from numerics import tasks
from numerics.temporal_difference import softmax_executor as measured
from numerics.torch_arithmetic import TorchArithmetic
from proofs_check.temporal_difference.softmax_facts import with_logarithms

CHAIN = tasks.dirichlet_chain(n=3, transitions=12)


def iterated(task, depth):
    """v_0 .. v_depth in Python's fractions, state by state."""
    A = [[Fraction(int(x.p), int(x.q)) for x in row] for row in task.A.tolist()]
    r = [Fraction(int(x.p), int(x.q)) for (x,) in task.r.tolist()]
    rows = [[Fraction(0)] * task.n]
    for _ in range(depth):
        rows.append([r[i] + sum(a * x for a, x in zip(A[i], rows[-1], strict=True)) for i in range(task.n)])
    return rows


def as_fractions(matrix):
    return [[Fraction(int(x.p), int(x.q)) for x in row] for row in matrix.tolist()]


@given(
    kind=st.sampled_from(CONTEXTS),
    n=st.integers(1, 4),
    depth=st.integers(1, 6),
    seed=st.integers(0, 30),
    ends=st.booleans(),
    g=st.sampled_from(["1/100", "1/2", "9/10"]),
    delta=st.sampled_from([Fraction(1, 256), Fraction(3)]),
)
def test_it_equals_direct_iteration(kind, n, depth, seed, ends, g, delta):
    """Neither delta nor the kind of context shows in the values, and K exceeds the row sums of every task."""
    task = tasks.dirichlet_chain(n=n, transitions=4 * n, discount=g, seed=seed)
    task = tasks.with_terminal(task, 0.3, seed) if ends else task
    found = with_logarithms(from_context(n, depth, g, kind, delta), task)
    assert as_fractions(found) == iterated(task, depth)


@pytest.mark.parametrize("kind", CONTEXTS)
def test_faithful_and_fused_agree(kind):
    built = from_context(3, 4, "9/10", kind)
    with Balls(200).working() as balls:
        one, other = (built.outputs(CHAIN, balls, faithful=faithful) for faithful in (True, False))
        assert all(x.overlaps(y) and x.rad() < 1e-40 for x, y in zip(one.entries(), other.entries(), strict=True))


@pytest.mark.parametrize("kind", CONTEXTS)
def test_what_is_compiled(kind):
    """2 (n + k)(k + 1) logarithms, k values, and codes for the queries; also where k is below the number of rounds."""
    task = tasks.block_cycle(n=6, blocks=3, transitions=24)
    arithmetic = Logarithms(UnfactoredField())
    K = public_total(kind, 6, 6, task.discount)
    tokens = softmax_executor.compiled_tokens(PARTS[kind](task, 8), 6, 6, Fraction(1, 256), K, arithmetic)
    logs = sum(bool(x.logs) for block in tokens.blocks.values() for x in block.ravel())
    assert (logs, tokens.blocks["source", "r"].shape) == (2 * (6 + 3) * (3 + 1), (1, 3))
    assert softmax_executor.compiled_counts(6, 3) == (logs, 3)
    assert {field for owner, field in tokens.blocks if owner == "query"} == {"pos"}
    assert from_context(6, 8, "9/10").program.width == 3 * 12 + 1


@pytest.mark.parametrize(("n", "h"), [(1, 1), (4, 3), (24, 12), (480, 30)])
def test_K_is_the_bound_rounded_up(n, h):
    balanced = 2 * np.sqrt(h) * (0.9 * np.sqrt(n) + 1) + h / 256 + 1
    assert balanced <= public_total("balanced", n, h, "9/10") <= balanced + 2 * 1.9 + 1
    companion = max(7 / (1 - 0.9), 2 + 1.9**h) + h / 256 + 1
    assert 0 <= public_total("companion", n, h, "9/10", largest_reward=7) - companion <= 1.000001


def test_balanced_vectors_have_a_norm_near_one():
    task = tasks.reversible_chain(n=6, transitions=60)
    parts = PARTS["balanced"](task, 6)
    assert parts is not None
    B, H, g0 = parts
    gram = B.transpose() * B
    for i in range(6):
        assert 0.5 <= float(Fraction(int(gram[i, i].p), int(gram[i, i].q))) < 2
        assert all(gram[i, j] == 0 for j in range(6) if j != i)
    assert (task.A * B, B * g0) == (B * H, task.r)


def test_zero_rewards_give_zero():
    task = tasks.with_zero_rewards(CHAIN)
    for kind in CONTEXTS:
        assert not any(with_logarithms(from_context(3, 5, "9/10", kind), task).entries())


def test_without_delta_a_zero_is_lost():
    """log 0 = -inf, and a code's 0 times -inf is not a number: one zero in G spoils every target of its source."""
    run = TorchArithmetic("float64")
    codes = run.one_hot(range(2), 2)
    scores = run.matmul(codes, run.log(run.matrix([[0, 1], [1, 1]])))
    assert scores.isnan().sum() == 1
    with pytest.raises(BadInput, match="expected a positive delta"):
        from_context(3, 4, "9/10", delta=0)


def test_without_the_null_source_the_size_of_a_row_is_lost():
    """Weights are then divided by their own sum: a single source has weight 1 whatever G is, and the heads cancel."""
    built = from_context(1, 3, "1/2")
    program = built.program
    for head in program.heads:
        assert {route.source.kind for route in head.routes} == {"source", "null"}
    tokens = built.encode(tasks.ring([1], "1/2"), run := Logarithms(UnfactoredField()))
    alone = tokens.without("null").with_kind("null", 0)
    c = program.run(alone, run).read("query", "r", 1, run)
    assert run.rationals(c) == 0 * run.rationals(c)


def test_bad_input():
    with pytest.raises(BadInput, match="expected one of the contexts balanced, companion, found 'monic'"):
        from_context(3, 4, "9/10", "monic")
    loud = tasks.ring([100, 0, -100], "1/2")
    with pytest.raises(BadInput, match=r"expected weights of target \d with a sum below K"):
        from_context(3, 4, "1/2", "companion").outputs(loud, TorchArithmetic("float64"))
    assert as_fractions(with_logarithms(from_context(3, 4, "1/2", "companion", largest_reward=100), loud)) == iterated(
        loud, 4
    )


def test_unfactored_logarithms():
    run = Logarithms(UnfactoredField())
    log = run.log(run.matrix([[4], [Fraction(2, 3)]]))
    assert run.exp(log + log).ravel().tolist() == [16, fmpq(4, 9)]
    weights = run.softmax(log, np.ones((2, 1), bool))
    assert run.rationals(weights).entries() == RATIONALS.matrix([[Fraction(6, 7)], [Fraction(1, 7)]]).entries()
    for undecided in (lambda: run.relu(log), lambda: run.recip_0(log + -run.log(run.matrix([[2], [2]])))):
        with pytest.raises(Unsupported):
            undecided()


@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-13), ("float32", 1e-5), ("float16", 5e-2)])
def test_measurements_keep_their_bounds(kind, dtype, limit):
    task = tasks.reversible_chain(5, 50)
    found = measured.measure_compiled(task, 8, kind, TorchArithmetic(dtype), 0)
    assert found.sound
    assert found.error.relative < limit
    assert found.theorem == "td.softmax-executor"


def test_score_range():
    low, high = measured.score_range(CHAIN, 4, "balanced", Fraction(1, 256), Fraction(40))
    assert low == pytest.approx(np.log(1 / 256))
    assert np.log(20) < high < np.log(40)
