"""Tasks of control: one transition (s, a, r, s') a round, and what a Q-learner does with it (theory B2).

    Q(s, a) <- Q(s, a) + alpha (r + g max_b Q(s', b) - Q(s, a)),        a terminal successor has value 0.

Rewards are bounded by a declared R. From a table with |Q| <= R/(1 - g) every later table is within R/(1 - g) as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ..errors import BadInput
from ..task import TaskClass, exact_discount, inside_unit_interval

SHOWN_ROUNDS = 40
"""A counterexample shows tasks up to this length."""
TERMINAL = -1
"""A successor whose value is 0."""

Table = tuple[tuple[Fraction, ...], ...]
"""Q, a row for each state and a column for each action."""


def step_size(value: object) -> Fraction:
    """alpha as an exact fraction.

    Raises:
        BadInput: outside (0, 1].
    """
    return Fraction(1) if value in (1, "1") else _inside(value)


def _inside(value: object) -> Fraction:
    try:
        return inside_unit_interval("alpha", value)
    except BadInput:
        raise BadInput(f"alpha: expected a number above 0 and at most 1, found {value}") from None


@dataclass(frozen=True)
class Transition:
    """One round: in `state` the learner did `action`, got `reward` and came to `successor`.

    Attributes:
        then: the action that follows (SARSA).
        side: which of two tables is changed, 0 or 1 (double Q-learning).
    """

    state: int
    action: int
    reward: Fraction
    successor: int
    then: int = 0
    side: int = 0


@dataclass(frozen=True)
class ControlTask:
    """Transitions over states 0..n-1 and actions 0..A-1, all exact.

    Attributes:
        transitions: one a round.
        states: n.
        actions: A.
        alpha: step size, in (0, 1].
        discount: g, strictly between 0 and 1.
        bound: R >= |reward|.
        table: Q before the first round, within R/(1 - g); zeros where empty. Double Q-learning has 2A columns.
        name: where the task comes from, with its seed.

    Raises:
        BadInput: no round, no state, no action, an index out of range, a reward or a table outside its bound, alpha
            outside (0, 1], or a discount outside (0, 1).
    """

    transitions: tuple[Transition, ...]
    states: int
    actions: int
    alpha: Fraction
    discount: Fraction
    bound: Fraction
    table: Table = ()
    name: str = "control task"

    def __post_init__(self) -> None:
        for what, size in (("state", self.states), ("action", self.actions)):
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise BadInput(f"{self.name}: expected at least one {what}, found {size!r}")
        if not self.transitions:
            raise BadInput(f"{self.name}: expected at least one transition, found none")
        object.__setattr__(self, "alpha", step_size(self.alpha))
        object.__setattr__(self, "discount", exact_discount(self.discount))
        object.__setattr__(self, "bound", Fraction(self.bound))
        for t, x in enumerate(self.transitions):
            ranges = {"state": (0, self.states), "successor": (TERMINAL, self.states), "side": (0, 2)}
            ranges |= {"action": (0, self.actions), "then": (0, self.actions)}
            for what, (low, high) in ranges.items():
                if not low <= getattr(x, what) < high:
                    raise BadInput(
                        f"{self.name}, round {t}, {what}: expected a number from {low} to {high - 1},"
                        f" found {getattr(x, what)}"
                    )
            if abs(x.reward) > self.bound:
                raise BadInput(f"{self.name}, round {t}: expected a reward within {self.bound}, found {x.reward}")
        limit = self.largest
        for row in self.table:
            for value in row:
                if abs(value) > limit:
                    raise BadInput(f"{self.name}, initial table: expected values within {limit}, found {value}")
        if self.table and len(self.table) != self.states:
            raise BadInput(f"{self.name}, initial table: expected {self.states} rows, found {len(self.table)}")

    @property
    def largest(self) -> Fraction:
        """R/(1 - g), which no table exceeds."""
        return self.bound / (1 - self.discount)

    @property
    def rounds(self) -> int:
        """T."""
        return len(self.transitions)

    @property
    def size(self) -> tuple[int, ...]:
        """(n, A, T)."""
        return self.states, self.actions, self.rounds

    def describe(self) -> dict[str, Any]:
        """The task as a short document, in full where it has at most `SHOWN_ROUNDS` rounds."""
        document: dict[str, Any] = {"name": self.name, "n": self.states, "A": self.actions, "T": self.rounds}
        document |= {"alpha": str(self.alpha), "g": str(self.discount), "R": str(self.bound)}
        if self.rounds <= SHOWN_ROUNDS:
            document["table"] = [list(map(str, row)) for row in self.table] or "zeros"
            document["transitions"] = [
                f"{x.state} by {x.action} to {'terminal' if x.successor < 0 else x.successor}, reward {x.reward},"
                f" then {x.then}, side {x.side}"
                for x in self.transitions
            ]
        return document


CONTROL = TaskClass(
    "control", "n states, A actions, alpha in (0, 1], 0 < g < 1, rewards within a declared bound", lambda task: None
)


def changed(
    task: ControlTask,
    worth: Callable[[Any, Transition], Any],
    number: Callable[[Fraction], Any] = lambda x: x,
    *,
    column: Callable[[Transition], int] = lambda x: x.action,
    columns: int | None = None,
) -> Iterator[list[list[Any]]]:
    """The table before the first round and after every round, by direct counting: no attention involved.

    Args:
        worth: (table, transition) -> what its successor is worth; a terminal one is worth 0.
        number: what an exact number becomes; the identity keeps all exact.
        column: the column that a transition changes.
        columns: how many there are; A if not given.
    """
    start = task.table or ((Fraction(0),) * (columns or task.actions),) * task.states
    Q = [[number(x) for x in row] for row in start]
    alpha, discount = number(task.alpha), number(task.discount)
    yield Q
    for x in task.transitions:
        target = number(x.reward) + (discount * worth(Q, x) if x.successor >= 0 else number(Fraction(0)))
        row, place = list(Q[x.state]), column(x)
        row[place] = (1 - alpha) * row[place] + alpha * target
        Q = [row if s == x.state else other for s, other in enumerate(Q)]
        yield Q


def tables(task: ControlTask) -> Iterator[list[list[Fraction]]]:
    """Q before the first round and after every round."""
    return changed(task, lambda Q, x: max(Q[x.successor]))


def greedy(row: Sequence[Any]) -> list[int]:
    """The actions of largest value."""
    return [a for a, value in enumerate(row) if value == max(row)]
