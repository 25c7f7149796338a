"""td.minimax: the least worst-case error with m context registers a state, exactly: E_m(g, L) = e*(g, m, L).

Write mass(a, b) = sum_{a<=j<b} g^j. A cover of the depths 0..L is a zero block {0..b_0} followed by free blocks
{a_s..b_s}, a_{s+1} = b_s + 1, the last of which ends at L. Its error is the largest of mass(0, b_0) and
mass(a_s, b_s) / 2, and e* is the least error of a cover with at most m free blocks. Two finite certificates decide it:

    cover     at most m free blocks, error e*. Holding (v_a + v_b) / 2 on each block errs by at most e* on every task
              with |r|_inf <= 1, so E_m <= e* (td.midpoint-hold is the program).
    packing   m + 1 consecutive intervals [0, t_0), [t_0, t_1), .., the first of mass at least e*, the others of mass
              at least 2e*. On a task whose states show every sign pattern on these intervals, the increments u_s of v
              along them span an octahedron, which no m directions approximate better: E_m >= e* (Tikhomirov).

Both always exist. Take a cover of least error e* and make blocks greedily, each as long as its mass stays below its
budget, e* or 2e*. If m free blocks sufficed, their error would be less than e*; so they do not, and the m + 1 blocks
that could not be extended by one more depth are the packing. The search below is this argument: floats only propose a
first cover, every comparison that counts is one of integers.

For L = infinity (None) the last block is {a..infinity}, of mass g^a / (1 - g). Source of the problem: Thm 4.5 (theory
A6), which has it up to constants, (1/64) Psi_m <= E_m <= e^2 Psi_m; the exact law is this project's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import BadInput
from ..task import Task, exact_discount

THEOREM = "td.minimax"
TIKHOMIROV = "Tikhomirov's theorem: the m-width of the unit ball of an (m+1)-dimensional normed space is 1 (cited)"
ASSUMPTIONS = (
    "rewards are bounded: |r|_inf <= 1",
    "the discount g and the depth are public",
    TIKHOMIROV,
)

End = int | None
"""Last depth of a block, or first depth beyond an interval; None for infinity."""


def mass(discount: Any, start: int, stop: End) -> Fraction:
    """sum_{start<=j<stop} g^j = (g^start - g^stop) / (1 - g), exact; `stop` None for the whole tail.

    Raises:
        BadInput: a discount outside (0, 1), or not 0 <= start <= stop.
    """
    g = exact_discount(discount)
    if start < 0 or (stop is not None and stop < start):
        raise BadInput(f"mass: expected depths 0 <= start <= stop, found {start} and {stop}")
    return (g**start - (0 if stop is None else g**stop)) / (1 - g)


@dataclass(frozen=True)
class Cover:
    """A zero block {0..ends[0]} and free blocks {ends[s-1]+1 .. ends[s]} that cover the depths 0..ends[-1].

    Attributes:
        discount: g.
        ends: last depth of each block, increasing; the last is L, None for infinity.
    """

    discount: Fraction
    ends: tuple[End, ...]

    @property
    def starts(self) -> tuple[int, ...]:
        """First depth of each block."""
        return (0, *(end + 1 for end in self.ends[:-1] if end is not None))

    @property
    def blocks(self) -> tuple[tuple[int, End], ...]:
        """(first, last) depth of each block, the zero block first."""
        return tuple(zip(self.starts, self.ends, strict=True))

    @property
    def free(self) -> int:
        """Number of free blocks: registers a state."""
        return len(self.ends) - 1

    @property
    def masses(self) -> tuple[Fraction, ...]:
        """mass(first, last) of each block."""
        return tuple(mass(self.discount, a, b) for a, b in self.blocks)

    @property
    def error(self) -> Fraction:
        """The largest of the zero block's mass and half the others'."""
        zero, *others = self.masses
        return max([zero, *(x / 2 for x in others)])


@dataclass(frozen=True)
class Packing:
    """Consecutive intervals [0, ends[0]), [ends[0], ends[1]), ..; only the last may be infinite; none where e* = 0.

    Attributes:
        discount: g.
        ends: first depth beyond each interval, increasing; None for infinity.
    """

    discount: Fraction
    ends: tuple[End, ...]

    @property
    def intervals(self) -> tuple[tuple[int, End], ...]:
        """(first, first beyond) of each interval."""
        return tuple(zip((0, *(end for end in self.ends[:-1] if end is not None)), self.ends, strict=True))

    @property
    def masses(self) -> tuple[Fraction, ...]:
        """mass of each interval."""
        return tuple(mass(self.discount, a, b) for a, b in self.intervals)

    @property
    def error(self) -> Fraction:
        """The least of the first mass and half the others': a lower bound of E_m with m = len(ends) - 1."""
        if not self.ends:
            return Fraction(0)
        zero, *others = self.masses
        return min([zero, *(x / 2 for x in others)])


@dataclass(frozen=True)
class Law:
    """e*(g, m, L) with both of its certificates.

    Attributes:
        discount: g.
        m: registers a state.
        depth: L, None for infinity.
        value: e*.
        cover: at most m free blocks, error e*.
        packing: m + 1 intervals, lower bound e* (none where e* = 0).
    """

    discount: Fraction
    m: int
    depth: End
    value: Fraction
    cover: Cover
    packing: Packing


def law(discount: Any, m: int, depth: End = None) -> Law:
    """e*(g, m, L) with its certificates; `depth` None for L = infinity.

    Raises:
        BadInput: a discount outside (0, 1), or an m or L that is not a non-negative int.
    """
    g = exact_discount(discount)
    for name, value in (("number of registers m", m), *([] if depth is None else [("depth L", depth)])):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise BadInput(f"{THEOREM}: expected a non-negative {name}, found {value!r}")
    return _law(g, m, depth)


def minimax_error(discount: Any, m: int, depth: End = None) -> Fraction:
    """e*(g, m, L); raises as `law` does."""
    return law(discount, m, depth).value


def cover(discount: Any, m: int, depth: End = None) -> Cover:
    """A cover of least error with at most m free blocks; raises as `law` does."""
    return law(discount, m, depth).cover


def packing(discount: Any, m: int, depth: End = None) -> Packing:
    """m + 1 intervals that no cover of smaller error survives; raises as `law` does."""
    return law(discount, m, depth).packing


def psi(discount: Any, m: int) -> Fraction:
    """Psi_m = g^m max{1, 1 / (m (1 - g))}, to which Thm 4.5 compares E_m.

    Raises:
        BadInput: a discount outside (0, 1), or m < 1.
    """
    g = exact_discount(discount)
    if isinstance(m, bool) or not isinstance(m, int) or m < 1:
        raise BadInput(f"{THEOREM}: expected a positive number of registers m for Psi_m, found {m!r}")
    return g**m * max(Fraction(1), 1 / (m * (1 - g)))


@lru_cache(maxsize=4096)
def _law(g: Fraction, m: int, depth: End) -> Law:
    if depth is not None and m >= depth:
        return Law(g, m, depth, Fraction(0), Cover(g, tuple(range(depth + 1))), Packing(g, ()))
    powers = _Powers(g)
    ends = _proposed_ends(g, m, depth)
    while True:
        best = Cover(g, ends)
        value = best.error
        better, ends = _strictly_below(powers, m, depth, value)
        if not better:
            return Law(g, m, depth, value, best, Packing(g, ends))


class _Powers:
    """Comparisons of masses with budgets, in integers: g = p / q."""

    def __init__(self, g: Fraction) -> None:
        self.g = g
        self.p, self.q = [1], [1]

    def _grow(self, j: int) -> None:
        while len(self.p) <= j:
            self.p.append(self.p[-1] * self.g.numerator)
            self.q.append(self.q[-1] * self.g.denominator)

    def gap(self, a: int, b: End, budget: Fraction) -> int:
        """The sign of g^a - g^b - budget."""
        top, bottom = budget.numerator, budget.denominator
        self._grow(a if b is None else b)
        if b is None:
            difference = self.p[a] * bottom - top * self.q[a]
        else:
            difference = (self.p[a] * self.q[b - a] - self.p[b]) * bottom - top * self.q[b]
        return (difference > 0) - (difference < 0)

    def last_below(self, a: int, budget: Fraction, guess: int) -> int:
        """The largest b >= a with g^a - g^b < budget, which exists: budget > 0 and some b misses it."""
        low, step = max(a, guess), 1
        while low > a and self.gap(a, low, budget) >= 0:
            low, step = max(a, low - step), 2 * step
        high, step = low + 1, 1
        while self.gap(a, high, budget) < 0:
            low, high, step = high, high + step, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.gap(a, middle, budget) < 0 else (low, middle)
        return low


def _strictly_below(powers: _Powers, m: int, depth: End, error: Fraction) -> tuple[bool, tuple[End, ...]]:
    """(True, ends of a cover of smaller error), or (False, ends of a packing) where none has at most m free blocks."""
    g, a = powers.g, 0
    ends: list[int] = []
    slope = _log(g)
    for s in range(m + 1):
        budget = (1 - g) * error * (1 if s == 0 else 2)
        if depth is None:
            tail = powers.gap(a, None, budget)
            if tail < 0:
                return True, (*ends, None)
            if tail == 0:
                # Every finite block from a stays below the budget, and the rest of the depths after any of them too.
                return (True, (*ends, a, None)) if s < m else (False, (*(end + 1 for end in ends), None))
        elif powers.gap(a, depth, budget) < 0:
            return True, (*ends, depth)
        b = powers.last_below(a, budget, a + _reach(_log_of(budget) - a * slope, slope))
        ends.append(b)
        a = b + 1
    return False, tuple(end + 1 for end in ends)


def _log(g: Fraction) -> float:
    """log g, accurate near 1 too."""
    return math.log1p(-float(1 - g)) if 2 * g > 1 else _log_of(g)


def _log_of(x: Fraction) -> float:
    """log x, also where x itself underflows."""
    return math.log(x.numerator) - math.log(x.denominator)


def _reach(x: float, slope: float) -> int:
    """The largest d with 1 - g^d <= exp(x) < 1, in floats, slope = log g; a large one where exp(x) rounds to 1."""
    return int(math.log1p(-min(math.exp(min(x, 0.0)), 1 - 2.0**-53)) / slope)


def _proposed_ends(g: Fraction, m: int, depth: End) -> tuple[End, ...]:
    """Ends of a cover with at most m free blocks, nearly of least error: bisection on log e, in floats."""
    slope, size = _log(g), _log_of(1 - g)

    def greedy(log_error: float) -> tuple[End, ...] | None:
        ends: list[End] = []
        a = 0
        for s in range(m + 1):
            x = log_error + size + (math.log(2) if s else 0.0) - a * slope
            if depth is None and x >= 0:
                return (*ends, None)
            b = a + _reach(x, slope)
            if depth is not None and b >= depth:
                return (*ends, depth)
            ends.append(b)
            a = b + 1
        return None

    # Single depths and one last block: a cover whatever happens, should the bisection find none.
    ends: tuple[End, ...] = (*range(m), depth)
    low, high = m * slope - math.log(4 * (m + 1)) - 5, 1 - size
    for _ in range(64):
        middle = (low + high) / 2
        found = greedy(middle)
        if found is None:
            low = middle
        else:
            ends, high = found, middle
    return ends


def witness_task(discount: Any, m: int, depth: int) -> Task:
    """The task of the lower half: a ring with one segment for each sign pattern of the packing's m + 1 intervals.

    State (pattern, d) steps to (pattern, d + 1), at the end of a segment to the next one, and its reward is the sign of
    the interval that d lies in. From (pattern, 0) the discounted rewards along interval s sum to sign_s mass(I_s).
    n = 2^(m+1) t_m states.

    Raises:
        BadInput: as `law` does, or no interval to witness (m >= L, where e* = 0), or a depth that is infinite.
    """
    if depth is None:
        raise BadInput(f"{THEOREM}: expected a finite depth L for the witness task, found infinity")
    found = law(discount, m, depth)
    if not found.packing.ends:
        raise BadInput(f"{THEOREM}: expected m < L for the witness task, found m = {m} and L = {depth}")
    rewards: list[int] = []
    for pattern in sign_patterns(m + 1):
        for sign, (a, b) in zip(pattern, found.packing.intervals, strict=True):
            assert b is not None
            rewards += [sign] * (b - a)
    n = len(rewards)
    states = np.arange(n, dtype=np.int64)
    g = found.discount
    name = f"witness(g={g}, m={m}, L={depth}, n={n})"
    return Task(states, (states + 1) % n, np.array(rewards), np.zeros(n, dtype=bool), n, g, name)


def sign_patterns(count: int) -> Sequence[tuple[int, ...]]:
    """All sequences of `count` signs, in a fixed order."""
    return list(itertools.product((1, -1), repeat=count))
