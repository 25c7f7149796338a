"""td.midpoint-hold: the rounds, differences and steps for every size, whole runs in Q, and its error on every task."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import sympy as sp
from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.layers import LinearAttention
from constructions.program import Program
from constructions.temporal_difference import midpoint_hold, minimax
from constructions.temporal_difference.midpoint_hold import ASSUMPTIONS, THEOREM, midpoint_program
from constructions.temporal_difference.sample_and_hold import CLOCK
from constructions.tokens import Span, Tokens

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..generic_layer import Point, first_difference, prove_layers, prove_words, random_matrix
from ..instances import NAMED, InstanceSource, prove_instances
from ..mutants import Mutant
from ..words import Words, letter, ones_row
from . import held_facts
from .encoder import renamed
from .sample_and_hold import BOUNDED, ROUTES, SMALL, L, N, T, attained, one_state, prove_hold, prove_record

SLOTS = 4
"""Slots of the program on which differences are read; their number enters by its two spans only."""
K = sp.Symbol("k", integer=True, positive=True)


def prove_midpoint_record(program: Program) -> Finding:
    """The round of td.sample-and-hold with weight h on both records and the second one added."""
    return prove_record(program, weighted=True, second_sign=1)


def prove_differences(program: Program) -> Finding:
    """Token i of slot[1:] loses what token i of slot[:-1] held: for any number of slots, on generic tokens."""
    layers = [layer for layer in program.layers if isinstance(layer, LinearAttention) and layer.label == "differences"]
    if len(layers) != 1:
        found = f"{len(layers)} layers of differences"
        return Finding(Verdict.REFUTED, {"block": "differences", "found": found, "expected": "1 layer"})
    apart = _differ_as_built(layers[0], program)
    if apart is not None:
        return Finding(Verdict.REFUTED, apart)
    read = renamed(layers, {Span("slot", 0, SLOTS - 1): "earlier", Span("slot", 1, SLOTS): "later"})
    X, Z = letter("X", N, K), letter("Z", N, K)
    before: dict[tuple[str, str], Words] = {("earlier", "x"): X, ("later", "x"): Z}
    for kind in ("earlier", "later"):
        before[kind, "one"] = ones_row(K)
        before |= {(kind, field): letter(f"{kind}_{field}", 1, K) for field in ("r", "c", "gp", "gm", "cp", "cm")}
    after = {**before, ("later", "x"): Z - X}
    letters = {x for words in before.values() for word in words.terms for x, _ in word if not x.name.startswith("1_")}

    def sample(rng: random.Random) -> Point:
        sizes = {N: 2, K: SLOTS - 1}
        ordered = sorted(letters, key=lambda x: x.name)
        return {x.name: random_matrix(rng, 2 if x.rows == N else 1, SLOTS - 1) for x in ordered}, sizes

    return prove_layers(read, program.layout, Tokens({"earlier": K, "later": K}, before), after, [], sample)


def _differ_as_built(layer: LinearAttention, program: Program) -> dict[str, Any] | None:
    """Where the layer does something else to its slots, or anything to other tokens, at a point in Q."""
    rng = random.Random(0)
    blocks = {}
    for kind, field in itertools.product(program.kinds, program.layout):
        value = random_matrix(rng, 2 if program.layout[field] == N else 1, SLOTS)
        blocks[kind, field] = RATIONALS.matrix([[1] * SLOTS]) if field == "one" else value
    X = blocks["slot", "x"]
    shifted = fmpq_mat(2, SLOTS, [X[i, j - 1] if j else fmpq(0) for i in range(2) for j in range(SLOTS)])
    expected = {**blocks, ("slot", "x"): X - shifted}
    for _, after in layer.steps(Tokens(dict.fromkeys(program.kinds, SLOTS), blocks), RATIONALS):
        for (kind, field), right in expected.items():
            place = first_difference(after.blocks[kind, field], right)
            if place is not None:
                values = {"found": rational(after.blocks[kind, field][place]), "expected": rational(right[place])}
                return {"block": f"{kind}.{field}", "row": place[0], "column": place[1], **values}
    return None


@dataclass(frozen=True)
class Covered:
    """A cover with a finite last depth and its error over all tasks, as claimed."""

    cover: minimax.Cover
    error: Fraction


def covers(choices: Sequence[tuple[str, int, int]]) -> list[Covered]:
    """The optimal cover for each (g, m, L), with e*."""
    found = [minimax.law(*choice) for choice in choices]
    return [Covered(law.cover, law.value) for law in found]


def prove_error(cases: Sequence[Covered]) -> Finding:
    """Upper: v_l - c = (sum_{[a,l)} A^j r - sum_{[l,b)} A^j r) / 2 at every depth. Lower: the one-state task, in Q."""
    w, x, y = (letter(name, N, 1) for name in "wxy")
    half = Fraction(1, 2)

    def halved(words: Words) -> Words:
        return Words(words.rows, words.columns, {word: half * c for word, c in words.terms.items()})

    identity = prove_words({"v_l - (v_a + v_b) / 2": ((w + x) - halved(w + (w + x + y)), halved(x - y))}, [])
    if identity.verdict is not Verdict.PROVED:
        return identity
    rows, records = [], list(identity.records)
    for case in cases:
        g, blocks = case.cover.discount, case.cover.blocks
        where = {"g": str(g), "blocks": [list(block) for block in blocks]}
        for place, (a, b) in enumerate(blocks):
            assert b is not None
            whole = sum((g**j for j in range(a, b)), Fraction(0))
            bound = whole / 2 if place else whole
            if bound > case.error:
                evidence = {"block": f"block {place}", "found": rational(bound), "expected": rational(case.error)}
                return Finding(Verdict.REFUTED, {**where, **evidence})
        found = attained(midpoint_hold.from_cover(1, case.cover), g)
        if found != case.error:
            evidence = {"block": "lower", "found": rational(found), "expected": rational(case.error)}
            return Finding(Verdict.REFUTED, {**where, **evidence, "counterexample": one_state(g).describe()})
        rows.append({**where, "error": rational(case.error), "decimal": float(case.error)})
        built = midpoint_hold.from_cover(1, case.cover)
        records += held_facts.worst_case(built, one_state(g), held_facts.centred, case.error)
    text = "v_l - (v_a + v_b) / 2 = (x - y) / 2"
    return Finding(Verdict.PROVED, {"identity": text, "cases": rows}, tuple(records))


def cover_mutants(cases: Sequence[Covered]) -> Iterator[Mutant]:
    """Errors changed, and each end but the last moved by one depth."""
    for case in cases:
        ends = case.cover.ends
        name = f"g={case.cover.discount}, m={case.cover.free}"
        yield Mutant("value", f"{name}: error raised", [replace(case, error=case.error + SMALL)])
        yield Mutant("value", f"{name}: error lowered", [replace(case, error=case.error - SMALL)])
        for s, end in enumerate(ends[:-1]):
            assert end is not None
            for change in (-1, 1):
                moved = (*ends[:s], end + change, *ends[s + 1 :])
                if moved[0] >= 0 and list(moved) == sorted(set(moved)):  # type: ignore[operator, type-var]
                    cover = replace(case.cover, ends=moved)
                    yield Mutant("value", f"{name}: end {s} moved by {change:+}", [replace(case, cover=cover)])


def claims(instances: InstanceSource, quick_instances: InstanceSource) -> list[Claim]:
    """The claims of td.midpoint-hold; the instances come from the caller."""
    inductive = partial(
        Claim,
        THEOREM,
        assurance=Assurance.INDUCTIVE,
        assumptions=(CLOCK, ROUTES),
        build=lambda: midpoint_program(N, SLOTS, T, L),
    )
    whole = partial(
        Claim,
        THEOREM,
        statement="from the raw log, the answer is 0 on the zero block and (v_a + v_b) / 2 on block {a..b}",
        assurance=Assurance.EXACT,
        assumptions=ASSUMPTIONS,
        prove=partial(prove_instances, stated=lambda _: held_facts.held(held_facts.centred)),
    )
    return [
        inductive(
            name="record",
            statement=(
                "round t takes v_t to r + A v_t and adds h ([t = a_s] + [t = b_s]) v_t to slot s, so with h = 1/2"
                " slot s ends as (v_{a_s} + v_{b_s}) / 2"
            ),
            scope="all n, m, covers and weights h, by induction over rounds, from state tokens that hold A and r",
            prove=prove_midpoint_record,
        ),
        inductive(
            name="differences",
            statement="one layer turns centres c_s into increments c_s - c_{s-1}, c_0 = 0",
            scope="all n and centres; the number of slots is that of the spans built",
            prove=prove_differences,
        ),
        inductive(
            name="hold",
            statement="after l steps minus the last coordinate of a query is the centre of the last a_s <= l",
            scope="all n, m, covers, L and queries, by induction over steps, from the increments",
            prove=prove_hold,
        ),
        whole(name="instances", scope=NAMED, build=quick_instances),
        Claim(
            THEOREM,
            "error",
            "the worst error over all tasks is e*: half the mass of a free block, the mass of the zero block",
            "all n and tasks with |r|_inf <= 1, at the (g, cover) in the evidence",
            Assurance.EXACT,
            (BOUNDED, *ASSUMPTIONS),
            lambda: covers([("1/3", 3, 8), ("9/10", 4, 30), ("9/10", 12, 30), ("4/5", 1, 20)]),
            prove_error,
            mutants=cover_mutants,
        ),
        whole(name="instances-large", scope=f"{NAMED}, up to n = 24, N = 960", build=instances, quick=False),
    ]
