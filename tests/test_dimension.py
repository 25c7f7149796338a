"""The Krylov dimension against rank over Q, on full, deficient and degenerate tasks, by every route to an answer."""

import random
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.task import Task
from numerics.temporal_difference import dimension as module
from numerics.temporal_difference.dimension import _multiply, _System, annihilates, annihilator, krylov_dimension


def rank_over_q(task: Task, depth: int) -> int:
    vectors, x = [], task.r
    for _ in range(depth):
        vectors.append(x.entries())
        x = task.A * x
    return fmpq_mat(depth, task.n, [value for row in vectors for value in row]).rank()


def random_task(n: int, seed: int, transitions: int = 60, ending: float = 0.1, rewards: str = "int") -> Task:
    rng = np.random.default_rng(seed)
    states = np.concatenate([np.arange(n), rng.integers(0, n, transitions)])
    size = states.size
    values = {
        "int": rng.integers(-2, 3, size),
        "float": rng.standard_normal(size),
        "fraction": np.array([Fraction(int(x), 30) for x in rng.integers(-9, 9, size)], dtype=object),
    }
    return Task(states, rng.integers(0, n, size), values[rewards], rng.random(size) < ending, n, Fraction(9, 10))


def doubled(task: Task) -> Task:
    """Every state twice, the copies apart: the Krylov dimension stays, n doubles."""
    return Task(
        np.concatenate([2 * task.states, 2 * task.states + 1]),
        np.concatenate([2 * task.successors, 2 * task.successors + 1]),
        np.concatenate([task.rewards, task.rewards]),
        np.concatenate([task.terminal, task.terminal]),
        2 * task.n,
        task.discount,
    )


@pytest.mark.parametrize("rewards", ["int", "float", "fraction"])
@pytest.mark.parametrize("depth", [1, 3, 6, 15])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_rank_over_q(rewards: str, depth: int, seed: int) -> None:
    for task in (random_task(6, seed, rewards=rewards), doubled(random_task(5, seed, rewards=rewards))):
        found = krylov_dimension(task, depth, seed)
        assert found.value == rank_over_q(task, depth)
        assert (found.method, found.failure) == ("exact in Q", 0)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_small_tasks(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5))
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, n - 1)] * 2, st.integers(-1, 1), st.booleans()), max_size=12))
    rows += [(i, (i + 1) % n, 0, False) for i in range(n)]
    states, successors, rewards, terminal = (np.array(column) for column in zip(*rows, strict=True))
    task = Task(states, successors, rewards, terminal, n, Fraction(1, 2))
    depth = data.draw(st.integers(1, 8))
    found = krylov_dimension(task, depth)
    assert found.value == rank_over_q(task, depth)
    assert found.method == "exact in Q"


@pytest.mark.parametrize("seed", range(3))
def test_probabilistic_route_agrees(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ALWAYS_EXACT", 0)
    monkeypatch.setattr(module, "_BUDGET", 0)
    task = doubled(random_task(9, seed))
    found = krylov_dimension(task, 30, seed)
    assert found.value == rank_over_q(task, 30)
    assert found.method == "probabilistic"
    assert 0 < found.failure < Fraction(1, 10**12)
    assert len(set(found.primes)) == 2
    assert all(2**49 < p < 2**50 for p in found.primes)
    assert found == krylov_dimension(task, 30, seed)
    assert found.primes != krylov_dimension(task, 30, seed + 1).primes


def test_nothing_is_exact_unless_the_polynomial_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    task = doubled(random_task(6, 1))
    assert krylov_dimension(task, 20).method == "exact in Q"
    monkeypatch.setattr(module, "annihilates", lambda system, polynomial: False)
    assert krylov_dimension(task, 20).method == "probabilistic"


def test_large_and_sparse() -> None:
    task = doubled(random_task(300, 0, transitions=6000))
    found = krylov_dimension(task, 40)
    assert (found.value, found.method, found.evidence) == (40, "exact in Q", "min(n, L) = 40")


def test_zero_reward() -> None:
    task = random_task(4, 0)
    none = Task(task.states, task.successors, np.zeros(task.transitions), task.terminal, 4, task.discount)
    assert (krylov_dimension(none, 9).value, krylov_dimension(none, 9).method) == (0, "exact in Q")
    # Rewards that cancel state by state are zero too: only the means count.
    cancelling = Task(
        np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]), np.array([0.1, -0.1, 5.0, -5.0]), np.zeros(4, bool), 2, "0.9"
    )
    assert krylov_dimension(cancelling, 3).value == 0


def test_every_transition_terminal() -> None:
    task = Task(np.arange(3), np.zeros(3, int), np.ones(3), np.ones(3, bool), 3, Fraction(1, 2))
    assert krylov_dimension(task, 5).value == 1


def test_annihilator_is_refused_when_wrong() -> None:
    task = doubled(random_task(6, 1))
    system = _System(task)
    k = rank_over_q(task, 20)
    assert k < task.n
    polynomial = annihilator(system, k, random.Random(0))
    assert polynomial is not None
    assert annihilates(system, polynomial)
    for j in range(k + 1):
        assert not annihilates(system, [c + (i == j) for i, c in enumerate(polynomial)])
    assert annihilator(system, k - 1, random.Random(0)) is None


@given(st.integers(2**49, 2**50 - 1), st.integers(0, 2**50), st.integers(0, 2**50))
def test_products_modulo(p: int, a: int, b: int) -> None:
    pairs = [(a % p, b % p), (p - 1, p - 1), (p - 1, 1), (0, b % p), (1, p - 1)]
    left, right = (np.array(column, dtype=np.uint64) for column in zip(*pairs, strict=True))
    assert _multiply(left, right, p).tolist() == [x * y % p for x, y in pairs]


def test_krylov_vectors_modulo() -> None:
    task = random_task(7, 2, rewards="fraction")
    system = _System(task)
    p = system.prime(random.Random(5))
    exact = task.r
    for vector, _ in zip(system.krylov(p), range(10), strict=False):
        assert vector.tolist() == [int(x.p) * pow(int(x.q), -1, p) % p for x in exact.entries()]
        exact = task.A * exact


def test_refuses_depth_zero() -> None:
    with pytest.raises(BadInput, match="depth"):
        krylov_dimension(random_task(3, 0), 0)
