"""Decision processes with exact transition tables, their policies as tasks, and sequences of improving policies.

A policy turns a table into a task whose log lists every outcome once for each unit of a common denominator: its counts
give P and its means give r exactly. Probabilities are fractions; those of gymnasium's tables are floats and are read as
the nearest fraction with a denominator up to 1000 (FrozenLake's .333.. as 1/3). Values, comparisons and ties are exact.
Draws come from numpy's PCG64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq_mat

from constructions.errors import BadInput
from constructions.task import Task, exact_discount
from numerics.tasks import GRID

Outcome = tuple[Fraction, int, Fraction | int | float, bool]
"""Probability, next state, reward, whether it is terminal."""

Policy = tuple[tuple[Fraction, ...], ...]
"""For each state the probability of each action."""

LARGEST_DENOMINATOR = 1000
UNITS = 16
"""Probabilities of random processes are multiples of 1 / UNITS, so that the logs of policies stay short."""


@dataclass(frozen=True)
class DecisionProcess:
    """A finite Markov decision process.

    Attributes:
        table: for each state and action its outcomes; probabilities sum to one.
        discount: g.
        name: where it comes from, with its seed.

    Raises:
        BadInput: no state, no action, an outcome beyond the states, or probabilities that do not sum to one.
    """

    table: tuple[tuple[tuple[Outcome, ...], ...], ...]
    discount: Fraction
    name: str

    def __post_init__(self) -> None:
        if not self.table or not all(self.table):
            raise BadInput(f"{self.name}: expected at least one state and one action in each, found none")
        for state, actions in enumerate(self.table):
            for action, outcomes in enumerate(actions):
                total = sum(p for p, *_ in outcomes)
                if total != 1 or any(p < 0 for p, *_ in outcomes):
                    raise BadInput(
                        f"{self.name}, state {state}, action {action}: expected probabilities that sum to 1,"
                        f" found {total}"
                    )
                if any(not 0 <= successor < len(self.table) for _, successor, _, _ in outcomes):
                    raise BadInput(f"{self.name}, state {state}, action {action}: found an outcome beyond the states")

    @property
    def n(self) -> int:
        """Number of states."""
        return len(self.table)


def random_process(
    n: int = 8, actions: int = 3, branching: int = 3, discount: Any = "9/10", seed: int = 0
) -> DecisionProcess:
    """Every state and action has `branching` uniform successors, probabilities in 16ths, and one normal reward.

    Raises:
        BadInput: a size that is not positive, or more than 16 successors.
    """
    for what, value in (("states", n), ("actions", actions), ("outcomes", branching)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInput(f"random_process: expected a positive number of {what}, found {value!r}")
    if branching > UNITS:
        raise BadInput(f"random_process: expected at most {UNITS} outcomes, found {branching}")
    draw = np.random.Generator(np.random.PCG64(seed))

    def outcomes() -> tuple[Outcome, ...]:
        weights = (1 + draw.multinomial(UNITS - branching, [1 / branching] * branching)).tolist()
        reward = float(np.rint(draw.standard_normal() * GRID / 4) / GRID)
        successors = draw.integers(n, size=branching).tolist()
        return tuple((Fraction(w, UNITS), s, reward, False) for w, s in zip(weights, successors, strict=True))

    table = tuple(tuple(outcomes() for _ in range(actions)) for _ in range(n))
    g = exact_discount(discount)
    name = f"random_process(n={n}, actions={actions}, branching={branching}, g={g}, seed={seed})"
    return DecisionProcess(table, g, name)


def gymnasium_process(name: str, discount: Any = "9/10", **options: Any) -> DecisionProcess:
    """The transition table of a gymnasium environment such as ``"FrozenLake-v1"``.

    Raises:
        BadInput: gymnasium is not installed, no such environment, or one without a finite table.
    """
    try:
        import gymnasium
    except ImportError:
        raise BadInput(
            f'{name}: expected gymnasium to be installed (pip install "contextproof[examples]"), found none'
        ) from None
    try:
        environment = gymnasium.make(name, **options).unwrapped
    except gymnasium.error.Error as error:
        raise BadInput(f"{name}: expected an environment of gymnasium, found {' '.join(str(error).split())}") from error
    table = getattr(environment, "P", None)
    if table is None:
        raise BadInput(f"{name}: expected an environment with a transition table P, found none")
    states = tuple(
        tuple(
            tuple(
                (_probability(p), int(successor), Fraction(reward), bool(done))
                for p, successor, reward, done in table[state][action]
            )
            for action in sorted(table[state])
        )
        for state in sorted(table)
    )
    g = exact_discount(discount)
    return DecisionProcess(states, g, f"{name} (gymnasium {gymnasium.__version__}, g={g})")


def _probability(p: float) -> Fraction:
    return Fraction(p).limit_denominator(LARGEST_DENOMINATOR)


def deterministic(process: DecisionProcess, actions: Sequence[int]) -> Policy:
    """The policy that takes one action a state."""
    return tuple(
        tuple(Fraction(int(a == action)) for a in range(len(process.table[state])))
        for state, action in enumerate(actions)
    )


def soft(process: DecisionProcess, actions: Sequence[int], epsilon: Fraction) -> Policy:
    """The same with probability 1 - epsilon, and a uniform action else."""
    return tuple(
        tuple(Fraction(epsilon, len(own)) + (1 - epsilon) * int(a == action) for a in range(len(own)))
        for own, action in zip(process.table, actions, strict=True)
    )


def policy_task(process: DecisionProcess, policy: Policy, name: str) -> Task:
    """The task of a policy; every outcome occurs as often as its probability times the state's common denominator."""
    states: list[int] = []
    successors: list[int] = []
    rewards: list[Any] = []
    terminal: list[bool] = []
    for state, (actions, weights) in enumerate(zip(process.table, policy, strict=True)):
        outcomes = [
            (w * p, successor, reward, done)
            for w, own in zip(weights, actions, strict=True)
            if w
            for p, successor, reward, done in own
            if p
        ]
        common = math.lcm(*(p.denominator for p, *_ in outcomes))
        for p, successor, reward, done in outcomes:
            times = int(p * common)
            states += [state] * times
            successors += [successor] * times
            rewards += [reward] * times
            terminal += [done] * times
    # Rewards as floats where that is exact (it is for all processes here), so that sums of logs stay cheap.
    exact = [Fraction(x) for x in rewards]
    floats = np.array([float(x) for x in exact])
    same = all(Fraction(x) == y for x, y in zip(floats.tolist(), exact, strict=True))
    return Task(
        np.array(states, dtype=np.int64),
        np.array(successors, dtype=np.int64),
        floats if same else np.array(exact, dtype=object),
        np.array(terminal, dtype=bool),
        process.n,
        process.discount,
        f"{process.name}, {name}",
    )


def action_values(process: DecisionProcess, values: Sequence[Fraction]) -> list[list[Fraction]]:
    """r + g P v of every action, for each state, in Q."""
    g = process.discount
    return [
        [
            sum((p * (Fraction(x) + (0 if done else g * values[s])) for p, s, x, done in own), Fraction(0))
            for own in actions
        ]
        for actions in process.table
    ]


def greedy(worth: Sequence[Sequence[Fraction]], current: Sequence[int] | None = None) -> list[int]:
    """For each state an action of largest worth: the current one if it is among them, else the first."""
    chosen = [own.index(max(own)) for own in worth]
    if current is not None:
        chosen = [old if own[old] == own[new] else new for own, old, new in zip(worth, current, chosen, strict=True)]
    return chosen


def exact_values(task: Task) -> list[Fraction]:
    """(I - A)^-1 r in Q."""
    n = task.n
    identity = fmpq_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
    return [Fraction(int(x.p), int(x.q)) for x in (identity - task.A).solve(task.r).entries()]


def policy_iteration(process: DecisionProcess, epsilon: Any = 0) -> Iterator[Task]:
    """From "always action 0" to a policy that is greedy for its own values; soft ones where epsilon > 0."""
    share = Fraction(epsilon)
    actions = [0] * process.n
    for step in range(process.n * max(map(len, process.table))):
        name = f"policy {step + 1} of iteration" + (f", epsilon={share}" if share else "")
        task = policy_task(process, soft(process, actions, share), name)
        yield task
        improved = greedy(action_values(process, exact_values(task)), actions)
        if improved == actions:
            return
        actions = improved


def value_iteration(process: DecisionProcess, steps: int) -> Iterator[Task]:
    """The greedy policies of v_0 = 0, v_{t+1} = max_a r_a + g P_a v_t, each new one once, for `steps` values."""
    values = [Fraction(0)] * process.n
    seen: set[tuple[int, ...]] = set()
    for step in range(steps):
        worth = action_values(process, values)
        actions = greedy(worth)
        if tuple(actions) not in seen:
            seen.add(tuple(actions))
            yield policy_task(process, deterministic(process, actions), f"greedy for v_{step}")
        values = [own[action] for own, action in zip(worth, actions, strict=True)]
