"""Checkpoints of long runs: arrays in one file for each setting, written beside its place and moved there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def read_checkpoint(path: Path | None) -> tuple[int, dict[str, NDArray] | None]:
    """The step and arrays of a checkpoint; (0, None) where there is none, or none that can be read."""
    if path is None or not path.is_file():
        return 0, None
    try:
        with np.load(path) as file:
            arrays = dict(file)
        return int(arrays["step"]), arrays
    except (OSError, ValueError, KeyError, EOFError):
        return 0, None


def write_checkpoint(path: Path, step: int, arrays: Mapping[str, NDArray], *settings: Any) -> None:
    """Arrays, step and settings in one file; an interruption leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp.npz")
    try:
        np.savez(temporary, allow_pickle=False, step=np.array(step), settings=settings_text(*settings), **arrays)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
