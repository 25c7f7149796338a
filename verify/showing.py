"""`verify show`: one theorem's construction as a document, read off the built object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from constructions.layers import Head, LinearAttention, Repeat
from constructions.normalised_attention import NormalisedAttention, NormalisedHead, Score
from constructions.parallel import Parallel
from constructions.program import Program

from .row import Options, Row


def shown_document(row: Row, states: int, depth: int, options: Options, actions: int | None = None) -> dict[str, Any]:
    """Layout, heads by block, matrices by block, claims, assumptions and task class, ready for JSON."""
    construction = row.shown(states, depth, actions).construction
    program = construction.program
    claims = row.claims(options)
    assumptions = dict.fromkeys((*construction.assumptions, *(a for claim in claims for a in claim.assumptions)))
    return {
        "theorem": row.theorem,
        "title": row.title,
        "source": row.source,
        "docs": row.docs,
        "task_class": {"name": construction.task_class.name, "statement": construction.task_class.statement},
        "sizes": dict(construction.sizes),
        "built": construction.source,
        "layout": dict(program.layout.widths),
        "width": program.width,
        "attention_layers": program.attention_layers,
        "heads": len(program.heads),
        "program": str(program),
        "matrices": block_matrices(program),
        "claims": [
            {
                "claim": claim.name,
                "statement": claim.statement,
                "scope": claim.scope,
                "assurance": str(claim.assurance),
                "assumptions": list(claim.assumptions),
            }
            for claim in claims
        ],
        "assumptions": list(assumptions),
    }


def block_matrices(program: Program) -> list[dict[str, Any]]:
    """P, Q and M of every attention layer by block, heads with equal value, output, routes and mixing as one."""
    out = []
    for layer in attention_layers(program.layers):
        if isinstance(layer, NormalisedAttention):
            out += [_normalised(layer, head) for head in layer.heads]
            continue
        for heads in layer.merged():
            first = heads[0]
            out.append(
                {
                    "layer": layer.label,
                    "heads": [str(head) for head in heads],
                    "P": f"E_{first.out}' E_{first.value}",
                    "Q": _sum(heads),
                    "M": str(first.mixing) if first.mixing else "I",
                    "routes": [str(route) for route in first.routes],
                }
            )
    return out


def _normalised(layer: NormalisedAttention, head: NormalisedHead) -> dict[str, Any]:
    terms = [f"{'' if move.scale == 1 else f'{move.scale} '}E_{move.out}' E_{move.value}" for move in head.moves]
    return {
        "layer": layer.label,
        "heads": [f"{layer.kind} {head}"],
        "P": " + ".join(terms),
        "Q": _sum(head.scores) or "0",
        "M": "I",
        "routes": [str(route) for route in head.routes],
    }


def _sum(terms: Sequence[Head | Score]) -> str:
    """Q, the sum of sign E_key' W' E_query."""
    parts = [
        f"{'+' if t.sign > 0 else '-'} E_{t.key}' {f'{t.weight.T} ' if t.weight else ''}E_{t.query}" for t in terms
    ]
    return " ".join(parts).removeprefix("+ ")


def attention_layers(layers: Any) -> list[LinearAttention | NormalisedAttention]:
    """The attention layers as written, parallel ones one after another; a repeated one once."""
    out: list[LinearAttention | NormalisedAttention] = []
    for layer in layers:
        if isinstance(layer, Repeat):
            out += attention_layers(layer.layers)
        elif isinstance(layer, Parallel):
            out += attention_layers([replace(inner, label=layer.label) for inner in layer.layers])
        elif isinstance(layer, LinearAttention | NormalisedAttention):
            out.append(layer)
    return out


def pictured_document(row: Row, options: Options, states: int = 3, depth: int = 3) -> dict[str, Any]:
    """`shown_document` with block pictures of its matrices, for the report."""
    from .pictures import layer_pictures

    shown = row.show(states, depth)
    pictures = layer_pictures(shown.construction.program, shown.counts)
    return {**shown_document(row, states, depth, options), "pictures": pictures}
