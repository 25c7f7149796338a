"""Reproductions that train for long: a bar of their own, and checkpoints below `runs/` from which they resume."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from . import storage


@contextmanager
def steps_bar() -> Iterator[Callable[[str, int, int], None]]:
    """One line for each thing that trains, on a terminal's standard error; it may stand below another bar."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        lines: dict[str, Any] = {}

        def announce(what: str, done: int, total: int) -> None:
            if what not in lines:
                lines[what] = bar.add_task(what, total=total)
            bar.update(lines[what], completed=done)

        yield announce


def recovery(quick: bool, seed: int, device: str) -> list[dict[str, Any]]:
    """`verify reproduce recovery`; interrupted, it goes on from its last checkpoint when called again."""
    from numerics.temporal_difference.recovery_table import reproduce_recovery

    with steps_bar() as announce:
        return reproduce_recovery(quick, seed, device, storage.RUNS / "recovery", announce)


def bottleneck(quick: bool, seed: int, device: str) -> list[dict[str, Any]]:
    """`verify reproduce bottleneck`, likewise."""
    from numerics.temporal_difference.bottleneck_table import reproduce_bottleneck

    with steps_bar() as announce:
        return reproduce_bottleneck(quick, seed, device, storage.RUNS / "bottleneck", announce)
