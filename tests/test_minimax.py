"""The exact minimax law: values, certificates, an exhaustive oracle, negative controls, the witness task, bad input."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.temporal_difference import minimax, sample_and_hold
from constructions.temporal_difference.minimax import Cover, Law, Packing, law, minimax_error
from numerics import tasks
from numerics.temporal_difference import error_law
from numerics.temporal_difference import minimax as minimax_numbers
from proofs_check.claim import Verdict
from proofs_check.temporal_difference import minimax as proofs
from proofs_check.temporal_difference import minimax_bounds, minimax_cells

DISCOUNTS = st.builds(lambda q, p: Fraction(min(p, q - 1), q), st.integers(2, 40), st.integers(1, 39))


def direct_mass(g: Fraction, a: int, b: int) -> Fraction:
    return sum((g**j for j in range(a, b)), Fraction(0))


def exhaustive(g: Fraction, m: int, depth: int) -> Fraction:
    """The least error over every way to cut 0..L into a zero block and at most m free blocks."""
    best = None
    for count in range(min(m, depth) + 1):
        for cuts in itertools.combinations(range(depth), count):
            ends = (*cuts, depth)
            starts = (0, *(x + 1 for x in cuts))
            masses = [direct_mass(g, a, b) for a, b in zip(starts, ends, strict=True)]
            error = max([masses[0], *(x / 2 for x in masses[1:])])
            best = error if best is None else min(best, error)
    assert best is not None
    return best


@given(DISCOUNTS, st.integers(0, 5), st.integers(0, 9))
@settings(max_examples=150, deadline=None)
def test_against_every_cover(g, m, depth):
    assert minimax_error(g, m, depth) == exhaustive(g, m, depth)


@given(DISCOUNTS, st.integers(0, 12), st.one_of(st.none(), st.integers(0, 60)))
@settings(max_examples=150, deadline=None)
def test_certificates_agree(g, m, depth):
    found = law(g, m, depth)
    assert found.cover.error == found.packing.error == found.value
    assert found.cover.free <= m
    assert found.cover.ends[-1] == depth
    assert proofs.prove_law([found]).verdict is Verdict.PROVED


@given(DISCOUNTS, st.integers(0, 6), st.integers(1, 40))
@settings(max_examples=80, deadline=None)
def test_more_registers_or_fewer_depths_never_hurt(g, m, depth):
    assert minimax_error(g, m + 1, depth) <= minimax_error(g, m, depth) <= minimax_error(g, m, depth + 1)
    assert minimax_error(g, m, depth) <= minimax_error(g, m)


@given(DISCOUNTS, st.integers(0, 6), st.one_of(st.none(), st.integers(1, 40)))
@settings(max_examples=80, deadline=None)
def test_negative_controls(g, m, depth):
    found = law(g, m, depth)
    small = found.value / 10**6 or Fraction(1, 10**6)
    for changed in (found.value - small, found.value + small):
        assert proofs.prove_law([Law(found.discount, m, depth, changed, found.cover, found.packing)]).verdict is (
            Verdict.REFUTED
        )


def test_a_moved_block_fails_unless_the_error_allows_it():
    found = law("9/10", 4, 30)
    verdicts = []
    for s, end in enumerate(found.cover.ends[:-1]):
        for change in (-1, 1):
            ends = (*found.cover.ends[:s], end + change, *found.cover.ends[s + 1 :])
            cover = Cover(found.discount, ends)
            moved = Law(found.discount, 4, 30, found.value, cover, found.packing)
            verdict = proofs.prove_law([moved]).verdict
            allowed = ends[0] >= 0 and list(ends) == sorted(set(ends)) and cover.error <= found.value
            assert (verdict is Verdict.PROVED) == allowed
            verdicts.append(verdict)
    assert Verdict.REFUTED in verdicts


@pytest.mark.parametrize(
    ("g", "m", "depth", "value"),
    [
        ("9/10", 1, None, 3.281),
        ("9/10", 2, None, 1.9),
        ("9/10", 5, None, 0.8339),
        ("9/10", 12, None, 0.2952),
        ("99/100", 1, None, 33.11),
        ("99/100", 12, None, 3.857),
        ("99/100", 100, None, 0.4008),
        ("9/10", 4, 30, 0.9319),
        ("9/10", 8, 30, 0.4252),
        ("9/10", 12, 30, 0.2683),
        ("9/10", 20, 30, 0.1039),
    ],
)
def test_known_values(g, m, depth, value):
    assert float(minimax_error(g, m, depth)) == pytest.approx(value, rel=5e-4)


def test_edges():
    half = Fraction(1, 2)
    assert minimax_error(half, 0) == 2
    assert minimax_error(half, 0, 3) == Fraction(7, 4)
    assert minimax_error(half, 3, 3) == 0 == minimax_error(half, 0, 0)
    # A tail that meets the budget exactly: the last interval of the packing is infinite.
    assert law(half, 1).packing.ends[-1] is None
    assert law(half, 2, 4).packing == Packing(half, law(half, 2, 4).packing.ends)
    # Far below the smallest float.
    tiny = law("1/100", 200)
    assert 0 < tiny.value < Fraction(1, 10**390)
    assert tiny.cover.error == tiny.packing.error == tiny.value


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: law("9/10", -1), "expected a non-negative number of registers m, found -1"),
        (lambda: law("9/10", 1.5), "expected a non-negative number of registers m, found 1.5"),
        (lambda: law("9/10", 1, -2), "expected a non-negative depth L, found -2"),
        (lambda: law("1", 1), "expected a number strictly between 0 and 1, found 1"),
        (lambda: law("3/2", 1), "expected a number strictly between 0 and 1"),
        (lambda: minimax.psi("1/2", 0), "expected a positive number of registers m for Psi_m"),
        (lambda: minimax.mass("1/2", 3, 2), "expected depths 0 <= start <= stop"),
        (lambda: minimax.witness_task("1/2", 2, None), "expected a finite depth L"),
        (lambda: minimax.witness_task("1/2", 3, 3), "expected m < L"),
        (lambda: minimax_numbers.search_decoders("1/2", 0, 4), "expected a positive number of registers m"),
        (lambda: minimax_numbers.task_lower_bound(minimax.witness_task("1/2", 1, 4), [2, 1]), "expected depths that"),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(BadInput) as error:
        call()
    assert text in str(error.value)
    assert "\n" not in str(error.value)


def test_psi():
    assert minimax.psi("9/10", 2) == Fraction(81, 100) * 5
    assert minimax.psi("1/3", 4) == Fraction(1, 81)


@pytest.mark.parametrize(("g", "m", "depth"), [("1/2", 0, 3), ("9/10", 1, 8), ("3/4", 2, 6)])
def test_witness_task_shows_every_sign_pattern(g, m, depth):
    task = minimax.witness_task(g, m, depth)
    ends = minimax.packing(g, m, depth).ends
    assert task.n == 2 ** (m + 1) * ends[-1]
    first = np.asarray(task.rewards).reshape(2 ** (m + 1), ends[-1])[:, [0, *ends[:-1]]]
    assert {tuple(row) for row in first.tolist()} == set(itertools.product((1, -1), repeat=m + 1))
    assert task.successors.tolist() == [*range(1, task.n), 0]


def test_no_decoder_found_beats_the_law():
    found = minimax_numbers.search_decoders("1/2", 1, 5, trials=2, steps=2)
    assert found.law <= found.optimised * (1 + 1e-9) + 1e-12
    assert found.law < found.random


@pytest.mark.parametrize(("g", "m", "depth"), [("9/10", 1, 20), ("1/2", 2, 6), ("4/5", 3, 9)])
def test_linear_programs_reach_the_law_on_the_ring_of_sign_patterns(g, m, depth):
    n, bound, value = minimax_numbers.ring_lower_bound(g, m, depth)
    assert bound == value == minimax_error(g, m, depth)
    assert n == minimax.witness_task(g, m, depth).n


def test_linear_programs_bound_any_task_from_below():
    """With half of the states gone the programs still give a bound, and midpoint hold shows that it is one."""
    for seed in range(3):
        task = tasks.dirichlet_chain(n=5, transitions=25, discount="4/5", seed=seed)
        bound = minimax_numbers.task_lower_bound(task, [1, 3, 6])
        (errors,) = error_law.task_errors(task, 6, (2,))
        assert 0 <= bound <= errors.midpoint_hold * (1 + 1e-12)


@given(DISCOUNTS, st.integers(1, 30), st.one_of(st.none(), st.integers(1, 60)))
@settings(max_examples=150, deadline=None)
def test_bounds_by_psi(g, m, depth):
    """Of e* from both sides, of sample-and-hold and of truncation, at any L; none of it by the cells or the algebra."""
    psi, horizon = minimax.psi(g, m), 1 / (1 - g)
    value = minimax_error(g, m, depth)
    share = 1 if depth is None else max(Fraction(0), 1 - g ** max(depth - m, 0))
    assert share * g**m / (2 - (1 + g) * g**m) <= value <= minimax_cells.CONSTANT * psi
    assert share * m * psi / (2 * m + 1) <= value
    hold = sample_and_hold.hold_error(g, sample_and_hold.schedule(g, m).depths)
    assert hold <= minimax_bounds.HOLD_CONSTANT * psi
    assert horizon * g**m == min(Fraction(m), horizon) * psi


def test_cells_reach_from_zero_to_the_tail_and_no_further():
    bound = minimax_cells.upper_bound()
    assert bound.cells[0].low == 0
    assert bound.cells[-1].high == bound.tail == Fraction(999, 1000)
    # The cover of a cell, at both ends of it and m = q + 1, q + 5: its error is at most c Psi_m, block by block.
    for cell in [cell for cell in bound.cells if 1 <= cell.q <= 3][::7]:
        for g, m in itertools.product((cell.low, cell.high), (cell.q + 1, cell.q + 5)):
            ends = list(range(m - cell.q))
            for d, count in cell.runs:
                ends += [ends[-1] + (i + 1) * (d + 1) for i in range(count)]
            cover = Cover(g, (*ends, None))
            assert cover.free <= m
            assert cover.error <= bound.constant * minimax.psi(g, m)


@pytest.mark.slow
def test_linear_programs_at_99_100():
    for m in (1, 2, 4):
        _, bound, value = minimax_numbers.ring_lower_bound("99/100", m, 1000)
        assert bound == value


@pytest.mark.slow
def test_every_triple_of_the_grid():
    claim = next(c for c in proofs.claims() if c.name == "law-grid")
    certificate = claim.certify()
    assert certificate.verdict is Verdict.PROVED
    assert certificate.evidence["triples"] == 3168
    assert certificate.seconds < 60
