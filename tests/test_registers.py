"""Register counts: the closed forms, the rows of the source's memory table, and what the CSR matrix really stores."""

from fractions import Fraction

import numpy as np
import pytest

from constructions.task import Task
from numerics.temporal_difference.registers import Registers, count_registers, kib, sparse_counts, sparse_model


def block_cycle(n: int, transitions: int, seed: int = 0) -> Task:
    rng = np.random.default_rng(seed)
    per = n // 12
    states = np.concatenate([np.arange(n), rng.integers(0, n, transitions - n)])
    successors = (states // per + 1) % 12 * per + rng.integers(0, per, transitions)
    rewards = rng.integers(-5, 6, 12)[states // per]
    return Task(states, successors, rewards, np.zeros(transitions, dtype=bool), n, Fraction(9, 10))


@pytest.mark.parametrize(
    ("n", "k", "transitions", "statistics", "ours"),
    [(24, 12, 960, "2.44", "2.49"), (480, 12, 19200, "903.8", "48.8"), (126, 38, 1173, "63.0", "38.5")],
)
def test_source_table(n: int, k: int, transitions: int, statistics: str, ours: str) -> None:
    counted = Registers(n, k, transitions, 0)
    digits = len(ours.split(".")[1])
    assert f"{kib(counted.statistics):.{len(statistics.split('.')[1])}f}" == statistics
    assert f"{kib(counted.context_with_query):.{digits}f}" == ours
    assert counted.raw == 3 * transitions


def test_sparse_count_of_the_small_block_cycle() -> None:
    counted = count_registers(block_cycle(24, 960), 12)
    assert counted.nnz == 48
    assert f"{kib(counted.sparse):.2f}" == "0.75"


def test_sparse_parts_are_those_of_the_matrix() -> None:
    task = block_cycle(480, 19200)
    A, r = sparse_model(task)
    counted = count_registers(task, 12)
    assert counted.nnz == np.count_nonzero(task.counts)
    assert counted.sparse_parts["data"] == A.data.size
    assert counted.sparse_parts["indices"] == A.indices.size
    assert counted.sparse_parts["indptr"] == A.indptr.size
    assert counted.sparse_parts["rewards"] == r.size
    assert counted.sparse == 2 * counted.nnz + 4 * 480 + 1
    assert kib(counted.sparse) == pytest.approx(102.2, abs=1)


@pytest.mark.parametrize("discount", [Fraction(9, 10), Fraction(0.97)])
def test_model_is_the_exact_one_rounded_once(discount: Fraction) -> None:
    states = np.array([0, 1, 1, 1, 2, 2, 2, 0])
    successors = np.array([1, 2, 0, 1, 2, 2, 0, 0])
    terminal = np.array([False, False, False, True, True, True, True, False])
    rewards = np.array([Fraction(i, 7) for i in range(8)], dtype=object)
    task = Task(states, successors, rewards, terminal, 3, discount)
    A, r = sparse_model(task)
    counts = sparse_counts(task)
    assert counts.toarray().tolist() == task.counts.tolist()
    assert A.nnz == 4  # the row of state 2 is empty: all its successors are terminal
    exact = [[Fraction(int(x.p), int(x.q)) for x in row] for row in task.A.tolist()]
    assert A.toarray().tolist() == [[float(x) for x in row] for row in exact]
    assert r.tolist() == [float(Fraction(int(x.p), int(x.q))) for x in task.r.entries()]
