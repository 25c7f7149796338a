"""Built layers on generic tokens, for every size: three independent looks at the same layers.

1. in Q, at random points that satisfy the hypotheses: a mismatch is a refutation, with its block, row and column;
2. sympy's `BlockMatrix` on the matrices P, Q and masks as stated (one attention layer with full routes);
3. the fused forward pass over the free algebra.

Proved means that 3, and 2 where it applies, give the expected words under the hypotheses, and that 1 found nothing.
Where words differ and no point separates them the verdict is undecided.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import sympy as sp
from flint import fmpq, fmpq_mat

from constructions.errors import BadInput, Unsupported
from constructions.exact import RATIONALS
from constructions.layers import Layer, LinearAttention, Public, fixed
from constructions.layout import Layout
from constructions.tokens import Tokens

from . import records
from .blocks import layer_on_blocks
from .claim import Finding, Verdict, rational, table
from .words import FreeAlgebra, Rule, Words, evaluate, from_sympy, normal_form, zero

Point = tuple[dict[str, fmpq_mat], dict[Any, int]]
"""Values of the letters, and of the size symbols."""

Blocks = Mapping[tuple[str, str], Words]


def prove_layers(
    layers: Sequence[Layer],
    layout: Layout,
    tokens: Tokens,
    expected: Blocks,
    rules: Sequence[Rule],
    sample: Callable[[random.Random], Point],
    *,
    seed: int = 0,
    points: int = 3,
) -> Finding:
    """Decide that the layers map `tokens` (blocks of words) to `expected`, in every field of every kind.

    Fields missing in `expected` are expected to be zero.
    """
    name = _ambiguous(layers)
    if name is not None:
        return Finding(
            Verdict.UNDECIDED, {"missing": f"two public matrices are called {name}, so one letter means both"}
        )
    rng = random.Random(seed)
    for _ in range(points):
        point = sample(rng)
        refutation = separate(layers, layout, tokens, expected, rules, point)
        if refutation is not None:
            return Finding(Verdict.REFUTED, refutation)
    evidence: dict[str, Any] = {"hypotheses": sorted({r.text for r in rules}), "points in Q": points}
    methods = {"free algebra": _by_words}
    if len(layers) == 1 and isinstance(layers[0], LinearAttention) and not _meets_itself(layers[0]):
        methods = {"sympy blocks": _by_blocks, **methods}
    for method, run in methods.items():
        try:
            found = run(layers, layout, tokens)
        except (Unsupported, BadInput) as error:
            return Finding(Verdict.UNDECIDED, {**evidence, "method": method, "missing": str(error)})
        blocks = {}
        for key, claim in _every_block(layout, tokens, expected).items():
            value = found.get(key, zero(*claim.shape))
            difference = normal_form(value - claim, rules)
            if difference.terms:
                missing = f"{key[0]}.{key[1]}: the words {difference} are not zero under the hypotheses"
                return Finding(Verdict.UNDECIDED, {**evidence, "method": method, "missing": missing})
            blocks[f"{key[0]}.{key[1]}"] = str(normal_form(value, rules))
        evidence[method] = blocks
    return Finding(Verdict.PROVED, evidence, _records(layers, layout, tokens, found, expected, rules, point))


def _records(
    layers: Sequence[Layer],
    layout: Layout,
    tokens: Tokens,
    found: Blocks,
    expected: Blocks,
    rules: Sequence[Rule],
    point: Point,
) -> tuple[records.Record, ...]:
    """The layers at the last point, with the words found and expected."""
    every = _every_block(layout, tokens, expected)
    both = {key: found.get(key, zero(*claim.shape)) for key, claim in every.items()}
    concrete = [_at(layer, point[0]) for layer in layers]
    try:
        return (records.layer_record(concrete, layout, tokens, both, every, rules, point),)
    except records.Unrecorded:
        return ()


def _ambiguous(layers: Sequence[Layer]) -> str | None:
    """A name that two different public matrices share, up to transposition."""
    known: dict[str, Public] = {}
    for layer in layers:
        for head in layer.heads if isinstance(layer, LinearAttention) else ():
            for public in (head.weight, head.mixing):
                if public is not None:
                    first = known.setdefault(public.name, public)
                    if public.entries is not first.entries:
                        return public.name
    return None


def _every_block(layout: Layout, tokens: Tokens, expected: Blocks) -> dict[tuple[str, str], Words]:
    return {
        (kind, field): expected.get((kind, field), zero(layout[field], count))
        for kind, count in tokens.counts.items()
        for field in layout
    }


def _meets_itself(layer: LinearAttention) -> bool:
    return any(route.same for head in layer.heads for route in head.routes)


def _run(layers: Sequence[Layer], tokens: Tokens, arithmetic: Any) -> Tokens:
    for layer in layers:
        for _, tokens in layer.steps(tokens, arithmetic):  # noqa: B007, B020 (the state is threaded through)
            pass
    return tokens


def _by_words(layers: Sequence[Layer], layout: Layout, tokens: Tokens) -> Blocks:
    return _run(layers, tokens, FreeAlgebra()).blocks


def _by_blocks(layers: Sequence[Layer], layout: Layout, tokens: Tokens) -> Blocks:
    (layer,) = layers
    assert isinstance(layer, LinearAttention)
    blocks = {key: to_sympy(words) for key, words in tokens.blocks.items()}
    return {key: from_sympy(e) for key, e in layer_on_blocks(layer, layout, tokens.counts, blocks).items()}


def to_sympy(words: Words) -> Any:
    """Words as a sympy matrix expression."""
    terms = []
    for word, c in words.terms.items():
        factors: list[Any] = []
        for x, transposed in word:
            symbol = sp.MatrixSymbol(x.name, x.rows, x.columns)
            factors.append(symbol.T if transposed else symbol)
        product = sp.MatMul(*factors) if factors else sp.Identity(words.rows)
        terms.append(product if c == 1 else sp.Rational(c.numerator, c.denominator) * product)
    return sp.MatAdd(*terms) if terms else sp.ZeroMatrix(words.rows, words.columns)


def separate(
    layers: Sequence[Layer],
    layout: Layout,
    tokens: Tokens,
    expected: Blocks,
    rules: Sequence[Rule],
    point: Point,
) -> dict[str, Any] | None:
    """The first block, row and column where the layers, run in Q at a point, differ from what is expected.

    Raises:
        ValueError: the point violates a hypothesis (a fault of the prover, not of the construction).
    """
    values, sizes = point
    for r in rules:
        left = Words(*r.right.shape, {r.left: Fraction(1)})
        if evaluate(left, values, sizes) != evaluate(r.right, values, sizes):
            raise ValueError(f"the sampled point violates the hypothesis {r.text}")
    counts = {kind: count if isinstance(count, int) else sizes[count] for kind, count in tokens.counts.items()}
    concrete = Tokens(counts, {key: evaluate(words, values, sizes) for key, words in tokens.blocks.items()})
    try:
        out = _run([_at(layer, values) for layer in layers], concrete, RATIONALS)
    except BadInput as error:
        return {"block": "layers", "failure": f"the layers cannot be applied: {error}"}
    for (kind, field), claim in _every_block(layout, tokens, expected).items():
        right = evaluate(claim, values, sizes)
        left = out.blocks.get((kind, field), fmpq_mat(right.nrows(), right.ncols()))
        place = first_difference(left, right)
        if place is not None:
            i, j = place
            return {
                "block": f"{kind}.{field}",
                "row": i,
                "column": j,
                "found": rational(left[i, j]) if _inside(left, i, j) else "nothing",
                "expected": rational(right[i, j]) if _inside(right, i, j) else "nothing",
                "counterexample": {name: table(value) for name, value in sorted(values.items())},
            }
    return None


def _at(layer: Layer, values: Mapping[str, fmpq_mat]) -> Layer:
    """The layer with the values of the point for public matrices that are symbols."""
    if not isinstance(layer, LinearAttention):
        return layer

    def value(public: Public | None) -> Public | None:
        if public is None or public.entries is not None or public.name not in values:
            return public
        known = fixed(public.name, values[public.name].tolist())
        return known.T if public.transposed else known

    heads = [replace(head, weight=value(head.weight), mixing=value(head.mixing)) for head in layer.heads]
    return replace(layer, heads=tuple(heads))


def _inside(matrix: fmpq_mat, i: int, j: int) -> bool:
    return i < matrix.nrows() and j < matrix.ncols()


def first_difference(left: fmpq_mat, right: fmpq_mat) -> tuple[int, int] | None:
    """Row and column of the first entry where two exact matrices differ, sizes included."""
    if (left.nrows(), left.ncols()) == (right.nrows(), right.ncols()):
        if left == right:
            return None
        for index, (x, y) in enumerate(zip(left.entries(), right.entries(), strict=True)):
            if x != y:
                return divmod(index, left.ncols())
    return min(left.nrows(), right.nrows()), min(left.ncols(), right.ncols())


def prove_words(identities: Mapping[str, tuple[Words, Words]], rules: Sequence[Rule]) -> Finding:
    """Decide that left = right under the hypotheses, for each named pair of words.

    There is no built object to refute here: words that do not cancel leave the statement undecided.
    """
    evidence: dict[str, Any] = {"hypotheses": sorted({r.text for r in rules})}
    for name, (left, right) in identities.items():
        difference = normal_form(left - right, rules)
        if difference.terms:
            return Finding(Verdict.UNDECIDED, {**evidence, "missing": f"{name}: {difference} is not zero"})
        evidence[name] = f"{left} = {right}"
    try:
        return Finding(Verdict.PROVED, evidence, (records.words_record(identities, rules),))
    except records.Unrecorded:
        return Finding(Verdict.PROVED, evidence)


def random_matrix(rng: random.Random, rows: int, columns: int) -> fmpq_mat:
    """Small random rationals, numerators in -4..4 and denominators in 1..3."""
    return fmpq_mat(rows, columns, [fmpq(rng.randint(-4, 4), rng.randint(1, 3)) for _ in range(rows * columns)])


def biorthogonal(rng: random.Random, n: int, k: int) -> tuple[fmpq_mat, fmpq_mat]:
    """B, W of shape (n, k) with W' B = I: the first k columns of a random T and of its inverse transpose."""
    while True:
        T = random_matrix(rng, n, n)
        if T.det() != 0:
            break
    inverse = T.inv().transpose()
    return RATIONALS.columns(T, 0, k), RATIONALS.columns(inverse, 0, k)
