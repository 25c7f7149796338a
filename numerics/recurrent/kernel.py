"""The gated delta rule in torch: chunks by one batched triangular solve, and the recurrence beside it (theory C1, C3).

Rows are tokens: keys (.., T, d_k), values (.., T, d_v), rates and log gates (.., T), state (.., d_v, d_k), with any
leading batch dimensions (heads among them), on any device. Inputs may be float64, float32, bfloat16 or float16; the
inverse, the state and the log gates are held in at least float32.

Products of gates G_ij = a_{j+1} .. a_i are exponentials of sums of logs over just these tokens: never g_i / g_j, which
overflows, and never a difference of running sums, which loses every digit behind a very negative log gate. Minus
infinity is a gate of zero. [Z, W] solves the triangular system of `delta_rule` by substitution, without powers of L.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from constructions.errors import BadInput


@dataclass(frozen=True)
class Expansion:
    """Where b |k|^2 exceeds 2, so that a token can make errors grow (F7).

    Attributes:
        largest: the largest b |k|^2.
        tokens: how many tokens exceed 2.
        first: index of the first of them, batch dimensions first; None if there is none.
    """

    largest: float
    tokens: int
    first: tuple[int, ...] | None


def expansion(keys: Tensor, rates: Tensor) -> Expansion:
    """Report b |k|^2 > 2, computed in float64.

    Raises:
        BadInput: shapes that do not fit together.
    """
    if rates.shape != keys.shape[:-1]:
        raise BadInput(f"delta rule: expected rates of shape {tuple(keys.shape[:-1])}, found {tuple(rates.shape)}")
    products = rates.double() * keys.double().square().sum(-1)
    beyond = (products > 2).nonzero()
    first = tuple(beyond[0].tolist()) if len(beyond) else None
    return Expansion(float(products.max()) if products.numel() else 0.0, len(beyond), first)


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """float64 if any input is, else float32."""
    return torch.float64 if any(x.dtype == torch.float64 for x in tensors) else torch.float32


def check_shapes(
    keys: Tensor, values: Tensor, queries: Tensor, rates: Tensor, log_gates: Tensor, state: Tensor | None
) -> None:
    """Raise `BadInput` unless the shapes and devices fit together."""
    if keys.ndim < 2 or values.ndim != keys.ndim:
        found = f"{tuple(keys.shape)} and {tuple(values.shape)}"
        raise BadInput(f"delta rule: expected keys (.., T, d_k) and values (.., T, d_v), found {found}")
    lead, d_k, d_v = tuple(keys.shape[:-2]), keys.shape[-1], values.shape[-1]
    tokens = (*lead, keys.shape[-2])
    expected = {"values": (*tokens, d_v), "queries": (*tokens, d_k), "rates": tokens, "log_gates": tokens}
    given = {"values": values, "queries": queries, "rates": rates, "log_gates": log_gates}
    if state is not None:
        expected["state"], given["state"] = (*lead, d_v, d_k), state
    for name, shape in expected.items():
        if tuple(given[name].shape) != shape:
            raise BadInput(f"delta rule: expected {name} of shape {shape}, found {tuple(given[name].shape)}")
        if given[name].device != keys.device:
            raise BadInput(f"delta rule: expected {name} on {keys.device}, found it on {given[name].device}")


def chunked(
    keys: Tensor,
    values: Tensor,
    queries: Tensor,
    rates: Tensor,
    log_gates: Tensor,
    state: Tensor | None = None,
    *,
    chunk: int = 64,
) -> tuple[Tensor, Tensor]:
    """Outputs (.., T, d_v) in the format of the values, and the last state (.., d_v, d_k) in at least float32.

    Args:
        keys, values, queries, rates, log_gates: as in the module's text; log gates at most 0 keep products in range.
        state: S_0; zero if not given.
        chunk: tokens a chunk; T need not be a multiple.

    Raises:
        BadInput: shapes, devices or a chunk size that do not fit.
    """
    check_shapes(keys, values, queries, rates, log_gates, state)
    if chunk < 1:
        raise BadInput(f"delta rule: expected a chunk of at least one token, found {chunk}")
    dtype, (T, d_k), d_v = working_dtype(keys, values, queries, rates), keys.shape[-2:], values.shape[-1]
    lead = keys.shape[:-2]
    batch, chunk = math.prod(lead), max(1, min(chunk, T))
    chunks, missing = -(-T // chunk), -T % chunk

    def by_chunk(x: Tensor, width: int) -> Tensor:
        """Shape (batch, chunks, chunk, width); tokens added at the end have zero key, rate and log gate."""
        x = x.to(dtype).reshape(batch, T, width)
        x = torch.nn.functional.pad(x, (0, 0, 0, missing)) if missing else x
        return x.reshape(batch, chunks, chunk, width)

    K, V, Q = by_chunk(keys, d_k), by_chunk(values, d_v), by_chunk(queries, d_k)
    b, logs = by_chunk(rates, 1), by_chunk(log_gates, 1)
    # Entry (i, j): the sum of logs over j < m <= i.
    G = logs.expand(-1, -1, -1, chunk).tril(-1).cumsum(-2).exp().tril()
    g = logs.cumsum(-2).exp()
    L = ((b * K) @ K.mT * G).tril(-1)
    # X (I + L)' = [b v, b g k] in columns: solved from the right, so that no side is copied into another order.
    right = torch.cat([b * V, b * g * K], -1).mT
    solved = torch.linalg.solve_triangular(L.mT, right, upper=True, left=False, unitriangular=True).mT
    Z, W = solved.split([d_v, d_k], -1)
    carried, decay = (K * G[..., -1, :, None]).mT, g[..., -1:, :]
    S = K.new_zeros(batch, d_k, d_v) if state is None else state.to(dtype).reshape(batch, d_v, d_k).mT
    starts, written = [], []
    for z, w, k, a in zip(*(x.unbind(1) for x in (Z, W, carried, decay)), strict=True):
        starts.append(S)
        written.append(torch.baddbmm(z, w, S, alpha=-1))
        S = torch.baddbmm(a * S, k, written[-1])
    if starts:
        out = (g * Q) @ torch.stack(starts, 1) + ((Q @ K.mT) * G) @ torch.stack(written, 1)
        out = out.reshape(batch, chunks * chunk, d_v)[:, :T]
    else:
        out = V
    return out.reshape(*lead, T, d_v).to(values.dtype), S.mT.reshape(*lead, d_v, d_k)


def recurrent(
    keys: Tensor,
    values: Tensor,
    queries: Tensor,
    rates: Tensor,
    log_gates: Tensor,
    state: Tensor | None = None,
    *,
    working: torch.dtype | None = None,
    every: int = 0,
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Token by token: outputs, last state, and the states after every `every` tokens (none if 0), the last included.

    Args:
        working: the format of state, gates and every operation; at least float32 if not given. Narrower ones are for
            audits.

    Raises:
        BadInput: shapes or devices that do not fit.
    """
    check_shapes(keys, values, queries, rates, log_gates, state)
    dtype = working or working_dtype(keys, values, queries, rates)
    wide = torch.float64 if log_gates.dtype == torch.float64 else torch.float32
    gates = log_gates.to(wide).exp().to(dtype)
    T = keys.shape[-2]
    S = keys.new_zeros((*keys.shape[:-2], values.shape[-1], keys.shape[-1]), dtype=dtype)
    S = S if state is None else state.to(dtype)
    K, V, Q, b = (x.to(dtype) for x in (keys, values, queries, rates))
    outputs, kept = [], []
    for t in range(T):
        k = K[..., t, :, None]
        S = gates[..., t, None, None] * S
        u = b[..., t, None, None] * (V[..., t, :, None] - S @ k)
        S = S + u @ k.mT
        outputs.append((S @ Q[..., t, :, None]).squeeze(-1))
        if every and ((t + 1) % every == 0 or t == T - 1):
            kept.append(S)
    out = torch.stack(outputs, -2) if outputs else values.new_zeros(values.shape)
    return out.to(values.dtype), S, kept
