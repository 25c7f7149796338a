"""Reproduces the source's figures on less context: the threshold panels and the error law on rings (theory A9).

The source states neither generators nor rewards nor the statistic: ours are named in every row. A panel's figure is the
largest error over its tasks. "Agrees" means within a factor of 2, or within the source's range, or that a statement
which is ours holds. Ours are float64 on the CPU whatever the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from constructions.task import Task
from constructions.temporal_difference import minimax
from numerics.tasks import block_cycle, reversible_chain
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.error_law import (
    RING_SIZES,
    SCHEMES,
    SchemeErrors,
    half_ring_errors,
    keeps_law,
    slope,
    spread,
    task_errors,
)
from numerics.temporal_difference.minimax import ring_lower_bound

DEPTH = 30
FACTOR = 2
UNSTATED = "the source states neither generator, nor rewards, nor the statistic"
Figure = float | list[float] | str


@dataclass(frozen=True)
class Panel:
    """A family of tasks, the m compared, and the source's figures by scheme and m."""

    name: str
    make: Callable[[int], Task]
    sizes: tuple[int, ...]
    source: dict[tuple[str, int], float]


PANELS = (
    Panel(
        "block cycle, 12 blocks",
        lambda seed: block_cycle(seed=seed),
        (4, 8, 11, 12),
        {("projection", 11): 0.86, ("projection", 12): 6e-16},
    ),
    Panel(
        "reversible chain",
        lambda seed: reversible_chain(seed=seed),
        (4, 8, 12, 20),
        {
            ("projection", 4): 1.1e-1,
            ("projection", 8): 2.0e-4,
            ("projection", 12): 2.2e-7,
            ("projection", 20): 1.9e-14,
            ("truncation", 4): 1.2,
            ("truncation", 8): 0.73,
            ("truncation", 12): 0.45,
            ("truncation", 20): 0.15,
            ("sample_and_hold", 4): 1.1,
            ("sample_and_hold", 8): 1.0,
            ("sample_and_hold", 12): 0.12,
            ("sample_and_hold", 20): 0.053,
        },
    ),
)


def reproduce_thresholds(quick: bool = True, seed: int = 0, device: str = "cpu") -> list[dict[str, Any]]:
    """Every scheme on both panels, 10 tasks each (quick) or 100; midpoint hold against e* on every task, in balls."""
    rows = []
    for panel in PANELS:
        tasks = [panel.make(seed + i) for i in range(10 if quick else 100)]
        found = [task_errors(x, DEPTH, panel.sizes, krylov_dimension(x, DEPTH, seed).value) for x in tasks]
        setting = f"{panel.name}, n=24, g=9/10, L={DEPTH}, N=960, {len(tasks)} tasks"
        worst = {
            scheme: [max(getattr(x[i], scheme) for x in found) for i in range(len(panel.sizes))] for scheme in SCHEMES
        }
        for scheme, errors in worst.items():
            for m, ours in zip(panel.sizes, errors, strict=True):
                rows.append(
                    _row("thresholds", f"{_words(scheme)}, m = {m}", setting, panel.source.get((scheme, m)), ours, seed)
                )
        kept = sum(keeps_law(x, DEPTH, panel.sizes) for x in tasks)
        law = [float(minimax.minimax_error(tasks[0].discount, m, DEPTH)) for m in panel.sizes]
        rows.append(
            _stated(
                "thresholds", "tasks on which midpoint hold keeps e*, in balls", setting, kept, kept == len(tasks), seed
            )
        )
        curves = {**{_words(k): v for k, v in worst.items()}, "e*": law}
        rows[-1]["figure"] = _lines(f"Largest error on {panel.name}", "registers a state m", panel.sizes, curves)
    return rows


def reproduce_error_law(quick: bool = True, seed: int = 0, device: str = "cpu") -> list[dict[str, Any]]:
    """The half ring, and the ring of all sign patterns, m = 1 (quick) or 1, 2, 3, 4."""
    name, ring = "error-law", half_ring_errors()
    setting = f"half ring, n = L = 1000, g=99/100, m = {RING_SIZES[0]} .. {RING_SIZES[-1]}"
    hold, law = spread(ring, "sample_and_hold", lambda x: x.psi), spread(ring, "sample_and_hold", lambda x: x.law)
    rows = [
        _row(name, "sample-and-hold / Psi_m", setting, [0.45, 2.7], list(hold), seed),
        _row(
            name,
            "anchored prefix / Psi_m",
            setting,
            [0.45, 2.7],
            list(spread(ring, "anchored_prefix", lambda x: x.psi)),
            seed,
        ),
        _row(
            name,
            "anchored residual / Psi_m",
            setting,
            [0.45, 2.7],
            list(spread(ring, "anchored_residual", lambda x: x.psi)),
            seed,
        ),
        _row(name, "sample-and-hold / e*", setting, None, list(law), seed),
        _row(
            name,
            "truncation / sample-and-hold, largest",
            setting,
            37.0,
            max(x.truncation / x.sample_and_hold for x in ring),
            seed,
        ),
    ]
    gap = max(abs(x.midpoint_hold - x.law) / x.law for x in ring)
    rows.append(_stated(name, "midpoint hold against e*, relative", setting, gap, gap < 1e-9, seed))
    rows[0]["figure"] = _rings(ring, "m", "registers a state m")
    rows[1]["figure"] = _rings(ring, "psi", "Psi_m")
    sources = {"sample_and_hold": -0.89, "anchored_prefix": -0.93, "anchored_residual": -0.93, "truncation": -0.14}
    for scheme in SCHEMES:
        found = slope(ring, scheme, 2, 64)
        row = _row(
            name, f"slope of log error, {_words(scheme)}, m = 2..64", setting, sources.get(scheme), found.value, seed
        )
        inside = row["source"] == "none" or found.low <= row["source"] <= found.high
        reason = f"95 % interval {found.low:.3f} .. {found.high:.3f}" + (
            "" if inside else "; it depends on the range of m"
        )
        rows.append({**row, "agrees": inside, "reason": reason})
    for m in (1,) if quick else (1, 2, 3, 4):
        n, bound, value = ring_lower_bound("99/100", m, 1000)
        where = f"ring of all sign patterns, n = {n}, g=99/100, L=1000, linear programs checked in Q"
        rows.append(_stated(name, f"lower bound / e*, m = {m}", where, float(bound / value), bound == value, seed))
    cover = minimax.cover("9/10", 8, DEPTH)
    rows[-1]["figure"] = {
        "kind": "cover",
        "title": f"The optimal cover of the depths 0..{DEPTH}, g = 9/10, m = 8",
        "discount": float(cover.discount),
        "blocks": [list(block) for block in cover.blocks],
        "packing": [list(x) for x in minimax.packing("9/10", 8, DEPTH).intervals],
        "error": float(cover.error),
    }
    return rows


def _words(scheme: str) -> str:
    return "sample-and-hold" if scheme == "sample_and_hold" else scheme.replace("_", " ")


def _lines(title: str, x: str, places: Sequence[float], curves: dict[str, list[float]]) -> dict[str, Any]:
    """A figure of the report: lines over common places, both axes logarithmic."""
    return {"kind": "lines", "title": title, "x": x, "places": list(places), "lines": curves}


def _rings(ring: Sequence[SchemeErrors], field: str, x: str) -> dict[str, Any]:
    curves = {_words(scheme): [getattr(e, scheme) for e in ring] for scheme in SCHEMES}
    law = {"e*": [e.law for e in ring]}
    return _lines("Error on the half ring, g = 99/100", x, [getattr(e, field) for e in ring], {**curves, **law})


def _row(name: str, quantity: str, setting: str, source: Figure | None, ours: Figure, seed: int) -> dict[str, Any]:
    """A figure of the source beside ours; the source's is a number, a range, or none."""
    reason = ""
    if source is None:
        agrees, reason = True, "the source has no such figure"
    elif isinstance(source, list) and isinstance(ours, list):
        agrees = source[0] <= ours[0] and ours[1] <= source[1]
        reason = "" if agrees else "the source leaves the split open"
    else:
        assert isinstance(source, float)
        assert isinstance(ours, float)
        agrees = 1 / FACTOR <= ours / source <= FACTOR
        reason = "" if agrees else UNSTATED
    return {
        "name": name,
        "quantity": quantity,
        "setting": setting,
        "source": "none" if source is None else source,
        "ours": ours,
        "agrees": agrees,
        "reason": reason,
        "seed": seed,
    }


def _stated(name: str, quantity: str, setting: str, ours: Figure, holds: bool, seed: int) -> dict[str, Any]:
    """A statement of this project: whether it holds."""
    row = _row(name, quantity, setting, None, ours, seed)
    return {**row, "agrees": holds, "reason": "a statement of this project" + ("" if holds else ", which fails here")}
