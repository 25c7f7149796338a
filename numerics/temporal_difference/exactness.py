"""Reproduces the source's "Exactness" figures (theory A9): float runs of stage 1, encoder and executor.

Setting: block cycles (k = 12) and sampled reversible chains (k = 24), n = 24, g = .9, L = 30, N = 960, seeds in a row.
All tasks of a family run as one batch. Errors are exact differences from the exact values; each figure is given as the
median and the maximum over the tasks. "Relative" is divided by max |v|. Unless a row says otherwise the number of
rounds is the exact k, decided without floats.

Float gate. With h = min(n, L) = 24 rounds the gate must find k by itself. The rule here: a vector counts as zero if
its norm is at most 1000 units in the last place of 1, that is `zero_below` = (2000 u)^2 on its square, u the unit
roundoff; rewards are at most 1. Balanced vectors are residuals of A w with w of norm one, so for them the rule is a
relative one. Unbalanced b_j shrink with j and the rule drops live ones. In float64 the error that this causes is of the
size of the source's 8.0e-13 (one pass, unbalanced), and so is the worst of one unbalanced pass with the exact k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from constructions.construction import Construction
from constructions.exact import RATIONALS
from constructions.layers import Release
from constructions.task import Task
from constructions.temporal_difference import executor, statistics
from numerics.errors import error_against
from numerics.tasks import block_cycle, reversible_chain
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.krylov import VARIANTS
from numerics.torch_arithmetic import TorchArithmetic, batched

N_STATES, DEPTH, TRANSITIONS = 24, 30, 960
FAMILIES: tuple[tuple[str, Callable[[int], Task]], ...] = (
    ("block cycle", lambda seed: block_cycle(N_STATES, 12, TRANSITIONS, seed=seed)),
    ("reversible chain", lambda seed: reversible_chain(N_STATES, TRANSITIONS, seed=seed)),
)
ONE_PASS, BALANCED = VARIANTS[0], VARIANTS[2]
FACTOR = 10.0
"""A figure agrees with the source's if it lies within this factor of it, or of the ends of its range."""

END_TO_END = {"float32": (2.0e-7, 4.5e-7), "float64": (1.6e-16, 2.9e-15)}
"""The source's ranges for raw log to values."""

Row = dict[str, Any]


def agrees(source: tuple[float, float], ours: float) -> bool:
    """The one rule: same order of magnitude, a factor of `FACTOR` either way."""
    return source[0] / FACTOR <= ours <= source[1] * FACTOR


def reproduce_exactness(quick: bool = True, seed: int = 0, device: Any = "cpu") -> list[Row]:
    """Rows with the keys name, quantity, setting, source, ours, agrees, reason, seed.

    Args:
        quick: 5 tasks a family instead of 100.
        seed: of the first task; the others follow in order.
        device: ``"cpu"`` or ``"cuda"``.

    Raises:
        BadInput: a device that is not there.
    """
    rows: list[Row] = []
    for family, make in FAMILIES:
        tasks = [make(seed + i) for i in range(5 if quick else 100)]
        dimensions = [krylov_dimension(task, DEPTH, seed).value for task in tasks]
        panel = _Panel(family, tasks, dimensions, seed, device)
        rows += panel.stage_1()
        rows += panel.alone(len(tasks) if family == "block cycle" else (1 if quick else 5))
        for variant, source in ((BALANCED, 3.8e-15), (ONE_PASS, 8.0e-13)):
            rows += panel.whole("float64", variant, False, (source, source))
        for dtype, span in END_TO_END.items():
            for variant in (BALANCED, ONE_PASS):
                rows += panel.whole(dtype, variant, True, span)
        for dtype in ("float32", "float64"):
            for variant in (BALANCED, ONE_PASS):
                rows += panel.gate(dtype, variant)
    return rows


class _Panel:
    """The tasks of one family, their exact values, and the rows measured on them."""

    def __init__(self, family: str, tasks: Sequence[Task], dimensions: list[int], seed: int, device: Any) -> None:
        self.family, self.tasks, self.dimensions = family, tasks, dimensions
        self.seed, self.device = seed, device
        self.exact = [executor.td_values(task, DEPTH, RATIONALS) for task in tasks]
        self._runs: dict[tuple[str, str], list[Any]] = {}

    def stage_1(self) -> list[Row]:
        built = statistics.construction(N_STATES)
        values = _batch(built, self.tasks, TorchArithmetic("float64", self.device))
        counted = [statistics.counted_statistics(task, RATIONALS) for task in self.tasks]
        errors = [error_against(v, x).absolute for v, x in zip(values, counted, strict=True)]
        why = "sums of these short binary rewards are exact, and the entries of a dense A are small"
        source = (2.2e-16, 2.2e-16)
        return self._figures("stage 1 against counting", "float64", errors, source, "absolute error", why)

    def alone(self, count: int) -> list[Row]:
        built = executor.from_context(N_STATES, DEPTH)
        arithmetic = TorchArithmetic("float64", self.device)
        values = [built.outputs(task, arithmetic) for task in self.tasks[:count]]
        errors = [error_against(v, x).absolute for v, x in zip(values, self.exact, strict=False)]
        setting = "float64, context computed in Q (monic basis, w = b/d) and rounded once"
        why, source = self._beside("float64", False), (3.8e-15, 3.8e-15)
        return self._figures("executor alone against TD", setting, errors, source, "absolute error", why)

    def whole(
        self, dtype: str, variant: tuple[str, int, bool], relative: bool, source: tuple[float, float]
    ) -> list[Row]:
        errors = [e.relative if relative else e.absolute for e in self._errors(dtype, variant)]
        name = f"{dtype} end to end" if relative else "exact context + executor against TD"
        quantity = "relative error" if relative else "absolute error"
        why = "" if variant[2] else self._beside(dtype, relative)
        return self._figures(name, f"{dtype}, {_words(variant)}", errors, source, quantity, why)

    def _beside(self, dtype: str, relative: bool) -> str:
        """The same tasks in the most accurate variant, for comparison."""
        errors = [e.relative if relative else e.absolute for e in self._errors(dtype, BALANCED)]
        return f"two balanced passes give {median(errors):.1e} (median) and {max(errors):.1e} (maximum) on these tasks"

    def _errors(self, dtype: str, variant: tuple[str, int, bool]) -> list[Any]:
        if (dtype, variant[0]) not in self._runs:
            arithmetic = TorchArithmetic(dtype, self.device)
            errors: list[Any] = [None] * len(self.tasks)
            for k in sorted(set(self.dimensions)):
                group = [i for i, own in enumerate(self.dimensions) if own == k]
                _, passes, balanced = variant
                built = executor.construction(N_STATES, DEPTH, passes=passes, balanced=balanced, rounds=max(k, 1))
                for i, value in zip(group, _batch(built, [self.tasks[i] for i in group], arithmetic), strict=True):
                    errors[i] = error_against(value, self.exact[i])
            self._runs[dtype, variant[0]] = errors
        return self._runs[dtype, variant[0]]

    def gate(self, dtype: str, variant: tuple[str, int, bool]) -> list[Row]:
        """How many tokens the float gate keeps of 24, and how far off the values then are."""
        unit = float(TorchArithmetic(dtype).format.unit_roundoff)
        arithmetic = TorchArithmetic(dtype, self.device, zero_below=(2000 * unit) ** 2)
        _, passes, balanced = variant
        built = executor.construction(N_STATES, DEPTH, passes=passes, balanced=balanced)
        kept: list[int] = []

        def watched(steps: Any) -> Any:
            for label, tokens in steps:
                if label == "compile":
                    live = tokens.blocks["source", "c"] != 0
                    kept.extend(live.sum(-1).flatten().tolist())
                yield label, tokens

        # Members of a batch may keep different tokens, so none is released: a token whose gate is 0 has w = 0, hence
        # s = 0 throughout, and adds nothing to any value.
        layers = [layer for layer in built.program.layers if not (isinstance(layer, Release) and layer.gate)]
        program = built.program.with_layers(layers)
        tokens = batched([built.encode(task, arithmetic) for task in self.tasks])
        values = built.decode(watched(program.steps(tokens, arithmetic)), arithmetic)
        errors = [error_against(v, x) for v, x in zip(values, self.exact, strict=True)]
        setting = f"{dtype}, {_words(variant)}, h = 24 rounds, zero below (2000 u)^2 = {arithmetic.zero_below:.1e}"
        right = sum(a == b for a, b in zip(kept, self.dimensions, strict=True))
        wanted = sorted(set(self.dimensions))
        reason = ""
        if right < len(kept):
            why = "a residual near the threshold" if balanced else "unbalanced vectors shrink below it while still live"
            reason = f"the gate keeps the exact k in {right} of {len(kept)} tasks: {why}"
        row = {
            "name": "tokens kept by the float gate",
            "quantity": f"tokens kept, smallest to largest over {len(kept)} tasks (exact k: {_span(wanted)})",
            "setting": f"{self.family}, n=24, g=9/10, L=30, N=960, {setting}",
            "source": "12" if self.family == "block cycle" else "24 = exact k (no figure in the source)",
            "ours": _span(kept),
            "agrees": right == len(kept),
            "reason": reason,
            "seed": self.seed,
        }
        name, span = f"{dtype} end to end, float gate", END_TO_END[dtype]
        why = "the gate drops live tokens" if right < len(kept) else "" if balanced else self._beside(dtype, True)
        rows = [row, *self._figures(name, setting, [e.relative for e in errors], span, "relative error", why)]
        if dtype == "float64" and not balanced:
            name, span = "exact context + executor against TD, float gate", (8.0e-13, 8.0e-13)
            why = why if right < len(kept) else "the gate keeps the exact k here"
            rows += self._figures(name, setting, [e.absolute for e in errors], span, "absolute error", why)
        return rows

    def _figures(
        self,
        name: str,
        setting: str,
        errors: list[float],
        source: tuple[float, float],
        quantity: str,
        why: str = "",
    ) -> list[Row]:
        """One row for the median, one for the maximum; `why` explains a finite figure that differs."""
        rows = []
        for statistic, ours in (("median", median(errors)), ("maximum", max(errors))):
            agreed = agrees(source, ours)
            rows.append(
                {
                    "name": name,
                    "quantity": f"{quantity}, {statistic} over {len(errors)} tasks",
                    "setting": f"{self.family}, n=24, g=9/10, L=30, N=960, {setting}",
                    "source": f"{source[0]:.1e}" if source[0] == source[1] else f"{source[0]:.1e} .. {source[1]:.1e}",
                    "ours": ours,
                    "agrees": agreed,
                    "reason": "" if agreed else _reason(source, ours, errors, why),
                    "seed": self.seed,
                }
            )
        return rows


def _batch(built: Construction, tasks: Sequence[Task], arithmetic: TorchArithmetic) -> Any:
    """The answers on all tasks, in one run; first dimension: the task."""
    tokens = batched([built.encode(task, arithmetic) for task in tasks])
    return built.decode(built.program.steps(tokens, arithmetic), arithmetic)


def _words(variant: tuple[str, int, bool]) -> str:
    return variant[0] if variant[2] else f"{variant[0]}, unbalanced (w = b/d)"


def _span(values: Sequence[int]) -> str:
    return str(min(values)) if min(values) == max(values) else f"{min(values)}..{max(values)}"


def _reason(source: tuple[float, float], ours: float, errors: Sequence[float], why: str) -> str:
    if not math.isfinite(ours):
        broken = sum(not math.isfinite(x) for x in errors)
        return f"values are not finite in {broken} of {len(errors)} tasks: |b_j|^2 underflows, its reciprocal overflows"
    side = "smaller" if ours < source[0] else "larger"
    return f"ours is {side} by more than a factor of {FACTOR:.0f}" + (f": {why}" if why else "")
