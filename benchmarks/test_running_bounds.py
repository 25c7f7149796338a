"""What running bounds cost in torch: ``pytest benchmarks/test_running_bounds.py --benchmark-only``.

Predicted before measuring: a product of matrices carries two products of bounds beside its own, so 3 times the plain
cost where the format of the bounds is as fast as that of the run, plus passes over the entries, which vanish beside the
product as matrices grow; at most 6 times at n = 1024, in float64 and float32. (Measured on a busy x86-64 core: 5.2 and
5.7 for the executor, 3.3 and 2.3 for one product of square matrices. Below n = 512 the many small calls dominate: tens
of times.)
"""

import pytest
import torch

from constructions.temporal_difference import executor
from numerics.running_bounds import Bounded, RunningBounds
from numerics.torch_arithmetic import TorchArithmetic

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("bounded", [False, True], ids=["plain", "bounded"])
def test_executor_steps(benchmark, dtype, device, bounded):
    """20 steps of the executor on 1024 sources and as many queries, n = 1024."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    benchmark.group = f"20 executor steps, n = k = 1024, {dtype}, {device}"
    plain = TorchArithmetic(dtype, device)
    context = torch.randn(2049, 1024, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 40
    value = context.to(plain.device, plain.dtype)
    arithmetic = RunningBounds(plain) if bounded else plain
    given = Bounded(value, torch.zeros_like(value, dtype=arithmetic.backend.dtype)) if bounded else value
    tokens = executor.context_tokens(given, 1024, arithmetic)
    program = executor.executor_program(1024, 20)

    def run():
        program.run(tokens, arithmetic)
        if device == "cuda":
            torch.cuda.synchronize()

    benchmark.pedantic(run, rounds=5, warmup_rounds=1)
