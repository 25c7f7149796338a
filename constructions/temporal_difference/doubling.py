"""td.doubling: the answer to one depth-L query in bit_length(L) + 2 attention layers (source: App. E, Theta(log L)).

Derivation. With S_a = sum_{j<a} H^j g0 the answer is v_L = B S_L (theory A3), and

    S_{a+b} = S_a + H^a S_b,   so   S_{2a} = S_a + H^a S_a,   H^{2a} = H^a H^a .

E = H^a and S = S_a start at a = 1 and double with every layer; T = S_b starts at b = 0 and takes in the binary digits
of L, least first: a digit 1 turns b into a + b. The digits are public: they choose which heads a layer has.

Everything stays on the k sources of Z_0. Source j holds column j of E, and entry j of S and T:

    field   source                            query
    x, y    b_j, Y_j                          e_q
    pos     e_j (public), height h >= k
    one     1
    E r q   H^a e_j, (S_a)_j, (S_b)_j         r: c, at last -v_L(q)
    F c gam the second bank of E, r, q

    extraction  H = Y'B - B'B + I, by W'B = I:  +(pos, y, x; E) -(pos, x, x; E) +(pos, one, one; E)
    E E         value E e_i, key e_i, query E e_j, on source => source
    E S         value S_j, key E e_j, query e_i, on source => source; S itself by a copy
    read        c = -e_q' B T:  -(q, x, x; r) on source => query

A layer reads one bank and writes the other, and the old one is forgotten: nothing is overwritten by "new - old", which
floats would feel. The layer of the last digit, always 1, forms T only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..arithmetic import Arithmetic, Array
from ..construction import Construction, Steps, last
from ..errors import BadInput
from ..layers import Forget, Head, Layer, LinearAttention, full, same
from ..layout import Layout, Size
from ..program import Program
from ..task import SUB_STOCHASTIC, Task
from ..tokens import Tokens
from . import executor, krylov
from .tokens import KINDS, encode_log, wide_layout

THEOREM = "td.doubling"
SOURCE = "App. E: one depth-L query in Theta(log L) layers (theory A8)"
PUBLIC = "the places e_j of the sources, and the binary digits of L, are public"
EXECUTOR_ASSUMPTIONS = (*executor.ASSUMPTIONS, PUBLIC)
ASSUMPTIONS = (*krylov.ASSUMPTIONS, EXECUTOR_ASSUMPTIONS[1], PUBLIC)

BANKS = (("E", "r", "q"), ("F", "c", "gam"))
"""Fields of H^a, S_a and S_b; layers alternate between the two."""

EVERY, OWN = (full("source", "source"),), (same("source", "source"),)


def extraction() -> list[Layer]:
    """E = H from B and Y; S_1 = g0 is in r already, S_0 = 0."""
    heads = (
        Head("pos", "y", "x", "E", EVERY),
        Head("pos", "x", "x", "E", EVERY, sign=-1),
        Head("pos", "one", "one", "E", OWN),
    )
    return [LinearAttention(heads, "E = H"), Forget(("x", "pos", "one", *BANKS[0]), label="forget Y")]


def digit_layers(place: int, digit: int, *, final: bool) -> list[Layer]:
    """The layer of the binary digit at a place: T <- S + E T where it is 1; then (E, S) <- (E E, S + E S)."""
    (E, S, T), new = BANKS[place % 2], BANKS[1 - place % 2]
    heads = [Head(S, "one", "one", new[2], OWN), Head(T, E, "pos", new[2], EVERY)] if digit else []
    if not digit:
        heads.append(Head(T, "one", "one", new[2], OWN))
    if not final:
        heads += [
            Head(E, "pos", E, new[0], EVERY),
            Head(S, "one", "one", new[1], OWN),
            Head(S, E, "pos", new[1], EVERY),
        ]
    return [
        LinearAttention(tuple(heads), f"digit {place + 1} is {digit}"),
        Forget(("x", "pos", "one", *new), label="forget the old bank"),
    ]


def doubling_layers(depth: int) -> tuple[Layer, ...]:
    """Extraction, one layer for each binary digit of the depth, the read-out: bit_length(L) + 2 attention layers."""
    digits = [int(d) for d in reversed(f"{depth:b}")]
    layers = extraction()
    for place, digit in enumerate(digits):
        layers += digit_layers(place, digit, final=place == len(digits) - 1)
    read = Head(BANKS[len(digits) % 2][2], "x", "x", "r", (full("source", "query"),), sign=-1)
    return (*layers, LinearAttention((read,), "read"))


def doubling_layout(n: Size, h: Size) -> Layout:
    """Width 2n + 3h + 5, at most 5n + 5."""
    return Layout(x=n, y=n, pos=h, E=h, F=h, r=1, q=1, c=1, gam=1, one=1)


def doubling_program(n: Size, h: Size, depth: int) -> Program:
    """From Z_0 with at most h sources to the queries' c = -v_L; n and h may be symbols."""
    return Program(f"doubling, depth {depth}", doubling_layout(n, h), ("source", "query"), doubling_layers(depth))


def context_tokens(context: Array | None, n: int, h: int, arithmetic: Arithmetic) -> Tokens:
    """Sources that hold a context Z_0 of shape (2n + 1, k), k <= h, with their places; one query per state."""
    tokens = executor.context_tokens(context, n, arithmetic)
    k = tokens.total("source")
    if k == 0:
        return tokens
    public = {("source", "pos"): arithmetic.one_hot(range(k), h), ("source", "one"): arithmetic.matrix([[1] * k])}
    return tokens.replacing(public)


def check_depth(depth: object) -> int:
    """The depth, if it is a positive int.

    Raises:
        BadInput: it is not.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise BadInput(f"{THEOREM}: expected a positive depth L, found {depth!r}")
    return depth


def from_context(n: int, depth: int) -> Construction:
    """Doubling alone, on the exact context rounded once; its answer is v_L at every state, shape (1, n).

    Raises:
        BadInput: a size that is not a positive int.
    """
    krylov.check_build(THEOREM, n, check_depth(depth), 1, 1)
    h = min(n, depth)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        context = krylov.exact_context(task, h)
        return context_tokens(None if context is None else arithmetic.matrix(context.tolist()), n, h, arithmetic)

    return _single_depth({"n": n, "L": depth, "h": h}, doubling_program(n, h, depth), encode, alone=True)


def construction(
    n: int, depth: int, *, passes: int = 1, balanced: bool = False, rounds: int | None = None
) -> Construction:
    """Encoder and doubling: from the raw log to v_L at every state, shape (1, n); width 3n + 3h + 5, at most 7n + 4.

    Raises:
        BadInput: a size that is not a positive int.
    """
    encoder = krylov.construction(n, check_depth(depth), passes=passes, balanced=balanced, rounds=rounds)
    h = encoder.sizes["h"]
    *layers, forget = encoder.program.layers
    assert isinstance(forget, Forget)
    layout = Layout(**wide_layout(n).widths, pos=h, E=h, F=h)
    kept = Forget((*forget.keep, "pos", "one"), label=forget.label)
    program = Program(
        f"encoder and doubling, {h} rounds, depth {depth}", layout, KINDS, (*layers, kept, *doubling_layers(depth))
    )

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        tokens = encode_log(task, arithmetic, n, slots=h, queries=True)
        return tokens.replacing({("source", "pos"): arithmetic.one_hot(range(h), h)})

    return _single_depth(encoder.sizes, program, encode, alone=False)


def _single_depth(
    sizes: Mapping[str, Size], program: Program, encode: Callable[[Task, Arithmetic], Tokens], *, alone: bool
) -> Construction:
    """A construction that answers with v_L at every state, shape (1, n), against direct iteration."""
    n, depth = sizes["n"], sizes["L"]

    def decode(steps: Steps, arithmetic: Arithmetic) -> Array:
        return arithmetic.negate(last(steps).read("query", "r", 1, arithmetic))

    def reference(task: Task, arithmetic: Arithmetic) -> Array:
        if task.n != n:
            raise BadInput(f"{task.name}: expected {n} states, as the construction was built for, found {task.n}")
        return arithmetic.rows(executor.td_values(task, depth, arithmetic), depth, depth + 1)

    return Construction(
        theorem=THEOREM,
        sizes=sizes,
        program=program,
        encode=encode,
        decode=decode,
        reference=reference,
        task_class=SUB_STOCHASTIC,
        assumptions=EXECUTOR_ASSUMPTIONS if alone else ASSUMPTIONS,
        answer=(("v_L", 1),),
        source=f"{SOURCE}: {'from the context' if alone else 'with the encoder'}",
    )
