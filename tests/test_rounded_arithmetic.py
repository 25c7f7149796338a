"""Correct rounding: every conversion of 16-bit numbers, sampled operations, against gfloat, MPFR and fractions."""

from __future__ import annotations

from fractions import Fraction

import gfloat
import gmpy2
import numpy as np
import pytest
import torch
from gfloat import formats as known
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.temporal_difference import executor
from numerics.formats import BinaryFormat, bits, parse_format, round_doubles, round_exact, round_fraction
from numerics.roles import MODELS, Roles, every, wide
from numerics.rounded_arithmetic import RoundedArithmetic
from numerics.tasks import block_cycle
from numerics.torch_arithmetic import TorchArithmetic

GFLOAT = {
    "e4m3": (known.format_info_ocp_e4m3, False),
    "e4m3-saturating": (known.format_info_ocp_e4m3, True),
    "e5m2": (known.format_info_ocp_e5m2, False),
    "fp16": (known.format_info_binary16, False),
    "bf16": (known.format_info_bfloat16, False),
}


def same(a, b):
    return (np.isnan(a) & np.isnan(b)) | (a == b)


def mpfr(target):
    """The context of MPFR that does what a format does."""
    emin = target.emin - target.precision + 2
    return gmpy2.context(precision=target.precision, emin=emin, emax=target.emax + 1, subnormalize=True)


def numbers(target, count, seed):
    """Numbers of a format: mostly of like size, some anywhere in its range, subnormals among them."""
    rng = np.random.default_rng(seed)
    low, high = max(target.emin - target.precision, -1070), min(target.emax, 1020)
    spread = np.clip(rng.integers(low, high + 1, count), -1070, 1020)
    exponents = np.where(rng.random(count) < 0.5, rng.integers(-4, 5, count), spread)
    raw = np.ldexp(rng.uniform(1, 2, count) * rng.choice([-1, 1], count), exponents)
    found = raw if target.precision == 53 else round_doubles(raw, target)
    return found[np.isfinite(found)]


@pytest.mark.parametrize("name", GFLOAT)
def test_conversions_of_every_16_bit_number_and_midpoint(name):
    """All float16 and bfloat16 bit patterns, and the middles between neighbours of the format, into each format."""
    target = parse_format(name)
    info, saturate = GFLOAT[name]
    patterns = np.arange(2**16, dtype=np.uint16).view(np.int16)
    tensor = torch.from_numpy(patterns.copy())
    inputs = torch.cat([tensor.view(torch.float16).double(), tensor.view(torch.bfloat16).double()]).numpy()
    finite = inputs[np.isfinite(inputs)]
    own = np.unique(round_doubles(finite, target))
    own = own[np.isfinite(own)]
    middles = own[:-1] / 2 + own[1:] / 2
    x = np.concatenate([inputs, middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)])
    expected = gfloat.round_ndarray(info, x, sat=saturate)
    assert same(round_doubles(x, target), expected).all()
    exact = RoundedArithmetic(target).exactly([Fraction(v) for v in middles.tolist()], target)
    assert same(exact, gfloat.round_ndarray(info, middles, sat=saturate)).all()


@pytest.mark.parametrize("name", ["e5m2", "fp16", "bf16", "tf32", "fp32", "fp64", "p7", "p25"])
def test_operations_against_mpfr(name):
    target = parse_format(name)
    arithmetic = RoundedArithmetic(name)
    x, y = numbers(target, 700, 0), numbers(target, 700, 1)
    size = min(len(x), len(y))
    x, y = x[:size], np.where(y[:size] == 0, 1, y[:size])
    found = {
        "add": arithmetic.add(x[None], y[None])[0],
        "mul": arithmetic.hadamard(x[None], y[None])[0],
        "div": arithmetic.quotient(x[None], y[None])[0],
        "sqrt": arithmetic._root(np.abs(x)[None], None)[0],
    }
    with gmpy2.context(mpfr(target)):
        for name, values in found.items():
            for a, b, value in zip(x.tolist(), y.tolist(), values.tolist(), strict=True):
                if name == "sqrt":
                    expected = float(gmpy2.sqrt(gmpy2.mpfr(abs(a))))
                else:
                    expected = float(getattr(gmpy2, name)(gmpy2.mpfr(a), gmpy2.mpfr(b)))
                assert value == expected, (name, a, b)


@pytest.mark.parametrize("target", [bits(60), BinaryFormat(30, -20, 20), BinaryFormat(27, -6, 8, "saturate")], ids=str)
def test_operations_carried_in_mpmath_against_mpfr(target):
    arithmetic = RoundedArithmetic(target)
    rng = np.random.default_rng(3)
    raw = [Fraction(float(v)) * Fraction(2) ** int(rng.integers(-29, 9)) for v in rng.normal(size=400)]
    row = arithmetic.matrix([raw])
    x, y = row[:, :200], row[:, 200:]
    y = np.where(y == 0, arithmetic.scalar(1), y)
    found = {
        "add": arithmetic.add(x, y),
        "mul": arithmetic.hadamard(x, y),
        "div": arithmetic.quotient(x, y),
        "exp": arithmetic.exp(x),
    }

    def exact(v):
        return gmpy2.mpq(Fraction(*v.as_integer_ratio())) if not hasattr(v, "_mpf_") else rational(v)

    def rational(v):
        sign, man, exponent, _ = v._mpf_
        return gmpy2.mpq(int(man)) * gmpy2.mpq(2) ** exponent * (-1 if sign else 1)

    top = gmpy2.mpq(target.largest) if target.emax < 1000 else None
    with gmpy2.context(mpfr(target) if target.emax < 1000 else gmpy2.context(precision=60)):
        for name, values in found.items():
            for a, b, value in zip(x[0], y[0], values[0], strict=True):
                left = gmpy2.mpfr(exact(a))
                expected = gmpy2.exp(left) if name == "exp" else getattr(gmpy2, name)(left, gmpy2.mpfr(exact(b)))
                if gmpy2.is_infinite(expected) and target.overflow == "saturate":
                    assert abs(rational(value)) == top
                elif gmpy2.is_infinite(expected):
                    assert not np.isfinite(float(value))
                else:
                    assert rational(value) == gmpy2.mpq(expected), (name, a, b)


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp32", "fp64"])
def test_exp_and_log_against_mpfr(name):
    target = parse_format(name)
    arithmetic = RoundedArithmetic(name)
    rng = np.random.default_rng(2)
    x = arithmetic.matrix([[Fraction(float(v)) for v in np.concatenate([rng.normal(size=120) * 5, [0.0, 1.0, -9.0]])]])
    e, l = arithmetic.exp(x)[0], arithmetic.log(np.abs(x) + (x == 0))[0]
    with gmpy2.context(mpfr(target)):
        for v, a, b in zip(x[0].tolist(), e.tolist(), l.tolist(), strict=True):
            assert a == float(gmpy2.exp(gmpy2.mpfr(v)))
            assert b == float(gmpy2.log(gmpy2.mpfr(abs(v) or 1.0)))


@given(st.fractions(), st.sampled_from(["e4m3", "e5m2", "fp16", "bf16", "tf32", "fp32", "fp64", "p4", "p24"]))
def test_fractions_are_rounded_once_to_the_nearest(x, name):
    target = parse_format(name)
    found = round_exact([x], target)[0]
    assert same(found, round_fraction(x.numerator, x.denominator, target))
    if not np.isfinite(found):
        assert abs(x) > target.largest
        return
    here = Fraction(float(found))
    step = max(Fraction(2) ** (int(np.frexp(float(found))[1]) - target.precision), target.smallest)
    assert abs(here - x) <= step / 2


def test_double_rounding_is_excluded_where_it_would_be_wrong():
    # 1 + 2^-8 is half-way between two bfloat16 numbers; what lies 2^-60 above is lost if float64 rounds first.
    x = 1 + Fraction(1, 2**8) + Fraction(1, 2**60)
    assert RoundedArithmetic("bf16").matrix([[x]])[0, 0] == 1 + 2.0**-7
    assert round_doubles(np.array([float(x)]), parse_format("bf16"))[0] == 1.0
    mixed = Roles(*map(parse_format, ("fp64", "fp64", "bf16", "fp64", "bf16")))
    arithmetic = RoundedArithmetic(mixed)
    assert arithmetic.context is not None
    # A product of float64 numbers that float64 would round to the midpoint.
    a, b = arithmetic.matrix([[1 + Fraction(1, 2**30)]]), arithmetic.matrix([[1 + Fraction(1, 2**8)]])
    assert float(arithmetic.hadamard(a, b)[0, 0]) == 1 + 2.0**-7


def test_roles_and_models():
    narrow, broad = RoundedArithmetic("bf16"), RoundedArithmetic(MODELS["wide"]("bf16"), "wide accumulation")
    ones = [[1] * 400]
    for arithmetic, total in ((narrow, 256), (broad, 400)):
        row = arithmetic.matrix(ones)
        assert arithmetic.matmul(row, row.T)[0, 0] == total
        assert arithmetic.dots(row.T, row.T)[0, 0] == total
    assert narrow.name == "rounded bf16, every operation rounded"
    assert broad.name == "rounded bf16, accumulator fp32, wide accumulation"
    roles = Roles(*map(parse_format, ("fp32", "bf16", "fp16", "fp32", "tf32")))
    arithmetic = RoundedArithmetic(roles)
    third = [[Fraction(1, 3)]]
    assert arithmetic.matrix(third) == np.float32(1 / 3)
    assert arithmetic.public_matrix(third, (1, 1)) == float(torch.tensor(1 / 3, dtype=torch.bfloat16))
    zero = arithmetic.matrix([[0]])
    assert arithmetic.add(arithmetic.matrix(third), zero) == np.float16(np.float32(1 / 3))
    one = arithmetic.matrix([[1]])
    assert arithmetic.matmul(arithmetic.matrix(third), one) == round_exact([1 / 3], parse_format("tf32"))[0]
    assert wide("fp64").accumulator.precision == 170
    assert every("p12").state == bits(12)


def test_softmax_and_hardmax_by_column():
    arithmetic = RoundedArithmetic("fp32")
    scores = arithmetic.matrix([[0, 1], [0, 3], [5, 3]])
    seen = np.array([[True, True], [True, True], [False, True]])
    assert (arithmetic.hardmax(scores, seen) == [[0.5, 0], [0.5, 0.5], [0, 0.5]]).all()
    found = arithmetic.softmax(scores, seen)
    expected = np.exp([[0, 1], [0, 3], [-np.inf, 3]])
    np.testing.assert_allclose(found, expected / expected.sum(0), rtol=3e-7)


@pytest.mark.parametrize("name", ["fp32", "fp64"])
def test_program_agrees_with_torch_to_rounding(name):
    task = block_cycle(6, 3, 30, seed=0)
    built = executor.construction(6, 6, passes=2, balanced=True, rounds=3)
    ours = built.outputs(task, RoundedArithmetic(name))
    theirs = built.outputs(task, TorchArithmetic({"fp32": "float32", "fp64": "float64"}[name])).double().numpy()
    np.testing.assert_allclose(ours, theirs, atol=200 * RoundedArithmetic(name).unit_roundoff)
    faithful = built.outputs(task, RoundedArithmetic(name), faithful=True)
    np.testing.assert_allclose(ours, faithful, atol=200 * RoundedArithmetic(name).unit_roundoff)


@pytest.mark.parametrize("text", ["fp8", "p3", "p257", "float", ""])
def test_unknown_formats_are_refused(text):
    with pytest.raises(BadInput, match="format: expected one of"):
        parse_format(text)


@settings(max_examples=60)
@given(st.integers(4, 25), st.data())
def test_losses_bound_the_local_error(precision, data):
    arithmetic = RoundedArithmetic(bits(precision))
    number = st.floats(-1e6, 1e6, allow_subnormal=False)
    a, b = (arithmetic.matrix([[data.draw(number)]]) for _ in range(2))
    for run, exact in (
        (arithmetic.rounded_add, Fraction(a[0, 0]) + Fraction(b[0, 0])),
        (arithmetic.rounded_product, Fraction(a[0, 0]) * Fraction(b[0, 0])),
    ):
        losses = []
        value = run(a, b, losses)
        # What was lost is reported exactly: the losses add up to the error of the one operation, and no more.
        assert abs(Fraction(value[0, 0]) - exact) == sum(Fraction(float(loss[0, 0])) for loss in losses)
