"""Bits lost against k, L and mixing speed: what each kept context costs in accuracy, in three number formats.

Bits lost = log2 of (largest error over depths and states / largest |v|, in units of the unit roundoff u); 0 where the
error is below u, and all bits of the format where it reaches the values themselves. Chains have k = n states.

* slow: the lazy birth-death walk, L = 4n. Powers A^j r become parallel.
* fast: symmetric counts over random edges, L = 30. Powers become parallel as well, but the values need few of them.
* depth: the slow chain at one k, L = n .. 16n. The loss is there once L is well beyond k, and then hardly grows.
* mixing: the slow chain, then a symmetric cycle with more and more random edges a state, one k, L = 4n.

The monic bases (Hessenberg, Lanczos, and the one from which a comes) shrink like the residuals of Arnoldi: in float32
their squared norms underflow on fast chains from k = 20 on or so, and everything is lost. Scaled ones (Z_0, balanced)
do not.

Runs are float throughout (encoder and executor, exact k as number of rounds), but for one: the memory-optimal executor
on its exact context, rounded once, which shows that the representation loses the bits and not the solver. More bits do
not change what is lost, as long as the format has them: mpmath with 113 bits, on the first two families, loses what
float64 does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from constructions.construction import Construction
from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.temporal_difference import executor, hessenberg, lanczos, memory_optimal
from numerics.errors import error_against
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.reversible_tasks import birth_death_chain, symmetric_chain
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.krylov import MPMATH_BITS
from numerics.torch_arithmetic import TorchArithmetic

PRECISE = f"mpmath, {MPMATH_BITS} bits"
FORMATS = ("float32", "float64", PRECISE)
SIZES = (8, 12, 16, 20, 24, 32)
QUICK_SIZES = (8, 12)
CONTEXTS: tuple[tuple[str, str, Callable[[int, int, int], Construction]], ...] = (
    ("memory-optimal, exact context", "nk + k", lambda n, depth, k: memory_optimal.from_context(n, depth)),
    ("memory-optimal", "nk + k", lambda n, depth, k: memory_optimal.construction(n, depth, passes=2, rounds=k)),
    ("Hessenberg, one pass", "nk + k(k+1)/2", lambda n, depth, k: hessenberg.construction(n, depth, rounds=k)),
    ("Hessenberg", "nk + k(k+1)/2", lambda n, depth, k: hessenberg.construction(n, depth, passes=2, rounds=k)),
    ("Lanczos", "nk + 2k - 1", lambda n, depth, k: lanczos.construction(n, depth, rounds=k)),
    ("Z_0, one pass", "(2n + 1) k", lambda n, depth, k: executor.construction(n, depth, rounds=k)),
    (
        "Z_0, balanced",
        "(2n + 1) k",
        lambda n, depth, k: executor.construction(n, depth, passes=2, balanced=True, rounds=k),
    ),
)
"""Name, registers, (n, L, k) -> construction; two passes unless a name says otherwise (Lanczos: one)."""

SLOW, FAST, DEPTH, MIXING = "slow", "fast", "depth", "mixing"
PROTOTYPE: dict[tuple[str, str], tuple[int, ...]] = {
    (SLOW, "memory-optimal, exact context"): (10, 18, 24, 30, 38, 53),
    (SLOW, "Z_0, one pass"): (10, 13, 16, 21, 24, 33),
    (SLOW, "Z_0, balanced"): (2, 2, 3, 3, 3, 2),
    (SLOW, "Lanczos"): (1, 2, 2, 1, 2, 2),
}
"""Bits that an independent prototype lost in float64 at k = 8, 12, 16, 20, 24, 32; the source has no such figures."""
WITHIN = 4.0
"""Ours agree with them where every entry is within so many bits, or within a fifth."""


@dataclass(frozen=True)
class Sweep:
    """One family of settings: what grows along it, and (its value, task, L) for each point."""

    name: str
    setting: str
    grows: str
    points: tuple[tuple[float, Task, int], ...]


def sweeps(quick: bool, seed: int) -> list[Sweep]:
    """The four families of the module's text."""
    sizes, n = (QUICK_SIZES, 8) if quick else (SIZES, 16)
    slow = birth_death_chain(n, seed=seed)
    extra = (1, 19) if quick else (0.25, 1, 4, 19)
    return [
        Sweep(
            SLOW,
            "lazy birth-death walk, g=9/10, n = k, L = 4n",
            "k",
            tuple((k, birth_death_chain(k, seed=seed), 4 * k) for k in sizes),
        ),
        Sweep(
            FAST,
            "symmetric chain, g=9/10, n = k, L = 30",
            "k",
            tuple((k, symmetric_chain(k, seed=seed), 30) for k in sizes),
        ),
        Sweep(
            DEPTH,
            f"lazy birth-death walk, g=9/10, n = k = {n}",
            "L",
            tuple((depth, slow, depth) for depth in ((n, 4 * n) if quick else (n, 2 * n, 4 * n, 16 * n))),
        ),
        Sweep(
            MIXING,
            f"lazy birth-death walk (0), symmetric cycle with random edges, g=9/10, n = {n}, L = {4 * n}",
            "random edges a state",
            ((0, slow, 4 * n), *((x, symmetric_chain(n, int((1 + x) * n), seed=seed), 4 * n) for x in extra)),
        ),
    ]


def bits_lost(value: Any, exact: Any, unit: float) -> float:
    """As in the module's text, to a tenth of a bit; `unit` is the unit roundoff."""
    relative = error_against(value, exact).relative
    return round(min(max(math.log2(max(relative, unit) / unit), 0.0), -math.log2(unit)), 1)


def _formats(device: Any, names: Sequence[str]) -> list[tuple[str, Any, float]]:
    """(name, arithmetic, unit roundoff)."""
    out: list[tuple[str, Any, float]] = []
    for name in names:
        if name == PRECISE:
            precise = MpmathArithmetic(MPMATH_BITS)
            out.append((name, precise, float(precise.unit_roundoff)))
        else:
            torch = TorchArithmetic(name, device)
            out.append((name, torch, float(torch.format.unit_roundoff)))
    return out


def conditioning(
    quick: bool = True, seed: int = 0, device: Any = "cpu", formats: Sequence[str] = FORMATS
) -> list[dict[str, Any]]:
    """Rows with the keys sweep, setting, grows, at (a list), context, registers, format, k, L and `bits lost` (lists).

    Raises:
        BadInput: a device that is not there.
    """
    rows: list[dict[str, Any]] = []
    for sweep in sweeps(quick, seed):
        exact = [executor.td_values(task, depth, RATIONALS) for _, task, depth in sweep.points]
        dimensions = [krylov_dimension(task, depth, seed).value for _, task, depth in sweep.points]
        for name, arithmetic, unit in _formats(device, formats):
            if name == PRECISE and sweep.name not in ((SLOW,) if quick else (SLOW, FAST)):
                continue
            for context, registers, build in CONTEXTS:
                lost = [
                    bits_lost(build(task.n, depth, k).outputs(task, arithmetic), values, unit)
                    for (_, task, depth), values, k in zip(sweep.points, exact, dimensions, strict=True)
                ]
                rows.append(
                    {
                        "sweep": sweep.name,
                        "setting": sweep.setting,
                        "grows": sweep.grows,
                        "at": [x for x, _, _ in sweep.points],
                        "context": context,
                        "registers": registers,
                        "format": name,
                        "k": dimensions,
                        "L": [depth for _, _, depth in sweep.points],
                        "bits lost": lost,
                    }
                )
    return rows


def reproduce_conditioning(quick: bool = True, seed: int = 0, device: str = "cpu") -> list[dict[str, Any]]:
    """A row a context, format and family, beside the prototype's figures where there are some; drawings for the report.

    Drawn are the slow chain in every format, and the other families in float64.

    Raises:
        BadInput: a device that is not there.
    """
    rows: list[dict[str, Any]] = []
    figures: dict[tuple[str, str], dict[str, Any]] = {}
    for found in conditioning(quick, seed, device):
        ours = found["bits lost"]
        theirs = PROTOTYPE.get((found["sweep"], found["context"])) if found["format"] == "float64" else None
        agrees, reason = None, "no figure elsewhere"
        if theirs is not None:
            theirs = theirs[: len(ours)]
            agrees = all(abs(x - y) <= max(WITHIN, y / 5) for x, y in zip(ours, theirs, strict=True))
            reason = (
                "" if agrees else f"more than {WITHIN:g} bits and a fifth apart: rewards and order of operations differ"
            )
        rows.append(
            {
                "name": "conditioning",
                "quantity": f"bits lost, {found['context']} ({found['registers']} registers), {found['format']}",
                "setting": f"{found['setting']}; {found['grows']} = {_listed(found['at'])}",
                "source": "none" if theirs is None else f"none (a prototype: {_listed(theirs)})",
                "ours": _listed(ours),
                "agrees": agrees,
                "reason": reason,
                "seed": seed,
            }
        )
        if found["sweep"] == SLOW or found["format"] == "float64":
            place = found["sweep"], found["format"]
            if place not in figures:
                title = f"{found['setting']}; {found['format']}"
                figures[place] = {"kind": "lines", "title": title, "x": found["grows"], "y": "bits lost"}
                figures[place] |= {"scale": "linear", "places": found["at"], "lines": {}}
                rows[-1]["figure"] = figures[place]
            figures[place]["lines"][found["context"]] = ours
    return rows


def _listed(values: Any) -> str:
    return " ".join(f"{x:g}" for x in values)
