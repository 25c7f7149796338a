"""SARSA: the head that looks for the largest value is replaced by one that selects the row of the next action.

    Q(s, a) <- Q(s, a) + alpha (r + g Q(s', a') - Q(s, a)).

N holds the name v_a' too; a linear head with score [b = a'] moves row_b into its star, and the rest is `four_layer`. No
bound on Q is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ..arithmetic import Arithmetic, Array
from ..normalised_attention import LinearMoves, Move, NormalisedAttention, Score
from ..program import Program
from .action_values import Rates
from .q_learning import (
    BASES,
    CAUSAL,
    FEEDBACK,
    FIELDS,
    KINDS,
    Learner,
    causal_head,
    four_layer,
    online,
    sizes_of,
)
from .rounds import OnlineConstruction
from .transitions import ControlTask, Transition, changed

THEOREM = "online.sarsa"
SOURCE = "SARSA with its table in the latent context; realisation by this project"
ASSUMPTIONS = (CAUSAL, FEEDBACK, BASES, "the next action is known when the round is learned from")


def chosen(rates: Rates) -> tuple[NormalisedAttention, ...]:
    """The row of the next action."""
    return (LinearMoves((causal_head([Move("row", "star")], [Score("idC", "then")]),)),)


def program(rates: Rates) -> Program:
    """The program of one round."""
    layout = rates.layout(**own_fields(rates), then=rates.action_width)
    return Program("SARSA", layout, KINDS, four_layer(rates, chosen))


def own_fields(rates: Rates) -> dict[str, Any]:
    """The fields of `four_layer` besides those that all realisations have."""
    shared = rates.layout()
    return {field: width for field, width in FIELDS["four_layer"](rates).widths.items() if field not in shared}


def tables(task: ControlTask) -> Iterator[list[list[Fraction]]]:
    """Q before the first round and after every round."""
    return changed(task, lambda Q, x: Q[x.successor][x.then])


def construction(rates: Rates, bound: Any) -> OnlineConstruction:
    """SARSA for rewards within `bound`; its answer has A columns a round."""
    names = rates.actions_basis or ()

    def following(x: Transition, arithmetic: Arithmetic) -> dict[str, Array]:
        return {"then": arithmetic.matrix([[c] for c in names[x.then]])}

    given = (program(rates), rates, tables, SOURCE, ASSUMPTIONS, sizes_of(rates), Fraction(bound))
    return online(Learner(THEOREM, *given, following=following))
