"""Reproduces the source's memory table (theory A9): six logs, what each way of keeping them costs, what ours reaches.

Every figure is a count of real arrays: the dense statistics, the CSR matrix and vectors of sparse TD, the blocks that
stay in the source tokens of the built program when its encoder has ended, with the column of one query. One register is
one float32: 1 KiB is 256 of them. "Peak" is the largest number of entries that state, slot and source tokens hold at
once while the program runs, and one query; raw tokens stream through stage 1 in batches, since its heads are sums over
them. Programs run in float64, balanced, two passes, with as many rounds as there are vectors kept.

Where the Krylov dimension k is small enough to be kept, m = k, decided exactly. Else the first m rounds keep a Krylov
projection, m the least with an error of at most 1e-2, and the exact k stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from constructions.task import Task
from constructions.temporal_difference import linear_features
from constructions.temporal_difference.linear_features import BatchTask
from numerics import feature_tasks
from numerics.environment_tasks import drift_kernel, goal_gridworld
from numerics.errors import error_against
from numerics.mountain_car import TileLog, environment, mountain_car
from numerics.tasks import block_cycle
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.executor import reference_values
from numerics.temporal_difference.full_context import exact_predictions
from numerics.temporal_difference.linear_features import dimension, tile_dimension
from numerics.temporal_difference.projection import arnoldi, compress, iterates
from numerics.temporal_difference.registers import kib, sparse_model
from numerics.temporal_difference.retained import Run, run, run_car, run_task
from numerics.torch_arithmetic import TorchArithmetic

ERROR = 1e-2
"""What a projection may err by, absolute, over depths and states."""
LARGEST = 60
"""Where the search for m stops."""
CAR_STEP, CAR_DEPTH = 2, 500
"""The step as a multiple of 1/N, and L: the setting of mountain car's headline."""
CAR_STEPS, CAR_DEPTHS = (1, 2, 4, 8), (100, 500, 2000)
GRID_DEPTH = 500

Row = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """The source's figures for one log in KiB, as printed; None where it has none."""

    name: str
    statistics: str
    sparse: str | None
    ours: str
    peak: str | None
    m: str


SMALL_CYCLE = Source("block cycle, n=24", "2.44", ".75", "2.49", "37.5", "12")
LARGE_CYCLE = Source("block cycle, n=480", "903.8", "102.2", "48.8", "10822.5", "12")
BOYAN = Source("Boyan chain, d=4", ".08", None, ".18", "1.1", "4")
CAR = Source("mountain car", "799.8", None, "116.7", "9226", "32")
DRIFT = Source("dense drift kernel, n=200", "157.8", "139.0", "15.7", None, "9")
GRID = Source("goal gridworld, n=126", "63.0", "5.7", "38.5", None, "38")
CAR_FEATURES = 452
"""d that the source's figures for mountain car follow from; 417..452 features occur in its logs."""


def close(source: str, ours: float) -> bool:
    """Within 1%, or equal to as many digits as the source prints."""
    digits = len(source.partition(".")[2])
    return abs(ours - float(source)) <= 0.01 * float(source) or round(ours, digits) == float(source)


class _Table:
    """Rows of one log."""

    def __init__(self, source: Source, setting: str, seed: int) -> None:
        self.source, self.setting, self.seed = source, setting, seed
        self.rows: list[Row] = []

    def add(self, quantity: str, source: str, ours: Any, reason: str = "") -> None:
        """A figure; a reason says why it does not agree."""
        row = {"name": self.source.name, "quantity": quantity, "setting": self.setting, "source": source, "ours": ours}
        self.rows.append({**row, "agrees": not reason, "reason": reason, "seed": self.seed})

    def count(self, what: str, source: str | None, registers: int, reason: str = "counted otherwise") -> None:
        """A count in KiB beside the source's; `reason` explains one that differs."""
        ours = round(kib(registers), 3)
        agrees = source is None or close(source, ours)
        self.add(f"{what}, KiB ({registers:,} registers)", source or "not given", ours, "" if agrees else reason)

    def peak(self, result: Run) -> None:
        """Smaller is better."""
        ours, source = round(kib(result.peak), 2), self.source.peak
        why = "our workspace is larger here" if source is not None and ours > float(source) else ""
        self.add("peak of our run, at most the source's, KiB", source or "not given", ours, why)

    def kept(self, result: Run) -> None:
        """The context with a query as built, for the number of vectors that the source keeps."""
        self.count(f"ours: context of m = {result.vectors} and a query", self.source.ours, result.kept)
        self.peak(result)


def numerical_rank(values: NDArray[np.float64]) -> int:
    """Singular values of the table of iterates above 1e-2 of the largest."""
    singular = np.linalg.svd(values, compute_uv=False)
    return int((singular > 1e-2 * singular[0]).sum())


def tabular(source: Source, task: Task, depth: int, seed: int, arithmetic: TorchArithmetic) -> list[Row]:
    """All rows of a tabular log; m is k where that is what the source keeps, else the least that errs by 1e-2."""
    table = _Table(source, f"{task.name}, L={depth}", seed)
    A, r = sparse_model(task)
    k = krylov_dimension(task, depth, seed)
    values = iterates(A, r, depth)
    table.count("statistics: P, r and v, dense", source.statistics, task.counts.size + r.size + values[0].size)
    why = f"{A.nnz / task.n:.2f} successors a state occur in this log, another sample of the walk than the source's"
    csr = A.data.size + A.indices.size + A.indptr.size
    table.count("sparse TD: A as CSR, r, v and v+", source.sparse, csr + 3 * r.size, why)
    exact, reference = reference_values(task, depth)
    dimensions = (
        f"exact Krylov dimension {k.value} ({k.method}), numerical rank of the iterates {numerical_rank(values)}"
    )
    if k.value == int(source.m):
        result = run_task(task, depth, k.value, arithmetic)
        table.kept(result)
        table.add(f"vectors kept m; {dimensions}", source.m, result.vectors)
        error = error_against(result.values, exact).absolute
        table.add(f"absolute error at m, against {reference}", "exact context", error)
        return table.rows
    errors = compress(A, r, depth, min(LARGEST, k.value)).projection
    m = int(np.argmax(errors <= ERROR))
    result = run_task(task, depth, m, arithmetic)
    table.kept(result if str(m) == source.m else run_task(task, depth, int(source.m), arithmetic))
    off = "" if str(m) == source.m else "it depends on the sample: other seeds give others, see the full profile"
    table.add(f"least m with absolute error <= {ERROR}; {dimensions}", source.m, m, off)
    error = error_against(result.values, exact).absolute
    late = "" if error <= ERROR else "the built run errs by more than the search promised"
    table.add(f"absolute error of the built run at m = {m}, against {reference}", "<= 1e-2", error, late)
    return table.rows


def grid_dimensions(seeds: range) -> list[Row]:
    """The least m of several gridworlds."""
    found = []
    for seed in seeds:
        A, r = sparse_model(goal_gridworld(seed=seed))
        found.append(int(np.argmax(compress(A, r, GRID_DEPTH, LARGEST).projection <= ERROR)))
    table = _Table(GRID, f"9x14, N=1173, L={GRID_DEPTH}, seeds {seeds.start}..{seeds.stop - 1}", seeds.start)
    why = "" if min(found) <= int(GRID.m) <= max(found) else "the source's lies outside of what these seeds give"
    quantity = f"least m with absolute error <= {ERROR}, over seeds: {', '.join(map(str, found))}"
    table.add(quantity, GRID.m, f"{min(found)}..{max(found)}", why)
    return table.rows


def boyan(seed: int, arithmetic: TorchArithmetic, transitions: int = 20_000, depth: int = 30) -> list[Row]:
    """The classic Boyan chain, discount 1, step 1/N."""
    log = feature_tasks.boyan_chain(transitions, 1, seed)
    task = BatchTask(log, Fraction(1, transitions))
    k = dimension(task, depth)
    built = linear_features.construction(task.n, depth, passes=2, balanced=True, rounds=k)
    tokens = linear_features.encode(task, arithmetic, task.n, k, queries=True)
    raw = {name: block for (kind, name), block in tokens.blocks.items() if kind == "raw"}
    result = run(built, tokens.without("raw"), [(transitions, raw)], arithmetic)
    table = _Table(BOYAN, f"{task.name}, L={depth}", seed)
    table.count("statistics: A_N and b_N, dense", BOYAN.statistics, sum(len(x.entries()) for x in task.moments))
    table.kept(result)
    exact = exact_predictions("td", log, [linear_features.step_matrix(task)] * depth, Fraction(0))
    table.add("vectors kept m = k, decided in Q", BOYAN.m, result.vectors)
    error = error_against(result.values, exact).relative
    table.add("relative error at m, against batch TD in Q", "exact context", error)
    return table.rows


def car_errors(
    log: TileLog, step: Fraction, m: int, depths: tuple[int, ...]
) -> tuple[dict[int, float], NDArray[np.float64]]:
    """Value-relative error of m Arnoldi vectors up to each depth, float64; and every tenth iterate up to L = 500.

    The error is the largest |phi'(w_l - w^_l)| over the phi visited and l <= L, divided by the largest |phi'w_l|.
    """
    M, s_0 = log.batch_td(step)
    W, H, length = arnoldi(M, s_0, m)
    w, c = np.zeros(log.d), np.zeros(m)
    gap = scale = 0.0
    out, snapshots = {}, []
    for depth in range(1, max(depths) + 1):
        w, c = s_0 + M @ w, H @ c
        c[0] += length
        values = log.values(w)
        gap = max(gap, float(np.abs(values - log.values(W @ c)).max()))
        scale = max(scale, float(np.abs(values).max()))
        if depth <= CAR_DEPTH and depth % 10 == 0:
            snapshots.append(values)
        if depth in depths:
            out[depth] = gap / scale
    return out, np.array(snapshots)


def built_error(log: TileLog, step: Fraction, predictions: NDArray[np.float64]) -> float:
    """Of a program's predictions, rows l = 0..L, against float64 iterates; relative as in `car_errors`."""
    M, s_0 = log.batch_td(step)
    w = np.zeros(log.d)
    gap = scale = 0.0
    for row in predictions:
        values = log.values(w)
        gap, scale = max(gap, float(np.abs(row - values).max())), max(scale, float(np.abs(values).max()))
        w = s_0 + M @ w
    return gap / scale


def car(transitions: int, seed: int, arithmetic: TorchArithmetic, steps: tuple[int, ...]) -> tuple[list[Row], float]:
    """Mountain car at one log length: counts, the built run's error, and that of other depths and of the steps given.

    The second value is the number of registers of a context with a query, divided by 2d + 1.
    """
    log = mountain_car(transitions, seed=seed)
    step = Fraction(CAR_STEP, transitions)
    m = int(CAR.m)
    result = run_car(log, step, CAR_DEPTH, m, arithmetic)
    table = _Table(CAR, f"{log.name}, eight 8x8 tilings", seed)
    d = log.d
    counted = (
        ("statistics: A_N and b_N, dense", CAR.statistics, sum(x.size for x in log.batch_td(step)), d * d + d),
        (f"ours: context of m = {m} and a query", CAR.ours, result.kept, (2 * d + 1) * (m + 1)),
    )
    for what, source, registers, formula in counted:
        why = f"d = {d} here, {CAR_FEATURES} behind the source's figure; its formula gives {formula:,} registers at {d}"
        table.count(what, source, registers, why)
    table.peak(result)
    k, evidence = tile_dimension(log, CAR_DEPTH)
    tabulated = {a: car_errors(log, Fraction(a, transitions), m, CAR_DEPTHS) for a in steps}
    rank = numerical_rank(tabulated[CAR_STEP][1])
    dimensions = f"exact Krylov dimension {k} at L={CAR_DEPTH} ({evidence}), numerical rank of the values {rank}"
    table.add(f"vectors kept m; {dimensions}", CAR.m, result.vectors)
    error = built_error(log, step, result.values.detach().cpu().double().numpy())
    late = "" if round(error, 3) <= 0.011 else "larger in this log; the source does not give its step and depth"
    quantity = f"value-relative error of the built run, step {CAR_STEP}/N, L={CAR_DEPTH}, against float64 iterates"
    table.add(quantity, "<= 1.1e-2", error, late)
    for a, (errors, _) in tabulated.items():
        for depth in CAR_DEPTHS:
            quantity = f"value-relative error of {m} Arnoldi vectors, step {a}/N, L={depth}"
            table.add(quantity, "not given", errors[depth])
    return table.rows, result.kept / (2 * d + 1)


def cars(lengths: tuple[int, ...], seed: int, arithmetic: TorchArithmetic) -> list[Row]:
    """Mountain car at several log lengths, all steps at the last one; and that the registers follow d alone."""
    rows, columns = [], []
    for transitions in lengths:
        steps = CAR_STEPS if transitions == lengths[-1] else (CAR_STEP,)
        found, column = car(transitions, seed, arithmetic, steps)
        rows += found
        columns.append(column)
    table = _Table(CAR, f"N = {' and '.join(f'{n:,}' for n in lengths)}", seed)
    why = "" if set(columns) == {int(CAR.m) + 1} else f"the registers depend on N otherwise than by d: {columns}"
    table.add("registers of context and query over 2d + 1, that is m + 1, at every N", f"{CAR.m} + 1", columns[0], why)
    return rows + table.rows


def reproduce_memory(quick: bool = True, seed: int = 0, device: Any = "cpu") -> list[Row]:
    """Rows with the keys name, quantity, setting, source, ours, agrees, reason, seed.

    Args:
        quick: mountain car with N = 2,000 and 20,000 instead of 20,000 and 320,000; one gridworld instead of eight.
        seed: of every log.
        device: ``"cpu"`` or ``"cuda"``.

    Raises:
        BadInput: a device that is not there, or gymnasium is not installed.
    """
    arithmetic = TorchArithmetic("float64", device)
    environment()  # refuses before the long runs, not after
    rows = tabular(SMALL_CYCLE, block_cycle(seed=seed), 30, seed, arithmetic)
    rows += tabular(LARGE_CYCLE, block_cycle(480, 12, 19_200, seed=seed), 30, seed, arithmetic)
    rows += boyan(seed, arithmetic)
    rows += cars((2_000, 20_000) if quick else (20_000, 320_000), seed, arithmetic)
    rows += tabular(DRIFT, drift_kernel(seed=seed), 30, seed, arithmetic)
    rows += tabular(GRID, goal_gridworld(seed=seed), GRID_DEPTH, seed, arithmetic)
    return rows if quick else [*rows, *grid_dimensions(range(seed, seed + 8))]
