"""Block pictures: P, Q and the mask R of every head of an attention layer, as small SVG elements.

P and Q are drawn with the fields of the layout along both axes, R with the token kinds. An entry is a filled square:
blue where positive, orange with a bar through it where negative, purple where the sign depends on a symbol.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import sympy as sp

from constructions.dense import dense_heads, dense_normalised
from constructions.errors import BadInput
from constructions.layers import Head, Layer, LinearAttention, Release, Repeat, Route
from constructions.layout import Layout, is_concrete
from constructions.normalised_attention import NormalisedAttention, NormalisedHead, Score
from constructions.parallel import Parallel
from constructions.program import Program

COLOURS = {"positive": "#2f80c3", "negative": "#d55e00", "other": "#b05a98"}
"""Told apart with every common form of colour blindness, on white and on black."""

_SIDE, _SMALLEST, _LARGEST = 150, 5, 15  # wanted side of a grid, and bounds on a cell, in pixels
_LETTER = 5.6  # width of a letter of a label, in pixels


@dataclass(frozen=True)
class Shown:
    """An attention layer as it occurs in a program.

    Attributes:
        label: its label, or its place among the attention layers.
        layer: the heads.
        counts: tokens of each kind that are there when it runs.
        times: how often it runs.
        alike: labels of the layers that have the same heads at other places, and are not drawn.
    """

    label: str
    layer: LinearAttention | NormalisedAttention
    counts: Mapping[str, int]
    times: int = 1
    alike: tuple[str, ...] = ()


def attention_layers(program: Program, counts: Mapping[str, int]) -> list[Shown]:
    """Every attention layer as written (a repeated one once), with the tokens it sees: released kinds are gone.

    Raises:
        BadInput: a width or a number of repetitions that is a symbol, or a kind on a route without a count.
    """
    if not is_concrete(*program.layout.widths.values()):
        raise BadInput(f"{program.name}: expected concrete widths to draw, found {program.layout}")
    routed = {span.kind for head in program.heads for route in head.routes for span in (route.source, route.target)}
    missing = sorted(routed - set(counts))
    if missing:
        raise BadInput(f"{program.name}: expected a count for every routed kind, found none for {', '.join(missing)}")
    ordered = {kind: counts[kind] for kind in program.kinds if kind in counts}
    found = [Shown(layer.label, layer, now, times) for layer, now, times in _walk(program.layers, ordered, 1)]
    return [shown if shown.label else replace(shown, label=f"layer {i + 1}") for i, shown in enumerate(found)]


def _walk(layers: Sequence[Layer], counts: dict[str, int], times: int) -> Iterator[tuple[Any, dict[str, int], int]]:
    """Attention layers with the counts before them; `counts` loses the kinds that are released."""
    for layer in layers:
        if isinstance(layer, Repeat):
            if not is_concrete(layer.times):
                raise BadInput(f"pictures: expected a concrete number of repetitions, found {layer.times}")
            yield from _walk(layer.layers, counts, times * layer.times)
        elif isinstance(layer, Parallel):
            yield from _walk([replace(inner, label=layer.label) for inner in layer.layers], counts, times)
        elif isinstance(layer, LinearAttention | NormalisedAttention):
            yield layer, dict(counts), times
        elif isinstance(layer, Release) and layer.gate is None:
            counts.pop(layer.kind, None)


def representative_layers(program: Program, counts: Mapping[str, int]) -> list[Shown]:
    """The layers worth drawing: one for all whose heads differ in the places of their spans only.

    A layer joins those already met if one of them has all its heads, up to spans. Of layers with exactly the same
    heads the one that reaches most tokens is drawn (the last Gram-Schmidt pass, say), at the place of the first.
    """
    groups: list[tuple[frozenset, list[Shown]]] = []
    for shown in attention_layers(program, counts):
        own = _heads_up_to_spans(shown.layer)
        for heads, members in groups:
            if own <= heads:
                members.append(shown)
                break
        else:
            groups.append((own, [shown]))
    out = []
    for heads, members in groups:
        best = max((m for m in members if _heads_up_to_spans(m.layer) == heads), key=_reach)
        out.append(replace(best, alike=tuple(m.label for m in members if m is not best)))
    return out


def _heads_up_to_spans(layer: LinearAttention | NormalisedAttention) -> frozenset:
    """What a layer does, without saying at which places: selectors, sign, kinds and the form of the routes."""
    routes = [frozenset((r.source.kind, r.target.kind, r.same, r.causal) for r in head.routes) for head in layer.heads]
    return frozenset((str(head), among) for head, among in zip(layer.heads, routes, strict=True))


def _reach(shown: Shown) -> int:
    """How many pairs of tokens the layer's heads connect."""
    kinds = shown.counts
    pairs = 0
    for head in shown.layer.heads:
        for route in head.routes:
            sources, targets = route.source.size(kinds[route.source.kind]), route.target.size(kinds[route.target.kind])
            pairs += sources if route.same else sources * targets
    return pairs


def layer_pictures(
    program: Program, counts: Mapping[str, int], layers: Sequence[Shown] | None = None
) -> list[dict[str, Any]]:
    """Draw the heads of some layers of a program.

    Args:
        program: at concrete sizes.
        counts: number of tokens of each kind at the start.
        layers: which ones; `representative_layers` by default, `attention_layers` for all.

    Returns:
        Per layer ``{"label", "times", "alike", "heads"}``; per head, those that are one as matrices merged,
        ``{"text", "formulas": {"P", "Q", "R"}, "svgs": {"P", "Q", "R"}}``, and "M" too where values are mixed.

    Raises:
        BadInput: as for `attention_layers`.
    """
    chosen = representative_layers(program, counts) if layers is None else layers
    return [
        {"label": s.label, "times": s.times, "alike": list(s.alike), "heads": _draw_heads(s, program.layout)}
        for s in chosen
    ]


def _draw_heads(shown: Shown, layout: Layout) -> list[dict[str, Any]]:
    counts = dict(shown.counts)
    fields = dict(layout.widths)
    if isinstance(shown.layer, NormalisedAttention):
        return [
            _draw_normalised(dense, head, shown, fields)
            for dense, head in zip(dense_normalised(shown.layer, layout, counts), shown.layer.heads, strict=True)
        ]
    matrices = dense_heads(shown.layer, layout, counts)
    out = []
    for dense, heads in zip(matrices, shown.layer.merged(), strict=True):
        first = heads[0]
        formulas = {"P": f"E_{first.out}′ E_{first.value}", "Q": _sum(heads), "R": _text(first.routes)}
        svgs = {
            "P": grid_svg(dense.P, fields, fields, f"P of {shown.label}: {formulas['P']}"),
            "Q": grid_svg(dense.Q, fields, fields, f"Q of {shown.label}: {formulas['Q']}"),
            "R": grid_svg(dense.R, counts, counts, f"mask R of {shown.label}: {formulas['R']}"),
        }
        if dense.M is not None:
            formulas["M"] = str(first.mixing)
            svgs["M"] = grid_svg(dense.M, counts, counts, f"mixing M of {shown.label}: {formulas['M']}")
        offered = first.value if first.mixing is None else f"{first.value} {first.mixing}"
        text = f"{first.out} gains {offered}, scored by {_scores(heads)}"
        out.append({"text": text, "formulas": formulas, "svgs": svgs})
    return out


def _draw_normalised(dense: Any, head: NormalisedHead, shown: Shown, fields: dict[str, int]) -> dict[str, Any]:
    gains = " and ".join(f"{'' if m.scale == 1 else f'{m.scale} '}{m.value} to {m.out}" for m in head.moves)
    terms = [f"{'' if m.scale == 1 else f'{m.scale} '}E_{m.out}′ E_{m.value}" for m in head.moves]
    formulas = {"P": " + ".join(terms), "Q": _sum(head.scores) or "0", "R": _text(head.routes)}
    svgs = {
        "P": grid_svg(dense.P, fields, fields, f"P of {shown.label}: {formulas['P']}"),
        "Q": grid_svg(dense.Q, fields, fields, f"Q of {shown.label}: {formulas['Q']}"),
        "R": grid_svg(dense.R, shown.counts, shown.counts, f"mask R of {shown.label}: {formulas['R']}"),
    }
    text = f"moves {gains} by the {getattr(shown.layer, 'kind', '')} of {_scores(head.scores) or '0'}"
    return {"text": text, "formulas": formulas, "svgs": svgs}


def _sum(heads: Sequence[Head | Score]) -> str:
    terms = [f"{'−' if h.sign < 0 else ''}E_{h.key}′ {f'{h.weight.T} ' if h.weight else ''}E_{h.query}" for h in heads]
    return " + ".join(terms).replace("+ −", "− ").replace("'", "′")


def _scores(heads: Sequence[Head | Score]) -> str:
    terms = [f"{'−' if h.sign < 0 else ''}⟨{f'{h.weight} ' if h.weight else ''}{h.key}, {h.query}⟩" for h in heads]
    return " + ".join(terms).replace("+ −", "− ")


def _text(routes: Sequence[Route]) -> str:
    return ", ".join(map(str, routes)).replace("=>", "⇒").replace("->", "→").replace(">>", "↠")


def grid_svg(matrix: sp.MatrixBase, rows: Mapping[str, int], columns: Mapping[str, int], title: str) -> str:
    """A sparse matrix as one self-contained SVG element, with named blocks along both axes; empty blocks are left out.

    Args:
        matrix: exact entries, of shape (sum of `rows`, sum of `columns`).
        rows: heights of the blocks by name.
        columns: widths of the blocks by name.
        title: what is drawn, for readers who do not see it.
    """
    rows, columns = ({name: size for name, size in blocks.items() if size} for blocks in (rows, columns))
    height, width = sum(rows.values()), sum(columns.values())
    cell = max(_SMALLEST, min(_LARGEST, _SIDE // max(height, width, 1)))
    left = 8 + _LETTER * max(map(len, rows), default=0)
    upright = any(_LETTER * len(name) > size * cell for name, size in columns.items())
    top = 8 + (_LETTER * max(map(len, columns), default=0) if upright else 8)
    right, bottom = left + width * cell, top + height * cell
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="grid" role="img" width="{right + 2:g}" '
        f'height="{bottom + 2:g}" viewBox="0 0 {right + 2:g} {bottom + 2:g}" font-family="sans-serif" font-size="10">',
        f"<title>{escape(title)}</title>",
        *_cells(matrix, left, top, cell),
        *_boundaries(rows, columns, left, top, cell),
        '<g fill="currentColor">',
    ]
    for name, middle in _middles(rows):
        parts.append(
            f'<text x="{left - 4:g}" y="{top + middle * cell + 3.5:g}" text-anchor="end">{escape(name)}</text>'
        )
    for name, middle in _middles(columns):
        x = left + middle * cell
        if upright:
            turn = f'transform="translate({x + 3.5:g} {top - 4:g}) rotate(-90)"'
            parts.append(f"<text {turn}>{escape(name)}</text>")
        else:
            parts.append(f'<text x="{x:g}" y="{top - 5:g}" text-anchor="middle">{escape(name)}</text>')
    return "".join([*parts, "</g></svg>"])


def _middles(blocks: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    start = 0
    for name, size in blocks.items():
        yield name, start + size / 2
        start += size


def _cells(matrix: sp.MatrixBase, left: float, top: float, cell: int) -> list[str]:
    """One path per sign, bars on the negative entries, and a tooltip on every entry other than 1 and -1."""
    paths: dict[str, list[str]] = {name: [] for name in COLOURS}
    bars, titles = [], []
    for (i, j), value in sorted(matrix.todok().items()):
        sign = sp.sign(value)
        kind = "positive" if sign == 1 else "negative" if sign == -1 else "other"
        x, y = left + j * cell, top + i * cell
        paths[kind].append(f"M{x:g} {y:g}h{cell}v{cell}h-{cell}z")
        if kind == "negative":
            bars.append(f"M{x + cell / 4:g} {y + cell / 2:g}h{cell / 2:g}")
        if value not in (1, -1):
            titles.append(
                f'<rect x="{x:g}" y="{y:g}" width="{cell}" height="{cell}" fill="none" pointer-events="all">'
                f"<title>{escape(str(value))}</title></rect>"
            )
    filled = [f'<path fill="{COLOURS[kind]}" d="{"".join(path)}"/>' for kind, path in paths.items() if path]
    if bars:
        filled.append(f'<path stroke="#fff" stroke-width="{max(1, cell / 6):.2g}" d="{"".join(bars)}"/>')
    return filled + titles


def _boundaries(rows: Mapping[str, int], columns: Mapping[str, int], left: float, top: float, cell: int) -> list[str]:
    """A faint line for every token or coordinate, a clear one for every block, and a frame."""
    height, width = sum(rows.values()) * cell, sum(columns.values()) * cell
    fine = [f"M{left:g} {top + i * cell:g}h{width}" for i in range(1, sum(rows.values()))]
    fine += [f"M{left + j * cell:g} {top:g}v{height}" for j in range(1, sum(columns.values()))]
    clear = [f"M{left:g} {top + end * cell:g}h{width}" for end in _ends(rows)]
    clear += [f"M{left + end * cell:g} {top:g}v{height}" for end in _ends(columns)]
    frame = f"M{left:g} {top:g}h{width}v{height}h-{width}z"
    return [
        f'<path fill="none" stroke="currentColor" stroke-opacity=".12" stroke-width=".5" d="{"".join(fine)}"/>',
        f'<path fill="none" stroke="currentColor" stroke-opacity=".45" stroke-width=".8" d="{"".join(clear)}"/>',
        f'<path fill="none" stroke="currentColor" stroke-opacity=".8" d="{frame}"/>',
    ]


def _ends(blocks: Mapping[str, int]) -> list[int]:
    """Where a block ends and another begins."""
    ends, end = [], 0
    for size in list(blocks.values())[:-1]:
        end += size
        ends.append(end)
    return ends
