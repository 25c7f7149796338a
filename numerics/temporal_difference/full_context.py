"""td.full-context measured: four algorithms on the full context, and the source's check of them with exact values.

Bound of `measure`: the log is queried at the unit vectors too, so the float run reports its weight vector at each
depth. Exact residuals rho_l = w^_{l+1} - (w^_l + W (b - A w^_l)) then bound the error componentwise by
|e_{l+1}| <= |I - W A| |e_l| + |rho_l|, and a query adds its own rounding |v^_l(q) - phi_q'w^_l|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from statistics import median
from typing import Any

from flint import fmpq, fmpq_mat

from constructions.construction import Construction
from constructions.exact import RATIONALS, Balls
from constructions.layers import Layer, LinearAttention, Public, Repeat
from constructions.layout import Size
from constructions.program import Program
from constructions.temporal_difference import full_context
from constructions.temporal_difference.full_context import ALGORITHMS, THEOREM, FeatureLog, Matrix
from numerics.errors import error_against, exact_entries, round_up
from numerics.feature_tasks import (
    boyan_chain,
    continuing_boyan_chain,
    independent_samples,
    normal_matrices,
    random_chain,
    with_unit_queries,
)
from numerics.measurement import Measurement, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.temporal_difference.exactness import agrees
from numerics.torch_arithmetic import TorchArithmetic, batched

MPMATH_BITS, BALL_BITS = 113, 256
RATE = Fraction(1, 2)
"""The trace decay of TD(lambda), as in the source's check."""

Row = dict[str, Any]


def moments(algorithm: str, log: FeatureLog, rate: Fraction) -> tuple[fmpq_mat, fmpq_mat]:
    """A, b with sum_t delta_t e_t = b - A w, exact, shapes (d, d) and (d, 1)."""
    e = RATIONALS.matrix(full_context.directions(algorithm, log, rate)).transpose()
    gaps = RATIONALS.matrix(log.features) - RATIONALS.matrix(log.discounted)
    targets = RATIONALS.matrix([full_context.targets(algorithm, log)])
    return e * gaps, e * targets.transpose()


def exact_predictions(algorithm: str, log: FeatureLog, weights: Sequence[Matrix], rate: Fraction) -> fmpq_mat:
    """phi_q'w_l in Q, by moments: shape (len(weights) + 1, queries)."""
    A, b = moments(algorithm, log, rate)
    queries, exact = RATIONALS.matrix(log.queries), {id(W): RATIONALS.matrix(W) for W in weights}
    w = fmpq_mat(log.dimension, 1)
    rows = [queries * w]
    for W in weights:
        w = w + exact[id(W)] * (b - A * w)
        rows.append(queries * w)
    return fmpq_mat(len(rows), len(log.queries), [x for row in rows for x in row.entries()])


def prediction_bound(value: Any, algorithm: str, log: FeatureLog, weights: Sequence[Matrix], rate: Fraction) -> float:
    """A rigorous bound on the error of every prediction of a run on a log whose first d queries are the unit vectors.

    Args:
        value: predictions, shape (len(weights) + 1, queries).
        weights: (a/N) C_l for each layer, exact.

    Returns:
        The bound, rounded up; infinite where a value is not finite.
    """
    d, count = log.dimension, len(log.queries)
    _, entries = exact_entries(value)
    if any(x is None for x in entries):
        return math.inf
    table = fmpq_mat(len(weights) + 1, count, entries)
    A, b = moments(algorithm, log, rate)
    queries = RATIONALS.matrix(log.queries)
    eye = RATIONALS.one_hot(range(d), d)

    def depth(l: int) -> tuple[fmpq_mat, fmpq_mat]:
        row = fmpq_mat(count, 1, [table[l, i] for i in range(count)])
        return fmpq_mat(d, 1, row.entries()[:d]), row

    w, row = depth(0)
    errors = _absolute(w)
    worst = fmpq(0)
    for l, W in enumerate(weights):
        worst = max(worst, *_query_errors(queries, w, row, errors))
        exact_w = RATIONALS.matrix(W)
        image = w + exact_w * (b - A * w)
        w, row = depth(l + 1)
        errors = _absolute(eye - exact_w * A) * errors + _absolute(w - image)
    return round_up(max(worst, *_query_errors(queries, w, row, errors)))


def _absolute(matrix: fmpq_mat) -> fmpq_mat:
    return fmpq_mat(matrix.nrows(), matrix.ncols(), [abs(x) for x in matrix.entries()])


def _query_errors(queries: fmpq_mat, w: fmpq_mat, row: fmpq_mat, errors: fmpq_mat) -> list[fmpq]:
    return (_absolute(row - queries * w) + _absolute(queries) * errors).entries()


@dataclass(frozen=True)
class Setting:
    """An algorithm with its public constants; `preconditioners` None is the identity."""

    algorithm: str
    depth: int
    step: Fraction = Fraction(1)
    preconditioners: tuple[Matrix, ...] | None = None

    @property
    def rate(self) -> Fraction:
        """lambda."""
        return RATE if self.algorithm == "td-lambda" else Fraction(0)

    def built(self, log: FeatureLog) -> Construction:
        """The construction for logs of this size."""
        d, samples = log.size
        return full_context.construction(
            self.algorithm, d, samples, self.depth, preconditioners=self.preconditioners, step=self.step, rate=self.rate
        )

    def weights(self, log: FeatureLog) -> list[Matrix]:
        """(a/N) C_l for every layer."""
        d, samples = log.size
        eye = [[Fraction(int(i == j)) for j in range(d)] for i in range(d)]
        given = self.preconditioners or (eye,)
        scaled: list[Matrix] = [[[self.step / samples * x for x in row] for row in C] for C in given]
        return scaled * self.depth if len(scaled) == 1 else scaled


def measure_one(log: FeatureLog, setting: Setting, arithmetic: Any, seed: int) -> Measurement:
    """One algorithm on one log in one arithmetic; the log's first queries must be the unit vectors."""
    built, weights = setting.built(log), setting.weights(log)
    value, seconds = timed(arithmetic, lambda: built.outputs(log, arithmetic))
    error = error_against(value, exact_predictions(setting.algorithm, log, weights, setting.rate))
    if isinstance(arithmetic, Balls):
        bound, method = error.radius, "radii of the balls, entry by entry"
    else:
        bound = prediction_bound(value, setting.algorithm, log, weights, setting.rate)
        method = "a posteriori: exact residuals of the weights, componentwise"
    assert bound is not None
    notes = [setting.algorithm, f"step {setting.step}"]
    if setting.rate:
        notes.append(f"trace decay {setting.rate}")
    if bound == math.inf:
        notes.append("the values are not all finite")
    return Measurement(
        theorem=THEOREM,
        task=log.name,
        arithmetic=arithmetic.name,
        sizes=built.sizes,
        error=error,
        reference="the algorithm in Q, by moments",
        bound=bound,
        method=method,
        seconds=seconds,
        seed=seed,
        flags=tuple(notes),
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """All four algorithms on Boyan chains and a random chain, 100 transitions; the full run has 1000 and 100 layers.

    Raises:
        BadInput: an unknown dtype or device.
    """
    transitions, depth = (100, 40) if quick else (300, 100)
    chains: list[Callable[[Any], FeatureLog]] = [
        lambda g: boyan_chain(transitions, g, seed),
        lambda g: continuing_boyan_chain(transitions=transitions, discount=g, seed=seed),
        lambda g: random_chain(transitions=transitions, discount=g, seed=seed),
    ]
    out = []
    for chain in chains:
        for algorithm in ALGORITHMS:
            log, setting = with_unit_queries(chain(_discount(algorithm))), Setting(algorithm, depth, Fraction(1, 2))
            out += [measure_one(log, setting, TorchArithmetic(dtype, device), seed) for dtype in dtypes]
    precise: tuple[Any, ...] = (MpmathArithmetic(MPMATH_BITS), Balls(BALL_BITS), RATIONALS)
    for arithmetic in precise:
        for algorithm in ALGORITHMS:
            small = with_unit_queries(continuing_boyan_chain(5, 2, 12, _discount(algorithm), seed))
            out.append(measure_one(small, Setting(algorithm, 6, Fraction(1, 2)), arithmetic, seed))
    return out


def _discount(algorithm: str) -> Fraction:
    return Fraction(1) if algorithm == "average-reward" else Fraction(9, 10)


@dataclass(frozen=True)
class Stacked(Public):
    """A public matrix for each member of a batch, as one tensor."""

    members: tuple[Public, ...] = ()

    def array(self, rows: Size, columns: Size, arithmetic: Any) -> Any:
        return _stacked(self.members, rows, columns, arithmetic)


@lru_cache(maxsize=2)
def _stacked(members: tuple[Public, ...], rows: int, columns: int, arithmetic: Any) -> Any:
    import torch

    return torch.stack([arithmetic.matrix(member.rows(rows, columns), (rows, columns)) for member in members])


def stacked_program(programs: Sequence[Program]) -> Program:
    """Programs that differ in the weights of unrolled layers only, as one program for a batch."""
    layers: list[Layer] = []
    for alike in zip(*(program.layers for program in programs), strict=True):
        first = alike[0]
        assert isinstance(first, LinearAttention)
        members = tuple(layer.heads[0].weight for layer in alike)
        weight = Stacked(str(members[0]), None, False, members)
        layers.append(replace(first, heads=tuple(replace(head, weight=weight) for head in first.heads)))
    return programs[0].with_layers(layers)


TRIALS, FEATURES, SAMPLES, LAYERS = 30, 3, 100, 40
"""The setting of the source's check; its step is 1, its discount 9/10, its trace decay 1/2."""

SHOWN_LAYERS = (1, 10, 20, 30, 40)
AVERAGE_REWARD_DIFFERENCE = 5.6e-4
"""The largest absolute difference that the source's script shows for average reward."""


@dataclass(frozen=True)
class Curve:
    """Errors of one algorithm in one format: per trial, at layers 1 .. L, rounded up.

    `overall` is the largest error of any trial, divided by the largest value of that trial.
    """

    algorithm: str
    dtype: str
    absolute: list[list[float]]
    relative: list[list[float]]
    overall: float

    def worst(self, figures: list[list[float]]) -> str:
        """The largest over the trials, at a few layers."""
        return ", ".join(f"{max(trial[l - 1] for trial in figures):.1e}" for l in SHOWN_LAYERS)


def trial_settings(algorithm: str, seed: int) -> list[tuple[FeatureLog, Setting]]:
    """The 30 trials: C = I, and for average reward an own standard normal C_l in every layer, as in the source."""
    out = []
    for trial in range(seed, seed + TRIALS):
        log = independent_samples(FEATURES, SAMPLES, _discount(algorithm), trial)
        preconditioners = None
        if algorithm == "average-reward":
            preconditioners = tuple(normal_matrices(LAYERS, FEATURES, trial))
        out.append((log, Setting(algorithm, LAYERS, Fraction(1), preconditioners)))
    return out


def run_trials(logs: Sequence[FeatureLog], builts: Sequence[Construction], arithmetic: TorchArithmetic) -> Any:
    """The predictions of every trial in one batched run, shape (trials, L + 1, 1)."""
    tokens = batched([built.encode(log, arithmetic) for log, built in zip(logs, builts, strict=True)])
    programs = [built.program for built in builts]
    program = programs[0] if isinstance(programs[0].layers[0], Repeat) else stacked_program(programs)
    return builts[0].decode(program.steps(tokens, arithmetic), arithmetic)


def error_curve(algorithm: str, dtype: str, values: Any, exact: Sequence[fmpq_mat]) -> Curve:
    """Relative means: divided by the largest exact value up to that layer, in that trial; `overall`, of all layers."""
    absolute, relative, overall = [], [], 0.0
    for value, own in zip(values, exact, strict=True):
        _, computed = exact_entries(value)
        largest = worst = fmpq(0)
        gaps, ratios = [], []
        for found, right in list(zip(computed, own.entries(), strict=True))[1:]:
            largest = max(largest, abs(right))
            gap = None if found is None else abs(found - right)
            gaps.append(math.inf if gap is None else round_up(gap))
            ratios.append(_ratio(gap, largest))
            worst = None if gap is None or worst is None else max(worst, gap)
        absolute.append(gaps)
        relative.append(ratios)
        overall = max(overall, _ratio(worst, largest))
    return Curve(algorithm, dtype, absolute, relative, overall)


def _ratio(gap: fmpq | None, largest: fmpq) -> float:
    if gap is None or (gap and not largest):
        return math.inf
    return round_up(gap / largest) if gap else 0.0


def reproduce_predecessors(quick: bool = True, seed: int = 0, device: Any = "cpu") -> list[Row]:
    """The source's check of its four constructions, 30 trials each, against exact values instead of a second float run.

    Rows have the keys name, quantity, setting, source, ours, agrees, reason, seed. The source plots the difference of
    two float64 runs and gives no figures beside the curves; "rounding" stands for that. A row agrees with it if the
    error is at most N L u of the largest value, u the unit roundoff. A relative error is divided by the largest exact
    value of its trial: of all layers for a maximum, up to that layer along a curve.

    Args:
        quick: both profiles run all trials.
        seed: of the first trial; the others follow in order.
        device: ``"cpu"`` or ``"cuda"``.

    Raises:
        BadInput: a device that is not there.
    """
    rows: list[Row] = []
    for algorithm in ALGORITHMS:
        trials = trial_settings(algorithm, seed)
        logs = [log for log, _ in trials]
        # Without preconditioners of their own all trials share one construction.
        own = trials if trials[0][1].preconditioners else trials[:1]
        builts = [setting.built(log) for log, setting in own] * (TRIALS // len(own))
        exact = [exact_predictions(algorithm, log, setting.weights(log), setting.rate) for log, setting in trials]
        sizes = sorted(round_up(max(abs(x) for x in own.entries())) for own in exact)
        text = f"d={FEATURES}, N={SAMPLES}, L={LAYERS}, g={_discount(algorithm)}, {TRIALS} trials, "
        text += "normal C in each layer" if algorithm == "average-reward" else "C = I"
        text += ", trace decay 1/2" if algorithm == "td-lambda" else ""

        def add(quantity: str, setting: str, source: str, ours: Any, reason: str = "") -> None:
            row = {"name": algorithm, "quantity": quantity, "setting": f"{text}{setting}", "source": source}  # noqa: B023
            rows.append({**row, "ours": ours, "agrees": not reason, "reason": reason, "seed": seed})

        add("largest |value|, median and maximum over trials", "", "not given", [median(sizes), sizes[-1]])
        for dtype in ("float32", "float64"):
            arithmetic = TorchArithmetic(dtype, device)
            values = run_trials(logs, builts, arithmetic)
            curve = error_curve(algorithm, dtype, values, exact)
            worst = curve.overall
            limit = SAMPLES * LAYERS * float(arithmetic.format.unit_roundoff)
            reason = "" if worst <= limit else f"more than N L u = {limit:.1e} of the largest value"
            layers = f", {dtype}; at layers {', '.join(map(str, SHOWN_LAYERS))}: "
            kinds = {"absolute": (curve.absolute, max(map(max, curve.absolute))), "relative": (curve.relative, worst)}
            for name, (figures, most) in kinds.items():
                add(f"{name} error, maximum", f"{layers}{curve.worst(figures)}", "rounding", most, reason)
            if dtype == "float64":
                second = [built.reference(log, arithmetic) for log, built in zip(logs, builts, strict=True)]
                pairs = zip(values.tolist(), [v.tolist() for v in second], strict=True)
                apart = max(abs(a[0] - b[0]) for one, two in pairs for a, b in zip(one, two, strict=True))
                source, reason = _beside(algorithm, apart, worst, limit, sizes[-1])
                add("difference of two float64 runs, maximum", ", program and algorithm", source, apart, reason)
    return rows


def _beside(algorithm: str, apart: float, worst: float, limit: float, largest: float) -> tuple[str, str]:
    """The source's figure for the difference of two float runs, and why ours differs, if it does."""
    if algorithm != "average-reward":
        return "rounding", "" if apart <= limit * largest else f"more than N L u = {limit:.1e} of the largest value"
    if agrees((AVERAGE_REWARD_DIFFERENCE, AVERAGE_REWARD_DIFFERENCE), apart):
        return f"{AVERAGE_REWARD_DIFFERENCE:.1e}", ""
    reason = f"an absolute figure follows the values, up to {largest:.1e} here; the relative error is {worst:.1e}"
    return f"{AVERAGE_REWARD_DIFFERENCE:.1e}", reason
