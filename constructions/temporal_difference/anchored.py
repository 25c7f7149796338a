"""td.anchored: k Krylov vectors beside held records, in the two readings that "Krylov-anchored" allows (theory A6).

The source splits its budget m = k + j between a Krylov projection and sample-and-hold and does not say how they act
together. Both ways are built; k and the sampled depths tau_1 < .. < tau_j, all beyond k, are public.

    prefix      v_l for l <= k, then v at the last of k, tau_1, .., tau_j up to l. The executor of td.executor runs for
                k steps, its sources are released, and records v_{tau_u} - v_{tau_{u-1}}, tau_0 = k, are added at their
                depths. Its worst error is that of sample-and-hold with the samples 1, .., k, tau_1, .., tau_j.
    residual    u_l + (v_tau - u_tau), tau the last sample up to l (0 at first), u_l = B sum_{t<l} H^t g0 the iterates
                of the projection on k Arnoldi vectors. Exact at l <= k, where u_l = v_l, and at every sample. No bound
                over all tasks is claimed: u_l may leave v_l in between.

Program. Stages 1 and 2 of the encoder in the wide layout, whose Arnoldi workspace is the kind `basis` here; states stay
until the records are made. A work token runs v in x by the three heads of td.sample-and-hold. In the residual reading
sources run s+ = H s meanwhile, the work token gathers u in y, u+ = u + B s, and s returns to g0 from a copy:

    round       the heads of a recording round,  +(x, r, one; y) source => work
                -(r, x, x; r), +(r, x, y; r) source => source
                -(y, one, gp; x), +(y, one, gm; x) work => slot
    restore     -(r, one, one; r), +(q, one, one; r) source -> source

Executor steps add both readings to the queries. Width 3n + 9; (2n + 1) k + n j registers stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ..arithmetic import Arithmetic, Array
from ..construction import Construction
from ..errors import BadInput
from ..layers import Forget, Head, Layer, LinearAttention, Release, Repeat, Tokenwise, full, same
from ..layout import Layout, Size
from ..program import Program
from ..task import Task, exact_discount
from ..tokens import Span, Tokens
from . import krylov, sample_and_hold, statistics
from .executor import evaluator, td_values
from .sample_and_hold import encode_hold, hold_step, record_round, spread_depths

THEOREM = "td.anchored"
ASSUMPTIONS = (*krylov.ASSUMPTIONS, sample_and_hold.CLOCK, "k and the sampled depths are public")
KINDS = ("raw", "state", "basis", "source", "work", "slot", "query")
READINGS = ("prefix", "residual")
KEPT = ("x", "y", "r", "c", "one")


@dataclass(frozen=True)
class Split:
    """A budget of m registers a state: k Krylov vectors and the depths of j samples beyond k."""

    discount: Fraction
    k: int
    samples: tuple[int, ...]


def split(discount: Any, m: int) -> Split:
    """The even split: j = min{floor(m/2), floor(1/(1-g))}, k = m - j, samples spread as in td.sample-and-hold.

    Raises:
        BadInput: a discount outside (0, 1), or m < 1.
    """
    g = exact_discount(discount)
    if isinstance(m, bool) or not isinstance(m, int) or m < 1:
        raise BadInput(f"{THEOREM}: expected a positive number of registers m, found {m!r}")
    j = min(m // 2, int(1 / (1 - g)))
    return Split(g, m - j, tuple(spread_depths(g, m - j, j)))


def anchored_layout(n: Size) -> Layout:
    """The wide layout with two clocks, width 3n + 9."""
    return Layout(x=n, y=n, z=n, r=1, q=1, c=1, one=1, gam=1, gp=1, gm=1, cp=1, cm=1)


def context_layers(rounds: int) -> tuple[Layer, ...]:
    """Stages 1 and 2, the workspace being the kind `basis`; states and fields stay for the records."""
    kept = [
        layer
        for layer in krylov.krylov_layers(rounds)
        if not (isinstance(layer, Forget) or (isinstance(layer, Release) and layer.kind == "state"))
    ]
    return (*statistics.statistics_layers(), *(_renamed(layer, "slot", "basis") for layer in kept))


def _renamed(layer: Layer, old: str, new: str) -> Layer:
    """The layer with one token kind called otherwise."""

    def span(x: Span) -> Span:
        return replace(x, kind=new) if x.kind == old else x

    if isinstance(layer, LinearAttention):
        heads = [
            replace(h, routes=tuple(replace(r, source=span(r.source), target=span(r.target)) for r in h.routes))
            for h in layer.heads
        ]
        return replace(layer, heads=tuple(heads))
    if isinstance(layer, Tokenwise):
        return replace(layer, span=span(layer.span))
    if isinstance(layer, Release) and layer.kind == old:
        return replace(layer, kind=new)
    return layer


def source_heads(*targets: str) -> tuple[Head, ...]:
    """One step of td.executor: s+ = H s on sources, c+ = c - e'B s on queries."""
    routes = tuple(full("source", kind) for kind in targets)
    return Head("r", "x", "x", "r", routes, sign=-1), Head("r", "x", "y", "r", routes)


def released() -> tuple[Layer, ...]:
    """What was needed for recording goes."""
    return (
        Release("state", label="release states"),
        Release("work", label="release work"),
        Forget(KEPT, label="forget workspace"),
    )


def prefix_layers(rounds: Size, k: Size, later: Size) -> tuple[Layer, ...]:
    """After the context: `rounds` rounds of recording, k steps of the executor, `later` steps of holding."""
    return (
        Repeat(record_round("one", -1), rounds),
        *released(),
        Repeat((LinearAttention(source_heads("source", "query"), "step"),), k),
        Release("source", label="release sources"),
        Repeat(hold_step(), later),
    )


def residual_layers(rounds: Size, depth: Size) -> tuple[Layer, ...]:
    """After the context: `rounds` rounds that record v - u, and `depth` steps of the projection and the records."""
    own, read = (same("source", "source"),), (full("work", "slot"),)
    *gates, plain = record_round("one", -1)
    assert isinstance(plain, LinearAttention)
    projected = (
        Head("x", "r", "one", "y", (full("source", "work"),)),
        *source_heads("source"),
        Head("y", "one", "gp", "x", read, sign=-1),
        Head("y", "one", "gm", "x", read),
    )
    gate, hold = hold_step()
    assert isinstance(hold, LinearAttention)
    return (
        LinearAttention((Head("r", "one", "one", "q", own),), "save g0"),
        Repeat((*gates, replace(plain, heads=(*plain.heads, *projected))), rounds),
        LinearAttention((Head("r", "one", "one", "r", own, sign=-1), Head("q", "one", "one", "r", own)), "restore g0"),
        *released(),
        Repeat((gate, replace(hold, heads=(*source_heads("source", "query"), *hold.heads))), depth),
    )


def anchored_program(n: Size, context: int, layers: Sequence[Layer], reading: str) -> Program:
    """The context by `context` rounds, then the layers of a reading."""
    return Program(
        f"anchored, {reading} (N -> n -> k + j)", anchored_layout(n), KINDS, (*context_layers(context), *layers)
    )


def projected_values(task: Task, k: int, depth: int, arithmetic: Arithmetic) -> Array:
    """u_0, .., u_depth as rows: the projection on k Krylov vectors, from the exact context; shape (depth + 1, n)."""
    context = krylov.exact_context(task, k)
    rounded = None if context is None else arithmetic.matrix(context.tolist())
    return krylov.decoded_values(rounded, task.n, depth, arithmetic)


def _last(samples: Sequence[int], l: int) -> int:
    return max((x for x in samples if x <= l), default=0)


def prefix_reference(task: Task, k: int, samples: Sequence[int], depth: int, arithmetic: Arithmetic) -> Array:
    """v at the last of 0, 1, .., k and the samples up to l, by direct iteration."""
    return sample_and_hold.held_values(task, (*range(1, k + 1), *samples), depth, arithmetic)


def residual_reference(task: Task, k: int, samples: Sequence[int], depth: int, arithmetic: Arithmetic) -> Array:
    """u_l + v_tau - u_tau, tau the last sample up to l, by direct iteration and the exact context."""
    values = td_values(task, depth, arithmetic)
    projected = projected_values(task, k, depth, arithmetic)
    rows = []
    for l in range(depth + 1):
        tau = _last(samples, l)
        row = arithmetic.rows(projected, l, l + 1)
        if tau:
            held = arithmetic.add(
                arithmetic.rows(values, tau, tau + 1), arithmetic.negate(arithmetic.rows(projected, tau, tau + 1))
            )
            row = arithmetic.add(row, held)
        rows.append(row)
    return arithmetic.stack([[row] for row in rows])


REFERENCES: dict[str, Callable[[Task, int, Sequence[int], int, Arithmetic], Array]] = {
    "prefix": prefix_reference,
    "residual": residual_reference,
}


def construction(n: int, depth: int, k: int, samples: Sequence[int], reading: str = "prefix") -> Construction:
    """From the raw log to anchored values at every state and depth l <= L, shape (L + 1, n).

    Samples beyond L are left out.

    Raises:
        BadInput: an unknown reading, a size that is not a positive int, or samples that are not increasing ints with
            k < tau_1 <= L.
    """
    if reading not in READINGS:
        raise BadInput(f"{THEOREM}: expected one of the readings {', '.join(READINGS)}, found {reading!r}")
    krylov.check_build(THEOREM, n, depth, k, 1)
    kept = sample_and_hold.check_depths(samples, depth)
    if kept[0] <= k:
        raise BadInput(f"{THEOREM}: expected sampled depths beyond k = {k}, found {list(samples)}")
    context = min(n, k)
    # In the prefix reading the records start from v_k and their clocks with the first step after k.
    start = k if reading == "prefix" else 0
    clocks = [(tau, before, tau - start) for before, tau in zip((start, *kept[:-1]), kept, strict=True)]
    layers = prefix_layers(kept[-1] + 1, k, depth - k) if reading == "prefix" else residual_layers(kept[-1] + 1, depth)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        tokens = encode_hold(task, arithmetic, n, clocks, 1)
        for kind in ("basis", "source"):
            tokens = tokens.with_kind(kind, context, one=arithmetic.matrix([[1] * context]))
        return tokens

    def reference(task: Task, arithmetic: Arithmetic) -> Array:
        return REFERENCES[reading](task, k, kept, depth, arithmetic)

    return evaluator(
        THEOREM,
        {"n": n, "L": depth, "k": k, "m": k + len(kept), **{f"tau_{u + 1}": tau for u, tau in enumerate(kept)}},
        anchored_program(n, context, layers, reading),
        encode,
        ASSUMPTIONS,
        f"theory A6, Krylov-anchored, {reading} reading",
        reference=reference,
    )
