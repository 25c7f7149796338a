"""td.executor: one linear-attention layer, repeated, reads every TD iterate out of the context (Thm 4.3, upper half).

Derivation. Zbar has source columns (b_i; y_i; s_i) and query columns (e_q; 0; c). The layer is

    Zbar+ = Zbar + P_TD Zbar M_k (Zbar' Q_TD Zbar),   P_TD = diag(0_2n, 1),   Q_TD = [-I I 0; 0 0 0; 0 0 0],

with M_k = diag(I_k, 0): queries are never sources. Only the last row moves. For a source, s+' = s' + s' B'(Y - B) =
s' + s' B' W (H - I)' = s' H' by W' B = I, that is s+ = H s; for a query, c+ = c - s' B' e_q. From s_0 = g0 and c_0 = 0:
s_l = H^l g0 and -c_l = e_q' B sum_{j<l} H^j g0 = e_q' sum_{j<l} A^j r = v_l(q), by A^j r = B H^j g0 for j < L.
(A B = B H would give the last step, but it fails when L < k_n.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..arithmetic import Arithmetic, Array
from ..construction import Construction, Reading, Steps
from ..errors import BadInput
from ..layers import Head, LinearAttention, Repeat, full
from ..layout import Layout, Size
from ..program import Program
from ..task import SUB_STOCHASTIC, Task, TaskClass
from ..tokens import Tokens
from . import krylov
from .tokens import encode_log

THEOREM = "td.executor"
SOURCE = "Thm 4.3, upper half (theory A3)"
ASSUMPTIONS = (
    "routes depend on token kinds and public indices only",
    "the number of sources k is the number of tokens kept",
)


def executor_program(n: Size, depth: Size) -> Program:
    """`depth` steps of the executor on tokens (x; y; r) of width 2n + 1; n and depth may be symbols."""
    routes = (full("source", "source"), full("source", "query"))
    step = LinearAttention((Head("r", "x", "x", "r", routes, sign=-1), Head("r", "x", "y", "r", routes)), "step")
    return Program("executor (P_TD, Q_TD, M_k)", Layout(x=n, y=n, r=1), ("source", "query"), (Repeat((step,), depth),))


VALUES = Reading("step", "query", "r", sign=-1)
"""v_0, .., v_L at the queries: minus the last coordinate, after each step."""


def td_values(task: Task, depth: int, arithmetic: Arithmetic) -> Array:
    """v_0 = 0, v_{l+1} = r + A v_l by direct iteration; rows v_0, .., v_depth, shape (depth + 1, n)."""
    A, r = arithmetic.matrix(task.A.tolist()), arithmetic.matrix(task.r.tolist())
    v = arithmetic.matrix([[0]] * task.n)
    rows = [v]
    for _ in range(depth):
        v = arithmetic.add(r, arithmetic.matmul(A, v))
        rows.append(v)
    return arithmetic.stack([[arithmetic.transpose(row)] for row in rows])


def context_tokens(context: Array | None, n: int, arithmetic: Arithmetic) -> Tokens:
    """Source tokens that hold a context Z_0, shape (2n + 1, k), and one query per state."""
    query = {"x": arithmetic.one_hot(range(n), n)}
    if context is None:
        return Tokens({"source": 0}, {}).with_kind("query", n, **query)
    cuts = {"x": (0, n), "y": (n, 2 * n), "r": (2 * n, 2 * n + 1)}
    blocks = {field: arithmetic.rows(context, *cut) for field, cut in cuts.items()}
    return Tokens({}, {}).with_kind("source", arithmetic.shape(context)[1], **blocks).with_kind("query", n, **query)


def from_context(n: int, depth: int) -> Construction:
    """The executor alone, on the exact context rounded once; its answer is v_0 .. v_L, shape (L + 1, n)."""
    krylov.check_build(THEOREM, n, depth, 1, 1)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        context = krylov.exact_context(task, depth)
        return context_tokens(None if context is None else arithmetic.matrix(context.tolist()), n, arithmetic)

    sizes = {"n": n, "L": depth}
    return evaluator(THEOREM, sizes, executor_program(n, depth), encode, ASSUMPTIONS, f"{SOURCE}: executor alone")


def construction(
    n: int, depth: int, *, passes: int = 1, balanced: bool = False, narrow: bool = False, rounds: int | None = None
) -> Construction:
    """Encoder and executor together: from the raw log to v_0 .. v_L at every state, shape (L + 1, n).

    Raises:
        BadInput: a size that is not a positive int.
    """
    encoder = krylov.construction(n, depth, passes=passes, balanced=balanced, narrow=narrow, rounds=rounds)
    h = encoder.sizes["h"]
    program = encoder.program.then(executor_program(n, depth), f"encoder and executor, {h} rounds, depth {depth}")

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return encode_log(task, arithmetic, n, slots=h, queries=True)

    assumptions = encoder.assumptions + ASSUMPTIONS[1:]
    return evaluator(THEOREM, encoder.sizes, program, encode, assumptions, f"{SOURCE}: encoder and executor")


def evaluator(
    theorem: str,
    sizes: Mapping[str, Size],
    program: Program,
    encode: Callable[[Task, Arithmetic], Tokens],
    assumptions: tuple[str, ...],
    source: str,
    *,
    task_class: TaskClass = SUB_STOCHASTIC,
    reference: Callable[[Task, Arithmetic], Array] | None = None,
) -> Construction:
    """A construction that answers with values at every state and depth l <= L, shape (L + 1, n), against TD by default.

    The executor's layers are labelled "step"; minus the last coordinate of the queries is read after each.
    """
    n, depth = sizes["n"], sizes["L"]

    def decode(steps: Steps, arithmetic: Arithmetic) -> Array:
        return VALUES.rows(steps, n, arithmetic)

    def expected(task: Task, arithmetic: Arithmetic) -> Array:
        if task.n != n:
            raise BadInput(f"{task.name}: expected {n} states, as the construction was built for, found {task.n}")
        return td_values(task, depth, arithmetic) if reference is None else reference(task, arithmetic)

    return Construction(
        theorem=theorem,
        sizes=sizes,
        program=program,
        encode=encode,
        decode=decode,
        reference=expected,
        task_class=task_class,
        assumptions=assumptions,
        answer=(("v at depth", depth + 1),),
        source=source,
        reads=VALUES,
        algorithm="td" if reference is None else "",
    )
