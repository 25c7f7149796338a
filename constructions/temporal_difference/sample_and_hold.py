"""td.sample-and-hold: m records of v answer every depth, the last sampled value being held (Thm 4.5, upper half).

Schedule. J = floor(1 / (1 - g)); (k, j) = (m, 0) if g < 1/2, (0, m) if g >= 1/2 and m <= J, else (m - J, J). Sampled
depths are 1..k and then k + i_s, s = 1..j, where i_s = min{i : 1 - g^i >= s / (j + 1)}, decided in Q. Between samples
the value is held; before the first it is v_0 = 0. At depth l the error is at most mass(tau, l), tau the last sample.

Program. Stage 1 in the narrow layout leaves row i of A and r_i on state token i. One work token holds v: three heads
map it to r + A v, one `state => work` each for A v and r, one `work -> work` that takes the old v away. Slot u gathers
x_u = v_{tau_u} - v_{tau_{u-1}} by two heads with clocks, gp = [t = tau_u] and gm = [t = tau_{u-1}] in round t:

    iterate   +(x, y, x; x), +(x, r, one; x) state => work,  -(x, one, one; x) work -> work        v_t becomes v_{t+1}
    record    +(x, one, gp; x), -(x, one, gm; x) work => slot                                      reads v_t
    clocks    +(cp, one, one; gp), -(gp, one, one; gp), -(one, one, one; cp) slot -> slot          the same for cm, gm

Each round starts with gp <- eq0(gp), gm <- eq0(gm): before it gp = tau_u - t and cp = tau_u - t - 1. After tau_m + 1
rounds raw, state and work tokens are released; n m registers stay. The executor counts down a clock of its own, kept in
r and c, and adds the record to every query: -(r, x, x; r) slot => query, so that -r = e_q' sum_{tau_u <= l} x_u, which
is v at the last sampled depth. Clocks are public: they depend on the schedule, never on the task.

    field   raw    state         work    slot                  query
    x       e_S    e_i           v_t     record x_u            e_q
    y       e_S'   row i of A    -       -                     -
    r       R      r_i           -       executor's gate       minus the value
    c       -      1 / N_i       -       executor's clock      -
    gam     -      g             weight  -                     -
    gp gm   -      -             -       gates of the records  -
    cp cm   -      -             -       their clocks          -

Width 2n + 8. The weight on the work token is used by td.midpoint-hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..arithmetic import Arithmetic, Array
from ..construction import Construction
from ..errors import BadInput
from ..layers import Head, Layer, LinearAttention, Release, Repeat, Tokenwise, full, same
from ..layout import Layout, Size
from ..program import Program
from ..task import Task, exact_discount
from ..tokens import Span, Tokens
from . import narrow, statistics
from .executor import evaluator, td_values
from .krylov import check_build
from .minimax import Cover, mass
from .tokens import encode_log

THEOREM = "td.sample-and-hold"
CLOCK = "declared primitive eq0(x) = 1 at x = 0, else 0, applied to public clocks only"
ASSUMPTIONS = (*statistics.ASSUMPTIONS, CLOCK, "the sampled depths are public")
KINDS = ("raw", "state", "work", "slot", "query")


@dataclass(frozen=True)
class Schedule:
    """Which depths are sampled.

    Attributes:
        discount: g.
        exact: k, the number of first depths that are all sampled.
        spread: j, the number of samples after them.
        depths: tau_1 < .. < tau_m, m = k + j.
    """

    discount: Fraction
    exact: int
    spread: int
    depths: tuple[int, ...]


def schedule(discount: Any, m: int) -> Schedule:
    """The schedule of Thm 4.5 for m registers a state, exactly in Q.

    Raises:
        BadInput: a discount outside (0, 1), or m < 1.
    """
    g = exact_discount(discount)
    if isinstance(m, bool) or not isinstance(m, int) or m < 1:
        raise BadInput(f"{THEOREM}: expected a positive number of registers m, found {m!r}")
    horizon = int(1 / (1 - g))
    if 2 * g < 1:
        k, j = m, 0
    elif m <= horizon:
        k, j = 0, m
    else:
        k, j = m - horizon, horizon
    return Schedule(g, k, j, (*range(1, k + 1), *spread_depths(g, k, j)))


def spread_depths(g: Fraction, k: int, j: int) -> list[int]:
    """k + i_s, i_s = min{i : 1 - g^i >= s / (j + 1)}, s = 1..j: distinct for j <= 1 / (1 - g)."""
    depths = []
    i, power = 0, Fraction(1)
    for s in range(1, j + 1):
        while 1 - power < Fraction(s, j + 1):
            i, power = i + 1, power * g
        depths.append(k + i)
    return depths


def check_depths(depths: Sequence[int], depth: int) -> tuple[int, ...]:
    """The sampled depths that matter for depths up to L.

    Raises:
        BadInput: not increasing positive ints, or none up to L.
    """
    found = tuple(depths)
    if any(isinstance(x, bool) or not isinstance(x, int) or x < 1 for x in found) or list(found) != sorted(set(found)):
        raise BadInput(f"{THEOREM}: expected increasing positive sampled depths, found {list(found)}")
    kept = tuple(x for x in found if x <= depth)
    if not kept:
        raise BadInput(f"{THEOREM}: expected a sampled depth of at most L = {depth}, found {list(found)}")
    return kept


def hold_error(discount: Any, depths: Sequence[int], depth: int | None = None) -> Fraction:
    """The worst error of sample-and-hold over all tasks with |r|_inf <= 1, depths l <= L (None: all): exact.

    It is the largest mass of a block {tau_u .. tau_{u+1} - 1}, the last ending at L, attained by one state of reward 1.

    Raises:
        BadInput: a discount outside (0, 1), or sampled depths that are not increasing positive ints.
    """
    g = exact_discount(discount)
    kept = check_depths(depths, max(depths, default=1) if depth is None else depth)
    ends = (*(x - 1 for x in kept), depth)
    return max(mass(g, a, b) for a, b in Cover(g, ends).blocks)


def hold_layout(n: Size) -> Layout:
    """The clocked layout, width 2n + 8."""
    return Layout(x=n, y=n, r=1, c=1, one=1, gam=1, gp=1, gm=1, cp=1, cm=1)


def iterate_heads() -> tuple[Head, ...]:
    """v on the work token becomes r + A v."""
    gather = (full("state", "work"),)
    return (
        Head("x", "y", "x", "x", gather),
        Head("x", "r", "one", "x", gather),
        Head("x", "one", "one", "x", (same("work", "work"),), sign=-1),
    )


def clock_heads(gate: str, clock: str) -> tuple[Head, ...]:
    """gate <- clock, clock <- clock - 1, on every slot by itself."""
    own = (same("slot", "slot"),)
    return (
        Head(clock, "one", "one", gate, own),
        Head(gate, "one", "one", gate, own, sign=-1),
        Head("one", "one", "one", clock, own, sign=-1),
    )


def record_round(key: str, second_sign: int) -> tuple[Layer, ...]:
    """One round: gates from their clocks; then v moves on while slots whose gate is open read it, times `key`."""
    slots, read = Span("slot"), (full("work", "slot"),)
    records = (Head("x", key, "gp", "x", read), Head("x", key, "gm", "x", read, sign=second_sign))
    return (
        Tokenwise("eq0", slots, "gp", "gate gp"),
        Tokenwise("eq0", slots, "gm", "gate gm"),
        LinearAttention((*iterate_heads(), *records, *clock_heads("gp", "cp"), *clock_heads("gm", "cm")), "record"),
    )


def hold_step() -> tuple[Layer, ...]:
    """One step of the executor: slots whose clock is at zero add their record to every query."""
    read = Head("r", "x", "x", "r", (full("slot", "query"),), sign=-1)
    return (
        Tokenwise("eq0", Span("slot"), "r", "gate r"),
        LinearAttention((read, *clock_heads("r", "c")), "step"),
    )


def hold_program(
    n: Size, rounds: Size, depth: Size, *, key: str = "one", second_sign: int = -1, after: tuple[Layer, ...] = ()
) -> Program:
    """Stage 1, `rounds` rounds of recording, the layers `after` them, and `depth` steps; sizes may be symbols."""
    layers: tuple[Layer, ...] = (
        *narrow.statistics_layers(),
        Repeat(record_round(key, second_sign), rounds),
        *after,
        Release("state", label="release states"),
        Release("work", label="release work"),
        Repeat(hold_step(), depth),
    )
    return Program("hold (N -> n -> m)", hold_layout(n), KINDS, layers)


def encode_hold(
    task: Task, arithmetic: Arithmetic, n: int, clocks: Sequence[tuple[int, int, int]], weight: Fraction | int
) -> Tokens:
    """Raw, state, work, slot and query tokens.

    Args:
        clocks: for each slot the rounds in which its two gates open, and the depth at which its record is added.
        weight: the field gam of the work token.

    Raises:
        BadInput: the task has another number of states than the construction.
    """
    tokens = encode_log(task, arithmetic, n)
    tokens = tokens.with_kind("work", 1, one=arithmetic.matrix([[1]]), gam=arithmetic.matrix([[weight]]))
    plus, minus, added = zip(*clocks, strict=True)

    def row(values: Sequence[int], shift: int) -> Array:
        return arithmetic.matrix([[x - shift for x in values]])

    tokens = tokens.with_kind(
        "slot",
        len(clocks),
        one=arithmetic.matrix([[1] * len(clocks)]),
        gp=row(plus, 0),
        cp=row(plus, 1),
        gm=row(minus, 0),
        cm=row(minus, 1),
        r=row(added, 1),
        c=row(added, 2),
    )
    return tokens.with_kind("query", n, x=arithmetic.one_hot(range(n), n))


def held_values(task: Task, depths: Sequence[int], depth: int, arithmetic: Arithmetic) -> Array:
    """v at the last sampled depth tau <= l (0 before the first), l = 0..L, by direct iteration; shape (L + 1, n)."""
    values = td_values(task, depth, arithmetic)
    last = [max((x for x in depths if x <= l), default=0) for l in range(depth + 1)]
    return arithmetic.stack([[arithmetic.rows(values, l, l + 1)] for l in last])


def construction(n: int, depth: int, depths: Sequence[int]) -> Construction:
    """From the raw log to held values at every state and depth l <= L, shape (L + 1, n), for the depths sampled.

    Depths beyond L are left out. `schedule(g, m).depths` is the choice of Thm 4.5.

    Raises:
        BadInput: a size that is not a positive int, or depths that are not increasing positive ints, or none up to L.
    """
    check_build(THEOREM, n, depth, 1, 1)
    kept = check_depths(depths, depth)
    clocks = [(tau, before, tau) for before, tau in zip((0, *kept[:-1]), kept, strict=True)]

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return encode_hold(task, arithmetic, n, clocks, 1)

    def reference(task: Task, arithmetic: Arithmetic) -> Array:
        return held_values(task, kept, depth, arithmetic)

    return evaluator(
        THEOREM,
        {"n": n, "L": depth, "m": len(kept)},
        hold_program(n, kept[-1] + 1, depth),
        encode,
        ASSUMPTIONS,
        "Thm 4.5 (theory A6), clocked records",
        reference=reference,
    )
