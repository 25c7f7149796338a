"""Arithmetic on torch tensors: any floating dtype and device, optional leading batch dimensions.

A rational is rounded once, straight from p/q, to the dtype. Every operation is functional and differentiable.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constructions.arithmetic import Array, Exact
from constructions.errors import BadInput
from constructions.tokens import Tokens
from numerics.formats import FORMATS, round_exact

DTYPES = ("float64", "float32", "bfloat16", "float16")


def parse_dtype(dtype: Any) -> Any:
    """The torch dtype of a name such as ``"float32"``, or a floating torch dtype itself.

    Raises:
        BadInput: not one of float64, float32, bfloat16, float16.
    """
    import torch

    name = str(dtype).removeprefix("torch.")
    name = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}.get(name, name)
    if name not in DTYPES:
        raise BadInput(f"dtype: expected one of {', '.join(DTYPES)}, found {dtype}")
    return getattr(torch, name)


def parse_device(device: Any) -> Any:
    """The torch device of ``"cpu"``, ``"cuda"`` or ``"cuda:0"``.

    Raises:
        BadInput: not such a name, or no such device on this computer.
    """
    import torch

    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type not in ("cpu", "cuda"):
        raise BadInput(f"device {device}: expected cpu, cuda or cuda:N, found another name")
    if found.type == "cuda":
        available = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not available:
            raise BadInput(f"device {device}: expected a CUDA device, found none on this computer")
        if found.index is not None and found.index >= available:
            raise BadInput(f"device {device}: expected an index below {available}, found {found.index}")
    return found


class TorchArithmetic:
    """Matrices as tensors of shape (..., rows, columns); one dtype, one device.

    Args:
        dtype: torch dtype or its name.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:N"`` or a torch device.
        zero_below: public threshold inside the primitives: `recip_0` and `rsqrt_0` are 0 where |x| <= zero_below. The
            default 0 means exactly zero. Thereby a float gate is a stated guess; exact gates come from Q.

    Raises:
        BadInput: an unknown dtype, a device that is not there, or a threshold that is negative or not finite.
    """

    def __init__(self, dtype: Any = "float64", device: Any = "cpu", zero_below: float = 0.0) -> None:
        self.dtype = parse_dtype(dtype)
        self.device = parse_device(device)
        if not 0 <= zero_below < float("inf"):
            raise BadInput(f"torch arithmetic: expected a finite threshold zero_below >= 0, found {zero_below}")
        self.zero_below = float(zero_below)
        short = str(self.dtype).removeprefix("torch.")
        self.format = FORMATS[short]
        self.name = f"torch {short}, {self.device}" + (f", zero below {zero_below:.1e}" if zero_below else "")

    def __repr__(self) -> str:
        return self.name

    def matrix(self, rows: Sequence[Sequence[Exact]] | NDArray, shape: tuple[int, int] | None = None) -> Array:
        """An exact matrix, each entry rounded once; a numpy array of ints or floats stands for its exact values."""
        import torch

        if shape is None:
            shape = (len(rows), len(rows[0]) if len(rows) else 0)
        flat: list[Any] = rows.ravel().tolist() if isinstance(rows, np.ndarray) else [x for row in rows for x in row]
        values = round_exact(flat, self.format).reshape(shape)
        # Exact in the dtype already, so the conversion rounds nothing.
        return torch.from_numpy(values).to(dtype=self.dtype, device=self.device)

    def one_hot(self, indices: Sequence[int], size: int) -> Array:
        import torch

        rows = torch.as_tensor(np.asarray(indices, dtype=np.int64), device=self.device)
        live = torch.nonzero(rows >= 0).squeeze(-1)
        out = torch.zeros(size, len(rows), dtype=self.dtype, device=self.device)
        out[rows[live], live] = 1
        return out

    def shape(self, a: Array) -> tuple[int, int]:
        return a.shape[-2], a.shape[-1]

    def add(self, a: Array, b: Array) -> Array:
        return a + b

    def negate(self, a: Array) -> Array:
        return -a

    def matmul(self, a: Array, b: Array) -> Array:
        return a @ b

    def transpose(self, a: Array) -> Array:
        return a.mT

    def hadamard(self, a: Array, b: Array) -> Array:
        return a * b

    def scale_columns(self, a: Array, scores: Array) -> Array:
        return a * scores

    def dots(self, a: Array, b: Array) -> Array:
        return (a * b).sum(-2, keepdim=True)

    def columns(self, a: Array, start: int, stop: int) -> Array:
        return a[..., start:stop]

    def rows(self, a: Array, start: int, stop: int) -> Array:
        return a[..., start:stop, :]

    def stack(self, blocks: Sequence[Sequence[Array]]) -> Array:
        return _join([_join(line, -1) for line in blocks], -2)

    def select(self, a: Array, indices: Sequence[int]) -> Array:
        import torch

        return torch.index_select(a, a.ndim - 1, torch.as_tensor(list(indices), dtype=torch.int64, device=a.device))

    def embed(self, a: Array, start: int, total: int) -> Array:
        import torch

        return torch.nn.functional.pad(a, (start, total - start - a.shape[-1]))

    def add_columns(self, a: Array, start: int, b: Array) -> Array:
        import torch

        new = a[..., start : start + b.shape[-1]] + b
        if new.ndim > a.ndim or new.shape[:-2] != a.shape[:-2]:
            a = a.expand(*new.shape[:-2], *a.shape[-2:])
        return torch.slice_scatter(a, new, new.ndim - 1, start, start + b.shape[-1])

    def recip_0(self, a: Array) -> Array:
        return self._guarded(a, lambda x: 1 / x)

    def rsqrt_0(self, a: Array) -> Array:
        # 1/sqrt rather than rsqrt: two correctly rounded operations, where rsqrt is only approximate on some devices.
        return self._guarded(a, lambda x: 1 / x.sqrt())

    def eq0(self, a: Array) -> Array:
        return (a.abs() <= self.zero_below).to(a.dtype)

    def exp(self, a: Array) -> Array:
        return a.exp()

    def log(self, a: Array) -> Array:
        return a.log()

    def relu(self, a: Array) -> Array:
        return a.relu()

    def softmax(self, scores: Array, seen: NDArray[np.bool_]) -> Array:
        import torch

        # torch subtracts the largest score of each column; one without any entry seen would be 0/0.
        visible, empty = self._visible(seen)
        return torch.where(visible, torch.softmax(torch.where(visible | empty, scores, -torch.inf), -2), 0)

    def hardmax(self, scores: Array, seen: NDArray[np.bool_]) -> Array:
        import torch

        visible, _ = self._visible(seen)
        largest = visible & (scores == torch.where(visible, scores, -torch.inf).amax(-2, keepdim=True))
        return largest.to(scores.dtype) / largest.sum(-2, keepdim=True).clamp(min=1).to(scores.dtype)

    def _visible(self, seen: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Which entries are seen, and which columns have none."""
        import torch

        visible = torch.as_tensor(seen, device=self.device)
        return visible, ~visible.any(-2, keepdim=True)

    def nonzero(self, a: Array) -> list[bool]:
        """For a one-row array: which entries are not zero; NaN is not zero.

        Raises:
            BadInput: the members of a batch disagree, so that they cannot keep the same tokens.
        """
        live = (a != 0).reshape(-1, a.shape[-1])
        agreed = (live == live[:1]).all(0)
        if not bool(agreed.all()):
            column = int((~agreed).nonzero()[0])
            zeros = int((~live[:, column]).sum())
            raise BadInput(
                f"{self.name}, gate of token {column}: expected all {len(live)} batch members to agree, "
                f"found {zeros} zero and {len(live) - zeros} not"
            )
        return live[0].tolist()

    def _guarded(self, a: Array, function: Any) -> Array:
        import torch

        # The argument is made safe before the call: otherwise the gradient at a zero would be 0 * inf.
        small = a.abs() <= self.zero_below
        one, zero = torch.ones_like(a), torch.zeros_like(a)
        return torch.where(small, zero, function(torch.where(small, one, a)))


def _join(parts: Sequence[Array], dim: int) -> Array:
    import torch

    if len(parts) == 1:
        return parts[0]
    if any(part.ndim > 2 for part in parts):
        batch = np.broadcast_shapes(*(tuple(part.shape[:-2]) for part in parts))
        parts = [part.expand(*batch, *part.shape[-2:]) for part in parts]
    return torch.cat(list(parts), dim)


def batched(sequences: Sequence[Tokens]) -> Tokens:
    """Token banks of equal counts as one, every block with a leading batch dimension of len(sequences).

    Raises:
        BadInput: no sequence, or banks of different kinds, counts or blocks.
    """
    import torch

    if not sequences:
        raise BadInput("batch: expected at least one token sequence, found none")
    first = sequences[0]
    for other in sequences[1:]:
        if other.counts != first.counts:
            raise BadInput(f"batch: expected token counts {dict(first.counts)}, found {dict(other.counts)}")
    keys = reduce(lambda a, b: a | b, (set(tokens.blocks) for tokens in sequences))
    for key in keys:
        if any(key not in tokens.blocks for tokens in sequences):
            raise BadInput(f"batch: expected the block {key[0]}.{key[1]} in every sequence, found it in some only")
    return Tokens(first.counts, {key: torch.stack([t.blocks[key] for t in sequences]) for key in first.blocks})
