"""Around the work of the commands: progress, reproductions, the exit code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .processes import Announce
from .reproductions import REPRODUCTIONS
from .row import Options


@contextmanager
def progress(console: Console, total: int | None, silent: bool) -> Iterator[Announce]:
    """A bar on the console; each announcement names the step that starts, and counts the one before as done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=silent or not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=total)
        started = False

        def announce(step: str) -> None:
            nonlocal started
            bar.update(task, description=step, advance=1 if started else 0)
            started = True

        yield announce


def reproduce(names: Sequence[str], options: Options, announce: Announce) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each reproduction's rows."""
    for name in names:
        announce(f"reproduce {name}")
        yield name, REPRODUCTIONS[name](options.quick, options.seed, options.device)


PROVED_AND_SOUND, REFUTED, BAD_INPUT, UNDECIDED = 0, 1, 2, 3


def exit_code(certificates: Sequence[dict[str, Any]] = (), measurements: Sequence[dict[str, Any]] = ()) -> int:
    """0 all proved and sound, 1 something refuted or violated, 3 something undecided; of documents."""
    verdicts = {certificate["verdict"] for certificate in certificates}
    if "refuted" in verdicts or not all(measurement["sound"] for measurement in measurements):
        return REFUTED
    return UNDECIDED if "undecided" in verdicts else PROVED_AND_SOUND
