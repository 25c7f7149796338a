"""Expected SARSA: the target is the mean of Q(s', .) under a policy, eps-greedy or Boltzmann.

    Q(s, a) <- Q(s, a) + alpha (r + g sum_b pi(b | s') Q(s', b) - Q(s, a)).

eps-greedy: the hardmax head moves 1 - eps of the row, a linear head eps/A of every row; however the policy breaks ties,
the mean is the same. Boltzmann with inverse temperature beta: the softmax head of `online.q-learning`, here exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import sympy as sp
from flint import arb, fmpq

from ..errors import BadInput
from ..normalised_attention import LinearMoves, Move, NormalisedAttention, Score
from ..program import Program
from ..task import inside_unit_interval
from .action_values import Number, Rates
from .q_learning import (
    BASES,
    CAUSAL,
    DOMAIN,
    FEEDBACK,
    FIELDS,
    KINDS,
    Learner,
    best,
    causal_head,
    four_layer,
    online,
    sizes_of,
    soft,
)
from .rounds import OnlineConstruction
from .transitions import ControlTask, changed

THEOREM = "online.expected-sarsa"
SOURCE = "Expected SARSA with its table in the latent context; realisation by this project"
ASSUMPTIONS = (CAUSAL, FEEDBACK, BASES)
POLICIES = ("eps_greedy", "boltzmann")


def mixed(rates: Rates, eps: Number) -> tuple[NormalisedAttention, ...]:
    """1 - eps of the rows of largest value, eps/A of every row."""
    share = sp.sympify(eps) / sp.sympify(rates.actions)
    each = causal_head([Move("row", "star", share)], [Score("idC", "tN", rates.any_action())])
    return (*best(rates, 1 - eps), LinearMoves((each,)))


def program(policy: str, rates: Rates, eps: Number = 0) -> Program:
    """The program of one round.

    Raises:
        BadInput: an unknown policy.
    """
    if policy not in POLICIES:
        raise BadInput(f"{THEOREM}: expected one of {', '.join(POLICIES)}, found {policy}")
    look = partial(mixed, eps=eps) if policy == "eps_greedy" else soft
    return Program(f"Expected SARSA, {policy}", FIELDS["four_layer"](rates), KINDS, four_layer(rates, look))


def tables_of(policy: str, eps: Fraction, beta: Fraction) -> Callable[[ControlTask], Iterator[list[list[Any]]]]:
    """Q before the first round and after every round; of a Boltzmann policy in balls, at the precision that is set."""

    def greedy_mean(Q: Any, x: Any) -> Any:
        row = Q[x.successor]
        return (1 - eps) * max(row) + eps * sum(row) / len(row)

    def boltzmann_mean(Q: Any, x: Any) -> Any:
        row = [_ball(value) for value in Q[x.successor]]
        weights = [(_ball(beta) * value).exp() for value in row]
        return sum((w * value for w, value in zip(weights, row, strict=True)), arb(0)) / sum(weights, arb(0))

    if policy == "eps_greedy":
        return lambda task: changed(task, greedy_mean)
    return lambda task: changed(task, boltzmann_mean, _ball)


def _ball(x: Any) -> arb:
    return arb(fmpq(x.numerator, x.denominator)) if isinstance(x, Fraction | int) else x


def construction(policy: str, rates: Rates, bound: Any, eps: Any = "1/10") -> OnlineConstruction:
    """Expected SARSA for rewards within `bound`; its answer has A columns a round.

    Raises:
        BadInput: an unknown policy, or eps outside (0, 1).
    """
    share = inside_unit_interval("eps", eps)
    assumptions = (*ASSUMPTIONS, DOMAIN) if policy == "eps_greedy" else ASSUMPTIONS
    rules = tables_of(policy, share, Fraction(rates.beta))
    built, sizes = program(policy, rates, share), sizes_of(rates)
    return online(Learner(THEOREM, built, rates, rules, SOURCE, assumptions, sizes, Fraction(bound)))
