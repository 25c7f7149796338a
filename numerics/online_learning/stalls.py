"""A constant increment added again and again in p bits, and where it stalls.

In the binade [2^k, 2^(k + 1)) numbers are u_k = 2^(k + 1 - p) apart, and h > 0 added to x = N u_k gives the nearest of
them: x advances by RN(h / u_k) u_k, ties to even (a tie with N odd happens at most once a binade, as its result is
even). A sum beyond the binade is rounded to the next one's spacing. When h <= u_k / 2 = 2^(k - p) nothing is added any
more: the state stalls at the first such 2^k, and 2^p .. 2^(p + 1) updates or so have been made whatever h is. The
rounding of every update in a binade is the same, so the error grows like its square before the stall.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from numerics.formats import bits, round_doubles

Rounding = Callable[[float], float]
ArrayRounding = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def rounder(precision: int) -> Rounding:
    """Scalar rounding to p bits, exponents unbounded, of one operation on numbers of p <= 25 bits; float64 for 53."""
    if precision == 53:
        return float

    def nearest(x: float) -> float:
        digits, exponent = math.frexp(x)
        return math.ldexp(round(math.ldexp(digits, precision)), exponent - precision)

    return nearest


def array_rounder(precision: int) -> ArrayRounding:
    """The same for arrays."""
    return partial(round_doubles, target=bits(precision)) if precision < 53 else np.asarray


def iterated(h: float, precision: int, updates: int) -> NDArray[np.float64]:
    """0, h, RN(h + h), .. by direct iteration, shape (updates + 1,); h is a number of p bits."""
    dtype = {24: np.float32, 53: np.float64}.get(precision)
    if dtype is not None:
        steps = np.add.accumulate(np.full(updates, h, dtype=dtype), dtype=dtype).astype(np.float64)
        return np.concatenate([[0.0], steps])
    out, nearest = np.zeros(updates + 1), rounder(precision)
    for t in range(updates):
        out[t + 1] = nearest(out[t] + h)
        if out[t + 1] == out[t]:
            out[t + 1 :] = out[t]
            break
    return out


def pieces(h: Fraction, precision: int) -> list[tuple[int, Fraction, Fraction]]:
    """The closed form: (first update, state there, advance of each update from there on); the last advances by 0."""
    out: list[tuple[int, Fraction, Fraction]] = [(0, Fraction(0), h)]
    updates, x = 1, h
    while True:
        k = math.frexp(float(x))[1] - 1
        spacing = Fraction(2) ** (k + 1 - precision)
        top = Fraction(2) ** (k + 1)
        if h <= spacing / 2 and (2 * h < spacing or (x / spacing) % 2 == 0):
            return [*out, (updates, x, Fraction(0))]
        if 2 * (h / spacing % 1) == 1 and (x / spacing) % 2:
            # A tie at an odd number: this update alone goes to the even neighbour.
            after = spacing * round((x + h) / spacing)
            out.append((updates, x, after - x))
            updates, x = updates + 1, after
            continue
        advance = round(h / spacing) * spacing
        steps = max(0, math.ceil((top - h - x) / advance))
        if steps:
            out.append((updates, x, advance))
            updates, x = updates + steps, x + steps * advance
        if x < top:
            wide = 2 * spacing
            after = round((x + h) / wide) * wide
            out.append((updates, x, after - x))
            updates, x = updates + 1, after


def closed_form(h: float, precision: int, updates: int) -> NDArray[np.float64]:
    """The same states as `iterated`, from `pieces`."""
    found = pieces(Fraction(h), precision)
    out = np.empty(updates + 1)
    for (first, x, advance), following in zip(found, [*(f for f, _, _ in found[1:]), updates + 1], strict=True):
        if first > updates:
            break
        stop = min(following, updates + 1)
        out[first:stop] = float(x) + np.arange(stop - first) * float(advance)
    return out


def stall(h: float, precision: int) -> tuple[int, float]:
    """After how many updates the state stalls, and where."""
    updates, x, _ = pieces(Fraction(h), precision)[-1]
    return updates, float(x)


def increment(eps: Fraction, precision: int) -> float:
    """-log(1 - eps) rounded to p bits (from 53, whose double rounding matters to none of the eps used)."""
    return rounder(precision)(-math.log1p(-float(eps)))


def law_cases(quick: bool) -> list[tuple[int, Fraction, int]]:
    """(p, eps, updates): 36 cases, beyond the stall where that is within reach."""
    eps = [Fraction(1, k) for k in (2, 3, 4, 5, 7, 10, 20, 50, 100)]
    most = 200_000 if quick else 3_000_000
    return [(p, x, min(2 ** (p + 2), most)) for p in (4, 8, 11, 24) for x in eps]


def law_holds(precision: int, eps: Fraction, updates: int) -> bool:
    """Whether closed form and iteration agree bit for bit."""
    h = increment(eps, precision)
    return bool((iterated(h, precision, updates) == closed_form(h, precision, updates)).all())
