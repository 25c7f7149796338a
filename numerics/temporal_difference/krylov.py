"""td.krylov measured: the context Z_0 from float arithmetic, decoded exactly, against the exact TD iterates.

Z_0 is compared through what it decodes to: its entries depend on a basis, the values do not. Decoding is done in Q on
the binary values of Z_0, so the error is the encoder's alone; the bound is that of `residual_bound` on the decoded
values. Float runs get the exact k as their number of rounds: with more rounds than k the last residual is rounding
noise, and dividing by its square ruins everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flint import fmpq_mat

from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.temporal_difference import krylov
from constructions.temporal_difference.executor import td_values
from numerics.errors import error_against, exact_entries, residual_bound
from numerics.measurement import Measurement, precision_of, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle, reversible_chain, with_terminal
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.torch_arithmetic import TorchArithmetic

VARIANTS: tuple[tuple[str, int, bool], ...] = (
    ("one pass", 1, False),
    ("two passes", 2, False),
    ("two passes, balanced", 2, True),
)
"""Name, passes, balanced."""
MPMATH_BITS = 113
BALL_BITS = 256


def exact_matrix(value: Any) -> fmpq_mat | None:
    """A tensor or array of mpf at its binary value; None where an entry is not finite."""
    (rows, columns), entries = exact_entries(value)
    return None if any(x is None for x in entries) else fmpq_mat(rows, columns, entries)


def measure_one(
    task: Task, depth: int, variant: tuple[str, int, bool], arithmetic: Any, seed: int, rounds: int | None = None
) -> Measurement:
    """The encoder on one task in one arithmetic; `rounds` None means the exact k, and 1 where k = 0."""
    name, passes, balanced = variant
    k = krylov_dimension(task, depth, seed).value
    rounds = max(k, 1) if rounds is None else rounds
    built = krylov.construction(task.n, depth, passes=passes, balanced=balanced, rounds=rounds)
    context, seconds = timed(arithmetic, lambda: built.outputs(task, arithmetic))
    exact = td_values(task, depth, RATIONALS)
    flags = [name]
    kept = 0 if context is None else int(arithmetic.shape(context)[1])
    if kept != k:
        flags.append(f"gate kept {kept} tokens, exact k = {k}")
    method = "a posteriori: exact residuals of the decoded iterates"
    if isinstance(arithmetic, Balls):
        with precision_of(arithmetic):
            error = error_against(krylov.decoded_values(context, task.n, depth, arithmetic), exact)
        bound, method = error.radius, "radii of the balls, entry by entry"
    else:
        if context is not None and not isinstance(context, fmpq_mat):
            context = exact_matrix(context)
            if context is None:
                flags.append("the context is not finite")
        if "the context is not finite" in flags:
            values: Any = [[float("nan")] * task.n] * (depth + 1)
        else:
            values = krylov.decoded_values(context, task.n, depth, RATIONALS)
        error = error_against(values, exact)
        bound = max(residual_bound(values, task))
    assert bound is not None
    return Measurement(
        theorem=krylov.THEOREM,
        task=task.name,
        arithmetic=arithmetic.name,
        sizes={"n": task.n, "N": task.transitions, "L": depth, "h": rounds, "k": k, "passes": passes},
        error=error,
        reference="TD iterates in Q",
        bound=bound,
        method=method,
        seconds=seconds,
        seed=seed,
        flags=tuple(flags),
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """The encoder on sampled chains in floats, mpmath, balls and Q; every variant in floats.

    Raises:
        BadInput: an unknown dtype or device.
    """
    n, transitions = (12, 120) if quick else (24, 480)
    cycle = block_cycle(n, 6, transitions, seed=seed)
    chain = with_terminal(reversible_chain(8, 80, seed=seed), 0.1, seed)
    large = [block_cycle(seed=seed), reversible_chain(seed=seed)]
    out = [
        measure_one(task, 30, variant, TorchArithmetic(dtype, device), seed)
        for dtype in dtypes
        for task in (large[:1] if quick else large)
        for variant in VARIANTS
    ]
    for task in (cycle, chain):
        out += [measure_one(task, 12, VARIANTS[2], arithmetic, seed) for arithmetic in _precise()]
        out.append(measure_one(task, 12, VARIANTS[0], RATIONALS, seed))
    return out


def _precise() -> tuple[Any, ...]:
    return MpmathArithmetic(MPMATH_BITS), Balls(BALL_BITS)
