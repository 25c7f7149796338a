"""Q-learning with linear features: the matrices of `online.q-learning`, with features in place of orthonormal vectors.

    Q(s, a) = <w_a, phi(s)>,        w_a <- w_a + alpha (r + g max_b <w_b, phi(s')> - <w_a, phi(s)>) phi(s).

Context token C_a holds w_a; nothing else changes. `relu_gated` multiplies by bits and is not among the realisations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ..errors import BadInput
from .action_values import Rates, rates_for
from .experts import Basis
from .q_learning import CAUSAL, FEEDBACK, Learner, online, program, sizes_of
from .rounds import OnlineConstruction
from .transitions import ControlTask

THEOREM = "online.linear-q"
SOURCE = "Q-learning with linear features, weights in the latent context; realisation by this project"
VARIANTS = ("four_layer", "three_layer", "relu_tree")
NAMES = "the v_a are orthonormal"
DOMAIN = "|<w_b, phi(s')>| < B in every round (hardmax realisations)"


def features_of(vectors: Sequence[Sequence[Any]]) -> Basis:
    """phi as exact fractions, a row for each state.

    Raises:
        BadInput: no state, no feature, or rows of different lengths.
    """
    rows = tuple(tuple(map(Fraction, vector)) for vector in vectors)
    if not rows or not rows[0] or len({len(row) for row in rows}) != 1:
        raise BadInput(f"{THEOREM}: expected as many features of every state, found {[len(row) for row in rows]}")
    return rows


def featured_rates(features: Sequence[Sequence[Any]], actions: int, alpha: Any, discount: Any, B: Any) -> Rates:
    """The constants for states with these features.

    Raises:
        BadInput: as `rates_for` and `features_of`.
    """
    phi = features_of(features)
    return replace(rates_for(1, actions, alpha, discount, 0, B=B), width=len(phi[0]), states=phi)


def weights(features: Basis) -> Callable[[ControlTask], Iterator[list[list[Fraction]]]]:
    """task -> the weights, a row for each feature and a column for each action, from zero on."""

    def values(w: list[list[Fraction]], s: int, actions: int) -> list[Fraction]:
        return [sum((w[i][b] * x for i, x in enumerate(features[s])), Fraction(0)) for b in range(actions)]

    def run(task: ControlTask) -> Iterator[list[list[Fraction]]]:
        w = [[Fraction(0)] * task.actions for _ in features[0]]
        yield w
        for x in task.transitions:
            best = max(values(w, x.successor, task.actions)) if x.successor >= 0 else Fraction(0)
            error = x.reward + task.discount * best - values(w, x.state, task.actions)[x.action]
            w = [list(row) for row in w]
            for row, feature in zip(w, features[x.state], strict=True):
                row[x.action] += task.alpha * error * feature
            yield w

    return run


def construction(variant: str, rates: Rates, bound: Any) -> OnlineConstruction:
    """A realisation for rewards within `bound`; its answer has A columns a round.

    Raises:
        BadInput: a realisation that is not among `VARIANTS`.
    """
    if variant not in VARIANTS:
        raise BadInput(f"{THEOREM}: expected one of {', '.join(VARIANTS)}, found {variant}")
    assert rates.states is not None
    assumptions = (CAUSAL, FEEDBACK, NAMES, *([] if variant == "relu_tree" else [DOMAIN]))
    built, rule = program(variant, rates), weights(rates.states)
    sizes = sizes_of(rates)
    return online(Learner(THEOREM, built, rates, rule, SOURCE, assumptions, sizes, Fraction(bound), features=True))
