"""Mutants: single changes of a built object, which a certificate must refute (or prove equivalent)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from constructions.dense import DenseHead
from constructions.errors import BadInput
from constructions.layers import Forget, Head, Layer, LinearAttention, Release, Repeat, Route, Tokenwise
from constructions.layout import Layout
from constructions.mlp import Mlp
from constructions.normalised_attention import NormalisedAttention
from constructions.parallel import Parallel
from constructions.program import Program
from constructions.recurrent.delta_rule import DeltaRule

from .block_mutants import alike, mlp_changes, normalised_changes


@dataclass(frozen=True)
class Mutant:
    """A changed object and what was changed: `kind` is sign, selector, public, route, head, layer, loop or entry."""

    kind: str
    text: str
    subject: Any


def program_mutants(program: Program, wanted: Callable[[str, str], bool] = lambda kind, text: True) -> Iterator[Mutant]:
    """Every single change of a program's heads, routes, primitives, layers and loop bounds that still type-checks; of
    these, the ones that are wanted by their kind and text."""
    for kind, text, layers in _mutate_sequence(program.layers, program):
        if not wanted(kind, text):
            continue
        try:
            yield Mutant(kind, text, program.with_layers(layers))
        except BadInput:
            continue


def _mutate_sequence(layers: tuple[Layer, ...], program: Program) -> Iterator[tuple[str, str, tuple[Layer, ...]]]:
    for i, layer in enumerate(layers):
        before, after = layers[:i], layers[i + 1 :]
        label = getattr(layer, "label", "") or f"layer {i + 1}"
        yield "layer", f"{label}: layer dropped", before + after
        for kind, text, changed in _mutate_layer(layer, program):
            yield kind, f"{label}: {text}", (*before, changed, *after)


def _mutate_layer(layer: Layer, program: Program) -> Iterator[tuple[str, str, Layer]]:
    if isinstance(layer, LinearAttention):
        for i, head in enumerate(layer.heads):
            before, after = layer.heads[:i], layer.heads[i + 1 :]
            yield "head", f"{head} dropped", replace(layer, heads=before + after)
            for kind, text, changed in _mutate_head(head, program):
                yield kind, f"{head} {text}", replace(layer, heads=(*before, changed, *after))
    elif isinstance(layer, Repeat):
        for change in (-1, 1):
            yield "loop", f"repeated {layer.times} {'+' if change > 0 else '-'} 1 times", replace_times(layer, change)
        for kind, text, layers in _mutate_sequence(layer.layers, program):
            yield kind, text, replace(layer, layers=layers)
    elif isinstance(layer, Tokenwise):
        for field in alike(program.layout, layer.field):
            yield "selector", f"{layer.primitive} of {field}", replace(layer, field=field)
    elif isinstance(layer, Release) and layer.gate is not None:
        for field in alike(program.layout, layer.gate):
            yield "selector", f"gate {field}", replace(layer, gate=field)
    elif isinstance(layer, Parallel):
        for i, inner in enumerate(layer.layers):
            for kind, text, changed_layer in _mutate_layer(inner, program):
                rest = layer.layers[:i], layer.layers[i + 1 :]
                yield kind, text, replace(layer, layers=(*rest[0], changed_layer, *rest[1]))  # type: ignore[arg-type]
    elif isinstance(layer, NormalisedAttention):
        yield from normalised_changes(layer, program.layout)
        for i, normalised in enumerate(layer.heads):
            for text, routes in _route_changes(normalised.routes, program):
                changed_heads = (*layer.heads[:i], replace(normalised, routes=routes), *layer.heads[i + 1 :])
                yield "route", f"{normalised} {text}", replace(layer, heads=changed_heads)
    elif isinstance(layer, Mlp):
        yield from mlp_changes(layer)
    elif isinstance(layer, DeltaRule):
        for selector in DeltaRule.SELECTORS:
            for field in alike(program.layout, getattr(layer, selector)):
                yield "selector", f"{selector} {field}", replace(layer, **{selector: field})  # type: ignore[arg-type]
    elif isinstance(layer, Forget):
        for field in layer.keep:
            yield "selector", f"forget {field} too", replace(layer, keep=tuple(f for f in layer.keep if f != field))


def replace_times(layer: Repeat, change: int) -> Repeat:
    """The loop run `change` more times."""
    return replace(layer, times=layer.times + change)


def _mutate_head(head: Head, program: Program) -> Iterator[tuple[str, str, Head]]:
    yield "sign", "negated", replace(head, sign=-head.sign)
    for selector in ("value", "key", "query", "out"):
        for field in alike(program.layout, getattr(head, selector)):
            yield "selector", f"with {selector} {field}", replace(head, **{selector: field})  # type: ignore[arg-type]
    if head.weight is not None:
        yield "public", f"without weight {head.weight}", replace(head, weight=None)
        yield "public", f"with weight {head.weight.T}", replace(head, weight=head.weight.T)
    if head.mixing is not None:
        yield "public", f"without mixing {head.mixing}", replace(head, mixing=None)
        yield "public", f"with mixing {head.mixing.T}", replace(head, mixing=head.mixing.T)
    for text, routes in _route_changes(head.routes, program):
        yield "route", text, replace(head, routes=routes)


def _route_changes(routes: tuple[Route, ...], program: Program) -> Iterator[tuple[str, tuple[Route, ...]]]:
    for i, route in enumerate(routes):
        before, after = routes[:i], routes[i + 1 :]
        yield f"without {route}", before + after
        for changed in _mutate_route(route, program.kinds):
            instead = f" for {route}" if len(routes) > 1 else ""
            yield f"along {changed}{instead}", (*before, changed, *after)


def _mutate_route(route: Route, kinds: tuple[str, ...]) -> Iterator[Route]:
    yield replace(route, same=not route.same, causal=False)
    if route.causal:
        yield replace(route, causal=False)
    for end in ("source", "target"):
        span = getattr(route, end)
        for kind in kinds:
            if kind != span.kind:
                yield replace(route, **{end: replace(span, kind=kind)})
        if span.stop is not None:
            for start, stop in ((span.start, span.stop - 1), (span.start, span.stop + 1), (span.start + 1, span.stop)):
                if stop > start:
                    yield replace(route, **{end: replace(span, start=start, stop=stop)})
            yield replace(route, **{end: replace(span, start=0, stop=None)})


def entry_mutants(heads: list[DenseHead], layout: Layout) -> Iterator[Mutant]:
    """Single entries of P, Q, R, M changed: a non-zero one zeroed, negated, doubled; a zero one beside it set to 1."""
    for h, head in enumerate(heads):
        for name in ("P", "Q", "R", "M"):
            matrix = getattr(head, name)
            if matrix is None:
                continue
            entries = matrix.todok()
            for (i, j), value in sorted(entries.items()):
                changes = {"zeroed": 0, "negated": -value, "doubled": 2 * value}
                for text, new in changes.items():
                    yield _entry(heads, h, name, {**entries, (i, j): new}, f"[{i}, {j}] {text}")
                neighbour = (i, (j + 1) % matrix.cols)
                if neighbour not in entries:
                    yield _entry(heads, h, name, {**entries, neighbour: 1}, f"[{neighbour[0]}, {neighbour[1]}] set")


def _entry(heads: list[DenseHead], h: int, name: str, entries: dict, text: str) -> Mutant:
    matrix = getattr(heads[h], name)
    changed = sp.ImmutableSparseMatrix(*matrix.shape, {place: v for place, v in entries.items() if v})
    subject = [replace(head, **{name: changed}) if i == h else head for i, head in enumerate(heads)]
    return Mutant("entry", f"head {h + 1}: {name}{text}", subject)
