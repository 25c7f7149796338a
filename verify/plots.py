"""Plots as self-contained SVG elements: errors with their bounds, the source's figures beside ours.

The same input gives the same text. Ink is `currentColor` and the ground transparent, so that a plot follows the page
that it stands in. Matplotlib is imported when the first plot is drawn.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

INK = "#010203"
"""Stands for `currentColor`, which matplotlib does not know; a plot must not use this colour for anything else."""
BLUE, ORANGE, GREY = "#2f80c3", "#d55e00", "#8a8f98"

_STYLE = {
    "svg.hashsalt": "contextproof",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}
_BARE = {"Date": None, "Creator": None, "Format": None, "Type": None}
_REFERENCE = re.compile(r'( id="| xlink:href="#|url\(#)')


def figure_to_svg(draw: Callable[[Any], None], size: tuple[float, float], title: str) -> str:
    """Draw on a new figure and return it as one SVG element, without prolog, dates or outside references.

    Args:
        draw: fills the figure; colours of text and axes are already those of the page.
        size: width and height in inches.
        title: for readers who do not see the plot.

    Returns:
        The element; its ids begin with a digest of its content, so that several can stand in one page.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        figure.savefig(buffer, format="svg", metadata=_BARE)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    text = _REFERENCE.sub(rf"\g<1>p{digest}-", text)
    start, body = text.split(">", 1)
    return f'{start} class="plot" role="img">\n <title>{escape(title)}</title>{body}'


@dataclass(frozen=True)
class Decades:
    """A logarithmic axis on which zero, and what is not finite, have places of their own beyond the ends."""

    low: int
    high: int
    zero: bool
    beyond: bool

    @staticmethod
    def covering(values: Iterable[float]) -> Decades:
        """The decades that hold some non-negative values."""
        given = list(values)
        exponents = [math.log10(x) for x in given if 0 < x < math.inf]
        low = math.floor(min(exponents, default=0))
        high = max(math.ceil(max(exponents, default=0)), low + 1)
        return Decades(low, high, 0 in given, any(not math.isfinite(x) for x in given))

    @property
    def _gap(self) -> float:
        return max(0.6, (self.high - self.low) / 10)

    def place(self, value: float) -> float:
        """Where a value stands: its decimal logarithm, or the mark of zero or of what is not finite."""
        if value == 0:
            return self.low - self._gap
        return math.log10(value) if math.isfinite(value) else self.high + self._gap

    def prepare(self, axes: Any) -> None:
        """Ticks, limits and the marks of zero and infinity on the x axis."""
        step = max(1, math.ceil((self.high - self.low) / 8))
        ticks = {float(e): f"1e{e}" if abs(e) > 2 else f"{10.0**e:g}" for e in range(self.low, self.high + 1, step)}
        marks = {}
        if self.zero:
            marks[self.place(0)] = "0"
        if self.beyond:
            marks[self.place(math.inf)] = "not finite"
        for mark in marks:
            axes.axvline(mark, color=GREY, linewidth=0.8, linestyle=(0, (2, 2)))
        ticks |= marks
        axes.set_xticks(list(ticks), list(ticks.values()))
        margin = 0.04 * (max(ticks) - min(ticks))
        axes.set_xlim(min(self.low, *ticks) - margin, max(self.high, *ticks) + margin)
        axes.grid(axis="x")


def number(value: Any) -> float | None:
    """A JSON number, or a text that stands for one that is not finite, as a float; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    return float(value) if value in ("inf", "-inf", "nan") else None


def error_plot(measurements: Sequence[Mapping[str, Any]]) -> str:
    """Absolute error per arithmetic, a panel per theorem, the bound as a tick on the same line; "" without errors.

    Zero stands at a marked floor; a violated bound is drawn as a cross. Several tasks in one arithmetic stand one
    below the other.
    """
    drawn = [m for m in measurements if number(m["error"]["absolute"]) is not None]
    if not drawn:
        return ""
    panels: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for m in drawn:
        panels.setdefault(m["theorem"], {}).setdefault(m["arithmetic"], []).append(m)
    errors = [number(m["error"]["absolute"]) for m in drawn]
    bounds = [b for m in drawn if (b := number(m["bound"])) is not None and math.isfinite(b)]
    scale = Decades.covering([*(e for e in errors if e is not None), *bounds])

    def draw(figure: Any) -> None:
        heights = [_height(rows) for rows in panels.values()]
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
        for axes, (theorem, rows) in zip(grid[:, 0], panels.items(), strict=True):
            scale.prepare(axes)
            _draw_errors(axes, rows, scale)
            if len(panels) > 1:
                axes.set_title(theorem, loc="left", parse_math=False)
        grid[-1, 0].set_xlabel("absolute error")
        _legend(figure, grid[:, 0])

    height = 0.9 + sum(_height(rows) + 0.25 for rows in panels.values())
    return figure_to_svg(draw, (7.5, height), f"Absolute errors and bounds: {', '.join(panels)}")


def audit_plot(rows: Sequence[Mapping[str, Any]]) -> str:
    """Largest error of each audit row beside its running bound, a panel per variant, a band per format and model."""
    drawn = [
        {
            "theorem": row["variant"],
            "arithmetic": f"{row['format']}, {row['model']}",
            "error": {"absolute": row["error"]["absolute"]["max"]},
            "bound": row["running_bound"],
            "sound": row["sound"] is not False,
        }
        for row in rows
    ]
    return error_plot(drawn)


def _height(rows: Mapping[str, Sequence[Any]]) -> float:
    """Inches for the lines of a panel."""
    return sum(0.17 + 0.11 * len(row) for row in rows.values())


def _draw_errors(axes: Any, rows: Mapping[str, Sequence[Mapping[str, Any]]], scale: Decades) -> None:
    """One band per arithmetic, one line per measurement in it."""
    y, middles = 0.0, []
    for row in rows.values():
        start = y
        for m in row:
            error, bound = number(m["error"]["absolute"]), number(m["bound"])
            assert error is not None
            x = scale.place(error)
            if bound is not None and math.isfinite(bound):
                b = scale.place(bound)
                axes.plot([x, b], [y, y], color=GREY, linewidth=0.8, zorder=1)
                axes.plot([b], [y], "|", color=INK, markersize=7, label="bound")
            if m["sound"]:
                axes.plot([x], [y], "o", color=BLUE, markersize=4, label="error observed")
            else:
                axes.plot([x], [y], "X", color=ORANGE, markersize=7, label="error observed, bound violated")
            y += 0.11
        middles.append((start + y - 0.11) / 2)
        y += 0.17
    axes.set_yticks(middles, [_shortened(name) for name in rows], parse_math=False)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.11, -0.17)


def reproduction_plot(rows: Sequence[Mapping[str, Any]]) -> str:
    """The source's figure and ours on one line per row; "" where no row has both as numbers or ranges [lo, hi].

    The scale is logarithmic, with a mark for zero, unless a figure is negative or all are of one size.
    """
    drawn = [(row, source, ours) for row in rows if (source := _range(row["source"])) and (ours := _range(row["ours"]))]
    if not drawn:
        return ""
    values = [x for _, source, ours in drawn for x in (*source, *ours)]
    positive = [x for x in values if x > 0]
    logarithmic = min(values) >= 0 and bool(positive) and max(positive) > 50 * min(positive)
    scale = Decades.covering(values) if logarithmic else None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        if scale is not None:
            scale.prepare(axes)
        else:
            axes.grid(axis="x")
        for y, (row, source, ours) in enumerate(drawn):
            agrees = row["agrees"] is not False
            _draw_figure(axes, y - 0.13, source, scale, INK, "D", "none", "source")
            colour, label = (BLUE, "ours") if agrees else (ORANGE, "ours, does not agree")
            _draw_figure(axes, y + 0.13, ours, scale, colour, "o" if agrees else "X", colour, label)
        labels = [_shortened(", ".join(x for x in (str(r["quantity"]), str(r["setting"])) if x)) for r, _, _ in drawn]
        axes.set_yticks(range(len(drawn)), labels, parse_math=False)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(drawn) - 0.4, -0.6)
        _legend(figure, [axes])

    return figure_to_svg(draw, (7.5, 0.9 + 0.36 * len(drawn)), "The source's figures beside ours")


def _draw_figure(
    axes: Any, y: float, ends: Sequence[float], scale: Decades | None, colour: str, marker: str, face: str, label: str
) -> None:
    """A number as a mark, a range as a bar between two marks."""
    places = [scale.place(x) if scale is not None else x for x in ends]
    line = "-" if len(places) > 1 else "none"
    style = {"marker": marker, "color": colour, "markerfacecolor": face, "markersize": 5, "linestyle": line}
    axes.plot(places, [y] * len(places), label=label, **style)


def _range(value: Any) -> tuple[float, ...]:
    """One number, or the two ends of a range; empty for anything that is not finite or not a number."""
    parts = value if isinstance(value, (list, tuple)) and len(value) == 2 else [value]
    numbers = [number(x) for x in parts]
    finite = tuple(x for x in numbers if x is not None and math.isfinite(x))
    return finite if len(finite) == len(numbers) else ()


def _shortened(text: str, limit: int = 46) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _legend(figure: Any, panels: Iterable[Any]) -> None:
    """Each kind of mark once, above the plot."""
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside upper right", ncols=len(handles))
