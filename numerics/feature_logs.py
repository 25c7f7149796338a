"""Logs seen through features (theory A5): the moments of batch TD, summed exactly and in pieces.

A_N = sum phi (phi - g phi')' and b_N = sum R phi need C = sum phi phi', D = sum phi phi'' and b_N. Every number is cut
into limbs of 18 bits on one grid of powers of two (and of ten, for decimals). Products of limbs, summed over at most
2^16 rows, are integers below 2^52, so a float64 matrix product of limbs is exact in any order of summation; integers
add up the rest. Numbers spelled with an exponent or with more than 27 digits are added row by row as fractions.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from flint import fmpz_mat
from numpy.typing import NDArray

from constructions.errors import BadInput
from constructions.task import exact_discount
from numerics.log_columns import FLAGS, ExactNumber, decimal, exact_number, flag, power, refuse_numbers
from numerics.log_files import LogFile, Piece, find_files, pieces, reading, refuse
from numerics.log_jobs import Jobs, merge_files
from numerics.logs import Paths, Reading, named, require_different
from numerics.temporal_difference.dimension import KrylovDimension

_LIMB_BITS, _PART_BITS = 18, 32
_BATCH = 2**16

Row = tuple[Fraction, ...]


@dataclass(frozen=True)
class FeatureColumns:
    """Names of the columns of phi(S_t), phi(S'_t) and R_t; `done` None: no successor is terminal."""

    features: tuple[str, ...]
    next_features: tuple[str, ...]
    reward: str
    done: str | None = None

    @property
    def names(self) -> list[str]:
        return [*self.features, *self.next_features, self.reward, *([] if self.done is None else [self.done])]


@dataclass(frozen=True)
class Moments:
    """Sums over rows, exact: a commutative monoid under `merge`, with identity `Moments()`.

    Attributes:
        rows: number of transitions.
        terminal: how many of them have a terminal successor.
        table: rows 0..d-1 of [sum phi phi', sum phi phi'', sum R phi], shape (d, 2d + 1); empty without rows.
    """

    rows: int = 0
    terminal: int = 0
    table: tuple[Row, ...] = ()

    def merge(self, *others: Moments) -> Moments:
        """The sums over all rows together."""
        filled = [x for x in (self, *others) if x.rows]
        if not filled:
            return self
        table = tuple(
            tuple(sum(x, Fraction(0)) for x in zip(*rows, strict=True))
            for rows in zip(*(x.table for x in filled), strict=True)
        )
        return Moments(sum(x.rows for x in filled), sum(x.terminal for x in filled), table)


@dataclass(frozen=True)
class FeatureTask:
    """What batch TD on a log of features depends on, exact.

    Attributes:
        A: A_N = sum phi (phi - g phi')', shape (d, d).
        b: b_N = sum R phi, length d.
        transitions: N.
        terminal_transitions: those into a terminal successor.
        discount: g.
        name: the files.
        reading: how they were read.
    """

    A: tuple[Row, ...]
    b: Row
    transitions: int
    terminal_transitions: int
    discount: Fraction
    name: str
    reading: Reading

    @property
    def d(self) -> int:
        """Number of features."""
        return len(self.b)


def read_features(
    logs: Paths,
    features: Sequence[str],
    next_features: Sequence[str],
    reward: str,
    discount: object,
    done: str | None = None,
    progress: Callable[[str], None] | None = None,
    jobs: Jobs | None = None,
) -> FeatureTask:
    """Read a log of transitions seen through features; arguments otherwise as of `numerics.logs.read_log`.

    Args:
        features: columns of phi(S_t), d of them.
        next_features: columns of phi(S'_t), in the same order; not looked at where the successor is terminal.

    Raises:
        BadInput: a file, a column or a value cannot be used; one sentence naming it.
    """
    started = time.perf_counter()
    g = exact_discount(discount)
    if not features or len(features) != len(next_features):
        raise BadInput(
            "features: expected as many columns of the successor as of the state, and at least one, "
            f"found {len(next_features)} and {len(features)}"
        )
    roles = {f"feature {i}": column for i, column in enumerate(features)}
    roles |= {f"next feature {i}": column for i, column in enumerate(next_features)} | {"reward": reward}
    require_different(roles | ({} if done is None else {"done": done}))
    columns = FeatureColumns(tuple(features), tuple(next_features), reward, done)
    files = find_files(logs)
    tell = progress or (lambda phrase: None)
    tell(f"reading {named(files)}")
    moments = merge_files(partial(sum_file, columns=columns), Moments(), files, jobs or Jobs(), tell)
    if moments.rows == 0:
        raise BadInput(f"{named(files)}: expected at least one transition, found a header and no rows")
    d = len(features)
    A = tuple(tuple(row[j] - g * row[d + j] for j in range(d)) for row in moments.table)
    b = tuple(row[2 * d] for row in moments.table)
    how = Reading(len(files), time.perf_counter() - started)
    return FeatureTask(A, b, moments.rows, moments.terminal, g, named(files), how)


def feature_dimension(task: FeatureTask, depth: int) -> KrylovDimension:
    """dim span{b, A b, .., A^{L-1} b} in Q, the least context of batch TD with any step (theory A5).

    The step drops out: M = I - a A_N and s_0 = a b_N span the same spaces for every a != 0.

    Raises:
        BadInput: the depth is below 1.
    """
    if depth < 1:
        raise BadInput(f"{task.name}: expected a depth of at least 1, found {depth}")
    limit = min(task.d, depth)
    A, vector = _whole(task.A), _whole([[x] for x in task.b])
    rows: list[Any] = []
    k, target = 0, min(16, limit)
    for size in range(1, limit + 1):
        rows += vector.entries()
        if size == target:
            k = fmpz_mat(size, task.d, rows).rank()
            if k < size:
                break
            target = min(2 * size, limit)
        vector = A * vector
    reason = f"min(d, L) = {limit}" if k == limit else f"the rank of {size} vectors, over the integers"
    return KrylovDimension(k, depth, "exact in Q", reason, Fraction(0), (), 0)


def _whole(rows: Sequence[Sequence[Fraction]]) -> fmpz_mat:
    """A matrix times its common denominator, which changes no span."""
    scale = int(np.lcm.reduce(np.array([x.denominator for row in rows for x in row], dtype=object)))
    return fmpz_mat([[int(x * scale) for x in row] for row in rows])


# --- one file ---------------------------------------------------------------------------------------------------------


def sum_file(file: LogFile, columns: FeatureColumns) -> Moments:
    """The moments of one file, a batch of rows at a time.

    Raises:
        BadInput: the file, a column or a value cannot be used; one sentence naming it.
    """
    with reading(file):
        moments = Moments()
        for piece in pieces(file, columns.names):
            moments = moments.merge(_sum_piece(piece, file, columns))
        return moments


def _sum_piece(piece: Piece, file: LogFile, columns: FeatureColumns) -> Moments:
    schema = piece.frame.collect_schema()
    done = flag(file, columns.done, None if columns.done is None else schema[columns.done])
    names = [*columns.features, *columns.next_features, columns.reward]
    numbers = [exact_number(file, name, schema[name]) for name in names]
    d = len(columns.features)
    floats = [schema[name].is_float() for name in names]
    selected = [done.alias("done")]
    for i, (name, number) in enumerate(zip(names, numbers, strict=True)):
        parts = {f"{i} value": pl.col(name).cast(pl.Float64)} if floats[i] else _parts(i, number)
        # A terminal successor has zero features, whatever its columns hold.
        ended = done if d <= i < 2 * d else pl.lit(False)
        selected += [pl.when(~ended).then(x).alias(label) for label, x in parts.items()]
    total: defaultdict[tuple[int, int, int, int], int] = defaultdict(int)
    odd_total = np.full((d, 2 * d + 1), Fraction(0), dtype=object)
    rows = ended = 0
    for batch in piece.frame.select(selected).collect_batches(chunk_size=_BATCH, maintain_order=False):
        for frame in batch.iter_slices(_BATCH):
            usable, odd = _split_rows(frame, floats, d)
            if usable is None:
                raise _row_refused(piece, file, columns, names, numbers, done)
            rows += frame.height
            ended += int(frame["done"].sum())
            _add_products(total, usable, floats, d)
            for row in odd.iter_rows(named=True):
                values = [_value(row, i, floats[i], numbers[i].base) for i in range(2 * d + 1)]
                odd_total += np.outer(np.array(values[:d], dtype=object), np.array(values, dtype=object))
    for (i, j, two, ten), value in total.items():
        odd_total[i, j] += value * power(2, two) * power(10, ten)
    return Moments(rows, ended, tuple(tuple(row) for row in odd_total.tolist())) if rows else Moments()


def _parts(i: int, number: ExactNumber) -> dict[str, pl.Expr]:
    """A significand below 2^90 as three floats of 32 bits, its scale, and its spelling where it has none."""
    whole, mask = number.significand, 2**_PART_BITS - 1
    low, middle = whole & mask, (whole // 2**_PART_BITS) & mask
    parts = {f"{i} {p}": x.cast(pl.Float64) for p, x in enumerate((low, middle, whole // 2 ** (2 * _PART_BITS)))}
    spelled = pl.lit(None, pl.String) if number.spelled is None else number.spelled
    return {**parts, f"{i} scale": number.scale, f"{i} spelled": spelled}


def _split_rows(frame: pl.DataFrame, floats: list[bool], d: int) -> tuple[pl.DataFrame | None, pl.DataFrame]:
    """Rows whose numbers are limbs, and rows with a spelled one; None if some number is missing or not finite."""
    good, odd = pl.col("done").is_not_null(), pl.lit(False)
    for i, binary in enumerate(floats):
        skipped = pl.col("done") if d <= i < 2 * d else pl.lit(False)
        if binary:
            good &= skipped | pl.col(f"{i} value").is_finite().fill_null(False)
        else:
            spelled = pl.col(f"{i} spelled").is_not_null()
            good &= skipped | pl.col(f"{i} scale").is_not_null() & pl.col(f"{i} 0").is_not_null() | spelled
            odd |= spelled
    marked = frame.with_columns(good=good, odd=odd)
    rest = marked.filter("odd")
    texts = (rest[f"{i} spelled"].drop_nulls().unique() for i, binary in enumerate(floats) if not binary)
    readable = all(decimal(text) is not None for column in texts for text in column)
    return (marked.filter(~pl.col("odd")) if marked["good"].all() and readable else None), rest


def _value(row: dict[str, Any], i: int, binary: bool, base: int) -> Fraction:
    """A number of one row; zero where it is not looked at."""
    if binary:
        return Fraction(row[f"{i} value"] or 0)
    if row[f"{i} spelled"] is not None:
        return decimal(row[f"{i} spelled"]) or Fraction(0)
    if row[f"{i} scale"] is None:
        return Fraction(0)
    whole = sum(int(row[f"{i} {p}"]) << (_PART_BITS * p) for p in range(3))
    return whole * power(base, row[f"{i} scale"])


def _add_products(
    total: defaultdict[tuple[int, int, int, int], int], frame: pl.DataFrame, floats: list[bool], d: int
) -> None:
    """Add sum_t x_i y_j of a batch, by exponents of 2 and 10, for features x and all columns y."""
    keys, limbs = [], []
    for i, binary in enumerate(floats):
        for numbers, two, ten in _scaled(frame, i, binary):
            for limb, exponent in _limbs(numbers):
                keys.append((i, exponent + two, ten))
                limbs.append(limb)
    if not limbs:
        return
    stacked = np.stack(limbs, axis=1)
    left = sum(i < d for i, _, _ in keys)
    products = (stacked[:, :left].T @ stacked).tolist()
    for (i, two, ten), row in zip(keys[:left], products, strict=True):
        for (j, more_two, more_ten), value in zip(keys, row, strict=True):
            total[i, j, two + more_two, ten + more_ten] += int(value)


def _scaled(frame: pl.DataFrame, i: int, binary: bool) -> Iterator[tuple[NDArray[np.float64], int, int]]:
    """Column i as floats x 2^two x 10^ten."""
    if binary:
        yield frame[f"{i} value"].fill_null(0).to_numpy(), 0, 0
        return
    for scale in frame[f"{i} scale"].drop_nulls().unique().sort().to_list():
        here = pl.col(f"{i} scale") == scale
        for p in range(3):
            part = frame.select(pl.when(here).then(pl.col(f"{i} {p}")).fill_null(0)).to_series().to_numpy()
            yield part, _PART_BITS * p, scale


def _limbs(numbers: NDArray[np.float64]) -> Iterator[tuple[NDArray[np.float64], int]]:
    """Integers below 2^18 in absolute value whose sum, each times 2 to its exponent, is the array; exactly.

    The error-free splitting of Ozaki's matrix products: a float minus its leading part on the grid is a float again.
    """
    left = numbers.copy()
    while (largest := float(np.abs(left).max(initial=0.0))) > 0:
        grid = (int(np.frexp(largest)[1]) - 1) // _LIMB_BITS * _LIMB_BITS
        limb = np.trunc(np.ldexp(left, -grid))
        left -= np.ldexp(limb, grid)
        yield limb, grid


def _row_refused(
    piece: Piece, file: LogFile, columns: FeatureColumns, names: list[str], numbers: list[ExactNumber], done: pl.Expr
) -> Exception:
    """Raise `BadInput` about the first row that cannot be used; the second reading happens only then."""
    if columns.done is not None:
        refuse(piece, file, columns.done, done.is_null(), FLAGS)
    for name, number in zip(names, numbers, strict=True):
        unread: list[str] = []
        if number.spelled is not None:
            distinct = piece.frame.select(number.spelled.unique()).collect(engine="streaming").to_series().drop_nulls()
            unread = [text for text in distinct.to_list() if decimal(text) is None]
        where = ~done if name in columns.next_features else pl.lit(True)
        refuse_numbers(piece, file, name, number, unread, where)
    return AssertionError("a row that cannot be used is found again")
