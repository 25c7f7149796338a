"""Files of recorded transitions: finding them, and reading them in pieces that fit in memory.

CSV and Parquet files are scanned by polars, whose streaming engine holds a few morsels at a time; arrays of a .npz
archive are read in chunks of rows; a Minari dataset is read an episode at a time (`numerics.minari_logs`).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from constructions.errors import BadInput
from numerics.minari_logs import is_dataset, read_episodes

SUFFIXES = (".csv", ".parquet", ".npz")
CHUNK = 2**20
"""Rows of a .npz archive that are held at once."""


@dataclass(frozen=True)
class LogFile:
    """One file, or one Minari dataset.

    Attributes:
        path: the file, or the dataset's folder.
        kind: ".csv", ".parquet", ".npz" or "minari".
    """

    path: Path
    kind: str

    @property
    def name(self) -> str:
        """The name that messages use, without the folder."""
        return self.path.name


@dataclass(frozen=True)
class Piece:
    """Some rows of a file, still to be read.

    Attributes:
        frame: the wanted columns; those of a CSV file are text, a blank field null.
        first: how many data rows of the file come before.
    """

    frame: pl.LazyFrame
    first: int


# --- finding ----------------------------------------------------------------------------------------------------------


def find_files(logs: str | Path | Sequence[str | Path]) -> list[LogFile]:
    """The files that paths, folders and glob patterns name, each once, ascending by path.

    A folder stands for the files below it that have a suffix of a log; a folder that Minari wrote is one dataset.

    Raises:
        BadInput: nothing at a path, nothing that matches a pattern, no log in a folder, an unknown suffix, an empty
            file.
    """
    found: dict[Path, LogFile] = {}
    for log in [logs] if isinstance(logs, (str, Path)) else logs:
        # Absolute, because another process may read it from another folder.
        for file in _matches(Path(log).absolute()):
            found.setdefault(file.path.resolve(), file)
    if not found:
        raise BadInput("logs: expected at least one file, found none")
    return [found[path] for path in sorted(found)]


def _matches(path: Path) -> list[LogFile]:
    if path.is_dir():
        if is_dataset(path):
            return [LogFile(path, "minari")]
        inside = sorted(x for x in path.rglob("*") if x.suffix.lower() in SUFFIXES and x.is_file())
        if not inside:
            raise BadInput(f"{path}: expected a folder with logs ({', '.join(SUFFIXES)}), found none in it")
        return [_checked(x) for x in inside]
    if not path.exists() and has_magic(str(path)):
        matches = sorted(glob(str(path), recursive=True))
        if not matches:
            raise BadInput(f"{path}: expected a pattern that names log files, found no file that matches")
        return [file for match in matches for file in _matches(Path(match))]
    return [_checked(path)]


def _checked(path: Path) -> LogFile:
    if not path.is_file():
        raise BadInput(f"{path}: expected a log file, found no such file")
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        found = repr(path.suffix) if path.suffix else "none"
        raise BadInput(f"{path.name}: expected the suffix {', '.join(SUFFIXES)}, found {found}")
    try:
        empty = path.stat().st_size == 0
    except OSError as error:
        raise BadInput(f"{path.name}: expected a readable file, found {error.strerror}") from None
    if empty:
        raise BadInput(f"{path.name}: expected a log of transitions, found an empty file")
    return LogFile(path, kind)


# --- reading ----------------------------------------------------------------------------------------------------------


@contextmanager
def reading(file: LogFile) -> Iterator[None]:
    """Turn whatever a reader raises into one sentence: at this point only the file can be at fault."""
    kind = {".csv": "CSV", ".parquet": "Parquet"}.get(file.kind, file.kind)
    try:
        yield
    except (BadInput, MemoryError):
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        said = " ".join(str(error).split("\n\n")[0].split()) or type(error).__name__
        raise BadInput(f"{file.name}: expected a readable {kind} file, found one that is not: {said[:200]}") from None


def pieces(file: LogFile, wanted: Sequence[str]) -> Iterator[Piece]:
    """The wanted columns of a file, in pieces; to be consumed within `reading(file)`.

    Raises:
        BadInput: a column is missing or repeated, an array is no flat array of numbers, flags or text.
    """
    columns = list(dict.fromkeys(wanted))
    if file.kind == ".csv":
        yield Piece(_scan_csv(file, columns), 0)
    elif file.kind == ".parquet":
        lazy = pl.scan_parquet(file.path, glob=False)
        check_columns(file, lazy.collect_schema().names(), columns)
        yield Piece(lazy.select(columns), 0)
    else:
        first = 0
        for frame in _read_npz(file, columns) if file.kind == ".npz" else _read_minari(file, columns):
            yield Piece(frame.lazy(), first)
            first += frame.height


def check_columns(file: LogFile, found: Sequence[str], wanted: Sequence[str]) -> None:
    """Raise `BadInput` unless each wanted column is there once."""
    for column in wanted:
        if column not in found:
            shown = ", ".join(found[:20]) + (", ..." if len(found) > 20 else "")
            raise BadInput(f"{file.name}: expected a column named {column!r}, found {shown or 'no columns'}")
        if (times := sum(x == column for x in found)) > 1:
            raise BadInput(f"{file.name}: expected one column named {column!r}, found {times}")


def _scan_csv(file: LogFile, columns: list[str]) -> pl.LazyFrame:
    """All columns as text, so that no decimal passes through a float; a blank field is null."""
    # The heading is read apart from the data: the reader renames a repeated one.
    first = pl.read_csv(file.path, has_header=False, n_rows=1, infer_schema=False, glob=False)
    check_columns(file, ["" if x is None else x for x in first.row(0)], columns)
    filled = [pl.when(pl.col(c).str.strip_chars().str.len_bytes() > 0).then(pl.col(c)).alias(c) for c in columns]
    frame = pl.scan_csv(file.path, infer_schema=False, glob=False).select(filled)
    # Blank lines at the end are no rows; a first look at the last lines tells whether there are any.
    return _without_blank_end(frame) if _ends_blank(file.path) else frame


def _ends_blank(path: Path, looked_at: int = 4096) -> bool:
    with path.open("rb") as handle:
        handle.seek(-min(looked_at, path.stat().st_size), 2)
        lines = handle.read().splitlines()
    return not lines or not lines[-1].strip(b' ,\t"')


def _without_blank_end(frame: pl.LazyFrame) -> pl.LazyFrame:
    numbered = frame.select(pl.any_horizontal(pl.all().is_not_null()).alias("filled")).with_row_index("row")
    last = numbered.filter("filled").select(pl.col("row").max()).collect(engine="streaming").item()
    return frame.head(0 if last is None else last + 1)


def _read_npz(file: LogFile, columns: list[str]) -> Iterator[pl.DataFrame]:
    """Flat arrays of one length, a chunk of rows at a time; pickles are never opened."""
    with file.path.open("rb") as handle:
        if handle.read(6) == b"\x93NUMPY":
            raise BadInput(f"{file.name}: expected an archive of named arrays, found a single array")
    with zipfile.ZipFile(file.path) as archive, ExitStack() as members:
        check_columns(file, [name.removesuffix(".npy") for name in archive.namelist()], columns)
        streams = {c: members.enter_context(archive.open(f"{c}.npy")) for c in columns}
        types, shapes = {}, {}
        for column, stream in streams.items():
            shapes[column], types[column] = _header(file, column, stream)
        if len(set(shapes.values())) > 1:
            sizes = ", ".join(f"{column!r} {size}" for column, size in shapes.items())
            raise BadInput(f"{file.name}: expected arrays of equal length, found {sizes}")
        left = shapes[columns[0]]
        while left:
            rows = min(CHUNK, left)
            yield pl.DataFrame({c: _series(c, _take(streams[c], rows, types[c])) for c in columns})
            left -= rows


def _header(file: LogFile, column: str, stream: Any) -> tuple[int, np.dtype]:
    version = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(stream)
    if dtype.hasobject:
        raise BadInput(f"{file.name}: array {column!r}: expected plain numbers or text, found pickled objects")
    if len(shape) != 1:
        raise BadInput(f"{file.name}: array {column!r}: expected one dimension, found shape {shape}")
    if dtype.kind not in "biufSU" or (dtype.kind == "f" and dtype.itemsize > 8):
        raise BadInput(f"{file.name}: array {column!r}: expected numbers, flags or text, found dtype {dtype}")
    return shape[0], dtype


def _take(stream: Any, rows: int, dtype: np.dtype) -> np.ndarray:
    content = stream.read(rows * dtype.itemsize)
    if len(content) < rows * dtype.itemsize:
        raise EOFError("an array ends before its length")
    return np.frombuffer(content, dtype=dtype) if dtype.itemsize else np.zeros(rows, dtype)


def _series(column: str, array: np.ndarray) -> pl.Series:
    """A NumPy array as a polars series of the same values."""
    if array.dtype.kind == "f" and array.dtype.itemsize < 4:
        array = array.astype(np.float32)  # exact
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    return pl.Series(column, array.astype(array.dtype.newbyteorder("=")))


def _read_minari(file: LogFile, columns: list[str]) -> Iterator[pl.DataFrame]:
    for frame in read_episodes(file.path):
        check_columns(file, frame.columns, columns)
        yield frame.select(columns)


# --- refusing ---------------------------------------------------------------------------------------------------------


def refuse(piece: Piece, file: LogFile, column: str, bad: pl.Expr, expected: str) -> None:
    """Raise `BadInput` about the first row of a piece where `bad` holds; nothing happens if there is none."""
    rows = piece.frame.with_row_index("row of the piece").filter(bad)
    first = rows.select("row of the piece", column).head(1).collect(engine="streaming")
    if not first.height:
        return
    row, found = first.row(0)
    shown = "nothing" if found is None else repr(found) if isinstance(found, str) else str(found)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise BadInput(
        f"{file.name}: column {column!r}: expected {expected}, found {shown} in data row {piece.first + row + 1}"
    )


def type_name(kind: pl.DataType) -> str:
    """A column's type as messages call it."""
    return "text" if kind == pl.String else str(kind).lower()
