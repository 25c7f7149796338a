"""Task generators: coverage, determinism, the exact Krylov dimension, names, refusals."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.task import STOCHASTIC, Task
from constructions.temporal_difference import krylov
from numerics import tasks
from numerics.temporal_difference.dimension import krylov_dimension

GENERATORS = {
    "block_cycle": lambda n, N, seed: tasks.block_cycle(2 * n, n, N + n, seed=seed),
    "reversible_chain": lambda n, N, seed: tasks.reversible_chain(n, N, seed=seed),
    "dirichlet_chain": lambda n, N, seed: tasks.dirichlet_chain(n, N, seed=seed, concentration=0.3),
}


def same(a: Task, b: Task) -> bool:
    fields = ("states", "successors", "rewards", "terminal")
    return a.name == b.name and all(np.array_equal(getattr(a, f), getattr(b, f)) for f in fields)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(GENERATORS)), st.integers(1, 9), st.integers(0, 40), st.integers(0, 2**31))
def test_coverage_determinism_and_names(which, n, more, seed):
    task = GENERATORS[which](n, n + more, seed)
    assert same(task, GENERATORS[which](n, n + more, seed))
    assert task.states[: task.n].tolist() == list(range(task.n))
    assert task.visits.min() >= 1
    assert STOCHASTIC.objection(task) is None
    assert task.name.startswith(which)
    assert f"N={task.transitions}" in task.name
    assert f"seed={seed}" in task.name
    assert np.abs(task.rewards).max() <= 1
    assert all((Fraction(x) * 2**16).denominator == 1 for x in task.rewards.tolist())


@pytest.mark.parametrize("seed", range(3))
def test_block_cycle_has_dimension_blocks(seed):
    task = tasks.block_cycle(seed=seed)
    assert krylov_dimension(task, 30).value == 12
    context = krylov.exact_context(task, 30)
    assert context is not None
    assert context.ncols() == 12


def test_noise_makes_the_cycle_generic():
    task = tasks.block_cycle(seed=1, noise=0.1)
    assert "noise=0.1" in task.name
    assert krylov_dimension(task, 30).value == 24


def test_block_cycle_jumps_into_the_next_block():
    task = tasks.block_cycle(12, 4, 100, seed=2)
    assert ((task.states // 3 + 1) % 4 == task.successors // 3).all()


def test_reversible_and_dirichlet_are_generic():
    assert krylov_dimension(tasks.reversible_chain(seed=4), 30).value == 24
    assert tasks.dirichlet_chain(7, seed=4).transitions == 280


def test_rings():
    ring = tasks.half_ring(10)
    assert ring.rewards.tolist() == [1] * 5 + [-1] * 5
    assert ring.successors.tolist() == [*range(1, 10), 0]
    assert ring.discount == Fraction(99, 100)
    assert tasks.ring([Fraction(1, 3), 0], "1/2").reward_sums == [Fraction(1, 3), 0]


def test_options():
    task = tasks.reversible_chain(6, 200, seed=1)
    ended = tasks.with_terminal(task, 0.3, seed=2)
    assert 20 < ended.terminal.sum() < 100
    assert same(ended, tasks.with_terminal(task, 0.3, seed=2))
    assert "terminal=0.3 (seed=2)" in ended.name
    assert tasks.with_terminal(task, 1.0).counts.sum() == 0
    assert krylov_dimension(tasks.with_zero_rewards(task), 6).value == 0
    absorbed = tasks.with_absorbing(ended, 2)
    assert absorbed.counts[2].tolist() == [0, 0, absorbed.visits[2], 0, 0, 0]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: tasks.block_cycle(10, 3), "block_cycle: expected a number of blocks that divides n = 10, found 3"),
        (lambda: tasks.block_cycle(0), "block_cycle: expected a positive number of states n, found 0"),
        (lambda: tasks.block_cycle(24, 12, 23), "expected at least n = 24 transitions to cover every state, found 23"),
        (lambda: tasks.block_cycle(noise=-1), "block_cycle: expected a finite noise >= 0, found -1"),
        (lambda: tasks.reversible_chain(2.5), "reversible_chain: expected a positive number of states n, found 2.5"),
        (lambda: tasks.reversible_chain(seed=-1), "reversible_chain: expected a non-negative int as seed, found -1"),
        (lambda: tasks.reversible_chain(discount=1), "discount: expected a number strictly between 0 and 1, found 1"),
        (lambda: tasks.dirichlet_chain(concentration=0), "expected a positive finite concentration, found 0"),
        (lambda: tasks.half_ring(7), "half_ring: expected a positive even number of states, found 7"),
        (lambda: tasks.ring([]), "ring: expected a flat sequence of rewards"),
        (lambda: tasks.with_terminal(tasks.half_ring(2), 2), "expected a probability between 0 and 1, found 2"),
        (lambda: tasks.with_absorbing(tasks.half_ring(2), 2), "expected a state between 0 and 1, found 2"),
    ],
)
def test_refusals(call, sentence):
    with pytest.raises(BadInput, match=sentence):
        call()


def test_numerics_does_not_import_torch():
    code = (
        "import sys, numerics.tasks, numerics.errors, numerics.torch_arithmetic, numerics.temporal_difference.executor;"
        "import numerics.temporal_difference.exactness; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
