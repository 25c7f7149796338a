"""The upper bound e* <= c Psi_m, c = 1.106, for every g in (0, 1) and m >= 1: one finite cover for each g (td.minimax).

Psi_m, T, x and the potential as in `minimax_bounds`. Fix q >= 0 with g^{-q} <= 2c.

    m <= q + 1: a zero block {0} and greedy blocks of budget 2e, each of which takes more than 2x from the potential:
        m of them suffice if g <= 2x m, so e* <= g T / (2m) = (g^{1-m} / 2) g^m T / m <= c Psi_m.
    m >= q + 1: a zero block {0}, single depths 1 .. m - q - 1, and from depth a = m - q on a cover by q + 1 blocks, the
        last infinite, of masses <= 2 c g^m. Relative to g^a the budget is y = 2c g^q: one cover for all m.

So each g needs one finite cover. Up to `tail` they are listed, cell by cell of g, and checked in balls. Beyond it they
exist by an argument. Take the largest q. At relative depth A a block of d + 1 depths is allowed if
d <= y_A = y g^{-A}; so take d = floor(y_A) while y_A < D. With z = log y_A and l = -log g, z grows by l (d + 1) a
block. Count phase d, d <= y_A < d + 1, as log(1 + 1/d) / (l (d + 1)) blocks: a block that crosses into phase d + 1
counts at least 1 - 1 / (d + 2). If no block crosses a whole phase, l D < log(D / (D - 1)), then at most
s / l + H_D - 1/2 blocks reach y_A >= D, s = sum_{1<=d<D} log(1 + 1/d) / (d + 1). From there greedy needs at most
T / D + 1 more. With l T <= 1 / g the sum is at most log(2c) / l < q + 1 if

    s + 1 / (g D) + l (H_D + 1/2) <= log 2c,

whose left side falls as g grows. As g -> 1 and D -> infinity it tends to sum_{d>=1} log(1 + 1/d) / (d + 1): c = 1.10008
would do there.

Finite L: e* does not grow when L falls, so the bound stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from flint import arb

from constructions.exact import Balls
from constructions.temporal_difference import minimax
from constructions.temporal_difference.minimax import ASSUMPTIONS, THEOREM

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..mutants import Mutant
from ..records import Record
from .minimax_bounds import BITS, INSTANCES, ball

CONSTANT = Fraction(553, 500)
TAIL = Fraction(999, 1000)
LEVELS = 20
PEAK = (Fraction(9569, 10000), 40)
"""Where e* / Psi_m = 1.1047: no smaller constant serves."""


@dataclass(frozen=True)
class Cell:
    """One cover for all g in [low, high] and all m >= q + 1.

    Attributes:
        runs: (d, count): count blocks of d + 1 depths, in this order; an infinite block follows.
    """

    low: Fraction
    high: Fraction
    q: int
    runs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class UpperBound:
    """e* <= constant Psi_m: cells up to the tail, an argument with D = levels beyond it; exact e* at some pairs."""

    constant: Fraction
    cells: tuple[Cell, ...]
    tail: Fraction
    levels: int
    instances: tuple[tuple[Fraction, int], ...]


def _mass(power: arb, g: arb, k: int, d: int | None) -> arb:
    """power^k (1 + g + .. + g^{d-1}); the whole series for d = None."""
    return power**k * (1 if d is None else 1 - g**d) / (1 - g)


def refute_cell(cell: Cell, constant: Fraction) -> Finding | None:
    """Why the cover of a cell does not show e* <= constant Psi_m for all g in it and all m; None where it does.

    A ratio g^k with k of either sign is largest at one end of the cell and sums of powers at the upper end, so all
    is evaluated at the ends; where that is too much, the ends themselves decide whether the cover is wrong.
    """
    budget, where = ball(2 * constant), {"block": "cell", "g": [str(cell.low), str(cell.high)]}
    if sum(count for _, count in cell.runs) > cell.q:
        return Finding(
            Verdict.REFUTED, {**where, "found": "too many blocks", "expected": f"at most {cell.q} finite ones"}
        )
    low, high = ball(cell.low), ball(cell.high)
    if cell.q and not low**cell.q * budget >= 1:
        return Finding(Verdict.REFUTED, {**where, "found": f"g^-{cell.q} > 2c", "expected": "at most 2c"})
    # Of blocks with as many depths the first has the largest mass.
    starts: list[tuple[int, int | None]] = []
    depth = 0
    for d, count in cell.runs:
        starts.append((depth, d))
        depth += count * (d + 1)
    starts.append((depth, None))
    for start, length in starts:
        k = start - cell.q

        if not _mass(high if k >= 0 else low, high, k, length) <= budget:
            at_ends = [_mass(end, end, k, length) > budget for end in (low, high) if k >= 0 or end > 0]
            found = f"the block at relative depth {start} exceeds its budget"
            if any(at_ends):
                return Finding(Verdict.REFUTED, {**where, "found": found, "expected": f"2c g^{cell.q}"})
            return Finding(Verdict.UNDECIDED, {**where, "missing": f"{found} in balls; the cell is too wide"})
    return None


def prove_upper(bound: UpperBound) -> Finding:
    """The cells tile (0, tail] and hold; the tail's inequality holds; exact e* of some pairs agree."""
    for g, m in bound.instances:
        value, limit = minimax.minimax_error(g, m), bound.constant * minimax.psi(g, m)
        if value > limit:
            evidence = {"g": str(g), "m": m, "found": rational(value), "expected": f"at most {rational(limit)}"}
            return Finding(Verdict.REFUTED, {"block": "instance", **evidence})
    ends = [Fraction(0), *(cell.high for cell in bound.cells)]
    if ends[-1] < bound.tail or any(c.low != end or c.high <= end for c, end in zip(bound.cells, ends, strict=False)):
        return Finding(Verdict.REFUTED, {"block": "cells", "found": "a gap", "expected": f"cells of (0, {bound.tail}]"})
    with Balls(BITS).working():
        for cell in bound.cells:
            fault = refute_cell(cell, bound.constant)
            if fault is not None:
                return fault
        c, g, D = ball(bound.constant), ball(bound.tail), bound.levels
        slope = -g.log()
        total = sum((ball(Fraction(d + 1, d)).log() / (d + 1) for d in range(1, D)), arb(0))
        harmonic = ball(sum((Fraction(1, d) for d in range(1, D + 1)), Fraction(1, 2)))
        left, right = total + 1 / (g * D) + slope * harmonic, (2 * c).log()
        if not (left <= right and slope * D < ball(Fraction(D, D - 1)).log()):
            return Finding(Verdict.UNDECIDED, {"missing": f"tail: {left.str(6)} <= {right.str(6)}"})
        tail = f"{left.str(6, radius=False)} <= {right.str(6, radius=False)}"
    peak = max((minimax.minimax_error(g, m) / minimax.psi(g, m), g, m) for g, m in bound.instances)
    evidence = {"constant": str(bound.constant), "cells": len(bound.cells), "largest q": max(c.q for c in bound.cells)}
    largest = {"g": str(peak[1]), "m": peak[2], "e* / Psi_m": float(peak[0])}
    return Finding(Verdict.PROVED, {**evidence, "tail": tail, "largest ratio met": largest}, (cells_record(bound),))


def cells_record(bound: UpperBound) -> Record:
    """The constant and the cells [low, high, q, runs] up to the tail."""
    cells = [[str(cell.low), str(cell.high), cell.q, [list(run) for run in cell.runs]] for cell in bound.cells]
    return {"kind": "intervals", "constant": str(bound.constant), "to": str(bound.tail), "cells": cells}


def upper_bound(constant: Fraction = CONSTANT) -> UpperBound:
    """The cells for a constant, found by adaptive subdivision."""
    return UpperBound(constant, _cells(constant, TAIL), TAIL, LEVELS, (*INSTANCES, PEAK))


@lru_cache(maxsize=4)
def _cells(constant: Fraction, tail: Fraction) -> tuple[Cell, ...]:
    """Cells from 0 on: each as wide as its cover allows, up to a factor, the cover being one for its middle."""
    double = float(2 * constant)
    # With q = 0 the infinite block alone covers while T <= 2c.
    out = [Cell(Fraction(0), Fraction(math.floor((1 - 1 / double) * 2**20), 2**20), 0, ())]
    width = Fraction(1, 64)
    with Balls(BITS).working():
        while (low := out[-1].high) < tail:
            while True:
                high = min(tail, low + width)
                cell = Cell(low, high, *_cover(double, float(low), float((low + high) / 2)))
                if refute_cell(cell, constant) is None:
                    break
                width /= 2
                if width.denominator > 2**60:
                    raise ArithmeticError(f"{THEOREM}: no cell of constant {constant} found from g = {low} on")
            out.append(cell)
            width *= 2
    return tuple(out)


def _cover(double: float, low: float, middle: float) -> tuple[int, tuple[tuple[int, int], ...]]:
    """The largest q that g >= low allows, and the cover by q + 1 blocks at the middle with nearly the least budget."""
    q = int(math.log(double) / -math.log(low) * (1 - 1e-12))
    bottom, top = 0.5, double * middle**q
    best = _greedy(middle, top)
    for _ in range(10):
        y = (bottom + top) / 2
        found = _greedy(middle, y)
        if sum(count for _, count in found) <= q:
            best, top = found, y
        else:
            bottom = y
    return q, tuple(best)


def _greedy(g: float, y: float) -> list[tuple[int, int]]:
    """Runs of greedy blocks of mass <= y from depth 0 until the rest has mass <= y, in floats."""
    slope, depth = math.log(g), 0
    runs: list[tuple[int, int]] = []
    while (left := y * (1 - g) * math.exp(-slope * depth)) < 1:
        d = int(math.log1p(-left) / slope)
        # The depth from which on a block of one depth more fits too.
        longer = math.log(y * (1 - g) / -math.expm1(slope * (d + 1))) / slope
        count = max(1, math.ceil((longer - depth) / (d + 1)))
        runs.append((d, count))
        depth += count * (d + 1)
    return runs


def upper_mutants(bound: UpperBound) -> Iterator[Mutant]:
    """A smaller constant, a tail further off, a cell left out; in cells with few blocks q, counts and ends changed."""
    yield Mutant("value", "constant 11/10", replace(bound, constant=Fraction(11, 10)))
    yield Mutant("value", "tail 9999/10000", replace(bound, tail=Fraction(9999, 10000)))
    cells = bound.cells
    for i, cell in enumerate(cells):
        if not 1 <= cell.q <= 8:
            continue
        changes = {
            "one single depth less": replace(cell, q=cell.q - 1),
            "two more": replace(cell, q=cell.q + 2),
            "up to 1": replace(cell, high=Fraction(1)),
            "without its last run": replace(cell, runs=cell.runs[:-1]),
            "longer blocks": replace(cell, runs=tuple((d + 1, count) for d, count in cell.runs)),
        }
        for text, changed in changes.items():
            mutated = replace(bound, cells=(*cells[:i], changed, *cells[i + 1 :]))
            yield Mutant("value", f"cell {i}, q = {cell.q}: {text}", mutated)
        yield Mutant("value", f"cell {i} dropped", replace(bound, cells=(*cells[:i], *cells[i + 1 :])))


def claims() -> list[Claim]:
    """The claim of td.minimax that bounds e* from above."""
    return [
        Claim(
            THEOREM,
            "upper-bound",
            f"E_m <= {float(CONSTANT)} Psi_m, where Thm 4.5 has e^2, and E_m >= 1.1047 Psi_m at one pair (g, m)",
            f"all g in (0, 1), m >= 1 and L: one cover a cell of g up to {TAIL}, for all m; an inequality beyond",
            Assurance.ENCLOSED,
            ASSUMPTIONS[:2],
            upper_bound,
            prove_upper,
            mutants=upper_mutants,
        ),
    ]
