"""td.lanczos measured: nk + 2k - 1 registers, in floats, on logs with N_ij = N_ji."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from constructions.temporal_difference import lanczos
from numerics.measurement import Measurement
from numerics.reversible_tasks import birth_death_chain, symmetric_chain
from numerics.temporal_difference.memory_optimal import measure_module

FORMULA = "nk + 2k - 1"


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Closed birth-death paths (slow) and symmetric chains (fast); the last task is small.

    Raises:
        BadInput: an unknown dtype or device.
    """
    n = 12 if quick else 24
    tasks = [(birth_death_chain(n, seed=seed), 4 * n), (symmetric_chain(n, seed=seed), 30)]
    return measure_module(lanczos, FORMULA, [*tasks, (birth_death_chain(6, 40, seed=seed), 12)], seed, device, dtypes)
