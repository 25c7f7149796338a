"""Programs that run once a round and are fed with their own last hidden vectors (theory B0).

Feedback is strict: the whole hidden vector of the last tokens, every field of it, plus the type embedding of a context
token, is the context of the next round. What a program leaves in other fields comes back, so each has to be cleaned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..arithmetic import Arithmetic, Array
from ..construction import Construction
from ..dense import dense_steps
from ..layout import Layout
from ..task import AnyTask
from ..tokens import Tokens

Context = Mapping[str, Array]
"""The context tokens by field, every field of the layout present."""


@dataclass(frozen=True)
class Round:
    """How a round begins and ends.

    Attributes:
        begin: (task, arithmetic) -> the context of the first round.
        enter: (task, round, context, arithmetic) -> the tokens of a round.
        fed: the kind whose hidden vectors are the next context.
        flag: the field that holds the type embedding of a context token.
        count: task -> number of rounds.
        embedding: the type embeddings, shape (width of the flag, context tokens); ones where None.
    """

    begin: Callable[[Any, Arithmetic], Context]
    enter: Callable[[Any, int, Context, Arithmetic], Tokens]
    fed: str
    flag: str
    count: Callable[[Any], int]
    embedding: Callable[[Arithmetic], Array] | None = None


@dataclass(frozen=True)
class OnlineConstruction(Construction):
    """A construction whose program is that of one round; `decode` reads a round, its answers stand side by side."""

    round: Round | None = None

    def outputs(self, task: AnyTask, arithmetic: Arithmetic, *, faithful: bool = False) -> Array:
        """The answers of all rounds, one column each.

        Raises:
            BadInput: the task is not in the class or does not fit the construction.
        """
        self.task_class.require(task)
        answers = [self.decode(steps, arithmetic) for steps in self.runs(task, arithmetic, faithful=faithful)]
        return answers[0] if len(answers) == 1 else arithmetic.stack([answers])

    def runs(
        self, task: AnyTask, arithmetic: Arithmetic, *, faithful: bool = False
    ) -> Iterator[list[tuple[str, Tokens]]]:
        """The steps of each round, each fed with the last hidden vectors of the one before."""
        assert self.round is not None
        context = self.round.begin(task, arithmetic)
        for t in range(self.round.count(task)):
            tokens = self.round.enter(task, t, context, arithmetic)
            run = dense_steps if faithful else type(self.program).steps
            steps = list(run(self.program, tokens, arithmetic))
            yield steps
            context = self.fed_back(steps[-1][1], arithmetic)

    def fed_back(self, tokens: Tokens, arithmetic: Arithmetic) -> Context:
        """The next context: all last hidden vectors, plus the type embedding."""
        assert self.round is not None
        fields = hidden(tokens, self.round.fed, self.program.layout, arithmetic)
        if self.round.embedding is not None:
            embedding = self.round.embedding(arithmetic)
        else:
            embedding = arithmetic.matrix([[1] * tokens.total(self.round.fed)])
        return {**fields, self.round.flag: arithmetic.add(fields[self.round.flag], embedding)}


def hidden(tokens: Tokens, kind: str, layout: Layout, arithmetic: Arithmetic) -> Context:
    """The whole hidden vectors of a kind, by field."""
    return {field: tokens.read(kind, field, layout[field], arithmetic) for field in layout}


def blank_context(layout: Layout, count: int, arithmetic: Arithmetic, **fields: Array) -> Context:
    """Context tokens that are zero but for the fields given."""
    zeros = {field: arithmetic.matrix([[0] * count] * width, (width, count)) for field, width in layout.widths.items()}
    return {**zeros, **fields}
