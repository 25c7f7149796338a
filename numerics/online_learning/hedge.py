"""online.hedge measured: the state in number formats, as that of online.weighted-majority."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constructions.online_learning import hedge
from constructions.online_learning.experts import Basis
from constructions.online_learning.rounds import OnlineConstruction
from numerics import expert_tasks
from numerics.measurement import Measurement

from .weighted_majority import LEAK, measure_variants


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Every realisation, with unit vectors and in a rotated basis; the first one in mpmath, balls and exactly too.

    Raises:
        BadInput: an unknown dtype or device.
    """
    task = expert_tasks.sampled_losses(4, 40 if quick else 200, seed=seed)

    def build(variant: str, basis: Basis) -> OnlineConstruction:
        return hedge.construction(variant, 4, task.root, task.parts, leak=LEAK, basis=basis)

    return measure_variants(hedge.VARIANTS, build, task, seed, device, dtypes)
