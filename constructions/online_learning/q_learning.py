"""Tabular Q-learning with the whole table in |A| context tokens, in five realisations (theory B2).

Context token C_a holds row_a = sum_s Q(s, a) u_s over an orthonormal basis u_s and its name v_a, orthonormal too. A
round is BOS, C_1 .. C_A, S(u_s), Act(v_a), R(r), N(u_s'), U_1 .. U_A; a terminal successor is the zero vector, and
U_b, all its hidden vector plus the name v_b, is the next C_b. The realisations are this project's; the source's own
matrices were not available.

* `four_layer`, attention only, 9 heads. 1: N gathers s, a, r; a hardmax head over <u_s', row> averages the rows of the
  actions of largest value into N's star; S reads the greedy logits Q(s, .); U_b copies row_b. 2: N reads
  M = <u_s', star> = max_b Q(s', b), ties included, and Q(s, a). 3: upd = alpha (r + g M - Q(s, a)) u_s. 4: U_a adds
  upd, and U_b clears its name. At N all other tokens score 0, the context Q(s', b) + B: right where |Q| < B. At U_b
  the token BOS, whose value is 0, scores 1 and takes all.
* `three_layer`: the pieces of upd are summed where they are multiplied: <star, u_s'> and <row_a, u_s> are scores.
* `relu_gated`, two blocks: U_b gathers s, a, r, s', then M, Q(s, a) and [a = b]; for bits c_s = [state is s] and
  g_b = [a = b], relu(x - D(2 - c_s - g_b)) - relu(-x - D(2 - c_s - g_b)) = c_s g_b x where |x| <= D, x = alpha delta.
* `relu_tree`, no hard attention and no bound on Q: N reads Q(s', .) and ReLU blocks take the larger of each pair,
  max(x, y) = y + relu(x - y), in ceil(log2 A) levels; a head with value u_s, key alpha delta and query [a = b] writes.
* `softmax`: `four_layer` with softmax(beta Q(s', .)) over the context in place of hardmax. It is not exact: M is below
  the largest value by at most min(ln A, (A - 1)/e)/beta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..arithmetic import Arithmetic, Array
from ..construction import Steps, last
from ..errors import BadInput
from ..layers import Layer
from ..layout import Layout, Size
from ..mlp import Mlp
from ..normalised_attention import (
    HardmaxAttention,
    LinearMoves,
    Move,
    NormalisedAttention,
    NormalisedHead,
    Score,
    SoftmaxAttention,
)
from ..parallel import Parallel
from ..program import Program
from ..routes import causal_routes, full
from ..tokens import Tokens
from .action_values import Rates
from .maximum import gated_update, levels, tree_fields, tree_level
from .rounds import Context, OnlineConstruction, Round, blank_context, hidden
from .transitions import CONTROL, ControlTask, Transition, tables

THEOREM = "online.q-learning"
SOURCE = "Q-learning with its table in the latent context; realisation by this project"
CAUSAL = "masks are causal and depend on the places of the tokens only"
FEEDBACK = "strict feedback: the next context tokens are the whole last hidden vectors plus their type embeddings v_a"
BASES = "the u_s and the v_a are orthonormal"
DOMAIN = "|Q| < B in every round, B = R/(1 - g) + 1 for rewards within R (hardmax realisations)"
GATE = "|alpha delta| <= D = 2 alpha R/(1 - g) (relu_gated)"
ASSUMPTIONS = (CAUSAL, FEEDBACK, BASES)
KINDS = ("bos", "context", "state", "action", "reward", "next", "out")
"""The tokens of a round in order."""
ROUTES = causal_routes(KINDS)


def causal_head(moves: Sequence[Move], scores: Sequence[Score]) -> NormalisedHead:
    """A head of all tokens under the causal mask."""
    return NormalisedHead(tuple(moves), tuple(scores), ROUTES)


EVENT = (Move("cur", "us"), Move("act", "va"), Move("rew", "rr"))
GATHER = causal_head(EVENT, [Score("tX", "tN")])
SCORES = causal_head([Move("idC", "qs")], [Score("row", "cur")])
COPY = causal_head([Move("row", "row")], [Score("idC", "idU")])
VALUE = causal_head([Move("tX", "Qsa")], [Score("qs", "va")])
LARGEST = causal_head([Move("tN", "M")], [Score("star", "nxt")])
WRITE = causal_head([Move("upd", "row")], [Score("va", "idU")])
CLEAR = causal_head([Move("idU", "idU", -1)], [Score("idU", "idU")])
GATE_BIT = causal_head([Move("tX", "g")], [Score("act", "idU")])

Look = Callable[[Rates], tuple[NormalisedAttention, ...]]
"""The heads of the first layer by which N finds what its successor is worth: their sum is N's star."""


def best(rates: Rates, share: Any = 1) -> tuple[NormalisedAttention, ...]:
    """The average of the rows of the actions of largest value at s', times a share."""
    bias = Score("idC", "tN", rates.any_action(rates.bound, "B 1'V'"))
    sink = Score("tB", "idU", rates.any_action().T)
    return (HardmaxAttention((causal_head([Move("row", "star", share)], [Score("row", "nxt"), bias, sink]),)),)


def soft(rates: Rates) -> tuple[NormalisedAttention, ...]:
    """The mean of the rows under softmax(beta Q(s', .)); N sees the context alone."""
    by_value = Score("row", "nxt", rates.scaled_identity("beta I", rates.beta))
    return (SoftmaxAttention((NormalisedHead((Move("row", "star"),), (by_value,), (full("context", "next"),)),)),)


def four_layer(rates: Rates, look: Look = best) -> tuple[Layer, ...]:
    """Attention only; with `best` 9 heads."""
    return (
        Parallel((LinearMoves((GATHER, SCORES, COPY)), *look(rates)), "gather, look, copy"),
        LinearMoves((LARGEST, VALUE), "values"),
        *multiply_and_write(rates),
    )


def multiply_and_write(rates: Rates) -> tuple[Layer, ...]:
    """upd = alpha (rr + g M - Qsa) us at N, then into row of the action that was done."""
    discounted = Score("M", "tN", rates.scaled_identity("g I", rates.discount))
    multiply = causal_head(
        [Move("us", "upd", rates.alpha)], [Score("rr", "tN"), discounted, Score("Qsa", "tN", sign=-1)]
    )
    return LinearMoves((multiply,), "multiply"), LinearMoves((WRITE, CLEAR), "write, clear")


def three_layer(rates: Rates) -> tuple[Layer, ...]:
    """Attention only, 8 heads."""
    discounted = Score("star", "nxt", rates.scaled_identity("g I", rates.discount))
    target = causal_head([Move("us", "upd", rates.alpha)], [Score("rr", "tN"), discounted])
    old = causal_head([Move("cur", "upd", -rates.alpha)], [Score("qs", "va")])
    return (
        Parallel((LinearMoves((GATHER, SCORES, COPY)), *best(rates)), "gather, look, copy"),
        LinearMoves((target, old), "multiply"),
        LinearMoves((WRITE, CLEAR), "write, clear"),
    )


def relu_gated(rates: Rates) -> tuple[Layer, ...]:
    """Two blocks; their ReLU units multiply by bits and clear."""
    anywhere = rates.any_action().T
    gather = causal_head([*EVENT, Move("nxt", "nx")], [Score("tX", "idU", anywhere), Score("tN", "idU", anywhere)])
    largest = causal_head([Move("tN", "M")], [Score("star", "nx")])
    return (
        Parallel((LinearMoves((gather, SCORES, COPY)), *best(rates)), "gather, look, copy"),
        LinearMoves((largest, VALUE, GATE_BIT), "values"),
        Mlp(FIELDS["relu_gated"](rates), gated_update(rates), "update, clear"),
    )


def relu_tree(rates: Rates) -> tuple[Layer, ...]:
    """max(2, ceil(log2 A)) + 1 blocks; level l of the tree is the ReLU part of block l."""
    layout = FIELDS["relu_tree"](rates)
    logits = causal_head([Move("idC", "qs")], [Score("row", "cur"), Score("row", "nxt")])
    discounted = Score("M", "g", rates.scaled_identity("g I", rates.discount))
    update = causal_head([Move("us", "row", rates.alpha)], [Score("rr", "g"), discounted, Score("Qsa", "g", sign=-1)])
    clear = causal_head([Move("idU", "idU", -1), Move("g", "g", -1)], [Score("idU", "idU")])
    tree = [Mlp(layout, tree_level(rates, level), f"level {level}") for level in range(1, levels(rates.actions) + 1)]
    return (
        LinearMoves((GATHER, logits, COPY, GATE_BIT), "gather, look, copy"),
        tree[0],
        LinearMoves((VALUE,), "values"),
        *tree[1:],
        LinearMoves((update, clear), "update, clear"),
    )


FIELDS: dict[str, Callable[[Rates], Layout]] = {
    "four_layer": lambda x: x.layout(us=x.width, va=x.action_width, rr=1, star=x.width, M=1, Qsa=1, upd=x.width),
    "three_layer": lambda x: x.layout(us=x.width, va=x.action_width, rr=1, star=x.width, upd=x.width),
    "relu_gated": lambda x: x.layout(us=x.width, va=x.action_width, rr=1, nx=x.width, star=x.width, M=1, Qsa=1, g=1),
    "relu_tree": lambda x: x.layout(us=x.width, va=x.action_width, rr=1, Qsa=1, g=1, **tree_fields(x.actions)),
    "softmax": lambda x: FIELDS["four_layer"](x),
}
VARIANTS: dict[str, Callable[[Rates], tuple[Layer, ...]]] = {
    "four_layer": four_layer,
    "three_layer": three_layer,
    "relu_gated": relu_gated,
    "relu_tree": relu_tree,
    "softmax": lambda rates: four_layer(rates, soft),
}
EXACT = ("four_layer", "three_layer", "relu_gated", "relu_tree")
"""The realisations that equal Q-learning; `softmax` is within a bound."""


def program(variant: str, rates: Rates) -> Program:
    """The program of one round.

    Raises:
        BadInput: an unknown variant.
    """
    if variant not in VARIANTS:
        raise BadInput(f"{THEOREM}: expected one of {', '.join(VARIANTS)}, found {variant}")
    return Program(f"Q-learning, {variant}", FIELDS[variant](rates), KINDS, VARIANTS[variant](rates))


def round_tokens(
    names: Array, cur: Array, act: Array, rew: Array, context: Context, arithmetic: Arithmetic, **following: Array
) -> Tokens:
    """The tokens of a round; `names` are the v_a side by side, `following` the fields of N, nxt among them."""
    one = arithmetic.matrix([[1]])
    A = arithmetic.shape(names)[1]
    return (
        Tokens({}, {})
        .with_kind("bos", 1, tB=one)
        .with_kind("context", A, **context)
        .with_kind("state", 1, cur=cur, tX=one)
        .with_kind("action", 1, act=act, tX=one)
        .with_kind("reward", 1, rew=rew, tX=one)
        .with_kind("next", 1, tN=one, **following)
        .with_kind("out", A, idU=names)
    )


@dataclass(frozen=True)
class Learner:
    """One algorithm on such tokens, as far as it differs from another.

    Attributes:
        program: of one round.
        rates: the public constants.
        tables: task -> Q (or the weights of linear Q-learning) before the first round and after each.
        sizes: n, A and whatever else identifies it.
        bound: R, which no reward exceeds.
        action: the place of a transition's action among the v_a.
        following: the fields of N besides nxt.
        features: whether the states' vectors are features, and the tables are weights.
    """

    theorem: str
    program: Program
    rates: Rates
    tables: Callable[[ControlTask], Iterable[Sequence[Sequence[Any]]]]
    source: str
    assumptions: tuple[str, ...]
    sizes: Mapping[str, Size]
    bound: Fraction
    action: Callable[[Transition], int] = lambda x: x.action
    following: Callable[[Transition, Arithmetic], dict[str, Array]] = lambda x, arithmetic: {}
    features: bool = False


def online(learner: Learner) -> OnlineConstruction:
    """The construction of a learner. Its answer has A columns a round, column b that of U_b: the table's coordinates,
    the logit Q(s, b) before the update, and every other field of U_b, which has to be zero."""
    rates, layout = learner.rates, learner.program.layout
    assert rates.states is not None
    assert rates.actions_basis is not None

    n = len(rates.states)

    def vectors(arithmetic: Arithmetic) -> Array:
        return rates.by_state.T.array(rates.width, n, arithmetic)

    def names(arithmetic: Arithmetic) -> Array:
        return rates.by_action.T.array(rates.action_width, rates.actions, arithmetic)

    def coordinates(table: Sequence[Sequence[Any]], arithmetic: Arithmetic) -> Array:
        """sum_s Q(s, a) u_s side by side; the weights themselves where states have features."""
        given = arithmetic.matrix(table)
        return given if learner.features else arithmetic.matmul(vectors(arithmetic), given)

    def begin(task: ControlTask, arithmetic: Arithmetic) -> Context:
        _require(learner, task)
        row = coordinates(next(iter(learner.tables(task))), arithmetic)
        return blank_context(layout, rates.actions, arithmetic, row=row, idC=names(arithmetic))

    def enter(task: ControlTask, t: int, context: Context, arithmetic: Arithmetic) -> Tokens:
        x = task.transitions[t]
        U, V = vectors(arithmetic), names(arithmetic)
        act = learner.action(x)
        following = learner.following(x, arithmetic)
        if x.successor >= 0:
            following["nxt"] = arithmetic.columns(U, x.successor, x.successor + 1)
        return round_tokens(
            V,
            arithmetic.columns(U, x.state, x.state + 1),
            arithmetic.columns(V, act, act + 1),
            arithmetic.matrix([[x.reward]]),
            context,
            arithmetic,
            **following,
        )

    def reference(task: ControlTask, arithmetic: Arithmetic) -> Array:
        heights = sum(width for field, width in layout.widths.items() if field != "row")
        zeros = arithmetic.matrix([[0] * rates.actions] * heights)
        parts, before = [], None
        for x, table in zip((None, *task.transitions), learner.tables(task), strict=True):
            if x is not None:
                logits = _logits(learner, x, before)
                parts.append(
                    arithmetic.stack([[coordinates(table, arithmetic)], [arithmetic.matrix([logits])], [zeros]])
                )
            before = table
        return parts[0] if len(parts) == 1 else arithmetic.stack([parts])

    return OnlineConstruction(
        learner.theorem,
        learner.sizes,
        learner.program,
        lambda task, arithmetic: enter(task, 0, begin(task, arithmetic), arithmetic),
        lambda steps, arithmetic: read_round(learner.program, rates, steps, arithmetic),
        reference,
        CONTROL,
        learner.assumptions,
        answer_blocks(learner.program),
        learner.source,
        round=Round(begin, enter, "out", "idC", lambda task: task.rounds, names),
    )


def _logits(learner: Learner, x: Transition, table: Any) -> list[Any]:
    if not learner.features:
        return list(table[x.state])
    assert learner.rates.states is not None
    vector = learner.rates.states[x.state]
    return [sum(c * row[a] for c, row in zip(vector, table, strict=True)) for a in range(learner.rates.actions)]


def _require(learner: Learner, task: ControlTask) -> None:
    rates = learner.rates
    expected = (learner.sizes["n"], learner.sizes["A"], rates.alpha, rates.discount)
    found = (task.states, task.actions, task.alpha, task.discount)
    if expected != found:
        names = ("n", "A", "alpha", "g")
        left, right = (
            ", ".join(f"{n} = {x}" for n, x in zip(names, values, strict=True)) for values in (expected, found)
        )
        raise BadInput(f"{learner.theorem}: expected a task with {left}, found {right}")
    if task.bound > learner.bound:
        bounds = f"expected rewards within {learner.bound}, found a task with rewards up to {task.bound}"
        raise BadInput(f"{learner.theorem}: {bounds}")


def read_round(program: Program, rates: Rates, steps: Steps, arithmetic: Arithmetic) -> Array:
    """The answer of a round."""
    tokens = last(steps)
    names = rates.by_action.array(rates.actions, rates.action_width, arithmetic)
    logits = arithmetic.matmul(names, tokens.read("state", "qs", rates.action_width, arithmetic))
    after = hidden(tokens, "out", program.layout, arithmetic)
    rest = [[block] for field, block in after.items() if field != "row"]
    return arithmetic.stack([[after["row"]], [arithmetic.transpose(logits)], *rest])


def answer_blocks(program: Program) -> tuple[tuple[str, int], ...]:
    """The rows of an answer by name; the fields other than the table's are those that have to be clean."""
    widths = program.layout.widths
    rest = tuple((f"clean {field}", width) for field, width in widths.items() if field != "row")
    return (("table", widths["row"]), ("logits", 1), *rest)


def decisions(tokens: Tokens, rates: Rates, arithmetic: Arithmetic) -> list[int]:
    """The greedy actions that S shows: those of largest logit.

    Raises:
        Unsupported: the arithmetic cannot decide which are largest.
    """
    names = rates.by_action.array(rates.actions, rates.action_width, arithmetic)
    logits = arithmetic.matmul(names, tokens.read("state", "qs", rates.action_width, arithmetic))
    largest = arithmetic.hardmax(logits, np.ones((rates.actions, 1), dtype=bool))
    return [a for a, live in enumerate(arithmetic.nonzero(arithmetic.transpose(largest))) if live]


def construction(variant: str, rates: Rates, bound: Any) -> OnlineConstruction:
    """One of the realisations; its answer has A columns a round.

    Args:
        variant: four_layer, three_layer, relu_gated, relu_tree or softmax.
        rates: of `rates_for`.
        bound: R, which no reward exceeds.

    Raises:
        BadInput: an unknown variant.
    """
    sizes = sizes_of(rates) | ({"beta": str(rates.beta)} if variant == "softmax" else {})
    own = {"softmax": (CAUSAL, FEEDBACK, BASES), "relu_tree": ASSUMPTIONS, "relu_gated": (*ASSUMPTIONS, DOMAIN, GATE)}
    assumptions = own.get(variant, (*ASSUMPTIONS, DOMAIN))
    return online(Learner(THEOREM, program(variant, rates), rates, tables, SOURCE, assumptions, sizes, Fraction(bound)))


def sizes_of(rates: Rates) -> dict[str, Size]:
    """n, A and d."""
    assert rates.states is not None
    return {"n": len(rates.states), "A": rates.actions, "d": rates.width}
