"""Attention layers side by side: linear, softmax and hardmax heads that read the same input form one layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .arithmetic import Arithmetic
from .layers import LinearAttention, added, labelled
from .normalised_attention import NormalisedAttention
from .tokens import Tokens


@dataclass(frozen=True)
class Parallel:
    """One attention layer with heads of several kinds; the outputs of all are added to its input."""

    layers: tuple[LinearAttention | NormalisedAttention, ...]
    label: str = ""

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        deltas = [delta for layer in self.layers for delta in layer.deltas(tokens, arithmetic)]
        yield self.label, added(tokens, deltas, arithmetic)

    def describe(self) -> list[tuple[str, str]]:
        """(label, text) a line."""
        return labelled(self.label, [text for layer in self.layers for _, text in layer.describe()])
