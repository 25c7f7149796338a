"""td.joint-training observed: descent from perturbed weights, encoder and executor together, at sizes beyond the proof.

The program is the built one, its free weights tensors; the layers before the compile layer have none and run once.
L-BFGS minimises the trajectory loss from weights with normal noise. Reported are the error of the values it ends with,
and how far the weights are from the surface (a, b) at a = tr M / n, b = tr G / n. Nothing is claimed beyond what was
seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from constructions.exact import RATIONALS
from constructions.layers import LinearAttention, Public
from constructions.task import Task
from constructions.temporal_difference import executor, joint_training
from constructions.tokens import Tokens
from numerics.errors import error_against
from numerics.measurement import Measurement, timed
from numerics.tasks import dirichlet_chain
from numerics.torch_arithmetic import TorchArithmetic, batched

NOISE = (0.01, 0.05)
NAMES = ("M", "p", "q", "G", "C", "W")


@dataclass(frozen=True, eq=False)
class Learned(Public):
    """A public matrix whose value is a tensor, which may require a gradient."""

    tensor: Any = None

    @property
    def T(self) -> Learned:
        return Learned(self.name, None, not self.transposed, self.tensor)

    def array(self, rows: Any, columns: Any, arithmetic: Any) -> Any:
        return self.tensor.mT if self.transposed else self.tensor


def compiled_weights(n: int, arithmetic: TorchArithmetic) -> dict[str, Any]:
    """The weights of the compiled construction as tensors."""
    surface = joint_training.surface()
    sizes = {name: 1 if name in ("p", "q") else n for name in NAMES}
    return {name: getattr(surface, name).array(size, size, arithmetic) for name, size in sizes.items()}


def surface_distance(weights: dict[str, Any]) -> float:
    """Euclidean distance of all weights to the surface at a = tr M / n, b = tr G / n."""
    n = len(weights["M"])
    a, b = (float(weights[name].trace()) / n for name in ("M", "G"))
    factors = {"M": a, "p": a / b, "q": a, "G": b, "C": -1 / b, "W": 1 / a}
    total = 0.0
    for name, factor in factors.items():
        gap = weights[name].clone()
        gap.diagonal().sub_(factor)
        total += float(gap.square().sum())
    return math.sqrt(total)


def descend(
    tasks: Sequence[Task], depth: int, noise: float, seed: int, arithmetic: TorchArithmetic, iterations: int
) -> tuple[dict[str, Any], list[float], Any]:
    """Weights after descent, [loss before, loss after], and the values, shape (tasks, L + 1, n)."""
    import torch

    n = tasks[0].n
    draw = torch.Generator().manual_seed(seed)
    exact = torch.stack([arithmetic.matrix(executor.td_values(task, depth, RATIONALS).tolist()) for task in tasks])
    weights = {
        name: torch.nn.Parameter(x + noise * torch.randn(x.shape, generator=draw, dtype=x.dtype).to(x.device))
        for name, x in compiled_weights(n, arithmetic).items()
    }
    learned = joint_training.Weights(**{name: Learned(name, tensor=x) for name, x in weights.items()})
    built = joint_training.construction(n, depth, learned)
    layers = built.program.layers
    place = next(i for i, x in enumerate(layers) if isinstance(x, LinearAttention) and x.label == "compile")
    tokens: Tokens = batched([built.encode(task, arithmetic) for task in tasks])
    before = built.program.with_layers(layers[:place]).run(tokens, arithmetic)
    rest = built.program.with_layers(layers[place:])

    def values() -> Any:
        return executor.VALUES.rows(rest.steps(before, arithmetic), n, arithmetic)

    def loss() -> Any:
        return 0.5 * (values() - exact).square().sum() / len(tasks)

    optimiser = torch.optim.LBFGS(
        list(weights.values()),
        max_iter=iterations,
        history_size=50,
        tolerance_grad=0,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Any:
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    first = float(loss().detach())
    optimiser.step(closure)
    with torch.no_grad():
        found, last = values(), float(loss())
    return {name: x.detach() for name, x in weights.items()}, [first, last], found


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Descent at n = 3, L = 4 (in full: 4, 6 and 6, 8, with two noises), in float64 whatever the formats are.

    Raises:
        BadInput: an unknown device.
    """
    arithmetic = TorchArithmetic("float64", device)
    out = []
    for n, depth, count, iterations in ((3, 4, 6, 60),) if quick else ((4, 6, 12, 300), (6, 8, 16, 400)):
        tasks = [dirichlet_chain(n=n, transitions=5 * n, seed=seed + i) for i in range(count)]
        for noise in NOISE[-1:] if quick else NOISE:
            run = partial(descend, tasks, depth, noise, seed, arithmetic, iterations)
            (weights, losses, values), seconds = timed(arithmetic, run)
            worst = max(
                (
                    error_against(value, executor.td_values(task, depth, RATIONALS))
                    for value, task in zip(values, tasks, strict=True)
                ),
                key=lambda error: error.absolute,
            )
            out.append(
                Measurement(
                    theorem=joint_training.THEOREM,
                    task=f"{count} tasks, the first {tasks[0].name}",
                    arithmetic=arithmetic.name,
                    sizes={"n": n, "L": depth, "tasks": count, "weights": 4 * n * n + 2},
                    error=worst,
                    reference="TD iterates in Q",
                    bound=math.inf,
                    method="none: observed",
                    seconds=seconds,
                    seed=seed,
                    flags=(
                        f"noise {noise:g}, L-BFGS, at most {iterations} iterations",
                        f"loss {losses[0]:.1e} to {losses[1]:.1e}",
                        f"distance to the surface {surface_distance(weights):.1e}",
                    ),
                )
            )
    return out
