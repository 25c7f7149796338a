"""Figures that rows of a reproduction carry under "figure": lines, and a cover on the depth axis.

{"kind": "lines", "title", "x", "places": [..], "lines": {name: [..]}}    and, if wanted, "y", "scale": "linear"
{"kind": "cover", "title", "discount", "blocks": [[first, last], ..], "packing": [[first, beyond], ..], "error"}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .plots import BLUE, GREY, INK, ORANGE, figure_to_svg

STYLES = [("o", BLUE), ("s", ORANGE), ("^", "#2a9d6f"), ("v", "#b05a98"), ("D", "#c9a227"), ("P", "#5b6bbf")]
"""Marker and colour by place; a line called e* is dashed."""


def figures_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The SVG elements of all figures that the rows carry, in their order; unknown kinds are left out."""
    found = [row["figure"] for row in rows if isinstance(row.get("figure"), Mapping)]
    return [DRAWN[figure["kind"]](figure) for figure in found if figure.get("kind") in DRAWN]


def lines_plot(figure: Mapping[str, Any]) -> str:
    """Lines over common places; on logarithmic axes values that are not positive have no place and are left out."""
    scale = figure.get("scale", "log")

    def draw(canvas: Any) -> None:
        axes = canvas.add_subplot()
        styles = iter(STYLES * len(figure["lines"]))
        for name, values in figure["lines"].items():
            points = [
                (x, y) for x, y in zip(figure["places"], values, strict=True) if scale != "log" or (x > 0 and y > 0)
            ]
            xs, ys = [x for x, _ in points], [y for _, y in points]
            if name == "e*":
                axes.plot(xs, ys, color=INK, linestyle="--", linewidth=1, label=name)
            else:
                marker, colour = next(styles)
                axes.plot(xs, ys, marker=marker, markersize=3.5, linewidth=1, color=colour, label=name)
        axes.set_xscale(scale)
        axes.set_yscale(scale)
        axes.grid(which="major")
        axes.set_xlabel(figure["x"], parse_math=False)
        axes.set_ylabel(figure.get("y", "worst error"), parse_math=False)
        axes.set_title(figure["title"], parse_math=False)
        axes.legend(fontsize=8)

    return figure_to_svg(draw, (7, 4.2), figure["title"])


def cover_plot(figure: Mapping[str, Any]) -> str:
    """The powers g^j over the depths j as bars: blocks of the cover alternate in colour, packing intervals below.

    A block {a..b} weighs g^a + .. + g^{b-1}, the bars from a up to but not b; its last depth costs nothing.
    """
    g, blocks = float(figure["discount"]), figure["blocks"]
    depth = blocks[-1][1]

    def draw(canvas: Any) -> None:
        from matplotlib.patches import Patch

        axes = canvas.add_subplot()
        for s, (a, b) in enumerate(blocks):
            style = {"width": 1, "align": "edge", "color": GREY if s == 0 else (BLUE, ORANGE)[s % 2]}
            axes.bar([b], [g**b], alpha=0.35, **style)
            axes.bar(range(a, b), [g**j for j in range(a, b)], **style)
        for s, (a, b) in enumerate(figure["packing"]):
            y = -0.05 - 0.04 * (s % 2)
            axes.plot([a, b], [y, y], color=INK, marker="|", linewidth=1, label=None if s else "packing intervals")
        axes.set_xlim(-0.5, depth + 1.5)
        axes.set_xlabel("depth j; the weight of a block is its area in full colour")
        axes.set_ylabel("g to the power j")
        axes.set_title(f"{figure['title']}: error {figure['error']:.4g}", parse_math=False)
        named = ((GREY, "zero block"), (BLUE, "free blocks"), (ORANGE, "free blocks"))
        patches = [Patch(color=colour, label=name) for colour, name in named]
        axes.legend(handles=[*patches, *axes.get_legend_handles_labels()[0]], fontsize=8)

    return figure_to_svg(draw, (7, 3.2), figure["title"])


DRAWN = {"lines": lines_plot, "cover": cover_plot}
