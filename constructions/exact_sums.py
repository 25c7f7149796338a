"""Exact sums by group, quickly: the rewards of a log per state, for floats, integers and fractions alike."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

LOW_BITS = 27
"""A 53-bit significand is added in two halves, so int64 sums of up to 2^35 terms cannot overflow."""


def exact_group_sums(groups: NDArray[np.int64], values: NDArray, count: int) -> list[Fraction]:
    """For each group 0..count-1 the exact sum of its values.

    Args:
        groups: group of each value, shape (N,).
        values: floats (their binary value), integers, or `Fraction` objects, shape (N,).
        count: number of groups.
    """
    if values.dtype.kind == "f":
        significand, exponent = np.frexp(values.astype(np.float64))
        return _dyadic_sums(groups, np.ldexp(significand, 53).astype(np.int64), exponent.astype(np.int64) - 53, count)
    if values.dtype.kind in "iu" and (values.size == 0 or int(np.abs(values).max()) < 2**53):
        return _dyadic_sums(groups, values.astype(np.int64), np.zeros(len(values), np.int64), count)
    return _object_sums(groups, values, count)


def _dyadic_sums(
    groups: NDArray[np.int64], significands: NDArray[np.int64], exponents: NDArray[np.int64], count: int
) -> list[Fraction]:
    """Sums of significand * 2^exponent: one integer sum per (group, exponent), one fraction per such pair."""
    sums = [Fraction(0)] * count
    if not len(groups):
        return sums
    order = np.lexsort((exponents, groups))
    groups, exponents, significands = groups[order], exponents[order], significands[order]
    new = np.flatnonzero(np.r_[True, (np.diff(groups) != 0) | (np.diff(exponents) != 0)])
    high = np.add.reduceat(significands >> LOW_BITS, new).tolist()
    low = np.add.reduceat(significands & (2**LOW_BITS - 1), new).tolist()
    for group, exponent, h, l in zip(groups[new].tolist(), exponents[new].tolist(), high, low, strict=True):
        sums[group] += ((h << LOW_BITS) + l) * Fraction(2) ** exponent
    return sums


def _object_sums(groups: NDArray[np.int64], values: NDArray, count: int) -> list[Fraction]:
    """Sums of Python numbers: equal objects shared by many rows are multiplied once, denominators are met once."""
    listed = values.tolist()
    identity = np.fromiter(map(id, listed), np.int64, len(listed))
    _, first, inverse = np.unique(identity, return_index=True, return_inverse=True)
    distinct = [Fraction(listed[i]) for i in first.tolist()]
    pairs, multiplicity = np.unique(groups.astype(np.int64) * len(distinct) + inverse, return_counts=True)
    parts: list[dict[int, int]] = [{} for _ in range(count)]
    for pair, times in zip(pairs.tolist(), multiplicity.tolist(), strict=True):
        group, index = divmod(pair, len(distinct))
        value = distinct[index]
        parts[group][value.denominator] = parts[group].get(value.denominator, 0) + value.numerator * times
    return [sum((Fraction(n, d) for d, n in part.items()), Fraction(0)) for part in parts]
