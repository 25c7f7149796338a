"""td.lanczos: for logs with N_ij = N_ji a tridiagonal recurrence, nk + 2k - 1 registers (theory A4).

Weight the inner product by visits, <u, v> = u' D v with D = diag(N_i). D A = g [N_ij] is symmetric where N_ij = N_ji,
so A is self-adjoint in it and the monic Arnoldi basis obeys three terms, b_1 = r and

    b_{j+1} = A b_j - alpha_j b_j - beta_j b_{j-1},   alpha_j = w_j' A b_j,   beta_j = w_{j-1}' A b_j,

w_j = D b_j / d_j, d_j = b_j' D b_j. On it A is tridiagonal with unit sub-diagonal, alpha on and beta_2, .., beta_k
above the diagonal, and g_0 = e_1. Executor, five heads a step:

    s_0 = e_1 (public),   s+_i = s_{i-1} + alpha_i s_i + beta_{i+1} s_{i+1},   v_l = B sum_{j<l} s_j .

Encoder. Stage 1 has one head more, N_i e_i = sum_t [S_t = i] e_{S_t} in u of state i, so that the score <e_i, b_j>
gives D b_j. Gram-Schmidt sees the last two slots only, and two heads on its scores collect alpha_j and beta_j in slot
j + 1; a second pass adds its corrections there. Source j holds b_j, alpha_j and beta_{j+1} (of the last one zero, hence
no register).

The assumption is on counts: a path sampled from a reversible chain does not have N_ij = N_ji, one that returns to its
start on a tree (a birth-death chain) does.
"""

from __future__ import annotations

import numpy as np
from flint import fmpq, fmpq_mat

from ..arithmetic import Arithmetic, Array
from ..construction import Construction
from ..exact import RATIONALS
from ..layers import Forget, Head, Layer, LinearAttention, Release, Repeat, Tokenwise, full, same
from ..layout import Layout, Size
from ..program import Program
from ..task import Task, TaskClass
from ..tokens import Span, Tokens
from . import krylov, statistics
from .executor import evaluator
from .memory_optimal import (
    PUBLIC_FIELDS,
    PUBLIC_S0,
    SHIFT,
    SOURCE,
    first_place,
    kept_tokens,
    krylov_basis,
    public_rounds,
)
from .tokens import KINDS, encode_log

THEOREM = "td.lanczos"


def _counts_symmetric(task: Task) -> str | None:
    counts = task.counts
    places = np.argwhere(counts != counts.T)
    if not places.size:
        return None
    i, j = places[0].tolist()
    return f"N_{i},{j} = {counts[i, j]} and N_{j},{i} = {counts[j, i]}"


COUNT_REVERSIBLE = TaskClass("count-reversible", "full coverage; N_ij = N_ji for all states i, j", _counts_symmetric)
POSITIVITY = "b'Db = 0 only for b = 0 (real numbers, every state visited)"
ASSUMPTIONS = (
    *krylov.ASSUMPTIONS,
    "the task is count-reversible: N_ij = N_ji",
    "the number of sources k is the number of tokens kept",
    f"{PUBLIC_S0}, and the unit sub-diagonal of H",
)
EXECUTOR_ASSUMPTIONS = ("the shift depends on the number of tokens kept only", ASSUMPTIONS[-1])


def lanczos_layout(n: Size) -> Layout:
    """The token, width 4n + 6; `m` of a source is beta_{j+1}, of a slot beta_j."""
    return Layout(x=n, y=n, z=n, u=n, r=1, q=1, c=1, m=1, one=1, gam=1)


def with_lanczos_banks(tokens: Tokens, h: int, arithmetic: Arithmetic, queries: int = 0) -> Tokens:
    """The tokens with h + 1 blank slots, and h sources with s_0 = e_1; a query a state if any."""
    ones, more = arithmetic.matrix([[1] * h]), arithmetic.matrix([[1] * (h + 1)])
    tokens = tokens.with_kind("slot", h + 1, one=more)
    tokens = tokens.with_kind("source", h, one=ones, r=first_place(h, arithmetic))
    return tokens.with_kind("query", queries, x=arithmetic.one_hot(range(queries), queries)) if queries else tokens


def statistics_layers() -> tuple[Layer, ...]:
    """Stage 1 with N_i e_i beside the counts: two attention layers, six heads."""
    count, *rest = statistics.statistics_layers()
    assert isinstance(count, LinearAttention)
    weigh = Head("x", "x", "x", "u", (full("raw", "state"),))
    return (LinearAttention((*count.heads, weigh), count.label), *rest)


def encoder_layers(h: int, passes: int = 1) -> tuple[Layer, ...]:
    """Stage 2: 2 + (3 + p) h attention layers for h rounds and p passes."""
    layers: list[Layer] = [
        LinearAttention((Head("x", "r", "one", "x", (full("state", Span("slot", 0, 1)),)),), "b_1 = r")
    ]
    for j in range(h):
        here, following = Span("slot", j, j + 1), Span("slot", j + 1, j + 2)
        own, onward, label = (same(here, here),), (same(here, following),), f"round {j + 1}:"
        gather = (full("state", here),)
        layers += [
            LinearAttention((Head("x", "y", "x", "z", gather), Head("u", "x", "x", "u", gather)), f"{label} A b, D b"),
            LinearAttention(
                (Head("one", "x", "u", "c", own), Head("z", "one", "one", "x", onward)), f"{label} d, next"
            ),
            Tokenwise("recip_0", here, "c", f"{label} 1/d"),
            LinearAttention((Head("u", "c", "one", "y", own),), f"{label} w"),
        ]
        project = [
            Head("x", "y", "x", "x", (full(Span("slot", max(j - 1, 0), j + 1), following),), sign=-1),
            Head("one", "y", "x", "q", (full(here, following),)),
        ]
        if j:
            project.append(Head("one", "y", "x", "m", (full(Span("slot", j - 1, j), following),)))
        layers += [LinearAttention(tuple(project), f"{label} pass {p + 1}") for p in range(passes)]
    earlier, rest = (same(Span("slot", 0, h), "source"),), (same(Span("slot", 1, h + 1), "source"),)
    collect = [Head("x", "one", "one", "x", earlier), Head("c", "one", "one", "c", earlier)]
    collect.append(Head("q", "one", "one", "q", rest))
    if h > 1:
        collect.append(Head("m", "one", "one", "m", (same(Span("slot", 2, h + 1), Span("source", 0, h - 1)),)))
    return (
        *layers,
        LinearAttention(tuple(collect), "collect"),
        Release("slot", label="release slots"),
        Release("state", label="release states"),
        Release("source", gate="c", label="gate"),
        Forget(("x", "q", "m", "r", "one"), label="forget workspace"),
    )


def encoder_program(n: Size, h: int, passes: int = 1) -> Program:
    """Raw tokens to B, alpha and beta, in the fields x, q and m of the sources."""
    layers = statistics_layers() + encoder_layers(h, passes)
    return Program(f"Lanczos context, {h} rounds", lanczos_layout(n), KINDS, layers)


def executor_program(n: Size, depth: Size) -> Program:
    """`depth` steps on tokens (x; q; m; r; one) of width n + 4; n and depth may be symbols."""
    own = (same("source", "source"),)
    heads = (
        Head("r", "one", "one", "r", own, sign=-1),
        Head("r", "one", "one", "r", own, mixing=SHIFT.T),
        Head("r", "one", "q", "r", own),
        Head("r", "one", "m", "r", own, mixing=SHIFT),
        Head("r", "x", "x", "r", (full("source", "query"),), sign=-1),
    )
    return Program(
        "executor of the Lanczos context",
        Layout(x=n, q=1, m=1, r=1, one=1),
        ("source", "query"),
        (Repeat((LinearAttention(heads, "step"),), depth),),
    )


def read_context(tokens: Tokens, n: int, arithmetic: Arithmetic) -> Array | None:
    """[B; alpha'; beta'], shape (n + 2, k), beta' = (beta_2, .., beta_k, 0); None where k = 0."""
    if tokens.total("source") == 0:
        return None
    fields = (("x", n), ("q", 1), ("m", 1))
    return arithmetic.stack([[tokens.read("source", field, width, arithmetic)] for field, width in fields])


def exact_context(task: Task, depth: int) -> fmpq_mat | None:
    """[B; alpha'; beta'] in Q, shape (n + 2, k), from weighted projections by normal equations; None where k = 0."""
    K = krylov_basis(task, depth)
    if K is None:
        return None
    n, k = K.nrows(), K.ncols()
    visits = task.visits.tolist()
    D = fmpq_mat(n, n, [fmpq(visits[i] if i == j else 0) for i in range(n) for j in range(n)])
    columns = [RATIONALS.columns(K, j, j + 1) for j in range(k)]
    basis = columns[:1]
    for j in range(1, k):
        first = RATIONALS.stack([columns[:j]])
        dual = first.transpose() * D
        basis.append(columns[j] - first * (dual * first).solve(dual * columns[j]))
    B = RATIONALS.stack([basis])
    G = B.transpose() * D
    H = (G * B).solve(G * task.A * B)
    alpha = [H[j, j] for j in range(k)]
    beta = [H[j, j + 1] for j in range(k - 1)] + [fmpq(0)]
    return RATIONALS.stack([[B], [fmpq_mat(2, k, alpha + beta)]])


def context_tokens(context: Array | None, n: int, arithmetic: Arithmetic) -> Tokens:
    """Sources that hold a context [B; alpha'; beta'] and s_0 = e_1, and one query per state."""
    return kept_tokens(context, {"x": (0, n), "q": (n, n + 1), "m": (n + 1, n + 2)}, n, arithmetic)


def registers(tokens: Tokens, arithmetic: Arithmetic) -> int:
    """Array entries that stay in the sources, public ones not counted: the m of the last source is zero."""
    total = 0
    for (kind, field), block in tokens.blocks.items():
        if kind == "source" and field not in PUBLIC_FIELDS:
            rows, columns = arithmetic.shape(block)
            total += rows * (columns - (field == "m"))
    return total


def encoder(n: int, depth: int, *, passes: int = 1, rounds: int | None = None) -> Construction:
    """From the raw log to [B; alpha'; beta'], shape (n + 2, k); `rounds` replaces h = min(n, L).

    Raises:
        BadInput: a size that is not a positive int.
    """
    h = public_rounds(THEOREM, n, depth, passes, rounds)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return with_lanczos_banks(encode_log(task, arithmetic, n), h, arithmetic)

    def read(tokens: Tokens, arithmetic: Arithmetic) -> Array | None:
        return read_context(tokens, n, arithmetic)

    sizes, answer = {"n": n, "L": depth, "h": h, "passes": passes}, (("B", n), ("alpha'", 1), ("beta'", 1))
    program = encoder_program(n, h, passes)
    return krylov.context_builder(
        THEOREM, sizes, program, encode, read, exact_context, ASSUMPTIONS, answer, SOURCE, COUNT_REVERSIBLE
    )


def construction(n: int, depth: int, *, passes: int = 1, rounds: int | None = None) -> Construction:
    """From the raw log to v_0 .. v_L at every state, shape (L + 1, n).

    Raises:
        BadInput: a size that is not a positive int.
    """
    h = public_rounds(THEOREM, n, depth, passes, rounds)
    program = encoder_program(n, h, passes).then(executor_program(n, depth), f"encoder, {h} rounds, and executor")

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return with_lanczos_banks(encode_log(task, arithmetic, n), h, arithmetic, queries=n)

    sizes = {"n": n, "L": depth, "h": h, "passes": passes}
    return evaluator(THEOREM, sizes, program, encode, ASSUMPTIONS, SOURCE, task_class=COUNT_REVERSIBLE)


def from_context(n: int, depth: int) -> Construction:
    """The executor alone, on the exact context rounded once; its answer is v_0 .. v_L, shape (L + 1, n)."""
    krylov.check_build(THEOREM, n, depth, 1, 1)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        context = exact_context(task, depth)
        return context_tokens(None if context is None else arithmetic.matrix(context.tolist()), n, arithmetic)

    sizes = {"n": n, "L": depth}
    program = executor_program(n, depth)
    return evaluator(THEOREM, sizes, program, encode, EXECUTOR_ASSUMPTIONS, SOURCE, task_class=COUNT_REVERSIBLE)
