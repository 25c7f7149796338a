"""Programs: a layout and a sequence of layers; run block by block, printed, counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .arithmetic import Arithmetic
from .errors import BadInput
from .layers import Head, Layer, LinearAttention, Repeat
from .layout import Layout, Size
from .mlp import Mlp
from .normalised_attention import NormalisedAttention, NormalisedHead
from .parallel import Parallel
from .tokens import Tokens


@dataclass(frozen=True)
class Program:
    """A transformer whose weights are written down.

    `run` and `steps` are the fused evaluation: one array per (kind, field), selectors are names and routes are slices,
    so the cost is that of the algorithm. `constructions.dense` is the faithful one, matrices as stated.

    Attributes:
        name: what it computes.
        layout: the token.
        kinds: the token kinds that its routes speak of.
        layers: in order.
    """

    name: str
    layout: Layout
    kinds: tuple[str, ...]
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        for layer in _written(self.layers):
            if isinstance(layer, Mlp) and layer.layout != self.layout:
                raise BadInput(f"{self.name}, {layer.label}: expected the layout {self.layout}, found {layer.layout}")
        for head in self.heads:
            head.check(self.layout)
            for route in head.routes:
                for span in (route.source, route.target):
                    if span.kind not in self.kinds:
                        raise BadInput(f"{self.name}, head {head}: expected kinds {self.kinds}, found {span.kind}")

    @property
    def width(self) -> Size:
        """Coordinates of a token."""
        return self.layout.width

    @property
    def heads(self) -> list[Head | NormalisedHead]:
        """Every head as written; a repeated layer counts once."""
        layers = [layer for layer in _written(self.layers) if isinstance(layer, LinearAttention | NormalisedAttention)]
        return [head for layer in layers for head in layer.heads]

    @property
    def attention_layers(self) -> Size:
        """Number of attention layers that run, repetitions included."""
        return _count(self.layers)

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        """Run, yielding (label, tokens) after each layer."""
        for layer in self.layers:
            for label, tokens in layer.steps(tokens, arithmetic):  # noqa: B020 (the state is threaded through)
                yield label, tokens

    def run(self, tokens: Tokens, arithmetic: Arithmetic) -> Tokens:
        """Run to the end."""
        for _, tokens in self.steps(tokens, arithmetic):  # noqa: B007, B020
            pass
        return tokens

    def then(self, other: Program, name: str) -> Program:
        """This program, then another whose fields are among this one's."""
        for field in other.layout:
            if self.layout[field] != other.layout[field]:
                raise BadInput(f"{name}: expected equal widths of {field}, found {self.layout} and {other.layout}")
        kinds = self.kinds + tuple(kind for kind in other.kinds if kind not in self.kinds)
        return Program(name, self.layout, kinds, self.layers + other.layers)

    def with_layers(self, layers: Sequence[Layer]) -> Program:
        """The same program with other layers (mutants are made so)."""
        return replace(self, layers=tuple(layers))

    def describe(self) -> str:
        """The program as text, a line per head."""
        lines = [f"{self.name}: token {self.layout}, width {self.width}, {self.attention_layers} attention layers"]
        for layer in self.layers:
            lines += [f"  {label:<22} {line}" for label, line in layer.describe()]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.describe()


def _written(layers: Sequence[Layer]) -> Iterator[Layer]:
    for layer in layers:
        if isinstance(layer, Repeat | Parallel):
            yield from _written(layer.layers)
        else:
            yield layer


def _count(layers: Sequence[Layer]) -> Size:
    total: Size = 0
    for layer in layers:
        if isinstance(layer, Repeat):
            total = total + layer.times * _count(layer.layers)
        elif isinstance(layer, LinearAttention | NormalisedAttention | Parallel):
            total = total + 1
    return total
