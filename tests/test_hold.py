"""Hold schemes: schedules, both lowerings, sizes, worst cases on tasks, figures of the half ring, bad input."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference import midpoint_hold, minimax, sample_and_hold
from constructions.temporal_difference.executor import td_values
from numerics import tasks
from numerics.temporal_difference import hold
from numerics.temporal_difference import midpoint_hold as midpoint_numbers
from numerics.temporal_difference import sample_and_hold as hold_numbers
from numerics.torch_arithmetic import TorchArithmetic
from proofs_check.claim import Verdict
from proofs_check.mutants import program_mutants
from proofs_check.temporal_difference import midpoint_hold as midpoint_proofs
from proofs_check.temporal_difference import sample_and_hold as hold_proofs


def slow_schedule(g: Fraction, m: int) -> tuple[int, ...]:
    """The definition, a depth at a time."""
    horizon = (1 / (1 - g)).__floor__()
    k, j = (m, 0) if g < Fraction(1, 2) else (0, m) if m <= horizon else (m - horizon, horizon)
    spread = [next(i for i in range(10_000) if 1 - g**i >= Fraction(s, j + 1)) for s in range(1, j + 1)]
    return (*range(1, k + 1), *(k + i for i in spread))


@given(st.integers(2, 30), st.integers(1, 29), st.integers(1, 12))
@settings(max_examples=80, deadline=None)
def test_schedule(q, p, m):
    g = Fraction(min(p, q - 1), q)
    found = sample_and_hold.schedule(g, m)
    assert found.depths == slow_schedule(g, m)
    assert found.exact + found.spread == m == len(set(found.depths))
    assert list(found.depths) == sorted(found.depths)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("faithful", [False, True])
def test_programs_equal_their_references(seed, faithful):
    task = tasks.with_terminal(tasks.dirichlet_chain(n=3, transitions=12, seed=seed), 0.2, seed)
    for built in (
        sample_and_hold.construction(3, 6, (1, 2, 5)),
        sample_and_hold.construction(3, 6, (6,)),
        midpoint_hold.construction(3, 6, 1, "9/10"),
        midpoint_hold.construction(3, 6, 3, "1/2"),
        midpoint_hold.construction(3, 4, 9, "1/2"),
    ):
        assert built.outputs(task, RATIONALS, faithful=faithful) == built.reference(task, RATIONALS)


def test_samples_at_every_depth_are_td():
    task = tasks.reversible_chain(n=4, transitions=20, seed=3)
    built = sample_and_hold.construction(4, 5, range(1, 6))
    assert built.outputs(task, RATIONALS) == td_values(task, 5, RATIONALS)
    # With m >= L the cover has single depths only, and the midpoints are the values.
    built = midpoint_hold.construction(4, 5, 5, "9/10")
    assert built.outputs(task, RATIONALS) == td_values(task, 5, RATIONALS)


def test_sizes():
    n, depth = 5, 9
    held = sample_and_hold.construction(n, depth, (2, 4, 7)).program
    # Stage 1 has 2 layers, then tau_m + 1 rounds, then one layer a step.
    assert (held.width, held.attention_layers) == (2 * n + 8, 2 + 8 + depth)
    middle = midpoint_hold.construction(n, depth, 3, "9/10").program
    assert (middle.width, middle.attention_layers) == (2 * n + 8, 2 + depth + 1 + 1 + depth)


def test_only_the_records_stay():
    """After recording, n m registers and public clocks are left beside the queries."""
    task = tasks.reversible_chain(n=4, transitions=20, seed=3)
    built = sample_and_hold.construction(4, 6, (1, 3, 5))
    for label, tokens in built.program.steps(built.encode(task, RATIONALS), RATIONALS):
        if label == "release work":
            assert dict(tokens.counts) == {"slot": 3, "query": 4}
            assert RATIONALS.shape(tokens.blocks["slot", "x"]) == (4, 3)
            assert ("query", "r") not in tokens.blocks


@given(st.integers(2, 12), st.integers(1, 11), st.integers(1, 4), st.integers(1, 9), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_errors_on_tasks_stay_below_the_worst_case(q, p, m, depth, seed):
    g = Fraction(min(p, q - 1), q)
    task = tasks.dirichlet_chain(n=3, transitions=9, discount=g, seed=seed)
    values = td_values(task, depth, RATIONALS)
    built = midpoint_hold.construction(3, depth, m, g)
    gap = max(map(abs, (values - built.reference(task, RATIONALS)).entries()))
    limit = minimax.minimax_error(g, m, depth)
    assert Fraction(int(gap.p), int(gap.q)) <= limit
    depths = sample_and_hold.schedule(g, m).depths
    if depths[0] <= depth:
        answer = sample_and_hold.held_values(task, depths, depth, RATIONALS)
        gap = max(map(abs, (values - answer).entries()))
        worst = sample_and_hold.hold_error(g, depths, depth)
        assert limit <= worst
        assert Fraction(int(gap.p), int(gap.q)) <= worst


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: sample_and_hold.schedule("9/10", 0), "expected a positive number of registers m, found 0"),
        (lambda: sample_and_hold.schedule("2", 1), "expected a number strictly between 0 and 1"),
        (lambda: sample_and_hold.construction(3, 5, (3, 2)), "expected increasing positive sampled depths"),
        (lambda: sample_and_hold.construction(3, 5, (0, 2)), "expected increasing positive sampled depths"),
        (lambda: sample_and_hold.construction(3, 5, (7,)), "expected a sampled depth of at most L = 5"),
        (lambda: sample_and_hold.construction(0, 5, (1,)), "expected a positive number of states n"),
        (lambda: sample_and_hold.hold_error("1/2", ()), "expected a sampled depth"),
        (lambda: midpoint_hold.construction(3, 5, 0, "1/2"), "expected a positive number of registers m"),
        (lambda: midpoint_hold.from_cover(3, minimax.cover("1/2", 2)), "found an infinite last depth"),
        (lambda: midpoint_hold.from_cover(3, minimax.cover("1/2", 0, 4)), "found none"),
        (lambda: midpoint_hold.from_cover(3, minimax.Cover(Fraction(1, 2), (2, 1, 4))), "expected ends that increase"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(BadInput) as error:
        call()
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_hold_error_of_the_tail():
    """L infinite: the last block is the whole tail after the last sample."""
    assert sample_and_hold.hold_error("1/2", (1, 2)) == Fraction(1, 2)
    assert sample_and_hold.hold_error("1/2", (1, 2), 4) == Fraction(1, 4) + Fraction(1, 8)


@pytest.mark.parametrize("room", [hold_numbers, midpoint_numbers])
def test_measurements_are_sound(room):
    found = room.measure()
    assert all(x.sound for x in found)
    assert {x.error.absolute for x in found if x.arithmetic == "exact Q"} == {0.0}
    assert max(x.error.absolute for x in found if "float64" in x.arithmetic) < 1e-13


def test_a_bound_that_sees_wrong_answers():
    """The bound follows from the computed values alone: an answer held one depth too early breaks no soundness."""
    task = tasks.reversible_chain(n=5, transitions=40, seed=0)
    arithmetic = TorchArithmetic("float64", "cpu")
    built = sample_and_hold.construction(5, 6, (2, 4))
    answer, rows = hold.run_captured(built, task, arithmetic)
    good = hold.held_bound(answer, rows, hold_numbers.held_depths((2, 4), 6), task, arithmetic)
    bad = hold.held_bound(answer, rows, hold_numbers.held_depths((1, 4), 6), task, arithmetic)
    assert good < 1e-13 < 1e-3 < bad
    rows[3] = rows[3] * np.inf
    assert hold.held_bound(answer, rows, [(3,)] * 7, task, arithmetic) == float("inf")


RELEVANT = {
    "record": ("record", "gate g"),
    "hold": ("step", "gate r"),
    "differences": ("differences",),
}


@pytest.mark.parametrize("room", [hold_proofs, midpoint_proofs])
def test_survivors_are_equivalent(room):
    """Three changes to the layers that a claim reads survive: a route between single tokens read as "all", and (twice)
    the gate, which is 0 or 1, times itself."""
    claims = [c for c in room.claims(list, list) if c.name in RELEVANT]
    survivors = set()
    for claim in claims:
        for mutant in program_mutants(claim.build()):
            text = mutant.text.split(": ", 1)[-1] if mutant.text.startswith("layer ") else mutant.text
            if text.startswith(RELEVANT[claim.name]) and claim.certify(mutant.subject).verdict is Verdict.PROVED:
                survivors.add(text)
    gate = "step: -(r, one, one; r) with"
    assert survivors == {"record: -(x, one, one; x) along work => work", f"{gate} key r", f"{gate} query r"}
