"""A construction: a program, how a task enters it, how its answer is read, and the algorithm that it must equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .arithmetic import Arithmetic, Array
from .dense import dense_steps
from .errors import BadInput
from .layout import Size
from .program import Program
from .task import AnyTask, TaskClass
from .tokens import Tokens

Steps = Iterable[tuple[str, Tokens]]


@dataclass(frozen=True)
class Reading:
    """An answer of one row a step: sign times a one-coordinate field of a kind, after every layer of that label.

    The first row, depth 0, is zero.
    """

    label: str
    kind: str
    field: str
    sign: int = 1

    def rows(self, steps: Steps, count: int, arithmetic: Arithmetic) -> Array:
        """Shape (number of such layers + 1, count)."""
        rows = [arithmetic.matrix([[0] * count])]
        for label, tokens in steps:
            if label == self.label or label.startswith(f"{self.label} "):
                row = tokens.read(self.kind, self.field, 1, arithmetic)
                rows.append(arithmetic.negate(row) if self.sign < 0 else row)
        return arithmetic.stack([[row] for row in rows])


@dataclass(frozen=True)
class Construction:
    """One explicit construction at given sizes.

    Attributes:
        theorem: id, wing.module with hyphens.
        sizes: the sizes it was built for, by their letters in the theory.
        program: the exact weights.
        encode: task -> tokens.
        decode: (label, tokens) after each layer -> the answer, one array.
        reference: the classical algorithm over the same arithmetic; same shape as the answer.
        task_class: which tasks it is stated for.
        assumptions: what is taken as given: declared primitives, public quantities.
        answer: the blocks of the answer's rows, as (name, height), for messages.
        source: theorem number and origin.
        reads: how `decode` reads the tokens, where it can be said as data; None elsewhere.
        algorithm: the name of `reference`, for those who check it again: "td" is v_{l+1} = r + A v_l on counted logs.
    """

    theorem: str
    sizes: Mapping[str, Size]
    program: Program
    encode: Callable[[Any, Arithmetic], Tokens]
    decode: Callable[[Steps, Arithmetic], Array]
    reference: Callable[[Any, Arithmetic], Array]
    task_class: TaskClass
    assumptions: tuple[str, ...]
    answer: tuple[tuple[str, int], ...]
    source: str
    reads: Reading | None = None
    algorithm: str = ""

    def block_of(self, row: int) -> tuple[str, int]:
        """The block that a row of the answer lies in, and its index there."""
        for name, height in self.answer:
            if row < height:
                return name, row
            row -= height
        return "beyond the answer", row

    def outputs(self, task: AnyTask, arithmetic: Arithmetic, *, faithful: bool = False) -> Array:
        """The program's answer on a task: fused evaluation, or (faithful) whole matrices.

        Raises:
            BadInput: the task is not in the class, or has another number of states than the construction.
        """
        self.task_class.require(task)
        tokens = self.encode(task, arithmetic)
        run = dense_steps(self.program, tokens, arithmetic) if faithful else self.program.steps(tokens, arithmetic)
        return self.decode(run, arithmetic)


def last(steps: Steps) -> Tokens:
    """The tokens after the last layer.

    Raises:
        BadInput: a program without layers.
    """
    tokens = None
    for _, tokens in steps:  # noqa: B007
        pass
    if tokens is None:
        raise BadInput("program: expected at least one layer, found none")
    return tokens
