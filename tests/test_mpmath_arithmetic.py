"""mpmath arithmetic: its own precision, rationals rounded once, the same answers as Q to rounding."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from flint import fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.arithmetic import Arithmetic
from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference import executor
from numerics.errors import error_against, exact_entries
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle


def test_protocol_and_global_state():
    before = mpmath.mp.prec
    arithmetic = MpmathArithmetic(113)
    assert isinstance(arithmetic, Arithmetic)
    assert arithmetic.name == "mpmath, 113 bits"
    arithmetic.recip_0(arithmetic.matrix([[3]]))
    assert mpmath.mp.prec == before


@settings(max_examples=60, deadline=None)
@given(st.integers(-(10**40), 10**40), st.integers(1, 10**40), st.integers(2, 200))
def test_rationals_are_rounded_once(p, q, bits):
    x = Fraction(p, q)
    entry = MpmathArithmetic(bits).matrix([[x]])
    (value,) = exact_entries(entry)[1]
    assert value is not None
    rounded = Fraction(int(value.p), int(value.q))
    assert abs(rounded - x) <= abs(x) / 2**bits
    # No more than `bits` bits, and the nearest such number: within half a unit of the last place.
    assert abs(rounded.numerator // (rounded.numerator & -rounded.numerator or 1)).bit_length() <= bits


def test_even_ties_and_exact_inputs():
    arithmetic = MpmathArithmetic(4)
    found = exact_entries(arithmetic.matrix([[17, 19, Fraction(17, 2), fmpq(19, 2), 0.5]]))[1]
    assert found == [fmpq(16), fmpq(20), fmpq(8), fmpq(10), fmpq(1, 2)]


def test_primitives():
    arithmetic = MpmathArithmetic(200)
    x = arithmetic.matrix([[0, 4, Fraction(1, 9)]])
    assert exact_entries(arithmetic.recip_0(x))[1][:2] == [fmpq(0), fmpq(1, 4)]
    root = exact_entries(arithmetic.rsqrt_0(x))[1]
    assert root[:2] == [fmpq(0), fmpq(1, 2)]
    assert abs(root[2] - 3) < fmpq(1, 2**190)
    assert arithmetic.nonzero(x) == [False, True, True]


def test_pipeline_error_falls_with_the_precision():
    task = block_cycle(6, 3, 24, seed=5)
    built = executor.construction(6, 5, passes=2, balanced=True, rounds=3)
    exact = executor.td_values(task, 5, RATIONALS)
    errors = [error_against(built.outputs(task, MpmathArithmetic(bits)), exact).relative for bits in (53, 113, 200)]
    assert errors[0] < 1e-13
    assert errors[1] < 1e-31
    assert errors[2] < 1e-57


@pytest.mark.parametrize("bits", [0, 1, True, 53.0])
def test_refusal(bits):
    with pytest.raises(BadInput, match="expected a precision of at least 2 bits"):
        MpmathArithmetic(bits)
