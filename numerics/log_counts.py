"""Stage 1 of a recorded log (theory A1): counts and exact reward sums by streaming group-by, merged over files.

The reward itself is no key of the group-by: a log of continuous rewards has as many keys as rows. Rewards are instead
summed as 128-bit integers by (state, scale), see `numerics.log_columns`: exact for every finite value, and at most
n times the number of exponents that occur.

Labels and scales of an engine with 64-bit keys are packed into one integer wherever they fit, which is several times
quicker than a key of several columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from constructions.errors import BadInput
from numerics.log_columns import (
    FLAGS,
    LABELS,
    ExactNumber,
    decimal,
    exact_number,
    flag,
    label,
    power,
    refuse_numbers,
)
from numerics.log_files import LogFile, Piece, pieces, reading, refuse

_HALF = 2**31
_SCALES, _SCALE_ZERO = 2**12, 1100
_PAIR, _REWARD = ["state", "next"], ["state", "base", "scale", "spelled"]
_SUMMED = {"pairs": (_PAIR, ["times"]), "rewards": (_REWARD, ["sum", "times"])}


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a log over states; `done` None: no successor is terminal."""

    state: str
    next_state: str
    reward: str
    done: str | None = None

    @property
    def names(self) -> list[str]:
        return [self.state, self.next_state, self.reward, *([] if self.done is None else [self.done])]


@dataclass(frozen=True, eq=False)
class LogCounts:
    """What some rows of a log amount to: a commutative monoid under `merge`, with identity `LogCounts()`.

    Tables are kept apart by the sort of their labels, which meet when all files are known: "number" (Int64), "text"
    (String), and "csv" (text that may still turn out to be numbers). Rows are in ascending order of their keys.

    Attributes:
        pairs: by sort of label: state, next (null: terminal), times.
        rewards: by sort of label: state, base, scale, spelled, the sum of significands, times.
        files: by sort of label: the first file, by name, with labels of the sort.
    """

    pairs: dict[str, pl.DataFrame] = field(default_factory=dict)
    rewards: dict[str, pl.DataFrame] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of transitions counted."""
        return sum(int(table["times"].sum()) for table in self.pairs.values())

    def merge(self, *others: LogCounts) -> LogCounts:
        """The counts of all rows together."""
        everything = (self, *others)
        kinds = sorted({kind for counts in everything for kind in counts.pairs})
        files = {kind: min(counts.files[kind] for counts in everything if kind in counts.files) for kind in kinds}
        return LogCounts(
            {kind: _sum("pairs", [c.pairs[kind] for c in everything if kind in c.pairs]) for kind in kinds},
            {kind: _sum("rewards", [c.rewards[kind] for c in everything if kind in c.rewards]) for kind in kinds},
            files,
        )


def _sum(table: str, parts: list[pl.DataFrame]) -> pl.DataFrame:
    keys, summed = _SUMMED[table]
    whole = parts[0] if len(parts) == 1 else pl.concat(parts).group_by(keys).agg(pl.col(summed).sum())
    return whole.select(*keys, *summed).sort(keys, nulls_last=True)


# --- one file ---------------------------------------------------------------------------------------------------------


def count_file(file: LogFile, columns: Columns) -> LogCounts:
    """Stage 1 of one file, in constant memory but for the counts themselves.

    Raises:
        BadInput: the file, a column or a value cannot be used; one sentence naming it.
    """
    with reading(file):
        counts = LogCounts()
        for piece in pieces(file, columns.names):
            counts = counts.merge(_count(piece, file, columns))
        return counts


def _count(piece: Piece, file: LogFile, columns: Columns) -> LogCounts:
    schema = piece.frame.collect_schema()
    done = flag(file, columns.done, None if columns.done is None else schema[columns.done])
    kind, here, there = _labels(piece, file, columns, schema, done)
    number = exact_number(file, columns.reward, schema[columns.reward])
    frame = piece.frame.select(
        state=here,
        next=pl.when(~done).then(there),
        done=done,
        significand=number.significand,
        scale=number.scale,
        spelled=pl.lit(None, pl.String) if number.spelled is None else number.spelled,
    )
    tables = _grouped(frame, packed=kind == "number" and number.base == 2)
    if tables is None:
        tables = _grouped(frame, packed=False)
    assert tables is not None
    pairs, rewards = tables
    unread = [x for x in rewards["spelled"].unique().to_list() if x is not None and decimal(x) is None]
    unscaled = rewards["scale"].is_null() & rewards["spelled"].is_null()
    unlabelled = pairs["done"].is_null() | pairs["state"].is_null() | (pairs["next"].is_null() & ~pairs["done"])
    if unread or unscaled.any() or unlabelled.any():
        _refuse_row(piece, file, columns, number, unread, done, here, there)
    base = pl.lit(number.base, pl.Int8).alias("base")
    return LogCounts(
        {kind: _sum("pairs", [pairs.drop("done")])} if pairs.height else {},
        {kind: _sum("rewards", [rewards.with_columns(base)])} if pairs.height else {},
        {kind: file.name} if pairs.height else {},
    )


def _labels(
    piece: Piece, file: LogFile, columns: Columns, schema: pl.Schema, done: pl.Expr
) -> tuple[str, pl.Expr, pl.Expr]:
    """The sort of the labels, and both columns of them; a column of labels that do not count agrees with any sort."""
    kind, here = label(file, columns.state, schema[columns.state])
    try:
        other, there = label(file, columns.next_state, schema[columns.next_state])
    except BadInput:
        if not piece.frame.filter(~done).head(1).collect(engine="streaming").height:
            return kind, here, pl.lit(None, pl.String if kind == "text" else pl.Int64)
        raise
    if kind != other:
        expected = f"{'integers' if kind == 'number' else 'text'}, as the other column of states has"
        refuse(piece, file, columns.next_state, ~done & pl.col(columns.next_state).is_not_null(), expected)
        there = pl.lit(None, pl.String if kind == "text" else pl.Int64)
    return kind, here, there


def _grouped(frame: pl.LazyFrame, packed: bool) -> tuple[pl.DataFrame, pl.DataFrame] | None:
    """Tables (state, next, done, times) and (state, scale, spelled, sum, times); None if some key cannot be packed."""
    # One after the other: together they would share the columns through a cache that holds all rows.
    state, after, done, scale = (pl.col(c) for c in ("state", "next", "done", "scale"))
    times, total = pl.len().cast(pl.Int64).alias("times"), pl.col("significand").sum().alias("sum")
    if not packed:
        queries = [
            frame.group_by("state", "next", "done").agg(times),
            frame.group_by("state", "scale", "spelled").agg(total, times),
        ]
        pairs, rewards = (query.collect(engine="streaming") for query in queries)
        return pairs, rewards
    fits = state.is_between(0, _HALF - 1)
    key = (
        pl.when(fits & done)
        .then(state * 2**32 + 1)
        .when(fits & ~done & after.is_between(0, _HALF - 1))
        .then(state * 2**32 + after * 2)
    )
    scaled = pl.when(fits).then(state * _SCALES + (scale.cast(pl.Int64) + _SCALE_ZERO))
    queries = [frame.group_by(key=key).agg(times), frame.group_by(key=scaled).agg(total, times)]
    pairs, rewards = (query.collect(engine="streaming") for query in queries)
    if pairs["key"].has_nulls() or rewards["key"].has_nulls():
        return None
    key = pl.col("key")
    ended = (key & 1) == 1
    return (
        pairs.select(
            state=key // 2**32, next=pl.when(~ended).then((key & (2**32 - 1)) // 2), done=ended, times="times"
        ),
        rewards.select(
            state=key // _SCALES,
            scale=((key & (_SCALES - 1)) - _SCALE_ZERO).cast(pl.Int16),
            spelled=pl.lit(None, pl.String),
            sum="sum",
            times="times",
        ),
    )


def _refuse_row(
    piece: Piece,
    file: LogFile,
    columns: Columns,
    number: ExactNumber,
    unread: list[str],
    done: pl.Expr,
    here: pl.Expr,
    there: pl.Expr,
) -> None:
    """Raise `BadInput` about the first row that cannot be used; the second reading happens only then."""
    if columns.done is not None:
        refuse(piece, file, columns.done, done.is_null(), FLAGS)
    refuse_numbers(piece, file, columns.reward, number, unread)
    for column, value, counted in ((columns.state, here, pl.lit(True)), (columns.next_state, there, ~done)):
        refuse(piece, file, column, counted & pl.col(column).is_null(), "a state label")
        refuse(piece, file, column, counted & value.is_null(), LABELS)
    raise AssertionError("a row that cannot be used is found again")


# --- all files --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbered:
    """Counts over states 0..n-1.

    Attributes:
        labels: what state i is called, length n; all int or all str, ascending.
        pairs: i, j, N_ij, ascending in (i, j).
        visits: N_i, shape (n,).
        reward_sums: exact, length n.
    """

    labels: list[int] | list[str]
    pairs: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    visits: NDArray[np.int64]
    reward_sums: list[Fraction]


def number_states(counts: LogCounts, files: Iterable[LogFile], columns: Columns) -> Numbered:
    """Sort the labels of all files and number them.

    Raises:
        BadInput: labels of different sorts, a number that is no integer, a successor that starts no transition.
    """
    files = list(files)
    numeric = _are_numbers(counts, files, columns)
    names: dict[str, dict[int | str, int | str]] = {}
    for kind, table in counts.pairs.items():
        distinct = _labels_in(table)
        names[kind] = {x: _whole(x, files, columns) if kind == "csv" and numeric else x for x in distinct}
    ordered = sorted({names[kind][x] for kind, t in counts.pairs.items() for x in t["state"].unique().to_list()})
    index = {name: i for i, name in enumerate(ordered)}
    unknown = sorted({name for known in names.values() for name in known.values()} - index.keys())
    if unknown:
        raw = {kind: [x for x, name in known.items() if name == unknown[0]] for kind, known in names.items()}
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        where = _first_file(files, columns, raw)
        raise BadInput(
            f"{where}: column {columns.next_state!r}: expected every successor that is not terminal to start a "
            f"transition too, found {unknown[0]!r}{more}, for which P has no row"
        )
    n = len(ordered)
    flat, times = [], []
    visits, sums = np.zeros(n, dtype=np.int64), [Fraction(0)] * n
    for kind, table in counts.pairs.items():
        raw = pl.Series(list(names[kind]))
        code = pl.Series([index[x] for x in names[kind].values()], dtype=pl.Int64)
        table = table.with_columns(pl.col("state", "next").replace_strict(raw, code, return_dtype=pl.Int64))
        np.add.at(visits, table["state"].to_numpy(), table["times"].to_numpy())
        going = table.drop_nulls("next")
        flat.append(going["state"].to_numpy() * n + going["next"].to_numpy())
        times.append(going["times"].to_numpy())
        states = counts.rewards[kind]["state"].replace_strict(raw, code, return_dtype=pl.Int64)
        _add_rewards(sums, states.to_list(), counts.rewards[kind])
    keys, place = np.unique(np.concatenate(flat), return_inverse=True)
    summed = np.zeros(keys.size, dtype=np.int64)
    np.add.at(summed, place, np.concatenate(times))
    i, j = np.divmod(keys, n)
    return Numbered(ordered, (i, j, summed), visits, sums)  # type: ignore[arg-type]


def _add_rewards(sums: list[Fraction], states: list[int], table: pl.DataFrame) -> None:
    """Add the rewards of a table to the sums of their states; one denominator a base, until the last step."""
    scales = table.drop_nulls("scale").group_by("base").agg(pl.col("scale").min())
    lowest = {base: max(-int(scale), 0) for base, scale in scales.iter_rows()}
    parts: dict[tuple[int, int], int] = {}
    for state, (_, base, scale, spelled, total, times) in zip(states, table.iter_rows(), strict=True):
        if spelled is None:
            shift = scale + lowest[base]
            parts[state, base] = parts.get((state, base), 0) + total * base**shift
        else:
            sums[state] += decimal(spelled) * times
    for (state, base), total in parts.items():
        sums[state] += total * power(base, -lowest[base])


def _labels_in(table: pl.DataFrame) -> list:
    """The labels of a table that count, ascending."""
    return pl.concat([table["state"], table["next"].drop_nulls()]).unique().sort().to_list()


def _are_numbers(counts: LogCounts, files: list[LogFile], columns: Columns) -> bool:
    """Whether labels are numbers; those of CSV files are if all of them read as numbers and no typed file has text."""
    kinds, first = counts.pairs.keys(), counts.files
    expected = f"column {columns.state!r}: expected integers as state labels, as in {first.get('number')}"
    if {"number", "text"} <= kinds:
        raise BadInput(f"{first['text']}: {expected}, found text")
    if "csv" not in kinds:
        return "number" in kinds
    if "text" in kinds:
        return False
    odd = next((x for x in _labels_in(counts.pairs["csv"]) if decimal(x) is None), None)
    if odd is not None and "number" in kinds:
        raise BadInput(f"{_first_file(files, columns, {'csv': [odd]})}: {expected}, found {odd!r}")
    return odd is None


def _whole(text: str, files: list[LogFile], columns: Columns) -> int:
    """A label of a CSV file as an integer."""
    exact = decimal(text)
    assert exact is not None
    if exact.denominator != 1:
        for file in files:
            with reading(file):
                for piece in pieces(file, columns.names) if file.kind == ".csv" else ():
                    done = flag(file, columns.done, pl.String())
                    refuse(piece, file, columns.state, pl.col(columns.state) == text, LABELS)
                    refuse(piece, file, columns.next_state, ~done & (pl.col(columns.next_state) == text), LABELS)
    return exact.numerator


def _first_file(files: list[LogFile], columns: Columns, raw: dict[str, list]) -> str:
    """The first file in which one of the labels counts."""
    for file in files:
        for kind, table in count_file(file, columns).pairs.items():
            if not set(raw.get(kind, ())).isdisjoint(_labels_in(table)):
                return file.name
    raise AssertionError("a label that was counted is found again")
