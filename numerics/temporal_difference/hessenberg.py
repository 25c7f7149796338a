"""td.hessenberg measured: nk + k(k+1)/2 registers, in floats, from the raw log and from the exact context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constructions.temporal_difference import hessenberg
from numerics.measurement import Measurement
from numerics.temporal_difference.memory_optimal import general_tasks, measure_module

FORMULA = "nk + k(k+1)/2"


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Sampled chains, fast and slow; two passes keep the basis orthogonal, one loses digits on slow chains.

    Raises:
        BadInput: an unknown dtype or device.
    """
    return measure_module(hessenberg, FORMULA, general_tasks(seed, quick), seed, device, dtypes)
