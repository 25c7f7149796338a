"""Code words: within their error, of the length of their format; packings: told apart, and below every code."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference import bits
from constructions.temporal_difference.executor import td_values
from numerics import tasks
from numerics.temporal_difference import bits as measured


def fractions_of(matrix):
    return [[Fraction(int(x.p), int(x.q)) for x in row] for row in matrix.tolist()]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 4),
    depth=st.integers(1, 9),
    discount=st.sampled_from(["1/3", "9/10"]),
    a=st.integers(0, 14),
    seed=st.integers(0, 99),
)
def test_every_code_answers_within_its_error(n, depth, discount, a, seed):
    task = tasks.with_terminal(tasks.dirichlet_chain(n, 5 * n, discount, seed), 0.1, seed)
    exact = fractions_of(td_values(task, depth, RATIONALS))
    e = Fraction(1, 2**a)
    forms = [*bits.value_budgets(n, depth, discount, e), bits.model_budget(n, depth, discount, e)]
    shortest = bits.budget(n, depth, discount, e)
    assert shortest.bits == min(form.bits for form in forms)
    for form in forms:
        assert form.bound <= e
        word = bits.encode_word(task, form)
        assert len(word) == form.bits
        assert set(word) <= {"0", "1"}
        built = bits.construction(form)
        answers = fractions_of(built.outputs(task, RATIONALS))
        gap = max(abs(x - y) for p, q in zip(exact, answers, strict=True) for x, y in zip(p, q, strict=True))
        assert gap <= form.bound
        assert fractions_of(built.reference(task, RATIONALS)) == answers


def test_precision_is_the_least_that_the_bound_allows():
    for form in (*bits.value_budgets(3, 12, "9/10", "1/100"), bits.model_budget(3, 12, "9/10", "1/100")):
        coarser = bits.Budget(form.n, form.depth, form.discount, form.error, form.kind, form.kept, form.fraction - 1)
        assert coarser.bound > form.error


def test_the_worst_rounding_is_attained():
    """A value half way between two numbers of the code is off by half a unit, which is the bound."""
    task = tasks.ring([Fraction(3, 4)], "1/3", "one state")
    (form,) = [form for form in bits.value_budgets(1, 1, "1/3", "1/4") if form.kept == 1]
    assert form.fraction == 1
    answers = fractions_of(bits.construction(form).outputs(task, RATIONALS))
    assert abs(answers[1][0] - Fraction(3, 4)) == form.bound == Fraction(1, 4)


def test_a_generous_error_needs_few_bits():
    task = tasks.dirichlet_chain(2, 6)
    form = bits.model_budget(2, 3, "9/10", 100)
    assert (form.fraction, form.widths[0]) == (0, 0)
    assert len(bits.encode_word(task, form)) == form.bits == 4
    assert fractions_of(bits.construction(form).outputs(task, RATIONALS))


@pytest.mark.parametrize("setting", [(2, 2, "1/2", "1/9", 1), (2, 1, "1/2", "1/5", 0), (3, 3, "9/10", "1/10", 2)])
def test_packings_are_told_apart(setting):
    packing = bits.packing(*setting)
    answers = [tuple(map(tuple, fractions_of(td_values(t, packing.depth, RATIONALS)))) for t in packing.tasks()]
    assert len(answers) == packing.count
    assert 2**packing.bits <= packing.count
    for one, other in itertools.combinations(answers, 2):
        gap = max(abs(x - y) for p, q in zip(one, other, strict=True) for x, y in zip(p, q, strict=True))
        assert gap > 2 * packing.error


@pytest.mark.parametrize(("n", "depth", "a"), [(1, 1, 1), (4, 6, 8), (16, 5, 12), (3, 40, 20)])
def test_no_packing_exceeds_a_code(n, depth, a):
    e = Fraction(1, 2**a)
    packing = bits.packing(n, depth, "1/2", e)
    assert packing.bits <= math.log2(packing.count) < packing.bits + n + 1
    assert packing.bits <= bits.budget(n, depth, "1/2", e).bits


def test_bad_input():
    form = bits.budget(2, 3, "1/2", "1/8")
    with pytest.raises(BadInput, match="as the code was made for"):
        bits.encode_word(tasks.dirichlet_chain(3, 9, "1/2"), form)
    with pytest.raises(BadInput, match="bounded rewards"):
        bits.encode_word(tasks.ring([2, 0], "1/2"), form)
    with pytest.raises(BadInput, match=r"expected \d+ bits"):
        bits.decode_word("0", form)
    with pytest.raises(BadInput, match="positive error"):
        bits.budget(2, 3, "1/2", 0)
    with pytest.raises(BadInput, match="chain shorter"):
        bits.packing(2, 3, "1/2", "1/8", 2)


def test_measured_and_reproduced():
    found = measured.measure()
    assert all(m.sound for m in found)
    assert all(m.error.absolute <= 2.0**-6 for m in found)
    rows = measured.reproduce_bits(True)
    assert all(row["agrees"] for row in rows if row["source"] != "none")
    assert {row["source"] for row in rows} == {"0", "1", "2", "none"}
    keys = {"name", "quantity", "setting", "source", "ours", "agrees", "reason", "seed"}
    assert all(set(row) == keys for row in rows)
