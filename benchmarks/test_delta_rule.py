"""Speed of the chunked kernel beside the recurrence and an independent chunk form: ``pytest benchmarks``.

T = 4096, d_k = d_v = 64, one sequence, float32, one thread. Predicted before measuring: chunks of 64 turn 4096 steps of
a loop into 64 of two products each, so they should be at least 12 times faster forward and 16 times forward and
backward, and not slower than attn-gym's reference, which inverts row by row. On one quiet x86-64 core:
forward 25 times the recurrence and 1.8 times attn-gym, backward included 70 and 4.4 times.
"""

import pytest
import torch

from numerics.recurrent.kernel import chunked, recurrent

T, WIDTH = 4096, 64


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def inputs():
    rng = torch.Generator().manual_seed(0)
    k, v, q = torch.randn(3, 1, T, WIDTH, generator=rng)
    b = torch.ones(1, T)
    return [k / k.norm(dim=-1, keepdim=True), v, q, b, torch.full((1, T), 0.99).log()]


def attn_gym(k, v, q, b, logs):
    gdn = pytest.importorskip("attn_gym.linear.gdn")
    q, k, v, logs, b = (x.unsqueeze(2) for x in (q, k, v, logs, b))
    out, state = gdn.chunk_gdn(q, k, v, logs, b, scale=1.0, output_final_state=True, impl="reference")
    return out[:, :, 0], state[:, 0]


FORMS = {"chunked": chunked, "attn-gym chunks": attn_gym, "recurrent": recurrent}


@pytest.mark.benchmark(group="forward, T = 4096, d = 64")
@pytest.mark.parametrize("form", FORMS)
def test_forward(benchmark, inputs, form):
    with torch.no_grad():
        benchmark.pedantic(FORMS[form], inputs, rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group="forward and backward, T = 4096, d = 64")
@pytest.mark.parametrize("form", FORMS)
def test_forward_and_backward(benchmark, inputs, form):
    given = [x.clone().requires_grad_() for x in inputs]

    def run():
        out, state = FORMS[form](*given)[:2]
        torch.autograd.grad(out.sum() + state.sum(), given)

    benchmark.pedantic(run, rounds=2, warmup_rounds=1)
