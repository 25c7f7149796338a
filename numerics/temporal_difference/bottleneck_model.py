"""A learned encoder with a bottleneck: n state tokens into m latents by softmax attention (theory A9).

State token i holds e_i, row i of A and r_i, scaled to comparable sizes. One self-attention layer over the n tokens,
then two cross-attention blocks by which m learned latents look at them; width d = 64, one head. A block's scores are
x' Q y of normed tokens and its values P y, so that keys with queries, and values with outputs, are one matrix each: the
same maps as with four for less work. One head, since heads of width d/4 < n cannot tell n states apart by their codes.
What is read off latent u:

    time-invariant   b_u in R^n, s_u, and H from pairs of latents: v^_l = B sum_{j<l} H^j s, as in td.executor
    clocked          b_u in R^n and one coefficient a depth: v^_l = B c_l, which any rank-m context of depth L can be

so both are m-dimensional contexts in the sense of theory A0. A row of H whose absolute sum exceeds 1 is divided by it,
so that powers stay bounded. At the start s_u = 1, B is small and H nearly diagonal, from .9 down to 0. From a start
with a random s and a larger B, training stays for long at answers that are the same in every state: where s alone
follows the task with a sign that averages out, what B lacks of r has hardly a gradient.

Several runs stand side by side: every parameter has a leading axis of runs, and no run sees another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HIDDEN = 64, 128
BLOCKS = ("mix", "look", "look again")
"""The self-attention layer and the two cross-attention blocks."""

Weights = dict[str, Tensor]
LARGEST_DECAY = 0.9


def initial_weights(states: int, depth: int, latents: int, *, clocked: bool, seed: int) -> Weights:
    """The weights of one run, by its seed, whatever runs beside it; torch's own generator is left as it was."""
    draw = torch.Generator().manual_seed(seed)

    def normal(rows: int, columns: int, deviation: float = 1.0) -> Tensor:
        return torch.randn(rows, columns, generator=draw) * deviation

    def linear(inputs: int, outputs: int, gain: float = 1.0) -> Tensor:
        return normal(inputs, outputs, gain / math.sqrt(inputs))

    weights = {"state": normal(states, WIDTH), "row": linear(states, WIDTH), "reward": normal(1, WIDTH)}
    for block in BLOCKS:
        weights |= {f"{block}.Q": linear(WIDTH, WIDTH), f"{block}.P": linear(WIDTH, WIDTH, 0.5)}
        weights |= {f"{block}.inner": linear(WIDTH, HIDDEN), f"{block}.inner bias": torch.zeros(1, HIDDEN)}
        weights |= {f"{block}.outer": linear(HIDDEN, WIDTH, 0.5), f"{block}.outer bias": torch.zeros(1, WIDTH)}
    weights["latents"] = normal(latents, WIDTH)
    if clocked:
        weights["basis"] = linear(WIDTH, states)
        weights |= {"clock": linear(WIDTH, depth, 1 / math.sqrt(latents)), "clock bias": torch.zeros(1, depth)}
    else:
        weights["basis"] = linear(WIDTH, states, 0.3 / math.sqrt(latents))
        weights |= {"pairs": linear(WIDTH, WIDTH, 0.1), "decay": torch.linspace(LARGEST_DECAY, 0, latents)[None]}
        weights |= {"start": torch.zeros(WIDTH, 1), "start bias": torch.ones(1, 1)}
    return weights


CLOCKED_ONLY = ("clock", "clock bias")
TIME_INVARIANT_ONLY = ("pairs", "decay", "start", "start bias")


class Bottleneck(nn.Module):
    """Encoders and executors of several runs: from (A, r) to v^_1 .. v^_L.

    Args:
        runs: the weights of each, `initial_weights` of the same n, L and m; clocked ones before time-invariant ones.
        depth: L.
        discount: g, the row sum of A, which is subtracted from the scaled rows.
    """

    def __init__(self, runs: Sequence[Weights], depth: int, discount: float) -> None:
        super().__init__()
        self.depth, self.discount = depth, discount
        self.runs, self.clocked = len(runs), sum("clock" in run for run in runs)
        names = dict.fromkeys(name for run in runs for name in run)
        stacked = {name: torch.stack([run[name] for run in runs if name in run]) for name in names}
        self.names = list(names)
        self.weights = nn.ParameterList(stacked.values())

    def members(self, name: str) -> slice:
        """The runs that have a parameter, in the order of its leading axis."""
        if name in CLOCKED_ONLY:
            return slice(0, self.clocked)
        return slice(self.clocked if name in TIME_INVARIANT_ONLY else 0, self.runs)

    def run(self, index: int) -> Bottleneck:
        """One run by itself, with a copy of its weights."""
        mine = {}
        for name, weight in zip(self.names, self.weights, strict=True):
            here = self.members(name)
            if here.start <= index < here.stop:
                mine[name] = weight.detach()[index - here.start].clone()
        return Bottleneck([mine], self.depth, self.discount)

    def forward(self, A: Tensor, r: Tensor) -> Tensor:
        """v^_1 .. v^_L, shape (runs, tasks, n, L); A (runs, tasks, n, n), r (runs, tasks, n)."""
        w = dict(zip(self.names, self.weights, strict=True))
        runs, tasks, n = r.shape
        rows = (n * A - self.discount).reshape(runs, tasks * n, n) @ w["row"]
        own = w["state"][:, None] + 2 * r[..., None] * w["reward"][:, None]
        tokens = rows + own.reshape(runs, tasks * n, WIDTH)
        seen = _normed(tokens)
        tokens = self._inner(w, "mix", tokens + self._attend(w, "mix", seen, seen, tasks))
        seen = _normed(tokens)
        latents = w["latents"].repeat(1, tasks, 1)
        for block in BLOCKS[1:]:
            latents = self._inner(w, block, latents + self._attend(w, block, _normed(latents), seen, tasks))
        latents = _normed(latents)
        B = (latents @ w["basis"]).view(runs, tasks, -1, n).mT
        return B @ torch.cat([self._clock(w, latents[: self.clocked]), self._states(w, latents[self.clocked :])])

    def _attend(self, w: Weights, block: str, tokens: Tensor, seen: Tensor, tasks: int) -> Tensor:
        """Tokens (runs, tasks * count, d) that look at others of the same task, through one head."""
        asked = (tokens @ (w[f"{block}.Q"] / math.sqrt(WIDTH))).view(self.runs * tasks, -1, WIDTH)
        kept = seen.view(self.runs * tasks, -1, WIDTH)
        found = torch.softmax(asked @ kept.mT, -1) @ kept
        return found.view(self.runs, -1, WIDTH) @ w[f"{block}.P"]

    @staticmethod
    def _inner(w: Weights, block: str, tokens: Tensor) -> Tensor:
        """A residual layer of width 2d."""
        hidden = torch.baddbmm(w[f"{block}.inner bias"], _normed(tokens), w[f"{block}.inner"])
        return tokens + torch.baddbmm(w[f"{block}.outer bias"], functional.gelu(hidden), w[f"{block}.outer"])

    def _clock(self, w: Weights, latents: Tensor) -> Tensor:
        """c_1 .. c_L of the clocked runs, shape (clocked, tasks, m, L)."""
        m = self.latent_count
        if not self.clocked:
            return latents.new_empty(0, latents.shape[1] // m, m, self.depth)
        return torch.baddbmm(w["clock bias"], latents, w["clock"]).view(self.clocked, -1, m, self.depth)

    def _states(self, w: Weights, latents: Tensor) -> Tensor:
        """sum_{j<l} s_j for l = 1 .. L of the time-invariant runs, shape (their number, tasks, m, L)."""
        m, count = self.latent_count, self.runs - self.clocked
        if not count:
            return latents.new_empty(0, latents.shape[1] // m, m, self.depth)
        H = self._step(w, latents)
        states = torch.baddbmm(w["start bias"], latents, w["start"]).view(count, -1, m, 1)
        # s_0 .. s_{L-1} by doubling: the powers H, H^2, H^4, .. each double what is there.
        while states.shape[-1] < self.depth:
            states = torch.cat([states, H @ states], -1)
            H = H @ H
        return states[..., : self.depth].cumsum(-1)

    def _step(self, w: Weights, latents: Tensor) -> Tensor:
        """H of the time-invariant runs, shape (their number, tasks, m, m)."""
        m, count = self.latent_count, self.runs - self.clocked
        pairs = (latents @ (w["pairs"] / WIDTH)).view(count, -1, m, WIDTH) @ latents.view(count, -1, m, WIDTH).mT
        H = pairs + torch.diag_embed(w["decay"])
        return H / H.abs().sum(-1, keepdim=True).clamp(min=1.0)

    @property
    def latent_count(self) -> int:
        """m."""
        return self.weights[self.names.index("latents")].shape[1]


def _normed(tokens: Tensor) -> Tensor:
    return functional.layer_norm(tokens, (WIDTH,))


def parameter_count(model: Bottleneck) -> int:
    """Number of trained numbers of a run (of all its runs together)."""
    return sum(parameter.numel() for parameter in model.parameters())
