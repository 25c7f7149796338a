"""The learned bottleneck encoder beside written-down contexts (theory A9): `verify reproduce bottleneck`.

Error against m on the panels of `verify reproduce thresholds`: of a model the largest over depths, states and held-out
tasks, then the median over seeds. The source states neither the panel of its figures nor the statistic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from constructions.task import Task
from numerics import tasks
from numerics.checkpoints import Announce
from numerics.temporal_difference.bottleneck import EXECUTORS, PANELS, Training, largest_errors, train
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.error_law import task_errors

MAKERS: dict[str, Callable[..., Task]] = {"reversible chain": tasks.reversible_chain, "block cycle": tasks.block_cycle}
SIZES = {panel: (1, 2, 4, 8, 12, 16, 24) for panel in PANELS}
QUICK_SIZES = {"reversible chain": (2, 8, 24), "block cycle": (8, 24)}
UPDATES, QUICK_UPDATES = 8_000, 700
SEEDS = 3
HELD_OUT, QUICK_HELD_OUT = 100, 40

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


def reproduce_bottleneck(
    quick: bool = True,
    seed: int = 0,
    device: Any = "cpu",
    folder: Path | None = None,
    announce: Announce = lambda what, done, total: None,
) -> list[Row]:
    """Rows with the keys name, quantity, setting, source, ours, agrees, reason, seed; one figure a panel.

    Args:
        quick: 700 updates in place of 8,000, fewer m, one seed in place of three, 40 held-out tasks in place of 100.
        seed: of held-out tasks, and the first one of the initialisations and training tasks.
        device: ``"cpu"`` or ``"cuda"``.
        folder: where checkpoints go; the same call resumes from them.
        announce: told of the progress.

    Raises:
        BadInput: a device that is not there.
    """
    rows: list[Row] = []
    for panel in PANELS:
        base = Training(panel, EXECUTORS[0], 1, QUICK_UPDATES if quick else UPDATES, seed=seed)
        sizes = (QUICK_SIZES if quick else SIZES)[panel]
        held_out = [MAKERS[panel](seed=seed + i) for i in range(QUICK_HELD_OUT if quick else HELD_OUT)]
        seeds = range(seed, seed + (1 if quick else SEEDS))
        setting = (
            f"{panel}, n=24, g=9/10, L={base.depth}, N={base.transitions}, {len(held_out)} held-out tasks; "
            f"{base.updates:,} updates, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}"
        )
        learned: dict[str, dict[int, list[float]]] = {}
        for executor in EXECUTORS:
            learned[executor] = {
                m: [
                    _error(replace(base, executor=executor, latents=m, seed=s), held_out, folder, device, announce)
                    for s in seeds
                ]
                for m in sizes
            }
        written = written_errors(held_out, base.depth, sizes)
        note = f"{base.updates:,} updates, the source has {UPDATES:,}" if quick else ""
        rows += panel_rows(panel, setting, learned, written, seed, note)
    return rows


def _error(training: Training, held_out: Sequence[Task], folder: Path | None, device: Any, announce: Announce) -> float:
    model, _ = train(training, folder=folder, device=device, announce=announce)
    return max(largest_errors(model, held_out, training.depth))


def written_errors(held_out: Sequence[Task], depth: int, sizes: Sequence[int]) -> dict[str, dict[int, float]]:
    """The largest error of each scheme of `WRITTEN`, by its words and m."""
    found = [task_errors(task, depth, sizes, krylov_dimension(task, depth, 0).value) for task in held_out]
    return {
        words: {m: max(getattr(errors[i], scheme) for errors in found) for i, m in enumerate(sizes)}
        for scheme, words in WRITTEN.items()
    }


def panel_rows(
    panel: str,
    setting: str,
    learned: Mapping[str, Mapping[int, Sequence[float]]],
    written: Mapping[str, Mapping[int, float]],
    seed: int,
    note: str = "",
) -> list[Row]:
    """Learned and written-down contexts at every m, whether the error falls, and the figure.

    Args:
        panel, setting: names of the panel and of everything chosen.
        learned: executor -> m -> the error of each seed.
        written: scheme -> m -> error.
        note: said of every learned context.
    """
    ranges = {"clocked": (0.61, 0.63), "time-invariant": (0.50, 0.54)}
    rows = []
    for executor, errors in learned.items():
        for m, over_seeds in errors.items():
            source = (0.50, 0.89) if m <= 8 else ranges[executor]
            ours = median(over_seeds)
            spread = f"seeds {min(over_seeds):.3f} .. {max(over_seeds):.3f}" if len(over_seeds) > 1 else ""
            reason = "; ".join(part for part in (note, spread) if part)
            rows.append(_row(f"learned, {executor}, m = {m}", setting, source, ours, seed, reason))
    for words, by_size in written.items():
        for m, ours in by_size.items():
            held = words == "sample-and-hold" and m <= 8
            compiled = words == "compiled" and m == 24
            source_range = (1.00, 1.72) if held else (0.03, 0.10) if compiled else None
            reason = "exact here from m = k on; the source does not say which context this is" if compiled else ""
            rows.append(_row(f"{words}, m = {m}", setting, source_range, ours, seed, reason))
    for executor, errors in learned.items():
        rows.append(_falls(panel, executor, setting, median(errors[8]), median(errors[24]), seed))
    places = list(next(iter(learned.values())))
    lines = {f"learned, {executor}": [median(errors[m]) for m in places] for executor, errors in learned.items()}
    lines |= {words: [errors[m] for m in places] for words, errors in written.items()}
    title = f"Largest error on {panel}, learned and written down"
    rows[-1]["figure"] = {"kind": "lines", "title": title, "x": "latents or registers a state m", "places": places}
    rows[-1]["figure"]["lines"] = lines
    return rows


def _row(quantity: str, setting: str, source: Range | None, ours: float, seed: int, reason: str) -> Row:
    agrees = source is None or source[0] <= ours <= source[1]
    why = "" if agrees else "the source states neither panel nor statistic"
    return {
        "name": "bottleneck",
        "quantity": f"largest error, {quantity}",
        "setting": setting,
        "source": "no figure" if source is None else f"{source[0]:.2f} .. {source[1]:.2f}",
        "ours": ours,
        "agrees": agrees,
        "reason": "; ".join(part for part in (why, reason) if part),
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
