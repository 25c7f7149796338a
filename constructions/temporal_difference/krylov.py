"""td.krylov: stage 2 of the encoder, n state tokens to k source tokens (Thm 4.3, second stage).

Derivation. With h = min(n, L) rounds, slot j receives b_j, where b_1 = r and

    d_j = b_j' b_j,   w_j = recip_0(d_j) b_j,   b_{j+1} = A b_j - sum_{i<=j} b_i w_i' A b_j .

The b_j are orthogonal, the non-zero ones come first and span K_L(A, r) = span{r, A r, .., A^{L-1} r}, and W' B = I on
them. Compilation writes into a bank of source tokens

    B = [b_j],   Y = B - W + W H' = B + W (H - I)',  H = W' A B,   g0 = W' r,   eta_j = b_j' w_j in {0, 1};

tokens with eta_j = 0 are released, the fields x, y, r stay: Z_0 = [B; Y; g0'], shape (2n + 1, k). Heads used:

    A b_j       value e_i, key row i of A, query b_j, along state => slot j
    Gram-Schmidt: value b_i, key w_i, query b_{j+1}, sign -1, along slots <= j => j + 1, `passes` times
    (W H')_j    value w_i, key A b_i, query w_j, since sum_i w_i (A b_i)' w_j = W (W' A B)' e_j

A second pass changes nothing in exact arithmetic: W' b_{j+1} = 0 already. In the balanced variant w_j = b_j scaled to
norm one (primitive rsqrt_0), so B = W is orthonormal, B - W = 0, and exact arithmetic needs the rewrite t_j^2 d_j = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flint import fmpq_mat

from ..arithmetic import Arithmetic, Array
from ..construction import Construction, Steps, last
from ..errors import BadInput
from ..exact import RATIONALS
from ..layers import Forget, Head, Layer, LinearAttention, Release, Tokenwise, full, same
from ..layout import Size
from ..program import Program
from ..task import SUB_STOCHASTIC, Task, TaskClass
from ..tokens import Span, Tokens
from . import narrow as narrow_layout
from . import statistics
from .tokens import KINDS, encode_log, wide_layout

THEOREM = "td.krylov"
ASSUMPTIONS = (
    *statistics.ASSUMPTIONS,
    "token release by a gate that is zero or not",
    "the number of rounds min(n, L) is public",
)
BALANCED_ASSUMPTION = "declared primitive rsqrt_0(x) = x^(-1/2), and 0 at x = 0"


def arnoldi_round(j: int, last_round: bool, passes: int, balanced: bool) -> list[Layer]:
    """Round j (from 0): d_j, w_j, A b_j, the copies for compilation, and the start of slot j + 1, orthogonalised."""
    here, following, kept = Span("slot", j, j + 1), Span("slot", j + 1, j + 2), Span("source", j, j + 1)
    own, copy, onward = (same(here, here),), (same(here, kept),), (same(here, following),)
    label = f"round {j + 1}:"
    norm = Head("one", "x", "x", "c", own)
    start = [] if last_round else [Head("z", "one", "one", "x", onward)]
    if balanced:
        apply_A = Head("x", "y", "y", "z", (full("state", here),))
        layers: list[Layer] = [
            LinearAttention((norm,), f"{label} d"),
            Tokenwise("rsqrt_0", here, "c", f"{label} 1/sqrt d"),
            LinearAttention(
                (Head("x", "c", "one", "y", own), Head("x", "c", "one", "x", copy), Head("x", "c", "one", "z", copy)),
                f"{label} b = w",
            ),
            LinearAttention((apply_A,), f"{label} A b"),
        ]
        if start:
            layers.append(LinearAttention(tuple(start), f"{label} next"))
        value = "y"
    else:
        apply_A = Head("x", "y", "x", "z", (full("state", here),))
        layers = [
            LinearAttention((apply_A, norm), f"{label} A b, d"),
            Tokenwise("recip_0", here, "c", f"{label} 1/d"),
            LinearAttention(
                (
                    Head("x", "c", "one", "y", own),
                    Head("x", "one", "one", "x", copy),
                    Head("x", "c", "one", "z", copy),
                    *start,
                ),
                f"{label} w, next",
            ),
        ]
        value = "x"
    if not last_round:
        project = Head(value, "y", "x", "x", (full(Span("slot", 0, j + 1), following),), sign=-1)
        layers += [LinearAttention((project,), f"{label} pass {p + 1}") for p in range(passes)]
    return layers


def compile_layers(balanced: bool) -> list[Layer]:
    """Sources receive Y, g0 and the gate; everything that need not stay is released."""
    copy = (same("slot", "source"),)
    difference = [] if balanced else [Head("x", "one", "one", "y", copy), Head("y", "one", "one", "y", copy, sign=-1)]
    return [
        LinearAttention(
            (
                Head("y", "z", "z", "y", (full("slot", "source"),)),
                *difference,
                Head("r", "x", "z", "r", (full("state", "source"),)),
                Head("one", "x", "z", "c", (same("source", "source"),)),
            ),
            "compile",
        ),
        Release("slot", label="release slots"),
        Release("state", label="release states"),
        Release("source", gate="c", label="gate"),
        Forget(("x", "y", "r"), label="forget workspace"),
    ]


def krylov_layers(rounds: int, passes: int = 1, balanced: bool = False) -> tuple[Layer, ...]:
    """Stage 2: 2 + 2h + p(h - 1) attention layers for h rounds and p passes (balanced: 2h - 1 more)."""
    first = Head("x", "r", "one", "x", (full("state", Span("slot", 0, 1)),))
    layers: list[Layer] = [LinearAttention((first,), "b_1 = r")]
    for j in range(rounds):
        layers += arnoldi_round(j, j == rounds - 1, passes, balanced)
    return (*layers, *compile_layers(balanced))


def encoder_program(n: Size, rounds: int, passes: int = 1, balanced: bool = False) -> Program:
    """Stages 1 and 2: raw tokens to the context Z_0."""
    layers = statistics.statistics_layers() + krylov_layers(rounds, passes, balanced)
    return Program(f"context (N -> n -> k), {rounds} rounds", wide_layout(n), KINDS, layers)


def read_context(tokens: Tokens, n: int, arithmetic: Arithmetic) -> Array | None:
    """Z_0 = [B; Y; g0'], shape (2n + 1, k); None where k = 0."""
    if tokens.total("source") == 0:
        return None
    fields = (("x", n), ("y", n), ("r", 1))
    return arithmetic.stack([[tokens.read("source", field, width, arithmetic)] for field, width in fields])


def registers(tokens: Tokens, arithmetic: Arithmetic) -> int:
    """Array entries that stay in the sources (Def. 4.2): (2n + 1) k once the encoder has ended."""
    shapes = [arithmetic.shape(block) for (kind, _), block in tokens.blocks.items() if kind == "source"]
    return sum(rows * columns for rows, columns in shapes)


def exact_context(task: Any, depth: int) -> fmpq_mat | None:
    """Z_0 in Q from the definition, without attention and without recurrences; None where k = 0.

    b_{j+1} is A^j r minus its orthogonal projection on span{r, .., A^{j-1} r}, found by solving the normal equations
    (the monic basis is unique, and A b_j - A^j r lies in that span).

    Args:
        task: gives A, r and n; a `Task`, or another that is evaluated by v+ = r + A v.
        depth: L.
    """
    A, r, n = task.A, task.r, task.n
    powers = [r]
    basis: list[fmpq_mat] = []
    for _ in range(min(n, depth)):
        power = powers[-1]
        if basis:
            K = RATIONALS.stack([powers[:-1]])
            Kt = K.transpose()
            power = power - K * (Kt * K).solve(Kt * power)
        if all(x == 0 for x in power.entries()):
            break
        basis.append(power)
        powers.append(A * powers[-1])
    if not basis:
        return None
    k = len(basis)
    B = RATIONALS.stack([basis])
    norms = [(b.transpose() * b)[0, 0] for b in basis]
    W = fmpq_mat(n, k, [B[i, j] / norms[j] for i in range(n) for j in range(k)])
    identity = RATIONALS.one_hot(range(k), k)
    H = W.transpose() * A * B
    return RATIONALS.stack([[B], [B + W * (H - identity).transpose()], [(W.transpose() * r).transpose()]])


def decoded_values(context: Array | None, n: int, depth: int, arithmetic: Arithmetic) -> Array:
    """v_0, .., v_depth as rows, shape (depth + 1, n), from a context: v_l = B sum_{j<l} H^j g0 with H - I = (Y - B)' B.

    (Y - B)' B = (H - I) W' B = H - I.
    """
    rows = [arithmetic.matrix([[0] * n])]
    if context is None:
        return arithmetic.stack([rows] * 1) if depth == 0 else arithmetic.matrix([[0] * n] * (depth + 1))
    B, Y = arithmetic.rows(context, 0, n), arithmetic.rows(context, n, 2 * n)
    s = arithmetic.transpose(arithmetic.rows(context, 2 * n, 2 * n + 1))
    change = arithmetic.matmul(arithmetic.transpose(arithmetic.add(Y, arithmetic.negate(B))), B)
    for _ in range(depth):
        step = arithmetic.transpose(arithmetic.matmul(B, s))
        rows.append(arithmetic.add(rows[-1], step))
        s = arithmetic.add(s, arithmetic.matmul(change, s))
    return arithmetic.stack([[row] for row in rows])


def check_build(theorem: str, n: object, depth: object, rounds: object, passes: object) -> None:
    """Raise `BadInput` unless all are positive ints (depth may be 0 where rounds are given)."""
    statistics.check_states(theorem, n)
    for name, value in (("depth L", depth), ("number of rounds", rounds), ("number of passes", passes)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInput(f"{theorem}: expected a positive {name}, found {value!r}")


def construction(
    n: int, depth: int, *, passes: int = 1, balanced: bool = False, narrow: bool = False, rounds: int | None = None
) -> Construction:
    """The encoder for n states and depth L; `rounds` replaces h = min(n, L) where the exact k is known.

    Its answer is Z_0 itself, shape (2n + 1, k). `narrow` builds it on tokens of width 2n + 4 instead of 3n + 5.

    Raises:
        BadInput: a size that is not a positive int, or a narrow layout together with balancing.
    """
    h = min(n, depth) if rounds is None and isinstance(n, int) and isinstance(depth, int) else rounds
    check_build(THEOREM, n, depth, h, passes)
    assert h is not None
    if narrow and balanced:
        raise BadInput(f"{THEOREM}: expected the wide layout for the balanced variant, found the narrow one")
    program = narrow_layout.encoder_program(n, h, passes) if narrow else encoder_program(n, h, passes, balanced)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return encode_log(task, arithmetic, n, slots=h)

    def read(tokens: Tokens, arithmetic: Arithmetic) -> Array | None:
        return read_context(tokens, n, arithmetic)

    def exact(task: Task, depth: int) -> fmpq_mat | None:
        if balanced:
            raise BadInput(f"{THEOREM}: the balanced context has irrational entries; compare what it decodes to")
        return exact_context(task, depth)

    sizes = {"n": n, "L": depth, "h": h, "passes": passes}
    assumptions = ASSUMPTIONS + ((BALANCED_ASSUMPTION,) if balanced else ())
    answer = (("B", n), ("Y", n), ("g0'", 1))
    source = "Thm 4.3, encoder stage 2 (theory A2); the source's token is 13n + 11 wide"
    return context_builder(THEOREM, sizes, program, encode, read, exact, assumptions, answer, source)


def context_builder(
    theorem: str,
    sizes: Mapping[str, Size],
    program: Program,
    encode: Callable[[Any, Arithmetic], Tokens],
    read: Callable[[Tokens, Arithmetic], Array | None],
    exact: Callable[[Any, int], fmpq_mat | None],
    assumptions: tuple[str, ...],
    answer: tuple[tuple[str, int], ...],
    source: str,
    task_class: TaskClass = SUB_STOCHASTIC,
) -> Construction:
    """A construction that answers with the context it keeps (`read` off the last tokens), against `exact` in Q."""

    def decode(steps: Steps, arithmetic: Arithmetic) -> Array | None:
        return read(last(steps), arithmetic)

    def reference(task: Any, arithmetic: Arithmetic) -> Array | None:
        context = exact(task, sizes["L"])
        return None if context is None else arithmetic.matrix(context.tolist())

    return Construction(
        theorem=theorem,
        sizes=sizes,
        program=program,
        encode=encode,
        decode=decode,
        reference=reference,
        task_class=task_class,
        assumptions=assumptions,
        answer=answer,
        source=source,
    )
