"""Anchored contexts: both readings against a projection by normal equations, exact depths, sizes, splits, bad input."""

from fractions import Fraction

import pytest
from flint import fmpq_mat

from constructions.errors import BadInput
from constructions.exact import RATIONALS, Balls
from constructions.temporal_difference import anchored, sample_and_hold
from constructions.temporal_difference.executor import td_values
from numerics import tasks
from numerics.temporal_difference import anchored as anchored_numbers
from numerics.torch_arithmetic import TorchArithmetic


def galerkin(task, k, depth):
    """u_{l+1} = r + A u_l projected orthogonally on span{r, .., A^{k-1} r}, rows 0..depth, by normal equations."""
    columns = []
    power = task.r
    for _ in range(k):
        K = RATIONALS.stack([[*columns, power]])
        if K.rank() == len(columns):
            break
        columns.append(power)
        power = task.A * power
    u = fmpq_mat(task.n, 1)
    rows = [u]
    for _ in range(depth):
        target = task.r + task.A * u
        if columns:
            K = RATIONALS.stack([columns])
            Kt = K.transpose()
            u = K * (Kt * K).solve(Kt * target)
        rows.append(u)
    return RATIONALS.stack([[row.transpose()] for row in rows])


TASKS = [
    tasks.with_terminal(tasks.dirichlet_chain(n=5, transitions=25, seed=1), 0.2, 1),
    tasks.block_cycle(n=6, blocks=3, transitions=30, seed=2),
    tasks.with_zero_rewards(tasks.dirichlet_chain(n=3, transitions=9, seed=0)),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize(("k", "samples", "depth"), [(1, (2,), 4), (2, (4, 6), 8), (4, (5, 9), 7)])
def test_readings(task, k, samples, depth):
    values, inner = td_values(task, depth, RATIONALS), galerkin(task, k, depth)
    residual = anchored.construction(task.n, depth, k, samples, "residual").outputs(task, RATIONALS)
    prefix = anchored.construction(task.n, depth, k, samples, "prefix").outputs(task, RATIONALS)
    for l in range(depth + 1):
        tau = max((x for x in samples if x <= l), default=0)
        last = max(tau, min(l, k))
        for i in range(task.n):
            assert residual[l, i] == inner[l, i] + values[tau, i] - inner[tau, i]
            assert prefix[l, i] == values[last, i]
            if l <= k or l in samples:
                assert residual[l, i] == values[l, i] == prefix[l, i]


@pytest.mark.parametrize("reading", anchored.READINGS)
def test_faithful_and_sizes(reading):
    task = TASKS[0]
    built = anchored.construction(5, 6, 2, (3, 5), reading)
    assert built.outputs(task, RATIONALS, faithful=True) == built.outputs(task, RATIONALS)
    assert built.program.width == 3 * 5 + 9
    kept = {}
    for label, tokens in built.program.steps(built.encode(task, RATIONALS), RATIONALS):
        if label == "forget workspace":
            kept = dict(tokens.counts)
            assert {field for kind, field in tokens.blocks if kind == "source"} >= {"x", "y", "r"}
            assert {field for _, field in tokens.blocks} <= set(anchored.KEPT)
    assert kept == {"source": 2, "slot": 2, "query": 5}


def test_split():
    assert anchored.split("9/10", 4) == anchored.Split(Fraction(9, 10), 2, tuple(2 + i for i in (4, 11)))
    assert anchored.split("9/10", 1).samples == ()
    far = anchored.split("9/10", 40)
    assert (far.k, len(far.samples)) == (30, 10)
    # What 1 - g^i has reached by the s-th sample.
    for s, tau in enumerate(far.samples, 1):
        assert 1 - Fraction(9, 10) ** (tau - 30) >= Fraction(s, 11) > 1 - Fraction(9, 10) ** (tau - 31)
    assert sample_and_hold.spread_depths(Fraction(9, 10), 30, 10) == list(far.samples)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: anchored.split("9/10", 0), "expected a positive number of registers m, found 0"),
        (lambda: anchored.construction(3, 6, 2, (3,), "both"), "expected one of the readings prefix, residual"),
        (lambda: anchored.construction(3, 6, 0, (3,)), "expected a positive number of rounds, found 0"),
        (lambda: anchored.construction(3, 6, 2, (2, 4)), "expected sampled depths beyond k = 2"),
        (lambda: anchored.construction(3, 6, 2, (8,)), "expected a sampled depth of at most L = 6"),
        (lambda: anchored.construction(3, 6, 2, (5, 4)), "expected increasing positive sampled depths"),
        (lambda: anchored_numbers.measure_one(TASKS[0], 12, 1, RATIONALS, 0), "expected a sampled depth"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(BadInput) as error:
        call()
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_measurements_are_sound():
    for reading in anchored.READINGS:
        for arithmetic in (TorchArithmetic("float64", "cpu"), Balls(256), RATIONALS):
            found = anchored_numbers.measure_one(TASKS[0], 12, 3, arithmetic, 0, reading)
            assert found.sound
            assert found.error.absolute <= (0 if arithmetic is RATIONALS else 1e-13)
            assert found.flags == (f"reading: {reading}",)
