"""Binary floating-point formats, and the rounding of exact numbers to them: once, straight from p/q.

Rounding is to nearest, ties to even, with gradual underflow. Beyond the largest number it does what the format says:
IEEE formats and e5m2 become infinite; e4m3, which has no infinity, becomes NaN (one of the two behaviours that the OCP
8-bit specification allows) or, as "e4m3-saturating", its largest number (the other).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from constructions.constants import close_rational
from constructions.errors import BadInput

Overflow = Literal["infinity", "nan", "saturate"]
CARRIED = 25
"""Up to so many bits, double rounding through float64 is harmless: 2p + 2 <= 53 (`numerics.rounded_arithmetic`)."""


@dataclass(frozen=True)
class BinaryFormat:
    """A binary floating-point format with gradual underflow, round to nearest, ties to even.

    Attributes:
        precision: bits of the significand, the leading one included.
        emin: exponent of the smallest normal number, 2^emin.
        emax: exponent of the largest binade.
        overflow: what a number becomes whose rounding exceeds `largest`.
        top: the largest number where it is not (2 - 2^(1 - precision)) 2^emax.
    """

    precision: int
    emin: int
    emax: int
    overflow: Overflow = "infinity"
    top: Fraction | None = None

    @cached_property
    def unit_roundoff(self) -> Fraction:
        """u = 2^-precision: a normal rounding errs by at most u relative to the exact value."""
        return Fraction(1, 2**self.precision)

    @cached_property
    def smallest(self) -> Fraction:
        """The smallest positive (subnormal) number."""
        return Fraction(2) ** (self.emin - self.precision + 1)

    @cached_property
    def largest(self) -> Fraction:
        """The largest finite number."""
        return self.top if self.top is not None else (2 - 2 * self.unit_roundoff) * Fraction(2) ** self.emax

    @cached_property
    def limits(self) -> tuple[float, float, float]:
        """Smallest positive number, smallest normal number and largest number of a format that float64 holds."""
        return float(self.smallest), 2.0**self.emin, float(self.largest)

    def beyond(self, positive: bool) -> float | Fraction:
        """What a number beyond the largest becomes: an infinity, NaN, or the largest with its sign."""
        if self.overflow == "nan":
            return float("nan")
        top = self.largest if self.overflow == "saturate" else float("inf")
        return top if positive else -top

    def __str__(self) -> str:
        return next((name for name, known in PRESETS.items() if known == self), f"p{self.precision}")


PRESETS = {
    "e4m3": BinaryFormat(4, -6, 8, "nan", Fraction(448)),
    "e4m3-saturating": BinaryFormat(4, -6, 8, "saturate", Fraction(448)),
    "e5m2": BinaryFormat(3, -14, 15),
    "fp16": BinaryFormat(11, -14, 15),
    "bf16": BinaryFormat(8, -126, 127),
    "tf32": BinaryFormat(11, -126, 127),
    "fp32": BinaryFormat(24, -126, 127),
    "fp64": BinaryFormat(53, -1022, 1023),
}
"""By the names that users write; p4 .. p256 are formats of so many bits with a wide range of exponents."""

FORMATS = {
    "float64": PRESETS["fp64"],
    "float32": PRESETS["fp32"],
    "bfloat16": PRESETS["bf16"],
    "float16": PRESETS["fp16"],
}
"""By torch's names."""


def bits(precision: int) -> BinaryFormat:
    """A format of so many bits whose range is never left in practice: exponents -400 .. 500, wider beyond 25 bits."""
    return BinaryFormat(precision, -400, 500) if precision <= CARRIED else BinaryFormat(precision, -(2**20), 2**20)


@lru_cache(maxsize=64)
def parse_format(text: str) -> BinaryFormat:
    """The format of a name such as ``"bf16"``, ``"bfloat16"`` or ``"p12"``.

    Raises:
        BadInput: none of them.
    """
    name = text.strip().lower()
    if name in PRESETS:
        return PRESETS[name]
    if name in FORMATS:
        return FORMATS[name]
    found = re.fullmatch(r"p(\d{1,3})", name)
    if found and 4 <= int(found[1]) <= 256:
        return bits(int(found[1]))
    raise BadInput(f"format: expected one of {', '.join(PRESETS)} or p4 .. p256, found {text}")


def round_fraction(p: int, q: int, target: BinaryFormat) -> float:
    """p/q correctly rounded to a format of at most 53 bits, as a float that holds it exactly; q > 0."""
    if p == 0:
        return 0.0
    magnitude = abs(p)
    # 2^exponent <= |p/q| < 2^(exponent + 1): right up to one from the bit lengths, then compared.
    exponent = magnitude.bit_length() - q.bit_length()
    if magnitude << max(0, -exponent) < q << max(0, exponent):
        exponent -= 1
    shift = max(exponent, target.emin) - (target.precision - 1)
    top, bottom = magnitude << max(0, -shift), q << max(0, shift)
    digits, rest = divmod(top, bottom)
    if 2 * rest > bottom or (2 * rest == bottom and digits & 1):
        digits += 1
    if Fraction(digits) * Fraction(2) ** shift > target.largest:
        return float(target.beyond(p > 0))
    value = float(np.ldexp(float(digits), shift))
    return value if p > 0 else -value


def round_exact(values: Sequence[Any], target: BinaryFormat) -> NDArray[np.float64]:
    """Exact numbers (int, Fraction, fmpq, or floats at their binary value) rounded once each, shape (len(values),).

    Python's p / q is the correctly rounded float64. For a narrower format that double is rounded again, which is right
    unless it lies half-way between two neighbours: those entries are rounded from p/q itself.
    """
    doubles = _doubles(values)
    if target.precision == 53:
        return doubles
    rounded = round_doubles(doubles, target)
    for i in np.flatnonzero(_halfway(doubles, target)).tolist():
        rounded[i] = round_fraction(*exact_ratio(values[i]), target)
    return rounded


def round_doubles(x: NDArray[np.float64], target: BinaryFormat) -> NDArray[np.float64]:
    """Doubles correctly rounded to a format of fewer bits."""
    # On the bits: half of the last place kept, less one unless it is odd, is added; a carry moves the exponent as well.
    cut = 53 - target.precision
    digits = np.ascontiguousarray(x).view(np.int64)
    rounded = (((digits + ((1 << (cut - 1)) - 1) + ((digits >> cut) & 1)) >> cut) << cut).view(np.float64)
    spacing, normal, largest = target.limits
    small = np.abs(x) < normal
    if small.any():
        rounded[small] = np.rint(x[small] / spacing) * spacing
    unknown = np.isnan(x)
    if unknown.any():
        # The carry of a NaN whose bits are all ones would leave it.
        rounded[unknown] = np.nan
    over = np.abs(rounded) > largest
    if over.any():
        outside = {"infinity": np.inf, "nan": np.nan, "saturate": largest}[target.overflow]
        rounded = np.where(over, np.copysign(outside, x), rounded)
    return rounded


def _halfway(x: NDArray[np.float64], target: BinaryFormat) -> NDArray[np.bool_]:
    """Which doubles lie half-way between two neighbours of a format."""
    _, exponents = np.frexp(x)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.ldexp(x, target.precision - np.maximum(exponents, target.emin + 1))
        return np.abs(scaled - np.trunc(scaled)) == 0.5


def exact_ratio(x: Any) -> tuple[int, int]:
    """(p, q) of an exact number, q > 0; a float or mpf stands for its binary value."""
    if hasattr(x, "_mpf_"):
        sign, man, exponent, _ = x._mpf_
        top, bottom = int(man) << max(0, exponent), 1 << max(0, -exponent)
        return (-top if sign else top), bottom
    if isinstance(x, (int, Fraction)):
        return x.numerator, x.denominator
    if isinstance(x, float):
        return x.as_integer_ratio()
    if isinstance(x, np.generic):
        return exact_ratio(x.item())
    if isinstance(x, sp.Expr):
        return close_rational(x).as_integer_ratio()
    return int(x.p), int(x.q)


def _doubles(values: Sequence[Any]) -> NDArray[np.float64]:
    if set(map(type, values)) <= {int, bool, float}:
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            pass
    return np.array([_double(x) for x in values], dtype=np.float64)


def _double(x: Any) -> float:
    if isinstance(x, float) and not np.isfinite(x):
        return float(x)
    p, q = exact_ratio(x)
    try:
        return p / q
    except OverflowError:
        return float("inf") if p > 0 else float("-inf")
