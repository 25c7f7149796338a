"""Evaluation tasks: a sampled log of transitions, and the classes of tasks that theorems quantify over.

Setting (theory A0): N transitions (S_t, R_t, S'_t) over n states, public discount 0 < g < 1. Counts N_ij, visits N_i,
P_ij = N_ij / N_i, r_i = (sum of rewards from i) / N_i, A = g P. A terminal successor has value 0: it drops out of its
row, so P may be sub-stochastic. Every state that can be valued occurs at least once as S_t (full coverage).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import NDArray

from .errors import BadInput
from .exact_sums import exact_group_sums

SHOWN_TRANSITIONS = 40
"""A counterexample shows logs up to this length."""


def exact_discount(value: object) -> Fraction:
    """The discount as an exact fraction; a string such as ``"0.9"`` or ``"9/10"`` is read as written.

    Raises:
        BadInput: not a finite number, or outside the open interval (0, 1).
    """
    return inside_unit_interval("discount", value)


def inside_unit_interval(name: str, value: object) -> Fraction:
    """A number strictly between 0 and 1 as an exact fraction; `name` says in messages what it is.

    Raises:
        BadInput: not a finite number, or outside the open interval (0, 1).
    """
    try:
        # A written exponent such as 1e-999999999 would be expanded digit by digit: nobody needs a long one.
        exponent = re.search(r"[eE][+-]?0*(\d+)", value) if isinstance(value, str) else None
        if exponent and len(exponent[1]) > 3:
            raise ValueError
        number = Fraction(value)  # type: ignore[call-overload]
    except (ValueError, TypeError, OverflowError, ZeroDivisionError):
        raise BadInput(f"{name}: expected a number strictly between 0 and 1, found {value}") from None
    if not 0 < number < 1:
        raise BadInput(f"{name}: expected a number strictly between 0 and 1, found {value}")
    return number


class AnyTask(Protocol):
    """What every kind of task offers, whatever its theorem: name with seed, size, and a text for counterexamples."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> tuple[int, ...]:
        """Sizes that order tasks from small to large."""

    def describe(self) -> dict[str, Any]:
        """The task as a short document, in full where it is small."""


class TaskStatistics:
    """What a log leaves once it is counted, all exact: everything that depends on a task through (A, r, N).

    Attributes:
        n: number of states.
        discount: g.
        name: where the task comes from; recorded with every result.
        transitions: N, their number.
        pairs: i, j and N_ij of the pairs that occur, int64, ascending in (i, j); terminal successors are in no pair.
        visits: N_i, int64, shape (n,); terminal transitions count.
        reward_sums: sum of R_t over the transitions from each state, exact, length n.
    """

    n: int
    discount: Fraction
    name: str

    if TYPE_CHECKING:  # a subclass counts them, or holds them as fields

        @property
        def transitions(self) -> int: ...
        @property
        def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]: ...
        @property
        def visits(self) -> NDArray[np.int64]: ...
        @property
        def reward_sums(self) -> list[Fraction]: ...

    @property
    def size(self) -> tuple[int, ...]:
        """(n, N)."""
        return self.n, self.transitions

    @cached_property
    def terminal_transitions(self) -> int:
        """Number of transitions into a terminal successor."""
        return self.transitions - int(self.pairs[2].sum())

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """N_ij, int64, shape (n, n); transitions into a terminal successor are in no column."""
        dense = np.zeros((self.n, self.n), dtype=np.int64)
        i, j, times = self.pairs
        dense[i, j] = times
        return dense

    @cached_property
    def A(self) -> fmpq_mat:
        """A = g P, exact, shape (n, n): the direct count, no attention involved."""
        g = fmpq(self.discount.numerator, self.discount.denominator)
        visits = self.visits.tolist()
        rows = self.counts.tolist()
        return fmpq_mat(self.n, self.n, [g * fmpq(c, visits[i]) for i in range(self.n) for c in rows[i]])

    @cached_property
    def r(self) -> fmpq_mat:
        """r, exact, shape (n, 1)."""
        visits = self.visits.tolist()
        means = [total / visits[i] for i, total in enumerate(self.reward_sums)]
        return fmpq_mat(self.n, 1, [fmpq(x.numerator, x.denominator) for x in means])


@dataclass(frozen=True, eq=False)
class Task(TaskStatistics):
    """A log of transitions over states 0..n-1, with exact rewards and discount.

    Attributes:
        states: S_t, int64, shape (N,).
        successors: S'_t, int64, shape (N,); ignored where `terminal`.
        rewards: R_t exact rationals (`Fraction` objects), or floats that stand for their binary value; shape (N,).
        terminal: whether S'_t is terminal, bool, shape (N,).
        n: number of states.
        discount: g.
        name: where the task comes from, with its seed; recorded with every result.

    Raises:
        BadInput: shapes differ, no transition, an index out of range, a reward that is not finite, an unvisited state,
            or a discount outside (0, 1).
    """

    states: NDArray[np.int64]
    successors: NDArray[np.int64]
    rewards: NDArray
    terminal: NDArray[np.bool_]
    n: int
    discount: Fraction
    name: str = "task"

    def __post_init__(self) -> None:
        states = np.asarray(self.states)
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "successors", np.asarray(self.successors))
        object.__setattr__(self, "rewards", np.asarray(self.rewards))
        object.__setattr__(self, "terminal", np.asarray(self.terminal))
        object.__setattr__(self, "discount", exact_discount(self.discount))
        if states.ndim != 1 or states.size == 0:
            raise BadInput(f"{self.name}: expected at least one transition in a flat array, found shape {states.shape}")
        for field in ("successors", "rewards", "terminal"):
            shape = getattr(self, field).shape
            if shape != states.shape:
                raise BadInput(f"{self.name}: expected {field} of shape {states.shape}, found {shape}")
        for field in ("states", "successors"):
            array = getattr(self, field)
            if array.dtype.kind not in "iu":
                raise BadInput(f"{self.name}: expected integer {field}, found dtype {array.dtype}")
        if self.terminal.dtype != np.bool_:
            raise BadInput(f"{self.name}: expected boolean terminal flags, found dtype {self.terminal.dtype}")
        going = ~self.terminal
        for field, array in (("states", states), ("successors", self.successors[going])):
            if array.size and (array.min() < 0 or array.max() >= self.n):
                bad = array[(array < 0) | (array >= self.n)][0]
                raise BadInput(f"{self.name}: expected {field} between 0 and {self.n - 1}, found {bad}")
        if self.rewards.dtype.kind == "f" and not np.isfinite(self.rewards).all():
            row = int(np.flatnonzero(~np.isfinite(self.rewards))[0])
            raise BadInput(f"{self.name}: expected finite rewards, found {self.rewards[row]} in transition {row}")
        if self.rewards.dtype.kind not in "fiuO":
            raise BadInput(f"{self.name}: expected numeric rewards, found dtype {self.rewards.dtype}")
        missing = np.flatnonzero(self.visits == 0)
        if missing.size:
            raise BadInput(
                f"{self.name}: expected every state to start a transition, found none from state {missing[0]}"
                + (f" (and {missing.size - 1} more)" if missing.size > 1 else "")
            )

    @property
    def transitions(self) -> int:
        """N, the number of transitions."""
        return int(self.states.size)

    def describe(self) -> dict[str, Any]:
        """Discount and number of transitions; of a small log every transition."""
        document: dict[str, Any] = {"discount": str(self.discount), "transitions": self.transitions}
        if self.transitions <= SHOWN_TRANSITIONS:
            document["log"] = [
                f"{s} -> {'terminal' if done else t}, reward {x}"
                for s, t, x, done in zip(
                    self.states.tolist(),
                    self.successors.tolist(),
                    self.exact_rewards,
                    self.terminal.tolist(),
                    strict=True,
                )
            ]
        return document

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """i, j and N_ij of the pairs that occur, ascending in (i, j); terminal successors are in no pair."""
        going = ~self.terminal
        flat = self.states[going].astype(np.int64) * self.n + self.successors[going].astype(np.int64)
        keys, times = np.unique(flat, return_counts=True)
        i, j = np.divmod(keys, self.n)
        return i, j, times

    @cached_property
    def visits(self) -> NDArray[np.int64]:
        """N_i, int64, shape (n,); terminal transitions count."""
        return np.bincount(self.states, minlength=self.n)

    @cached_property
    def exact_rewards(self) -> list[Fraction]:
        """R_t as exact fractions, length N."""
        return [Fraction(x) for x in self.rewards.tolist()]

    @cached_property
    def reward_sums(self) -> list[Fraction]:
        """sum of R_t over the transitions from each state, exact, length n."""
        return exact_group_sums(self.states, self.rewards, self.n)


@dataclass(frozen=True)
class TaskClass:
    """What a theorem quantifies over, with membership decided in Q.

    Attributes:
        name: short name, as theorems cite it.
        statement: one sentence.
        objection: None for a member, else one sentence that says why the task is not in the class.
    """

    name: str
    statement: str
    objection: Callable[[Any], str | None]

    def require(self, task: AnyTask) -> None:
        """Raise `BadInput` unless the task is in the class."""
        reason = self.objection(task)
        if reason is not None:
            raise BadInput(f"{task.name}: expected a task of class {self.name} ({self.statement}), found {reason}")


def _rows_sum_to_one(task: Task) -> str | None:
    short = np.flatnonzero(task.counts.sum(axis=1) != task.visits)
    return f"a terminal successor in row {short[0]}" if short.size else None


SUB_STOCHASTIC = TaskClass("sub-stochastic", "full coverage; rows of P sum to at most one", lambda task: None)
STOCHASTIC = TaskClass("stochastic", "full coverage; rows of P sum to one, no terminal successor", _rows_sum_to_one)
