"""Token banks: one array per (kind, field), and spans of public indices within a kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .arithmetic import Arithmetic, Array
from .errors import BadInput
from .layout import Size


@dataclass(frozen=True)
class Span:
    """Some tokens of one kind: those with public index in [start, stop); `stop` None means to the end."""

    kind: str
    start: int = 0
    stop: int | None = None

    def __post_init__(self) -> None:
        ends = [self.start] if self.stop is None else [self.start, self.stop]
        if not all(type(end) is int for end in ends) or not 0 <= ends[0] <= ends[-1]:
            raise BadInput(f"span of {self.kind}: expected ints 0 <= start <= stop, found {self.start}:{self.stop}")

    @property
    def whole(self) -> bool:
        """Whether every token of the kind is meant."""
        return self.start == 0 and self.stop is None

    def size(self, count: Size) -> Size:
        """Number of tokens in the span, in a bank of `count`."""
        return count if self.whole else (count if self.stop is None else self.stop) - self.start

    def __str__(self) -> str:
        if self.whole:
            return self.kind
        if self.stop == self.start + 1:
            return f"{self.kind}[{self.start}]"
        return f"{self.kind}[{self.start or ''}:{'' if self.stop is None else self.stop}]"


@dataclass(frozen=True)
class Tokens:
    """All tokens of a sequence, by kind.

    Attributes:
        counts: number of tokens of each kind, in sequence order.
        blocks: array of shape (width of the field, count of the kind) for each (kind, field); a missing one is zero.
    """

    counts: Mapping[str, Size]
    blocks: Mapping[tuple[str, str], Array]

    def count(self, span: Span) -> Size:
        """Number of tokens in a span.

        Raises:
            BadInput: no such kind, or fewer tokens than the span names.
        """
        total = self.total(span.kind)
        if not span.whole and span.stop is not None and span.stop > total:
            raise BadInput(f"tokens: expected at least {span.stop} tokens of kind {span.kind}, found {total}")
        return span.size(total)

    def total(self, kind: str) -> Size:
        """Number of tokens of one kind."""
        try:
            return self.counts[kind]
        except KeyError:
            raise BadInput(f"tokens: expected one of the kinds {', '.join(self.counts)}, found {kind}") from None

    def block(self, span: Span, field: str, arithmetic: Arithmetic) -> Array | None:
        """The columns of a field in a span; None where the block is structurally zero."""
        self.count(span)
        array = self.blocks.get((span.kind, field))
        if array is None or span.whole:
            return array
        stop = self.counts[span.kind] if span.stop is None else span.stop
        return arithmetic.columns(array, span.start, stop)

    def read(self, kind: str, field: str, width: int, arithmetic: Arithmetic) -> Array:
        """A whole block, shape (width, count of the kind), zeros where it is structurally zero.

        Raises:
            BadInput: no such kind.
        """
        count = self.total(kind)
        array = self.blocks.get((kind, field))
        return arithmetic.matrix([[0] * count] * width, (width, count)) if array is None else array

    def replacing(self, blocks: Mapping[tuple[str, str], Array]) -> Tokens:
        """The same tokens with some blocks set."""
        return Tokens(self.counts, {**self.blocks, **blocks})

    def without(self, kind: str) -> Tokens:
        """The tokens of every other kind."""
        self.total(kind)
        return Tokens(
            {k: c for k, c in self.counts.items() if k != kind},
            {key: a for key, a in self.blocks.items() if key[0] != kind},
        )

    def narrowed(self, fields: Iterable[str]) -> Tokens:
        """The same tokens with only the fields named."""
        kept = set(fields)
        return Tokens(self.counts, {key: a for key, a in self.blocks.items() if key[1] in kept})

    def selected(self, kind: str, indices: list[int], arithmetic: Arithmetic) -> Tokens:
        """The same tokens with only some of one kind, renumbered."""
        if len(indices) == self.total(kind):
            return self
        blocks = {
            key: arithmetic.select(a, indices) if key[0] == kind else a
            for key, a in self.blocks.items()
            if indices or key[0] != kind
        }
        return Tokens({**self.counts, kind: len(indices)}, blocks)

    def with_kind(self, kind: str, count: Size, **fields: Any) -> Tokens:
        """The same tokens and, at the end, a new kind with these fields."""
        if kind in self.counts:
            raise BadInput(f"tokens: expected a new kind, found {kind} twice")
        blocks = {(kind, field): array for field, array in fields.items()}
        return Tokens({**self.counts, kind: count}, {**self.blocks, **blocks})
