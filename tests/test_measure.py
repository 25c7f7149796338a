"""Measurements are sound, say what they must, and would not be sound if the values were wrong."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from constructions.exact import RATIONALS
from constructions.temporal_difference import statistics as stage_1
from numerics.errors import ErrorFigures, error_against
from numerics.measurement import Measurement
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle, reversible_chain, with_terminal
from numerics.temporal_difference import executor, krylov, statistics
from numerics.torch_arithmetic import TorchArithmetic

KEYS = {"theorem", "task", "arithmetic", "sizes", "error", "reference", "bound", "sound", "seconds", "flags", "seed"}
MODULES = {"td.statistics": statistics, "td.krylov": krylov, "td.executor": executor}


@cache
def quick(theorem: str) -> list[Measurement]:
    return MODULES[theorem].measure(seed=3, quick=True)


@pytest.mark.parametrize("theorem", MODULES)
def test_quick_measurements_are_sound(theorem):
    found = quick(theorem)
    assert {m.theorem for m in found} == {theorem}
    kinds = {m.arithmetic.split(",")[0] for m in found}
    assert kinds == {"torch float32", "torch float64", "mpmath", "Arb balls", "exact Q"}
    for m in found:
        assert m.sound, m
        assert set(m.to_json()) == KEYS
        json.dumps(m.to_json(), allow_nan=False)
        if m.arithmetic == "exact Q":
            assert m.error.absolute == m.bound == 0.0
        if m.arithmetic.startswith("Arb"):
            assert m.error.contained
            assert m.bound < 1e-50
        # An infinite bound says nothing, so it must be announced.
        if math.isinf(m.bound):
            assert any("finite" in flag for flag in m.flags)


def test_float64_figures_are_small():
    for m in quick("td.krylov") + quick("td.executor"):
        if "float64" in m.arithmetic and not any("24 rounds" in flag for flag in m.flags):
            assert m.error.relative < 1e-12
            assert m.bound < 1e-10


def test_too_many_rounds_are_reported_not_hidden():
    task = block_cycle(seed=0)
    m = executor.measure_whole(task, 30, krylov.VARIANTS[0], TorchArithmetic("float64"), 0, rounds=24)
    assert m.error.absolute > 1e10
    assert m.sound
    assert "24 rounds, exact k = 12" in m.flags
    m = krylov.measure_one(task, 30, krylov.VARIANTS[0], TorchArithmetic("float64"), 0, rounds=24)
    assert "gate kept 24 tokens, exact k = 12" in m.flags


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_formats_keep_the_a_priori_bound(dtype):
    for task in (block_cycle(seed=2), with_terminal(reversible_chain(3, 2000, seed=1), 0.2)):
        m = statistics.measure_one(task, TorchArithmetic(dtype), 2)
        assert m.sound
        assert m.error.absolute > 0


@pytest.mark.parametrize("arithmetic", [TorchArithmetic("float32"), MpmathArithmetic(60)])
def test_a_wrong_count_breaks_the_bound(arithmetic):
    task = reversible_chain(4, 60, seed=5)
    value = stage_1.construction(4).outputs(task, arithmetic)
    exact = stage_1.counted_statistics(task, RATIONALS)
    allowance = statistics.a_priori_bound(task, arithmetic)
    assert error_against(value, exact, allowance).contained
    moved = arithmetic.add(value, arithmetic.matrix([[Fraction(1, 2**15)] + [0] * 3] + [[0] * 4] * 4))
    assert not error_against(moved, exact, allowance).contained


def test_no_bound_in_reduced_precision_products():
    torch = pytest.importorskip("torch")
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert set(statistics.a_priori_bound(block_cycle(4, 2, 8), TorchArithmetic("float32"))) == {math.inf}
    finally:
        torch.set_float32_matmul_precision(before)


def test_soundness_is_computed():
    m = Measurement("td.x", "t", "a", {}, ErrorFigures(1.0, 1.0, (0, 0)), "Q", 2.0, "a priori", 0.0, 0)
    assert m.sound
    assert not replace(m, bound=0.5).sound
    assert not replace(m, bound=math.nan).sound
    assert not replace(m, error=ErrorFigures(1.0, 1.0, (0, 0), contained=False)).sound
    assert replace(m, bound=math.inf).to_json()["bound"] == "inf"


@pytest.mark.slow
def test_480_states():
    m = executor.measure_whole(
        block_cycle(480, 12, 19_200, seed=0), 480, krylov.VARIANTS[2], TorchArithmetic("float64"), 0
    )
    assert m.sound
    assert m.sizes["k"] == 12
    assert m.error.relative < 1e-12
    assert m.seconds < 60
