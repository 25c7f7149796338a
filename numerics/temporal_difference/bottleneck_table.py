"""The learned bottleneck encoder beside written-down contexts (theory A9): `verify reproduce bottleneck`.

Error against m on the panels of `verify reproduce thresholds`: of a context the largest over depths and states, the
mean of it over held-out tasks (the largest over tasks stands beside it), then the median over seeds. The source states
neither the panel of its figures nor the statistic; sample-and-hold has its figures (1.00 .. 1.72 for m <= 8) in the
mean rather than in the maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constructions.task import Task
from numerics import tasks
from numerics.checkpoints import Announce
from numerics.temporal_difference.bottleneck import (
    EXECUTORS,
    PANELS,
    Training,
    arrays_of,
    exact_values,
    largest_errors,
    train,
)
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.error_law import task_errors

MAKERS: dict[str, Callable[..., Task]] = {"reversible chain": tasks.reversible_chain, "block cycle": tasks.block_cycle}
SIZES, QUICK_SIZES = (1, 2, 4, 8, 12, 16, 24), (1, 4, 8, 16, 24)
UPDATES, QUICK_UPDATES = 8_000, 1_600
SEEDS = 3
HELD_OUT = 100

WRITTEN = {
    "sample_and_hold": "sample-and-hold",
    "midpoint_hold": "midpoint hold",
    "anchored_prefix": "anchored prefix",
    "anchored_residual": "anchored residual",
    "projection": "compiled",
}
"""Contexts that are not learned; compiled is the Krylov context Z_0 of the first m vectors, exact from m = k on."""

LEVEL = 0.8
"""error(24) >= LEVEL * error(8) counts as no decrease."""

Row = dict[str, Any]
Range = tuple[float, float]
Errors = NDArray[np.float64]
"""The error of each held-out task; of a learned context shape (seeds, tasks), else (tasks,)."""


def reproduce_bottleneck(
    quick: bool = True,
    seed: int = 0,
    device: Any = "cpu",
    folder: Path | None = None,
    announce: Announce = lambda what, done, total: None,
) -> list[Row]:
    """Rows with the keys name, quantity, setting, source, ours, agrees, reason, seed; one figure a panel.

    Args:
        quick: 1,600 updates in place of 8,000, five m in place of seven, one seed in place of three.
        seed: of held-out tasks, and the first one of the initialisations and training tasks.
        device: ``"cpu"`` or ``"cuda"``.
        folder: where checkpoints go; the same call resumes from them.
        announce: told of the progress.

    Raises:
        BadInput: a device that is not there.
    """
    updates, sizes = (QUICK_UPDATES, QUICK_SIZES) if quick else (UPDATES, SIZES)
    seeds = range(seed, seed + (1 if quick else SEEDS))
    held_out = {panel: [MAKERS[panel](seed=seed + i) for i in range(HELD_OUT)] for panel in PANELS}
    learned: dict[str, dict[str, dict[int, Errors]]] = {panel: {e: {} for e in EXECUTORS} for panel in PANELS}
    for m in sizes:
        for panel in PANELS:
            runs = [Training(panel, executor, m, updates, seed=s) for executor in EXECUTORS for s in seeds]
            model, _ = train(runs, folder=folder, device=device, announce=announce)
            errors = largest_errors(model, held_out[panel], runs[0].depth)
            for executor, found in zip(EXECUTORS, np.split(errors, len(EXECUTORS)), strict=True):
                learned[panel][executor][m] = found
    rows: list[Row] = []
    for panel in PANELS:
        run = Training(panel, EXECUTORS[0], 1, updates)
        setting = (
            f"{panel}, n=24, g=9/10, L={run.depth}, N={run.transitions}, {HELD_OUT} held-out tasks; {updates:,} "
            f"updates of {run.batch} tasks, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
        )
        written = written_errors(held_out[panel], run.depth, sizes)
        note = f"{updates:,} updates, the source has {UPDATES:,}" if quick else ""
        rows.append(_row("zero answers", setting, None, zero_errors(held_out[panel], run.depth), seed, ""))
        rows += panel_rows(panel, setting, learned[panel], written, seed, note)
    return rows


def zero_errors(held_out: Sequence[Task], depth: int) -> Errors:
    """max |v_l| over depths and states of each task: the error of answering 0."""
    return np.abs(exact_values(*arrays_of(held_out), depth)).max((1, 2))


def written_errors(held_out: Sequence[Task], depth: int, sizes: Sequence[int]) -> dict[str, dict[int, Errors]]:
    """The error of each scheme of `WRITTEN` on each task, by its words and m."""
    found = [task_errors(task, depth, sizes, krylov_dimension(task, depth, 0).value) for task in held_out]
    return {
        words: {m: np.array([getattr(errors[i], scheme) for errors in found]) for i, m in enumerate(sizes)}
        for scheme, words in WRITTEN.items()
    }


def panel_rows(
    panel: str,
    setting: str,
    learned: Mapping[str, Mapping[int, Errors]],
    written: Mapping[str, Mapping[int, Errors]],
    seed: int,
    note: str = "",
) -> list[Row]:
    """Learned and written-down contexts at every m, whether the error falls, and the figure.

    Args:
        panel, setting: names of the panel and of everything chosen.
        learned: executor -> m -> the errors of every seed.
        written: scheme -> m -> the errors.
        note: said of every learned context.
    """
    ranges = {"clocked": (0.61, 0.63), "time-invariant": (0.50, 0.54)}
    rows = []
    for executor, by_size in learned.items():
        for m, errors in by_size.items():
            source = (0.50, 0.89) if m <= 8 else ranges[executor]
            rows.append(_row(f"learned, {executor}, m = {m}", setting, source, errors, seed, note))
    for words, by_size in written.items():
        for m, errors in by_size.items():
            held = words == "sample-and-hold" and m <= 8
            compiled = words == "compiled" and m == 24
            source_range = (1.00, 1.72) if held else (0.03, 0.10) if compiled else None
            reason = "exact here from m = k on; the source does not say which context this is" if compiled else ""
            rows.append(_row(f"{words}, m = {m}", setting, source_range, errors, seed, reason))
    for executor, by_size in learned.items():
        rows.append(_falls(panel, executor, setting, figure_of(by_size[8]), figure_of(by_size[24]), seed))
    places = list(next(iter(learned.values())))
    lines = {f"learned, {executor}": [figure_of(by_size[m]) for m in places] for executor, by_size in learned.items()}
    lines |= {words: [figure_of(by_size[m]) for m in places] for words, by_size in written.items()}
    title = f"Error on {panel}, learned and written down"
    rows[-1]["figure"] = {"kind": "lines", "title": title, "x": "latents or registers a state m", "places": places}
    rows[-1]["figure"] |= {"y": "largest error of a task, mean over tasks", "lines": lines}
    return rows


def figure_of(errors: Errors) -> float:
    """The mean over tasks, then the median over seeds."""
    return float(np.median(errors.mean(-1)))


def _row(quantity: str, setting: str, source: Range | None, errors: Errors, seed: int, reason: str) -> Row:
    ours = figure_of(errors)
    agrees = source is None or source[0] <= ours <= source[1]
    why = "" if agrees else "the source states neither panel nor statistic"
    worst = f"largest over tasks {median(np.atleast_2d(errors).max(-1).tolist()):.3g}"
    means = np.atleast_1d(errors.mean(-1))
    spread = f"seeds {means.min():.3f} .. {means.max():.3f}" if len(means) > 1 else ""
    return {
        "name": "bottleneck",
        "quantity": f"mean over tasks of the largest error, {quantity}",
        "setting": setting,
        "source": "no figure" if source is None else f"{source[0]:.2f} .. {source[1]:.2f}",
        "ours": ours,
        "agrees": agrees,
        "reason": "; ".join(part for part in (why, reason, spread, worst) if part),
        "seed": seed,
    }


def _falls(panel: str, executor: str, setting: str, at_8: float, at_24: float, seed: int) -> Row:
    """error(24) / error(8): the source sees no decrease, on a panel that it does not name."""
    tasks_of = "" if panel == "reversible chain" else "; k = 12 on this panel, so the error may fall here"
    return {
        "name": "bottleneck",
        "quantity": f"error at m = 24 over error at m = 8, learned, {executor}",
        "setting": setting,
        "source": "no decrease",
        "ours": at_24 / at_8,
        "agrees": at_24 >= LEVEL * at_8,
        "reason": f"at least {LEVEL} counts as no decrease{tasks_of}",
        "seed": seed,
    }
