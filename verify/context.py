"""`verify context`: how much context a recorded log needs for depth-L evaluation, and what less costs.

The exact Krylov dimension (theory A4) beside the float64 errors of every smaller context (theory A6) and the registers
of the alternatives (theory A9).
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from numerics.logs import Log
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.projection import compress
from numerics.temporal_difference.registers import Registers, count_registers, kib, sparse_model

from .plots import BLUE, GREY, ORANGE, figure_to_svg

_SHOWN = 12  # rows of the error table; the result holds all of them


def analyse_context(log: Log, depth: int, seed: int) -> dict[str, Any]:
    """Measure what a log needs.

    Args:
        log: as read by `numerics.logs.read_log`.
        depth: L >= 1, the deepest iterate wanted.
        seed: of the primes that bound the Krylov dimension from below.

    Returns:
        Plain ints, floats, strings, lists and dicts, ready for JSON. Lists under "errors" have one entry per context
        size m = 0..k. Registers are counted as in `numerics.temporal_difference.registers`.

    Raises:
        BadInput: the depth is below 1, or a mean reward is beyond float64.
    """
    task = log.task
    dimension = krylov_dimension(task, depth, seed)
    A, r = sparse_model(task)
    k = dimension.value
    errors = compress(A, r, depth, k)
    registers = count_registers(task, k)
    return {
        "file": log.file,
        "transitions": task.transitions,
        "states": task.n,
        "terminal_transitions": int(task.terminal.sum()),
        "unvisited_states": 0,  # `read_log` and `Task` refuse a log with any
        "discount": f"{task.discount.numerator}/{task.discount.denominator}",
        "discount_float": float(task.discount),
        "depth": depth,
        "krylov": {
            "dimension": k,
            "method": dimension.method,
            "evidence": dimension.evidence,
            "failure_probability": str(dimension.failure),
            "failure_probability_float": float(dimension.failure),
            "primes": list(dimension.primes),
            "seed": dimension.seed,
        },
        "errors": {
            "m": list(range(k + 1)),
            "projection": errors.projection.tolist(),
            "projection_relative": errors.relative(errors.projection).tolist(),
            "truncation": errors.truncation.tolist(),
            "truncation_relative": errors.relative(errors.truncation).tolist(),
            "largest_value": errors.scale,
            "arithmetic": "float64, observed",
        },
        "successor_pairs": registers.nnz,
        "registers": _registers(registers),
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
    """Print a result of `analyse_context` as three tables: the log, the errors, the memory."""
    krylov, errors = result["krylov"], result["errors"]
    facts = Table(title=f"Context of {escape(result['file'])}", show_header=False)
    facts.add_row("transitions", f"{result['transitions']:,} ({result['terminal_transitions']:,} terminal)")
    facts.add_row("states", f"{result['states']:,}, all visited")
    facts.add_row("discount", f"{result['discount']} = {result['discount_float']:.6g}")
    facts.add_row("depth", str(result["depth"]))
    facts.add_row("Krylov dimension", f"{krylov['dimension']} ({krylov['method']}: {krylov['evidence']})")
    if krylov["failure_probability_float"]:
        bound = f"at most {krylov['failure_probability_float']:.1e} over primes drawn with seed {krylov['seed']}"
        facts.add_row("failure probability", bound)
    console.print(facts)

    table = Table(title="Worst error over depths and states, float64, relative to the largest value")
    for heading in ("vectors m", "projection", "truncation"):
        table.add_column(heading, justify="right")
    for m in _spread(krylov["dimension"]):
        cells = (errors["projection_relative"][m], errors["truncation_relative"][m])
        table.add_row(str(m), *(f"{x:.2e}" for x in cells))
    console.print(table)

    memory = Table(title="Retained memory")
    for heading in ("kept", "registers", "KiB (float32)"):
        memory.add_column(heading, justify="left" if heading == "kept" else "right")
    names = {
        "context": "exact context, (2n+1)k",
        "context_with_query": "... and a query, (2n+1)(k+1)",
        "statistics": "dense statistics, n^2 + 2n",
        "sparse": "sparse learner, 2 nnz + 4n + 1",
        "raw": "raw log, 3N",
    }
    for key, name in names.items():
        entry = result["registers"][key]
        memory.add_row(name, f"{entry['registers']:,}", f"{entry['kib_float32']:,.2f}")
    console.print(memory)


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
