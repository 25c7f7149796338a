"""td.krylov in the narrow layout: the whole encoder on tokens of width 2n + 4, two n-blocks and four scalars.

The price is overwriting ("+ new - old"), which is exact but cancels in floats. Two banks of h tokens:

    field   raw     state         source                  slot
    x       e_S     e_i           b_j                     b_j, at last w_j
    y       e_S'    row i of A    w_j, at last Y_j        A b_j
    r       R       r_i           g0_j, then s_j          -
    c       -       1 / N_i       1 / d_j, the gate       -
    one     1       1             1                       1
    gam     -       g             -                       -

Stage 1 counts into y, r and c and overwrites: y += y (c g) - y. Round j needs two layers and p passes: source j gets
d_j and slot j gets A b_j, then source j gets w_j = b_j / d_j and both banks start b_{j+1} = A b_j in token j + 1; the
Gram-Schmidt heads write to both banks alike, so that slot j + 1 holds b_{j+1} as its next query. Compilation first
turns slot x from b_j into w_j, next to A b_j; then Y_j = w_j + [b_j - 2 w_j + sum_i w_i (A b_i)' w_j], read off the
slots, and g0_j = r' w_j. Sources with 1 / d_j = 0 are released. Attention layers: 2 + 3 + 2h + p(h - 1).
"""

from __future__ import annotations

from ..layers import Forget, Head, Layer, LinearAttention, Release, Tokenwise, full, same
from ..layout import Layout, Size
from ..program import Program
from ..tokens import Span

KINDS = ("raw", "state", "slot", "source", "query")


def narrow_layout(n: Size) -> Layout:
    """The narrow layout, width 2n + 4."""
    return Layout(x=n, y=n, r=1, c=1, one=1, gam=1)


def statistics_layers() -> tuple[Layer, ...]:
    """Stage 1 with overwrites: two attention layers, seven heads."""
    gather, own = (full("raw", "state"),), (same("state", "state"),)
    return (
        LinearAttention(
            (Head("y", "x", "x", "y", gather), Head("r", "x", "x", "r", gather), Head("one", "x", "x", "c", gather)),
            "count",
        ),
        Tokenwise("recip_0", Span("state"), "c", "invert visits"),
        LinearAttention(
            (
                Head("y", "c", "gam", "y", own),
                Head("y", "one", "one", "y", own, sign=-1),
                Head("r", "c", "one", "r", own),
                Head("r", "one", "one", "r", own, sign=-1),
            ),
            "normalise",
        ),
        Release("raw", label="release raw"),
    )


def arnoldi_round(j: Size, last_round: bool, passes: int) -> list[Layer]:
    """Round j (from 0): d_j and A b_j; w_j and the start of b_{j+1}; its orthogonalisation, in both banks."""
    here, slot = Span("source", j, j + 1), Span("slot", j, j + 1)
    following = [Span("source", j + 1, j + 2), Span("slot", j + 1, j + 2)]
    own = (same(here, here),)
    label = f"round {j + 1}:"
    start = [] if last_round else [Head("y", "one", "one", "x", tuple(same(slot, token) for token in following))]
    layers: list[Layer] = [
        LinearAttention(
            (Head("x", "y", "x", "y", (full("state", slot),)), Head("one", "x", "x", "c", own)), f"{label} A b, d"
        ),
        Tokenwise("recip_0", here, "c", f"{label} 1/d"),
        LinearAttention((Head("x", "c", "one", "y", own), *start), f"{label} w, next"),
    ]
    if not last_round:
        routes = tuple(full(Span("source", 0, j + 1), token) for token in following)
        project = Head("x", "y", "x", "x", routes, sign=-1)
        layers += [LinearAttention((project,), f"{label} pass {p + 1}") for p in range(passes)]
    return layers


def compile_layers() -> list[Layer]:
    """Slots hold w_i beside A b_i; sources receive Y and g0; everything that need not stay is released."""
    copy, own = (same("source", "slot"),), (same("source", "source"),)
    return [
        LinearAttention(
            (Head("y", "one", "one", "x", copy), Head("x", "one", "one", "x", copy, sign=-1)), "w beside A b"
        ),
        LinearAttention(
            (
                Head("x", "y", "y", "y", (full("slot", "source"),)),
                Head("x", "one", "one", "y", own),
                Head("y", "one", "one", "y", own, sign=-1),
                Head("y", "one", "one", "y", own, sign=-1),
                Head("r", "x", "y", "r", (full("state", "source"),)),
            ),
            "compile",
        ),
        Release("slot", label="release slots"),
        Release("state", label="release states"),
        Release("source", gate="c", label="gate"),
        Forget(("x", "y", "r"), label="forget workspace"),
    ]


def krylov_layers(rounds: int, passes: int = 1) -> tuple[Layer, ...]:
    """Stage 2: 3 + 2h + p(h - 1) attention layers for h rounds and p passes."""
    first = (full("state", Span("source", 0, 1)), full("state", Span("slot", 0, 1)))
    layers: list[Layer] = [LinearAttention((Head("x", "r", "one", "x", first),), "b_1 = r")]
    for j in range(rounds):
        layers += arnoldi_round(j, j == rounds - 1, passes)
    return (*layers, *compile_layers())


def encoder_program(n: Size, rounds: int, passes: int = 1) -> Program:
    """Stages 1 and 2 in the narrow layout: raw tokens to the context Z_0."""
    layers = statistics_layers() + krylov_layers(rounds, passes)
    return Program(f"narrow context (N -> n -> k), {rounds} rounds", narrow_layout(n), KINDS, layers)
