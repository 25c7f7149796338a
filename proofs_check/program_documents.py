"""Programs as data: layers, with public matrices by their entries, for records that another program checks again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

from constructions.errors import Unsupported
from constructions.layers import Forget, Head, LinearAttention, Public, Release, Repeat, Tokenwise
from constructions.logarithms import Logarithms, LogNumber
from constructions.mlp import Mlp, Units
from constructions.normalised_attention import LinearMoves, NormalisedAttention, NormalisedHead
from constructions.parallel import Parallel
from constructions.tokens import Span

Record = dict[str, Any]


class Unrecorded(Exception):
    """No record is known for this object."""


def numbers(matrix: Any) -> list[list[str]]:
    """A matrix over Q or GF(p) as rows of texts; of formal logarithms as rows of `formal`."""
    return [[formal(x) for x in row] for row in matrix.tolist()]


def size_at(size: Any, sizes: Mapping[Any, int]) -> int:
    if isinstance(size, int):
        return size
    return int(sizes[size] if size in sizes else size.subs(sizes))


def program_document(layers: Sequence[Any], widths: Mapping[str, int], counts: Mapping[str, int]) -> list[Record]:
    """The layers as data; public matrices by their entries.

    Raises:
        Unrecorded: a layer, or a public matrix without entries, that has no document.
    """
    out: list[Record] = []
    for layer in layers:
        label = getattr(layer, "label", "")
        if isinstance(layer, LinearAttention):
            out.append({"label": label, "heads": [_head(head, widths, counts) for head in layer.heads]})
        elif isinstance(layer, NormalisedAttention):
            heads = [_normalised(layer, head, widths) for head in layer.heads]
            out.append({"label": label, "heads": heads})
        elif isinstance(layer, Parallel):
            parts = program_document(layer.layers, widths, counts)
            out.append({"label": label, "heads": [head for part in parts for head in part["heads"]]})
        elif isinstance(layer, Mlp):
            out.append({"label": label, "units": [_units(group, widths) for group in layer.groups]})
        elif isinstance(layer, Tokenwise) and layer.primitive in ("recip_0", "eq0", "relu"):
            document = {"tokenwise": layer.primitive, "span": _span(layer.span), "field": layer.field}
            out.append({"label": label, **document})
        elif isinstance(layer, Release):
            out.append({"label": label, "release": layer.kind, "gate": layer.gate})
        elif isinstance(layer, Forget):
            out.append({"label": label, "keep": list(layer.keep)})
        elif isinstance(layer, Repeat):
            out.append({"repeat": layer.times, "layers": program_document(layer.layers, widths, counts)})
        else:
            raise Unrecorded
    return out


def _head(head: Head, widths: Mapping[str, int], counts: Mapping[str, int]) -> Record:
    routes = [[_span(r.source), _span(r.target), _relation(r)] for r in head.routes]
    document: Record = {
        "sign": head.sign,
        "value": head.value,
        "key": head.key,
        "query": head.query,
        "out": head.out,
        "routes": routes,
    }
    if head.weight is not None:
        document["weight"] = _entries(head.weight, widths[head.query], widths[head.key])
    if head.mixing is not None and head.routes:
        span = head.routes[0].source
        size = span.size(counts[span.kind])
        # Tokens may have been released by then: one matrix for each number of them.
        document["mixing"] = {str(k): _entries(head.mixing, k, k) for k in range(1, size + 1)}
    for part, public in (("weight", head.weight), ("mixing", head.mixing)):
        if public is not None:
            document[f"{part} letter"] = [public.name, int(public.transposed)]
    return document


def _normalised(layer: NormalisedAttention, head: NormalisedHead, widths: Mapping[str, int]) -> Record:
    """`moves` of several fields, by the sum of several scores, weighed by `weights`; factors are matrices here."""
    moves: list[Record] = []
    for move in head.moves:
        factor = {} if move.scale == 1 else {"map": _scaled(None, move.scale, widths[move.out], widths[move.out])}
        moves.append({"value": move.value, "out": move.out, **factor})
    scores: list[Record] = []
    for term in head.scores:
        weight = {} if term.weight is None else {"weight": _entries(term.weight, widths[term.query], widths[term.key])}
        scores.append({"key": term.key, "query": term.query, "sign": term.sign, **weight})
    routes = [[_span(r.source), _span(r.target), _relation(r)] for r in head.routes]
    weights = "linear" if isinstance(layer, LinearMoves) else layer.kind
    return {"weights": weights, "moves": moves, "scores": scores, "routes": routes}


def _units(group: Units, widths: Mapping[str, int]) -> Record:
    """Fields with the matrices to and from the hidden units."""
    units = size_at(group.units, {})
    return {
        "reads": [[x.field, _scaled(x.weight, x.scale, units, widths[x.field])] for x in group.reads],
        "writes": [[x.field, _scaled(x.weight, x.scale, widths[x.field], units)] for x in group.writes],
    }


def _scaled(public: Public | None, factor: Any, rows: int, columns: int) -> list[list[Any]]:
    """A factor times a public matrix, or times the identity."""
    if public is None:
        return [[formal(factor if i == j else 0) for j in range(columns)] for i in range(rows)]
    if public.entries is None:
        raise Unrecorded
    return [
        [formal(x if factor == 1 else sp.sympify(factor) * sp.sympify(x)) for x in row]
        for row in public.rows(rows, columns)
    ]


def _relation(route: Any) -> str:
    if getattr(route, "causal", False):
        return "causal"
    return "same" if route.same else "full"


def _entries(public: Public, rows: int, columns: int) -> list[list[Any]]:
    return _scaled(public, 1, rows, columns)


def formal(x: Any) -> Any:
    """A number as text; with logarithms or symbols in it as terms [coefficient, [name, ..]].

    Raises:
        Unrecorded: a number that is no polynomial in logarithms of primes and symbols.
    """
    if isinstance(x, sp.Expr) and x.free_symbols:
        symbols = sorted(x.free_symbols, key=str)
        try:
            terms = sp.Poly(x, *symbols, domain="QQ").terms()
        except sp.PolynomialError:
            raise Unrecorded from None
        names = [
            ([s.name for s, e in zip(symbols, exponents, strict=True) for _ in range(e)], c) for exponents, c in terms
        ]
        return [[str(c), name] for name, c in names]
    if isinstance(x, sp.Expr) and not x.is_rational:
        try:
            x = Logarithms().scalar(x)
        except Unsupported:
            raise Unrecorded from None
    if isinstance(x, LogNumber) and x.logs:
        plain = [[str(x.plain), []]] if x.plain else []
        return plain + [[str(c), [f"log {atom}"]] for atom, c in sorted(x.logs.items())]
    return str(x.plain if isinstance(x, LogNumber) else x)


def _span(span: Span) -> list[Any]:
    return [span.kind, span.start, span.stop]
