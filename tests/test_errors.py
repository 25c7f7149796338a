"""Error figures are exact and rounded up; the residual bound is never below the error observed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.exact import RATIONALS, Balls
from constructions.temporal_difference.executor import td_values
from numerics.errors import ball_down, ball_up, error_against, residual_bound, round_up
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import dirichlet_chain, half_ring, reversible_chain, with_terminal, with_zero_rewards

THIRD = fmpq_mat(1, 2, [fmpq(1, 3), fmpq(2)])


@settings(max_examples=100, deadline=None)
@given(st.fractions())
def test_round_up(x):
    up = round_up(x)
    assert Fraction(up) >= x
    assert Fraction(math.nextafter(up, -math.inf)) < x


def test_round_up_at_the_ends():
    assert round_up(Fraction(10) ** 400) == math.inf
    assert round_up(-(Fraction(10) ** 400)) == -np.finfo(np.float64).max
    assert round_up(Fraction(1, 10**400)) == 5e-324
    assert round_up(0) == 0.0


def test_ball_ends():
    with ctx.workprec(200):
        x = arb(1) / 3
        assert Fraction(ball_down(x)) < Fraction(1, 3) < Fraction(ball_up(x))
        assert ball_up(arb("nan")) == math.inf
        assert ball_up(arb(1, 2)) >= 3.0


def test_difference_of_a_float_is_exact():
    figures = error_against(np.array([[1 / 3, 2.0]]), THIRD)
    assert figures.absolute == round_up(abs(Fraction(1 / 3) - Fraction(1, 3)))
    assert figures.relative == round_up(Fraction(figures.absolute) / 2)
    assert figures.where == (0, 0)
    assert figures.contained is None


def test_torch_mpf_and_exact_values():
    torch = pytest.importorskip("torch")
    assert error_against(torch.tensor([[0.25, 2.0]], dtype=torch.bfloat16), THIRD).absolute == round_up(Fraction(1, 12))
    assert error_against(MpmathArithmetic(300).matrix([[Fraction(1, 3), 2]]), THIRD).absolute < 1e-89
    assert error_against(THIRD, THIRD).absolute == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_not_finite_is_infinite(bad):
    figures = error_against(np.array([[0.5, bad]]), THIRD)
    assert (figures.absolute, figures.relative, figures.where) == (math.inf, math.inf, (0, 1))


def test_relative_to_zero_and_shapes():
    zero = fmpq_mat(1, 1, [fmpq(0)])
    assert error_against(np.zeros((1, 1)), zero).relative == 0.0
    assert error_against(np.ones((1, 1)), zero).relative == math.inf
    with pytest.raises(BadInput, match=r"expected values of shape \(1, 2\), found \(1, 1\)"):
        error_against(np.zeros((1, 1)), THIRD)
    with pytest.raises(BadInput, match="expected a matrix of values"):
        error_against(np.zeros(2), THIRD)


def test_balls_must_contain():
    with ctx.workprec(64):
        good = arb_mat(1, 2, [arb(1) / 3, arb(2)])
        bad = arb_mat(1, 2, [arb(1) / 3 + arb(2) ** -40, arb(2)])
    figures = error_against(good, THIRD)
    assert figures.contained
    assert figures.absolute <= figures.radius < 1e-18
    assert not error_against(bad, THIRD).contained


def test_allowance_is_compared_exactly():
    off = abs(Fraction(1 / 3) - Fraction(1, 3))
    value = np.array([[1 / 3, 2.0]])
    assert error_against(value, THIRD, [off, 0.0]).contained
    assert not error_against(value, THIRD, [off - Fraction(1, 10**60), 0.0]).contained
    assert error_against(value, THIRD, [math.inf, 0.0]).radius == math.inf


def test_reference_in_balls_adds_its_radius():
    with ctx.workprec(100):
        exact = arb_mat(1, 1, [arb(1, 0.25)])
    assert 0.25 <= error_against(np.array([[1.0]]), exact).absolute < 0.2501


def naive_bound(values, task) -> list[Fraction]:
    """The recurrence written out in fractions, entry by entry."""
    n, g = task.n, task.discount
    P = [[Fraction(int(task.counts[i, j]), int(task.visits[i])) for j in range(n)] for i in range(n)]
    r = [task.reward_sums[i] / int(task.visits[i]) for i in range(n)]
    rows = [[Fraction(x) for x in row] for row in values]
    bounds = [max(map(abs, rows[0]))]
    for old, new in itertools.pairwise(rows):
        step = [r[i] + g * sum(P[i][j] * old[j] for j in range(n)) for i in range(n)]
        gap = max(abs(x - y) for x, y in zip(new, step, strict=True))
        bounds.append(g * max(map(sum, P)) * bounds[-1] + gap)
    return bounds


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(0, 5), st.integers(0, 10**6), st.floats(0, 10), st.booleans())
def test_residual_bound_is_never_below_the_error(n, depth, seed, size, ended):
    task = dirichlet_chain(n, seed=seed)
    if ended:
        task = with_terminal(task, 0.2, seed)
    exact = td_values(task, depth, RATIONALS)
    noise = np.random.default_rng(seed).standard_normal((depth + 1, n)) * size
    values = np.array([[float(int(x.p) / int(x.q)) for x in row] for row in exact.tolist()]) + noise
    bounds = residual_bound(values, task)
    assert len(bounds) == depth + 1
    for l, (bound, naive) in enumerate(zip(bounds, naive_bound(values.tolist(), task), strict=True)):
        row = fmpq_mat(1, n, [exact[l, j] for j in range(n)])
        assert error_against(values[l : l + 1], row).absolute <= bound
        # Each depth rounds up once: by a relative 2^-52, or by the smallest subnormal number.
        slack = Fraction(depth + 1, 2**1074)
        assert naive <= Fraction(bound) <= naive * (1 + Fraction(1, 10**14)) + slack


def test_residual_bound_of_exact_values_is_zero():
    task = with_terminal(reversible_chain(4, 30, seed=2), 0.2)
    assert residual_bound(td_values(task, 5, RATIONALS), task) == [0.0] * 6
    zero = with_zero_rewards(task)
    assert residual_bound(np.zeros((3, 4)), zero) == [0.0] * 3


def test_residual_bound_known_case():
    # Every value one too large: e_0 = 1, residual 1 - g, and e stays 1.
    task = half_ring(4, "1/2")
    exact = td_values(task, 3, RATIONALS)
    shifted = np.array([[float(int(x.p)) / int(x.q) + 1 for x in row] for row in exact.tolist()])
    assert residual_bound(shifted, task) == [1.0] * 4


def test_residual_bound_after_a_bad_value():
    task = half_ring(2, "1/2")
    values = np.zeros((4, 2))
    values[2, 1] = math.nan
    bounds = residual_bound(values, task)
    assert bounds[:2] == [0.0, 1.0]
    assert bounds[2:] == [math.inf, math.inf]
    assert residual_bound(np.full((2, 2), math.inf), task) == [math.inf, math.inf]


def test_residual_bound_refuses_other_shapes():
    with pytest.raises(BadInput, match=r"expected values of shape \(L \+ 1, 2\), found \(3, 4\)"):
        residual_bound(np.zeros((3, 4)), half_ring(2))


def test_reference_in_balls_of_a_chain():
    task, balls = reversible_chain(6, 60, seed=1), Balls(256)
    exact = td_values(task, 8, RATIONALS)
    with balls.working():
        assert error_against(td_values(task, 8, balls), exact).contained
