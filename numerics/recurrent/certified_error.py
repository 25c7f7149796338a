"""A rigorous bound on the error of any float run of the gated delta rule, from exact one-step residuals (theory C3).

Let S^_t be computed states and S_t the exact ones of the same numbers. The step is affine in S, so

    S^_t - S_t = a_t (S^_{t-1} - S_{t-1})(I - b_t k_t k_t') + (S^_t - step(S^_{t-1})),

and I - b k k' has norm max(1, |1 - b |k|^2|) where d_k > 1. In the Frobenius norm, therefore,

    e_t <= a_t max(1, |1 - b_t |k_t|^2|) e_{t-1} + rho_t .

rho_t is the norm of an exact rational matrix: it does not matter how S^_t came about, in which formats or in how many
tokens at a time. Where states are known every C tokens only, the step is C exact ones and the factor their product.
Carrying intervals through the recurrence instead loses a constant number of bits a token (`naive_balls`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from constructions.errors import BadInput
from constructions.exact import RATIONALS, Balls
from constructions.recurrent.streams import Stream
from numerics.errors import ball_up, exact_entries

_BITS = 128
"""Precision of the recursion; it is rounded up."""


@dataclass(frozen=True)
class CertifiedError:
    """Bounds in the Frobenius norm on the errors of computed states.

    Attributes:
        positions: after how many tokens.
        bounds: e at each position, rounded up; infinite from the first state on that is not finite.
        residuals: rho at each position, rounded up.
        growth: the product of all factors a max(1, |1 - b |k|^2|), rounded up: what an error at the start becomes.
    """

    positions: tuple[int, ...]
    bounds: tuple[float, ...]
    residuals: tuple[float, ...]
    growth: float

    @property
    def last(self) -> float:
        """The bound on the last state."""
        return self.bounds[-1]


def exact_stream(
    keys: Any, values: Any, queries: Any, rates: Any, gates: Sequence[Any], initial: Any = None, name: str = "floats"
) -> Stream:
    """The stream of tensors' or arrays' exact binary values, one sequence; gates are given exactly.

    Raises:
        BadInput: an entry that is not finite, or shapes that do not fit.
    """

    def rows(x: Any) -> list[list[fmpq]]:
        (height, width), entries = exact_entries(x)
        if any(entry is None for entry in entries):
            raise BadInput(f"{name}: expected finite numbers, found one that is not")
        return [entries[i * width : (i + 1) * width] for i in range(height)]

    k, v = rows(keys), rows(values)
    start = [[fmpq(0)] * len(k[0])] * len(v[0]) if initial is None else rows(initial)
    a = [RATIONALS.scalar(x) for x in gates]
    return Stream(k, v, rows(queries), rows(rates[None])[0], a, start, name)


def exact_steps(stream: Stream, state: fmpq_mat, start: int, stop: int) -> tuple[fmpq_mat, fmpq]:
    """The state after tokens start .. stop - 1 from a given one, and the product of their factors, both in Q."""
    growth = fmpq(1)
    for t in range(start, stop):
        k, v = (RATIONALS.matrix([[x] for x in rows[t]]) for rows in (stream.keys, stream.values))
        b, a = RATIONALS.scalar(stream.rates[t]), RATIONALS.scalar(stream.gates[t])
        state = state * a
        state = state + (v - state * k) * (k.transpose() * b)
        growth *= abs(a) * max(fmpq(1), abs(1 - b * (k.transpose() * k)[0, 0]))
    return state, growth


def certify_states(stream: Stream, states: Sequence[Any], positions: Sequence[int] | None = None) -> CertifiedError:
    """Bound the errors of computed states, shape (d_v, d_k) each, after the tokens named (after every token if not).

    Raises:
        BadInput: no state, positions that do not increase up to T, or a state of another shape.
    """
    T, d_k, d_v = stream.size
    at = tuple(positions) if positions is not None else tuple(range(1, len(states) + 1))
    if not states or len(at) != len(states) or any(x >= y for x, y in zip((0, *at), at, strict=False)) or at[-1] > T:
        raise BadInput(f"{stream.name}: expected states after increasing numbers of tokens up to {T}, found {at[:9]}")
    before: fmpq_mat | None = RATIONALS.matrix(stream.initial)
    bounds, residuals = [], []
    with ctx.workprec(_BITS):
        error, total = arb(0), arb(1)
        for start, stop, state in zip((0, *at), at, states, strict=False):
            shape, entries = exact_entries(state)
            if shape != (d_v, d_k):
                raise BadInput(f"{stream.name}: expected states of shape {(d_v, d_k)}, found {shape}")
            if before is None or None in entries:
                before = None
                bounds.append(float("inf"))
                residuals.append(float("inf"))
                continue
            after, growth = exact_steps(stream, before, start, stop)
            before = fmpq_mat(d_v, d_k, entries)
            rho = frobenius(before - after)
            error, total = (arb(growth) * error + rho).upper(), (arb(growth) * total).upper()
            bounds.append(ball_up(error))
            residuals.append(ball_up(rho))
        return CertifiedError(at, tuple(bounds), tuple(residuals), ball_up(total))


def frobenius(matrix: fmpq_mat | arb_mat) -> arb:
    """The Frobenius norm as a ball at the current precision."""
    return sum((arb(x) * arb(x) for x in matrix.entries()), arb(0)).sqrt()


def naive_balls(stream: Stream, bits: int) -> arb_mat:
    """The last state by the recurrence on Arb balls, radii carried along: an enclosure, tight only with many bits."""
    with Balls(bits).working():
        state = arb_mat(RATIONALS.matrix(stream.initial))
        for key, value, rate, gate in zip(stream.keys, stream.values, stream.rates, stream.gates, strict=True):
            k, v = (arb_mat(RATIONALS.matrix([[x] for x in column])) for column in (key, value))
            b, a = arb(RATIONALS.scalar(rate)), arb(RATIONALS.scalar(gate))
            state = state * a
            state = state + (v - state * k) * (k.transpose() * b)
        return state


def enclosed_state(stream: Stream, digits: int = 30) -> arb_mat:
    """The last state in balls of radius below 10^-digits, with as many bits as that takes."""
    bits = 256 + stream.size[0]
    while True:
        state = naive_balls(stream, bits)
        with ctx.workprec(_BITS):
            if all(x.is_finite() and x.rad() < arb(10) ** -digits for x in state.entries()):
                return state
        bits *= 2
