"""A learned encoder with a bottleneck: n state tokens into m latents by softmax attention (theory A9).

State token i holds e_i, row i of A and r_i. One self-attention layer over the n tokens, then two cross-attention blocks
by which m learned latents look at them; width d = 64, four heads, about 1.1e5 parameters. What is read off latent u:

    time-invariant   b_u in R^n, s_u, and from keys and queries H = K'Q: v^_l = B sum_{j<l} H^j s, as in td.executor
    clocked          b_u in R^n and one coefficient a depth: v^_l = B c_l, which any rank-m context of depth L can be

so both are m-dimensional contexts in the sense of theory A0. H is divided by its largest absolute row sum where that
exceeds 1, so that powers stay bounded; at m = n the exact context B = I, H = A, s = r is within that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

WIDTH, HEADS = 64, 4


class Attend(nn.Module):
    """A pre-normed block: attention to a context (or to the tokens themselves), then two layers of width 2d."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.context, self.between = (nn.LayerNorm(width) for _ in range(3))
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, tokens: Tensor, context: Tensor) -> Tensor:
        """Tokens (batch, count, d) that look at a context (batch, other count, d)."""
        seen = self.context(context)
        moved, _ = self.attention(self.before(tokens), seen, seen, need_weights=False)
        tokens = tokens + moved
        return tokens + self.inner(self.between(tokens))


class Bottleneck(nn.Module):
    """Encoder and executor together: from (A, r) to v^_1 .. v^_L.

    Args:
        states, depth, latents: n, L and m.
        clocked: whether the executor is clocked, else time-invariant.
    """

    def __init__(self, states: int, depth: int, latents: int, *, clocked: bool) -> None:
        super().__init__()
        self.depth, self.clocked = depth, clocked
        self.embed = nn.Linear(2 * states + 1, WIDTH)
        self.mix = Attend(WIDTH, HEADS)
        self.latents = nn.Parameter(torch.randn(latents, WIDTH))
        self.cross = nn.ModuleList(Attend(WIDTH, HEADS) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.basis = nn.Linear(WIDTH, states)
        if clocked:
            self.clock = nn.Linear(WIDTH, depth)
        else:
            self.key, self.query, self.start = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, A: Tensor, r: Tensor) -> Tensor:
        """v^_1 .. v^_L, shape (batch, n, L); A (batch, n, n), r (batch, n)."""
        unit = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device).expand_as(A)
        tokens = self.embed(torch.cat([unit, A, r.unsqueeze(-1)], -1))
        tokens = self.mix(tokens, tokens)
        latents = self.latents.expand(len(A), -1, -1)
        for block in self.cross:
            latents = block(latents, tokens)
        latents = self.norm(latents)
        B = self.basis(latents).mT
        return B @ (self.clock(latents) if self.clocked else self._states(latents).cumsum(-1))

    def _states(self, latents: Tensor) -> Tensor:
        """s_0 .. s_{L-1}, shape (batch, m, L), s_l = H^l s_0, by doubling."""
        H = self.key(latents) @ self.query(latents).mT / WIDTH
        H = H / H.abs().sum(-1).amax(-1).clamp(min=1.0)[:, None, None]
        states = self.start(latents)
        while True:
            states = torch.cat([states, H @ states], -1)
            if states.shape[-1] >= self.depth:
                return states[..., : self.depth]
            H = H @ H


def parameter_count(model: Any) -> int:
    """Number of trained numbers."""
    return sum(parameter.numel() for parameter in model.parameters())
