"""Columns as exact expressions: labels, flags, and numbers as significand times a power of 2 or 10.

A number of a column is significand * 2^scale (floats, integers) or significand * 10^scale (decimals, CSV text), its
significand below 2^90, so that 128-bit sums of up to 2^37 of them cannot overflow. What does not fit (more digits, or a
written exponent) is kept as it is spelled and read by `decimal`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

import polars as pl

from constructions.errors import BadInput
from numerics.log_files import LogFile, Piece, refuse, type_name

_DECIMAL = re.compile(r"\s*([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,4}))?\s*", re.ASCII)
_TRUE, _FALSE = ["true", "1", "1.0"], ["false", "0", "0.0"]
# Decimal exponents past this are a typing error, not a reward, and would cost memory without bound.
_EXPONENT = 1000
_FITS = 2**90
_FRACTION_BITS, _EXPONENT_MASK, _BIAS = 52, 0x7FF, 1075

LABELS = "integers or text as state labels"
FLAGS = "true/false or 0/1"
NUMBERS = "a finite number"
SPELLED = f"{NUMBERS} (exponents up to {_EXPONENT})"


@dataclass(frozen=True)
class ExactNumber:
    """The value of a column as base^scale * significand; where that is null, as `spelled`; where both are, it is bad.

    Attributes:
        significand: Int128.
        scale: Int16; for base 10 it is at most 0.
        spelled: String, or None for a column whose every finite number fits.
        base: 2 or 10.
    """

    significand: pl.Expr
    scale: pl.Expr
    spelled: pl.Expr | None
    base: int


def decimal(text: str) -> Fraction | None:
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


def exact_number(file: LogFile, column: str, kind: pl.DataType) -> ExactNumber:
    """A column of numbers, exactly.

    Raises:
        BadInput: the column's type holds no numbers.
    """
    value, zero = pl.col(column), pl.lit(0, pl.Int16)
    if kind.is_float():
        return _binary(value.cast(pl.Float64))
    if kind.is_integer():
        narrow = kind not in (pl.Int128, pl.UInt128)
        return ExactNumber(value.cast(pl.Int128), zero, None, 2) if narrow else _decimal_places(value, value, zero)
    if kind.is_decimal():
        return _decimal_places(value, value.to_physical(), pl.lit(-int(kind.scale), pl.Int16))
    if kind == pl.String and file.kind == ".csv":
        text = value.str.strip_chars()
        point = text.str.find(".", literal=True).cast(pl.Int16)
        places = pl.when(point.is_null()).then(zero).otherwise(point + 1 - text.str.len_bytes().cast(pl.Int16))
        return _decimal_places(value, text.str.replace(".", "", literal=True), places)
    if kind == pl.Null:
        return ExactNumber(pl.lit(None, pl.Int128), zero, None, 2)
    raise BadInput(f"{file.name}: column {column!r}: expected numbers, found {type_name(kind)}")


def _binary(value: pl.Expr) -> ExactNumber:
    """A float64 by its bits: sign, 11 bits of exponent e, 52 of fraction f; 2^(e - 1075) (2^52 + f), or 2^-1074 f."""
    bits = value.reinterpret(dtype=pl.Int64)
    exponent = (bits // 2**_FRACTION_BITS) & _EXPONENT_MASK
    normal = exponent > 0
    size = (bits & (2**_FRACTION_BITS - 1)) + pl.when(normal).then(2**_FRACTION_BITS).otherwise(0)
    signed = pl.when(bits < 0).then(-size).otherwise(size)
    finite = pl.when(exponent < _EXPONENT_MASK)
    scale = pl.when(normal).then(exponent).otherwise(1) - _BIAS
    return ExactNumber(finite.then(signed.cast(pl.Int128)), finite.then(scale.cast(pl.Int16)), None, 2)


def _decimal_places(value: pl.Expr, digits: pl.Expr, scale: pl.Expr) -> ExactNumber:
    whole = digits.cast(pl.Int128, strict=False)
    fits = whole.is_between(-_FITS, _FITS, closed="none").fill_null(False)
    spelled = pl.when(~fits).then(value.cast(pl.String))
    return ExactNumber(pl.when(fits).then(whole), pl.when(fits).then(scale), spelled, 10)


def power(base: int, scale: int) -> Fraction:
    """base^scale, exactly."""
    return Fraction(base**scale) if scale >= 0 else Fraction(1, base**-scale)


def refuse_numbers(
    piece: Piece, file: LogFile, column: str, number: ExactNumber, unread: list[str], where: pl.Expr | None = None
) -> None:
    """Raise `BadInput` about the first row (`where`) with no finite number, or one spelled like any of `unread`."""
    counted = pl.lit(True) if where is None else where
    refuse(piece, file, column, counted & pl.col(column).is_null(), NUMBERS)
    if number.spelled is None:
        refuse(piece, file, column, counted & number.significand.is_null(), NUMBERS)
    elif unread:
        refuse(piece, file, column, counted & number.spelled.is_in(unread).fill_null(False), SPELLED)


def flag(file: LogFile, column: str | None, kind: pl.DataType | None) -> pl.Expr:
    """A column of terminal flags as booleans, null where it is none; never true without a column."""
    if column is None or kind is None:
        return pl.lit(False)
    value = pl.col(column)
    if kind == pl.Boolean:
        return value
    if kind.is_numeric():
        return pl.when(value == 1).then(True).when(value == 0).then(False)
    if isinstance(kind, pl.Categorical | pl.Enum):
        value = value.cast(pl.String)
    elif kind not in (pl.String, pl.Null):
        raise BadInput(f"{file.name}: column {column!r}: expected {FLAGS}, found {type_name(kind)}")
    text = value.cast(pl.String).str.strip_chars().str.to_lowercase()
    # No `replace`: it would hold the whole column.
    return pl.when(text.is_in(_TRUE)).then(True).when(text.is_in(_FALSE)).then(False)


def label(file: LogFile, column: str, kind: pl.DataType) -> tuple[str, pl.Expr]:
    """A column of state labels: "number" (Int64, null where it is no integer), "text", or "csv" text of either sort.

    Raises:
        BadInput: the column's type holds no labels.
    """
    value = pl.col(column)
    if kind.is_integer():
        return "number", value.cast(pl.Int64, strict=False)
    if kind.is_float():
        # 2^63 itself is a float64; NaN is no whole number.
        wide = value.cast(pl.Float64)
        whole = (wide.floor() == wide) & wide.is_between(-(2.0**63), 2.0**63, closed="left") & ~wide.is_nan()
        return "number", pl.when(whole).then(wide).cast(pl.Int64, strict=False)
    if kind == pl.String or isinstance(kind, pl.Categorical | pl.Enum):
        return ("csv" if file.kind == ".csv" else "text"), value.cast(pl.String)
    if kind == pl.Null:
        return "number", value.cast(pl.Int64)
    raise BadInput(f"{file.name}: column {column!r}: expected {LABELS}, found {type_name(kind)}")
