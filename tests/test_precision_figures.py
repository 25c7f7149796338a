"""Figures about precision: stalls, encodings, plateaus, the delta rule's state, least significands, and their rows."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.online_learning import weighted_majority
from numerics import expert_tasks
from numerics.formats import bits, parse_format, round_doubles
from numerics.online_learning import encodings, plateau, stalls
from numerics.online_learning import precision_figures as online_figures
from numerics.precision_limits import condition_number, least_bits, reproduce_precision
from numerics.precision_rows import Rows, growth_of, inside
from numerics.recurrent import precision_figures as recurrent_figures
from numerics.recurrent.state_formats import relative_errors, torch_errors
from numerics.reversible_tasks import birth_death_chain
from numerics.rounded_arithmetic import RoundedArithmetic

TENTH = Fraction(1, 10)


@pytest.mark.parametrize("case", stalls.law_cases(True)[:27], ids=str)
def test_stall_law_is_bit_exact(case):
    assert stalls.law_holds(*case)


@settings(max_examples=60)
@given(st.integers(4, 12), st.integers(1, 2**12 - 1), st.integers(-3, 3))
def test_stall_law_for_any_increment(precision, top, exponent):
    h = stalls.rounder(precision)(math.ldexp(top, exponent))
    updates = min(2 ** (precision + 2), 6000)
    assert (stalls.iterated(h, precision, updates) == stalls.closed_form(h, precision, updates)).all()
    count, x = stalls.stall(h, precision)
    spacing = 2.0 ** (math.frexp(x)[1] - precision)
    assert h <= spacing / 2
    assert 2 ** (precision - 1) <= count <= 2 ** (precision + 1)


def test_scalar_rounding_is_that_of_formats():
    x = np.random.default_rng(0).standard_normal(500) * 100
    for precision in (4, 8, 11, 24):
        assert (round_doubles(x, bits(precision)) == list(map(stalls.rounder(precision), x))).all()


def test_one_hot_program_is_the_scalar_recursion():
    """Over unit vectors the program's log weights are those of the bare additions, bit for bit, in every format."""
    task = expert_tasks.sampled_experts(3, 12, "1/10", seed=2)
    built = weighted_majority.construction("one_block", 3, 2, task.eps)
    for name in ("bf16", "fp16", "fp32"):
        arithmetic = RoundedArithmetic(name)
        found = arithmetic.rows(built.outputs(task, arithmetic), 0, 3)
        h = stalls.increment(task.eps, arithmetic.roles.state.precision)
        wrong = np.array([task.wrong(t) for t in range(task.rounds)])
        sums = stalls.iterated(h, arithmetic.roles.state.precision, task.rounds)
        assert np.array_equal(found.T, -sums[np.cumsum(wrong, axis=0)])


def test_encodings():
    seeds = range(3)
    found = {e: encodings.outcome(e, 8, TENTH, 4000, seeds) for e in encodings.ENCODINGS}
    assert (found["raw"].wrong > 0.02).all()
    assert (found["counts"].wrong > 0.02).all()
    for encoding in ("renormalised", "relative counts", "compensated", "stochastic"):
        assert not found[encoding].wrong.any()
    assert not encodings.outcome("counts", 24, TENTH, 4000, seeds).error.any()
    assert (found["compensated"].error < found["raw"].error / 20).all()
    # A term that is common to all experts is no error.
    assert (encodings.outcome("renormalised", 53, TENTH, 400, seeds).error < 1e-9).all()


def test_runs_of_a_seed_do_not_depend_on_the_others():
    alone, among = (encodings.outcome("raw", 8, TENTH, 3000, seeds) for seeds in ((2,), (0, 1, 2)))
    assert (alone.error[0], alone.wrong[0]) == (among.error[2], among.wrong[2])
    alone, among = (plateau.run(0.1, 0.9, (8,), plateau.TABLE, 300, seeds)[0] for seeds in ((2,), (0, 2)))
    assert (alone.end[0], alone.largest[0]) == (among.end[1], among.largest[1])
    alone, among = (relative_errors(1.0, 1.0, parse_format("bf16"), "all", (20,), seeds) for seeds in ((2,), (0, 2)))
    assert math.isclose(alone[0, 0], among[0, 1], rel_tol=1e-6)


def test_stalled_weights_decide_by_plain_majority():
    """The expected share, by enumeration of who errs: it is that of the long run once all four have stalled."""
    share = Fraction(0)
    for code in range(16):
        erred = [code >> i & 1 for i in range(4)]
        chance = math.prod(p if e else 1 - p for p, e in zip(encodings.MISTAKES, erred, strict=True))
        against = sum(e != erred[0] for e in erred)
        share += chance * (Fraction(1, 2) if against == 2 else int(against > 2))
    runs = encodings.drawn(60_000, (0,))
    equal = encodings.decisions(np.zeros(runs.wrong.shape), runs.said)
    assert abs(float((equal[:, 0] != runs.said[:, 0, 0]).mean()) - share) < 0.01
    assert round(float(share), 3) == 0.201


def test_embeddings_that_are_not_orthogonal():
    errors, orthogonal, mistakes = encodings.crosstalk(64, 256, 1000, 0, TENTH)
    assert errors[0] == 0
    assert orthogonal < 0.15 < 0.3 < mistakes
    assert growth_of((100, 300, 999), errors[[100, 300, 999]])[1] == "linear"


def test_plateau_within_its_bound():
    for model in (plateau.TABLE, plateau.OPERATIONS):
        for found in plateau.run(0.1, 0.9, (8, 11), model, 3000, range(3)):
            assert (found.end > 0).all()
            assert (found.end <= found.largest * (1 + 1e-9)).all()
            if model == plateau.TABLE:
                assert (found.largest <= found.bound).all()


def test_update_of_q_learning_is_that_of_scalars():
    """The vectorised run against plain loops over one seed's transitions."""
    given_, near = plateau.experience(400, (5,)), stalls.rounder(8)
    Q, exact = ([[0.0] * plateau.ACTIONS for _ in range(plateau.STATES)] for _ in range(2))
    for s, a, r, after in zip(*(x[:, 0].tolist() for x in vars(given_).values()), strict=True):
        exact[s][a] += 0.1 * (r + 0.9 * max(exact[after]) - exact[s][a])
        Q[s][a] = near(Q[s][a] + 0.1 * (r + 0.9 * max(Q[after]) - Q[s][a]))
    expected = np.abs(np.array(Q) - np.array(exact)).max()
    assert math.isclose(plateau.run(0.1, 0.9, (8,), plateau.TABLE, 400, (5,))[0].end[0], expected, rel_tol=1e-9)


def test_growth_has_names():
    at = (100, 400, 1600)
    assert growth_of(at, [1e-3] * 3)[1] == "flat"
    for power, name in ((0.5, "sqrt"), (1, "linear"), (2, "quadratic")):
        assert growth_of(at, [t**power for t in at])[1] == name
    for gate, rate, name in ((1.0, 2.0, "sqrt"), (0.9, 1.0, "flat")):
        errors = relative_errors(gate, rate, parse_format("bf16"), "state", at, (0,))
        assert growth_of(at, errors[:, 0])[1] == name


def test_kernels_in_a_format_resume_from_part_to_part():
    whole = torch_errors(0.99, 1.0, "bfloat16", (60,), (0, 1))
    parts = torch_errors(0.99, 1.0, "bfloat16", (20, 60), (0, 1))
    assert np.allclose(whole[0], parts[1], rtol=1e-6)
    assert (torch_errors(1.0, 1.0, "float32", (40,), (0,), chunk=16) < 1e-5).all()


def test_a_figure_is_inside_a_range_as_printed():
    assert inside("4.2e3", [4100.0, 4151.0])
    assert not inside("4.2e3", [4100.0, 4149.0])
    assert inside(".157", [0.1574, 0.2])
    assert not inside(".157", [0.158, 0.2])
    assert inside("0", [0.0, 0.0])
    assert not inside("0", [1e-9, 1.0])
    rows = Rows(3)
    rows.add_spread("x", "s", [2.0, 1.0, 4.0], "5.0")
    assert rows.rows[0]["ours"] == [1.0, 4.0]
    assert rows.rows[0]["agrees"] is False
    assert rows.rows[0]["reason"]
    assert rows.rows[0]["setting"] == "s; 3 seeds from 3, median 2"


def test_condition_number_grows_with_the_basis():
    found = [condition_number(birth_death_chain(n), n) for n in (2, 4, 6)]
    assert 1 <= found[0] < found[1] < found[2]


def test_bisection_finds_the_least():
    assert least_bits(lambda p: p >= 23) == 23
    assert least_bits(lambda p: True) == 4
    assert least_bits(lambda p: False) is None


@pytest.mark.slow
@pytest.mark.parametrize("add_figures", [online_figures.add_figures, recurrent_figures.add_figures])
def test_figures_of_the_notes_are_within_their_spread(add_figures):
    rows = Rows(0)
    add_figures(rows, True)
    assert [row for row in rows.rows if row["agrees"] is False] == []
    assert sum(row["agrees"] is True for row in rows.rows) > 20


@pytest.mark.slow
def test_reproduction_has_all_parts():
    rows = reproduce_precision(quick=True)
    assert all(row["agrees"] is not False or row["reason"] for row in rows)
    assert sum(isinstance(row.get("figure"), dict) for row in rows) == 4
