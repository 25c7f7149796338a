"""td.hessenberg: the monic Arnoldi basis and its Hessenberg matrix, nk + k(k+1)/2 registers (this project's).

With b_1 = r and b_{j+1} = A b_j - sum_{i<=j} b_i h_ij, h_ij = w_i' A b_j, the matrix H of A on the basis has unit
sub-diagonal and upper part h, and g_0 = e_1: only B and the k(k+1)/2 numbers h_ij, i <= j, have to stay. That lies
between the memory-optimal context and Z_0, and is as stable as Arnoldi. Executor, three heads a step:

    s_0 = e_1 (public),   s+ = H s,   v_l = B sum_{j<l} s_j .

A source holds b_j in x, its place e_j (public) in t and column j of H in u, so that sum_j s_j <u_j, e_i> = (H s)_i.

Encoder: column j of h is written into slot j + 1 by a head that rides on the Gram-Schmidt scores, with value e_i; the
second pass adds its corrections there too. Then it moves to source j, which holds e_{j+1} (public) in u from the start.
"""

from __future__ import annotations

from flint import fmpq_mat

from ..arithmetic import Arithmetic, Array
from ..construction import Construction
from ..exact import RATIONALS
from ..layers import Forget, Head, Layer, LinearAttention, Release, Repeat, Tokenwise, full, same
from ..layout import Layout, Size
from ..program import Program
from ..task import Task
from ..tokens import Span, Tokens
from . import krylov, statistics
from .executor import evaluator
from .memory_optimal import (
    PUBLIC_FIELDS,
    PUBLIC_S0,
    SOURCE,
    basis_layout,
    kept_tokens,
    public_rounds,
    with_banks,
)
from .tokens import KINDS, encode_log

THEOREM = "td.hessenberg"
ASSUMPTIONS = (
    *krylov.ASSUMPTIONS,
    "the number of sources k is the number of tokens kept",
    f"{PUBLIC_S0}, and the unit sub-diagonal of H",
)
EXECUTOR_ASSUMPTIONS = ("routes depend on token kinds and public indices only", ASSUMPTIONS[-1])


def with_hessenberg_banks(tokens: Tokens, h: int, arithmetic: Arithmetic, queries: int = 0) -> Tokens:
    """`with_banks`, and the unit sub-diagonal e_{j+1} in u of source j."""
    tokens = with_banks(tokens, h, arithmetic, queries)
    return tokens.replacing({("source", "u"): subdiagonal(h, h, arithmetic)})


def subdiagonal(height: int, k: int, arithmetic: Arithmetic) -> Array:
    """Columns e_2, .., e_{k+1} of the given height; zero beyond it."""
    return arithmetic.one_hot([j + 1 if j + 1 < height else -1 for j in range(k)], height)


def encoder_layers(h: int, passes: int = 1) -> tuple[Layer, ...]:
    """Stage 2: 3 + (2 + p) h attention layers for h rounds and p passes."""
    first, earlier, rest = Span("slot", 0, 1), Span("slot", 0, h), Span("slot", 1, h + 1)
    layers: list[Layer] = [
        LinearAttention((Head("x", "r", "one", "x", (full("state", first),)),), "b_1 = r"),
        LinearAttention((Head("t", "one", "one", "t", (same("source", earlier),)),), "places"),
    ]
    for j in range(h):
        here, following = Span("slot", j, j + 1), Span("slot", j + 1, j + 2)
        own, label = (same(here, here),), f"round {j + 1}:"
        layers += [
            LinearAttention(
                (Head("x", "y", "x", "z", (full("state", here),)), Head("one", "x", "x", "c", own)), f"{label} A b, d"
            ),
            Tokenwise("recip_0", here, "c", f"{label} 1/d"),
            LinearAttention(
                (Head("x", "c", "one", "y", own), Head("z", "one", "one", "x", (same(here, following),))),
                f"{label} w, next",
            ),
        ]
        routes = (full(Span("slot", 0, j + 1), following),)
        project = (Head("x", "y", "x", "x", routes, sign=-1), Head("t", "y", "x", "u", routes))
        layers += [LinearAttention(project, f"{label} pass {p + 1}") for p in range(passes)]
    copied = [Head(field, "one", "one", field, (same(earlier, "source"),)) for field in ("x", "c")]
    return (
        *layers,
        LinearAttention((*copied, Head("u", "one", "one", "u", (same(rest, "source"),))), "collect"),
        Release("slot", label="release slots"),
        Release("state", label="release states"),
        Release("source", gate="c", label="gate"),
        Forget(("x", "u", "t", "r", "one"), label="forget workspace"),
    )


def encoder_program(n: Size, h: int, passes: int = 1) -> Program:
    """Raw tokens to B and H, in the fields x and u of the sources."""
    layers = statistics.statistics_layers() + encoder_layers(h, passes)
    return Program(f"Hessenberg context, {h} rounds", basis_layout(n, h), KINDS, layers)


def executor_program(n: Size, h: Size, depth: Size) -> Program:
    """`depth` steps on tokens (x; t; u; r; one) of width n + 2h + 2; all sizes may be symbols."""
    heads = (
        Head("r", "one", "one", "r", (same("source", "source"),), sign=-1),
        Head("r", "u", "t", "r", (full("source", "source"),)),
        Head("r", "x", "x", "r", (full("source", "query"),), sign=-1),
    )
    return Program(
        "executor of the Hessenberg context",
        Layout(x=n, t=h, u=h, r=1, one=1),
        ("source", "query"),
        (Repeat((LinearAttention(heads, "step"),), depth),),
    )


def read_context(tokens: Tokens, n: int, h: int, arithmetic: Arithmetic) -> Array | None:
    """[B; H], shape (n + k, k); None where k = 0."""
    k = tokens.total("source")
    if k == 0:
        return None
    H = arithmetic.rows(tokens.read("source", "u", h, arithmetic), 0, k)
    return arithmetic.stack([[tokens.read("source", "x", n, arithmetic)], [H]])


def exact_context(task: Task, depth: int) -> fmpq_mat | None:
    """[B; H] in Q, shape (n + k, k), from orthogonal projections (`krylov.exact_context`); None where k = 0."""
    context = krylov.exact_context(task, depth)
    if context is None:
        return None
    n, k = task.n, context.ncols()
    B, Y = RATIONALS.rows(context, 0, n), RATIONALS.rows(context, n, 2 * n)
    H = (Y - B).transpose() * B + RATIONALS.one_hot(range(k), k)
    return RATIONALS.stack([[B], [H]])


def context_tokens(context: Array | None, n: int, h: int, arithmetic: Arithmetic) -> Tokens:
    """Sources that hold a context [B; H], its places and s_0 = e_1, and one query per state; fields padded to h."""
    if context is None:
        return kept_tokens(None, {}, n, arithmetic)
    k = arithmetic.shape(context)[1]
    H = arithmetic.rows(context, n, n + k)
    if k < h:
        H = arithmetic.stack([[H], [arithmetic.matrix([[0] * k] * (h - k))]])
    tokens = kept_tokens(context, {"x": (0, n)}, n, arithmetic)
    return tokens.replacing({("source", "u"): H, ("source", "t"): arithmetic.one_hot(range(k), h)})


def registers(tokens: Tokens, arithmetic: Arithmetic) -> int:
    """Array entries that stay in the sources, public ones not counted: in u, column j has its first j entries."""
    total = 0
    for (kind, field), block in tokens.blocks.items():
        if kind == "source" and field not in PUBLIC_FIELDS:
            rows, columns = arithmetic.shape(block)
            total += sum(min(rows, j + 1) for j in range(columns)) if field == "u" else rows * columns
    return total


def encoder(n: int, depth: int, *, passes: int = 1, rounds: int | None = None) -> Construction:
    """From the raw log to [B; H], shape (n + k, k); `rounds` replaces h = min(n, L) where the exact k is known.

    Raises:
        BadInput: a size that is not a positive int.
    """
    h = public_rounds(THEOREM, n, depth, passes, rounds)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return with_hessenberg_banks(encode_log(task, arithmetic, n), h, arithmetic)

    def read(tokens: Tokens, arithmetic: Arithmetic) -> Array | None:
        return read_context(tokens, n, h, arithmetic)

    sizes, answer = {"n": n, "L": depth, "h": h, "passes": passes}, (("B", n), ("H", h))
    program = encoder_program(n, h, passes)
    return krylov.context_builder(THEOREM, sizes, program, encode, read, exact_context, ASSUMPTIONS, answer, SOURCE)


def construction(n: int, depth: int, *, passes: int = 1, rounds: int | None = None) -> Construction:
    """From the raw log to v_0 .. v_L at every state, shape (L + 1, n).

    Raises:
        BadInput: a size that is not a positive int.
    """
    h = public_rounds(THEOREM, n, depth, passes, rounds)
    program = encoder_program(n, h, passes).then(executor_program(n, h, depth), f"encoder, {h} rounds, and executor")

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return with_hessenberg_banks(encode_log(task, arithmetic, n), h, arithmetic, queries=n)

    sizes = {"n": n, "L": depth, "h": h, "passes": passes}
    return evaluator(THEOREM, sizes, program, encode, ASSUMPTIONS, SOURCE)


def from_context(n: int, depth: int) -> Construction:
    """The executor alone, on the exact context rounded once; its answer is v_0 .. v_L, shape (L + 1, n)."""
    h = public_rounds(THEOREM, n, depth, 1, None)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        context = exact_context(task, depth)
        return context_tokens(None if context is None else arithmetic.matrix(context.tolist()), n, h, arithmetic)

    sizes = {"n": n, "L": depth, "h": h}
    return evaluator(THEOREM, sizes, executor_program(n, h, depth), encode, EXECUTOR_ASSUMPTIONS, SOURCE)
