"""Local Minari datasets as logs, an episode at a time; the optional package `minari` reads them, offline.

Columns: `reward`, `done` (terminations only: a truncated episode would have gone on), `episode`, and the observations.
Discrete observations are `state` and `next_state`. Flat arrays of numbers are `observation_0`, .. and
`next_observation_0`, ..: labels where they are integers, features otherwise. Other spaces need a reader of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from constructions.errors import BadInput


def is_dataset(folder: Path) -> bool:
    """Whether Minari wrote the folder (the one of a version, above `data`)."""
    return (folder / "data" / "metadata.json").is_file()


def read_episodes(folder: Path) -> Iterator[pl.DataFrame]:
    """One frame an episode, in the order of the dataset.

    Raises:
        BadInput: the package is not installed, or the observations are neither discrete nor a flat array of numbers.
    """
    try:
        import minari
    except ImportError:
        raise BadInput(
            f'{folder.name}: expected the package minari to read this dataset (pip install "contextproof[minari]"), '
            "found none installed"
        ) from None
    for number, episode in enumerate(minari.MinariDataset(folder / "data").iterate_episodes()):
        columns: dict[str, Any] = _observations(folder.name, episode.observations)
        columns["reward"] = np.asarray(episode.rewards)
        columns["done"] = np.asarray(episode.terminations, dtype=np.bool_)
        columns["episode"] = np.full(len(columns["reward"]), number)
        yield pl.DataFrame(columns)


def _observations(name: str, observations: Any) -> dict[str, Any]:
    if not isinstance(observations, np.ndarray) or observations.ndim > 2 or observations.dtype.kind not in "biuf":
        found = f"shape {observations.shape}" if isinstance(observations, np.ndarray) else type(observations).__name__
        raise BadInput(f"{name}: expected observations that are discrete or a flat array of numbers, found {found}")
    if observations.ndim == 1:
        return {"state": observations[:-1], "next_state": observations[1:]}
    columns = range(observations.shape[1])
    return {f"observation_{i}": observations[:-1, i] for i in columns} | {
        f"next_observation_{i}": observations[1:, i] for i in columns
    }
