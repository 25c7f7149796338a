"""The recurrent state of the delta rule in p bits, against decay, rate and T; inputs and outputs apart.

Models: `state` the state alone is rounded, after every token; `input` keys, values, rate and gate alone, once; `gate`
the gate alone; `all` the state and the inputs; `fused` those and each operation of the step, a S, S k, v - S k and its
product with b, but for the update S + u k', which is rounded once, as are inner products. Everything else is float64,
and so is the reference: its own error, some 1e-16, is nothing beside these. Figures are |S^ - S| / |S| in the Frobenius
norm at chosen T, d = 16, for several seeds at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from numerics.formats import BinaryFormat, round_doubles

from .kernel import chunked, recurrent, working_dtype

WIDTH = 16
MODELS = ("state", "input", "gate", "all", "fused")
Floats = NDArray[np.float64]


def streams(tokens: int, seeds: Sequence[int]) -> tuple[Floats, Floats]:
    """Unit keys and normal values, shape (T, seeds, d); those of a seed do not depend on the other seeds."""
    drawn = np.stack([np.random.default_rng(seed).standard_normal((2, tokens, WIDTH)) for seed in seeds], axis=2)
    return drawn[0] / np.linalg.norm(drawn[0], axis=-1, keepdims=True), drawn[1]


def relative_errors(
    gate: float, rate: float, target: BinaryFormat, model: str, at: Sequence[int], seeds: Sequence[int]
) -> Floats:
    """|S^_T - S_T| / |S_T| at each T of `at`, ascending; shape (len(at), seeds)."""
    k, v = streams(at[-1], seeds)

    def near(x: Floats | float) -> Floats:
        return round_doubles(np.atleast_1d(np.asarray(x, dtype=np.float64)), target)

    inputs, state = model in ("input", "all", "fused"), model in ("state", "all", "fused")
    inner = near if model == "fused" else np.asarray
    keys, values = (near(k), near(v)) if inputs else (k, v)
    a = float(near(gate)[0]) if inputs or model == "gate" else gate
    b = float(near(rate)[0]) if inputs else rate
    found, exact = np.zeros((2, len(seeds), WIDTH, WIDTH))
    out = []
    for t in range(at[-1]):
        exact = _step(exact, k[t], v[t], gate, rate, np.asarray)
        found = _step(found, keys[t], values[t], a, b, inner)
        if state:
            found = near(found)
        if t + 1 in at:
            out.append(_distance(found, exact))
    return np.array(out)


def _step(S: Floats, k: Floats, v: Floats, a: float, b: float, near: Callable[[Any], Floats]) -> Floats:
    S = near(a * S)
    u = near(b * near(v - near((S @ k[..., None])[..., 0])))
    return S + u[..., None] * k[:, None, :]


def _distance(found: Floats, exact: Floats) -> Floats:
    return np.linalg.norm(found - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))


def torch_errors(
    gate: float, rate: float, dtype: str, at: Sequence[int], seeds: Sequence[int], chunk: int | None = None
) -> Floats:
    """The same of torch's own kernels, inputs rounded first: token by token in the format, or by chunks.

    Args:
        gate, rate, at, seeds: as for `relative_errors`.
        dtype: a name of torch's; chunks keep their state in at least float32.
        chunk: tokens a chunk; token by token if None.
    """
    k, v = (torch.from_numpy(x).transpose(0, 1) for x in streams(at[-1], seeds))
    target = getattr(torch, dtype)
    b = torch.full(k.shape[:2], rate, dtype=torch.float64)
    rounded = [x.to(target) for x in (k, v, b)]
    logs = torch.full(k.shape[:2], math.log(gate), dtype=working_dtype(*rounded))
    found, exact, out, start = None, None, [], 0
    for stop in at:
        part = slice(start, stop)
        K, V, B = (x[:, part] for x in rounded)
        if chunk is None:
            _, found, _ = recurrent(K, V, K, B, logs[:, part], found, working=target)
        else:
            _, found = chunked(K, V, K, B, logs[:, part], found, chunk=chunk)
        wide = k[:, part], v[:, part], k[:, part], b[:, part], logs[:, part].double()
        _, exact, _ = recurrent(*wide, exact)
        out.append(_distance(found.double().numpy(), exact.numpy()))
        start = stop
    return np.array(out)
