"""Curvature of the trajectory loss, and Gauss-Newton descent: what decides how fast weights are recovered (theory A9).

With T invertible and (C', W) = (-T, T) the free executor moves by F = I - (I - A) T, and

    v^_l = T sum_{j<l} F^j r = (I - (I - T (I - A))^l) (I - A)^-1 r:

the limit is that of T = I for every T, so late depths say next to nothing about the n^2 directions (M, -M), while the
largest eigenvalue comes from them. First-order descent crawls along these directions; second-order descent does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from numerics.temporal_difference.learnability import target_of
from numerics.temporal_difference.recovery import Sampled, estimated_values

MOST_STEPS = 60
SMALLEST_DAMPING, LARGEST_DAMPING = 1e-12, 1e6


def first_tasks(sampled: Sampled, tasks: int) -> Sampled:
    """The first tasks of a sample."""
    return Sampled(sampled.A[:tasks], sampled.r[:tasks], sampled.values[:tasks])


@dataclass(frozen=True)
class NormalEquations:
    """Of the residuals e = v^_l - v_l of all tasks and depths, with Jacobian J, by the 2n^2 entries of [C'; W].

    Attributes:
        matrix, right: J'J, shape (2n^2, 2n^2), and J'e, shape (2n^2,), both divided by tasks x L x n.
        loss: the mean square of e.
    """

    matrix: NDArray[np.float64]
    right: NDArray[np.float64]
    loss: float


def normal_equations(weights: NDArray[np.float64], sampled: Sampled) -> NormalEquations:
    """At the weights [C'; W] of one start, shape (2n, n).

    dv_l = -dC' S_l - C' dS_l and dS_{l+1} = F dS_l + (dC' + A dW) S_l.
    """
    tasks, depth, n = sampled.values.shape
    C, W = weights[:n], weights[n:]  # C transposed, as everywhere in this module
    unit = np.eye(n)
    matrix, right, loss = np.zeros((2 * n * n, 2 * n * n)), np.zeros(2 * n * n), 0.0
    for A, r, values in zip(sampled.A, sampled.r, sampled.values, strict=True):
        F = unit + C + A @ W
        state, moved = r, np.zeros((n, 2 * n * n))
        jacobian, residual = np.empty((depth, n, 2 * n * n)), np.empty((depth, n))
        for l in range(depth):
            by_C = np.kron(unit, state)
            jacobian[l] = -(C @ moved)
            jacobian[l, :, : n * n] -= by_C
            residual[l] = -(C @ state) - values[l]
            moved = F @ moved
            moved[:, : n * n] += by_C
            moved[:, n * n :] += np.kron(A, state)
            state = r + F @ state
        J, e = jacobian.reshape(depth * n, -1), residual.ravel()
        matrix += J.T @ J
        right += J.T @ e
        loss += float(e @ e)
    return NormalEquations(matrix / (tasks * depth * n), right / (tasks * depth * n), loss / (tasks * depth * n))


@dataclass(frozen=True)
class Curvature:
    """Eigenvalues of the trajectory loss's Hessian J'J at (-I, I), where the loss is zero.

    Attributes:
        eigenvalues: ascending, shape (2n^2,).
        vectors: in columns.
    """

    eigenvalues: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue."""
        return float(self.eigenvalues[-1] / self.eigenvalues[0])

    @property
    def slow_share(self) -> float:
        """Mean squared length, within the n^2 directions (M, -M), of the n^2 eigenvectors of least eigenvalue."""
        half = len(self.eigenvalues) // 2
        slow = self.vectors[:, :half]
        return float((((slow[:half] - slow[half:]) ** 2) / 2).sum() / half)

    def predicted(self, weights: NDArray[np.float64], steps: int) -> float:
        """Parameter error of gradient descent with step 1/lam_max, were the loss its quadratic part at (-I, I)."""
        n = weights.shape[-1]
        parts = self.vectors.T @ (weights - target_of(n)).ravel()
        left = (1 - self.eigenvalues / self.eigenvalues[-1]) ** steps
        return float(np.linalg.norm(left * parts) / math.sqrt(2 * n))


def curvature(sampled: Sampled) -> Curvature:
    """From all tasks of the sample."""
    return Curvature(*np.linalg.eigh(normal_equations(target_of(sampled.r.shape[1]), sampled).matrix))


def levenberg_marquardt(
    weights: NDArray[np.float64], sampled: Sampled, most_steps: int = MOST_STEPS
) -> tuple[NDArray[np.float64], int]:
    """Minimises the trajectory loss from the weights of one start; the weights found, and the number of steps.

    A step solves (J'J + d I) x = -J'e; d, in units of J'J's mean diagonal, shrinks tenfold after a step that lowers the
    loss and grows tenfold until one does. It ends where a step is below 1e-12 of the weights, or nothing lowers the
    loss.
    """
    damping, steps = 1e-2, 0
    unit = np.eye(weights.size)
    while steps < most_steps:
        equations = normal_equations(weights, sampled)
        scale = np.trace(equations.matrix) / weights.size
        while True:
            step = np.linalg.solve(equations.matrix + damping * scale * unit, -equations.right).reshape(weights.shape)
            if np.linalg.norm(step) <= 1e-12 * np.linalg.norm(weights):
                return weights + step, steps + 1
            if trajectory_loss(weights + step, sampled) < equations.loss:
                break
            damping *= 10
            if damping > LARGEST_DAMPING:
                return weights, steps
        weights, steps, damping = weights + step, steps + 1, max(damping / 10, SMALLEST_DAMPING)
    return weights, steps


def trajectory_loss(weights: NDArray[np.float64], sampled: Sampled) -> float:
    """Mean square of v^_l - v_l at the weights [C'; W] of one start."""
    import torch

    start, A, r = (torch.from_numpy(x) for x in (weights[None], sampled.A, sampled.r))
    found = estimated_values(start, A, r, sampled.values.shape[1]).numpy()[:, 0]
    return float(((found - sampled.values.transpose(1, 2, 0)) ** 2).mean())
