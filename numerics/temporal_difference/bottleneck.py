"""Training bottleneck encoders against v_1 .. v_L, on fresh tasks of a panel (theory A9).

Runs of the same m, n and L train side by side in one batched model (`bottleneck_model`), which shares the cost of
small operations. What one run becomes does not depend on the others, up to rounding: its initial weights and tasks
come from its own seed, its gradient is clipped by its own norm, and AdamW works entry by entry. Every update draws its
tasks by a seed and its number, from the distributions of `numerics.tasks.reversible_chain` and `block_cycle` in one
sweep; so training can be stopped and resumed anywhere, and ends in the same weights.

Loss: mean square of v^_l(q) - v_l(q) over depths, states and tasks; AdamW, a tenth of the updates to warm up, then a
cosine, gradients clipped to norm 1. Held-out tasks come from the generators themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from constructions.errors import BadInput
from constructions.task import Task
from numerics.checkpoints import Announce, checkpoint_path, read_checkpoint, write_checkpoint
from numerics.temporal_difference.bottleneck_model import Bottleneck, initial_weights
from numerics.temporal_difference.recovery import MOMENTS
from numerics.torch_arithmetic import parse_device

PANELS = ("reversible chain", "block cycle")
EXECUTORS = ("clocked", "time-invariant")


@dataclass(frozen=True)
class Training:
    """One point: panel, executor, m, and how it is trained.

    Attributes:
        panel, executor: one of `PANELS`, one of `EXECUTORS`.
        latents: m.
        updates, rate, batch: number of updates, largest learning rate, tasks drawn in an update.
        states, depth, transitions, blocks: n, L, N, and the number of blocks of the cycle.
        seed: of initialisation and training tasks.
    """

    panel: str
    executor: str
    latents: int
    updates: int
    rate: float = 5e-3
    batch: int = 16
    states: int = 24
    depth: int = 30
    transitions: int = 960
    blocks: int = 12
    discount: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        for what, value, known in (("panel", self.panel, PANELS), ("executor", self.executor, EXECUTORS)):
            if value not in known:
                raise BadInput(f"bottleneck encoder: expected one of the {what}s {', '.join(known)}, found {value!r}")
        if self.latents < 1 or self.updates < 1:
            found = f"{self.latents} and {self.updates}"
            raise BadInput(f"bottleneck encoder: expected at least one latent and one update, found {found}")

    def __str__(self) -> str:
        return f"{self.panel}, {self.executor}, m={self.latents}, seed {self.seed}"


Batch = tuple[NDArray[np.float64], NDArray[np.float64]]
"""A and r of several tasks, shapes (tasks, n, n) and (tasks, n)."""


def draw_tasks(training: Training, draw: np.random.Generator, count: int) -> Batch:
    """Tasks as the panel's generator samples them: N_i - 1 is multinomial, N_ij is multinomial given N_i."""
    n = training.states
    if training.panel == "block cycle":
        size = n // training.blocks
        following = (np.arange(training.blocks) + 1) % training.blocks
        ways = np.kron(np.eye(training.blocks)[following], np.ones((size, size)) / size)
        P = np.broadcast_to(ways, (count, n, n))
        r = np.repeat(draw.standard_normal((count, training.blocks)), size, axis=1)
    else:
        u = draw.random((count, n, n))
        weights = u * u.transpose(0, 2, 1)
        P = weights / weights.sum(-1, keepdims=True)
        r = draw.standard_normal((count, n))
    visits = 1 + draw.multinomial(training.transitions - n, np.full(n, 1 / n), count)
    A = training.discount * draw.multinomial(visits, P) / visits[..., None]
    return A, r / np.abs(r).max(-1, keepdims=True)


def exact_values(A: NDArray[np.float64], r: NDArray[np.float64], depth: int) -> NDArray[np.float64]:
    """v_1 .. v_L in float64, shape (tasks, n, L)."""
    values, v = [], np.zeros((*r.shape, 1))
    for _ in range(depth):
        v = r[..., None] + A @ v
        values.append(v)
    return np.concatenate(values, -1)


def new_model(trainings: Sequence[Training]) -> Bottleneck:
    """The runs side by side with their initial weights, in this order.

    Raises:
        BadInput: no run, runs that differ in more than panel, executor and seed, or a clocked one after another.
    """
    if not trainings:
        raise BadInput("bottleneck encoder: expected at least one run, found none")
    first = trainings[0]
    for other in trainings:
        if replace(other, panel=first.panel, executor=first.executor, seed=first.seed) != first:
            raise BadInput(f"bottleneck encoder: expected runs that differ in panel, executor and seed, found {other}")
    clocked = [training.executor == "clocked" for training in trainings]
    if clocked != sorted(clocked, reverse=True):
        raise BadInput("bottleneck encoder: expected clocked runs before time-invariant ones, found another order")
    sizes = (first.states, first.depth, first.latents)
    runs = [initial_weights(*sizes, clocked=c, seed=t.seed) for c, t in zip(clocked, trainings, strict=True)]
    return Bottleneck(runs, first.depth, first.discount)


def rates(training: Training) -> NDArray[np.float64]:
    """The learning rate of each update: it rises over a tenth of them, then falls to 0 by a cosine."""
    step, rising = np.arange(training.updates), max(training.updates // 10, 1)
    falling = np.cos(np.pi * (step - rising) / max(training.updates - rising, 1)) / 2 + 0.5
    return training.rate * np.where(step < rising, (step + 1) / rising, falling)


def tasks_of_update(trainings: Sequence[Training], step: int) -> list[torch.Tensor]:
    """A, r and v_1 .. v_L of every run in single precision; runs of the same panel and seed get the same tasks."""
    drawn: dict[tuple[str, int], list[torch.Tensor]] = {}
    for training in trainings:
        key = (training.panel, training.seed)
        if key not in drawn:
            draw = np.random.Generator(np.random.PCG64([training.seed, PANELS.index(training.panel), step]))
            A, r = draw_tasks(training, draw, training.batch)
            drawn[key] = [torch.from_numpy(x).float() for x in (A, r, exact_values(A, r, training.depth))]
    return [torch.stack(parts) for parts in zip(*(drawn[t.panel, t.seed] for t in trainings), strict=True)]


def train(
    trainings: Sequence[Training],
    *,
    folder: Path | None = None,
    device: Any = "cpu",
    announce: Announce = lambda what, done, total: None,
    every: int = 200,
) -> tuple[Bottleneck, NDArray[np.float32]]:
    """The trained runs and the loss of every update, shape (updates, runs); resumes what was stopped in `folder`.

    Args:
        trainings: runs of the same settings but for panel, executor and seed; clocked ones first.
        folder: where checkpoints go, one file for each list of runs; written every `every` updates, in one move.

    Raises:
        BadInput: a device that is not there, or runs that cannot stand side by side.
    """
    where = parse_device(device)
    model, first = new_model(trainings), trainings[0]
    parameters = dict(zip(model.names, model.weights, strict=True))
    path = checkpoint_path(folder, "bottleneck", *trainings)
    step, arrays = read_checkpoint(path, *trainings)
    losses = [] if arrays is None else list(arrays["losses"])
    if arrays is not None:
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(torch.from_numpy(arrays[f"weights.{name}"]))
    model.to(where)
    optimiser = torch.optim.AdamW(model.parameters(), lr=first.rate, betas=(0.9, 0.99), fused=True)
    if arrays is not None:
        for name, parameter in parameters.items():
            moments = {m: torch.from_numpy(arrays[f"{m}.{name}"]).to(where) for m in MOMENTS}
            optimiser.state[parameter] = {"step": torch.tensor(float(step), device=where), **moments}
    schedule = rates(first)
    panels = " and ".join(dict.fromkeys(training.panel for training in trainings))
    title = f"{panels}, m={first.latents}, {len(trainings)} run{'s' if len(trainings) > 1 else ''}"
    while step < first.updates:
        A, r, wanted = (x.to(where) for x in tasks_of_update(trainings, step))
        optimiser.param_groups[0]["lr"] = float(schedule[step])
        optimiser.zero_grad(set_to_none=True)
        loss = (model(A, r) - wanted).square().mean((1, 2, 3))
        loss.sum().backward()
        clip(model, 1.0)
        optimiser.step()
        losses.append(loss.detach().cpu().numpy())
        step += 1
        if step % 20 == 0 or step == first.updates:
            announce(title, step, first.updates)
        if path is not None and (step % every == 0 or step == first.updates):
            kept = {f"weights.{name}": parameter.detach() for name, parameter in parameters.items()}
            for name, parameter in parameters.items():
                kept |= {f"{m}.{name}": optimiser.state[parameter][m] for m in MOMENTS}
            found = {name: x.cpu().numpy() for name, x in kept.items()}
            write_checkpoint(path, step, {**found, "losses": np.array(losses)}, *trainings)
    return model, np.array(losses)


def clip(model: Bottleneck, largest: float) -> None:
    """Scale the gradient of every run whose norm exceeds `largest` down to it."""
    gradients = [(model.members(name), weight.grad) for name, weight in zip(model.names, model.weights, strict=True)]
    squares = torch.zeros(model.runs, device=model.weights[0].device)
    for members, gradient in gradients:
        squares[members] += gradient.square().flatten(1).sum(1)
    scale = (largest / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for members, gradient in gradients:
        gradient.mul_(scale[members].view(-1, *[1] * (gradient.ndim - 1)))


def largest_errors(model: Bottleneck, tasks: Sequence[Task], depth: int) -> NDArray[np.float64]:
    """max over depths l <= L and states of |v^_l - v_l|, shape (runs, tasks), the exact v_l in float64."""
    A, r = arrays_of(tasks)
    where = model.weights[0].device
    with torch.no_grad():
        inputs = (torch.from_numpy(x).float().to(where).expand(model.runs, *x.shape) for x in (A, r))
        found = model(*inputs).cpu().double().numpy()
    return np.abs(found - exact_values(A, r, depth)).max((2, 3))


def arrays_of(tasks: Sequence[Task]) -> Batch:
    """A and r of tasks, each entry rounded to float64."""
    A = np.array([[[float(x) for x in row] for row in task.A.tolist()] for task in tasks])
    return A, np.array([[float(row[0]) for row in task.r.tolist()] for task in tasks])
