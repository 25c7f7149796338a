"""Checkpoints of long runs: arrays in one file for each setting, written beside its place and moved there."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constructions.errors import BadInput

FORMAT = 1
"""Version of the files."""

Announce = Callable[[str, int, int], None]
"""Told of progress: (what runs, steps done, steps in all)."""


def settings_text(*settings: Any) -> str:
    """Dataclasses as one line of JSON, the same for the same values."""
    return json.dumps([asdict(x) for x in settings], sort_keys=True)


def checkpoint_path(folder: Path | None, prefix: str, *settings: Any) -> Path | None:
    """The file in a folder for these settings, and for no others; None without a folder."""
    if folder is None:
        return None
    return folder / f"{prefix}-{hashlib.sha256(settings_text(*settings).encode()).hexdigest()[:12]}.npz"


def read_checkpoint(path: Path | None, *settings: Any) -> tuple[int, dict[str, NDArray] | None]:
    """The step and arrays of a checkpoint; (0, None) where there is none.

    Raises:
        BadInput: a file that is damaged, of another format, or of other settings than its name says.
    """
    if path is None or not path.is_file():
        return 0, None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        step, form, kept = int(arrays["step"]), int(arrays["format"]), str(arrays["settings"])
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile):
        raise BadInput(f"{path}: expected a checkpoint, found a damaged file; without it the run begins anew") from None
    if form != FORMAT or kept != settings_text(*settings):
        found = f"format {form}" if form != FORMAT else "other settings"
        raise BadInput(f"{path}: expected a checkpoint of format {FORMAT} and of this run's settings, found {found}")
    return step, arrays


def write_checkpoint(path: Path, step: int, arrays: Mapping[str, NDArray], *settings: Any) -> None:
    """Arrays, step and settings in one file; an interruption leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp.npz")
    try:
        kept: dict[str, Any] = {"format": FORMAT, "step": step, "settings": settings_text(*settings), **arrays}
        np.savez(temporary, **kept)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
