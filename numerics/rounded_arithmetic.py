"""Correctly rounded arithmetic in any binary format, with a format for each role that a number plays (`roles`).

Numbers are carried in float64, or in mpmath at C bits, where an operation is rounded first and then once more to its
format. That is the correct rounding if no carried result can fall between an exact result and a midpoint m of the
format. With operands x, y of at most p bits, m of at most p + 1 bits (fewer among subnormals), all scaled to [1, 2):

    x y      has 2p bits: it is carried exactly;
    x + y    is carried exactly unless |y| < 2^(p + 1 - C) |x|; then x is a number of the format, and y less than half
             of the way from x to the next midpoint (a subnormal sum is always exact);
    x / y    x - m y is a multiple of 2^-(2p + 1): |x/y - m| >= 2^-(2p + 1) > 2^-C, or 0;
    sqrt x   |sqrt x - m| = |x - m^2| / (sqrt x + m) >= 2^-(2p + 2) > 2^-C, or 0.

So C >= 2p + 3 suffices: 53 bits for p <= 25 (the exponents of such formats keep products and quotients of float64
normal), 2p + 3 bits of mpmath, whose exponents are unbounded, for more. fp64 is float64 itself. exp and log are
enclosed in Arb with more and more bits until both ends of the ball round alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from flint import arb, ctx, fmpq
from mpmath.libmp import from_man_exp, round_nearest
from numpy.typing import NDArray

from constructions.arithmetic import Array, Exact
from constructions.errors import BadInput
from constructions.symbols import ObjectArithmetic
from numerics.formats import CARRIED, BinaryFormat, exact_ratio, round_doubles, round_exact
from numerics.roles import Roles, every

Losses = list[NDArray[np.float64]]
"""Bounds on local rounding errors, to be added up; each has, or broadcasts to, the shape of the result."""


class RoundedArithmetic(ObjectArithmetic):
    """Matrices as numpy arrays, of float64 where that carries the formats, else of mpf.

    Args:
        roles: formats by role, or one format (or its name) for all.
        model: what it is called.
        zero_below: public threshold, as in `TorchArithmetic`: `recip_0` and `rsqrt_0` are 0 where |x| <= zero_below.

    Raises:
        BadInput: an unknown format.
    """

    def __init__(
        self, roles: Roles | BinaryFormat | str, model: str = "every operation rounded", zero_below: float = 0.0
    ) -> None:
        self.zero_below = zero_below
        self.roles = roles if isinstance(roles, Roles) else every(roles)
        given = {field.name: getattr(self.roles, field.name).precision for field in fields(Roles)}
        sums = given.pop("accumulator")
        kept = list(given.values())
        self.native = {*kept, sums} == {53}
        doubles = self.native or (max(kept) <= CARRIED and (sums <= CARRIED or sums == 53))
        self.carrier = 53 if doubles else 2 * max([*kept, sums]) + 3
        self.context = None if doubles else mpmath.MPContext()
        if self.context is not None:
            self.context.prec = self.carrier
        super().__init__(f"rounded {self.roles}, {model}", self._scalar)

    @property
    def unit_roundoff(self) -> float:
        """u of the state's format."""
        return float(self.roles.state.unit_roundoff)

    # Rounding.

    def exactly(self, values: Sequence[Any], target: BinaryFormat) -> NDArray:
        """Exact numbers rounded once each, shape (len(values),)."""
        if self.context is None:
            return round_exact(values, target)
        out = np.empty(len(values), dtype=object)
        for i, x in enumerate(values):
            p, q = exact_ratio(x)
            out[i] = self._fit_ratio(p, q, target)
        return out

    def fit(self, x: NDArray, target: BinaryFormat, losses: Losses | None = None) -> NDArray:
        """Carried results rounded to a format; how far each moves is appended to `losses`."""
        if self.context is not None:
            out = np.empty_like(x)
            for i, value in np.ndenumerate(x):
                out[i] = self._fit_mpf(value, target)
            moved = _up(x - out) if losses is not None else None
        elif target.precision == 53:
            return x
        else:
            out = round_doubles(x, target)
            with np.errstate(invalid="ignore"):
                moved = np.abs(out - x) if losses is not None else None
        if losses is not None and moved is not None:
            losses.append(moved)
        return out

    def _fit_mpf(self, x: Any, target: BinaryFormat) -> Any:
        assert self.context is not None
        sign, man, exponent, size = x._mpf_
        if not man:
            return x
        # Bits above the last place of the format at this magnitude; none or fewer where even the smallest is larger.
        kept = target.precision - max(0, target.emin - (exponent + size - 1))
        if kept < 1:
            half = Fraction(target.smallest, 2)
            tiny = Fraction(int(man)) * Fraction(2) ** exponent
            digits, exponent = int(tiny > half), target.emin - target.precision + 1
            return self.context.make_mpf(from_man_exp(-digits if sign else digits, exponent))
        out = from_man_exp(-man if sign else man, exponent, kept, round_nearest)
        if out[2] + out[3] - 1 < target.emax:
            return self.context.make_mpf(out)
        if Fraction(int(out[1])) * Fraction(2) ** int(out[2]) <= target.largest:
            return self.context.make_mpf(out)
        beyond = target.beyond(not sign)
        if isinstance(beyond, Fraction):
            return self._fit_ratio(beyond.numerator, beyond.denominator, target)
        return self.context.mpf(beyond)

    def _fit_ratio(self, p: int, q: int, target: BinaryFormat) -> Any:
        """Rounded once: an odd last bit stands for what was cut off, far below the format's own last place."""
        assert self.context is not None
        bits = target.precision + 3 + max(0, q.bit_length() - abs(p).bit_length() + 1)
        shift = max(0, bits)
        digits, rest = divmod(abs(p) << shift, q)
        digits = 2 * digits + (rest != 0)
        exact = self.context.make_mpf(from_man_exp(-digits if p < 0 else digits, -shift - 1))
        return self._fit_mpf(exact, target)

    def _scalar(self, x: Any) -> Any:
        return self.exactly([x], self.roles.input)[0]

    # The protocol: exact numbers.

    def matrix(self, rows: Sequence[Sequence[Exact]], shape: tuple[int, int] | None = None) -> Array:
        return self._matrix(rows, shape, self.roles.input)

    def public_matrix(self, rows: Sequence[Sequence[Exact]], shape: tuple[int, int]) -> Array:
        """A public matrix, in the format of the weights."""
        return self._matrix(rows, shape, self.roles.weight)

    def _matrix(self, rows: Sequence[Sequence[Exact]], shape: tuple[int, int] | None, target: BinaryFormat) -> Array:
        if shape is None:
            shape = (len(rows), len(rows[0]) if len(rows) else 0)
        return self.exactly([x for row in rows for x in row], target).reshape(shape)

    def _zeros(self, height: int, width: int) -> Array:
        if self.context is None:
            return np.zeros((height, width))
        return super()._zeros(height, width)

    # The protocol: operations. Each `rounded_*` appends bounds on its local errors to `losses` where it is given.

    def add(self, a: Array, b: Array) -> Array:
        return self.rounded_add(a, b)

    def rounded_add(self, a: Array, b: Array, losses: Losses | None = None) -> Array:
        state = self.roles.state
        return self._sum(self.fit(a, state, losses), self.fit(b, state, losses), state, losses)

    def add_columns(self, a: Array, start: int, b: Array) -> Array:
        return self.rounded_add_columns(a, start, b)

    def rounded_add_columns(self, a: Array, start: int, b: Array, losses: Losses | None = None) -> Array:
        out = a.copy()
        inner: Losses | None = None if losses is None else []
        stop = start + b.shape[-1]
        out[..., start:stop] = self.rounded_add(a[..., start:stop], b, inner)
        for loss in inner or []:
            full = np.zeros(out.shape)
            full[..., start:stop] = loss
            assert losses is not None
            losses.append(full)
        return out

    def hadamard(self, a: Array, b: Array) -> Array:
        return self.rounded_product(a, b)

    def scale_columns(self, a: Array, scores: Array) -> Array:
        return self.rounded_product(a, scores)

    def rounded_product(self, a: Array, b: Array, losses: Losses | None = None) -> Array:
        return self._product(a, b, self.roles.output, losses)

    def matmul(self, a: Array, b: Array) -> Array:
        return self.rounded_matmul(a, b)

    def rounded_matmul(self, a: Array, b: Array, losses: Losses | None = None) -> Array:
        terms = (
            self._product(a[..., :, j : j + 1], b[..., j : j + 1, :], self.roles.accumulator, losses)
            for j in range(a.shape[-1])
        )
        return self._inner(terms, (a.shape[-2], b.shape[-1]), losses)

    def dots(self, a: Array, b: Array) -> Array:
        return self.rounded_dots(a, b)

    def rounded_dots(self, a: Array, b: Array, losses: Losses | None = None) -> Array:
        terms = (
            self._product(a[..., j : j + 1, :], b[..., j : j + 1, :], self.roles.accumulator, losses)
            for j in range(a.shape[-2])
        )
        return self._inner(terms, (1, a.shape[-1]), losses)

    def _inner(self, terms: Any, shape: tuple[int, int], losses: Losses | None) -> Array:
        total = None
        for term in terms:
            total = term if total is None else self._sum(total, term, self.roles.accumulator, losses)
        if total is None:
            return self._zeros(*shape)
        return self.fit(total, self.roles.output, losses)

    def _sum(self, a: Array, b: Array, target: BinaryFormat, losses: Losses | None) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            total = a + b
        if losses is not None:
            losses.append(_sum_error(a, b, total) if self.context is None else self._carried(total))
        return self.fit(total, target, losses)

    def _product(self, a: Array, b: Array, target: BinaryFormat, losses: Losses | None) -> Array:
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            product = a * b
        if losses is not None and self.native:
            losses.append(_product_error(a, b, product))
        elif losses is not None and target.precision == 53:
            losses.append(np.zeros(product.shape))
        return self.fit(product, target, losses)

    def _carried(self, x: Array) -> NDArray[np.float64]:
        """A bound on the error with which a result was carried."""
        return _up(x) * 2.0 ** (1 - self.carrier) if self.context is not None else np.abs(x) * 2.0**-53 + 2.0**-1074

    def entrywise(self, a: Array, primitive: str, losses: Losses | None = None) -> Array:
        """recip_0, rsqrt_0, exp or log of each entry."""
        small = np.abs(a) <= self.zero_below
        one = np.broadcast_to(self.exactly([1], self.roles.output).reshape((1,) * a.ndim), a.shape)
        if primitive == "recip_0":
            out = self.quotient(one, np.where(small, one, a), losses)
            with np.errstate(invalid="ignore"):
                return np.where(small, a * 0, out)
        if primitive == "rsqrt_0":
            # Two correctly rounded operations, as in torch: a root, then a quotient.
            safe = np.where(small, one, a)
            root = self._root(safe, losses)
            if losses is not None:
                # An error e of the root moves its reciprocal by at most e / (r (r - e)).
                off, low = losses.pop(), np.abs(_floats(root))
                with np.errstate(divide="ignore", invalid="ignore"):
                    losses.append(np.where(off < low, off / (low * (low - off)) * (1 + 2.0**-48), np.inf))
            out = self.quotient(one, root, losses)
            return np.where(small, a * 0, out)
        out = np.empty_like(a)
        local = np.zeros(a.shape)
        for i, x in np.ndenumerate(a):
            out[i], local[i] = self._transcendental(x, primitive)
        if losses is not None:
            losses.append(local)
        return out

    def _root(self, x: Array, losses: Losses | None) -> Array:
        if self.context is None:
            with np.errstate(invalid="ignore"):
                carried = np.sqrt(x)
        else:
            context = self.context
            carried = self._entrywise(x, lambda v: context.sqrt(v) if v > 0 else context.nan)
        inner: Losses = [self._carried(carried)]
        out = self.fit(carried, self.roles.output, inner)
        if losses is not None:
            losses.append(sum(inner[1:], inner[0]) * (1 + 2.0**-50))
        return out

    def quotient(self, a: Array, b: Array, losses: Losses | None = None) -> Array:
        """a / b entry by entry, in the format of outputs."""
        with np.errstate(all="ignore"):
            carried = a / b
        if losses is not None:
            power = np.frexp(_floats(b))[0] if self.context is None else np.zeros(carried.shape)
            # By a power of two nothing is lost before the format's own rounding.
            losses.append(np.where(np.abs(power) == 0.5, 0.0, self._carried(carried)))
        return self.fit(carried, self.roles.output, losses)

    def _transcendental(self, x: Any, name: str) -> tuple[Any, float]:
        """A value of exp or log, and how far it is at most from the exact one."""
        target = self.roles.output
        if (name == "exp" and x == 0) or (name == "log" and x == 1):
            return self.exactly([int(name == "exp")], target)[0], 0.0
        if not np.isfinite(float(x)) or (name == "log" and not x > 0):
            return self._limit(float(x), name), float("inf")
        p, q = exact_ratio(x)
        for extra in (32, 128, 512, 2048):
            with ctx.workprec(target.precision + extra):
                ball = getattr(arb(fmpq(p, q)), name)()
                low, high = (self._of_ball(end, target) for end in (ball.lower(), ball.upper()))
                if low == high:
                    gap = abs(ball - arb(fmpq(*exact_ratio(low)))) if np.isfinite(float(low)) else arb("inf")
                    return low, _float_up(gap)
        raise BadInput(f"{self.name}: {name}({x}) is too close to a midpoint of two numbers to be rounded")

    def _of_ball(self, end: arb, target: BinaryFormat) -> Any:
        man, exponent = end.man_exp()
        if int(exponent) > 4 * 10**6:
            return self.exactly([Fraction(2) ** (target.emax + 2)], target)[0]
        if int(exponent) < -4 * 10**6:
            return self.exactly([0], target)[0]
        return self.exactly([Fraction(int(man)) * Fraction(2) ** int(exponent)], target)[0]

    def _limit(self, x: float, name: str) -> Any:
        with np.errstate(all="ignore"):
            value = float(getattr(np, name)(x))
        return value if self.context is None else self.context.mpf(value)

    def recip_0(self, a: Array) -> Array:
        return self.entrywise(a, "recip_0")

    def rsqrt_0(self, a: Array) -> Array:
        return self.entrywise(a, "rsqrt_0")

    def exp(self, a: Array) -> Array:
        return self.entrywise(a, "exp")

    def log(self, a: Array) -> Array:
        return self.entrywise(a, "log")

    def relu(self, a: Array) -> Array:
        return np.where(a > 0, a, self._zeros(*a.shape))

    def softmax(self, scores: Array, seen: NDArray[np.bool_]) -> Array:
        """The largest score seen is subtracted, then exp, sum and quotient, each rounded."""
        out = self._zeros(*scores.shape)
        for column in range(seen.shape[1]):
            rows = np.flatnonzero(seen[:, column])
            if not len(rows):
                continue
            x = self.fit(scores[rows, column][:, None], self.roles.state)
            powers = self.exp(self._sum(x, -np.broadcast_to(x.max(), x.shape), self.roles.state, None))
            terms = self.fit(powers, self.roles.accumulator)
            total = self._inner((terms[i : i + 1] for i in range(len(rows))), (1, 1), None)
            out[rows, column] = self.quotient(powers, np.broadcast_to(total, powers.shape)).ravel()
        return out

    def _sign(self, x: Any) -> int:
        return int(x > 0) - int(x < 0)

    def _from_table(self, rows: list[list[Any]], shape: tuple[int, int]) -> Array:
        return super()._from_table(rows, shape).astype(float if self.context is None else object)


def _floats(a: NDArray) -> NDArray[np.float64]:
    return a.astype(np.float64)


def _up(a: NDArray) -> NDArray[np.float64]:
    """Magnitudes as float64, rounded up: beyond half a unit whatever the conversion did."""
    found = np.abs(_floats(a))
    return np.where(a == 0, 0.0, np.maximum(found * (1 + 2.0**-51), 2.0**-1022))


def _float_up(ball: arb) -> float:
    return float(np.nextafter(float(ball.upper()), np.inf))


def _sum_error(a: NDArray, b: NDArray, total: NDArray) -> NDArray[np.float64]:
    """|a + b - total|, exactly (Knuth's two-sum)."""
    with np.errstate(over="ignore", invalid="ignore"):
        part = total - a
        return np.abs((a - (total - part)) + (b - part))


def _product_error(a: NDArray, b: NDArray, product: NDArray) -> NDArray[np.float64]:
    """|a b - product|: exactly (Dekker's product) where nothing leaves the range, else u |product| and half a least."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        size = np.abs(product)
        usual = (size > 2.0**-960) & (size < 2.0**960) & (np.abs(a) < 2.0**960) & (np.abs(b) < 2.0**960)
        pieces = []
        for x in (a, b):
            split = x * 134217729.0
            high = split - (split - x)
            pieces.append((high, x - high))
        (ah, al), (bh, bl) = pieces
        exact = np.abs(al * bl - (((product - ah * bh) - al * bh) - ah * bl))
        rough = np.where((a == 0) | (b == 0), 0.0, size * 2.0**-53 + 2.0**-1074)
        return np.where(usual, exact, rough)
