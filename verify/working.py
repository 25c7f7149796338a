"""The work behind the commands: certify, measure, reproduce; with progress, and results as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from constructions.errors import BadInput
from numerics.measurement import Measurement
from proofs_check.claim import Certificate, Claim

from .catalogue import CATALOGUE, REPRODUCTIONS
from .row import Options, Row

Announce = Callable[[str], None]


@contextmanager
def progress(console: Console, total: int, silent: bool) -> Iterator[Announce]:
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


def claims_of(rows: Sequence[Row], options: Options) -> list[Claim]:
    """Every claim of the rows, or those of the quick profile."""
    return [claim for row in rows for claim in row.claims(options) if claim.quick or not options.quick]


def certify(claims: Sequence[Claim], announce: Announce) -> Iterator[Certificate]:
    """Decide each claim.

    Raises:
        BadInput: a claim from a user's module fails with an error of its own (one of ours would be a fault to report).
    """
    for claim in claims:
        announce(f"certify {claim.theorem} {claim.name}")
        try:
            yield claim.certify()
        except Exception as error:
            if claim.theorem in CATALOGUE:
                raise
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise BadInput(f"{claim.theorem} {claim.name}: expected a verdict, found an error: {text}") from error


def measure(rows: Sequence[Row], options: Options, announce: Announce) -> Iterator[Measurement]:
    """Take each row's measurements."""
    for row in rows:
        announce(f"measure {row.theorem}")
        yield from row.measure(options)


def reproduce(names: Sequence[str], options: Options, announce: Announce) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each reproduction's rows."""
    for name in names:
        announce(f"reproduce {name}")
        yield name, REPRODUCTIONS[name](options.quick, options.seed, options.device)


PROVED_AND_SOUND, REFUTED, BAD_INPUT, UNDECIDED = 0, 1, 2, 3


def exit_code(certificates: Sequence[Certificate] = (), measurements: Sequence[Measurement] = ()) -> int:
    """0 all proved and sound, 1 something refuted or violated, 3 something undecided."""
    verdicts = {str(certificate.verdict) for certificate in certificates}
    if "refuted" in verdicts or not all(m.sound for m in measurements):
        return REFUTED
    return UNDECIDED if "undecided" in verdicts else PROVED_AND_SOUND
