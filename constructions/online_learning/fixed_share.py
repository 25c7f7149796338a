"""online.fixed-share: tracking the best expert, in the weight domain (theory B3).

After a round v_i = w_i (1 - eps [p_i != y]), and all share: w_i <- (1 - a) v_i + (a / n) sum_j v_j. That is not
linear in log w, so the context holds the weights themselves, S = sum_i w_i u_i, and linear heads suffice. With the
tokens C, E_1 .. E_n, Q, Y and s = sum_i u_i in the label token:

    read      g = <S, u_i> = w_i in expert i's token, and <S, s> = W in the label token
    predict   O = sum_i g_i p_i = W_k at the query token; V = g_i u_i in expert i's own token
    learn     label token: S <- S - eps sum_i [p_i != y] V_i, and the same for its g: sum_j v_j
    share     in the label token itself: S <- S - a S + (a / n) g s

and a ReLU block clears label, flag, s and g. Everything is rational, and there is no leak.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ..arithmetic import Arithmetic, Array
from ..construction import Steps, last
from ..errors import BadInput
from ..layers import Head, LinearAttention, Public, fixed, same
from ..layout import Layout, Size
from ..mlp import Map, Mlp, Units
from ..program import Program
from ..routes import causal_routes
from ..task import inside_unit_interval
from ..tokens import Tokens
from .expert_weights import Number
from .experts import EXPERTS, Basis, ExpertTask, one_hot_basis, orthonormal
from .rounds import Context, OnlineConstruction, Round, blank_context, hidden
from .weighted_majority import normalised, one_hot

THEOREM = "online.fixed-share"
SOURCE = "Fixed-Share in one latent context; this project"
KINDS = ("context", "expert", "query", "label")
ASSUMPTIONS = (
    "masks are causal, or from a token to itself, and depend on the places of the tokens only",
    "strict feedback: the next context token is the whole last hidden vector plus its type embedding",
    "the basis u_i is orthonormal; n and the share a are public",
)


def layout(d: Size, outcomes: Size) -> Layout:
    """S state, I name, P prediction, Y label, O output, V weighted name, g weight, flags."""
    return Layout(S=d, I=d, P=outcomes, Y=outcomes, O=outcomes, V=d, g=1, tC=1, tE=1, tQ=1, tY=1)


def program(n: Size, d: Size, outcomes: Size, eps: Number, share: Number) -> Program:
    """The program of one round, four attention layers and a ReLU block; sizes and constants may be symbols."""
    every, token = causal_routes(KINDS), layout(d, outcomes)
    penalty = Public(
        "-eps(J-I)", lambda rows, columns: [[-eps * int(i != j) for j in range(columns)] for i in range(rows)]
    )
    own = (same("label", "label"),)
    return Program(
        "fixed share",
        token,
        KINDS,
        (
            LinearAttention((Head("tC", "S", "I", "g", every),), "read"),
            LinearAttention(
                (Head("P", "g", "tQ", "O", every), Head("I", "g", "tE", "V", (same("expert", "expert"),))), "predict"
            ),
            LinearAttention(
                (
                    Head("S", "tC", "tY", "S", every),
                    Head("V", "P", "Y", "S", every, weight=penalty),
                    Head("g", "P", "Y", "g", every, weight=penalty),
                ),
                "learn",
            ),
            LinearAttention(
                (
                    Head("S", "tY", "tY", "S", own, weight=fixed("-a", [[-share]])),
                    Head("I", "g", "tY", "S", own, weight=fixed("a/n", [[share / n]])),
                ),
                "share",
            ),
            Mlp(
                token,
                (
                    Units(1, (Map("tY"),), (Map("tY", scale=-1),)),
                    Units(outcomes, (Map("Y"),), (Map("Y", scale=-1),)),
                    Units(1, (Map("g"),), (Map("g", scale=-1),)),
                    Units(d, (Map("I"),), (Map("I", scale=-1),)),
                    Units(d, (Map("I", scale=-1),), (Map("I"),)),
                ),
                "clear",
            ),
        ),
    )


def construction(
    n: int,
    outcomes: int,
    eps: Fraction,
    share: Fraction,
    *,
    basis: Sequence[Sequence[Any]] | None = None,
) -> OnlineConstruction:
    """Fixed-Share for n experts and K labels; its answer has a column a round.

    Raises:
        BadInput: eps or the share a outside (0, 1), no expert, or a basis that is not orthonormal or not of n vectors.
    """
    vectors: Basis = one_hot_basis(n) if basis is None else orthonormal(basis)
    if len(vectors) != n or outcomes < 1:
        found = f"{len(vectors)} and {outcomes}"
        raise BadInput(f"{THEOREM}: expected {n} basis vectors and at least one label, found {found}")
    d, penalty, a = len(vectors[0]), inside_unit_interval("eps", eps), inside_unit_interval("share", share)
    token = layout(d, outcomes)
    columns = [list(row) for row in zip(*vectors, strict=True)]
    rest = [(f"clean {field}", width) for field, width in token.widths.items() if field != "S"]

    def begin(task: ExpertTask, arithmetic: Arithmetic) -> Context:
        if (task.n, task.outcomes, task.eps) != (n, outcomes, penalty):
            found = f"n = {task.n}, K = {task.outcomes}, eps = {task.eps}"
            raise BadInput(f"{THEOREM}: expected n = {n}, K = {outcomes}, eps = {penalty}, found {found}")
        S = arithmetic.matmul(arithmetic.matrix(columns), arithmetic.matrix([[x] for x in task.weights]))
        return blank_context(token, 1, arithmetic, S=S, tC=arithmetic.matrix([[1]]))

    def enter(task: ExpertTask, t: int, context: Context, arithmetic: Arithmetic) -> Tokens:
        names, total = arithmetic.matrix(columns), arithmetic.matrix([[sum(row)] for row in columns])
        P, y = one_hot(task.predictions[t], outcomes), one_hot([task.labels[t]], outcomes)
        one = arithmetic.matrix([[1]])
        tokens = Tokens({}, {}).with_kind("context", 1, **context)
        tokens = tokens.with_kind("expert", n, I=names, P=arithmetic.matrix(P), tE=arithmetic.matrix([[1] * n]))
        return tokens.with_kind("query", 1, tQ=one).with_kind("label", 1, Y=arithmetic.matrix(y), I=total, tY=one)

    def decode(steps: Steps, arithmetic: Arithmetic) -> Array:
        tokens = last(steps)
        after = hidden(tokens, "label", token, arithmetic)
        O = tokens.read("query", "O", outcomes, arithmetic)
        cleared = [[block] for field, block in after.items() if field != "S"]
        return arithmetic.stack([[after["S"]], [O], [normalised(O, arithmetic)], *cleared])

    def reference(task: ExpertTask, arithmetic: Arithmetic) -> Array:
        w, answers = list(task.weights), []
        for t in range(task.rounds):
            masses = [
                sum((x for x, p in zip(w, task.predictions[t], strict=True) if p == k), Fraction(0))
                for k in range(outcomes)
            ]
            lost = [x * (1 - penalty) if erred else x for x, erred in zip(w, task.wrong(t), strict=True)]
            state = [(1 - a) * x + a * sum(lost, Fraction(0)) / n for x in lost]
            S = [sum((x * y for x, y in zip(row, state, strict=True)), Fraction(0)) for row in columns]
            shares = [x / sum(w, Fraction(0)) for x in masses]
            answers.append([*S, *masses, *shares, *[0] * sum(height for _, height in rest)])
            w = state
        return arithmetic.matrix([list(row) for row in zip(*answers, strict=True)])

    return OnlineConstruction(
        THEOREM,
        {"n": n, "K": outcomes, "d": d},
        program(n, d, outcomes, penalty, a),
        lambda task, arithmetic: enter(task, 0, begin(task, arithmetic), arithmetic),
        decode,
        reference,
        EXPERTS,
        ASSUMPTIONS,
        (("state", d), ("output", outcomes), ("normalised", outcomes), *rest),
        SOURCE,
        round=Round(begin, enter, "label", "tC", lambda task: task.rounds),
    )
