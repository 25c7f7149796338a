"""Deciding and measuring, in one process or several (never threads: python-flint keeps its precision per process)."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constructions.errors import BadInput
from proofs_check.claim import Certificate, Claim, Finding

from .catalogue import CATALOGUE, chosen_rows
from .mutating import Judged, judge_hypotheses, judge_references, judge_theorem
from .mutation_files import Judgements
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

    def certify(self, announce: Announce, decided: Container[tuple[str, str]] = ()) -> Iterator[Certificate]:
        """Decide each claim, in catalogue order, but for those (theorem, claim) that are decided already.

        Raises:
            BadInput: a claim from a user's module fails with an error of its own (ours would be a fault to report).
        """
        # The large claims first, so that no process is left with one at the end.
        names = {
            i: f"certify {c.theorem} {c.name}" for i, c in enumerate(self.claims) if (c.theorem, c.name) not in decided
        }
        order = sorted(names, key=lambda i: self.claims[i].quick)
        for i, (finding, seconds) in self._each(_decide, lambda i: decide(self.claims[i]), names, order, announce):
            claim = self.claims[i]
            yield Certificate(claim, finding.verdict, finding.evidence, seconds, finding.records)

    def measure(self, announce: Announce, measured: Container[str] = ()) -> Iterator[tuple[str, Sequence[Measurement]]]:
        """(theorem, its measurements), in catalogue order, but for those theorems that are measured already."""
        names = {i: f"measure {r.theorem}" for i, r in enumerate(self.rows) if r.theorem not in measured}
        options = self.chosen.options
        for i, found in self._each(_measure, lambda i: self.rows[i].measure(options), names, list(names), announce):
            yield self.rows[i].theorem, found

    def mutate(self, count: int | None, announce: Announce, resume: bool = False) -> Iterator[Judged]:
        """Judge the mutants of each row, `count` of them (None: all), its references and hypotheses; `resume` takes
        over what an interrupted command has judged."""
        names = {i: f"mutate {row.theorem}" for i, row in enumerate(self.rows)}
        here = partial(self.judge_row, count, resume)
        for _, judged in self._each(partial(_mutate, count, resume), here, names, list(names), announce):
            yield from judged

    def judge_row(self, count: int | None, resume: bool, index: int) -> list[Judged]:
        """What became of every change of one row's objects; kept on file as it is found."""
        theorem = self.rows[index].theorem
        claims = [claim for claim in self.claims if claim.theorem == theorem and claim.quick]
        seed = self.chosen.options.seed
        kept = Judgements.begin(theorem, {"count": count, "seed": seed}, resume)
        if not kept.complete:
            kept.keep(judge_theorem(claims, count, seed, kept.known()))
            for claim in claims:
                records = claim.certify().records
                kept.keep(judge_references(claim, records), kept.known())
                kept.keep(judge_hypotheses(claim, records), kept.known())
            kept.finish()
        return kept.judged

    def _each(
        self,
        there: Callable[[int], Any],
        here: Callable[[int], Any],
        names: Mapping[int, str],
        order: Sequence[int],
        announce: Announce,
    ) -> Iterator[tuple[int, Any]]:
        """Each piece of work, by its number and name, with its result; begun in the order given."""
        futures: dict[int, Future[Any]] = {}
        if self._pool is not None:
            futures = {i: self._pool.submit(there, i) for i in order}
        for i, name in names.items():
            announce(name)
            yield i, futures[i].result() if futures else here(i)


_workers: Workers


def _start(chosen: Chosen) -> None:
    """In a new process: the same rows and claims, in the same order. It ends with the one that started it, so that
    nothing is written after a command was killed."""
    global _workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _workers = Workers(chosen, jobs=1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _decide(index: int) -> tuple[Finding, float]:
    return decide(_workers.claims[index])


def _measure(index: int) -> Sequence[Measurement]:
    return _workers.rows[index].measure(_workers.chosen.options)


def _mutate(count: int | None, resume: bool, index: int) -> list[Judged]:
    return _workers.judge_row(count, resume, index)


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
    return Finding(certificate.verdict, certificate.evidence, certificate.records), certificate.seconds
