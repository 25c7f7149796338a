"""The gated delta rule in the audit: states after every token, inputs rounded to the format of inputs.

Running bound: the smaller of `RunningBounds` and, in the Frobenius norm, of `certify_states`,

    e_t <= a_t max(1, |1 - b_t |k_t|^2|) e_{t-1} + rho_t    with exact residuals rho_t of the given, unrounded tokens.

A priori the same recursion with rho_t bounded from norms: the step that runs is run once more on pairs (x, e), a norm
and a bound on the error in norm, where a product of inner length n gives

    (x y,  x f + e (y + f) + ((1 + u)^(n + 1) - 1) (x + e)(y + f)),

a sum (x + y, e + f + u (x + y + e + f)), at |S^_t| <= |S_t| + e_t. With |S_t| bounded by the same recursion this is a
function of decay, rate, T and the norms of keys and values; rows take the norms of the exact states, which do not grow
like T where keys point everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from flint import arb_mat

from constructions.exact import Balls
from constructions.recurrent.delta_rule import LAYER, Token, encode, read_tokens, step
from constructions.recurrent.streams import Stream
from numerics.audit import EVERY, TORCH, Plan, Setting, Subject, Trial, entries_of, smaller
from numerics.errors import ball_up, round_up
from numerics.recurrent.certified_error import certify_states, frobenius
from numerics.running_bounds import RunningBounds

TASKS = ("a=1 b=1", "a=1 b=2", "a=.99 b=1", "a=.9 b=1")
RATES = {
    "a=1 b=1": (Fraction(1), Fraction(1)),
    "a=1 b=2": (Fraction(1), Fraction(2)),
    "a=.99 b=1": (Fraction(99, 100), Fraction(1)),
    "a=.9 b=1": (Fraction(9, 10), Fraction(1)),
}
GRID = 2**20
SLACK = 1 + 2.0**-40
"""Norms are floats, a few hundred operations a token at most, each within 2^-53: this covers them."""


def unit_stream(gate: Fraction, rate: Fraction, tokens: int, width: int, seed: int) -> Stream:
    """Random unit keys (rounded to a grid of 2^-20), normal values, one gate and one rate."""
    rng = np.random.default_rng(seed)
    k, v, q = rng.standard_normal((3, tokens, width))
    k = k / np.linalg.norm(k, axis=1, keepdims=True)

    def rows(x: Any) -> list[list[Fraction]]:
        return [[Fraction(int(entry), GRID) for entry in row] for row in np.rint(x * GRID)]

    zero = [[Fraction(0)] * width] * width
    name = f"unit keys, a={gate}, b={rate}, T={tokens}, d={width}, seed {seed}"
    return Stream(rows(k), rows(v), rows(q), [rate] * tokens, [gate] * tokens, zero, name)


def subjects(theorem: str, plan: Plan) -> Iterator[Subject]:
    """The recurrence on every stream chosen; the answer is the state after each token, side by side.

    Raises:
        BadInput: an unknown task.
    """
    for name in plan.chosen(theorem, TASKS, 2 if plan.quick else 4):
        width = 4 if plan.quick else 8
        stream = unit_stream(*RATES[name], plan.horizon or (24 if plan.quick else 100), width, plan.seed)
        T, balls = stream.size[0], Balls(256 + 2 * stream.size[0])
        with balls.working():
            states = list(_states(stream, balls))
            exact, norms = balls.stack([states]), [ball_up(frobenius(state)) for state in states]
        run = partial(_run, stream, exact)
        sizes = {"T": T, "d": width}
        bound = partial(state_bound, stream, exact=norms)
        yield Subject(theorem, "recurrence, states", stream.name, sizes, exact, balls.name, run, bound)


def _states(stream: Stream, arithmetic: Any) -> Iterator[Any]:
    tokens = encode(stream, arithmetic)
    state = tokens.blocks[("state", "memory")]
    for token in read_tokens(LAYER, tokens, arithmetic):
        state = step(state, token, arithmetic)
        yield state


def _run(stream: Stream, exact: arb_mat, setting: Setting, arithmetic: Any) -> Trial:
    bounds = RunningBounds(arithmetic)
    states = list(_states(stream, bounds))
    values, limits = entries_of(bounds.stack([states]), bounds)
    certified = certify_states(stream, [x.value for x in states])
    d, T = stream.size[1], stream.size[0]
    limits = smaller(limits, [certified.bounds[j // d] for _ in range(d) for j in range(T * d)])
    method = "running bounds of all operations, or exact residuals of the tokens in the Frobenius norm"
    return Trial(values, limits, method, {}, _first_token(values, exact, setting.tolerance, d), _flags(stream, states))


def _flags(stream: Stream, states: list[Any]) -> tuple[str, ...]:
    beyond = sum(b * sum(x * x for x in k) > 2 for k, b in zip(stream.keys, stream.rates, strict=True))
    return (f"b |k|^2 > 2 at {beyond} tokens",) if beyond else ()


def _first_token(values: list[Any], exact: arb_mat, tolerance: float, d: int) -> str:
    target = np.array([float(x.mid()) for x in exact.entries()]).reshape(exact.nrows(), -1)
    found = np.array([math.inf if x is None else float(Fraction(int(x.p), int(x.q))) for x in values])
    gap = np.abs(found.reshape(target.shape) - target)
    for t in range(target.shape[1] // d):
        part = slice(t * d, (t + 1) * d)
        if not gap[:, part].max() <= tolerance * np.abs(target[:, part]).max():
            return f"token {t + 1}: state"
    return ""


@dataclass(frozen=True)
class Normed:
    """A bound on the norm of a matrix and one on the norm of its error; inner size for products."""

    norm: float
    error: float
    shape: tuple[int, int]


class Norms:
    """The arithmetic of the module's text, as far as `step` needs it."""

    name = "norms"

    def __init__(self, unit: float) -> None:
        self.unit = unit

    def matmul(self, a: Normed, b: Normed) -> Normed:
        grown = math.expm1((a.shape[1] + 1) * math.log1p(self.unit))
        error = a.norm * b.error + a.error * (b.norm + b.error) + grown * (a.norm + a.error) * (b.norm + b.error)
        return Normed(a.norm * b.norm, error, (a.shape[0], b.shape[1]))

    def add(self, a: Normed, b: Normed) -> Normed:
        errors = a.error + b.error
        return Normed(a.norm + b.norm, errors + self.unit * (a.norm + b.norm + errors), a.shape)

    def negate(self, a: Normed) -> Normed:
        return a

    def transpose(self, a: Normed) -> Normed:
        return Normed(a.norm, a.error, a.shape[::-1])


def state_bound(stream: Stream, setting: Setting, exact: Sequence[float] | None = None) -> float | None:
    """A bound on every entry of every state; none for wide accumulation, and infinite outside the format's range.

    Args:
        stream: the tokens.
        setting: format and model.
        exact: norms of the exact states, if they are known.
    """
    if setting.model not in (EVERY, TORCH) or (setting.model == TORCH and setting.device != "cpu"):
        return None
    target = setting.number_format
    u, d = float(target.unit_roundoff), stream.size[1]
    # What underflows in one token: every product and every rounded input loses at most half the smallest number.
    under = float(target.smallest) * 8 * d * d * d if target.emin > -1000 else 2.0**-900
    if u >= 2.0**-5:
        return math.inf
    norms, size, error, worst = Norms(u), 0.0, 0.0, 0.0
    for t, (k, v, b, a) in enumerate(zip(stream.keys, stream.values, stream.rates, stream.gates, strict=True)):
        key, value = (_norm(x) for x in (k, v))
        rate, gate = round_up(abs(b)), round_up(abs(a))
        token = Token(
            Normed(key, u * key, (d, 1)),
            Normed(value, u * value, (d, 1)),
            Normed(0.0, 0.0, (d, 1)),
            Normed(rate, u * rate, (1, 1)),
            # Of a diagonal matrix the spectral norm counts; its zeros add nothing.
            Normed(gate, u * gate, (d, d)),
        )
        local = step(Normed(size + error, 0.0, (d, d)), token, norms)  # type: ignore[arg-type]
        norm_squared = sum((Fraction(x) * Fraction(x) for x in k), Fraction(0))
        factor = round_up(Fraction(a) * max(Fraction(1), abs(1 - Fraction(b) * norm_squared)))
        error = (factor * error + local.error + under * (1 + size + error)) * SLACK
        size = (factor * size + rate * key * value) * SLACK if exact is None else exact[t]
        worst = max(worst, error)
        if 8 * (size + error + value) * (1 + key) ** 2 * (1 + rate) > target.largest:
            return math.inf
    return worst


def _norm(x: Any) -> float:
    squares = sum((Fraction(entry) * Fraction(entry) for entry in x), Fraction(0))
    return math.nextafter(math.sqrt(round_up(squares)), math.inf)
