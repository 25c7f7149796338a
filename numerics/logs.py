"""Recorded logs: CSV, Parquet and NumPy files and Minari datasets, counted exactly into the statistics of a task.

Conventions (theory A0); docs/logs.md has them at length:

* CSV decimals are exact (``0.1`` is 1/10) and so are Parquet decimals; a binary float stands for its binary value.
* State labels are integers or text. CSV labels are numbers if all of them are, over all files, else text. Sorted, they
  become 0..n-1, so gaps in a numbering are harmless. A number that is not an integer is no label.
* A successor flagged as done is terminal: value 0, no row of P, its label is not looked at and may be missing. Every
  other successor must start a transition somewhere in the files, otherwise P has no row for it.

Files are streamed: memory holds the counts, never the log. Data rows are counted from 1, a CSV header not included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from constructions.errors import BadInput
from constructions.task import TaskStatistics, exact_discount
from numerics.log_counts import Columns, LogCounts, Numbered, count_file, number_states
from numerics.log_files import LogFile, find_files
from numerics.log_jobs import Jobs, merge_files

Paths = str | Path | Sequence[str | Path]


@dataclass(frozen=True, eq=False)
class CountedTask(TaskStatistics):
    """A task of which only the statistics are known, the log being counted and let go; fields as in the base class."""

    n: int
    discount: Fraction
    name: str
    transitions: int
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    visits: NDArray[np.int64]
    reward_sums: list[Fraction]

    def describe(self) -> dict[str, Any]:
        """Discount and number of transitions."""
        return {"discount": str(self.discount), "transitions": self.transitions}


@dataclass(frozen=True)
class Reading:
    """How a log was read; no part of what it says.

    Attributes:
        files: number of files.
        seconds: wall-clock time.
        engine: program that read and grouped the rows.
    """

    files: int
    seconds: float
    engine: str = field(default=f"polars {pl.__version__}, streaming")


@dataclass(frozen=True, eq=False)
class Log:
    """A recorded log as a task, with what its states were called.

    Attributes:
        task: the statistics over states 0..n-1, exact.
        labels: what state i is called in the files, length n; all int or all str, ascending.
        rows: number of data rows, equal to ``task.transitions``.
        file: the file's name, without its folder; of several, the first one's and how many more there are.
        reading: how it was read.
    """

    task: CountedTask
    labels: list[int] | list[str]
    rows: int
    file: str
    reading: Reading


def read_log(
    logs: Paths,
    state: str,
    next_state: str,
    reward: str,
    discount: object,
    done: str | None = None,
    progress: Callable[[str], None] | None = None,
    jobs: Jobs | None = None,
) -> Log:
    """Read a log of transitions; suffixes (.csv, .parquet, .npz) name the formats.

    Args:
        logs: files, folders, glob patterns or Minari datasets, one or several.
        state, next_state, reward: names of the columns (of the arrays, in a .npz file).
        discount: g, public; text such as ``"0.9"`` is read as written, see `exact_discount`.
        done: column of terminal flags (booleans, 0/1, or true/false text); without it no successor is terminal.
        progress: called with a short phrase as each stage begins.
        jobs: how many files are read at once, and where; one after another if None. The result is the same.

    Raises:
        BadInput: a file, a column or a value cannot be used; one sentence naming it.
    """
    started = time.perf_counter()
    g = exact_discount(discount)
    tell = progress or (lambda phrase: None)
    columns = Columns(state, next_state, reward, done)
    require_different(
        {"state": state, "next state": next_state, "reward": reward, **({} if done is None else {"done": done})}
    )
    files = find_files(logs)
    name = named(files)
    tell(f"reading {name}")
    counts = merge_files(partial(count_file, columns=columns), LogCounts(), files, jobs or Jobs(), tell)
    if counts.rows == 0:
        raise BadInput(f"{name}: expected at least one transition, found a header and no rows")
    tell("numbering states")
    found = number_states(counts, files, columns)
    task = counted_task(found, g, name)
    return Log(task, found.labels, task.transitions, name, Reading(len(files), time.perf_counter() - started))


def counted_task(found: Numbered, discount: Fraction, name: str) -> CountedTask:
    """The task that numbered counts make."""
    transitions = int(found.visits.sum())
    return CountedTask(len(found.labels), discount, name, transitions, found.pairs, found.visits, found.reward_sums)


def named(files: Sequence[LogFile]) -> str:
    """The first file's name, and how many more there are."""
    return files[0].name + (f" and {len(files) - 1} more" if len(files) > 1 else "")


def require_different(roles: dict[str, str]) -> None:
    """Raise `BadInput` if two roles have one column."""
    if len(set(roles.values())) < len(roles):
        listed = ", ".join(f"{role} = {column!r}" for role, column in roles.items())
        raise BadInput(f"columns: expected a different column for each role, found {listed}")
