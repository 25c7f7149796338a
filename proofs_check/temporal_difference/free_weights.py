"""The executor with free weights on samples of tasks: outputs as polynomials in C and W, their derivatives in Q."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import sympy as sp
from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.layers import Public
from constructions.program import Program
from constructions.symbols import Polynomials, symbol_names
from constructions.task import Task
from constructions.temporal_difference import executor, learnability


@dataclass(frozen=True, eq=False)
class Sample:
    """Tasks with one number of states, and a program with free weights built for them.

    Attributes:
        tasks: of n states each.
        depth: steps of the program.
        program: its weights are polynomials in the symbols C_i_j and W_i_j.
    """

    tasks: tuple[Task, ...]
    depth: int
    program: Program

    @property
    def n(self) -> int:
        return self.tasks[0].n

    def __str__(self) -> str:
        return f"n = {self.n}, L = {self.depth}, {len(self.tasks)} tasks"

    @property
    def names(self) -> dict[str, Any]:
        """Sizes and tasks, for evidence."""
        return {"n": self.n, "L": self.depth, "tasks": [task.name for task in self.tasks]}


def generic_weight(name: str) -> Public:
    """The matrix of the symbols ``name_i_j``."""
    return Public(name, lambda rows, cols: [[sp.Symbol(f"{name}_{i}_{j}") for j in range(cols)] for i in range(rows)])


def sample(tasks: Sequence[Task], depth: int) -> Sample:
    """The sample of these tasks, with the program as built."""
    n = learnability.same_states("sample", tasks)
    program = learnability.free_program(n, depth, generic_weight("C"), generic_weight("W"))
    return Sample(tuple(tasks), depth, program)


@lru_cache(maxsize=16)
def ring(n: int) -> Polynomials:
    """Q[C, W], 2 n^2 symbols: C by rows, then W by rows."""
    return Polynomials(symbol_names(C=(n, n), W=(n, n)), rational=True)


def weights_at(n: int, c: Any, w: Any) -> list[Any]:
    """The values of all symbols at (c I, w I)."""
    unit = [[int(i == j) for j in range(n)] for i in range(n)]
    return [factor * x for factor in (c, w) for row in unit for x in row]


def trajectories(chosen: Sample) -> list[Any]:
    """-c_l(q) as polynomials: task by task, depth by depth from 1, state by state."""
    a = ring(chosen.n)
    out: list[Any] = []
    for task in chosen.tasks:
        tokens = learnability.state_tokens(a.matrix(task.A.tolist()), a.matrix(task.r.tolist()), a)
        out += list(executor.VALUES.rows(chosen.program.steps(tokens, a), chosen.n, a)[1:].ravel())
    return out


def calibrated_loss(chosen: Sample) -> Any:
    """J as a polynomial: u runs over the unit vectors, whose sum of u u' is I; the mean over the tasks."""
    a = ring(chosen.n)
    total = a.scalar(0)
    for task in chosen.tasks:
        A = a.matrix(task.A.tolist())
        for i in range(chosen.n):
            for x in learnability.residuals(chosen.program, A, a.one_hot([i], chosen.n), a).ravel():
                total += x * x
    return total * fmpq(1, 2 * len(chosen.tasks))


def jacobian(outputs: Sequence[Any], point: Sequence[Any]) -> fmpq_mat:
    """Derivatives in Q, a row for each output, a column for each symbol."""
    width = len(point)
    entries = [fmpq(x.derivative(j)(*point)) for x in outputs for j in range(width)]
    return fmpq_mat(len(outputs), width, entries)


def moment(tasks: Sequence[Task], function: Any) -> fmpq_mat:
    """The mean over the tasks of a matrix in Q."""
    first, *others = [function(task) for task in tasks]
    return sum(others, first) * fmpq(1, len(tasks))


def kronecker(a: fmpq_mat, b: fmpq_mat) -> fmpq_mat:
    """The matrix with blocks a_ij b."""
    rows = [[x * b for x in row] for row in a.tolist()]
    return RATIONALS.stack(rows)


def negative_eigenvalues(matrix: fmpq_mat) -> int:
    """How many eigenvalues of a symmetric matrix are negative, exactly.

    All roots of its characteristic polynomial are real, so by Descartes' rule the positive roots of p(-x) are as many
    as p(-x) has changes of sign.
    """
    coefficients = matrix.charpoly().coeffs()
    signs = [c > 0 if i % 2 == 0 else c < 0 for i, c in enumerate(coefficients) if c != 0]
    return sum(a != b for a, b in pairwise(signs))
