"""td.bits measured: answers from code words in floats and in Q, and how their length grows.

In Q the bound is that of the code (rounding and tail, `Budget.bound`); in floats it is that of `residual_bound`, from
the values alone. Growth: at a fixed discount the code's length and the packing's log2 along n, L and log 1/e, each
from a regime where it does not limit min{n, L, log 1/e} to one where it does; slopes by least squares on logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.temporal_difference import bits, executor
from numerics.errors import error_against, residual_bound, round_up
from numerics.measurement import Measurement, timed
from numerics.tasks import block_cycle, dirichlet_chain, reversible_chain
from numerics.torch_arithmetic import TorchArithmetic


def measure_word(task: Task, form: bits.Budget, arithmetic: Any, seed: int) -> Measurement:
    """The answers of a task's code word against v_l in Q."""
    built = bits.construction(form)
    values, seconds = timed(arithmetic, lambda: built.outputs(task, arithmetic))
    error = error_against(values, executor.td_values(task, form.depth, RATIONALS))
    if arithmetic is RATIONALS:
        bound, method = round_up(form.bound), "a priori: rounding of the code word, and the tail beyond m"
    else:
        bound, method = max(residual_bound(values, task)), "a posteriori: exact residuals of the iterates"
    return Measurement(
        theorem=bits.THEOREM,
        task=task.name,
        arithmetic=arithmetic.name,
        sizes={**built.sizes, "bits": form.bits},
        error=error,
        reference="TD iterates in Q",
        bound=bound,
        method=method,
        seconds=seconds,
        seed=seed,
        flags=(f"code by {form.kind}", f"e = {form.error}"),
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Both codes at two errors on sampled chains.

    Raises:
        BadInput: an unknown dtype or device.
    """
    tasks = [dirichlet_chain(4, 24, seed=seed)]
    tasks += [block_cycle(seed=seed)] if quick else [block_cycle(seed=seed), reversible_chain(seed=seed)]
    arithmetics = [*(TorchArithmetic(dtype, device) for dtype in dtypes), RATIONALS]
    return [
        measure_word(task, bits.budget(task.n, 30, task.discount, Fraction(1, 2**a)), arithmetic, seed)
        for arithmetic in arithmetics
        for task in tasks
        for a in (6, 20)
    ]


Point = Callable[[int], tuple[int, int, int]]
"""What varies -> (n, L, log2 1/e)."""

REGIMES: tuple[tuple[str, Point, tuple[int, ...], str], ...] = (
    ("n, below L and log 1/e", lambda x: (x, 1024, 128), (4, 8, 16, 32), "2"),
    ("n, above log 1/e", lambda x: (x, 1024, 16), (128, 256, 512, 1024), "1"),
    ("L, below n and log 1/e", lambda x: (1024, x, 128), (4, 8, 16, 32), "1"),
    ("L, above log 1/e", lambda x: (1024, x, 16), (128, 256, 512, 1024), "0"),
    ("log 1/e, below n and L", lambda x: (1024, 1024, x), (16, 32, 64, 128), "2"),
    ("log 1/e, above n", lambda x: (4, 1024, x), (64, 128, 256, 512), "1"),
)
"""What grows, the sizes, and the exponent in n min{n, L, log 1/e} log 1/e."""
DISCOUNT = Fraction(1, 2)
TOLERANCE = 0.3


def reproduce_bits(quick: bool = True, seed: int = 0, device: str = "cpu") -> list[dict[str, Any]]:
    """Exponents of Thm C.1 beside the slopes of the code and of the packing, and their ratio; all counts are exact.

    "Agrees" means within 0.3 of the exponent: at these sizes 1/e enters beside constants and logarithms of n.
    """
    rows = []
    for what, point, sizes, exponent in REGIMES:
        chosen = sizes[:3] if quick else sizes
        points = [point(x) for x in chosen]
        code = [bits.budget(n, depth, DISCOUNT, Fraction(1, 2**a)).bits for n, depth, a in points]
        least = [bits.packing(n, depth, DISCOUNT, Fraction(1, 2**a)).bits for n, depth, a in points]
        for name, counts in (("code", code), ("packing", least)):
            slope = float(np.polyfit(np.log(chosen), np.log(counts), 1)[0])
            agrees = abs(slope - float(exponent)) <= TOLERANCE
            rows.append(
                {
                    "name": "bits",
                    "quantity": f"slope of log bits of the {name} in {what}",
                    "setting": f"g={DISCOUNT}, (n, L, log2 1/e) = {points[0]} .. {points[-1]}, bits {_span(counts)}",
                    "source": exponent,
                    "ours": round(slope, 3) + 0.0,
                    "agrees": agrees,
                    "reason": "" if agrees else "lower-order terms: constants in g, and log n beside log 1/e",
                    "seed": seed,
                }
            )
        ratios = [x / y for x, y in zip(code, least, strict=True)]
        rows.append(
            {
                "name": "bits",
                "quantity": f"bits of the code / bits of the packing, growing {what}",
                "setting": f"g={DISCOUNT}, {len(points)} sizes",
                "source": "none",
                "ours": [round(min(ratios), 3), round(max(ratios), 3)],
                "agrees": None,
                "reason": "the source gives no constants",
                "seed": seed,
            }
        )
    return rows


def _span(counts: Sequence[int]) -> str:
    return f"{counts[0]} .. {counts[-1]}"
