"""Bits lost against k: what each kept context costs in accuracy, on slow and on fast chains.

Bits lost = log2 of (largest error over depths and states / largest |v|, in units of the unit roundoff u); 0 where the
error is below u, and all bits of the format where it reaches the values themselves. Chains have k = n states.

* slow: the lazy birth-death walk, L = 4n. Powers A^j r become parallel.
* fast: symmetric counts over random edges, L = 30. Powers become parallel as well, but the values need few of them.

The monic bases (Hessenberg, Lanczos, and the one from which a comes) shrink like the residuals of Arnoldi: in float32
their squared norms underflow on fast chains from k = 20 on or so, and everything is lost. Scaled ones (Z_0, balanced)
do not.

Runs are float throughout (encoder and executor, exact k as number of rounds), but for one: the memory-optimal executor
on its exact context, rounded once, which shows that the representation loses the bits and not the solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from constructions.construction import Construction
from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.temporal_difference import executor, hessenberg, lanczos, memory_optimal
from numerics.errors import error_against
from numerics.reversible_tasks import birth_death_chain, symmetric_chain
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.torch_arithmetic import TorchArithmetic

SIZES = (8, 12, 16, 20, 24, 32)
QUICK_SIZES = (8, 12)
CHAINS: tuple[tuple[str, Callable[[int, int], Task], Callable[[int], int]], ...] = (
    ("slow: lazy birth-death walk", lambda n, seed: birth_death_chain(n, seed=seed), lambda n: 4 * n),
    ("fast: symmetric chain", lambda n, seed: symmetric_chain(n, seed=seed), lambda n: 30),
)
CONTEXTS: tuple[tuple[str, str, Callable[[int, int, int], Construction]], ...] = (
    ("memory-optimal, exact context", "nk + k", lambda n, depth, k: memory_optimal.from_context(n, depth)),
    ("memory-optimal", "nk + k", lambda n, depth, k: memory_optimal.construction(n, depth, passes=2, rounds=k)),
    ("Hessenberg, one pass", "nk + k(k+1)/2", lambda n, depth, k: hessenberg.construction(n, depth, rounds=k)),
    ("Hessenberg", "nk + k(k+1)/2", lambda n, depth, k: hessenberg.construction(n, depth, passes=2, rounds=k)),
    ("Lanczos", "nk + 2k - 1", lambda n, depth, k: lanczos.construction(n, depth, rounds=k)),
    (
        "Z_0, balanced",
        "(2n + 1) k",
        lambda n, depth, k: executor.construction(n, depth, passes=2, balanced=True, rounds=k),
    ),
)
"""Name, registers, (n, L, k) -> construction; two passes unless a name says otherwise (Lanczos: one)."""


def bits_lost(value: Any, exact: Any, arithmetic: TorchArithmetic) -> float:
    """As in the module's text, to a tenth of a bit."""
    relative = error_against(value, exact).relative
    unit = float(arithmetic.format.unit_roundoff)
    return round(min(max(math.log2(max(relative, unit) / unit), 0.0), -math.log2(unit)), 1)


def conditioning(quick: bool = True, seed: int = 0, device: Any = "cpu") -> list[dict[str, Any]]:
    """Rows with the keys chain, context, registers, dtype, L, seed, and `bits lost`, a list beside the list `k`.

    Raises:
        BadInput: a device that is not there.
    """
    rows: list[dict[str, Any]] = []
    for chain, make, depth_of in CHAINS:
        tasks = [make(n, seed) for n in (QUICK_SIZES if quick else SIZES)]
        settings = [(task, depth_of(task.n)) for task in tasks]
        exact = [executor.td_values(task, depth, RATIONALS) for task, depth in settings]
        dimensions = [krylov_dimension(task, depth, seed).value for task, depth in settings]
        for dtype in ("float32", "float64"):
            arithmetic = TorchArithmetic(dtype, device)
            for context, registers, build in CONTEXTS:
                lost = [
                    bits_lost(build(task.n, depth, k).outputs(task, arithmetic), values, arithmetic)
                    for (task, depth), values, k in zip(settings, exact, dimensions, strict=True)
                ]
                rows.append(
                    {
                        "chain": chain,
                        "context": context,
                        "registers": registers,
                        "dtype": dtype,
                        "L": [depth for _, depth in settings],
                        "k": dimensions,
                        "bits lost": lost,
                        "seed": seed,
                    }
                )
    return rows
