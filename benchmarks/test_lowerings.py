"""Speed of the two evaluations and of the direct algorithm, side by side: ``pytest benchmarks --benchmark-only``.

Predicted before measuring: at n = 24, N = 960 the faithful evaluation multiplies matrices of 1,056 tokens where the
fused one touches blocks, so fused should be at least 20 times faster (measured on one x86-64 core: 220). At n = 480 the
executor (two products with n x k blocks a step) should stay within a factor 4 of the direct iteration v <- r + A v (one
n x n product) when all n states are queried and k is small (measured: 3.1).
"""

import pytest

from constructions.temporal_difference import executor
from numerics import tasks
from numerics.torch_arithmetic import TorchArithmetic


@pytest.fixture(scope="module")
def arithmetic():
    return TorchArithmetic("float64")


@pytest.mark.benchmark(group="encoder and executor, n = 24, N = 960, L = 30")
@pytest.mark.parametrize("faithful", [False, True], ids=["fused", "faithful"])
def test_evaluation(benchmark, arithmetic, faithful):
    task = tasks.block_cycle()
    built = executor.construction(24, 30, passes=2, balanced=True, rounds=12)
    benchmark.pedantic(built.outputs, (task, arithmetic), {"faithful": faithful}, rounds=3, warmup_rounds=1)


@pytest.fixture(scope="module")
def large(arithmetic):
    """The context of a block cycle (n = 480, k = 12) as tokens, and A and r."""
    task = tasks.block_cycle(n=480, transitions=19_200)
    built = executor.construction(480, 1, passes=2, balanced=True, rounds=12)
    steps = built.program.steps(built.encode(task, arithmetic), arithmetic)
    tokens = next(tokens for label, tokens in steps if label == "forget workspace")
    A, r = (arithmetic.matrix(m.tolist()) for m in (task.A, task.r))
    return tokens, A, r


@pytest.mark.benchmark(group="480 depths, 480 states, k = 12")
def test_executor(benchmark, arithmetic, large):
    program = executor.executor_program(480, 480)
    benchmark.pedantic(program.run, (large[0], arithmetic), rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group="480 depths, 480 states, k = 12")
def test_direct_iteration(benchmark, arithmetic, large):
    _, A, r = large

    def iterate():
        v = r * 0
        for _ in range(480):
            v = r + A @ v
        return v

    benchmark.pedantic(iterate, rounds=3, warmup_rounds=1)
