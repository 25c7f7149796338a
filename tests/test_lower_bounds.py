"""Lower bounds: decoders that are too small, ranks of Jacobians, and the contexts that meet the counts."""

import random

import pytest
from flint import fmpq_mat

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference import dimension, memory_optimal
from numerics import tasks
from proofs_check.claim import Verdict
from proofs_check.schwartz_zippel import random_prime
from proofs_check.temporal_difference import dimension as dimension_proofs
from proofs_check.temporal_difference import memory
from proofs_check.temporal_difference.krylov import krylov_rank


def rank(case):
    rng = random.Random(1)
    return memory.jacobian(case, rng, random_prime(rng, 61)).rank()


@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 2), (5, 5), (7, 4)])
def test_one_depth_beyond_k_is_needed_for_all_registers(n, k):
    ranks = [rank(memory.Jacobian(n, k, depth, memory.CLASSES[0], 0)) for depth in range(1, k + 4)]
    assert ranks[k - 1] == n * k
    assert ranks[k:] == [n * k + k] * 3


def test_stochastic_tasks_need_n_squared_at_k_equal_n():
    assert rank(memory.Jacobian(3, 3, 4, "stochastic", 0)) == 9
    assert rank(memory.Jacobian(4, 4, 5, "stochastic", 0)) == 16
    assert rank(memory.Jacobian(4, 4, 5, "sub-stochastic", 0)) == 20


def test_jacobian_matches_differences_modulo_p():
    """d(B H^j g) is the coefficient of e in (B + e dB)(H + e dH)^j (g + e dg), a polynomial of degree at most 4."""
    rng = random.Random(0)
    p, n, k, depth = 10_007, 2, 2, 3
    case = memory.Jacobian(n, k, depth, memory.CLASSES[0], 0)
    point = random.Random(5)
    J = memory.jacobian(case, random.Random(5), p)
    B, H, g = (memory.random_rows(point, p, *shape) for shape in ((n, k), (k, k), (k, 1)))
    dB, dH, dg = (memory.random_rows(rng, p, *shape) for shape in ((n, k), (k, k), (k, 1)))

    def outputs(e):
        M, A, s = B + dB * e, H + dH * e, g + dg * e
        rows = []
        for _ in range(depth):
            rows += [int(x) for x in (M * s).entries()]
            s = A * s
        return rows

    # The linear coefficient by Lagrange's formula at e = 0..4, times 12.
    weights = [-25, 48, -36, 16, -3]
    values = [outputs(e) for e in range(5)]
    linear = [
        sum(w * v[i] for w, v in zip(weights, values, strict=True)) * pow(12, -1, p) % p for i in range(depth * n)
    ]
    direction = [int(x) for part in (dB, dH, dg) for x in part.entries()]
    moved = [sum(int(J[i, j]) * x for j, x in enumerate(direction)) % p for i in range(depth * n)]
    assert moved == linear


def test_a_context_of_k_minus_1_vectors_is_refuted_with_depth_and_state():
    task = tasks.block_cycle(n=6, blocks=3, transitions=24)
    small = dimension.Proposal(task, 6, dimension.krylov_decoder(task, 6, 2))
    residuals = small.residuals()
    finding = dimension_proofs.prove_too_small([small])
    assert finding.verdict is Verdict.PROVED
    (miss,) = finding.evidence["proposals"]
    assert (miss["k"], miss["m"], miss["fails at depth"]) == (3, 2, 3)
    assert residuals[3, miss["state"]] != 0
    assert all(x == 0 for x in RATIONALS.rows(residuals, 0, 3).entries())
    enough = dimension.Proposal(task, 6, dimension.krylov_decoder(task, 6, 3))
    assert dimension_proofs.prove_too_small([enough]).verdict is Verdict.REFUTED


def test_decoders_that_are_none():
    task = tasks.block_cycle(n=6, blocks=3, transitions=24)
    assert dimension.krylov_decoder(task, 6, 0) is None
    assert dimension.krylov_decoder(task, 6, 4) is None
    assert dimension.value_decoder(task, 6, 4) is None
    with pytest.raises(BadInput, match="independent columns"):
        dimension.Proposal(task, 6, fmpq_mat(6, 1))


def test_the_memory_optimal_context_meets_the_bound_with_equality():
    for task, depth in ((tasks.dirichlet_chain(n=4, transitions=24), 6), (tasks.block_cycle(6, 3, 24), 6)):
        k = krylov_rank(task, depth)
        built = memory_optimal.encoder(task.n, depth)
        tokens = built.program.run(built.encode(task, RATIONALS), RATIONALS)
        case = memory.Jacobian(task.n, k, depth, memory.CLASSES[0], 0)
        assert depth > k
        assert memory_optimal.registers(tokens, RATIONALS) == task.n * k + k == rank(case)
