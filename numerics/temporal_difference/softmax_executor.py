"""td.softmax-executor measured: contexts compiled to logarithms exactly, rounded once, then run in every arithmetic.

A score x = log p rounded with unit roundoff u changes p by |x| u relatively, so what counts in a narrow format is how
large the logarithms are: from log delta to log K. float16 ends at 65,504, which a companion's K soon exceeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from constructions.arithmetic import Exact
from constructions.exact import Balls
from constructions.task import Task
from constructions.temporal_difference import softmax_executor
from constructions.temporal_difference.softmax_executor import CONTEXTS, DELTA, PARTS
from numerics.measurement import Measurement
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle, reversible_chain, with_terminal
from numerics.temporal_difference.executor import measure_built
from numerics.temporal_difference.krylov import BALL_BITS, MPMATH_BITS
from numerics.torch_arithmetic import TorchArithmetic

NARROW = "float16"
DELTAS = (Fraction(1), Fraction(1, 16), DELTA, Fraction(1, 2**12), Fraction(1, 2**16))


def score_range(task: Task, depth: int, kind: str, delta: Exact, K: Exact) -> tuple[float, float]:
    """The least and the largest logarithm compiled, over sources, null source and both heads; (0, 0) where k = 0."""
    parts = PARTS[kind](task, depth)
    if parts is None:
        return 0.0, 0.0
    pair = softmax_executor.shares(softmax_executor.changes(parts), delta, K)
    numbers = [Fraction(int(x.p), int(x.q)) for weights in pair for x in weights.entries()]
    return _log(min(numbers)), _log(max(numbers))


def _log(x: Fraction) -> float:
    return math.log(x.numerator) - math.log(x.denominator)


def measure_compiled(
    task: Task, depth: int, kind: str, arithmetic: Any, seed: int, delta: Fraction = DELTA
) -> Measurement:
    """One compiled context on one task in one arithmetic, against TD's iterates in Q."""
    built = softmax_executor.from_context(task.n, depth, task.discount, kind, delta)
    parts = PARTS[kind](task, depth)
    k = 0 if parts is None else parts[1].ncols()
    K = softmax_executor.public_total(kind, task.n, min(task.n, depth), task.discount, delta)
    low, high = score_range(task, depth, kind, delta, K)
    logs, values = softmax_executor.compiled_counts(task.n, k)
    flags = [
        f"{kind} context, delta = {delta}, K = {float(K):.6g}",
        f"{logs} logarithms and {values} values compiled, scores {low:.2f} .. {high:.2f}",
    ]
    return measure_built(built, task, arithmetic, seed, k, flags)


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Both kinds of context on sampled chains, in float16 too; the full run adds other deltas there.

    Raises:
        BadInput: an unknown dtype or device.
    """
    cycle, chain = block_cycle(seed=seed), reversible_chain(seed=seed)
    small = with_terminal(reversible_chain(8, 80, seed=seed), 0.1, seed)
    formats = [TorchArithmetic(dtype, device) for dtype in dict.fromkeys((*dtypes, NARROW))]
    out = [
        measure_compiled(task, 30, kind, arithmetic, seed)
        for task in (cycle, chain)
        for kind in CONTEXTS
        for arithmetic in formats
    ]
    precise: tuple[Any, ...] = (MpmathArithmetic(MPMATH_BITS), Balls(BALL_BITS))
    out += [measure_compiled(small, 12, kind, arithmetic, seed) for kind in CONTEXTS for arithmetic in precise]
    if not quick:
        narrow = TorchArithmetic(NARROW, device)
        out += [
            measure_compiled(task, 30, "balanced", narrow, seed, delta)
            for task in (cycle, chain)
            for delta in DELTAS
            if delta != DELTA
        ]
    return out
