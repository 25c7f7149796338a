"""td.learnability: the executor's layer with free weights C and W, and the loss that calibrates one step (Thm 4.8).

The executor has Q_TD = [-I I 0; ..]. Free, its scores are <x_j, C x_i> + <W x_j, y_i>, that is

    Q_eff(C, W) = [C W' 0; 0 0 0; 0 0 0],   and (C, W) = (-I, I) is the executor itself (theory A7).

On the n state tokens of stage 1 (x = e_i, y = row i of A) a layer turns the last row s' of the sources and c of a query
into

    s+ = F s,   F(C, W) = I + C' + A W,          c+ = c + e_q' C' s .

With s = u the layer should answer -(c+ - c) = u and move on to A u. The calibrated loss asks for both, E[u u'] = I:

    J(C, W) = 1/2 E[ |-C'u - u|^2 + |F u - A u|^2 ] = 1/2 (|X|^2 + E|X + A V|^2),   X = C' + I,  V = W - I,

in Frobenius norms: a quadratic form in [X; V] with Hessian [[2I, EA], [EA', E A'A]] (x) I.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..arithmetic import Arithmetic, Array, Exact
from ..construction import Construction
from ..errors import BadInput
from ..layers import Head, LinearAttention, Public, Repeat, full
from ..layout import Layout, Size
from ..program import Program
from ..task import Task
from ..tokens import Tokens
from . import executor, krylov

THEOREM = "td.learnability"
SOURCE = "Ass. 4.7, Thm 4.8 (theory A7)"
ASSUMPTIONS = (
    executor.ASSUMPTIONS[0],
    "the sources are the n state tokens of stage 1: x = e_i, y = row i of A",
)
ROUTES = (full("source", "source"), full("source", "query"))


def free_layer(C: Public, W: Public) -> LinearAttention:
    """The executor's two heads with weights C (on x, x) and W (on x, y) in their scores."""
    heads = Head("r", "x", "x", "r", ROUTES, weight=C.T), Head("r", "x", "y", "r", ROUTES, weight=W)
    return LinearAttention(heads, "step")


def free_program(n: Size, depth: Size, C: Public, W: Public) -> Program:
    """`depth` steps with free weights on tokens (x; y; r) of width 2n + 1."""
    return Program(
        "executor with free weights Q_eff(C, W)",
        Layout(x=n, y=n, r=1),
        ("source", "query"),
        (Repeat((free_layer(C, W),), depth),),
    )


def multiple(name: str, factor: Exact) -> Public:
    """factor times the identity."""
    return Public(name, lambda rows, columns: [[factor if i == j else 0 for j in range(columns)] for i in range(rows)])


def state_tokens(A: Array, u: Array, arithmetic: Arithmetic) -> Tokens:
    """The n state tokens with s = u (shape (n, 1)) in the last row, and one query per state with c = 0."""
    n = arithmetic.shape(A)[0]
    unit = arithmetic.one_hot(range(n), n)
    sources = {"x": unit, "y": arithmetic.transpose(A), "r": arithmetic.transpose(u)}
    return Tokens({}, {}).with_kind("source", n, **sources).with_kind("query", n, x=unit)


def residuals(program: Program, A: Array, u: Array, arithmetic: Arithmetic) -> Array:
    """[-c+ - u; s+ - A u] of a program of one step, shape (2n, 1): what J squares and sums."""
    after = program.run(state_tokens(A, u, arithmetic), arithmetic)
    answer, moved = (arithmetic.transpose(after.read(kind, "r", 1, arithmetic)) for kind in ("query", "source"))
    wanted = arithmetic.matmul(A, u)
    return arithmetic.stack(
        [
            [arithmetic.negate(arithmetic.add(answer, u))],
            [arithmetic.add(moved, arithmetic.negate(wanted))],
        ]
    )


def construction(n: int, depth: int, *, C: Public | None = None, W: Public | None = None) -> Construction:
    """The executor with free weights on the state tokens, (-I, I) if not given; v_0 .. v_L, shape (L + 1, n).

    Raises:
        BadInput: a size that is not a positive int.
    """
    krylov.check_build(THEOREM, n, depth, 1, 1)
    program = free_program(n, depth, C or multiple("C", -1), W or multiple("W", 1))

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return state_tokens(arithmetic.matrix(task.A.tolist()), arithmetic.matrix(task.r.tolist()), arithmetic)

    return executor.evaluator(THEOREM, {"n": n, "L": depth}, program, encode, ASSUMPTIONS, SOURCE)


def same_states(theorem: str, tasks: Sequence[Task]) -> int:
    """The number of states that all tasks of a sample have.

    Raises:
        BadInput: no task, or different numbers.
    """
    sizes = sorted({task.n for task in tasks})
    if len(sizes) != 1:
        raise BadInput(f"{theorem}: expected tasks with one number of states, found {sizes or 'no task'}")
    return sizes[0]
