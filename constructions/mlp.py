"""The token-wise ReLU block: u+ = u + V relu(W u) for every token, W and V public.

Hidden units come in named groups, and a group reads and writes whole fields:

    h = relu(sum over reads of W_f u_f),      u_f += V_f h for every write.

There is no bias of its own: the weight of a flag (a field that is 1 in the tokens of one type) is a bias for that type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

from .arithmetic import Arithmetic, Array, Exact
from .errors import BadInput
from .layers import Public, added, labelled
from .layout import Layout, Size
from .normalised_attention import scaled
from .tokens import Span, Tokens


@dataclass(frozen=True)
class Map:
    """A field and the matrix between it and a group of hidden units: W of shape (units, width of the field) where it is
    read, V of shape (width of the field, units) where it is written; c times the identity where `weight` is None."""

    field: str
    weight: Public | None = None
    scale: Exact | sp.Expr = 1

    def __str__(self) -> str:
        factor = {"1": "", "-1": "-"}.get(str(self.scale), f"{self.scale} ")
        return f"{factor}{'' if self.weight is None else f'{self.weight} '}{self.field}"


@dataclass(frozen=True)
class Units:
    """A group of hidden units: what they read and what they write."""

    units: Size
    reads: tuple[Map, ...]
    writes: tuple[Map, ...]

    def __str__(self) -> str:
        return f"relu({' + '.join(map(str, self.reads))}) to {', '.join(map(str, self.writes))}"


@dataclass(frozen=True)
class Mlp:
    """A ReLU block on every token, of whatever kind."""

    layout: Layout
    groups: tuple[Units, ...]
    label: str = ""

    def __post_init__(self) -> None:
        for group in self.groups:
            for part in (*group.reads, *group.writes):
                if part.weight is None and self.layout[part.field] != group.units:
                    found = f"{part.field}:{self.layout[part.field]} and {group.units} units"
                    raise BadInput(f"units {group}: expected equal widths without a weight, found {found}")

    @property
    def hidden(self) -> Size:
        """Number of hidden units."""
        return sum(group.units for group in self.groups)

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        deltas = [
            (Span(kind), part.field, self._written(group, part, hidden, arithmetic))
            for kind in tokens.counts
            for group in self.groups
            if (hidden := self._hidden(group, kind, tokens, arithmetic)) is not None
            for part in group.writes
        ]
        yield self.label, added(tokens, deltas, arithmetic)

    def _hidden(self, group: Units, kind: str, tokens: Tokens, arithmetic: Arithmetic) -> Array | None:
        """relu(W u) of one group for all tokens of a kind; None where W u is structurally zero."""
        total = None
        for part in group.reads:
            value = tokens.blocks.get((kind, part.field))
            if value is None:
                continue
            value = self._mapped(part, (group.units, self.layout[part.field]), value, arithmetic)
            total = value if total is None else arithmetic.add(total, value)
        return None if total is None else arithmetic.relu(total)

    def _written(self, group: Units, part: Map, hidden: Array, arithmetic: Arithmetic) -> Array:
        return self._mapped(part, (self.layout[part.field], group.units), hidden, arithmetic)

    @staticmethod
    def _mapped(part: Map, shape: tuple[Size, Size], value: Array, arithmetic: Arithmetic) -> Array:
        if part.weight is not None:
            value = arithmetic.matmul(part.weight.array(*shape, arithmetic), value)
        return value if part.scale == 1 else scaled(value, part.scale, arithmetic)

    def describe(self) -> list[tuple[str, str]]:
        """(label, text) a line."""
        return labelled(self.label, [str(group) for group in self.groups])
