"""One round of Q-learning from any table: symbolic in every chamber, for a realisation at given sizes.

In each chamber (`chambers`) the program runs on polynomials, with alpha, g, B and D as symbols. What has to come out:

    table    row_b = sum_s (Q(s, b) + [s, b is the pair changed] alpha delta) u_s
    logits   Q(s, .), from which the greedy decision follows
    clean    every other field of the tokens that are fed back is zero.

A changed program is run at points of the domain first (in Q, or in balls where a number leaves Q): a difference there
refutes. Random points alone are not enough, some changes are wrong only where |Q| is close to B; so points near the
boundary are among them, and what survives all of them is decided in symbols.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp
from flint import fmpq

from constructions.arithmetic import Array
from constructions.construction import last
from constructions.dense import apply_heads, assemble, dense_parts, split
from constructions.errors import Unsupported
from constructions.exact import Balls, Rationals
from constructions.online_learning.action_values import Rates
from constructions.online_learning.experts import Basis
from constructions.online_learning.q_learning import KINDS, answer_blocks, program, read_round, round_tokens
from constructions.program import Program

from ..block_mutants import Weights, weight_changes
from ..claim import Finding, Verdict, rational
from ..mutants import Mutant
from .chamber_records import chambers_record
from .chambers import (
    ALPHA,
    BOUND,
    DISCOUNT,
    GATE,
    Chamber,
    Setting,
    at_point,
    chambers,
    setting,
    uncovered,
)

BITS = 256
SCALES = 3
"""Kinds of points: anywhere in the domain, all values of the successor close to -B, some close to B."""
EARLY = 12
"""Points at which a program is run before the symbols."""


@dataclass(frozen=True)
class QCase:
    """A realisation with its bases; `matrices` are its weights if they are to be run as they stand.

    Attributes:
        places: the chambers that are looked at; None for all.
    """

    variant: str
    states: Basis
    names: Basis
    program: Program | None = None
    matrices: Weights | None = None
    places: Callable[[Chamber], bool] | None = None

    @property
    def name(self) -> str:
        """For evidence."""
        n, A, d = len(self.states), len(self.names), len(self.states[0])
        return f"{self.variant}, |S| = {n}, |A| = {A}, d = {d}"

    @property
    def rates(self) -> Rates:
        """The public constants as symbols."""
        widths = len(self.states[0]), len(self.names[0])
        return Rates(len(self.names), *widths, ALPHA, DISCOUNT, BOUND, GATE, 1, self.states, self.names)

    @property
    def built(self) -> Program:
        """The program as given, or as built with symbols."""
        return self.program or program(self.variant, self.rates)

    def chambers(self) -> list[Chamber]:
        """Where it is looked at: a tree of pairs compares all values, the others the largest only."""
        found = chambers(len(self.states), len(self.names), coarse=self.variant != "relu_tree")
        return [c for c in found if self.places is None or self.places(c)]


def counts_of(case: QCase) -> dict[str, int]:
    """Number of tokens of each kind."""
    return {kind: len(case.names) if kind in ("context", "out") else 1 for kind in KINDS}


def matrices_of(case: QCase) -> Weights:
    """The weights as whole matrices, layer by layer, the public constants as symbols."""
    return [dense_parts(layer, case.built.layout, counts_of(case)) for layer in case.built.layers]


def round_answer(case: QCase, built: Program, chamber: Chamber, table: Any, reward: Any, arithmetic: Any) -> Array:
    """The answer of a round at one place, from a table."""
    rates = case.rates

    def column(vector: Sequence[Any]) -> Array:
        return arithmetic.matrix([[x] for x in vector])

    V = arithmetic.matrix(rates.V)
    context = {"row": arithmetic.matmul(arithmetic.matrix(rates.U), table), "idC": V}
    following = {"nxt": column(case.states[chamber.successor])} if chamber.successor >= 0 else {}
    tokens = round_tokens(
        V,
        column(case.states[chamber.state]),
        column(case.names[chamber.action]),
        arithmetic.matrix([[reward]]),
        context,
        arithmetic,
        **following,
    )
    if case.matrices is None:
        after = last(built.steps(tokens, arithmetic))
    else:
        U = assemble(tokens, built.layout, arithmetic)
        for parts in case.matrices:
            U = apply_heads(U, list(parts), arithmetic)
        after = split(U, counts_of(case), built.layout, arithmetic)
    return read_round(built, rates, [("", after)], arithmetic)


def expected_answer(
    case: QCase, built: Program, chamber: Chamber, table: Any, increment: Any, arithmetic: Any
) -> Array:
    """What the answer has to be."""
    A = len(case.names)
    place = [
        [increment if (s, b) == (chamber.state, chamber.action) else 0 for b in range(A)]
        for s in range(len(case.states))
    ]
    after = arithmetic.add(table, arithmetic.matrix(place))
    heights = sum(height for _, height in answer_blocks(built)[2:])
    return arithmetic.stack(
        [
            [arithmetic.matmul(arithmetic.matrix(case.rates.U), after)],
            [arithmetic.rows(table, chamber.state, chamber.state + 1)],
            [arithmetic.matrix([[0] * A] * heights)],
        ]
    )


def check_round(case: QCase) -> Finding:
    """Decide the round in every chamber; else look for a point that refutes it."""
    missing = uncovered(len(case.names), coarse=case.variant != "relu_tree")
    if missing is not None:
        return Finding(Verdict.UNDECIDED, {"case": case.name, "missing": missing})
    built, places = case.built, case.chambers()
    early = refuted_at_points(case, built, places, EARLY)
    if early is not None:
        return early
    for chamber in places:
        here = setting(chamber, len(case.states), len(case.names))
        try:
            differs = _differs_in(case, built, chamber, here)
            where = "the words differ" if differs is None else differs
        except Unsupported as error:
            differs = where = str(error)
        if differs is not None:
            late = refuted_at_points(case, built, places, SCALES * len(places))
            return late or Finding(Verdict.UNDECIDED, {"case": case.name, "missing": f"{chamber}: {where}"})
    records = (chambers_record(case, counts_of(case)),) if case.program is case.matrices is None else ()
    return Finding(Verdict.PROVED, {"case": case.name, "chambers": len(places)}, records)


def _differs_in(case: QCase, built: Program, chamber: Chamber, here: Setting) -> str | None:
    """The first entry that differs as a polynomial, as text."""
    arithmetic = here.arithmetic
    table = arithmetic.matrix(here.table)
    found = round_answer(case, built, chamber, table, here.reward, arithmetic)
    wanted = expected_answer(case, built, chamber, table, here.increment, arithmetic)
    for place, (x, e) in enumerate(zip(found.ravel(), wanted.ravel(), strict=True)):
        if x != e:
            block, row = _block(built, place // found.shape[1])
            return f"{block}, row {row}: found {rational(x)}, expected {rational(e)}"
    return None


def _block(built: Program, row: int) -> tuple[str, int]:
    for name, height in answer_blocks(built):
        if row < height:
            return name, row
        row -= height
    raise ValueError("a row beyond the answer")


class AtPoint(Rationals):
    """Q, with numbers for the symbols of a program."""

    def __init__(self, values: Mapping[sp.Symbol, fmpq]) -> None:
        super().__init__()
        self.scalar = with_values(self.scalar, values)


class BallsAtPoint(Balls):
    """Balls, with numbers for the symbols of a program."""

    def __init__(self, values: Mapping[sp.Symbol, fmpq]) -> None:
        super().__init__(BITS)
        self.scalar = with_values(self.scalar, values)


def with_values(scalar: Callable[[Any], Any], values: Mapping[sp.Symbol, fmpq]) -> Callable[[Any], Any]:
    """The entry of an exact number or of an expression in the symbols."""
    numbers = {symbol: sp.Rational(int(x.p), int(x.q)) for symbol, x in values.items()}
    seen: dict[Any, Any] = {}

    def made(x: Any) -> Any:
        if isinstance(x, sp.Expr):
            if x not in seen:
                seen[x] = scalar(x.subs(numbers))
            return seen[x]
        return scalar(x)

    return made


def refuted_at_points(case: QCase, built: Program, places: Sequence[Chamber], count: int) -> Finding | None:
    """A difference at one of `count` points of the domain; the same ones every time."""
    rng = random.Random(len(places))
    for k in range(count):
        chamber = places[(k * 7919 + k // len(places)) % len(places)]
        here = setting(chamber, len(case.states), len(case.names))
        values = point_of(here, chamber, k % SCALES, rng)
        found = _differs_at(case, built, chamber, here, values)
        if found is not None:
            row, x, e = found
            block, inner = _block(built, row)
            point = {name: str(x) for name, x in values.items()}
            evidence = {"block": block, "row": inner, "found": rational(x), "expected": rational(e)}
            return Finding(Verdict.REFUTED, {"case": case.name, "chamber": str(chamber), **evidence, "point": point})
    return None


def point_of(here: Setting, chamber: Chamber, scale: int, rng: random.Random) -> dict[str, fmpq]:
    """Values of the symbols of a chamber, with |Q| < B."""
    small, B = fmpq(1, 64), fmpq(rng.randint(3, 7))
    levels = len(chamber.symbols())
    if scale == 0:
        y, room = B * fmpq(rng.randint(20, 60), 32), B
    elif scale == 1:
        y, room = small * (levels + 2), small * (levels + 1)
    else:
        y, room = 2 * B - small, 2 * B - 2 * small
    values = {"B": B, "y": y, "alpha": fmpq(rng.randint(1, 7), 8), "g": fmpq(rng.randint(1, 7), 8)}
    room = min(room, y - small / 2)
    total = sum(weights := [rng.randint(1, 4) for _ in chamber.symbols()])
    for name, weight in zip(chamber.symbols(), weights, strict=True):
        # The gaps of a coarse chamber are each below the largest value, those of a fine one one below another.
        values[name] = room * (fmpq(weight, 5) if chamber.coarse else fmpq(weight, total))
    for name in here.arithmetic.symbols:
        if name.startswith("Q"):
            values[name] = B * fmpq(rng.randint(-15, 15), 16)
    values["p"], values["q"] = (fmpq(rng.randint(0, 24), 8) for _ in range(2))
    return values


def _differs_at(
    case: QCase, built: Program, chamber: Chamber, here: Setting, values: Mapping[str, fmpq]
) -> tuple[int, Any, Any] | None:
    """(row, found, expected) of the first entry that differs; None where none is known to."""
    names = [name for name in here.arithmetic.symbols if name != "D"]

    def number(x: Any) -> fmpq:
        return at_point(x, values, names)

    table = [[number(x) for x in row] for row in here.table]
    reward, increment = number(here.reward), number(here.increment)
    constants = {s: number(here.arithmetic.symbols[s.name]) for s in (ALPHA, DISCOUNT, BOUND, GATE)}

    def pairs(arithmetic: Any) -> list[tuple[int, Any, Any]]:
        Q = arithmetic.matrix(table)
        found = round_answer(case, built, chamber, Q, reward, arithmetic)
        wanted = expected_answer(case, built, chamber, Q, increment, arithmetic)
        width = found.ncols()
        entries = zip(found.entries(), wanted.entries(), strict=True)
        return [(k // width, x, e) for k, (x, e) in enumerate(entries)]

    try:
        return next((line for line in pairs(AtPoint(constants)) if line[1] != line[2]), None)
    except Unsupported:
        pass
    with BallsAtPoint(constants).working() as balls:
        try:
            return next((line for line in pairs(balls) if not line[1].overlaps(line[2])), None)
        except Unsupported:
            return None


def prove_rounds(cases: Sequence[QCase]) -> Finding:
    """The round for every case."""
    return Finding.all_of({case.name: check_round(case) for case in cases})


def round_mutants(cases: Sequence[QCase]) -> Iterator[Mutant]:
    """Every non-zero weight of every realisation zeroed, negated and doubled, at its smallest case."""
    smallest: dict[str, QCase] = {}
    for case in cases:
        known = smallest.setdefault(case.variant, case)
        if (len(case.names), len(case.states[0])) < (len(known.names), len(known.states[0])):
            smallest[case.variant] = case
    for case in smallest.values():
        for text, changed in weight_changes(matrices_of(case), case.built.layout):
            kind = "sign" if text.endswith("negated") else "entry"
            yield Mutant(kind, f"{case.variant}: {text}", [replace(case, matrices=changed)])
