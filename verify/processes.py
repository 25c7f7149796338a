"""Deciding and measuring, in one process or several (never threads: python-flint keeps its precision per process)."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constructions.errors import BadInput
from proofs_check.claim import Certificate, Claim, Finding

from .catalogue import CATALOGUE, chosen_rows
from .row import Options, Row

if TYPE_CHECKING:
    from numerics.measurement import Measurement

Announce = Callable[[str], None]
"""Told which step starts."""


@dataclass(frozen=True)
class Chosen:
    """What to certify and measure: rows by id and module, so that another process can find the same ones."""

    ids: tuple[str, ...]
    module: Path | None
    options: Options

    def rows(self) -> list[Row]:
        """The rows.

        Raises:
            BadInput: an unknown id, or a module that cannot be loaded.
        """
        return chosen_rows(self.ids, self.module)

    def claims(self) -> list[Claim]:
        """Every claim of the rows, or those of the quick profile."""
        return [c for row in self.rows() for c in row.claims(self.options) if c.quick or not self.options.quick]


class Workers:
    """A pool of processes for the work of some rows; a context manager.

    `jobs` 0 means one process a processor, and this one alone where the profile is quick or the device is not the CPU
    (which two processes would only share).
    """

    def __init__(self, chosen: Chosen, jobs: int = 0) -> None:
        self.chosen = chosen
        self.rows = chosen.rows()
        self.claims = chosen.claims()
        options = chosen.options
        alone = options.quick or options.device != "cpu"
        count = min(jobs or (1 if alone else os.cpu_count() or 1), max(len(self.claims), len(self.rows)))
        self._pool: ProcessPoolExecutor | None = None
        if count > 1:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(count, context, _start, (chosen,))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def certify(self, announce: Announce) -> Iterator[Certificate]:
        """Decide each claim, in catalogue order.

        Raises:
            BadInput: a claim from a user's module fails with an error of its own (ours would be a fault to report).
        """
        # The large claims first, so that no process is left with one at the end.
        order = sorted(range(len(self.claims)), key=lambda i: self.claims[i].quick)
        names = [f"certify {claim.theorem} {claim.name}" for claim in self.claims]
        results = self._each(_decide, lambda i: decide(self.claims[i]), names, order, announce)
        for claim, (finding, seconds) in zip(self.claims, results, strict=True):
            yield Certificate(claim, finding.verdict, finding.evidence, seconds)

    def measure(self, announce: Announce) -> Iterator[Measurement]:
        """Take each row's measurements, in catalogue order."""
        names = [f"measure {row.theorem}" for row in self.rows]
        options = self.chosen.options
        for found in self._each(_measure, lambda i: self.rows[i].measure(options), names, range(len(names)), announce):
            yield from found

    def _each(
        self,
        there: Callable[[int], Any],
        here: Callable[[int], Any],
        names: Sequence[str],
        order: Sequence[int],
        announce: Announce,
    ) -> Iterator[Any]:
        """The result of each piece of work, by its place; begun in the order given."""
        futures: dict[int, Future[Any]] = {}
        if self._pool is not None:
            futures = {i: self._pool.submit(there, i) for i in order}
        for i, name in enumerate(names):
            announce(name)
            yield futures[i].result() if futures else here(i)


_workers: Workers


def _start(chosen: Chosen) -> None:
    """In a new process: the same rows and claims, in the same order."""
    global _workers
    _workers = Workers(chosen, jobs=1)


def _decide(index: int) -> tuple[Finding, float]:
    return decide(_workers.claims[index])


def _measure(index: int) -> Sequence[Measurement]:
    return _workers.rows[index].measure(_workers.chosen.options)


def decide(claim: Claim) -> tuple[Finding, float]:
    """What became of one claim, and its seconds; an error of a user's module is one sentence.

    Raises:
        BadInput: as in `Workers.certify`.
    """
    try:
        certificate = claim.certify()
    except Exception as error:
        if claim.theorem in CATALOGUE:
            raise
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise BadInput(f"{claim.theorem} {claim.name}: expected a verdict, found an error: {text}") from error
    return Finding(certificate.verdict, certificate.evidence), certificate.seconds
