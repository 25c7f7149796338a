"""The figures of theory C3 beside ours: errors of the delta rule's state by format, decay, rate, T and rounding model.

Ours are ranges over seeds. The source does not say where its runs round; the model `fused` gives its figures. With
every operation rounded, torch's kernel here, errors are 5% to 20% larger, and with inputs and states rounded only, 10%
smaller.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import torch

from numerics.formats import parse_format, round_doubles
from numerics.precision_rows import Rows, growth_of

from .delta_rule import Setting, total_error
from .state_formats import WIDTH, relative_errors, streams, torch_errors

SEEDS = 40


def _setting(gate: float, rate: float, tokens: int, model: str) -> str:
    return f"unit keys, d={WIDTH}, a={gate:g}, b={rate:g}, T={tokens}; {model}"


def figure_rows(rows: Rows, quick: bool) -> None:
    """Errors of the state, their growth, and chunks against single tokens."""
    seeds, model = rows.seeds(SEEDS), "inputs and operations rounded, the update fused"
    for name, source in (("bf16", "7.5e-3"), ("fp16", "1e-3"), ("fp32", "1.3e-7")):
        (errors,) = relative_errors(1.0, 1.0, parse_format(name), "fused", (1000,), seeds)
        rows.add_spread(f"relative error of the state, {name}", _setting(1, 1, 1000, model), errors, source)
    # Against balls: float64 is no reference for itself.
    exact = [total_error(Setting(Fraction(1), 1.0, 100, seed), torch.float64) for seed in seeds[:10]]
    rows.add_spread("relative error of the state, fp64", _setting(1, 1, 100, "torch token by token"), exact, "2.5e-16")
    at = (100, 1000) if quick else (100, 1000, 10_000)
    reflected = relative_errors(1.0, 2.0, parse_format("bf16"), "fused", at, seeds)
    for T, errors, source in zip(at, reflected, (".017", ".053", ".17"), strict=False):
        rows.add_spread("relative error of the state, bf16", _setting(1, 2, T, model), errors, source)
    slope, growth = growth_of(at, [float(np.median(errors)) for errors in reflected])
    rows.add("growth of the error, bf16", _setting(1, 2, at[-1], model), growth, "sqrt", growth == "sqrt")
    rows.rows[-1]["reason"] = f"exponent {slope:.2f}"
    if not quick:
        (errors,) = relative_errors(1.0, 2.0, parse_format("fp32"), "fused", (100_000,), seeds)
        rows.add_spread("relative error of the state, fp32", _setting(1, 2, 100_000, model), errors, "9.5e-6")
    for gate, rate in ((1.0, 1.0), (1.0, 2.0), (0.99, 1.0)):
        single, chunked = (torch_errors(gate, rate, "float32", (1000,), seeds, chunk)[0] for chunk in (None, 64))
        ratio = float(np.median(chunked) / np.median(single))
        setting = f"{_setting(gate, rate, 1000, 'torch, state in fp32')}; {SEEDS} seeds from {rows.seed}"
        # Between 1 and 3 as the source rounds it.
        rows.add("error of chunks of 64 over that of single tokens", setting, ratio, [1, 3], 0.5 <= ratio < 3.5)


def input_rows(rows: Rows) -> None:
    """What rounding the gate alone costs, and how often rounded unit keys are too long for b = 2."""
    seeds, bf16 = rows.seeds(SEEDS), parse_format("bf16")
    for rate, source in ((1.0, ".03"), (2.0, ".11")):
        (errors,) = relative_errors(0.99, rate, bf16, "gate", (1000,), seeds)
        setting = _setting(0.99, rate, 1000, "the gate alone rounded")
        rows.add_spread("relative change of the state, bf16", setting, errors, source)
    keys, _ = streams(1000, seeds)
    long = (np.square(round_doubles(keys, bf16)).sum(axis=-1) > 1).mean(axis=0)
    rows.add_spread("share of unit keys with 2 |k|^2 > 2 after rounding to bf16", f"1000 keys, d={WIDTH}", long, ".5")


def state_rows(rows: Rows, quick: bool) -> None:
    """The state by format, decay, rate and T; state and inputs rounded apart and together."""
    at, seeds = ((100, 300, 1000) if quick else (100, 1000, 10_000)), rows.seeds(4)
    lines: dict[str, list[float]] = {}
    for name in ("bf16", "fp16", "fp32"):
        for gate, rate in ((1.0, 1.0), (1.0, 2.0), (0.99, 1.0), (0.9, 1.0)):
            for model in ("state", "input", "all"):
                found = relative_errors(gate, rate, parse_format(name), model, at, seeds)
                errors = [float(np.median(x)) for x in found]
                slope, growth = growth_of(at, errors)
                # The source: with a < 1 or b < 2 the error saturates, else it grows like the square root of T.
                expected = "flat" if gate < 1 or rate < 2 else "sqrt"
                ours = f"{errors[0]:.2g} -> {errors[-1]:.2g}, {growth} (T^{slope:.2f})"
                setting = _setting(gate, rate, at[0], f"rounded: {model}; growth to T={at[-1]}, medians of 4 seeds")
                quantity = f"state of the delta rule, {name}, {model} rounded"
                rows.add(quantity, setting, ours, expected, growth == expected, "another growth")
                if model == "state" and name == "bf16":
                    lines[f"a={gate:g}, b={rate:g}"] = errors
    rows.draw("State of the delta rule in bf16, the state alone rounded", "T", "relative error", at, lines, "log")


def add_figures(rows: Rows, quick: bool) -> None:
    """All of them."""
    figure_rows(rows, quick)
    input_rows(rows)
    state_rows(rows, quick)
