"""Inequalities between polynomials on the positive orthant: coefficients that are not negative prove them.

A polynomial in variables >= 0 whose coefficients are all >= 0 is >= 0. The converse fails, so a negative coefficient
alone decides nothing; a point of the orthant with a negative value refutes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from flint import Ordering, fmpq, fmpq_mpoly, fmpq_mpoly_ctx

from .claim import Finding, Verdict, rational

POINTS = (fmpq(0), fmpq(1, 7), fmpq(1), fmpq(3), fmpq(50))
"""Coordinates at which a polynomial with a negative coefficient is looked at."""


def variables(*names: str) -> tuple[fmpq_mpoly, ...]:
    """The generators of Q[names]."""
    return tuple(fmpq_mpoly_ctx.get(list(names), Ordering.lex).gens())


def prove_zero(differences: Mapping[str, fmpq_mpoly]) -> Finding:
    """Every polynomial named is the zero polynomial."""
    for name, difference in differences.items():
        if not difference.is_zero():
            return Finding(Verdict.REFUTED, {"block": name, "found": rational(difference), "expected": "0"})
    return Finding(Verdict.PROVED, {"identities": sorted(differences)})


def prove_nonnegative(polynomials: Mapping[str, fmpq_mpoly]) -> Finding:
    """Every polynomial named is >= 0 wherever all its variables are."""
    for name, polynomial in polynomials.items():
        if all(c >= 0 for c in polynomial.coeffs()):
            continue
        point = _negative(polynomial)
        if point is not None:
            where = {"block": name, "found": rational(polynomial), "at": [str(x) for x in point]}
            return Finding(Verdict.REFUTED, {**where, "expected": "a value >= 0"})
        return Finding(Verdict.UNDECIDED, {"missing": f"{name}: a negative coefficient in {rational(polynomial)}"})
    return Finding(Verdict.PROVED, {"inequalities": sorted(polynomials)})


def _negative(polynomial: fmpq_mpoly) -> Sequence[Any] | None:
    for point in itertools.product(POINTS, repeat=polynomial.context().nvars()):
        if polynomial(*point) < 0:
            return point
    return None
