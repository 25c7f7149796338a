"""Training the bottleneck encoder against v_1 .. v_L, on fresh tasks of a panel (theory A9).

Every update draws its tasks by a seed and its number, from the distributions of `numerics.tasks.reversible_chain` and
`block_cycle` in one sweep; so a run can be stopped and resumed anywhere, and ends in the same weights. Loss: mean
square of v^_l(q) - v_l(q) over depths, states and tasks; AdamW with a one-cycle rate, gradients clipped to norm 1.
Held-out tasks come from the generators themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from constructions.errors import BadInput
from constructions.task import Task
from numerics.checkpoints import Announce, checkpoint_path, read_checkpoint, write_checkpoint
from numerics.temporal_difference.bottleneck_model import Bottleneck
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
    rate: float = 1e-3
    batch: int = 64
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


def new_model(training: Training) -> Bottleneck:
    """The model with its initial weights, by the seed; torch's own generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        return Bottleneck(training.states, training.depth, training.latents, clocked=training.executor == "clocked")


def rates(training: Training) -> list[float]:
    """The learning rate of each update: torch's one-cycle schedule."""
    optimiser = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=training.rate)
    total = max(training.updates, 2)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, training.rate, total_steps=total, cycle_momentum=False)
    out = []
    for _ in range(training.updates):
        out.append(float(cycle.get_last_lr()[0]))
        if len(out) < total:
            optimiser.step()
            cycle.step()
    return out


def train(
    training: Training,
    *,
    folder: Path | None = None,
    device: Any = "cpu",
    announce: Announce = lambda what, done, total: None,
    every: int = 200,
    stop_after: int | None = None,
) -> tuple[Bottleneck, list[float]]:
    """The trained model and the loss of every update; resumes a run that was stopped in `folder`.

    Args:
        folder: where checkpoints go, one file for each setting; written every `every` updates, in one move.
        stop_after: give up (as an interruption would) before this update.

    Raises:
        BadInput: a device that is not there.
    """
    where = parse_device(device)
    model = new_model(training)
    parameters = dict(model.named_parameters())
    path = checkpoint_path(folder, "bottleneck", training)
    step, arrays = read_checkpoint(path, training)
    losses = [] if arrays is None else arrays["losses"].tolist()
    if arrays is not None:
        model.load_state_dict({name: torch.from_numpy(arrays[f"weights.{name}"]) for name in parameters})
    model.to(where)
    optimiser = torch.optim.AdamW(model.parameters(), lr=training.rate, fused=True)
    if arrays is not None:
        for name, parameter in parameters.items():
            moments = {m: torch.from_numpy(arrays[f"{m}.{name}"]).to(where) for m in MOMENTS}
            optimiser.state[parameter] = {"step": torch.tensor(float(step)), **moments}
    schedule = rates(training)
    last = training.updates if stop_after is None else min(stop_after, training.updates)
    while step < last:
        draw = np.random.Generator(np.random.PCG64([training.seed, PANELS.index(training.panel), step]))
        A, r = draw_tasks(training, draw, training.batch)
        batch = (torch.from_numpy(x).float().to(where) for x in (A, r, exact_values(A, r, training.depth)))
        inputs, rewards, wanted = batch
        optimiser.param_groups[0]["lr"] = schedule[step]
        optimiser.zero_grad(set_to_none=True)
        loss = (model(inputs, rewards) - wanted).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
        step += 1
        if step % 20 == 0 or step == last:
            announce(str(training), step, training.updates)
        if path is not None and (step % every == 0 or step == training.updates):
            kept = {f"weights.{name}": parameter.detach() for name, parameter in parameters.items()}
            for name, parameter in parameters.items():
                kept |= {f"{m}.{name}": optimiser.state[parameter][m] for m in MOMENTS}
            found = {name: x.cpu().numpy() for name, x in kept.items()}
            write_checkpoint(path, step, {**found, "losses": np.array(losses)}, training)
    return model, losses


def largest_errors(model: Bottleneck, tasks: Sequence[Task], depth: int) -> list[float]:
    """max over depths l <= L and states of |v^_l - v_l| on each task, the exact v_l in float64."""
    A = np.array([[[float(x) for x in row] for row in task.A.tolist()] for task in tasks])
    r = np.array([[float(row[0]) for row in task.r.tolist()] for task in tasks])
    where = model.latents.device
    with torch.no_grad():
        found = model(*(torch.from_numpy(x).float().to(where) for x in (A, r))).cpu().double().numpy()
    return np.abs(found - exact_values(A, r, depth)).max((1, 2)).tolist()
