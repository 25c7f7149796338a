"""The batched executor against a hand-written loop: ``pytest benchmarks/test_executor.py --benchmark-only``.

2,400 tasks with n = 24 states, all of them queried, 30 depths, float64. The loop is v <- r + A v as anyone would write
it, one batched product a depth, 576 multiplications a task; written for rows, v' <- r' + v'A', it runs faster.
The executor reads contexts of k = 12 tokens. Layer by layer it multiplies some 2,000 times; with the scores, which no
layer changes, taken out of the loop, 12 x (12 + 24) = 432 times, so it should reach at least 0.8 times the loop's
speed (measured on two x86-64 cores, one thread / two: 1.7 / 1.8 times that of columns, 1.1 / .6 times that of rows).
"""

import pytest
import torch

from constructions.construction import last
from constructions.exact import RATIONALS
from constructions.hoisted import hoisted_steps
from constructions.temporal_difference import executor, krylov
from constructions.tokens import Tokens
from numerics import tasks
from numerics.torch_arithmetic import TorchArithmetic, batched

TASKS, DISTINCT, DEPTH, STATES = 2_400, 24, 30, 24


@pytest.fixture(scope="module")
def arithmetic():
    return TorchArithmetic("float64")


@pytest.fixture(scope="module")
def panel(arithmetic):
    """Tokens of all contexts (24 block cycles, each 100 times), and A, r with the same leading dimension."""
    sampled = [tasks.block_cycle(seed=seed) for seed in range(DISTINCT)]
    contexts = [krylov.exact_context(task, DEPTH) for task in sampled]
    banks = [executor.context_tokens(arithmetic.matrix(c.tolist()), STATES, arithmetic) for c in contexts]
    small = batched(banks)
    copies = TASKS // DISTINCT
    tokens = Tokens(small.counts, {key: block.repeat(copies, 1, 1) for key, block in small.blocks.items()})
    # The queries are the same unit vectors for every task: one block without a batch dimension.
    tokens = tokens.replacing({("query", "x"): arithmetic.one_hot(range(STATES), STATES)})
    A = torch.stack([arithmetic.matrix(task.A.tolist()) for task in sampled]).repeat(copies, 1, 1)
    r = torch.stack([arithmetic.matrix(task.r.tolist()) for task in sampled]).repeat(copies, 1, 1)
    exact = [RATIONALS.rows(executor.td_values(task, DEPTH, RATIONALS), DEPTH, DEPTH + 1) for task in sampled]
    return tokens, A, r, torch.cat([arithmetic.matrix(v.tolist()) for v in exact])


def run(steps):
    return -last(steps()).blocks["query", "r"][:, 0]


def iterate(A, r):
    v = torch.zeros_like(r)
    for _ in range(DEPTH):
        v = r + A @ v
    return v[..., 0]


def iterate_rows(A, r):
    A, r = A.mT, r.mT
    v = torch.zeros_like(r)
    for _ in range(DEPTH):
        v = r + v @ A
    return v[..., 0, :]


def check(values, exact):
    """Same result to rounding: both sides against the exact values."""
    assert torch.allclose(values[:DISTINCT], exact, rtol=0, atol=1e-12)
    assert torch.equal(values[:DISTINCT], values[-DISTINCT:])


@pytest.mark.benchmark(group="2,400 tasks, 24 states, 30 depths")
@pytest.mark.parametrize("hoisted", [True, False], ids=["scores once", "layer by layer"])
def test_batched_executor(benchmark, arithmetic, panel, hoisted):
    tokens, _, _, exact = panel
    program = executor.executor_program(STATES, DEPTH)

    def steps():
        return hoisted_steps(program, tokens, arithmetic) if hoisted else program.steps(tokens, arithmetic)

    check(benchmark.pedantic(run, (steps,), rounds=5, warmup_rounds=1), exact)


@pytest.mark.benchmark(group="2,400 tasks, 24 states, 30 depths")
@pytest.mark.parametrize("loop", [iterate, iterate_rows], ids=["columns", "rows"])
def test_hand_written_loop(benchmark, panel, loop):
    _, A, r, exact = panel
    check(benchmark.pedantic(loop, (A, r), rounds=5, warmup_rounds=1), exact)
