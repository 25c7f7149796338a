"""Deciding claims, in one process or several: python-flint's precision belongs to a process, so never in threads."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from constructions.errors import BadInput
from proofs_check.claim import Certificate, Claim, Finding

from .catalogue import CATALOGUE, chosen_rows
from .row import Options, Row


@dataclass(frozen=True)
class Chosen:
    """What to certify: rows by id and module, so that another process can find the same claims."""

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


def certify(chosen: Chosen, announce: Callable[[str], None], jobs: int = 0) -> Iterator[Certificate]:
    """Decide each claim, in catalogue order; `jobs` 0 means one process a processor where the profile is not quick.

    Raises:
        BadInput: a claim from a user's module fails with an error of its own (one of ours would be a fault to report).
    """
    claims = chosen.claims()
    workers = jobs or (1 if chosen.options.quick else os.cpu_count() or 1)
    if min(workers, len(claims)) <= 1:
        for claim in claims:
            announce(f"certify {claim.theorem} {claim.name}")
            yield decide(claim)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start, (chosen,)) as pool:
        # The large claims first, so that no process is left with one at the end.
        order = sorted(range(len(claims)), key=lambda i: claims[i].quick)
        futures = {i: pool.submit(_decide, i) for i in order}
        try:
            for i, claim in enumerate(claims):
                announce(f"certify {claim.theorem} {claim.name}")
                finding, seconds = futures[i].result()
                yield Certificate(claim, finding.verdict, finding.evidence, seconds)
        finally:
            for future in futures.values():
                future.cancel()


_claims: Sequence[Claim] = ()


def _start(chosen: Chosen) -> None:
    """In a new process: the same claims, in the same order."""
    global _claims
    _claims = chosen.claims()


def _decide(index: int) -> tuple[Finding, float]:
    certificate = decide(_claims[index])
    return Finding(certificate.verdict, certificate.evidence), certificate.seconds


def decide(claim: Claim) -> Certificate:
    """One claim, errors of a user's module as one sentence.

    Raises:
        BadInput: as in `certify`.
    """
    try:
        return claim.certify()
    except Exception as error:
        if claim.theorem in CATALOGUE:
            raise
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise BadInput(f"{claim.theorem} {claim.name}: expected a verdict, found an error: {text}") from error
