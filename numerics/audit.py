"""The precision audit: one construction on one task in many number formats, each row with an error and its bounds.

A `Subject` knows the exact answer and how to run itself in an arithmetic; `audit_row` runs it and measures. Errors are
exact differences, rounded up; beside each stand bounds that did not look at the exact answer: the running bound of the
run (the smaller, entry by entry, of `RunningBounds` and of the theorem's own recursion on exact residuals), and where
the theorem has one the a-priori bound, from sizes and formats alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from constructions.errors import BadInput
from constructions.exact import Balls
from constructions.tokens import Tokens
from numerics.errors import ball_up, round_up
from numerics.formats import FORMATS, BinaryFormat, exact_ratio, parse_format
from numerics.roles import MODELS
from numerics.rounded_arithmetic import RoundedArithmetic
from numerics.running_bounds import RunningBounds
from numerics.torch_arithmetic import TorchArithmetic

STAGE_BITS = 512
TORCH_NAMES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
EVERY, WIDE, TORCH = "every", "wide", "torch"
MODEL_TEXT = {EVERY: "every operation rounded", WIDE: "wide accumulation", TORCH: "torch as it is"}
Entries = list[fmpq | None]


@dataclass(frozen=True)
class Setting:
    """A format, a model and a device, and the tolerance that names the first stage in error."""

    format: str
    model: str
    device: str = "cpu"
    tolerance: float = 1e-2

    def arithmetic(self) -> RoundedArithmetic | TorchArithmetic:
        """The arithmetic of these.

        Raises:
            BadInput: an unknown format, model or device, or a format that torch does not compute in.
        """
        if self.model == TORCH:
            name = TORCH_NAMES.get(self.format, self.format)
            if name not in FORMATS:
                raise BadInput(f"model torch: expected one of {', '.join(TORCH_NAMES)}, found {self.format}")
            return TorchArithmetic(name, self.device)
        if self.model not in MODELS:
            raise BadInput(f"model: expected one of {', '.join(MODEL_TEXT)}, found {self.model}")
        return RoundedArithmetic(MODELS[self.model](self.format), MODEL_TEXT[self.model])

    @property
    def number_format(self) -> BinaryFormat:
        """Of the state."""
        return parse_format(self.format)


@dataclass(frozen=True)
class Trial:
    """What one run gave.

    Attributes:
        values: computed entries of the answer, row by row; None where one is not finite.
        limits: a bound on the error of each.
        method: how the bounds were obtained.
        branches: name -> (decisions that differ from the exact ones, decisions).
        stage: the first layer and block whose error passes the tolerance; "" for none.
        flags: what else a reader must know.
        violations: entries of intermediate blocks that were beyond their running bounds.
    """

    values: Entries
    limits: list[float]
    method: str
    branches: Mapping[str, tuple[int, int]]
    stage: str = ""
    flags: tuple[str, ...] = ()
    violations: int = 0


@dataclass(frozen=True)
class Plan:
    """What is audited of each theorem.

    Attributes:
        quick: smaller sizes and fewer tasks.
        seed: of the tasks.
        task: a name from the theorem's own list; its first ones where None.
        horizon: T (or L), where not the usual one.
    """

    quick: bool = True
    seed: int = 0
    task: str | None = None
    horizon: int | None = None

    def chosen(self, theorem: str, tasks: Sequence[str], usual: int) -> list[str]:
        """The task named, or the first `usual` ones.

        Raises:
            BadInput: another name.
        """
        if self.task is None:
            return list(tasks[:usual])
        if self.task not in tasks:
            raise BadInput(f"audit {theorem}: expected a task among {', '.join(tasks)}, found {self.task}")
        return [self.task]


@dataclass(frozen=True)
class Subject:
    """A construction on a task.

    Attributes:
        theorem: id.
        variant: what of it is run.
        task: its name, with generator and seed.
        sizes: by their letters.
        exact: the exact answer, or balls around it.
        reference: a phrase that says what it is.
        run: (setting, arithmetic) -> what the run gave; same entries as `exact`.
        a_priori: setting -> a bound on the largest error, or None where there is none.
    """

    theorem: str
    variant: str
    task: str
    sizes: Mapping[str, Any]
    exact: fmpq_mat | arb_mat
    reference: str
    run: Callable[[Setting, Any], Trial]
    a_priori: Callable[[Setting], float | None] = field(default=lambda setting: None)


@dataclass(frozen=True)
class AuditRow:
    """One subject in one setting; see `to_json` for the names that others read.

    `sound` is None where no bound is finite, so that nothing was checked; `unbounded` counts the entries of the answer
    whose running bound is infinite.
    """

    subject: Subject
    setting: Setting
    errors: dict[str, dict[str, float]]
    bits_lost: float
    radius: float
    running_bound: float
    method: str
    a_priori: float | None
    tightness: float | None
    branches: dict[str, str]
    stage: str
    flags: tuple[str, ...]
    sound: bool | None
    unbounded: int
    worst: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "theorem": self.subject.theorem,
            "variant": self.subject.variant,
            "task": self.subject.task,
            "sizes": {name: str(x) if not isinstance(x, int) else x for name, x in self.subject.sizes.items()},
            "format": self.setting.format,
            "model": MODEL_TEXT[self.setting.model],
            "device": self.setting.device,
            "error": self.errors,
            "bits_lost": self.bits_lost,
            "reference": self.subject.reference,
            "radius": self.radius,
            "running_bound": self.running_bound,
            "method": self.method,
            "a_priori": self.a_priori,
            "tightness": self.tightness,
            "branches": self.branches,
            "stage": self.stage or None,
            "flags": list(self.flags),
            "sound": self.sound,
            "entries": len(self.subject.exact.entries()),
            "unbounded": self.unbounded,
            "worst": self.worst,
        }


def audit_row(subject: Subject, setting: Setting) -> AuditRow:
    """Run and measure.

    Raises:
        BadInput: a setting that cannot be run.
    """
    trial = subject.run(setting, setting.arithmetic())
    target, unit = setting.number_format, setting.number_format.unit_roundoff
    gaps, radius = _gaps(trial.values, subject.exact)
    exact = [_magnitude(x) for x in subject.exact.entries()]
    scale = max(exact, default=0.0)
    relative = [_share(gap, size) for gap, size in zip(gaps, exact, strict=True)]
    # A unit in the last place at x is that of the format's binade, or the subnormal spacing.
    ulps = [
        gap / max(math.ldexp(float(unit), math.frexp(size)[1]), round_up(target.smallest) or 5e-324) if size else gap
        for gap, size in zip(gaps, exact, strict=True)
    ]
    worst = max(range(len(gaps)), key=lambda i: gaps[i])
    largest = gaps[worst]
    a_priori = subject.a_priori(setting)
    unbounded = sum(limit == math.inf for limit in trial.limits)
    checked = unbounded < len(trial.limits) or (a_priori is not None and a_priori < math.inf)
    flags = [*trial.flags]
    violations = []
    if trial.violations or any(gap > limit for gap, limit in zip(gaps, trial.limits, strict=True)):
        violations.append("RUNNING BOUND VIOLATED")
    if a_priori is not None and largest > a_priori:
        violations.append("A-PRIORI BOUND VIOLATED")
    flags += violations
    sound = False if violations else True if checked else None
    if None in trial.values:
        flags.append("overflow: values that are not finite")
    if any(x is not None and x == 0 and size > 0 for x, size in zip(trial.values, exact, strict=True)):
        flags.append("values that are zero where the exact ones are not")
    tight = [
        limit / gap for gap, limit in zip(gaps, trial.limits, strict=True) if 0 < gap < math.inf and limit < math.inf
    ]
    columns = subject.exact.ncols()
    return AuditRow(
        subject,
        setting,
        {
            "absolute": {"max": largest, "median": median(gaps)},
            "relative": {"max": _share(largest, scale), "median": median(relative)},
            "ulps": {"max": max(ulps), "median": median(ulps)},
        },
        bits_lost(_share(largest, scale), target),
        radius,
        max(trial.limits),
        trial.method,
        a_priori,
        median(tight) if tight else None,
        {name: f"{wrong} of {total}" for name, (wrong, total) in trial.branches.items() if total},
        trial.stage,
        tuple(flags),
        sound,
        unbounded,
        {
            "entry": list(divmod(worst, columns)),
            "computed": _text(trial.values[worst]),
            "exact": str(subject.exact.entries()[worst]),
            "error": largest,
        },
    )


def bits_lost(relative: float, target: BinaryFormat) -> float:
    """log2 of an error relative to the largest value, in units of u; 0 below u, all p bits where it reaches 1."""
    if not relative < 1:
        return float(target.precision)
    return round(max(0.0, math.log2(relative) + target.precision), 1) if relative > 0 else 0.0


def _text(x: fmpq | None) -> str:
    return "not finite" if x is None else str(x)


def _magnitude(x: fmpq | arb) -> float:
    return ball_up(abs(x)) if isinstance(x, arb) else round_up(abs(x))


def _near(x: fmpq | arb) -> float:
    return float(x.mid()) if isinstance(x, arb) else int(x.p) / int(x.q)


def _share(gap: float, size: float) -> float:
    return 0.0 if gap == 0 else gap / size if size > 0 else math.inf


def _gaps(values: Entries, exact: fmpq_mat | arb_mat) -> tuple[list[float], float]:
    """|value - exact| of each entry, rounded up, radii of balls included; and the largest radius."""
    with ctx.workprec(STAGE_BITS):
        if isinstance(exact, arb_mat):
            found = [
                math.inf if v is None else ball_up(abs(arb(v) - x))
                for v, x in zip(values, exact.entries(), strict=True)
            ]
            return found, max(ball_up(x.rad()) for x in exact.entries())
        return [
            math.inf if v is None else round_up(abs(v - x)) for v, x in zip(values, exact.entries(), strict=True)
        ], 0.0


def entries_of(bounded: Any, bounds: RunningBounds) -> tuple[Entries, list[float]]:
    """Computed entries in Q (None where not finite) and their bounds."""
    values = [fmpq(*exact_ratio(v)) if np.isfinite(float(v)) else None for v in bounds.backend.entries(bounded.value)]
    return values, [float(x) for x in np.asarray(bounded.error.tolist()).ravel()]


def smaller(limits: Sequence[float], others: Sequence[float]) -> list[float]:
    """The smaller bound of each entry."""
    return [min(a, b) for a, b in zip(limits, others, strict=True)]


Steps = Iterable[tuple[str, Tokens]]
Blocks = dict[tuple[str, str], Any]


def traced(steps: Steps) -> Iterator[tuple[str, Blocks]]:
    """(label, the blocks that the layer changed), without copies."""
    before: Blocks = {}
    for label, tokens in steps:
        yield label, {key: block for key, block in tokens.blocks.items() if before.get(key) is not block}
        before = dict(tokens.blocks)


def exact_trace(steps: Callable[[Any], Steps], arithmetic: Any = None) -> list[tuple[str, Blocks]]:
    """The same run in an exact arithmetic, in balls of `STAGE_BITS` bits if none is given; kept for all formats."""
    if arithmetic is not None:
        return list(traced(steps(arithmetic)))
    balls = Balls(STAGE_BITS)
    with balls.working():
        return list(traced(steps(balls)))


class StageFinder:
    """Watches a run beside its exact trace for the first block that is off by more than the tolerance.

    A block is off by its largest error over its largest exact entry. Blocks are held against their running bounds too.
    """

    def __init__(self, trace: Sequence[tuple[str, Blocks]], bounds: RunningBounds, tolerance: float) -> None:
        self.trace, self.bounds, self.tolerance = trace, bounds, tolerance
        self.first, self.violated, self.compared = "", 0, 0

    def watch(self, steps: Steps, prefix: str = "", start: int = 0) -> Iterator[tuple[str, Tokens]]:
        """The steps, looked at as they pass; `start` is the place of the first in the trace."""
        before: Blocks = {}
        for place, (label, tokens) in enumerate(steps, start):
            exact_label, exact = self.trace[place] if place < len(self.trace) else ("", {})
            for key, block in tokens.blocks.items():
                if before.get(key) is not block and exact_label == label and key in exact:
                    self._compare(f"{prefix}{label}: {'.'.join(key)}", block, exact[key])
            before = dict(tokens.blocks)
            yield label, tokens

    def _compare(self, where: str, block: Any, exact: arb_mat | fmpq_mat) -> None:
        if self.bounds.inner.shape(block.value) != (exact.nrows(), exact.ncols()):
            self.first = self.first or f"{where} (other tokens kept)"
            return
        # Beyond float64's own digits only the bound matters, which is checked on the answer; here floats suffice.
        values = np.asarray(self.bounds.backend.real(block.value).tolist(), dtype=np.float64)
        target = np.array([_near(x) for x in exact.entries()]).reshape(values.shape)
        with np.errstate(invalid="ignore"):
            gap = np.abs(values - target)
        gap = np.where(np.isnan(gap), np.inf, gap)
        limits = np.asarray(block.error.tolist(), dtype=np.float64)
        slack = np.abs(target) * 2.0**-50 + 1e-300
        self.compared += gap.size
        self.violated += int((gap > limits + slack).sum())
        scale = np.abs(target).max(initial=0.0)
        if not self.first and gap.size and gap.max() > self.tolerance * scale and gap.max() > 0:
            self.first = where
