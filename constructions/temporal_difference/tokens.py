"""The token of the temporal-difference encoder, in the wide layout without overwrites, and how a log enters it.

Fields are shared between kinds:

    field   raw       state            slot           source          query
    x       e_S       e_i              b_j            b_j             e_q
    y       e_S'      row i of A       w_j            Y_j             0
    z       -         N_i. (counts)    A b_j          w_j             -
    r       R         r_i              -              s_j             c
    q       -         sum of R         -              -               -
    c       -         1 / N_i          1 / d_j        gate eta_j      -
    one     1         1                1              1               -
    gam     -         g                -              -               -

No field of a token is written twice with cancellation, so floats lose nothing to "new - old". Width 3n + 5 (source:
13n + 11).
"""

from __future__ import annotations

from ..arithmetic import Arithmetic
from ..errors import BadInput
from ..layout import Layout, Size
from ..task import Task
from ..tokens import Tokens

KINDS = ("raw", "state", "slot", "source", "query")


def wide_layout(n: Size) -> Layout:
    """The wide layout, width 3n + 5."""
    return Layout(x=n, y=n, z=n, r=1, q=1, c=1, one=1, gam=1)


def encode_log(task: Task, arithmetic: Arithmetic, n: int, slots: int = 0, queries: bool = False) -> Tokens:
    """Raw tokens of a log, blank state tokens, and where asked blank slots and sources and one query per state.

    Raises:
        BadInput: the task has another number of states than the construction.
    """
    if task.n != n:
        raise BadInput(f"{task.name}: expected {n} states, as the construction was built for, found {task.n}")
    ones = [[1] * task.transitions]
    successors = [-1 if done else int(s) for s, done in zip(task.successors, task.terminal, strict=True)]
    every = range(n)
    tokens = Tokens({}, {})
    tokens = tokens.with_kind(
        "raw",
        task.transitions,
        x=arithmetic.one_hot(task.states.tolist(), n),
        y=arithmetic.one_hot(successors, n),
        r=arithmetic.matrix([task.exact_rewards]),
        one=arithmetic.matrix(ones),
    )
    tokens = tokens.with_kind(
        "state",
        n,
        x=arithmetic.one_hot(every, n),
        one=arithmetic.matrix([[1] * n]),
        gam=arithmetic.matrix([[task.discount] * n]),
    )
    if slots:
        for kind in ("slot", "source"):
            tokens = tokens.with_kind(kind, slots, one=arithmetic.matrix([[1] * slots]))
    if queries:
        tokens = tokens.with_kind("query", n, x=arithmetic.one_hot(every, n))
    return tokens
