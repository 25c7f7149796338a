"""`verify show`: one theorem's construction as a document, read off the built object."""

from __future__ import annotations

from typing import Any

from constructions.layers import Head, LinearAttention, Repeat
from constructions.program import Program

from .row import Options, Row


def shown_document(row: Row, states: int, depth: int, options: Options) -> dict[str, Any]:
    """Layout, heads by block, matrices by block, claims, assumptions and task class, ready for JSON."""
    shown = row.show(states, depth)
    construction = shown.construction
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
        for heads in layer.merged():
            first = heads[0]
            Q = " ".join(f"{'+' if h.sign > 0 else '-'} E_{h.key}' {_weight(h)}E_{h.query}" for h in heads)
            out.append(
                {
                    "layer": layer.label,
                    "heads": [str(head) for head in heads],
                    "P": f"E_{first.out}' E_{first.value}",
                    "Q": Q.removeprefix("+ "),
                    "M": str(first.mixing) if first.mixing else "I",
                    "routes": [str(route) for route in first.routes],
                }
            )
    return out


def _weight(head: Head) -> str:
    return f"{head.weight.T} " if head.weight else ""


def attention_layers(layers: Any) -> list[LinearAttention]:
    """The attention layers as written; a repeated one once."""
    out: list[LinearAttention] = []
    for layer in layers:
        if isinstance(layer, Repeat):
            out += attention_layers(layer.layers)
        elif isinstance(layer, LinearAttention):
            out.append(layer)
    return out


def pictured_document(row: Row, options: Options, states: int = 3, depth: int = 3) -> dict[str, Any]:
    """`shown_document` with block pictures of its matrices, for the report."""
    from .pictures import layer_pictures

    shown = row.show(states, depth)
    pictures = layer_pictures(shown.construction.program, shown.counts)
    return {**shown_document(row, states, depth, options), "pictures": pictures}
