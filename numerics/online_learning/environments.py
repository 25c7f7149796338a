"""The built Q-learner at work in gymnasium's FrozenLake, CliffWalking and Taxi, beside tabular Q-learning.

Each step the program shows the greedy actions of a state (its first layer: S sees no later token), the behaviour is
epsilon-greedy with ties broken by the seed, and the program learns from what happened, fed with its own last hidden
vectors. A table learns from the same transitions by the scalar recursion. Compared after every step: the actions of
largest value, in every state, and the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.online_learning import q_learning
from constructions.online_learning.action_values import rates_for
from constructions.online_learning.rounds import Context
from constructions.online_learning.transitions import TERMINAL, ControlTask, Table, Transition
from constructions.program import Program
from numerics.torch_arithmetic import TorchArithmetic

ALPHA, DISCOUNT = Fraction(1, 4), Fraction(7, 8)
"""Step size and discount; both are binary fractions, so floats hold them."""
EPSILON = 0.3
BOUNDS = {"FrozenLake-v1": 1, "CliffWalking-v1": 100, "Taxi-v3": 20}
"""R: no reward of the environment exceeds it."""
SUCCESSORS = {"Taxi-v3": "Taxi-v4"}
"""The name under which later versions of gymnasium have an environment."""
START = {"FrozenLake-v1": 1, "CliffWalking-v1": 0, "Taxi-v3": 0}
"""Every entry of the first table: optimistic, so that the learner explores before it finds a reward."""
STEPS = {"FrozenLake-v1": 1000, "CliffWalking-v1": 1000, "Taxi-v3": 1000}
QUICK_STEPS = 100
EXACT_STEPS = 400
"""Steps in Q, where denominators grow."""

Row = dict[str, Any]


def environment(name: str) -> Any:
    """A gymnasium environment with finitely many states and actions.

    Raises:
        BadInput: gymnasium is not installed, or no such environment.
    """
    try:
        import gymnasium
    except ImportError:
        raise BadInput(
            f'{name}: expected gymnasium to be installed (pip install "contextproof[examples]"), found none'
        ) from None
    known = SUCCESSORS.get(name, name)
    try:
        return gymnasium.make(known if known in gymnasium.registry else name)
    except gymnasium.error.Error as error:
        raise BadInput(f"{name}: expected an environment of gymnasium, found {' '.join(str(error).split())}") from error


class Learner:
    """A realisation at work, one transition at a time.

    Args:
        states: n.
        actions: A.
        bound: R.
        start: every entry of the first table.
        arithmetic: Q or torch.
        variant: the realisation.
    """

    def __init__(
        self, states: int, actions: int, bound: int, start: int, arithmetic: Any, variant: str = "four_layer"
    ) -> None:
        self.rates = rates_for(states, actions, ALPHA, DISCOUNT, bound)
        self.built = q_learning.construction(variant, self.rates, bound)
        self.arithmetic = arithmetic
        self.bound = Fraction(bound)
        table = ((Fraction(start),) * actions,) * states
        assert self.built.round is not None
        self.round = self.built.round
        first = self._task(Transition(0, 0, Fraction(0), TERMINAL), table)
        self.context = self._pruned(self.round.begin(first, arithmetic))

    def _task(self, x: Transition, table: Table = ()) -> ControlTask:
        sizes = self.built.sizes
        return ControlTask((x,), sizes["n"], sizes["A"], ALPHA, DISCOUNT, self.bound, table)

    def best(self, state: int) -> list[int]:
        """The greedy actions that S shows in the first layer; nothing after S is needed, nor seen by it."""
        tokens = self.round.enter(
            self._task(Transition(state, 0, Fraction(0), TERMINAL)), 0, self.context, self.arithmetic
        )
        program = self.built.program
        looked = Program(program.name, program.layout, program.kinds, program.layers[:1]).run(tokens, self.arithmetic)
        return q_learning.decisions(looked, self.rates, self.arithmetic)

    def learn(self, x: Transition) -> None:
        """One round.

        Raises:
            BadInput: a field that has to be clean is not exactly zero.
        """
        tokens = self.round.enter(self._task(x), 0, self.context, self.arithmetic)
        after = self.built.program.run(tokens, self.arithmetic)
        self.context = self._pruned(self.built.fed_back(after, self.arithmetic))

    def _pruned(self, context: Context) -> Context:
        """The context without its cleared fields, which are found to be exactly zero."""
        for field, block in context.items():
            if field not in ("row", "idC") and not self._vanishes(block):
                raise BadInput(f"{self.built.program.name}, context field {field}: expected zeros, found others")
        return {field: context[field] for field in ("row", "idC")}

    def _vanishes(self, block: Any) -> bool:
        return not block.any() if isinstance(self.arithmetic, TorchArithmetic) else not any(block.entries())

    def table(self) -> np.ndarray:
        """Q, shape (n, A), float64 or fmpq."""
        row = self.context["row"]
        if isinstance(self.arithmetic, TorchArithmetic):
            return row.cpu().numpy()
        return np.array(row.tolist(), dtype=object)


@dataclass
class Tabular:
    """Q-learning on a table, by the scalar recursion Q + alpha ((r + g max) - Q); number is float64 or fmpq."""

    Q: np.ndarray
    number: Any

    def learn(self, x: Transition) -> None:
        """One step."""
        best = max(self.Q[x.successor]) if x.successor >= 0 else self.number(Fraction(0))
        old = self.Q[x.state, x.action]
        target = self.number(x.reward) + self.number(DISCOUNT) * best
        self.Q[x.state, x.action] = old + self.number(ALPHA) * (target - old)


def as_double(x: Fraction) -> np.float64:
    """A fraction rounded once."""
    return np.float64(x.numerator / x.denominator)


def as_rational(x: Fraction) -> fmpq:
    """A fraction."""
    return fmpq(x.numerator, x.denominator)


@dataclass
class Comparison:
    """What was counted over a run.

    Attributes:
        steps: learned from.
        policies: steps after which the greedy actions of every state agree.
        decisions: greedy steps at which S showed the table's greedy actions, of all greedy steps.
        tables: steps after which the tables are equal in every bit.
        returned: sum of all rewards.
        changed: entries of the table that are not what they were at the start.
        name: of the environment, with its version.
    """

    steps: int = 0
    policies: int = 0
    decisions: tuple[int, int] = (0, 0)
    tables: int = 0
    returned: Fraction = Fraction(0)
    changed: int = 0
    name: str = ""


def walk(name: str, steps: int, seed: int, arithmetic: Any, learner: Learner | None = None) -> Comparison:
    """Run the learner in an environment for some steps and compare it with the table after each.

    Raises:
        BadInput: as `environment`; or a reward beyond the declared bound.
    """
    world = environment(name)
    n, A = int(world.observation_space.n), int(world.action_space.n)
    learner = learner or Learner(n, A, BOUNDS[name], START[name], arithmetic)
    number = as_double if isinstance(arithmetic, TorchArithmetic) else as_rational
    start = number(Fraction(START[name]))
    tabular = Tabular(np.array([[start] * A for _ in range(n)]), number)
    found = Comparison(name=world.spec.id)
    for x, asked in _behaviour(world, learner, tabular, steps, seed):
        learner.learn(x)
        tabular.learn(x)
        mine = learner.table()
        found.steps += 1
        found.policies += bool((_greedy(mine) == _greedy(tabular.Q)).all())
        found.tables += bool((mine == tabular.Q).all())
        found.decisions = (found.decisions[0] + (asked is True), found.decisions[1] + (asked is not None))
        found.returned += x.reward
    found.changed = int(np.not_equal(tabular.Q, start).sum())
    return found


def _greedy(Q: np.ndarray) -> np.ndarray:
    """Which actions have the largest value, in every state."""
    largest = Q.max(axis=1, keepdims=True)
    return np.equal(Q, largest)


def _behaviour(
    world: Any, learner: Learner, tabular: Tabular, steps: int, seed: int
) -> Iterator[tuple[Transition, bool | None]]:
    """Transitions under the epsilon-greedy behaviour, each with whether the learner showed the table's greedy actions
    (None where the action was drawn at random)."""
    draw = np.random.Generator(np.random.PCG64(seed))
    state = int(world.reset(seed=seed)[0])
    for _ in range(steps):
        agreed = None
        if draw.random() < EPSILON:
            action = int(draw.integers(learner.built.sizes["A"]))
        else:
            best = learner.best(state)
            agreed = best == np.flatnonzero(_greedy(tabular.Q)[state]).tolist()
            action = int(draw.choice(best))
        successor, reward, terminated, truncated, _ = world.step(action)
        yield Transition(state, action, Fraction(float(reward)), TERMINAL if terminated else int(successor)), agreed
        state = int(world.reset()[0]) if terminated or truncated else int(successor)


def reproduce_environments(quick: bool = True, seed: int = 0, device: Any = "cpu") -> list[Row]:
    """Greedy policies equal to tabular Q-learning after every step, in float64 and (FrozenLake) in Q.

    Raises:
        BadInput: gymnasium is not installed, or a device that is not there.
    """
    rows: list[Row] = []
    runs: list[tuple[str, Any, int]] = [
        (name, TorchArithmetic("float64", device), QUICK_STEPS if quick else STEPS[name]) for name in STEPS
    ]
    runs.append(("FrozenLake-v1", RATIONALS, QUICK_STEPS if quick else EXACT_STEPS))
    for name, arithmetic, steps in runs:
        found = walk(name, steps, seed, arithmetic)
        right, asked = found.decisions
        rates = f"alpha = {ALPHA}, g = {DISCOUNT}, epsilon = {EPSILON}"
        setting = f"{found.name}, {steps} steps, {rates}, {arithmetic.name}, seed {seed}"
        detail = (
            f"{found.changed} entries learned, return {found.returned}; bit-equal tables after {found.tables} of"
            f" {steps} steps; greedy decisions shown {right} of {asked}"
        )
        rows.append(
            {
                "name": "online-environments",
                "quantity": f"{name}: steps after which the greedy policy is that of tabular Q-learning",
                "setting": setting,
                "source": steps,
                "ours": found.policies,
                "agrees": found.policies == steps and right == asked,
                "reason": detail,
                "seed": seed,
            }
        )
    return rows
