"""Degree bounds are never too small, probabilities are honest, short primes are refused, wrong identities are found."""

from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.temporal_difference.executor import executor_program
from proofs_check.claim import Verdict
from proofs_check.degrees import Degrees
from proofs_check.mutants import program_mutants
from proofs_check.schwartz_zippel import Case, Identity, Source, check, failure, prove_cases
from proofs_check.temporal_difference.generic_tasks import (
    Sizes,
    case,
    context_difference,
    executor_difference,
    from_states,
)


class Expressions:
    """1 x 1 blocks as sympy rational functions: an oracle for degrees that shares no code with the bounds."""

    @staticmethod
    def degree(value):
        numerator, _ = sp.fraction(sp.cancel(value))
        return sp.Poly(numerator, *sp.symbols("x0:40")).total_degree()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("+*/n"), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=7))
def test_degree_bounds_hold(operations):
    degrees = Degrees(kept=0)
    symbols = sp.symbols("x0:40")
    values = [(degrees.generic(1, 1), symbols[i]) for i in range(3)]
    for operation, i, j in operations:
        (a, x), (b, y) = values[i % len(values)], values[j % len(values)]
        if operation == "+":
            values.append((degrees.add(a, b), x + y))
        elif operation == "*":
            values.append((degrees.matmul(a, b), x * y))
        elif operation == "n":
            values.append((degrees.negate(a), -x))
        elif sp.cancel(x) != 0:
            values.append((degrees.recip_0(a), 1 / x))
    for bound, value in values:
        if sp.cancel(value) != 0:
            assert bound.degree is not None
            assert Expressions.degree(value) <= bound.degree


def test_inverse_bound_is_cramers():
    degrees = Degrees(kept=0)
    T = degrees.generic(3, 3)
    inverse = degrees.inverse(T)
    matrix = sp.Matrix(3, 3, sp.symbols("x0:9"))
    numerator, denominator = sp.fraction(sp.cancel(matrix.inv()[0, 0]))
    assert inverse.degree == sp.Poly(numerator, *sp.symbols("x0:9")).total_degree() == 2
    assert degrees.inverted_degree == sp.Poly(denominator, *sp.symbols("x0:9")).total_degree() == 3


def test_failure_probability():
    assert failure(10, 100, 5, 256) > failure(10, 100, 5, 320)
    # Degree alone: 2^40 / 2^255; the number of primes of 256 bits is more than 2^246.
    assert failure(2**40, 0, 0, 256) == Fraction(1, 2**215)
    assert failure(0, 2**40, 0, 256) < Fraction(2**40, 2**246)


def test_a_short_prime_is_undecided():
    sizes = Sizes(4, 3, 5, 4)
    one = case(from_states(4, 4), context_difference, sizes, "[B; Y; g0']")
    finding = check(one.identity, one.program, prime_bits=12)
    assert finding.verdict is Verdict.UNDECIDED
    assert "degree bound" in finding.evidence["missing"]


def test_large_sizes_are_proved_with_the_probability_printed():
    finding = prove_cases([case(executor_program(24, 30), executor_difference, Sizes(24, 12, 30), "v at depth")])
    assert finding.verdict is Verdict.PROVED
    assert len(set(finding.evidence["n = 24, k = 12, L = 30"]["primes"])) == 2
    assert int(finding.evidence["failure probability"].removeprefix("below 2^-")) > 100


def test_an_identity_that_is_false_by_one_term_is_refuted():
    def difference(subject, source: Source):
        a = source.arithmetic
        X, Y = source.generic(3, 3), source.generic(3, 3)
        return a.add(a.matmul(X, Y), a.negate(a.matmul(Y, X)))

    finding = prove_cases([Case(executor_program(2, 1), Identity({"n": 3}, 0, difference, "XY - YX"))])
    assert finding.verdict is Verdict.REFUTED
    assert finding.evidence["block"] == "XY - YX"


@pytest.mark.parametrize("text", ["negated", "with key y", "repeated 4 - 1 times", "without source => source"])
def test_mutants_are_refuted(text):
    sizes = Sizes(3, 2, 4)
    built = executor_program(3, 4)
    mutant = next(m for m in program_mutants(built) if text in m.text)
    finding = prove_cases([case(mutant.subject, executor_difference, sizes, "v at depth")])
    assert finding.verdict is Verdict.REFUTED


def test_a_gate_that_keeps_too_much_is_refuted():
    built = from_states(3, 3)
    dropped = next(m for m in program_mutants(built) if m.text == "gate: layer dropped")
    finding = prove_cases([case(dropped.subject, context_difference, Sizes(3, 2, 4, 3), "[B; Y; g0']")])
    assert finding.verdict is Verdict.REFUTED
    assert finding.evidence["block"] == "gate"
