"""Runs that count: what a built program keeps when its encoder has ended, and the most it holds on the way (Def. 4.2).

Raw tokens stream through stage 1 in batches, since the heads of its first layer are sums over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from constructions.arithmetic import Array
from constructions.construction import Construction, Steps
from constructions.program import Program
from constructions.task import Task
from constructions.temporal_difference import executor, krylov, linear_features
from constructions.temporal_difference.tokens import raw_blocks, with_states
from constructions.tokens import Tokens
from numerics.mountain_car import TileLog
from numerics.torch_arithmetic import TorchArithmetic

BATCH = 20_000
"""Raw tokens at a time."""

Batches = Iterable[tuple[int, dict[str, Array]]]


@dataclass
class Run:
    """What a program kept and needed while it ran.

    Attributes:
        retained: entries of the sources when the encoder has ended.
        query: entries of one query column of the executor.
        peak: the most entries that state, slot and source tokens hold after a layer, and that column.
        vectors: tokens kept.
        values: the answer.
    """

    retained: int = 0
    query: int = 0
    peak: int = 0
    vectors: int = 0
    values: Any = field(default=None, repr=False)

    @property
    def kept(self) -> int:
        """The context and the column of one query."""
        return self.retained + self.query


def run(built: Construction, tokens: Tokens, batches: Batches, arithmetic: TorchArithmetic) -> Run:
    """Run encoder and executor on the tokens, raw ones in batches, and count what is there after each layer."""
    result = Run()

    def counted(steps: Steps) -> Steps:
        for label, after in steps:
            held = {key: _entries(block, arithmetic) for key, block in after.blocks.items()}
            work = sum(size for (kind, _), size in held.items() if kind not in ("raw", "query"))
            result.peak = max(result.peak, work)
            if label == "forget workspace":
                result.vectors = int(after.total("source"))
                result.retained = krylov.registers(after, arithmetic)
                result.query = result.retained // result.vectors
            yield label, after

    result.values = built.decode(counted(streamed(built.program, tokens, batches, arithmetic)), arithmetic)
    result.peak += result.query
    return result


def streamed(program: Program, tokens: Tokens, batches: Batches, arithmetic: TorchArithmetic) -> Iterator[Any]:
    """(label, tokens) after each layer; the first layer, whose heads add up over raw tokens, takes them in batches."""
    first, *rest = program.layers
    for count, blocks in batches:
        tokens = tokens.without("raw") if "raw" in tokens.counts else tokens
        for label, tokens in first.steps(tokens.with_kind("raw", count, **blocks), arithmetic):  # noqa: B020
            yield label, tokens
    yield from program.with_layers(rest).steps(tokens, arithmetic)


def _entries(block: Array, arithmetic: TorchArithmetic) -> int:
    rows, columns = arithmetic.shape(block)
    return int(rows * columns)


def run_task(task: Task, depth: int, m: int, arithmetic: TorchArithmetic) -> Run:
    """Encoder with m rounds and executor on a tabular log, queried at every state."""
    built = executor.construction(task.n, depth, passes=2, balanced=True, rounds=m)
    tokens = with_states(Tokens({}, {}), task.n, arithmetic, m, gam=task.discount)
    tokens = tokens.with_kind("query", task.n, x=arithmetic.one_hot(range(task.n), task.n))
    spans = [(start, min(start + BATCH, task.transitions)) for start in range(0, task.transitions, BATCH)]
    batches = ((stop - start, raw_blocks(task, arithmetic, start, stop)) for start, stop in spans)
    return run(built, tokens, batches, arithmetic)


def run_car(log: TileLog, step: Fraction, depth: int, m: int, arithmetic: TorchArithmetic) -> Run:
    """Encoder with m rounds and executor on a tile log, queried at every phi that was visited."""
    import torch

    def columns(matrix: Any) -> Array:
        return torch.as_tensor(matrix.toarray().T, dtype=arithmetic.dtype, device=arithmetic.device)

    def batches() -> Batches:
        for start in range(0, log.transitions, BATCH):
            before, after = log.rows(start, start + BATCH)
            count = before.shape[0]
            yield count, {"x": columns(before), "y": columns(after), "r": arithmetic.matrix([[-1] * count])}

    built = linear_features.construction(log.d, depth, passes=2, balanced=True, rounds=m)
    tokens = with_states(Tokens({}, {}), log.d, arithmetic, m, gam=log.discount, alp=step)
    queries = np.zeros((log.d, len(log.visited)))
    np.put_along_axis(queries, log.visited.T, 1.0, axis=0)
    column = torch.as_tensor(queries, dtype=arithmetic.dtype, device=arithmetic.device)
    return run(built, tokens.with_kind("query", queries.shape[1], x=column), batches(), arithmetic)
