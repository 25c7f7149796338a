"""recurrent.rescan in floats and balls: answers of the model against exact ones, and the block that it picks.

The bound of a ball run is its own enclosure. No bound is known for floats, and none is printed: the controller compares
residuals, so a rounding can pick another block, which is a flag here and an error of order one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from constructions.exact import RATIONALS, Balls
from constructions.recurrent import rescan
from constructions.recurrent.blocks import BlockTask, random_block_task
from numerics.errors import error_against
from numerics.measurement import Measurement, timed
from numerics.torch_arithmetic import TorchArithmetic

BALL_BITS = 128
SHAPES = ((3, 2, 2, 1), (3, 3, 2, 2), (5, 4, 3, 2))
"""(K, d, d_v, shots)."""


def measure_task(task: BlockTask, how: str, arithmetic: Any, seed: int) -> Measurement:
    """One run of the model."""
    built = rescan.construction(task, how)
    exact = built.reference(task, RATIONALS)
    run: dict[str, Any] = {}

    def steps() -> Any:
        for label, tokens in built.program.steps(built.encode(task, arithmetic), arithmetic):
            run["tokens"] = tokens
            yield label, tokens

    value, seconds = timed(arithmetic, lambda: built.decode(steps(), arithmetic))
    picked = rescan.entries(run["tokens"].read("again", f"flag{task.target + 1}", 1, arithmetic))
    right = all(x == 1 for x in picked)
    d_v = built.sizes["d_v"]
    error = error_against(arithmetic.rows(value, 0, d_v), RATIONALS.rows(exact, 0, d_v))
    balls = isinstance(arithmetic, Balls)
    return Measurement(
        theorem=built.theorem,
        task=task.name,
        arithmetic=arithmetic.name,
        sizes={name: int(size) for name, size in built.sizes.items()},
        error=error,
        reference="A_t x in Q",
        bound=error.radius if balls and error.radius is not None else math.inf,
        method="enclosure" if balls else "none known",
        seconds=seconds,
        seed=seed,
        flags=(how, "picks the right block" if right else "picks another block"),
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """By sketch and by replay, in the formats asked for, in bfloat16, float16, and in balls.

    Raises:
        BadInput: an unknown dtype or device.
    """
    names = dict.fromkeys((*dtypes, "bfloat16", "float16"))
    arithmetics = [*(TorchArithmetic(name, device) for name in names), Balls(BALL_BITS)]
    shapes = SHAPES[:2] if quick else SHAPES
    tasks = [random_block_task(K, d, d_v, shots, seed) for K, d, d_v, shots in shapes]
    return [measure_task(task, how, x, seed) for task in tasks for x in arithmetics for how in ("sketch", "replay")]
