"""Both lowerings of one program: fused (blocks and slices) and faithful (whole matrices P, Q, R) give one answer."""

from __future__ import annotations

import pytest

from constructions.exact import RATIONALS, Balls, PrimeField
from constructions.temporal_difference import executor, krylov, statistics
from numerics.errors import error_against, exact_entries
from numerics.measurement import precision_of
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle, dirichlet_chain, reversible_chain, with_terminal, with_zero_rewards
from numerics.temporal_difference.krylov import exact_matrix
from numerics.torch_arithmetic import TorchArithmetic

# arithmetic -> tolerance relative to the largest entry; 0 means equal.
ARITHMETICS = {
    "Q": (lambda: RATIONALS, 0.0),
    "GF(2^61 - 1)": (lambda: PrimeField(2**61 - 1), 0.0),
    "GF(2^127 - 1)": (lambda: PrimeField(2**127 - 1), 0.0),
    "mpmath 113": (lambda: MpmathArithmetic(113), 1e-30),
    "balls 256": (lambda: Balls(256), 1e-60),
    "float64": (lambda: TorchArithmetic("float64"), 1e-12),
    "float32": (lambda: TorchArithmetic("float32"), 1e-4),
}
TASKS = {
    "cycle": (lambda: block_cycle(4, 2, 10, seed=3), 2),
    "chain": (lambda: reversible_chain(3, 12, seed=1), 3),
    "terminal": (lambda: with_terminal(dirichlet_chain(3, 12, seed=2), 0.3, 1), 3),
}
BUILDS = {
    "statistics": lambda n, k: statistics.construction(n),
    "krylov": lambda n, k: krylov.construction(n, 4, rounds=k),
    "krylov, two passes": lambda n, k: krylov.construction(n, 4, rounds=k, passes=2),
    "krylov, balanced": lambda n, k: krylov.construction(n, 4, rounds=k, passes=2, balanced=True),
    "executor alone": lambda n, k: executor.from_context(n, 4),
    "encoder and executor": lambda n, k: executor.construction(n, 4, rounds=k),
    "encoder and executor, balanced": lambda n, k: executor.construction(n, 4, rounds=k, passes=2, balanced=True),
}


# A square root is not a rational operation, so balanced programs have no exact run.
CASES = [(a, b) for a, (_, tolerance) in ARITHMETICS.items() for b in BUILDS if tolerance or "balanced" not in b]


@pytest.mark.parametrize(("arithmetic", "build"), CASES)
@pytest.mark.parametrize("task", TASKS)
def test_fused_equals_faithful(arithmetic, build, task):
    make, tolerance = ARITHMETICS[arithmetic]
    numbers = make()
    make_task, k = TASKS[task]
    example = make_task()
    built = BUILDS[build](example.n, k)
    with precision_of(numbers):
        fused = built.outputs(example, numbers)
        faithful = built.outputs(example, numbers, faithful=True)
        if tolerance == 0:
            assert fused == faithful
            return
        if isinstance(numbers, Balls):
            gaps = [abs(x - y) for x, y in zip(fused.entries(), faithful.entries(), strict=True)]
            assert all(x.overlaps(y) for x, y in zip(fused.entries(), faithful.entries(), strict=True))
            assert all(gap < tolerance for gap in gaps)
            return
    exact = exact_matrix(faithful)
    assert exact is not None
    assert error_against(fused, exact).relative <= tolerance


@pytest.mark.parametrize("arithmetic", ["Q", "float64"])
def test_gate_with_no_survivor(arithmetic):
    numbers = ARITHMETICS[arithmetic][0]()
    task = with_zero_rewards(reversible_chain(3, 9, seed=1))
    built = executor.construction(3, 2)
    for faithful in (False, True):
        values = built.outputs(task, numbers, faithful=faithful)
        assert not any(exact_entries(values)[1])


def test_gate_drops_the_same_tokens():
    # More rounds than k: in Q the gate decides exactly, and both lowerings keep two tokens of four.
    task = block_cycle(4, 2, 10, seed=3)
    built = krylov.construction(4, 4)
    fused, faithful = (built.outputs(task, RATIONALS, faithful=f) for f in (False, True))
    assert fused == faithful == krylov.exact_context(task, 4)
    assert fused.ncols() == 2
