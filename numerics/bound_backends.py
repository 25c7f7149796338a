"""How running bounds are computed beside numpy arrays and beside torch tensors (`running_bounds` says what they are).

Each operation returns its value, a bound on its own rounding, for products the share growth of |A| |B| that the caller
folds in (0 where the local bound is complete), and how many roundings the bound itself has had.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from numerics.errors import round_up
from numerics.formats import BinaryFormat
from numerics.rounded_arithmetic import Losses, RoundedArithmetic
from numerics.torch_arithmetic import TorchArithmetic

ULPS = 4
"""What torch's exp and log err by at most, in units in the last place: an assumption."""
FLOORS = {"float64": 2.0**-500, "float32": 2.0**-60}
"""The smallest bound other than zero, by the format of the bounds."""


class NumpyBounds:
    """Bounds in float64 beside arrays of `RoundedArithmetic`, whose operations say what they lose."""

    library = np
    eps = 2.0**-52
    floor = FLOORS["float64"]

    def __init__(self, inner: RoundedArithmetic) -> None:
        self.inner = inner
        used = [inner.roles.state, inner.roles.output, inner.roles.accumulator]
        self.unit = float(max(x.unit_roundoff for x in used))
        self.smallest = max(round_up(x.smallest) if x.emin > -1000 else 2.0**-1000 for x in used)

    def entries(self, value: NDArray) -> list[Any]:
        return value.ravel().tolist()

    def bounds(self, values: list[float], shape: tuple[int, int]) -> NDArray:
        return np.array(values, dtype=np.float64).reshape(shape)

    def real(self, a: NDArray) -> NDArray[np.float64]:
        return a.astype(np.float64, copy=False)

    def size(self, a: NDArray) -> NDArray[np.float64]:
        found = np.abs(self.real(a))
        if a.dtype == object:
            found = found * (1 + 2.0**-51)
        return np.where(a == 0, 0.0, np.maximum(found, self.floor))

    def add(self, a: NDArray, b: NDArray) -> tuple[NDArray, Any, int]:
        losses: Losses = []
        value = self.inner.rounded_add(a, b, losses)
        return value, _total(losses), len(losses)

    def product(self, a: NDArray, b: NDArray) -> tuple[NDArray, Any, float, int]:
        losses: Losses = []
        value = self.inner.rounded_product(a, b, losses)
        return value, _total(losses), 0.0, len(losses)

    def matmul(self, a: NDArray, b: NDArray) -> tuple[NDArray, Any, float, int]:
        losses: Losses = []
        value = self.inner.rounded_matmul(a, b, losses)
        return value, _total(losses), 0.0, len(losses)

    def dots(self, a: NDArray, b: NDArray) -> tuple[NDArray, Any, float, int]:
        losses: Losses = []
        value = self.inner.rounded_dots(a, b, losses)
        return value, _total(losses), 0.0, len(losses)

    def primitive(self, a: NDArray, name: str) -> tuple[NDArray, Any, int]:
        losses: Losses = []
        value = self.inner.entrywise(a, name, losses)
        return value, _total(losses), len(losses)

    def mask(self, seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return seen

    def where(self, condition: Any, a: Any, b: Any) -> NDArray:
        return np.where(condition, a, b)

    def column_sums(self, a: NDArray) -> NDArray:
        return a.sum(-2, keepdims=True)

    def column_max(self, a: NDArray) -> NDArray:
        return a.max(-2, keepdims=True)

    def column_all(self, a: NDArray) -> Any:
        return a.all(-2, keepdims=True)

    def up(self, value: NDArray, error: Any, count: int, length: int, lost: bool) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            raised = np.broadcast_to(error, value.shape) * (1 + (count + 4) * self.eps)
            known = ~np.isnan(raised) & np.isfinite(self.real(value))
        kept = np.where(raised > 0, np.maximum(raised, self.floor), 0.0)
        return np.where(known, kept, np.inf) if not lost else np.full(value.shape, np.inf)


def _total(losses: Losses) -> Any:
    total: Any = 0.0
    for loss in losses:
        total = total + loss
    return total


class TorchBounds:
    """Bounds beside tensors, on their device."""

    def __init__(self, inner: TorchArithmetic) -> None:
        import torch

        self.inner, self.library = inner, torch
        given: BinaryFormat = inner.format
        self.unit, self.smallest = float(given.unit_roundoff), max(float(given.smallest), 2.0**-1000)
        matmul = torch.backends.cuda.matmul
        reduced = inner.device.type == "cuda" and matmul.allow_tf32
        setting = torch.get_float32_matmul_precision()
        # float32 products may round their factors first: to tf32, or to bfloat16 ("medium").
        self.factors = 0.0
        if inner.dtype == torch.float32 and (reduced or setting != "highest"):
            self.factors = 2.0**-7 if setting == "medium" else 2.0**-10
        double = inner.dtype == torch.float64 or self.factors > 0
        self.dtype = torch.float64 if double else torch.float32
        self.eps = 2.0**-52 if double else 2.0**-23
        self.floor = FLOORS["float64" if double else "float32"]
        self.subnormal = float(given.smallest) if given.emin > -100 else 0.0

    def entries(self, value: Any) -> list[float]:
        return value.detach().cpu().double().ravel().tolist()

    def bounds(self, values: list[float], shape: tuple[int, int]) -> Any:
        array = np.array(values, dtype=np.float64).reshape(shape) * (1 + self.eps)
        return self.library.from_numpy(array).to(dtype=self.dtype, device=self.inner.device)

    def real(self, a: Any) -> Any:
        return a.to(self.dtype)

    def size(self, a: Any) -> Any:
        found = a.abs().to(self.dtype)
        return self.library.where(found > 0, found.clamp(min=self.floor), found)

    def add(self, a: Any, b: Any) -> tuple[Any, Any, int]:
        value = self.inner.add(a, b)
        # Nothing is lost where one of the two is zero.
        lost = value.abs().to(self.dtype) * ((a != 0) & (b != 0)).to(self.dtype)
        return value, lost * self.unit, 1

    def product(self, a: Any, b: Any) -> tuple[Any, Any, float, int]:
        return self.inner.hadamard(a, b), 0.0, self.unit, 1

    def matmul(self, a: Any, b: Any) -> tuple[Any, Any, float, int]:
        return self.inner.matmul(a, b), 0.0, self._inner(a.shape[-1]), 2

    def dots(self, a: Any, b: Any) -> tuple[Any, Any, float, int]:
        return self.inner.dots(a, b), 0.0, self._inner(a.shape[-2]), 2

    def _inner(self, length: int) -> float:
        """(1 + u)^(n + 1) - 1, and the rounding of factors where products may do that."""
        grown = float(np.expm1((length + 1) * np.log1p(self.unit)))
        return (grown + (1 + grown) * 2 * self.factors * (1 + self.factors)) * (1 + 2.0**-20)

    def primitive(self, a: Any, name: str) -> tuple[Any, Any, int]:
        value = getattr(self.inner, name)(a)
        share = {"recip_0": 1.0, "rsqrt_0": 3.0}.get(name, 2.0 * ULPS) * self.unit * (1 + 2.0**-6)
        return value, value.abs().to(self.dtype) * share + self.smallest, 2

    def mask(self, seen: NDArray[np.bool_]) -> Any:
        return self.library.as_tensor(seen, device=self.inner.device)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        if not hasattr(a, "ndim") and not hasattr(b, "ndim"):
            a = self.library.full(condition.shape, a, dtype=self.dtype, device=condition.device)
        return self.library.where(condition, a, b)

    def column_sums(self, a: Any) -> Any:
        return a.sum(-2, keepdim=True)

    def column_max(self, a: Any) -> Any:
        return a.amax(-2, keepdim=True)

    def column_all(self, a: Any) -> Any:
        return a.all(-2, keepdim=True)

    def up(self, value: Any, error: Any, count: int, length: int, lost: bool) -> Any:
        torch = self.library
        raised = error * (1 + (count + 4) * self.eps)
        # Products of the formats with few exponents underflow by up to half the smallest number each.
        raised = torch.where(raised > 0, raised.clamp(min=self.floor) + length * self.subnormal, raised)
        if lost:
            return torch.full_like(raised, torch.inf)
        return torch.where(torch.isfinite(value) & ~torch.isnan(raised), raised, torch.inf)
