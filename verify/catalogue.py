"""The catalogue: one row per theorem."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from constructions.errors import BadInput

from .row import Row
from .rows import (
    executors,
    less_context,
    linear_features,
    online_learning,
    policies,
    q_learning,
    recurrent,
    temporal_difference,
    what_must_be_kept,
)

CATALOGUE: dict[str, Row] = {
    row.theorem: row
    for row in (
        *temporal_difference.ROWS,
        *what_must_be_kept.ROWS,
        *linear_features.ROWS,
        *less_context.ROWS,
        *executors.ROWS,
        *policies.ROWS,
        *recurrent.ROWS,
        *online_learning.ROWS,
        *q_learning.ROWS,
    )
}


def chosen_rows(ids: Sequence[str], module: Path | None = None) -> list[Row]:
    """The rows named, in catalogue order; all if none is named. With a module, its rows (if none is named, only those).

    Raises:
        BadInput: an unknown id, or a module that cannot be loaded.
    """
    extra = {row.theorem: row for row in load_rows(module)} if module is not None else {}
    known = {**CATALOGUE, **extra}
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise BadInput(f"theorem: expected one of {', '.join(known)}, found {unknown[0]}")
    if not ids:
        return list((extra or CATALOGUE).values())
    return [row for name, row in known.items() if name in set(ids)]


def load_rows(path: Path) -> list[Row]:
    """`ROWS` of a Python file.

    Raises:
        BadInput: no such file, an error while it is read, no list of `Row` objects, or an id that is taken.
    """
    if not path.is_file():
        raise BadInput(f"module {path}: expected a Python file, found none")
    spec = importlib.util.spec_from_file_location(f"_verify_module_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise BadInput(f"module {path}: expected a Python file that can be imported (name ending in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BadInput:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise BadInput(f"module {path}: cannot be loaded: {type(error).__name__}: {text}") from error
    rows = getattr(module, "ROWS", None)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Row) for row in rows):
        raise BadInput(f"module {path}: expected a list ROWS of verify.row.Row objects, found {type(rows).__name__}")
    for row in rows:
        if row.theorem in CATALOGUE:
            raise BadInput(f"module {path}: expected a new id, found {row.theorem}, which the catalogue has already")
    return rows
