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

from ..arithmetic import Arithmetic, Array, Exact
from ..errors import BadInput
from ..layout import Layout, Size
from ..task import Task
from ..tokens import Tokens

KINDS = ("raw", "state", "slot", "source", "query")


def wide_layout(n: Size) -> Layout:
    """The wide layout, width 3n + 5."""
    return Layout(x=n, y=n, z=n, r=1, q=1, c=1, one=1, gam=1)


def raw_blocks(task: Task, arithmetic: Arithmetic, start: int = 0, stop: int | None = None) -> dict[str, Array]:
    """The fields of the raw tokens of transitions start..stop of a log (all of them by default)."""
    chosen = slice(start, stop)
    states, terminal = task.states[chosen].tolist(), task.terminal[chosen].tolist()
    successors = [-1 if done else int(s) for s, done in zip(task.successors[chosen], terminal, strict=True)]
    return {
        "x": arithmetic.one_hot(states, task.n),
        "y": arithmetic.one_hot(successors, task.n),
        "r": arithmetic.matrix([task.exact_rewards[chosen]]),
        "one": arithmetic.matrix([[1] * len(states)]),
    }


def with_states(tokens: Tokens, n: int, arithmetic: Arithmetic, slots: int = 0, **public: Exact) -> Tokens:
    """The tokens with n blank state tokens that hold e_i, 1 and the public constants named; blank slots and sources."""
    constants = {field: arithmetic.matrix([[value] * n]) for field, value in {"one": 1, **public}.items()}
    tokens = tokens.with_kind("state", n, x=arithmetic.one_hot(range(n), n), **constants)
    if slots:
        for kind in ("slot", "source"):
            tokens = tokens.with_kind(kind, slots, one=arithmetic.matrix([[1] * slots]))
    return tokens


def encode_log(task: Task, arithmetic: Arithmetic, n: int, slots: int = 0, queries: bool = False) -> Tokens:
    """Raw tokens of a log, blank state tokens, and where asked blank slots and sources and one query per state.

    Raises:
        BadInput: the task has another number of states than the construction.
    """
    if task.n != n:
        raise BadInput(f"{task.name}: expected {n} states, as the construction was built for, found {task.n}")
    tokens = Tokens({}, {}).with_kind("raw", task.transitions, **raw_blocks(task, arithmetic))
    tokens = with_states(tokens, n, arithmetic, slots, gam=task.discount)
    return tokens.with_kind("query", n, x=arithmetic.one_hot(range(n), n)) if queries else tokens
