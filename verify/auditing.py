"""`verify audit`: which theorems have an audit, which settings a run has, and the documents of its rows.

Rows are documents from the start, as JSON has them (infinities are text), whether they were just made or were kept by
an earlier command.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from constructions.errors import BadInput

from . import __version__, storage

if TYPE_CHECKING:
    from numerics.audit import Plan, Setting, Subject

Document = dict[str, Any]

WINGS = {
    "td.executor": ("temporal_difference.audit", "subjects"),
    "td.krylov": ("temporal_difference.audit", "subjects"),
    "td.memory-optimal": ("temporal_difference.audit", "subjects"),
    "online.weighted-majority": ("online_learning.audit", "majority_subjects"),
    "online.q-learning": ("online_learning.audit", "control_subjects"),
    "recurrent.delta-rule": ("recurrent.audit", "subjects"),
}
"""id -> module in `numerics` and the function in it that yields subjects."""
QUICK_FORMATS = ("bf16", "fp16", "fp32", "fp64")
FULL_FORMATS = ("e4m3", "e5m2", "bf16", "fp16", "tf32", "fp32", "fp64", "p40", "p113")


@dataclass(frozen=True)
class Request:
    """What a user asked for; empty formats and models mean the usual ones."""

    ids: tuple[str, ...]
    formats: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    task: str | None = None
    horizon: int | None = None
    device: str = "cpu"
    quick: bool = False
    seed: int = 0
    tolerance: float = 1e-2

    @property
    def theorems(self) -> tuple[str, ...]:
        """The ids asked for, or all that have an audit.

        Raises:
            BadInput: a theorem that has none.
        """
        for theorem in self.ids:
            if theorem not in WINGS:
                raise BadInput(f"audit: expected one of {', '.join(WINGS)}, found {theorem}")
        return tuple(dict.fromkeys(self.ids)) or tuple(WINGS)

    def plan(self) -> Plan:
        """Tasks and sizes."""
        from numerics.audit import Plan

        return Plan(self.quick, self.seed, self.task, self.horizon)

    def settings(self) -> list[Setting]:
        """Every format in every model; torch computes in its own formats only, and alone knows other devices.

        Raises:
            BadInput: an unknown format, model or device, or a tolerance that is not positive.
        """
        from numerics.audit import EVERY, TORCH, TORCH_NAMES, WIDE, Setting
        from numerics.torch_arithmetic import parse_device

        parse_device(self.device)
        if not 0 < self.tolerance < float("inf"):
            raise BadInput(f"tolerance: expected a positive finite number, found {self.tolerance}")
        formats = self.formats or (QUICK_FORMATS if self.quick else FULL_FORMATS)
        models = self.models or (EVERY, WIDE, TORCH)
        found = [
            Setting(name, model, self.device if model == TORCH else "cpu", self.tolerance)
            for name in formats
            for model in models
            if model != TORCH or name in TORCH_NAMES or self.models
        ]
        for setting in found:
            setting.arithmetic()
        return found


def subjects(request: Request) -> Iterator[Subject]:
    """The subjects of every theorem asked for.

    Raises:
        BadInput: a theorem that has no audit, or an unknown task.
    """
    for theorem in request.theorems:
        module, name = WINGS[theorem]
        found: Callable[[str, Plan], Iterator[Subject]] = getattr(importlib.import_module(f"numerics.{module}"), name)
        yield from found(theorem, request.plan())


def audit(request: Request, announce: Callable[[str], Any], kept: Sequence[Document] = ()) -> Iterator[Document]:
    """A row for each subject and setting; those that are kept already are not made again.

    Raises:
        BadInput: see `subjects` and `Request.settings`.
    """
    from numerics.audit import MODEL_TEXT, audit_row

    def place(row: Document) -> tuple[str, ...]:
        return tuple(row[name] for name in ("theorem", "variant", "task", "format", "model", "device"))

    known = {place(row): row for row in kept}
    settings = request.settings()
    for subject in subjects(request):
        for setting in settings:
            announce(f"{subject.theorem}, {subject.variant}: {setting.format}, {MODEL_TEXT[setting.model]}")
            names = subject.theorem, subject.variant, subject.task, setting.format
            found = known.get((*names, MODEL_TEXT[setting.model], setting.device))
            yield found if found is not None else json.loads(storage.to_json(audit_row(subject, setting).to_json()))


def choices(request: Request) -> Document:
    """What an audit must have in common with the one that it resumes."""
    names = ("task", "horizon", "quick", "seed", "tolerance")
    return {"contextproof": __version__, **{name: getattr(request, name) for name in names}}


def audit_theorem(
    theorem: str, request: Request, announce: Callable[[str], Any], resume: bool = False
) -> list[Document]:
    """The rows of one theorem, stored under `runs/audit/` one by one, with a worst case for each format and model.

    Raises:
        BadInput: see `audit`; with `resume`, a stored audit that is damaged.
    """
    path = storage.RUNS / "audit" / f"{theorem}.json"
    kept, rows = list[Document](), list[Document]()
    if resume and path.exists():
        stored = storage.read_json(path, "a stored audit")
        kept = stored.get("rows", []) if stored.get("choices") == choices(request) else []

    def keep(complete: bool) -> None:
        given = {"quick": request.quick, "seed": request.seed, "choices": choices(request), "complete": complete}
        # Rows of an earlier command that this one has not come to yet are not lost.
        rest = [] if complete else [row for row in kept if row not in rows]
        storage.store("audit", theorem, {**given, "rows": rows + rest})

    for row in audit(replace(request, ids=(theorem,)), announce, kept):
        rows.append(row)
        if row not in kept:
            keep(False)
    keep(True)
    for row in worst_rows(rows):
        document = replay_document(request, row)
        name = "-".join([theorem, row["format"], *document["replay"]["models"]])
        storage.write_json(storage.RUNS / "audit" / "worst" / f"{name}.json", document)
    return rows


def replay_document(request: Request, row: Document) -> Document:
    """All that `replay` needs to run a row again, and the entry that was furthest off."""
    from numerics.audit import MODEL_TEXT

    return {
        "replay": {
            "ids": [row["theorem"]],
            "formats": [row["format"]],
            "models": [name for name, text in MODEL_TEXT.items() if text == row["model"]],
            "task": request.task,
            "horizon": request.horizon,
            "device": row["device"],
            "quick": request.quick,
            "seed": request.seed,
            "tolerance": request.tolerance,
        },
        "variant": row["variant"],
        "task": row["task"],
        "worst": row["worst"],
    }


def replay(document: Document, announce: Callable[[str], Any]) -> tuple[Document, bool]:
    """The row of a replay document, run again, and whether its worst entry came out the same.

    Raises:
        BadInput: not such a document.
    """
    try:
        given = {**document["replay"]}
        given |= {name: tuple(given[name]) for name in ("ids", "formats", "models")}
        request, variant, task = Request(**given), document["variant"], document["task"]
        kept = document["worst"]["entry"], document["worst"]["computed"]
    except (KeyError, TypeError) as error:
        raise BadInput(
            f"replay: expected a worst case that verify audit wrote, found another document ({error})"
        ) from error
    for row in audit(request, announce):
        if (row["variant"], row["task"]) == (variant, task):
            return row, (row["worst"]["entry"], row["worst"]["computed"]) == kept
    raise BadInput(f"replay: expected the variant {variant} on {task}, found none")


def worst_rows(rows: Sequence[Document]) -> list[Document]:
    """Of each theorem, format and model the row with the largest relative error."""
    best: dict[tuple[str, str, str], Document] = {}
    for row in rows:
        key = row["theorem"], row["format"], row["model"]
        if key not in best or _relative(row) > _relative(best[key]):
            best[key] = row
    return list(best.values())


def _relative(row: Document) -> float:
    return float(row["error"]["relative"]["max"])
