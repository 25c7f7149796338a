"""Recorded logs: CSV, Parquet and NumPy files of transitions, read exactly into a `Task`.

Conventions (theory A0):

* CSV decimals are exact (``0.1`` is 1/10) and so are Parquet decimals; a binary float stands for its binary value.
* State labels are integers or text. CSV labels are numbers if all of them are, else text. Sorted, they become 0..n-1,
  so gaps in a numbering are harmless. A number that is not an integer is no label.
* A successor flagged as done is terminal: value 0, no row of P, its label is not looked at and may be missing. Every
  other successor must start a transition somewhere in the file, otherwise P has no row for it.

Data rows are counted from 1, the CSV header not included.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from constructions.errors import BadInput
from constructions.task import Task, exact_discount

_DECIMAL = re.compile(r"\s*([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,4}))?\s*", re.ASCII)
_FLAGS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_LIMIT = 2**63
# Decimal exponents past this are a typing error, not a reward, and would cost memory without bound.
_EXPONENT = 1000

Label = int | str


@dataclass(frozen=True, eq=False)
class Log:
    """A recorded log as a task, with what its states were called.

    Attributes:
        task: the transitions over states 0..n-1, rewards exact.
        labels: what state i is called in the file, length n; all int or all str, ascending.
        rows: number of data rows, equal to ``task.transitions``.
        file: the file's name, without its folder.
    """

    task: Task
    labels: list[int] | list[str]
    rows: int
    file: str


def read_log(
    path: str | Path,
    state: str,
    next_state: str,
    reward: str,
    discount: object,
    done: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Log:
    """Read a log of transitions; the suffix (.csv, .parquet, .npz) names the format.

    Args:
        path: the file.
        state, next_state, reward: names of the columns (of the arrays, in a .npz file).
        discount: g, public; text such as ``"0.9"`` is read as written, see `exact_discount`.
        done: column of terminal flags (booleans, 0/1, or true/false text); without it no successor is terminal.
        progress: called with a short phrase as each stage begins.

    Returns:
        The log. Rewards in its task are int64 or float64 where that is exact, else an array of `Fraction` in which
        equal rewards share one object.

    Raises:
        BadInput: the file, a column or a value cannot be used; one sentence naming it.
    """
    g = exact_discount(discount)
    tell = progress or (lambda phrase: None)
    source = Path(path)
    _check_file(source)
    wanted = {"state": state, "next state": next_state, "reward": reward, **({} if done is None else {"done": done})}
    if len(set(wanted.values())) < len(wanted):
        listed = ", ".join(f"{role} = {column!r}" for role, column in wanted.items())
        raise BadInput(f"{source.name}: expected a different column for each role, found {listed}")

    tell(f"reading {source.name}")
    frame = _LOADERS[source.suffix.lower()](source, list(wanted.values()))
    if frame.height == 0:
        raise BadInput(f"{source.name}: expected at least one transition, found a header and no rows")

    tell("reading terminal flags and rewards")
    terminal = _flags(frame[done], source.name) if done is not None else np.zeros(frame.height, dtype=np.bool_)
    rewards = _rewards(frame[reward], source.suffix.lower() == ".csv", source.name)
    tell("numbering states")
    labels, states, successors = _number_states(frame[state], frame[next_state], terminal, source)
    task = Task(states, successors, rewards, terminal, len(labels), g, source.name)
    return Log(task, labels, frame.height, source.name)


# --- files ------------------------------------------------------------------------------------------------------------


def _check_file(source: Path) -> None:
    if source.is_dir():
        raise BadInput(f"{source.name or source}: expected a file, found a directory")
    if not source.is_file():
        raise BadInput(f"{source}: expected a log file, found no such file")
    if source.suffix.lower() not in _LOADERS:
        found = repr(source.suffix) if source.suffix else "none"
        raise BadInput(f"{source.name}: expected the suffix {', '.join(_LOADERS)}, found {found}")
    try:
        empty = source.stat().st_size == 0
    except OSError as error:
        raise BadInput(f"{source.name}: expected a readable file, found {error.strerror}") from None
    if empty:
        raise BadInput(f"{source.name}: expected a log of transitions, found an empty file")


@contextmanager
def _reading(source: Path, kind: str) -> Iterator[None]:
    """Turn whatever a reader raises into one sentence: at this point only the file can be at fault."""
    try:
        yield
    except (BadInput, MemoryError):
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        said = " ".join(str(error).split("\n\n")[0].split()) or type(error).__name__
        raise BadInput(f"{source.name}: expected a readable {kind} file, found one that is not: {said[:200]}") from None


def _check_columns(source: Path, found: list[str], wanted: list[str]) -> None:
    for column in wanted:
        if column not in found:
            shown = ", ".join(found[:20]) + (", ..." if len(found) > 20 else "")
            raise BadInput(f"{source.name}: expected a column named {column!r}, found {shown or 'no columns'}")
        if found.count(column) > 1:
            raise BadInput(f"{source.name}: expected one column named {column!r}, found {found.count(column)}")


def _load_csv(source: Path, wanted: list[str]) -> pl.DataFrame:
    """All columns as text, so that no decimal passes through a float; a blank field is null."""
    with _reading(source, "CSV"):
        first = pl.read_csv(source, has_header=False, n_rows=1, infer_schema=False, glob=False)
        # Read apart from the data: the reader renames a repeated heading.
        _check_columns(source, ["" if x is None else x for x in first.row(0)], wanted)
        frame = pl.scan_csv(source, infer_schema=False, glob=False).select(wanted).collect()
        blank = [pl.col(c).str.strip_chars().str.len_bytes() == 0 for c in wanted]
        frame = frame.with_columns(
            pl.when(b).then(None).otherwise(pl.col(c)).alias(c) for b, c in zip(blank, wanted, strict=True)
        )
    # Blank lines at the end are no rows.
    filled = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return frame.head(int(filled[-1]) + 1 if filled.len() else 0)


def _load_parquet(source: Path, wanted: list[str]) -> pl.DataFrame:
    with _reading(source, "Parquet"):
        lazy = pl.scan_parquet(source, glob=False)
        _check_columns(source, lazy.collect_schema().names(), wanted)
        return lazy.select(wanted).collect()


def _load_npz(source: Path, wanted: list[str]) -> pl.DataFrame:
    """Flat arrays of one length; pickles are never opened."""
    with _reading(source, ".npz"):
        archive = np.load(source, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise BadInput(f"{source.name}: expected an archive of named arrays, found a single array")
        with archive:
            _check_columns(source, archive.files, wanted)
            arrays = {}
            for column in wanted:
                try:
                    arrays[column] = archive[column]
                except ValueError as error:
                    if "allow_pickle" not in str(error):
                        raise
                    raise BadInput(
                        f"{source.name}: array {column!r}: expected plain numbers or text, found pickled objects"
                    ) from None
    return pl.DataFrame({column: _plain(array, column, source.name) for column, array in _equal(arrays, source.name)})


def _equal(arrays: dict[str, NDArray], name: str) -> list[tuple[str, NDArray]]:
    for column, array in arrays.items():
        if array.ndim != 1:
            raise BadInput(f"{name}: array {column!r}: expected one dimension, found shape {array.shape}")
    if len({array.size for array in arrays.values()}) > 1:
        sizes = ", ".join(f"{column!r} {array.size}" for column, array in arrays.items())
        raise BadInput(f"{name}: expected arrays of equal length, found {sizes}")
    return list(arrays.items())


def _plain(array: NDArray, column: str, name: str) -> pl.Series:
    """A NumPy array as a polars series of the same values."""
    if array.dtype.kind not in "biufSU" or (array.dtype.kind == "f" and array.dtype.itemsize > 8):
        raise BadInput(f"{name}: array {column!r}: expected numbers, flags or text, found dtype {array.dtype}")
    if array.dtype.kind == "f" and array.dtype.itemsize < 4:
        array = array.astype(np.float32)  # exact
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    return pl.Series(column, array.astype(array.dtype.newbyteorder("=")))


_LOADERS: dict[str, Callable[[Path, list[str]], pl.DataFrame]] = {
    ".csv": _load_csv,
    ".parquet": _load_parquet,
    ".npz": _load_npz,
}


# --- columns ----------------------------------------------------------------------------------------------------------


def _refuse(name: str, series: pl.Series, bad: pl.Series, expected: str) -> BadInput:
    """The sentence about the first row of `series` where the mask `bad` holds."""
    row = int(bad.fill_null(False).arg_true()[0])
    found = series[row]
    shown = "nothing" if found is None else repr(found) if isinstance(found, str) else str(found)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return BadInput(f"{name}: column {series.name!r}: expected {expected}, found {shown} in data row {row + 1}")


def _coded(series: pl.Series, values: pl.Series, codes: list[int]) -> NDArray[np.int64]:
    """For each row the code of its value; `values` are the distinct ones."""
    return series.replace_strict(values, pl.Series(codes, dtype=pl.Int64), return_dtype=pl.Int64).to_numpy()


def _flags(series: pl.Series, name: str) -> NDArray[np.bool_]:
    expected = "true/false or 0/1"
    if series.has_nulls():
        raise _refuse(name, series, series.is_null(), expected)
    if series.dtype == pl.Boolean:
        return series.to_numpy()
    distinct = series.unique()
    flags = [_FLAGS.get(str(value).strip().casefold()) for value in distinct.to_list()]
    if None in flags:
        bad = distinct.filter(pl.Series([flag is None for flag in flags]))
        raise _refuse(name, series, series.is_in(bad.implode()), expected)
    return _coded(series, distinct, [int(bool(flag)) for flag in flags]).astype(np.bool_)


def _decimal(text: str) -> Fraction | None:
    """A decimal numeral, exactly; None if the text is none."""
    match = _DECIMAL.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        return None
    exponent = int(match[4] or 0)
    if abs(exponent) > _EXPONENT:
        return None
    try:
        digits = int(match[1] + match[2] + match[3])
    except ValueError:  # more digits than Python converts
        return None
    shift = exponent - len(match[3])
    return Fraction(digits * 10**shift) if shift >= 0 else Fraction(digits, 10**-shift)


def _rewards(series: pl.Series, as_text: bool, name: str) -> NDArray:
    """R_t exactly, shape (N,)."""
    expected = "a finite number"
    if series.has_nulls():
        raise _refuse(name, series, series.is_null(), expected)
    kind = series.dtype
    if kind.is_float():
        values = series.cast(pl.Float64)
        if not values.is_finite().all():
            raise _refuse(name, series, ~values.is_finite(), expected)
        return values.to_numpy()
    if kind.is_integer() and series.min() >= -_LIMIT and series.max() < _LIMIT:
        return series.cast(pl.Int64).to_numpy()
    if not (kind.is_integer() or kind.is_decimal() or (as_text and kind == pl.String)):
        raise BadInput(f"{name}: column {series.name!r}: expected numbers, found {_type_name(kind)}")
    distinct = series.unique()
    parsed = [_decimal(x) if isinstance(x, str) else Fraction(x) for x in distinct.to_list()]
    if None in parsed:
        bad = distinct.filter(pl.Series([x is None for x in parsed]))
        raise _refuse(name, series, series.is_in(bad.implode()), f"{expected} (exponents up to {_EXPONENT})")
    exact = [x for x in parsed if x is not None]
    return _densest(exact)[_coded(series, distinct, list(range(len(exact))))]


def _densest(values: list[Fraction]) -> NDArray:
    """The values in the plainest dtype that holds all of them exactly."""
    if all(x.denominator == 1 and -_LIMIT <= x.numerator < _LIMIT for x in values):
        return np.array([x.numerator for x in values], dtype=np.int64)
    if all(_is_binary(x) for x in values):
        return np.array([float(x) for x in values], dtype=np.float64)
    boxed = np.empty(len(values), dtype=object)
    boxed[:] = values
    return boxed


def _is_binary(x: Fraction) -> bool:
    try:
        return Fraction(float(x)) == x
    except OverflowError:
        return False


def _type_name(kind: pl.DataType) -> str:
    return "text" if kind == pl.String else str(kind).lower()


# --- states -----------------------------------------------------------------------------------------------------------


def _number_states(
    here: pl.Series, there: pl.Series, terminal: NDArray[np.bool_], source: Path
) -> tuple[list[int] | list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Labels in ascending order, and both columns as indices into them; 0 stands for a terminal successor."""
    going = pl.Series(~terminal)
    columns = []
    for series, counted in ((here, None), (there, going)):
        if isinstance(series.dtype, pl.Categorical | pl.Enum):
            series = series.cast(pl.String)
        missing = series.is_null() if counted is None else series.is_null() & counted
        if missing.any():
            raise _refuse(source.name, series, missing, "a state label")
        columns.append((series, series if counted is None else series.filter(counted)))
    numeric = _all_numeric([live for _, live in columns], source)
    keys = []
    for (series, live), counted in zip(columns, (None, going), strict=True):
        distinct = live.unique()
        labels = [_label(x, numeric) for x in distinct.to_list()]
        if None in labels:
            bad = distinct.filter(pl.Series([x is None for x in labels]))
            rows = series.is_in(bad.implode())
            rows = rows if counted is None else rows & counted
            raise _refuse(source.name, series, rows, "integers or text as state labels")
        keys.append((distinct, labels))

    ordered = sorted(set(keys[0][1]))  # type: ignore[type-var]
    index = {label: i for i, label in enumerate(ordered)}
    unknown = sorted(set(keys[1][1]) - index.keys())  # type: ignore[type-var]
    if unknown:
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        raise BadInput(
            f"{source.name}: column {there.name!r}: expected every successor that is not terminal to start a "
            f"transition too, found {unknown[0]!r}{more}, for which P has no row"
        )
    states = _coded(columns[0][0], keys[0][0], [index[x] for x in keys[0][1]])
    successors = np.zeros(terminal.size, dtype=np.int64)
    if columns[1][1].len():
        successors[~terminal] = _coded(columns[1][1], keys[1][0], [index[x] for x in keys[1][1]])
    return ordered, states, successors  # type: ignore[return-value]


def _all_numeric(columns: list[pl.Series], source: Path) -> bool:
    """Whether labels are numbers; both columns must agree, and an empty column agrees with anything."""
    kinds = {}
    for series in columns:
        if series.dtype == pl.String:
            is_number = source.suffix.lower() == ".csv" and all(_decimal(x) is not None for x in series.unique())
        elif series.dtype.is_numeric():
            is_number = True
        elif series.len():
            raise BadInput(
                f"{source.name}: column {series.name!r}: expected integers or text as state labels, "
                f"found {_type_name(series.dtype)}"
            )
        if series.len():
            kinds[series.name] = is_number
    if source.suffix.lower() != ".csv" and len(set(kinds.values())) > 1:
        text = next(column for column, number in kinds.items() if not number)
        raise BadInput(
            f"{source.name}: column {text!r}: expected integers, as the other column of states has, found text"
        )
    return all(kinds.values())


def _label(value: int | float | str | Decimal, numeric: bool) -> Label | None:
    """A label as int or str; None for a number that is not an integer."""
    if not numeric:
        return str(value)
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        exact = _decimal(value)
        return exact.numerator if exact is not None and exact.denominator == 1 else None
    if value != value or value in (float("inf"), float("-inf")):
        return None
    return int(value) if value == int(value) else None
