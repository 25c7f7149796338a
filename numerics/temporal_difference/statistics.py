"""td.statistics measured: stage 1 in every arithmetic against the exact direct count, under an a-priori bound.

Bound. Let u be the unit roundoff, gamma_m = m u / (1 - m u), and m_i = 0 if N_i <= 2^p (p bits of significand: counts
are then sums of exact integers), else N_i - 1. Raw tokens of other states contribute products with an exact zero, and
adding zero is exact, so that for any order of summation over all N tokens:

    z_ij, c_i   relative error gamma_{m_i};
    y_ij = z_ij (c_i g): reciprocal, g rounded once, two products: 4 roundings; with the quotient of two sums this is
                relative error gamma_{3 m_i + 4}  (Higham 2002, lemma 3.3: a quotient theta_a / theta_b costs a + 2b);
    r_i = q_i c_i: rewards rounded once, N_i - 1 additions, reciprocal, product: N_i + 2 roundings, and m_i as above:
                absolute error gamma_{N_i + 2 + 2 m_i} sum |R_t| / N_i.

Formats narrower than float32 are computed by torch in float32 and rounded again, so each rounding counts twice there.
Underflow adds at most (N_i + 2) times the smallest subnormal number. Not covered: matrix products in reduced precision
(TF32 and the like), for which the bound is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.temporal_difference import statistics
from numerics.errors import error_against, round_up
from numerics.measurement import Measurement, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.tasks import block_cycle, reversible_chain, with_terminal
from numerics.torch_arithmetic import TorchArithmetic

MPMATH_BITS = 113
BALL_BITS = 256


def a_priori_bound(task: Task, arithmetic: Any) -> list[Fraction | float]:
    """A bound for every entry of [A'; r'], row-major, shape (n + 1, n), in an arithmetic that rounds to nearest.

    Zero for Q; infinite where u is too large for the number of visits, or products are in reduced precision.
    """
    n = task.n
    if arithmetic is RATIONALS:
        return [Fraction(0)] * ((n + 1) * n)
    precision, unit, smallest, repeats = _model(arithmetic)
    visits = task.visits.tolist()
    counting = [0 if v <= 2**precision else v - 1 for v in visits]
    magnitudes = _reward_magnitudes(task)
    if unit is None:
        return [math.inf] * ((n + 1) * n)
    row_factors = [_gamma(repeats * (3 * m + 4), unit) for m in counting]
    reward_factors = [_gamma(repeats * (v + 2 + 2 * m), unit) for v, m in zip(visits, counting, strict=True)]
    underflow = [(v + 2) * smallest for v in visits]
    out: list[Fraction | float] = []
    for j in range(n):
        for i in range(n):
            entry = task.discount * Fraction(int(task.counts[i, j]), visits[i])
            # A count that is zero stays an exact zero.
            out.append(_times(row_factors[i], entry, underflow[i]) if entry else Fraction(0))
    out += [_times(reward_factors[i], magnitudes[i] / visits[i], underflow[i]) for i in range(n)]
    return out


def _times(factor: Fraction | None, size: Fraction, more: Fraction) -> Fraction | float:
    return math.inf if factor is None else factor * size + more


def _gamma(m: int, unit: Fraction) -> Fraction | None:
    return m * unit / (1 - m * unit) if m * unit < 1 else None


def _model(arithmetic: Any) -> tuple[int, Fraction | None, Fraction, int]:
    """Bits, unit roundoff (None: no bound), smallest number, roundings per operation."""
    if isinstance(arithmetic, MpmathArithmetic):
        return arithmetic.bits, arithmetic.unit_roundoff, Fraction(0), 1
    form = arithmetic.format
    repeats = 1 if form.precision >= 24 else 2
    unit = None if form.precision <= 24 and reduced_products(arithmetic) else form.unit_roundoff
    return form.precision, unit, form.smallest, repeats


def reduced_products(arithmetic: TorchArithmetic) -> bool:
    """Whether torch is set to multiply float32 matrices in a narrower format on this device."""
    import torch

    if torch.get_float32_matmul_precision() != "highest":
        return True
    return arithmetic.device.type == "cuda" and torch.backends.cuda.matmul.allow_tf32


def _reward_magnitudes(task: Task) -> list[Fraction]:
    """sum |R_t| over the transitions from each state."""
    sums = [Fraction(0)] * task.n
    values, inverse = np.unique(task.rewards, return_inverse=True)
    pairs, times = np.unique(task.states.astype(np.int64) * len(values) + inverse, return_counts=True)
    exact = [abs(Fraction(x)) for x in values.tolist()]
    for pair, count in zip(pairs.tolist(), times.tolist(), strict=True):
        state, value = divmod(pair, len(values))
        sums[state] += exact[value] * count
    return sums


def measure_one(task: Task, arithmetic: Any, seed: int) -> Measurement:
    """Stage 1 on one task in one arithmetic, against the direct count in Q."""
    built = statistics.construction(task.n)
    value, seconds = timed(arithmetic, lambda: built.outputs(task, arithmetic))
    exact = statistics.counted_statistics(task, RATIONALS)
    if isinstance(arithmetic, Balls):
        error = error_against(value, exact)
        bound, method = error.radius, "radii of the balls, entry by entry"
    else:
        allowance = a_priori_bound(task, arithmetic)
        error = error_against(value, exact, allowance)
        bound, method = max(round_up(x) if isinstance(x, Fraction) else x for x in allowance), "a priori"
    assert bound is not None
    return Measurement(
        theorem=statistics.THEOREM,
        task=task.name,
        arithmetic=arithmetic.name,
        sizes={"n": task.n, "N": task.transitions},
        error=error,
        reference="direct count in Q",
        bound=bound,
        method=method,
        seconds=seconds,
        seed=seed,
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Stage 1 on a block cycle, a reversible chain and one with terminal successors, in every arithmetic.

    Raises:
        BadInput: an unknown dtype or device.
    """
    n, transitions = (12, 240) if quick else (24, 960)
    small = [
        block_cycle(n, 6, transitions, seed=seed),
        with_terminal(reversible_chain(n, transitions, seed=seed), 0.1, seed),
    ]
    large = [block_cycle(seed=seed), reversible_chain(seed=seed)]
    out = [measure_one(task, TorchArithmetic(dtype, device), seed) for dtype in dtypes for task in small + large]
    for arithmetic in (MpmathArithmetic(MPMATH_BITS), Balls(BALL_BITS), RATIONALS):
        out += [measure_one(task, arithmetic, seed) for task in small]
    return out
