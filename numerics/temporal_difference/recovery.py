"""Recovering the executor's weights by descent: calibrated, trajectory and end-point losses (theory A7, A9).

The parameters are C and W of `constructions.temporal_difference.learnability`, from entries N(0, 1/100^2); the figure
is |(C + I, W - I)|_F / sqrt(2 n), which is 1 at C = W = 0. Initialisations are paired: every loss starts from the same
ones, and all of them train side by side as one batch. With S_0 = 0,

    S_{l+1} = r + S_l + C'S_l + A (W S_l),   v^_l = -C'S_l,

which a test compares with the built layer. The calibrated loss depends on the tasks through E[A] and E[A'A] only, so
its descent takes seconds; the other two draw minibatches, by a seed and the number of the step, so that a run can be
stopped and resumed anywhere and ends in the same weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from numerics.checkpoints import Announce, checkpoint_path, read_checkpoint, write_checkpoint
from numerics.temporal_difference.learnability import Moments, gradient, target_of
from numerics.torch_arithmetic import parse_device

MOMENTS = ("exp_avg", "exp_avg_sq")
"""Adam's state beside its step."""


@dataclass(frozen=True)
class Setting:
    """The tasks and initialisations of one experiment.

    Attributes:
        states, depth, tasks, starts: n, L, number of tasks and of initialisations.
        concentration: of the Dirichlet rows of P; each state is then sampled `visits` times.
        seed: of tasks and initialisations.
    """

    states: int = 24
    depth: int = 30
    tasks: int = 2400
    starts: int = 5
    concentration: float = 0.1
    discount: float = 0.9
    visits: int = 40
    deviation: float = 0.01
    seed: int = 0

    def __str__(self) -> str:
        return (
            f"n={self.states}, L={self.depth}, g={self.discount}, {self.tasks} tasks, rows Dirichlet"
            f"({self.concentration:g}), {self.visits} visits a state, {self.starts} starts N(0, {self.deviation:g}^2)"
        )


@dataclass(frozen=True)
class Training:
    """How a loss is minimised: Adam with a cosine from `rate` to 0, gradients clipped to norm 1 start by start.

    Attributes:
        loss: "trajectory", the mean square of v^_l - v_l over all depths, or "end point", at depth L alone.
        steps, rate, batch: number of steps, first learning rate, tasks drawn in a step.
    """

    loss: str
    steps: int
    rate: float = 0.03
    batch: int = 32


@dataclass(frozen=True)
class Sampled:
    """A, r and the iterates v_1 .. v_L of all tasks: shapes (tasks, n, n), (tasks, n), (tasks, L, n)."""

    A: NDArray[np.float64]
    r: NDArray[np.float64]
    values: NDArray[np.float64]


def sample_tasks(setting: Setting) -> Sampled:
    """Rows of P are Dirichlet, sampled `visits` times each; rewards uniform in [-1, 1]."""
    draw = np.random.Generator(np.random.PCG64([setting.seed, 0]))
    n, count = setting.states, setting.tasks
    weights = draw.standard_gamma(setting.concentration, (count, n, n))
    weights[weights.sum(axis=-1) == 0] = 1.0
    A = setting.discount * draw.multinomial(setting.visits, weights / weights.sum(-1, keepdims=True)) / setting.visits
    r = draw.uniform(-1.0, 1.0, (count, n))
    values, v = [], np.zeros_like(r)
    for _ in range(setting.depth):
        v = r + np.einsum("tij,tj->ti", A, v)
        values.append(v)
    return Sampled(A, r, np.stack(values, axis=1))


def start_weights(setting: Setting) -> NDArray[np.float64]:
    """[C'; W] of every start, shape (starts, 2n, n)."""
    draw = np.random.Generator(np.random.PCG64([setting.seed, 1]))
    return setting.deviation * draw.standard_normal((setting.starts, 2 * setting.states, setting.states))


def parameter_errors(weights: Any) -> list[float]:
    """|(C + I, W - I)|_F / sqrt(2n) of each start."""
    weights = np.asarray(weights)
    n = weights.shape[-1]
    return (np.linalg.norm(weights - target_of(n), axis=(1, 2)) / math.sqrt(2 * n)).tolist()


def descend_quadratic(moments: Moments, weights: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """Gradient descent on the calibrated loss with step 1 / lam_+."""
    hessian, target = moments.hessian, target_of(weights.shape[-1])
    for _ in range(steps):
        weights = weights - gradient(hessian, weights, target) / moments.high
    return weights


def adam_quadratic(
    moments: Moments, weights: NDArray[np.float64], steps: int, rate: float = 0.03, *, decaying: bool = True
) -> NDArray[np.float64]:
    """Adam on the calibrated loss, with a cosine from `rate` to 0 or a constant rate."""
    import torch

    hessian, target = torch.from_numpy(moments.hessian), torch.from_numpy(target_of(weights.shape[-1]))
    parameter = torch.nn.Parameter(torch.from_numpy(weights.copy()))
    optimiser = torch.optim.Adam([parameter], lr=rate)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = cosine(rate, step, steps) if decaying else rate
        parameter.grad = gradient(hessian, parameter.detach(), target)
        optimiser.step()
    return parameter.detach().numpy()


def cosine(rate: float, step: int, steps: int) -> float:
    """From `rate` to 0 along half a cosine."""
    return 0.5 * rate * (1 + math.cos(math.pi * step / steps))


def estimated_values(weights: Any, A: Any, r: Any, depth: int) -> Any:
    """v^_1 .. v^_L as tensors, shape (L, starts, n, tasks); weights (starts, 2n, n), A (tasks, n, n), r (tasks, n)."""
    import torch

    n = weights.shape[-1]
    C, W = weights[:, :n], weights[:, n:]  # C transposed, as everywhere in this module
    reward = r.mT.unsqueeze(0)
    state = reward.expand(len(weights), -1, -1)
    states = [state]
    for _ in range(depth - 1):
        moved = (A @ (W @ state).permute(2, 1, 0)).permute(2, 1, 0)
        state = reward + state + C @ state + moved
        states.append(state)
    return -(C @ torch.stack(states))


def loss_gradient(weights: Any, A: Any, r: Any, values: Any, *, end_point: bool) -> Any:
    """Gradient of half the mean square of v^_l - v_l, for every start: by the adjoint recursion, as tensors.

    With G_l the derivative by v^_l, y_l = -C G_l + F'y_{l+1} is that by S_l; F gets sum_l y_{l+1} S_l', and from there
    C' and W. (Written out, it takes a quarter of the time of automatic differentiation, which a test compares it with.)
    States and adjoints are rows, one a depth; the factor on their right lies in memory column by column, so that small
    batched products read it in order, which halves their time.

    Args:
        weights: [C'; W], shape (starts, 2n, n).
        A, r, values: shapes (tasks, n, n), (tasks, n), (tasks, L, n).
        end_point: only depth L counts.
    """
    import torch

    starts, n, tasks, depth = len(weights), A.shape[-1], len(A), values.shape[1]
    C, W = weights[:, :n], weights[:, n:]  # C transposed
    F = (A @ W[:, None] + C[:, None] + torch.eye(n, dtype=A.dtype, device=A.device)).reshape(starts * tasks, n, n)
    reward = r.expand(starts, -1, -1).reshape(starts * tasks, 1, n)
    states = [reward]
    for _ in range(depth - 1):
        states.append(reward + states[-1] @ F.mT)
    S = torch.cat(states, 1)
    grouped = S.reshape(starts, tasks * depth, n)
    G = -(grouped @ C.mT).reshape(starts, tasks, depth, n) - values
    if end_point:
        G[..., :-1, :] = 0
    G = G.reshape(starts, tasks * depth, n) / (tasks * n * (1 if end_point else depth))
    direct = -(G @ C).reshape(starts * tasks, depth, n)
    F_by_columns = F.mT.contiguous().mT
    adjoints = [direct[:, -1:]]
    for l in range(depth - 2, -1, -1):
        adjoints.append(direct[:, l : l + 1] + adjoints[-1] @ F_by_columns)
    later = torch.cat(adjoints[-2::-1], 1)
    by_F = (later.mT @ S[:, :-1]).reshape(starts, tasks, n, n)
    by_C = by_F.sum(1) - G.mT @ grouped
    by_W = A.reshape(tasks * n, n).mT @ by_F.reshape(starts, tasks * n, n)
    return torch.cat([by_C, by_W], dim=1)


def train(
    setting: Setting,
    training: Training,
    sampled: Sampled,
    *,
    folder: Path | None = None,
    device: Any = "cpu",
    announce: Announce = lambda what, done, total: None,
    every: int = 500,
    stop_after: int | None = None,
) -> NDArray[np.float64]:
    """The weights [C'; W] of every start after training, shape (starts, 2n, n); resumes a run stopped in `folder`.

    Args:
        folder: where checkpoints go, one file for each setting; written every `every` steps, in one move.
        stop_after: give up (as an interruption would) before this step.

    Raises:
        BadInput: a device that is not there.
    """
    import torch

    where = parse_device(device)
    A, r, values = (torch.from_numpy(x).to(where) for x in (sampled.A, sampled.r, sampled.values))
    path = checkpoint_path(folder, f"{training.loss.replace(' ', '-')}-{training.steps}", setting, training)
    step, arrays = read_checkpoint(path, setting, training)
    weights = start_weights(setting) if arrays is None else arrays["weights"]
    parameter = torch.nn.Parameter(torch.from_numpy(weights).to(where))
    optimiser = torch.optim.Adam([parameter], lr=training.rate)
    if arrays is not None:
        moments = {name: torch.from_numpy(arrays[name]).to(where) for name in MOMENTS}
        optimiser.state[parameter] = {"step": torch.tensor(float(step)), **moments}
    name = f"{training.loss} loss, L={setting.depth}, g={setting.discount}, {training.steps} steps"
    while step < training.steps:
        if stop_after is not None and step >= stop_after:
            break
        draw = np.random.Generator(np.random.PCG64([setting.seed, 2, step]))
        chosen = torch.from_numpy(draw.choice(setting.tasks, min(training.batch, setting.tasks), replace=False)).to(
            where
        )
        drawn = A[chosen], r[chosen], values[chosen]
        slope = loss_gradient(parameter.detach(), *drawn, end_point=training.loss == "end point")
        parameter.grad = slope / torch.linalg.matrix_norm(slope, keepdim=True).clamp(min=1.0)
        optimiser.param_groups[0]["lr"] = cosine(training.rate, step, training.steps)
        optimiser.step()
        step += 1
        if step % 50 == 0 or step == training.steps:
            announce(name, step, training.steps)
        if path is not None and (step % every == 0 or step == training.steps):
            kept = {"weights": parameter.detach(), **{x: optimiser.state[parameter][x] for x in MOMENTS}}
            write_checkpoint(path, step, {name: x.cpu().numpy() for name, x in kept.items()}, setting, training)
    return parameter.detach().cpu().numpy()


def output_errors(weights: NDArray[np.float64], sampled: Sampled) -> tuple[list[float], list[float]]:
    """Per start, |v^_L - v_L| / |v_L| and the same over all depths, root mean squares over the tasks."""
    import torch

    tensors = [torch.from_numpy(x) for x in (weights, sampled.A, sampled.r)]
    found = estimated_values(tensors[0], tensors[1], tensors[2], sampled.values.shape[1]).numpy()
    exact = sampled.values.transpose(1, 2, 0)[:, None]
    gap = found - exact
    last = np.sqrt((gap[-1] ** 2).sum(axis=(1, 2)) / (exact[-1] ** 2).sum())
    whole = np.sqrt((gap**2).sum(axis=(0, 2, 3)) / (exact**2).sum())
    return last.tolist(), whole.tolist()
