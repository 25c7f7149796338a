"""Files: written to a temporary name and renamed, so that nothing is ever half-written; run folders; stored results."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from constructions.errors import BadInput

RUNS = Path("runs")
"""Where runs go, below the current folder."""


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(f"{path}: expected a place to write to, found: {error.strerror or error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file in one step; an interruption leaves the old one or none.

    Raises:
        BadInput: the folder cannot be written to.
    """
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def to_json(document: Any) -> str:
    """JSON text, the same for the same document; NaN and infinities, for which JSON has no number, become text."""
    return json.dumps(_finite(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(x) for key, x in value.items()}
    return [_finite(x) for x in value] if isinstance(value, (list, tuple)) else value


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """The document with a digest, SHA-256 of the rest with sorted keys: an edited or damaged file is noticed."""
    kept = _finite(document)
    text = json.dumps(kept, sort_keys=True, ensure_ascii=True)
    return {**kept, "digest": hashlib.sha256(text.encode()).hexdigest()}


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document in one step."""
    write_text(path, to_json(document))


def new_run_folder(out: Path | None) -> Path:
    """The folder given, or a new one under `runs/` named by date and time; `runs/latest` points to the new one later.

    Raises:
        BadInput: the path is not a folder, or cannot be made.
    """
    folder = out
    if folder is None:
        stamp = datetime.now().strftime("%Y-%m-%d-%H%M%S")
        folder = RUNS / stamp
        suffix = 1
        while folder.exists():
            suffix += 1
            folder = RUNS / f"{stamp}-{suffix}"
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder}: expected a folder, found a file")
    with _writing(folder):
        (folder / "certificates").mkdir(parents=True, exist_ok=True)
        for stale in (folder / "certificates").glob("*.json"):
            stale.unlink()
        remove_unfinished(folder)
    return folder


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files of a process that was killed while it wrote."""
    with _writing(folder):
        for part in (folder, folder / "certificates"):
            for left in part.glob(".*.json.*"):
                left.unlink()


def interrupted_run() -> Path:
    """The newest run below `runs/` that is not complete.

    Raises:
        BadInput: there is none.
    """
    for path in sorted(RUNS.glob("[0-9]*/results.json"), reverse=True):
        if read_json(path, "the results of a run").get("complete") is False:
            return path.parent
    raise BadInput(f"{RUNS}: expected an interrupted run to resume, found none")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        BadInput: no file, a damaged one, or something else in it.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or "it is not JSON, or not whole"
        raise BadInput(f"{path}: expected {what}, found a file that cannot be read: {reason}") from error
    if not isinstance(document, dict):
        raise BadInput(f"{path}: expected {what}, found {type(document).__name__}")
    return document


def point_latest(folder: Path) -> None:
    """Make `runs/latest` point to a folder, in one step; where links are not allowed a text file says the path."""
    with _writing(RUNS / "latest"):
        RUNS.mkdir(exist_ok=True)
        temporary = RUNS / f".latest.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        target = os.path.relpath(folder.resolve(), RUNS.resolve())
        try:
            temporary.symlink_to(target, target_is_directory=True)
        except (OSError, NotImplementedError):
            temporary.write_text(target + "\n", encoding="utf-8")
        os.replace(temporary, RUNS / "latest")


def store(kind: str, name: str, document: dict[str, Any]) -> Path:
    """Keep the latest result of a kind ("reproduce", "context") under its name, for reports."""
    path = RUNS / kind / f"{name}.json"
    write_json(path, {"stored": datetime.now().isoformat(timespec="seconds"), **document})
    return path


def stored(kind: str) -> list[dict[str, Any]]:
    """Every stored result of a kind, by name.

    Raises:
        BadInput: a stored file that cannot be read.
    """
    paths = sorted((RUNS / kind).glob("*.json"))
    return [{"name": path.stem, **read_json(path, "a stored result")} for path in paths]
