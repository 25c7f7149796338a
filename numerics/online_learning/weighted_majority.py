"""online.weighted-majority measured: the state in number formats, and mistakes beside their bounds.

Measured is S after every round, with strict feedback, in every arithmetic, against balls of 512 bits. Its bound does
not look at the exact state: with computed states S^_t and exact increments D_t = e sum_erred u_i (in Hedge
e sum_i l_i u_i),

    |S^_t - S_t| <= |S^_{t-1} - S_{t-1}| + |S^_t - S^_{t-1} - D_t|,

so the residuals of the rounds, taken exactly and summed, bound the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from flint import arb_mat, fmpq_mat

from constructions.exact import Balls
from constructions.logarithms import Logarithms
from constructions.online_learning import weighted_majority
from constructions.online_learning.experts import Basis, ExpertTask, cayley_basis, one_hot_basis
from constructions.online_learning.hedge import LossTask
from constructions.online_learning.regret import bounds, record
from constructions.online_learning.rounds import OnlineConstruction
from numerics import expert_tasks
from numerics.errors import ErrorFigures, ball_up, error_against, exact_entries, round_up
from numerics.measurement import Measurement, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.torch_arithmetic import TorchArithmetic, parse_device

REFERENCE = Balls(512)
LEAK = Fraction(1, 5)
ROTATED: Basis = cayley_basis([[1, 2, -1, 1], [3, 1, 2], [-2, 1], [1]])[:4]
"""Four orthonormal vectors in Q^5."""
REACHED = 0.95
"""The balanced split must reach this share of the potential bound."""

Row = dict[str, Any]
AdviceTask = ExpertTask | LossTask


def measure_state(built: OnlineConstruction, task: AdviceTask, arithmetic: Any, seed: int) -> Measurement:
    """S after every round, shape (d, T), and how many decisions differ from the exact ones."""
    answer, seconds = timed(arithmetic, lambda: built.outputs(task, arithmetic))
    with REFERENCE.working():
        exact = built.reference(task, REFERENCE)
        d = built.sizes["d"]
        state = REFERENCE.rows(exact, 0, d)
        if isinstance(arithmetic, Logarithms):
            same = bool((answer == built.reference(task, arithmetic)).all())
            error, bound, method = ErrorFigures(0.0 if same else math.inf, 0.0, None), 0.0, "exact"
        else:
            found = arithmetic.rows(answer, 0, d)
            error = error_against(found, state)
            bound, method = _bound(built, task, found, error)
    chosen = f"{built.program.name.rpartition(' ')[2]}, {'unit vectors' if _is_unit(built) else 'rotated basis'}"
    flags = [chosen, *_decisions(built, task, answer, arithmetic), _clean(built, answer, arithmetic)]
    sizes = {**built.sizes, "T": task.rounds}
    reference = "balls of 512 bits"
    return Measurement(
        built.theorem, task.name, arithmetic.name, sizes, error, reference, bound, method, seconds, seed, tuple(flags)
    )


def _is_unit(built: OnlineConstruction) -> bool:
    return built.sizes["n"] == built.sizes["d"]


def _bound(built: OnlineConstruction, task: AdviceTask, found: Any, error: ErrorFigures) -> tuple[float, str]:
    if error.radius is not None:
        return error.radius, "radius of the balls"
    (d, rounds), entries = exact_entries(found)
    if None in entries:
        return math.inf, "values that are not finite"
    computed = fmpq_mat(d, rounds, entries)
    total = _largest(_column(computed, 0) - REFERENCE.rows(built.reference(task.only(0), REFERENCE), 0, d))
    increments = state_increments(built, task)
    for t in range(1, rounds):
        total += _largest(_column(computed, t) - _column(computed, t - 1) - increments[t])
    return round_up(total), "sum of the exact residuals of the rounds"


def state_increments(built: OnlineConstruction, task: AdviceTask) -> list[arb_mat]:
    """D_t in balls: what a round from the initial weights adds."""
    d = built.sizes["d"]
    start = REFERENCE.rows(built.encode(task, REFERENCE).blocks["context", "S"], 0, d)
    return [REFERENCE.rows(built.reference(task.only(t), REFERENCE), 0, d) - start for t in range(task.rounds)]


def _column(matrix: fmpq_mat, t: int) -> arb_mat:
    return arb_mat(fmpq_mat(matrix.nrows(), 1, [matrix[i, t] for i in range(matrix.nrows())]))


def _largest(column: arb_mat) -> Fraction:
    return max(Fraction(ball_up(abs(x))) for x in column.entries())


def _decisions(built: OnlineConstruction, task: AdviceTask, answer: Any, arithmetic: Any) -> list[str]:
    exact = Logarithms()
    right = weighted_majority.decisions(built, built.reference(task, exact), exact)
    if isinstance(arithmetic, Balls):
        return []
    found = weighted_majority.decisions(built, answer, arithmetic)
    different = sum(a != b for a, b in zip(found, right, strict=True))
    return [f"{different} of {task.rounds} decisions differ"]


def _clean(built: OnlineConstruction, answer: Any, arithmetic: Any) -> str:
    start = weighted_majority.first_row(built, "clean I")
    rest = arithmetic.rows(answer, start, arithmetic.shape(answer)[0])
    if isinstance(arithmetic, Logarithms):
        return "clean: exactly" if all(x == 0 for x in rest.ravel()) else "clean: no"
    if isinstance(arithmetic, Balls):
        return "clean: enclosed" if all(x.contains(0) for x in rest.entries()) else "clean: no"
    left = max(abs(x) for x in exact_entries(rest)[1] if x is not None)
    return "clean: exactly" if left == 0 else f"left in cleared fields: {round_up(left):.1e}"


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Every realisation, with unit vectors and in a rotated basis; the first one in mpmath, balls and exactly too.

    Raises:
        BadInput: an unknown dtype or device.
    """
    task = expert_tasks.sampled_experts(4, 40 if quick else 200, "1/10", 3, seed, weighted=True)

    def build(variant: str, basis: Basis) -> OnlineConstruction:
        return weighted_majority.construction(variant, 4, 3, task.eps, leak=LEAK, basis=basis)

    return measure_variants(list(weighted_majority.VARIANTS), build, task, seed, device, dtypes)


def measure_variants(
    variants: Sequence[str],
    build: Callable[[str, Basis], OnlineConstruction],
    task: AdviceTask,
    seed: int,
    device: Any,
    dtypes: Sequence[str],
) -> list[Measurement]:
    """Realisations with four experts, with unit vectors and rotated; the first, rotated, in mpmath, balls and exactly.

    Raises:
        BadInput: an unknown dtype or device.
    """
    runs = [
        measure_state(build(variant, basis), task, TorchArithmetic(dtype, device), seed)
        for variant in variants
        for basis in (one_hot_basis(4), ROTATED)
        for dtype in dtypes
    ]
    first = build(variants[0], ROTATED)
    return runs + [
        measure_state(first, task, exact, seed) for exact in (MpmathArithmetic(113), Balls(256), Logarithms())
    ]


def reproduce_regret(quick: bool = True, seed: int = 0, device: Any = "cpu") -> list[Row]:
    """Mistakes of the program in exact numbers, beside the bounds: keys name, quantity, setting, source, ours, agrees,
    reason, seed. `source` is the bound, or the share of it that the source reaches.

    Raises:
        BadInput: a device that is not there.
    """
    parse_device(device)
    rounds = 60 if quick else 400
    tasks = [
        expert_tasks.sampled_experts(4, rounds, "1/4", seed=seed),
        expert_tasks.against_random_experts(4, rounds, "1/3", seed),
        expert_tasks.opposed_pair(rounds, "1/3", seed),
        expert_tasks.perfect_expert(5, rounds, "1/3", seed),
        expert_tasks.balanced_split(8, 400 if quick else 1200, "1/4", seed),
    ]
    rows: list[Row] = []
    for task in tasks:
        built = weighted_majority.construction("one_block", task.n, 2, task.eps, leak=LEAK)
        found = record(built, task)
        limits = {name: ball_up(limit) for name, limit in bounds(task, found.best).items()}
        kind = task.name.partition(",")[0]
        setting = f"{task.name}; m* = {found.best}; n = {task.n}"

        def add(quantity: str, source: float | None, ours: float, agrees: bool | None, reason: str = "") -> None:
            rows.append(
                {
                    "name": "regret",
                    "quantity": f"{kind}: {quantity}",  # noqa: B023 (called within the iteration)
                    "setting": setting,  # noqa: B023
                    "source": source,
                    "ours": ours,
                    "agrees": agrees,
                    "reason": reason,
                    "seed": seed,
                }
            )

        for name in ("potential", "textbook"):
            add(f"mistakes, {name} bound", limits[name], found.mistakes, found.mistakes <= limits[name])
        chance = float(found.expected)
        add("expected mistakes, randomised bound", limits["randomised"], chance, chance <= limits["randomised"])
        share = found.mistakes / limits["potential"]
        if kind == "balanced split":
            reached = share >= REACHED
            add(
                "mistakes / potential bound", 0.988, share, reached, f"ln n counts less as T grows; {REACHED} is wanted"
            )
        else:
            add("mistakes / potential bound", None, share, None)
    return rows
