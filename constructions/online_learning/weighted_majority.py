"""online.weighted-majority: the state is one context token, S = sum_i L_i u_i with L_i = log w_i (theory B1).

The u_i are any orthonormal rational vectors. Expert i's token holds u_i and its prediction p_i (one-hot), the label
token y, the context token S. Three heads make a round; e = log(1 - eps), and J is the matrix of ones:

    predict   softmax over <u_i, S>, value p_i:    O_k = W_k / W, plus a leak: below
    carry     the context's S to the label's S
    update    value u_i, score e <(J - I) p_i, y> = e [p_i != y]:    S' = S + e sum over the experts that erred of u_i

and a ReLU block clears label, flag and what the softmax head leaves in the label token, since its whole hidden vector
is the next context. Four realisations (this project's; the source's own matrices were not available):

* `one_block`: one layer E_1 .. E_n, C, Y. With only a causal mask the context token sees itself, which weighs
  d = exp(-B) under a public bias -B: O_k = W_k / (W + d).
* `two_layer`: C, E_1 .. E_n, Q, Y: the first layer carries S to a query token, which sees C and itself:
  W_k / (W + 2 d).
* `replica`: E_1 .. E_n, C, Y: a first layer makes C a copy of expert n, and a bias -log 2 halves both: W_k / W.
* `softmax_only`: one softmax and ReLU block. A head with equal scores averages the N = n + 2 tokens; N times the
  average is their sum, so it carries S and collects all predictions A = sum_i p_i (x) u_i; with a_i = <u_i, A>
  [p_i != y] = 1/2 sum_k (relu(a_ik - y_k) + relu(y_k - a_ik)).

W_k / (W + J d) has its largest entry where W_k has, and normalised it is W_k / W. As raw mass it is not exact, and as W
shrinks the leak J d / (W + J d) tends to one, for every finite bias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from ..arithmetic import Arithmetic, Array
from ..construction import Construction, Steps, last
from ..errors import BadInput
from ..layers import Head, Layer, LinearAttention, Public
from ..mlp import Map, Mlp, Units
from ..normalised_attention import Move, NormalisedHead, Score, SoftmaxAttention
from ..parallel import Parallel
from ..program import Program
from ..routes import causal_routes
from ..task import inside_unit_interval
from ..tokens import Tokens
from .expert_weights import Number, Weights
from .experts import EXPERTS, ExpertTask, one_hot_basis, orthonormal
from .rounds import Context, OnlineConstruction, Round, blank_context, hidden

THEOREM = "online.weighted-majority"
SOURCE = "weighted majority in one latent context; realisation by this project"
ASSUMPTIONS = (
    "masks are causal and depend on the places of the tokens only",
    "strict feedback: the next context token is the whole last hidden vector plus its type embedding",
    "the basis u_i is orthonormal",
)
ONES = Public("ones", lambda rows, columns: [[1] * columns] * rows)
KINDS = {
    "one_block": ("expert", "context", "label"),
    "two_layer": ("context", "expert", "query", "label"),
    "replica": ("expert", "context", "label"),
    "softmax_only": ("expert", "context", "label"),
}
"""The tokens of a round in order."""
FOREIGN = {"one_block": 1, "two_layer": 2, "replica": 0, "softmax_only": 1}
"""J: the keys besides the experts' that the predicting token sees."""
ASKS = {"one_block": "context", "two_layer": "query", "replica": "context", "softmax_only": "context"}
"""The token that predicts."""

PREDICT = Move("P", "O")
BY_STATE = Score("I", "S")


def _carry(kinds: tuple[str, ...], flag: str) -> Head:
    return Head("S", "tC", flag, "S", causal_routes(kinds))


def _update(weights: Weights, kinds: tuple[str, ...]) -> Head:
    return Head("I", "P", "Y", "S", causal_routes(kinds), weight=weights.penalty())


def _clear(weights: Weights, asks: str) -> tuple[Units, ...]:
    """1 + 2K units. O <= 1, so relu(O - 1) = 0 keeps the output where the flag of the predicting token is 1."""
    K = weights.outcomes
    return (
        Units(1, (Map("tY"),), (Map("tY", scale=-1),)),
        Units(K, (Map("Y"),), (Map("Y", scale=-1),)),
        Units(K, (Map("O"), Map(asks, ONES, -1)), (Map("O", scale=-1),)),
    )


def _one_block(weights: Weights) -> tuple[Layer, ...]:
    kinds = KINDS["one_block"]
    bias = Score("tC", "tC", weights.bias())
    predict = SoftmaxAttention((NormalisedHead((PREDICT,), (BY_STATE, bias), causal_routes(kinds)),))
    learn = LinearAttention((_carry(kinds, "tY"), _update(weights, kinds)))
    return (
        Parallel((predict, learn), "predict, learn"),
        Mlp(weights.layout("one_block"), _clear(weights, "tC"), "clear"),
    )


def _two_layer(weights: Weights) -> tuple[Layer, ...]:
    kinds = KINDS["two_layer"]
    biases = (Score("tC", "tQ", weights.bias()), Score("tQ", "tQ", weights.bias()))
    predict = SoftmaxAttention((NormalisedHead((PREDICT,), (BY_STATE, *biases), causal_routes(kinds)),))
    return (
        LinearAttention((_carry(kinds, "tQ"), _carry(kinds, "tY")), "carry"),
        Parallel((predict, LinearAttention((_update(weights, kinds),))), "predict, learn"),
        Mlp(weights.layout("two_layer"), _clear(weights, "tQ"), "clear"),
    )


def _replica(weights: Weights) -> tuple[Layer, ...]:
    kinds = KINDS["replica"]
    half = -sp.log(2)
    scores = (
        BY_STATE,
        Score("tC", "S", weights.last_name()),
        Score("I", "tC", weights.last_name("-log 2 u_n", half).T),
        Score("tC", "tC", Public("-log 2", lambda rows, columns: [[half]])),
    )
    predict = SoftmaxAttention((NormalisedHead((PREDICT,), scores, causal_routes(kinds)),))
    learn = LinearAttention((_carry(kinds, "tY"), _update(weights, kinds)))
    copy = Head("P", "I", "tC", "P", causal_routes(kinds), weight=weights.last_name().T)
    return (
        LinearAttention((copy,), "copy expert n"),
        Parallel((predict, learn), "predict, learn"),
        Mlp(weights.layout("replica"), _clear(weights, "tC"), "clear"),
    )


def _softmax_only(weights: Weights) -> tuple[Layer, ...]:
    kinds, n, K = KINDS["softmax_only"], weights.n, weights.outcomes
    routes = causal_routes(kinds)
    tokens = n + 2
    bias = Score("tC", "tC", weights.bias())
    heads = (
        NormalisedHead((PREDICT,), (BY_STATE, bias), routes),
        NormalisedHead((Move("S", "S", tokens), Move("A", "A", tokens)), (), routes),
    )
    names, repeat = weights.by_name(), weights.by_label()
    learn = (Map("S", weights.half_penalty()),)
    return (
        SoftmaxAttention(heads, "predict, pool"),
        Mlp(
            weights.layout("softmax_only"),
            (
                *_clear(weights, "tC"),
                Units(K * n, (Map("A", names), Map("Y", repeat, -1)), learn),
                Units(K * n, (Map("A", names, -1), Map("Y", repeat)), learn),
                Units(K * n, (Map("A", names),), (Map("A", names.T, -1),)),
            ),
            "learn, clear",
        ),
    )


VARIANTS: dict[str, Callable[[Weights], tuple[Layer, ...]]] = {
    "one_block": _one_block,
    "two_layer": _two_layer,
    "replica": _replica,
    "softmax_only": _softmax_only,
}


def program(variant: str, weights: Weights) -> Program:
    """The program of one round.

    Raises:
        BadInput: an unknown variant.
    """
    if variant not in VARIANTS:
        raise BadInput(f"{THEOREM}: expected one of {', '.join(VARIANTS)}, found {variant}")
    return Program(f"weighted majority, {variant}", weights.layout(variant), KINDS[variant], VARIANTS[variant](weights))


def round_tokens(
    variant: str,
    weights: Weights,
    P: Sequence[Sequence[Any]],
    y: Sequence[Any],
    context: Context,
    arithmetic: Arithmetic,
) -> Tokens:
    """The tokens of a round: P of shape (K, n), column i the prediction of expert i; y of length K."""
    n = weights.n
    one = arithmetic.matrix([[1]])
    expert = {"I": arithmetic.matrix(weights.columns), "P": arithmetic.matrix(P)}
    if variant == "softmax_only":
        expert["A"] = arithmetic.matrix(
            [[P[k][i] * row[i] for i in range(n)] for k in range(weights.outcomes) for row in weights.columns]
        )
    label = {"Y": arithmetic.matrix([[x] for x in y]), "tY": one}
    parts = {"expert": (n, expert), "context": (1, context), "query": (1, {"tQ": one}), "label": (1, label)}
    tokens = Tokens({}, {})
    for kind in KINDS[variant]:
        count, fields = parts[kind]
        tokens = tokens.with_kind(kind, count, **fields)
    return tokens


def initial_context(variant: str, weights: Weights, logs: Array, arithmetic: Arithmetic) -> Context:
    """The context token of the log weights, shape (n, 1)."""
    S = arithmetic.matmul(arithmetic.matrix(weights.columns), logs)
    return blank_context(weights.layout(variant), 1, arithmetic, S=S, tC=arithmetic.matrix([[1]]))


def read_round(variant: str, weights: Weights) -> Callable[[Steps, Arithmetic], Array]:
    """The answer of a round: S', O, O over its sum, and the rest of the last hidden vector."""

    def decode(steps: Steps, arithmetic: Arithmetic) -> Array:
        tokens = last(steps)
        after = hidden(tokens, "label", weights.layout(variant), arithmetic)
        O = tokens.read(ASKS[variant], "O", weights.outcomes, arithmetic)
        rest = [[block] for field, block in after.items() if field != "S"]
        return arithmetic.stack([[after["S"]], [O], [normalised(O, arithmetic)], *rest])

    return decode


def normalised(O: Array, arithmetic: Arithmetic) -> Array:
    """A column over its sum."""
    ones = arithmetic.matrix([[1] * arithmetic.shape(O)[0]])
    return arithmetic.matmul(O, arithmetic.recip_0(arithmetic.matmul(ones, O)))


def decisions(built: Construction, answer: Array, arithmetic: Arithmetic) -> list[int]:
    """The label of largest output in each round, the smallest of several.

    Raises:
        Unsupported: the arithmetic cannot decide which is largest.
    """
    start = first_row(built, "output")
    K = built.sizes["K"]
    O = arithmetic.rows(answer, start, start + K)
    rounds = arithmetic.shape(O)[1]
    largest = arithmetic.hardmax(O, np.ones((K, rounds), dtype=bool))
    columns = [arithmetic.transpose(arithmetic.columns(largest, t, t + 1)) for t in range(rounds)]
    return [arithmetic.nonzero(column).index(True) for column in columns]


def first_row(built: Construction, block: str) -> int:
    """The first row of a block of the answer."""
    names = [name for name, _ in built.answer]
    return sum(height for _, height in built.answer[: names.index(block)])


def answer_blocks(variant: str, weights: Weights) -> tuple[tuple[str, int], ...]:
    """The rows of an answer by name; the fields other than S are those that have to be clean."""
    widths = weights.layout(variant).widths
    K = weights.outcomes
    rest = tuple((f"clean {field}", width) for field, width in widths.items() if field != "S")
    return (("state", weights.width), ("output", K), ("normalised", K), *rest)


@dataclass(frozen=True)
class Advice:
    """What a round of a task says: P of shape (K, n), y of length K, and the factor of each weight after it."""

    said: Callable[[Any, int], list[list[Any]]]
    told: Callable[[Any, int], list[Any]]
    factors: Callable[[Any, int], list[Any]]


def majority_advice(factor: Number) -> Advice:
    """One-hot predictions and labels; those who err shrink by q."""
    return Advice(
        lambda task, t: one_hot(task.predictions[t], task.outcomes),
        lambda task, t: [int(k == task.labels[t]) for k in range(task.outcomes)],
        lambda task, t: [factor if erred else 1 for erred in task.wrong(t)],
    )


def reference(variant: str, weights: Weights, advice: Advice) -> Callable[[Any, Arithmetic], Array]:
    """The algorithm on the weights themselves, in the rows of the answer."""

    def run(task: Any, arithmetic: Arithmetic) -> Array:
        U = arithmetic.matrix(weights.columns)
        w = arithmetic.matrix([[x] for x in task.weights])
        heights = answer_blocks(variant, weights)[3:]
        zeros = arithmetic.matrix([[0]] * sum(height for _, height in heights))
        columns = []
        for t in range(task.rounds):
            O = expected_output(variant, weights, advice.said(task, t), w, arithmetic)
            w = arithmetic.hadamard(w, arithmetic.matrix([[x] for x in advice.factors(task, t)]))
            S = arithmetic.matmul(U, arithmetic.log(w))
            columns.append(arithmetic.stack([[S], [O], [normalised(O, arithmetic)], [zeros]]))
        return columns[0] if len(columns) == 1 else arithmetic.stack([columns])

    return run


def expected_output(
    variant: str, weights: Weights, P: Sequence[Sequence[Any]], w: Array, arithmetic: Arithmetic
) -> Array:
    """O_k = W_k / (W + J d), shape (K, 1)."""
    total = arithmetic.matmul(arithmetic.matrix([[1] * weights.n]), w)
    leak = arithmetic.matrix([[FOREIGN[variant] * weights.leak]])
    return arithmetic.matmul(
        arithmetic.matmul(arithmetic.matrix(P), w), arithmetic.recip_0(arithmetic.add(total, leak))
    )


def one_hot(labels: Sequence[int], outcomes: int) -> list[list[int]]:
    """Shape (K, number of labels)."""
    return [[int(x == k) for x in labels] for k in range(outcomes)]


def construction(
    variant: str,
    n: int,
    outcomes: int,
    eps: Fraction,
    *,
    leak: Fraction = Fraction(1, 16),
    basis: Sequence[Sequence[Any]] | None = None,
) -> OnlineConstruction:
    """One of the four realisations; its answer has a column a round.

    Args:
        variant: one_block, two_layer, replica or softmax_only.
        n: number of experts.
        outcomes: K.
        eps: penalty of a mistake.
        leak: d = exp(-B), the weight of a foreign key; replica has none.
        basis: n orthonormal vectors; the unit vectors where None.

    Raises:
        BadInput: an unknown variant, fewer than one expert or label, eps outside (0, 1), a leak that is not positive,
            or a basis that is not orthonormal.
    """
    vectors = one_hot_basis(n) if basis is None else orthonormal(basis)
    if len(vectors) != n:
        raise BadInput(f"{THEOREM}: expected a basis of {n} vectors, found {len(vectors)}")
    if outcomes < 1 or leak <= 0:
        raise BadInput(f"{THEOREM}: expected at least one label and a positive leak, found {outcomes} and {leak}")
    weights = Weights(n, len(vectors[0]), outcomes, 1 - inside_unit_interval("eps", eps), leak, vectors)

    def check(task: ExpertTask) -> None:
        if (task.n, task.outcomes, task.eps) != (n, outcomes, 1 - weights.factor):
            expected = f"n = {n}, K = {outcomes}, eps = {1 - weights.factor}"
            raise BadInput(
                f"{THEOREM}: expected a task with {expected}, found n = {task.n}, K = {task.outcomes}, eps = {task.eps}"
            )

    described = {"theorem": THEOREM, "task_class": EXPERTS, "assumptions": ASSUMPTIONS, "source": SOURCE}
    return online(variant, weights, majority_advice(weights.factor), check, **described)


def online(
    variant: str, weights: Weights, advice: Advice, check: Callable[[Any], None], **described: Any
) -> OnlineConstruction:
    """The construction for tasks with this advice; `check` refuses a task of other sizes or constants."""

    def begin(task: Any, arithmetic: Arithmetic) -> Context:
        check(task)
        logs = arithmetic.log(arithmetic.matrix([[x] for x in task.weights]))
        return initial_context(variant, weights, logs, arithmetic)

    def enter(task: Any, t: int, context: Context, arithmetic: Arithmetic) -> Tokens:
        return round_tokens(variant, weights, advice.said(task, t), advice.told(task, t), context, arithmetic)

    return OnlineConstruction(
        sizes={"n": weights.n, "K": weights.outcomes, "d": weights.width},
        program=program(variant, weights),
        encode=lambda task, arithmetic: enter(task, 0, begin(task, arithmetic), arithmetic),
        decode=read_round(variant, weights),
        reference=reference(variant, weights, advice),
        answer=answer_blocks(variant, weights),
        round=Round(begin, enter, "label", "tC", lambda task: task.rounds),
        **described,
    )
