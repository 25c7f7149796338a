"""td.memory-optimal: a context of nk + k registers, which is the lower bound itself (this project's; theory A4).

Kept are the Krylov basis B = [r, A r, .., A^{k-1} r] and the k coefficients a of A^k r in it. With N the shift down by
one place (N e_j = e_{j+1}, N e_k = 0) and u = e_k, B N + (A^k r) u' = A B and B a = A^k r give A B = B (N + a u'), so

    s_0 = e_1 (public),   s+ = N s + a (u' s),   v_l = B sum_{j<l} s_j ,

four heads a step: clear s, shift it (mixing by the public N), add a s_k (mixing by the public u u'), read B s.

Encoder. A bank of slots runs Arnoldi, b_{j+1} = A b_j - sum_i b_i w_i' A b_j, and carries the coordinates t_j of b_j,
b_j = [r, A r, ..] t_j:

    t_1 = e_1,   t_{j+1} = N t_j - sum_{i<=j} t_i (w_i' A b_j) ,

on the very scores of the Gram-Schmidt heads. b_{k+1} = 0 reads 0 = A^k r + sum_{j<=k} (t_{k+1})_j A^{j-1} r, so
a = -t_{k+1}, with k + 1 the first dead slot: the one place where the primitive eq0(1 / d_j) steps from 0 to 1. A second
bank of sources forms A^{j-1} r. Slot h + 1 is never normalised and counts as dead; so where L < k_n, k = L and a are
the coefficients of the orthogonal projection of A^L r, which no depth l <= L reads.

Two public fields of the sources are no registers: their places t = e_j, and s_0 = e_1. While the executor runs, s costs
k registers of work beyond the nk + k that stay.
"""

from __future__ import annotations

from flint import fmpq_mat

from ..arithmetic import Arithmetic, Array
from ..construction import Construction
from ..errors import BadInput
from ..exact import RATIONALS
from ..layers import Forget, Head, Layer, LinearAttention, Public, Release, Repeat, Tokenwise, full, same
from ..layout import Layout, Size
from ..program import Program
from ..task import Task
from ..tokens import Span, Tokens
from . import executor, krylov, statistics
from .tokens import KINDS, encode_log

THEOREM = "td.memory-optimal"
SOURCE = "this project"
PUBLIC_S0 = "s_0 = e_1 is public, as are the places of the tokens kept"
ASSUMPTIONS = (
    *krylov.ASSUMPTIONS,
    "declared primitive eq0(x) = 1 - x recip_0(x)",
    "the number of sources k is the number of tokens kept",
    PUBLIC_S0,
)
EXECUTOR_ASSUMPTIONS = (
    "the shift and the place of the last source depend on the number of tokens kept only",
    PUBLIC_S0,
)
PUBLIC_FIELDS = ("r", "one", "t")
"""Fields of the sources that hold public constants when the encoder ends: s_0 = e_1, ones, places."""

SHIFT = Public("shift", lambda rows, columns: [[int(i == j + 1) for j in range(columns)] for i in range(rows)])
"""N, shape (k, k): N e_j = e_{j+1}, N e_k = 0."""
LAST = Public("last", lambda rows, columns: [[int(i == j == rows - 1) for j in range(columns)] for i in range(rows)])
"""u u' with u = e_k, shape (k, k)."""


def basis_layout(n: Size, h: Size) -> Layout:
    """The token of the encoders that keep a basis and its recurrence, width 3n + 2h + 5."""
    return Layout(x=n, y=n, z=n, t=h, u=h, r=1, q=1, c=1, one=1, gam=1)


def with_banks(tokens: Tokens, h: int, arithmetic: Arithmetic, queries: int = 0) -> Tokens:
    """The tokens with h + 1 blank slots, and h sources that hold their places and s_0 = e_1; a query a state if any."""
    ones = arithmetic.matrix([[1] * h])
    tokens = tokens.with_kind("slot", h + 1, one=arithmetic.matrix([[1] * (h + 1)])).with_kind(
        "source", h, one=ones, t=arithmetic.one_hot(range(h), h), r=first_place(h, arithmetic)
    )
    return tokens.with_kind("query", queries, x=arithmetic.one_hot(range(queries), queries)) if queries else tokens


def first_place(k: int, arithmetic: Arithmetic) -> Array:
    """e_1' as a row, shape (1, k)."""
    return arithmetic.one_hot([0] + [-1] * (k - 1), 1)


def start_round(j: int, h: int) -> list[Layer]:
    """Round j (from 0) up to its passes: A b_j, d_j, N t_j and A^j r; then w_j and the starts of the next tokens."""
    here, following, kept = Span("slot", j, j + 1), Span("slot", j + 1, j + 2), Span("source", j, j + 1)
    onward, label = (same(here, following),), f"round {j + 1}:"
    power = (Head("z", "one", "one", "x", (same(kept, Span("source", j + 1, j + 2)),)),) if j < h - 1 else ()
    return [
        LinearAttention(
            (
                Head("x", "y", "x", "z", (full("state", here), full("state", kept))),
                Head("t", "t", "t", "u", (full("source", here),), weight=SHIFT.T),
                Head("one", "x", "x", "c", (same(here, here),)),
            ),
            f"{label} A b, N t, d",
        ),
        Tokenwise("recip_0", here, "c", f"{label} 1/d"),
        LinearAttention(
            (
                Head("x", "c", "one", "y", (same(here, here),)),
                Head("z", "one", "one", "x", onward),
                Head("u", "one", "one", "t", onward),
                *power,
            ),
            f"{label} w, next",
        ),
    ]


def encoder_layers(h: int, passes: int = 1) -> tuple[Layer, ...]:
    """Stage 2: 4 + (2 + p) h attention layers for h rounds and p passes."""
    first = Span("slot", 0, 1)
    layers: list[Layer] = [
        LinearAttention(
            (
                Head("x", "r", "one", "x", (full("state", first), full("state", Span("source", 0, 1)))),
                Head("t", "one", "one", "t", (same(Span("source", 0, 1), first),)),
            ),
            "b_1 = r, t_1 = e_1",
        )
    ]
    for j in range(h):
        layers += start_round(j, h)
        routes = (full(Span("slot", 0, j + 1), Span("slot", j + 1, j + 2)),)
        project = (Head("x", "y", "x", "x", routes, sign=-1), Head("t", "y", "x", "t", routes, sign=-1))
        layers += [LinearAttention(project, f"round {j + 1}: pass {p + 1}") for p in range(passes)]
    rest, earlier = Span("slot", 1, h + 1), Span("slot", 0, h)
    return (
        *layers,
        LinearAttention((Head("c", "one", "one", "c", (same(earlier, "source"),)),), "gate of the sources"),
        Tokenwise("eq0", Span("slot"), "c", "dead slots"),
        LinearAttention(
            (
                Head("c", "one", "one", "r", (same(rest, rest),)),
                Head("c", "one", "one", "r", (same(earlier, rest),), sign=-1),
            ),
            "first dead slot",
        ),
        LinearAttention((Head("r", "t", "t", "q", (full("slot", "source"),), sign=-1),), "a = -t_{k+1}"),
        Release("slot", label="release slots"),
        Release("state", label="release states"),
        Release("source", gate="c", label="gate"),
        Forget(("x", "q", "r", "one"), label="forget workspace"),
    )


def encoder_program(n: Size, h: int, passes: int = 1) -> Program:
    """Raw tokens to [B; a'], in the fields x and q of the sources."""
    layers = statistics.statistics_layers() + encoder_layers(h, passes)
    return Program(f"memory-optimal context, {h} rounds", basis_layout(n, h), KINDS, layers)


def executor_program(n: Size, depth: Size) -> Program:
    """`depth` steps on tokens (x; q; r; one) = (b_j; a_j; s_j; 1) of width n + 3; n and depth may be symbols."""
    own, among = (same("source", "source"),), (full("source", "source"),)
    heads = (
        Head("r", "one", "one", "r", own, sign=-1),
        Head("r", "one", "one", "r", own, mixing=SHIFT.T),
        Head("r", "one", "q", "r", among, mixing=LAST),
        Head("r", "x", "x", "r", (full("source", "query"),), sign=-1),
    )
    step = LinearAttention(heads, "step")
    return Program(
        "executor of the memory-optimal context",
        Layout(x=n, q=1, r=1, one=1),
        ("source", "query"),
        (Repeat((step,), depth),),
    )


def read_context(tokens: Tokens, n: int, arithmetic: Arithmetic) -> Array | None:
    """[B; a'], shape (n + 1, k); None where k = 0."""
    if tokens.total("source") == 0:
        return None
    return arithmetic.stack([[tokens.read("source", "x", n, arithmetic)], [tokens.read("source", "q", 1, arithmetic)]])


def krylov_basis(task: Task, depth: int) -> fmpq_mat | None:
    """[r, A r, .., A^{k-1} r] in Q, shape (n, k), k = dim K_L(A, r); None where k = 0."""
    columns = [task.r]
    for _ in range(min(task.n, depth) - 1):
        columns.append(task.A * columns[-1])
    k = RATIONALS.stack([columns]).rank()
    return RATIONALS.stack([columns[:k]]) if k else None


def exact_context(task: Task, depth: int) -> fmpq_mat | None:
    """[B; a'] in Q from the definition, shape (n + 1, k); None where k = 0. a solves the normal equations."""
    B = krylov_basis(task, depth)
    if B is None:
        return None
    last_power = task.A * RATIONALS.columns(B, B.ncols() - 1, B.ncols())
    a = (B.transpose() * B).solve(B.transpose() * last_power)
    return RATIONALS.stack([[B], [a.transpose()]])


def context_tokens(context: Array | None, n: int, arithmetic: Arithmetic) -> Tokens:
    """Sources that hold a context [B; a'] and s_0 = e_1, and one query per state."""
    fields = {"x": (0, n), "q": (n, n + 1)}
    return kept_tokens(context, fields, n, arithmetic)


def kept_tokens(context: Array | None, fields: dict[str, tuple[int, int]], n: int, arithmetic: Arithmetic) -> Tokens:
    """Sources with the rows of a context in the fields named and s_0 = e_1, and one query per state."""
    query = {"x": arithmetic.one_hot(range(n), n)}
    if context is None:
        return Tokens({"source": 0}, {}).with_kind("query", n, **query)
    k = arithmetic.shape(context)[1]
    blocks = {field: arithmetic.rows(context, *cut) for field, cut in fields.items()}
    public = {"r": first_place(k, arithmetic), "one": arithmetic.matrix([[1] * k])}
    return Tokens({}, {}).with_kind("source", k, **blocks, **public).with_kind("query", n, **query)


def registers(tokens: Tokens, arithmetic: Arithmetic) -> int:
    """Array entries that stay in the sources, public constants not counted (Def. 4.2)."""
    shapes = [
        arithmetic.shape(block)
        for (kind, field), block in tokens.blocks.items()
        if kind == "source" and field not in PUBLIC_FIELDS
    ]
    return sum(rows * columns for rows, columns in shapes)


def public_rounds(theorem: str, n: object, depth: object, passes: object, rounds: int | None) -> int:
    """h = min(n, L), or the rounds given.

    Raises:
        BadInput: a size that is not a positive int, or more rounds than states.
    """
    h = min(n, depth) if rounds is None and isinstance(n, int) and isinstance(depth, int) else rounds
    krylov.check_build(theorem, n, depth, h, passes)
    assert isinstance(n, int)
    assert h is not None
    if h > n:
        raise BadInput(f"{theorem}: expected at most n = {n} rounds, found {h}")
    return h


def encoder(n: int, depth: int, *, passes: int = 1, rounds: int | None = None) -> Construction:
    """From the raw log to [B; a'], shape (n + 1, k); `rounds` replaces h = min(n, L) where the exact k is known.

    Raises:
        BadInput: a size that is not a positive int.
    """
    h = public_rounds(THEOREM, n, depth, passes, rounds)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return with_banks(encode_log(task, arithmetic, n), h, arithmetic)

    def read(tokens: Tokens, arithmetic: Arithmetic) -> Array | None:
        return read_context(tokens, n, arithmetic)

    sizes, answer = {"n": n, "L": depth, "h": h, "passes": passes}, (("B", n), ("a'", 1))
    program = encoder_program(n, h, passes)
    return krylov.context_builder(THEOREM, sizes, program, encode, read, exact_context, ASSUMPTIONS, answer, SOURCE)


def construction(n: int, depth: int, *, passes: int = 1, rounds: int | None = None) -> Construction:
    """From the raw log to v_0 .. v_L at every state, shape (L + 1, n).

    Raises:
        BadInput: a size that is not a positive int.
    """
    h = public_rounds(THEOREM, n, depth, passes, rounds)
    program = encoder_program(n, h, passes).then(executor_program(n, depth), f"encoder, {h} rounds, and executor")

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return with_banks(encode_log(task, arithmetic, n), h, arithmetic, queries=n)

    sizes = {"n": n, "L": depth, "h": h, "passes": passes}
    return executor.evaluator(THEOREM, sizes, program, encode, ASSUMPTIONS + EXECUTOR_ASSUMPTIONS[:1], SOURCE)


def from_context(n: int, depth: int) -> Construction:
    """The executor alone, on the exact context rounded once; its answer is v_0 .. v_L, shape (L + 1, n)."""
    krylov.check_build(THEOREM, n, depth, 1, 1)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        context = exact_context(task, depth)
        return context_tokens(None if context is None else arithmetic.matrix(context.tolist()), n, arithmetic)

    sizes = {"n": n, "L": depth}
    return executor.evaluator(THEOREM, sizes, executor_program(n, depth), encode, EXECUTOR_ASSUMPTIONS, SOURCE)
