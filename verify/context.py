"""`verify context`: how much context a recorded log needs for depth-L evaluation, and what less costs.

The exact Krylov dimension (theory A4; A5 for a log of features) beside the float64 errors of every smaller context
(theory A6) and the registers of the alternatives (theory A9).
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from constructions.errors import BadInput
from numerics.feature_logs import FeatureTask, feature_dimension
from numerics.logs import Log, Reading
from numerics.temporal_difference.dimension import KrylovDimension, krylov_dimension
from numerics.temporal_difference.projection import Compression, compress
from numerics.temporal_difference.registers import Registers, count_registers, kib, sparse_model

from .plots import BLUE, GREY, ORANGE, figure_to_svg
from .recommend import recommendation, render_recommendation, tolerance_of

_SHOWN = 12  # rows of the error table; the result holds all of them

REGISTERS = {
    "context": "exact context, (2n + 1) k",
    "context_with_query": "exact context and a query, (2n + 1)(k + 1)",
    "statistics": "dense statistics, n² + 2n",
    "sparse": "sparse learner, 2 nnz + 4n + 1",
    "raw": "raw log, 3N",
    "feature_context": "exact context, (2d + 1) k",
    "feature_context_with_query": "exact context and a query, (2d + 1)(k + 1)",
    "feature_statistics": "statistics A and b, d² + d",
    "feature_raw": "raw log, (2d + 1) N",
}
"""What the keys of a result's "registers" stand for."""


def analyse_context(log: Log, depth: int, seed: int, tolerance: str | None = None) -> dict[str, Any]:
    """Measure what a log needs.

    Args:
        log: as read by `numerics.logs.read_log`.
        depth: L >= 1, the deepest iterate wanted.
        seed: of the primes that bound the Krylov dimension from below.
        tolerance: the error allowed, as text; None for no recommendation.

    Returns:
        Plain ints, floats, strings, lists and dicts, ready for JSON. Lists under "errors" have one entry per context
        size m = 0..k. Registers are counted as in `numerics.temporal_difference.registers`.

    Raises:
        BadInput: the depth is below 1, a mean reward is beyond float64, or a tolerance that is not positive.
    """
    task = log.task
    allowed = None if tolerance is None else tolerance_of(tolerance)
    dimension = krylov_dimension(task, depth, seed)
    A, r = sparse_model(task)
    k = dimension.value
    errors = compress(A, r, depth, k)
    registers = count_registers(task, k)
    return {
        "file": log.file,
        "reading": _reading(log.reading),
        "transitions": task.transitions,
        "states": task.n,
        "terminal_transitions": task.terminal_transitions,
        "unvisited_states": 0,  # `read_log` refuses a log with any
        **_setting(task.discount, depth),
        "krylov": _krylov(dimension),
        "errors": _errors(errors, k),
        "successor_pairs": registers.nnz,
        "registers": _registers(registers),
        **({} if allowed is None else {"recommendation": recommendation(task, depth, allowed, k)}),
    }


def analyse_features(task: FeatureTask, depth: int, seed: int, step: Fraction | None = None) -> dict[str, Any]:
    """Measure what batch TD on a log of features needs.

    Args:
        task: as read by `numerics.feature_logs.read_features`.
        depth: L >= 1, the deepest iterate wanted.
        seed: recorded; the dimension is exact and draws nothing.
        step: a, public; if None the largest power of 2 that is at most 1 / |A|_inf. It changes the errors, not the
            dimension.

    Returns:
        As `analyse_context`, with "features" (d) and "step" in place of the states.

    Raises:
        BadInput: the depth is below 1, or the weights leave float64.
    """
    dimension = feature_dimension(task, depth)
    step = usual_step(task) if step is None else step
    k, d = dimension.value, task.d
    try:
        M = np.array([[float((i == j) - step * x) for j, x in enumerate(row)] for i, row in enumerate(task.A)])
        with np.errstate(over="ignore", invalid="ignore"):
            errors = compress(M, np.array([float(step * x) for x in task.b]), depth, k)
    except OverflowError:
        errors = None
    if errors is None or not np.isfinite([errors.scale, *errors.projection, *errors.truncation]).all():
        raise BadInput(
            f"step: expected one for which the weights stay within float64 up to depth {depth}, found {step}"
        )
    counts = {
        "feature_context": (2 * d + 1) * k,
        "feature_context_with_query": (2 * d + 1) * (k + 1),
        "feature_statistics": d * d + d,
        "feature_raw": (2 * d + 1) * task.transitions,
    }
    return {
        "file": task.name,
        "reading": _reading(task.reading),
        "transitions": task.transitions,
        "features": d,
        "terminal_transitions": task.terminal_transitions,
        "step": str(step),
        **_setting(task.discount, depth),
        "krylov": {**_krylov(dimension), "seed": seed},
        "errors": _errors(errors, k),
        "registers": {name: {"registers": n, "kib_float32": kib(n)} for name, n in counts.items()},
    }


def exact_step(text: str | None) -> Fraction | None:
    """A step as written, such as "1/100" or "0.01"; None for the usual one.

    Raises:
        BadInput: no positive number.
    """
    if text is None:
        return None
    try:
        step = Fraction(text) if len(text) <= 100 and "e" not in text.lower() else None
    except (ValueError, ZeroDivisionError):
        step = None
    if step is None or step <= 0:
        raise BadInput(f"step: expected a positive number such as 1/100, found {text}")
    return step


def usual_step(task: FeatureTask) -> Fraction:
    """The largest power of 2 that is at most 1 / |A_N|_inf; 1 if A_N is zero."""
    norm = max(sum((abs(x) for x in row), Fraction(0)) for row in task.A)
    if norm == 0:
        return Fraction(1)
    exponent = norm.denominator.bit_length() - norm.numerator.bit_length()
    step = Fraction(2) ** (exponent + 1)
    while step * norm > 1:
        step /= 2
    return step


def result_name(result: dict[str, Any]) -> str:
    """The name under which a result is stored: the first file's, and how many more there are."""
    more = result["reading"]["files"] - 1
    first = result["file"].removesuffix(f" and {more} more") if more else result["file"]
    return Path(first).stem + (f"-and-{more}-more" if more else "")


def _reading(how: Reading) -> dict[str, Any]:
    return {"files": how.files, "seconds": how.seconds, "engine": how.engine}


def _setting(discount: Fraction, depth: int) -> dict[str, Any]:
    return {
        "discount": f"{discount.numerator}/{discount.denominator}",
        "discount_float": float(discount),
        "depth": depth,
    }


def _krylov(dimension: KrylovDimension) -> dict[str, Any]:
    return {
        "dimension": dimension.value,
        "method": dimension.method,
        "evidence": dimension.evidence,
        "failure_probability": str(dimension.failure),
        "failure_probability_float": float(dimension.failure),
        "primes": list(dimension.primes),
        "seed": dimension.seed,
    }


def _errors(errors: Compression, k: int) -> dict[str, Any]:
    return {
        "m": list(range(k + 1)),
        "projection": errors.projection.tolist(),
        "projection_relative": errors.relative(errors.projection).tolist(),
        "truncation": errors.truncation.tolist(),
        "truncation_relative": errors.relative(errors.truncation).tolist(),
        "largest_value": errors.scale,
        "arithmetic": "float64, observed",
    }


def _registers(counted: Registers) -> dict[str, Any]:
    counts = {
        "context": counted.context,
        "context_with_query": counted.context_with_query,
        "statistics": counted.statistics,
        "sparse": counted.sparse,
        "raw": counted.raw,
    }
    entries: dict[str, Any] = {name: {"registers": n, "kib_float32": kib(n)} for name, n in counts.items()}
    entries["sparse"]["parts"] = counted.sparse_parts
    return entries


def render_context(result: dict[str, Any], console: Console) -> None:
    """Print a result of `analyse_context` or `analyse_features` as three tables: the log, the errors, the memory."""
    krylov, errors = result["krylov"], result["errors"]
    facts = Table(title=f"Context of {escape(result['file'])}", show_header=False)
    how = result["reading"]
    files = "1 file" if how["files"] == 1 else f"{how['files']:,} files"
    facts.add_row("read", f"{files} in {how['seconds']:.2f} s ({how['engine']})")
    facts.add_row("transitions", f"{result['transitions']:,} ({result['terminal_transitions']:,} terminal)")
    if "features" in result:
        facts.add_row("features", f"{result['features']:,}")
        facts.add_row("step", result["step"])
    else:
        facts.add_row("states", f"{result['states']:,}, all visited")
    facts.add_row("discount", f"{result['discount']} = {result['discount_float']:.6g}")
    facts.add_row("depth", str(result["depth"]))
    facts.add_row("Krylov dimension", f"{krylov['dimension']} ({krylov['method']}: {krylov['evidence']})")
    if krylov["failure_probability_float"]:
        bound = f"at most {krylov['failure_probability_float']:.1e} over primes drawn with seed {krylov['seed']}"
        facts.add_row("failure probability", bound)
    console.print(facts)

    entries = "weights" if "features" in result else "states"
    table = Table(title=f"Worst error over depths and {entries}, float64, relative to the largest value")
    for heading in ("vectors m", "projection", "truncation"):
        table.add_column(heading, justify="right")
    for m in _spread(krylov["dimension"]):
        cells = (errors["projection_relative"][m], errors["truncation_relative"][m])
        table.add_row(str(m), *(f"{x:.2e}" for x in cells))
    console.print(table)

    memory = Table(title="Retained memory")
    for heading in ("kept", "registers", "KiB (float32)"):
        memory.add_column(heading, justify="left" if heading == "kept" else "right")
    for key, entry in result["registers"].items():
        memory.add_row(REGISTERS[key], f"{entry['registers']:,}", f"{entry['kib_float32']:,.2f}")
    console.print(memory)
    if "recommendation" in result:
        render_recommendation(result["recommendation"], console)


def _spread(k: int) -> list[int]:
    """At most `_SHOWN` sizes out of 0..k, evenly spread, both ends and k - 1 included."""
    if k < _SHOWN:
        return list(range(k + 1))
    return sorted({round(i * k / (_SHOWN - 2)) for i in range(_SHOWN - 1)} | {k - 1})


def context_plot(result: dict[str, Any]) -> str:
    """Relative error against context size, logarithmic, as one self-contained SVG element.

    Errors that are zero have no place on the axis and are left out. The same result gives the same text.
    """
    errors = result["errors"]
    title = f"{result['file']}, depth {result['depth']}"

    def draw(figure: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        axes = figure.add_subplot()
        for scheme, marker, colour in (("projection", "o", BLUE), ("truncation", "s", ORANGE)):
            points = [(m, e) for m, e in zip(errors["m"], errors[f"{scheme}_relative"], strict=True) if e > 0]
            axes.plot(
                [m for m, _ in points], [e for _, e in points], marker=marker, markersize=3, color=colour, label=scheme
            )
        axes.axvline(result["krylov"]["dimension"], color=GREY, linestyle=":", label="Krylov dimension")
        if max(errors["projection"] + errors["truncation"]) > 0:
            axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("context vectors m")
        axes.set_ylabel("worst error / largest value")
        axes.set_title(title, parse_math=False)
        axes.legend()

    return figure_to_svg(draw, (7, 4), f"Error against context size: {title}")
