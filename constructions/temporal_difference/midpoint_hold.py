"""td.midpoint-hold: m centres (v_a + v_b) / 2 of an optimal cover answer every depth with error e* (this project's).

Derivation. Let {a_s..b_s}, s = 1..m, be the free blocks of a cover of 0..L (`minimax.cover`). The context is
c_s = (v_{a_s} + v_{b_s}) / 2; the answer is 0 on the zero block and c_s on block s. For l in block s

    v_l - c_s = (sum_{a<=j<l} A^j r - sum_{l<=j<b} A^j r) / 2,   so   |v_l - c_s| <= mass(a_s, b_s) / 2

for |r|_inf <= 1, and |v_l| <= mass(0, b_0) on the zero block: the error is that of the cover, at best e*(g, m, L).

Program. That of td.sample-and-hold with three changes: the work token carries the weight 1/2 in its field gam, which is
the key of both record heads; the second record adds instead of subtracting, so slot s gathers v_{a_s} / 2 and, in round
b_s, v_{b_s} / 2; one layer of differences -(x, one, one; x), slot s -> slot s + 1, turns centres into increments, which
the executor adds at depth a_s. Width 2n + 8, 2 + (L + 1) + 1 attention layers, then one a depth. n m registers stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ..arithmetic import Arithmetic, Array
from ..construction import Construction
from ..errors import BadInput
from ..layers import Head, Layer, LinearAttention, same
from ..layout import Size
from ..program import Program
from ..task import Task
from ..tokens import Span, Tokens
from . import minimax
from .executor import evaluator, td_values
from .krylov import check_build
from .sample_and_hold import ASSUMPTIONS as HOLD_ASSUMPTIONS
from .sample_and_hold import encode_hold, hold_program

THEOREM = "td.midpoint-hold"
ASSUMPTIONS = (*HOLD_ASSUMPTIONS[:-1], "the cover is public")


def difference_layer(m: int) -> tuple[Layer, ...]:
    """Slot s + 1 loses what slot s holds, all at once; nothing for a single slot."""
    if m == 1:
        return ()
    onward = (same(Span("slot", 0, m - 1), Span("slot", 1, m)),)
    return (LinearAttention((Head("x", "one", "one", "x", onward, sign=-1),), "differences"),)


def midpoint_program(n: Size, m: int, rounds: Size, depth: Size) -> Program:
    """m slots; `rounds` is b_m + 1, `depth` the number of steps; all but m may be symbols."""
    return hold_program(n, rounds, depth, key="gam", second_sign=1, after=difference_layer(m))


def centres(task: Task, blocks: Sequence[tuple[int, int]], depth: int, arithmetic: Arithmetic) -> Array:
    """0 on the zero block and (v_a + v_b) / 2 on block {a..b}, by direct iteration; rows l = 0..L, shape (L + 1, n)."""
    values = td_values(task, depth, arithmetic)
    half = arithmetic.matrix([[Fraction(1, 2)]])
    rows = []
    for l in range(depth + 1):
        place = next(s for s, (a, b) in enumerate(blocks) if a <= l <= b)
        if place == 0:
            rows.append(arithmetic.matrix([[0] * task.n]))
            continue
        a, b = blocks[place]
        total = arithmetic.add(arithmetic.rows(values, a, a + 1), arithmetic.rows(values, b, b + 1))
        rows.append(arithmetic.matmul(half, total))
    return arithmetic.stack([[row] for row in rows])


def construction(n: int, depth: int, m: int, discount: Any) -> Construction:
    """From the raw log to centres at every state and depth l <= L, shape (L + 1, n), on the optimal cover for g.

    Raises:
        BadInput: a size that is not a positive int, or a discount outside (0, 1).
    """
    check_build(THEOREM, n, depth, 1, 1)
    if isinstance(m, bool) or not isinstance(m, int) or m < 1:
        raise BadInput(f"{THEOREM}: expected a positive number of registers m, found {m!r}")
    return from_cover(n, minimax.cover(discount, min(m, depth), depth))


def from_cover(n: int, cover: minimax.Cover) -> Construction:
    """The same for a cover of one's own, with at least one free block and a finite last depth L.

    Raises:
        BadInput: n is not a positive int, or the cover has no free block, does not end, or has ends out of order.
    """
    depth = cover.ends[-1]
    if depth is None or cover.free < 1:
        found = "an infinite last depth" if depth is None else "none"
        raise BadInput(f"{THEOREM}: expected a cover with free blocks up to a finite depth, found {found}")
    check_build(THEOREM, n, depth, 1, 1)
    if any(b is None or a > b for a, b in cover.blocks):
        raise BadInput(f"{THEOREM}: expected ends that increase from 0 or more, found {list(cover.ends)}")
    blocks = [(a, b) for a, b in cover.blocks if b is not None]
    clocks = [(a, b, a) for a, b in blocks[1:]]

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return encode_hold(task, arithmetic, n, clocks, Fraction(1, 2))

    def reference(task: Task, arithmetic: Arithmetic) -> Array:
        return centres(task, blocks, depth, arithmetic)

    return evaluator(
        THEOREM,
        {"n": n, "L": depth, "m": cover.free},
        midpoint_program(n, cover.free, depth + 1, depth),
        encode,
        ASSUMPTIONS,
        "this project, with the cover of td.minimax",
        reference=reference,
    )
