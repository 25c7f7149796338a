"""What `verify mutate` has judged, one file a theorem under `runs/mutate/`: kept as it goes, so that it can go on."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constructions.errors import BadInput

from . import __version__, storage
from .mutating import OUTCOMES, Change, Judged

EVERY = 20.0
"""Seconds between two writings."""


@dataclass
class Judgements:
    """The judged changes of one theorem, and the choices they were made with."""

    path: Path
    choices: dict[str, Any]
    judged: list[Judged]
    complete: bool = False

    @staticmethod
    def begin(theorem: str, choices: dict[str, Any], resume: bool) -> Judgements:
        """None judged yet; with `resume` those that an earlier command with the same choices and version has decided.

        Raises:
            BadInput: a damaged file.
        """
        path = storage.RUNS / "mutate" / f"{theorem}.json"
        choices = {"theorem": theorem, "contextproof": __version__, **choices}
        begun = Judgements(path, choices, [])
        if not (resume and path.exists()):
            return begun
        document = storage.read_json(path, "judged mutants")
        if document != storage.sealed({key: value for key, value in document.items() if key != "digest"}):
            raise BadInput(f"{path}: expected judged mutants, found a digest that does not fit")
        if document["choices"] != choices:
            return begun
        judged = [Judged(**line) for line in document["judged"]]
        decided = [one for one in judged if one.outcome != "undecided"]
        return Judgements(path, choices, decided, document["complete"] and decided == judged)

    def known(self) -> Collection[Change]:
        """Kind and text of each change judged so far."""
        return {(one.kind, one.text) for one in self.judged}

    def keep(self, judged: Iterable[Judged], known: Collection[Change] = ()) -> None:
        """Take in what is judged, unless it is known, and write it now and then."""
        written = time.monotonic()
        for one in judged:
            assert one.outcome in OUTCOMES
            if (one.kind, one.text) in known:
                continue
            self.judged.append(one)
            if time.monotonic() - written > EVERY:
                self.write()
                written = time.monotonic()

    def finish(self) -> None:
        """Everything is judged."""
        self.complete = True
        self.write()

    def write(self) -> None:
        """Write the file."""
        judged = [dataclasses.asdict(one) for one in self.judged]
        document = {"choices": self.choices, "complete": self.complete, "judged": judged}
        storage.write_json(self.path, storage.sealed(document))
