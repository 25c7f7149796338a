"""Torch arithmetic: rationals rounded once, batches, gradients, and refusals in one sentence."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.arithmetic import Arithmetic
from constructions.errors import BadInput
from constructions.temporal_difference import executor
from numerics.tasks import reversible_chain
from numerics.torch_arithmetic import DTYPES, FORMATS, TorchArithmetic, batched, parse_dtype

torch = pytest.importorskip("torch")

NEAR_TIES = (Fraction(0), Fraction(1, 2), Fraction(1, 2) + Fraction(1, 2**80), Fraction(1, 2) - Fraction(1, 2**80))


def assert_nearest(x: Fraction, tensor, dtype) -> None:
    """The oracle: no neighbour in the format is closer, and a tie has an even last bit. Neighbours come from torch."""
    found = float(tensor)
    # A tie with the first number beyond the largest goes away from zero: half a unit past the largest is infinite.
    largest = Fraction(torch.finfo(dtype).max)
    below = Fraction(float(torch.nextafter(torch.tensor(float(largest), dtype=dtype), torch.tensor(0.0, dtype=dtype))))
    beyond = largest + (largest - below) / 2
    if np.isinf(found):
        assert abs(x) >= beyond
        return
    assert abs(x) < beyond
    gap = abs(Fraction(found) - x)
    for side in (float("inf"), float("-inf")):
        neighbour = torch.nextafter(tensor, torch.tensor(side, dtype=dtype))
        if not torch.isfinite(neighbour):
            continue
        other = abs(Fraction(float(neighbour)) - x)
        assert gap <= other
        if gap == other:
            bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
            assert int(tensor.view(bits)) % 2 == 0


@pytest.mark.parametrize("name", DTYPES)
def test_format_constants(name):
    info, form = torch.finfo(getattr(torch, name)), FORMATS[name]
    assert info.eps == 2.0 ** (1 - form.precision)
    assert info.tiny == 2.0**form.emin
    assert Fraction(info.max) == Fraction(2) ** (form.emax + 1) * (1 - form.unit_roundoff)


@pytest.mark.parametrize("name", DTYPES)
def test_rationals_are_rounded_once(name):
    draw, form, dtype = random.Random(7), FORMATS[name], getattr(torch, name)
    values = []
    for _ in range(400):
        exponent = draw.choice(
            [draw.randint(-20, 20), form.emin + draw.randint(-30, 4), form.emax + draw.randint(-2, 2)]
        )
        digits = draw.getrandbits(form.precision) | 1 << (form.precision - 1)
        fraction = draw.choice([*NEAR_TIES, Fraction(draw.random()), Fraction(draw.randrange(97), 97)])
        values.append(draw.choice([1, -1]) * (digits + fraction) * Fraction(2) ** (exponent - form.precision + 1))
    tensor = TorchArithmetic(name).matrix([values])
    assert tensor.dtype == dtype
    for x, entry in zip(values, tensor[0], strict=True):
        assert_nearest(x, entry, dtype)


@settings(max_examples=60, deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(1, 10**30), st.sampled_from(DTYPES))
def test_any_fraction(p, q, name):
    x = Fraction(p, q)
    assert_nearest(x, TorchArithmetic(name).matrix([[x]])[0, 0], getattr(torch, name))


def test_double_rounding_would_be_wrong():
    # 1 + 2^-8 + 2^-60 is above the midpoint of two bfloat16 numbers; float64 first lands on the midpoint itself.
    x = 1 + Fraction(1, 2**8) + Fraction(1, 2**60)
    assert float(TorchArithmetic("bfloat16").matrix([[x]])[0, 0]) == 1 + 2**-7
    assert float(torch.tensor(float(x), dtype=torch.float64).to(torch.bfloat16)) == 1.0


def test_inputs_of_every_kind_agree():
    arithmetic = TorchArithmetic("float32")
    expected = torch.tensor([[3.0, -0.5, 7.0]])
    assert torch.equal(arithmetic.matrix([[3, Fraction(-1, 2), fmpq(7)]]), expected)
    assert torch.equal(arithmetic.matrix(np.array([[3.0, -0.5, 7.0]])), expected)
    assert torch.equal(arithmetic.matrix(np.array([[2**24 + 1]])), torch.tensor([[2.0**24]]))
    assert float(TorchArithmetic("float64").matrix([[10**400]])[0, 0]) == float("inf")


def test_protocol_and_shapes():
    arithmetic = TorchArithmetic("float64")
    assert isinstance(arithmetic, Arithmetic)
    assert arithmetic.name == "torch float64, cpu"
    a = arithmetic.matrix([[1, 2, 3], [4, 5, 6]])
    hot = arithmetic.one_hot([1, -1, 0], 2)
    assert hot.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert arithmetic.embed(a, 1, 5)[0].tolist() == [0, 1, 2, 3, 0]
    assert arithmetic.add_columns(a, 1, arithmetic.matrix([[1], [1]])).tolist() == [[1, 3, 3], [4, 6, 6]]
    assert arithmetic.select(a, [2, 0]).tolist() == [[3, 1], [6, 4]]
    assert arithmetic.dots(a, a).tolist() == [[17, 29, 45]]
    assert arithmetic.stack([[a, hot], [hot, a]]).shape == (4, 6)
    assert a.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_primitives_and_threshold():
    exact, guarded = TorchArithmetic("float64"), TorchArithmetic("float64", zero_below=1e-3)
    x = exact.matrix([[Fraction(1, 1024), Fraction(-1, 4096), 0, 4]])
    assert exact.recip_0(x).tolist() == [[1024, -4096, 0, 0.25]]
    assert guarded.recip_0(x).tolist() == [[0, 0, 0, 0.25]]
    assert guarded.rsqrt_0(x).tolist() == [[0, 0, 0, 0.5]]
    assert "zero below" in guarded.name
    assert exact.nonzero(x) == [True, True, False, True]


def test_gradients_are_finite_at_zero():
    arithmetic = TorchArithmetic("float64")
    x = torch.tensor([[0.0, 2.0]], dtype=torch.float64, requires_grad=True)
    (arithmetic.recip_0(x) + arithmetic.rsqrt_0(x)).sum().backward()
    assert x.grad.tolist() == [[0.0, pytest.approx(-0.25 - 0.5 * 2**-1.5)]]


def test_batch_equals_one_by_one():
    arithmetic = TorchArithmetic("float64")
    tasks = [reversible_chain(5, 40, seed=seed) for seed in range(3)]
    built = executor.construction(5, 6)
    tokens = batched([built.encode(task, arithmetic) for task in tasks])
    together = built.decode(built.program.steps(tokens, arithmetic), arithmetic)
    assert together.shape == (3, 7, 5)
    for task, values in zip(tasks, together, strict=True):
        assert torch.allclose(values, built.outputs(task, arithmetic), rtol=0, atol=1e-13)


def test_blocks_of_one_and_of_many_members_mix():
    arithmetic = TorchArithmetic("float64")
    one, many = torch.ones(3, 5, dtype=torch.float64), torch.ones(4, 3, 2, dtype=torch.float64)
    for sum_ in (arithmetic.add_columns(one, 1, many), arithmetic.add_columns(one.expand(4, 3, 5), 1, many[0])):
        assert sum_.shape == (4, 3, 5)
        assert sum_[2, 0].tolist() == [1, 2, 2, 1, 1]
    assert arithmetic.stack([[one, many]]).shape == (4, 3, 7)
    inputs = tuple(torch.randn(*a.shape, dtype=torch.float64, requires_grad=True) for a in (one, many))
    assert torch.autograd.gradcheck(lambda a, b: arithmetic.add_columns(a, 1, b), inputs)


def test_gate_must_agree_across_a_batch():
    gate = torch.tensor([[[1.0, 0.0]], [[1.0, 2.0]]])
    with pytest.raises(
        BadInput, match="gate of token 1: expected all 2 batch members to agree, found 1 zero and 1 not"
    ):
        TorchArithmetic("float32").nonzero(gate)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"dtype": "int32"}, "dtype: expected one of float64, float32, bfloat16, float16, found int32"),
        ({"device": "tpu"}, "device tpu: expected cpu, cuda or cuda:N"),
        ({"device": "meta"}, "device meta: expected cpu, cuda or cuda:N"),
        ({"zero_below": -1.0}, "expected a finite threshold zero_below >= 0, found -1.0"),
    ],
)
def test_refusals(arguments, sentence):
    with pytest.raises(BadInput, match=sentence):
        TorchArithmetic(**arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a computer without CUDA")
def test_missing_cuda_is_one_sentence():
    with pytest.raises(BadInput, match="device cuda: expected a CUDA device, found none"):
        TorchArithmetic("float32", "cuda")


def test_names_of_dtypes():
    assert parse_dtype("bf16") is torch.bfloat16
    assert parse_dtype(torch.float32) is torch.float32


def test_batch_refusals():
    arithmetic = TorchArithmetic("float64")
    built = executor.construction(3, 3)
    tokens = [built.encode(reversible_chain(3, size), arithmetic) for size in (5, 6)]
    with pytest.raises(BadInput, match="batch: expected token counts"):
        batched(tokens)
    with pytest.raises(BadInput, match="found none"):
        batched([])


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_matches_cpu():
    task, built = reversible_chain(8, 80, seed=3), executor.construction(8, 8, passes=2, balanced=True)
    here = built.outputs(task, TorchArithmetic("float64"))
    there = built.outputs(task, TorchArithmetic("float64", "cuda")).cpu()
    assert torch.allclose(here, there, rtol=0, atol=1e-13)
