"""The recurrent state of the delta rule in p bits, against decay, rate and T; inputs and outputs apart.

Models: `state` the state alone is rounded, after every token; `input` keys, values, rate and gate alone, once; `all`
both. Everything else is float64, and so is the reference: its own error, some 1e-16, is nothing beside these. Figures
are |S^ - S| / |S| in the Frobenius norm at chosen T, d = 16, and their growth with T has a name (`growth_of`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from numerics.formats import BinaryFormat, round_doubles

WIDTH = 16
MODELS = ("state", "input", "all")


def relative_errors(
    gate: float, rate: float, target: BinaryFormat, model: str, at: Sequence[int], seed: int = 0
) -> list[float]:
    """|S^_T - S_T| / |S_T| at each T of `at`, ascending."""
    rng = np.random.default_rng(seed)
    T = at[-1]
    k, v = rng.standard_normal((2, T, WIDTH))
    k /= np.linalg.norm(k, axis=1, keepdims=True)

    def near(x: NDArray[np.float64] | float) -> NDArray[np.float64]:
        return round_doubles(np.atleast_1d(np.asarray(x, dtype=np.float64)), target)

    inputs, state = model in ("input", "all"), model in ("state", "all")
    keys, values = (near(k), near(v)) if inputs else (k, v)
    a, b = (float(near(x)[0]) if inputs else x for x in (gate, rate))
    found, exact = np.zeros((2, WIDTH, WIDTH))
    out = []
    for t in range(T):
        exact = _step(exact, k[t], v[t], gate, rate)
        found = _step(found, keys[t], values[t], a, b)
        if state:
            found = near(found)
        if t + 1 in at:
            out.append(float(np.linalg.norm(found - exact) / np.linalg.norm(exact)))
    return out


def _step(S: NDArray, k: NDArray, v: NDArray, a: float, b: float) -> NDArray:
    S = a * S
    return S + np.outer(b * (v - S @ k), k)


NAMES = ((0.2, "flat"), (0.75, "sqrt"), (1.5, "linear"), (float("inf"), "quadratic"))
"""Exponents of T up to each value have the name."""


def growth_of(at: Sequence[float], errors: Sequence[float]) -> tuple[float, str]:
    """The exponent of a power law fitted to errors at several T by least squares on logarithms, and its name."""
    slope = float(np.polyfit(np.log(at), np.log(errors), 1)[0])
    return slope, next(name for limit, name in NAMES if slope <= limit)
