"""Double Q-learning: two tables, one of which is changed a round, valued by the other at its own best action.

    Q_k(s, a) <- Q_k(s, a) + alpha (r + g mean of Q_{1-k}(s', b) over the b of largest Q_k(s', b) - Q_k(s, a)).

The mean is the tie rule, and part of the statement. The two tables are one with 2A actions, named v_(k, b); the action
token holds the name of the pair that is changed, and N the sum of the names of its table. A hardmax head among those
averages the names of the best actions into N's pick, a linear head writes all values Q(s', .) into N's vs, and the
score <Pi pick, vs> is the target, Pi the public swap of the tables. On the side that is not asked a context token
scores less than B, on the other Q + 2B > B.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from ..arithmetic import Arithmetic, Array
from ..layers import Layer, Public, fixed
from ..normalised_attention import HardmaxAttention, LinearMoves, Move, Score
from ..parallel import Parallel
from ..program import Program
from .action_values import Rates, times
from .q_learning import (
    BASES,
    CAUSAL,
    COPY,
    DOMAIN,
    FEEDBACK,
    GATHER,
    KINDS,
    SCORES,
    VALUE,
    Learner,
    causal_head,
    multiply_and_write,
    online,
    sizes_of,
)
from .rounds import OnlineConstruction
from .transitions import ControlTask, Transition, changed

THEOREM = "online.double-q"
SOURCE = "double Q-learning with both tables in the latent context; realisation by this project"
TIES = "tie rule: the other table's mean over the actions of largest value"
ASSUMPTIONS = (CAUSAL, FEEDBACK, BASES, DOMAIN, TIES)


def swap(rates: Rates) -> Public:
    """Pi = sum v_(k, b) v_(1-k, b)', shape (action_width, action_width)."""
    if rates.actions_basis is None:
        return Public("Pi")
    half = len(rates.actions_basis) // 2
    partner = [*rates.actions_basis[half:], *rates.actions_basis[:half]]
    pairs = list(zip(rates.actions_basis, partner, strict=True))
    places = range(len(partner[0]))
    return fixed("Pi", [[sum((v[i] * w[j] for v, w in pairs), Fraction(0)) for j in places] for i in places])


def program(rates: Rates) -> Program:
    """The program of one round; `rates` has the names of both tables' actions."""
    own = {"us": rates.width, "va": rates.action_width, "rr": 1, "side": rates.action_width, "pick": rates.action_width}
    layout = rates.layout(**own, vs=rates.action_width, M=1, Qsa=1, upd=rates.width)
    return Program("double Q-learning", layout, KINDS, layers(rates))


def layers(rates: Rates) -> tuple[Layer, ...]:
    """Four layers of attention."""
    asked = Score("idC", "side", rates.scaled_identity("2B I", times(2, rates.bound)))
    sink = Score("tB", "idU", rates.any_action().T)
    pick = causal_head([Move("idC", "pick")], [Score("row", "nxt"), asked, sink])
    values = causal_head([Move("idC", "vs")], [Score("row", "nxt")])
    target = causal_head([Move("tN", "M")], [Score("pick", "vs", swap(rates))])
    return (
        Parallel((LinearMoves((GATHER, SCORES, values, COPY)), HardmaxAttention((pick,))), "gather, look, copy"),
        LinearMoves((target, VALUE), "values"),
        *multiply_and_write(rates),
    )


def tables(task: ControlTask) -> Iterator[list[list[Fraction]]]:
    """Both tables side by side, before the first round and after every round."""
    A = task.actions

    def worth(Q: Any, x: Transition) -> Fraction:
        own, other = (Q[x.successor][k * A : (k + 1) * A] for k in (x.side, 1 - x.side))
        picked = [value for value, mine in zip(other, own, strict=True) if mine == max(own)]
        return sum(picked, Fraction(0)) / len(picked)

    return changed(task, worth, column=lambda x: x.side * A + x.action, columns=2 * A)


def construction(rates: Rates, bound: Any) -> OnlineConstruction:
    """Double Q-learning for rewards within `bound`; its answer has 2A columns a round."""
    names = rates.actions_basis or ()
    A = rates.actions // 2

    def following(x: Transition, arithmetic: Arithmetic) -> dict[str, Array]:
        side = [sum(column, Fraction(0)) for column in zip(*names[x.side * A : (x.side + 1) * A], strict=True)]
        return {"side": arithmetic.matrix([[c] for c in side])}

    given = (program(rates), rates, tables, SOURCE, ASSUMPTIONS, sizes_of(rates) | {"A": A}, Fraction(bound))
    return online(Learner(THEOREM, *given, lambda x: x.side * A + x.action, following))
