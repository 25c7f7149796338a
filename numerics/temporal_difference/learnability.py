"""td.learnability measured: gradient descent on the calibrated loss in floats, beside the rate that is certified.

The loss depends on the tasks through E[A] and E[A'A] alone, so one iteration is one product of a (2n x 2n) and a
(2n x n) matrix. Bound: with theta+ = theta - step gradient + rho_t, where rho_t is the rounding of an iteration, had
exactly in Q from the float iterates, distances obey e_{t+1} <= (1 - step low) e_t + |rho_t|, Frobenius norms. That
low <= lam_- and lam_+ <= 1 / step is decided in Q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import NDArray

from constructions.task import Task
from constructions.temporal_difference import learnability
from numerics.errors import error_against, exact_entries, round_up
from numerics.measurement import Measurement, timed
from numerics.tasks import dirichlet_chain
from numerics.torch_arithmetic import TorchArithmetic

ITERATIONS = 200


@dataclass(frozen=True)
class Moments:
    """E[A] and E[A'A] of a sample of tasks, each of shape (n, n).

    Attributes:
        mean, square: float64.
        low, high: bounds of the Hessian's eigenvalues: its own in float64, or certified ones.
    """

    mean: NDArray[np.float64]
    square: NDArray[np.float64]
    low: float
    high: float

    @property
    def hessian(self) -> NDArray[np.float64]:
        """[[2I, EA], [EA', E A'A]], shape (2n, 2n)."""
        return np.block([[2 * np.eye(len(self.mean)), self.mean], [self.mean.T, self.square]])


def closed_moments(A: NDArray[np.float64]) -> Moments:
    """Moments of transition matrices, shape (tasks, n, n), and the extreme eigenvalues of the Hessian, in float64."""
    mean, square = A.mean(axis=0), np.einsum("tji,tjk->ik", A, A) / len(A)
    values = np.linalg.eigvalsh(np.block([[2 * np.eye(len(mean)), mean], [mean.T, square]]))
    return Moments(mean, square, float(values[0]), float(values[-1]))


def gradient(hessian: Any, weights: Any, target: Any) -> Any:
    """Hessian [X; V] at weights [C'; W], shape (..., 2n, n); target [-I; I]."""
    return hessian @ (weights - target)


def target_of(n: int) -> NDArray[np.float64]:
    """[-I; I], the weights [C'; W] of the executor."""
    return np.vstack([-np.eye(n), np.eye(n)])


def exact_hessian(tasks: Sequence[Task]) -> fmpq_mat:
    """[[2I, EA], [EA', E A'A]] in Q."""
    n = learnability.same_states(learnability.THEOREM, tasks)
    first, *others = [task.A for task in tasks]
    mean = sum(others, first) * fmpq(1, len(tasks))
    first, *others = [task.A.transpose() * task.A for task in tasks]
    square = sum(others, first) * fmpq(1, len(tasks))
    rows = [[2 if i == j else 0 for j in range(n)] + mean.tolist()[i] for i in range(n)]
    rows += [mean.transpose().tolist()[i] + square.tolist()[i] for i in range(n)]
    return fmpq_mat(2 * n, 2 * n, [x for row in rows for x in row])


def certified_low(matrix: fmpq_mat, guess: float) -> Fraction:
    """A rational below the least eigenvalue, near the guess: the shifted matrix has positive pivots in Q."""
    low = Fraction(round(guess * 2**20), 2**20)
    while not _positive(matrix, low):
        low -= Fraction(1, 2**18)
    return low


def _positive(matrix: fmpq_mat, shift: Fraction) -> bool:
    rows = matrix.tolist()
    size = len(rows)
    for i in range(size):
        rows[i][i] -= fmpq(shift.numerator, shift.denominator)
    for i in range(size):
        if rows[i][i] <= 0:
            return False
        for j in range(i + 1, size):
            factor = rows[j][i] / rows[i][i]
            if factor != 0:
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    return True


def _norm_up(matrix: fmpq_mat) -> Fraction:
    """An upper bound of the Frobenius norm: the root of the square, rounded up twice."""
    square = sum((x * x for x in matrix.entries()), fmpq(0))
    return Fraction(math.nextafter(math.sqrt(round_up(square)), math.inf))


def measure_descent(tasks: Sequence[Task], arithmetic: TorchArithmetic, seed: int) -> Measurement:
    """`ITERATIONS` of gradient descent in floats, from entries N(0, 1/100), against (-I, I)."""
    n = tasks[0].n
    hessian = exact_hessian(tasks)
    values = np.linalg.eigvalsh(np.array([[float(x) for x in row] for row in hessian.tolist()]))
    low = certified_low(hessian, float(values[0]))
    step = -1 / certified_low(-hessian, -float(values[-1]))
    draw = np.random.Generator(np.random.PCG64(seed))
    matrix, target = arithmetic.matrix(hessian.tolist()), arithmetic.matrix(target_of(n))
    rate = float(step)
    start = arithmetic.matrix(0.1 * draw.standard_normal((2 * n, n)))

    def descend() -> list[Any]:
        path = [start]
        for _ in range(ITERATIONS):
            path.append(path[-1] - rate * gradient(matrix, path[-1], target))
        return path

    path, seconds = timed(arithmetic, descend)
    exact_target = fmpq_mat(2 * n, n, [fmpq(int(x)) for x in target_of(n).ravel()])
    weights = [fmpq_mat(2 * n, n, exact_entries(w)[1]) for w in path]
    factor = 1 - step * low
    distance = _norm_up(weights[0] - exact_target)
    slope = fmpq(step.numerator, step.denominator)
    for before, after in pairwise(weights):
        rounding = after - (before - hessian * (before - exact_target) * slope)
        distance = Fraction(round_up(factor * distance + _norm_up(rounding)))
    first, last = (float(_norm_up(w - exact_target)) for w in (weights[0], weights[ITERATIONS // 2]))
    measured = (last / first) ** (2 / ITERATIONS)
    return Measurement(
        theorem=learnability.THEOREM,
        task=f"{len(tasks)} tasks, the first {tasks[0].name}",
        arithmetic=arithmetic.name,
        sizes={"n": n, "tasks": len(tasks), "iterations": ITERATIONS},
        error=error_against(path[-1], exact_target),
        reference="(C', W) = (-I, I)",
        bound=float(distance),
        method="certified contraction, and the exact rounding of every iteration",
        seconds=seconds,
        seed=seed,
        flags=(f"distance times {measured:.5f} an iteration", f"certified: at most {float(factor):.5f}"),
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Descent on samples of chains with 4 and (full) 8 states.

    Raises:
        BadInput: an unknown dtype or device.
    """
    out = []
    for n, count in ((4, 20),) if quick else ((4, 20), (8, 40)):
        tasks = [dirichlet_chain(n=n, transitions=10 * n, seed=seed + i) for i in range(count)]
        out += [measure_descent(tasks, TorchArithmetic(dtype, device), seed) for dtype in dtypes]
    return out
