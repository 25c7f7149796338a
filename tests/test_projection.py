"""Projection and truncation errors against computing each size on its own, one size and one depth at a time."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import orth
from scipy.sparse import csr_matrix

from constructions.errors import BadInput
from constructions.task import Task
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.projection import arnoldi, compress, iterates
from numerics.temporal_difference.registers import sparse_model


def block_cycle(n: int, transitions: int, seed: int) -> Task:
    """12 equal blocks, a uniform jump into the next one, reward constant per block: k = 12."""
    rng = np.random.default_rng(seed)
    per = n // 12
    states = np.concatenate([np.arange(n), rng.integers(0, n, transitions - n)])
    successors = (states // per + 1) % 12 * per + rng.integers(0, per, transitions)
    rewards = rng.standard_normal(12)[states // per]
    return Task(states, successors, rewards, np.zeros(transitions, dtype=bool), n, Fraction(9, 10))


def chain(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    P = rng.random((n, n)) ** 4
    return 0.9 * P / P.sum(axis=1, keepdims=True), rng.standard_normal(n)


def direct(A: np.ndarray, r: np.ndarray, depth: int, m: int) -> tuple[float, float]:
    """Both errors for one m, by an orthonormal basis that is not Arnoldi's and iterates that are sums of powers."""
    powers = [np.linalg.matrix_power(A, j) @ r for j in range(depth)]
    exact = [sum(powers[:l], np.zeros_like(r)) for l in range(depth + 1)]
    basis = orth(np.stack([x / np.linalg.norm(x) for x in powers[:m]], axis=1)) if m else np.zeros((r.size, 0))
    projector = basis @ basis.T
    value, projected = np.zeros_like(r), 0.0
    truncated = max(np.abs(v - exact[min(l, m)]).max() for l, v in enumerate(exact))
    for v in exact:
        projected = max(projected, np.abs(value - v).max())
        value = projector @ (r + A @ value)
    return projected, truncated


@pytest.mark.parametrize(("n", "depth", "k"), [(5, 9, 5), (8, 6, 6), (12, 25, 7), (1, 3, 1)])
@pytest.mark.parametrize("seed", [0, 1])
def test_against_direct_computation(n: int, depth: int, k: int, seed: int) -> None:
    A, r = chain(n, seed)
    found = compress(A, r, depth, k)
    sparse = compress(csr_matrix(A), r, depth, k)
    for m in range(k + 1):
        projected, truncated = direct(A, r, depth, m)
        assert found.projection[m] == pytest.approx(projected, rel=1e-6, abs=1e-12)
        assert found.truncation[m] == pytest.approx(truncated, rel=1e-12, abs=1e-14)
        assert sparse.projection[m] == pytest.approx(found.projection[m], rel=1e-6, abs=1e-12)
    assert found.scale == np.abs(iterates(A, r, depth)).max()
    assert found.relative(found.truncation)[0] == 1


def test_arnoldi_relations() -> None:
    A, r = chain(40, 3)
    W, H, length = arnoldi(A, r, 40)
    assert np.abs(W.T @ W - np.eye(40)).max() < 1e-14
    assert np.abs(A @ W - W @ H).max() < 1e-14
    assert np.abs(length * W[:, 0] - r).max() < 1e-14
    assert np.count_nonzero(np.tril(H, -2)) == 0


def test_block_cycle_threshold() -> None:
    below = []
    for seed in range(5):
        task = block_cycle(24, 960, seed)
        dimension = krylov_dimension(task, 30)
        assert (dimension.value, dimension.method) == (12, "exact in Q")
        errors = compress(*sparse_model(task), 30, 12)
        below.append(errors.relative(errors.projection)[11])
        assert errors.relative(errors.projection)[12] < 5e-15
        assert errors.relative(errors.truncation)[12] > 0.1
    assert max(below) > 0.05


def test_zero_reward() -> None:
    A, _ = chain(4, 0)
    errors = compress(A, np.zeros(4), 7, 0)
    assert errors.projection.tolist() == errors.truncation.tolist() == [0.0]
    assert errors.relative(errors.projection).tolist() == [0.0]
    # A context larger than the Krylov space is no error either.
    assert compress(A, np.zeros(4), 7, 3).projection.tolist() == [0.0] * 4


def test_breakdown_keeps_the_last_error() -> None:
    A = np.zeros((3, 3))
    A[0, 1] = 0.5  # A^2 = 0, so two vectors suffice
    errors = compress(A, np.array([0.0, 1.0, 0.0]), 5, 3)
    assert errors.projection.tolist() == [1.0, 0.5, 0.0, 0.0]
    assert errors.truncation.tolist() == [1.0, 0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("shape", "depth", "k", "said"),
    [((3, 4), 5, 2, "shape"), ((3, 3), 0, 0, "depth"), ((3, 3), 2, 3, "min"), ((3, 3), 2, -1, "min")],
)
def test_refusals(shape: tuple[int, int], depth: int, k: int, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        compress(np.zeros(shape), np.zeros(3), depth, k)
