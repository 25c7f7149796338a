"""`verify audit`: which theorems have an audit, which settings a run has, and its document."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from constructions.errors import BadInput

if TYPE_CHECKING:
    from numerics.audit import AuditRow, Plan, Setting, Subject

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


def audit(request: Request, announce: Callable[[str], Any]) -> Iterator[AuditRow]:
    """A row for each subject and setting.

    Raises:
        BadInput: see `subjects` and `Request.settings`.
    """
    from numerics.audit import audit_row

    settings = request.settings()
    for subject in subjects(request):
        announce(f"{subject.theorem}, {subject.variant}")
        for setting in settings:
            yield audit_row(subject, setting)


def replay_document(request: Request, row: AuditRow) -> dict[str, Any]:
    """All that `replay` needs to run a row again, and the entry that was furthest off."""
    return {
        "replay": {
            "ids": [row.subject.theorem],
            "formats": [row.setting.format],
            "models": [row.setting.model],
            "task": request.task,
            "horizon": request.horizon,
            "device": row.setting.device,
            "quick": request.quick,
            "seed": request.seed,
            "tolerance": request.tolerance,
        },
        "variant": row.subject.variant,
        "task": row.subject.task,
        "worst": row.worst,
    }


def replay(document: dict[str, Any], announce: Callable[[str], Any]) -> tuple[AuditRow, bool]:
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
        if (row.subject.variant, row.subject.task) == (variant, task):
            return row, (row.worst["entry"], row.worst["computed"]) == kept
    raise BadInput(f"replay: expected the variant {variant} on {task}, found none")


def worst_rows(rows: Sequence[AuditRow]) -> list[AuditRow]:
    """Of each theorem, format and model the row with the largest relative error."""
    best: dict[tuple[str, str, str], AuditRow] = {}
    for row in rows:
        key = row.subject.theorem, row.setting.format, row.setting.model
        if key not in best or row.errors["relative"]["max"] > best[key].errors["relative"]["max"]:
            best[key] = row
    return list(best.values())
