"""recurrent.delta-rule in floats: state errors in every format, with certified bounds, and the figures about precision.

Keys are random unit vectors, values normal, gate and rate one constant a run; 64 bits before they are rounded to the
format of the run. Three models are told apart:

* inputs rounded, then exact arithmetic: what the format of the inputs costs;
* token by token with every tensor and operation in the format (recurrent state in 16 bits, say);
* chunks, with state, inverse and log gates in float32 or float64, whatever the inputs.

Gates are exact numbers: their rounding counts as an error of the run, which is why log gates stay in float32.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import torch
from flint import arb, arb_mat, ctx, fmpz_mat
from torch import Tensor

from constructions.recurrent.delta_rule import THEOREM
from constructions.recurrent.streams import Stream
from numerics.errors import ball_up, error_against, exact_entries
from numerics.measurement import Measurement
from numerics.torch_arithmetic import parse_device, parse_dtype

from .certified_error import certify_states, enclosed_state, exact_stream, frobenius, naive_balls
from .kernel import chunked, expansion, recurrent, working_dtype

WIDTH = 16
CHUNK = 32
METHOD = "exact one-step residuals in Q"
Row = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """Gate a (exact), rate b, tokens T, seed; d_k = d_v = `WIDTH`."""

    gate: Fraction
    rate: float
    tokens: int
    seed: int = 0

    def __str__(self) -> str:
        return f"unit keys, a={float(self.gate):g}, b={self.rate:g}, T={self.tokens}, d={WIDTH}, seed={self.seed}"

    def inputs(self, dtype: torch.dtype = torch.float64, device: Any = "cpu") -> list[Tensor]:
        """Keys, values, queries, rates, rounded once to the format, and log gates in at least float32."""
        rng = torch.Generator().manual_seed(self.seed)
        k, v, q = torch.randn(3, self.tokens, WIDTH, generator=rng, dtype=torch.float64)
        k = k / k.norm(dim=-1, keepdim=True)
        b = torch.full((self.tokens,), self.rate, dtype=torch.float64)
        given = [x.to(device, dtype) for x in (k, v, q, b)]
        log_gates = torch.full((self.tokens,), math.log(self.gate), dtype=torch.float64)
        return [*given, log_gates.to(device, working_dtype(*given))]


@lru_cache(maxsize=8)
def problem(setting: Setting, dtype: torch.dtype) -> Stream:
    """The exact problem that the rounded inputs state."""
    k, v, q, b, _ = setting.inputs(dtype)
    return exact_stream(k, v, q, b, [setting.gate] * setting.tokens, name=f"{setting}, inputs {_short(dtype)}")


@lru_cache(maxsize=8)
def solution(setting: Setting, dtype: torch.dtype) -> arb_mat:
    """Its last state, in balls."""
    return enclosed_state(problem(setting, dtype))


def token_run(setting: Setting, dtype: torch.dtype, device: Any = "cpu") -> tuple[list[Tensor], list[int]]:
    """States after each token, every operation in the format."""
    _, _, states = recurrent(*setting.inputs(dtype, device), working=dtype, every=1)
    return states, list(range(1, setting.tokens + 1))


def chunk_run(setting: Setting, dtype: torch.dtype, device: Any = "cpu") -> tuple[list[Tensor], list[int]]:
    """States after each chunk, resumed from chunk to chunk."""
    inputs, state, states, at = setting.inputs(dtype, device), None, [], []
    for start in range(0, setting.tokens, CHUNK):
        k, v, q, b, logs = (x[start : start + CHUNK] for x in inputs)
        _, state = chunked(k, v, q, b, logs, state, chunk=CHUNK)
        states.append(state)
        at.append(min(start + CHUNK, setting.tokens))
    return states, at


RUNS = {"token by token, all in the format": token_run, f"chunks of {CHUNK}, state in float32 or more": chunk_run}
"""The two models of a run."""


def measure_run(setting: Setting, model: str, dtype: torch.dtype, device: Any = "cpu") -> Measurement:
    """The last state of a run against balls, beside the bound from its residuals."""
    start = time.perf_counter()
    states, positions = RUNS[model](setting, dtype, device)
    seconds = time.perf_counter() - start
    certified = certify_states(problem(setting, dtype), states, positions)
    k, _, _, b, _ = setting.inputs(dtype)
    found = expansion(k, b)
    flags = [model] + ([f"b |k|^2 > 2 at {found.tokens} tokens, at most {found.largest:.4g}"] if found.tokens else [])
    return Measurement(
        theorem=THEOREM,
        task=str(setting),
        arithmetic=f"torch {_short(dtype)}, {device}",
        sizes={"T": setting.tokens, "d": WIDTH},
        error=error_against(states[-1], solution(setting, dtype)),
        reference="Arb balls of radius below 1e-30 on the rounded inputs and exact gates",
        bound=certified.last,
        method=f"{METHOD}; errors at the start grow by {certified.growth:.3g}",
        seconds=seconds,
        seed=setting.seed,
        flags=tuple(flags),
    )


def settings(seed: int, quick: bool) -> list[Setting]:
    """a in 1, .99, and .9 if not quick; b in 1, 2; T = 100, and 1000 if not quick."""
    gates = (Fraction(1), Fraction(99, 100), Fraction(9, 10))[: 2 if quick else 3]
    lengths = (100,) if quick else (100, 1000)
    return [Setting(a, b, T, seed) for T in lengths for a in gates for b in (1.0, 2.0)]


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Both models in the formats asked for, and in the two 16-bit formats.

    Raises:
        BadInput: an unknown dtype or device.
    """
    place = parse_device(device)
    formats = [parse_dtype(x) for x in dict.fromkeys((*dtypes, "bfloat16", "float16"))]
    return [measure_run(s, model, f, place) for s in settings(seed, quick) for f in formats for model in RUNS]


def relative_error(state: Tensor | arb_mat, exact: arb_mat) -> float:
    """|S^ - S| / |S| in the Frobenius norm, rounded up."""
    with ctx.workprec(256):
        if isinstance(state, Tensor):
            shape, entries = exact_entries(state)
            if None in entries:
                return math.inf
            state = arb_mat(*shape, [arb(x) for x in entries])
        return ball_up(frobenius(state - exact) / frobenius(exact))


def total_error(setting: Setting, dtype: torch.dtype) -> float:
    """Of the token run in the format against the exact state of the inputs before they were rounded."""
    states, _ = token_run(setting, dtype)
    return relative_error(states[-1], solution(setting, torch.float64))


def reproduce_delta_rule(quick: bool = True, seed: int = 0, device: Any = "cpu") -> list[Row]:
    """Rows with the keys name, quantity, setting, source, ours, agrees, reason, seed; runs are on the processor.

    The figures called source are those of this project's theory notes (C3): the paper on re-scanning has none.

    Args:
        quick: 100 tokens instead of 1000 where a figure allows it.
        seed: of the inputs.
        device: must be there; the figures do not depend on it.

    Raises:
        BadInput: a device that is not there.
    """
    parse_device(device)
    one, T = Fraction(1), 100 if quick else 1000
    names = {"float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    rows: list[Row] = []

    def add(quantity: str, setting: Any, source: float, ours: float, factor: float = 2.5, reason: str = "") -> None:
        near = source / factor <= ours <= source * factor
        rows.append(
            {
                "name": "delta-rule",
                "quantity": quantity,
                "setting": str(setting),
                "source": source,
                "ours": ours,
                "agrees": near,
                "reason": "" if near else reason or f"apart by more than a factor of {factor:g}",
                "seed": seed,
            }
        )

    plain = Setting(one, 1.0, T, seed)
    for name, source in (("float64", 2.5e-16), ("float32", 1.3e-7), ("float16", 1e-3), ("bfloat16", 7.5e-3)):
        # A state in float64 against the solution for inputs that are float64 themselves: nothing else is rounded.
        add(f"relative error of the state, {name}", plain, source, total_error(plain, names[name]))
    for tokens, source in ((100, 0.017), (1000, 0.053)):
        if tokens <= T:
            reflecting = Setting(one, 2.0, tokens, seed)
            add("relative error of the state, bfloat16", reflecting, source, total_error(reflecting, torch.bfloat16))
    decaying = Setting(Fraction(99, 100), 1.0, T, seed)
    rounded = Setting(Fraction(float(torch.tensor(0.99, dtype=torch.bfloat16))), 1.0, T, seed)
    shift = relative_error(solution(rounded, torch.float64), solution(decaying, torch.float64))
    add("change of the state when a = .99 alone is rounded to bfloat16", decaying, 0.06, shift, 2.5)
    keys = Setting(one, 2.0, 1000, seed).inputs(torch.bfloat16)[0]
    share = expansion(keys, torch.full((1000,), 2.0)).tokens / 1000
    add("share of unit keys with 2 |k|^2 > 2 after rounding to bfloat16", "1000 keys, d=16", 0.5, share, 1.2)
    add("largest entry of (-L)^(2^m), m < 6", "64 identical unit keys, b=1, a=1", 4.7e17, largest_power(64), 1.2)
    return rows + explosion(seed, 1000, add)


def explosion(seed: int, tokens: int, add_to: Any) -> list[Row]:
    """Radius of balls carried through the recurrence, beside the certified bound of a float64 run of the same."""
    setting = Setting(Fraction(1), 1.0, tokens, seed)
    out: list[Row] = []
    for T in (10, 100, tokens):
        part = Setting(setting.gate, setting.rate, T, seed)
        balls = naive_balls(problem(part, torch.float64), 53)
        with ctx.workprec(64):
            radius = ball_up(max((x.rad() for x in balls.entries()), key=ball_up))
        if tokens == T:
            why = "both say that no digit is left; how fast radii grow depends on how the step is bracketed"
            add_to("radius of 53-bit balls carried through the recurrence", part, 1e127, radius, 1e60, why)
        states, positions = token_run(part, torch.float64)
        bound = certify_states(problem(part, torch.float64), states, positions).last
        out.append(
            {
                "name": "delta-rule",
                "quantity": "ours: certified bound of a float64 run; beside it: radius of 53-bit balls",
                "setting": str(part),
                "source": radius,
                "ours": bound,
                "agrees": bound <= radius,
                "reason": "" if bound <= radius else "the balls are tighter at so few tokens",
                "seed": seed,
            }
        )
    return out


def largest_power(C: int) -> float:
    """The largest entry of the powers that nilpotent doubling forms, exactly: L has ones below the diagonal."""
    power = fmpz_mat(C, C, [-1 if j < i else 0 for i in range(C) for j in range(C)])
    largest = 0
    while any(x != 0 for x in power.entries()):
        largest = max(largest, *(abs(int(x)) for x in power.entries()))
        power = power * power
    return float(largest)


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
