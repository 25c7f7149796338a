"""One round of weighted majority or Hedge from any state: symbols w_i > 0, q = 1 - eps, leak d, and bits p_i, y.

The context token holds L_i = log w_i in an orthonormal basis; expert i says label 0 where p_i = 1, else label 1. What
has to come out, as an identity in Q(w, q, d, p, y) with formal logarithms:

    state     S' = sum_i (log w_i + m_i log q) u_i,  m_i = p_i + y - 2 p_i y = [p_i != y]
    output    O_k = W_k / (W + J d)
    clean     every other field of the label token is zero.

With losses the label token tells l_1, l_2 > 0 in place of y, and m_i = p_i l_1 + (1 - p_i) l_2: an expert suffers the
loss of what it says. Hedge is p = (1, 0).

Where symbols cannot decide a step (a mutant may read the sign of w_1 - w_2) the round is run at points, in Q and in
balls: a difference there refutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import sympy as sp

from constructions.arithmetic import Array
from constructions.construction import last
from constructions.dense import apply_heads, assemble, dense_parts, split
from constructions.errors import Unsupported
from constructions.exact import Balls
from constructions.logarithms import FractionField, Logarithms
from constructions.online_learning.expert_weights import Weights
from constructions.online_learning.experts import Basis
from constructions.online_learning.weighted_majority import (
    ASKS,
    FOREIGN,
    KINDS,
    answer_blocks,
    expected_output,
    initial_context,
    normalised,
    program,
    read_round,
    round_tokens,
)
from constructions.program import Program
from constructions.tokens import Tokens

from ..block_mutants import Weights as Matrices
from ..block_mutants import weight_changes
from ..claim import Finding, Verdict, rational
from ..mutants import Mutant
from ..program_documents import Record
from .round_records import experts, tokens_record

Q, LEAK = sp.symbols("q d")
POINTS = ((Fraction(2, 3), Fraction(1, 5)), (Fraction(4, 5), Fraction(7, 2)))
"""(q, d) at which a round is run in numbers."""
LOSSES = ((sp.Rational(1, 3), sp.Rational(3, 4)), (sp.Integer(0), sp.Integer(1)))
"""Losses (l_1, l_2) at the points."""
SAMPLED = 2
"""Choices of the bits at each point that are tried before the symbols."""


@dataclass(frozen=True)
class RoundCase:
    """A realisation with n experts and two labels; `matrices` are its weights if they are to be run as they stand.

    With `losses` the label token tells the loss of each label, and the penalty is e I.
    """

    variant: str
    basis: Basis
    program: Program | None = None
    matrices: Matrices | None = None
    losses: bool = False

    @property
    def n(self) -> int:
        """Number of experts."""
        return len(self.basis)

    @property
    def name(self) -> str:
        """For evidence."""
        return f"{self.variant}, n = {self.n}, d = {len(self.basis[0])}"

    def weights(self, factor: Any = Q, leak: Any = LEAK) -> Weights:
        """The public constants; q and the leak may be numbers."""
        return Weights(self.n, len(self.basis[0]), 2, factor, leak, self.basis, losses=self.losses)


def program_of(case: RoundCase) -> Program:
    """The program as given, or as built with q and d as symbols."""
    return case.program or program(case.variant, case.weights())


def matrices(case: RoundCase) -> Matrices:
    """The weights of the program as whole matrices, layer by layer, q and d as symbols."""
    built = program_of(case)
    counts = {kind: case.n if kind == "expert" else 1 for kind in KINDS[case.variant]}
    return [dense_parts(layer, built.layout, counts) for layer in built.layers]


def run_case(case: RoundCase, tokens: Tokens, values: dict[sp.Symbol, Any], arithmetic: Any) -> Tokens:
    """The tokens after the round; `values` are q and d where they are numbers."""
    weights = case.weights(values.get(Q, Q), values.get(LEAK, LEAK))
    if case.matrices is None and not values:
        return last(program_of(case).steps(tokens, arithmetic))
    layout, counts = weights.layout(case.variant), dict(tokens.counts)
    U = assemble(tokens, layout, arithmetic)
    for parts in case.matrices or matrices(case):
        at_point = [_substituted(part, values) for part in parts] if values else parts
        U = apply_heads(U, at_point, arithmetic)
    return split(U, counts, layout, arithmetic)


def _substituted(part: Any, values: dict[sp.Symbol, Any]) -> Any:
    names = [name for name in ("P", "Q", "W", "V") if hasattr(part, name)]
    return replace(part, **{name: getattr(part, name).subs(values) for name in names})


def round_answers(
    case: RoundCase, w: Sequence[Any], told: Sequence[Any], values: dict[sp.Symbol, Any], arithmetic: Any
) -> tuple[Array, Array]:
    """The answer of the round, and what it has to be; told are p_1, .., p_n and y, or l_1, l_2."""
    weights = case.weights(values.get(Q, Q), values.get(LEAK, LEAK))
    p, label = told[: case.n], told[case.n :]
    if case.losses:
        powers = [x * label[0] + (1 - x) * label[1] for x in p]
    else:
        (y,) = label
        label, powers = [y, 1 - y], [x + y - 2 * x * y for x in p]
    P = [list(p), [1 - x for x in p]]
    logs = arithmetic.log(arithmetic.matrix([[x] for x in w]))
    context = initial_context(case.variant, weights, logs, arithmetic)
    tokens = run_case(case, round_tokens(case.variant, weights, P, label, context, arithmetic), values, arithmetic)
    found = read_round(case.variant, weights)([("", tokens)], arithmetic)
    wrong = arithmetic.matrix([[sp.expand(x)] for x in powers])
    penalty = arithmetic.matmul(wrong, arithmetic.matrix([[sp.log(weights.factor)]]))
    S = arithmetic.matmul(arithmetic.matrix(weights.columns), arithmetic.add(logs, penalty))
    O = expected_output(case.variant, weights, P, arithmetic.exp(logs), arithmetic)
    rest = sum(height for _, height in answer_blocks(case.variant, weights)[3:])
    zeros = arithmetic.matrix([[0]] * rest)
    return found, arithmetic.stack([[S], [O], [normalised(O, arithmetic)], [zeros]])


def check_round(case: RoundCase) -> Finding:
    """Decide the lemma for one realisation, as an identity in symbols; else look for a point that refutes it."""
    names = [f"w{i + 1}" for i in range(case.n)]
    bits = [f"p{i + 1}" for i in range(case.n)]
    told = ["l1", "l2"] if case.losses else ["y"]
    field = FractionField([*names, "q", "d", *(told if case.losses else ())], bits if case.losses else [*bits, *told])
    arithmetic = Logarithms(field)
    early = refuted_at_points(case, SAMPLED)
    if early is not None:
        return early
    try:
        found, expected = round_answers(case, [sp.Symbol(x) for x in names], sp.symbols([*bits, *told]), {}, arithmetic)
    except Unsupported as error:
        return refuted_at_points(case, 2 ** (case.n + 1)) or Finding(
            Verdict.UNDECIDED, {"case": case.name, "missing": str(error)}
        )
    for row, (x, e) in enumerate(zip(found.ravel(), expected.ravel(), strict=True)):
        if not field.equal_on_bits(x, e):
            return Finding(Verdict.REFUTED, {"case": case.name, **_difference(case, row, x, e)})
    records = (at_a_point(case),) if case.program is case.matrices is None else ()
    evidence = {"case": case.name, "J": FOREIGN[case.variant], "asks": ASKS[case.variant]}
    return Finding(Verdict.PROVED, evidence, records)


def at_a_point(case: RoundCase, changed: Callable[[Program], Program] = lambda built: built) -> Record:
    """The record of the round at the first point, where experts disagree; of a program made of the one built there."""
    w, (q, d) = _sampled_weights(case), (sp.Rational(str(x)) for x in POINTS[0])
    p = [i % 2 for i in range(case.n)]
    label = list(LOSSES[0]) if case.losses else [0, 1]
    weights, arithmetic = case.weights(q, d), Logarithms()
    logs = arithmetic.log(arithmetic.matrix([[x] for x in w]))
    context = initial_context(case.variant, weights, logs, arithmetic)
    tokens = round_tokens(case.variant, weights, [p, [1 - x for x in p]], label, context, arithmetic)
    built = changed(program(case.variant, weights))
    stated = experts(built, case.n, q, losses=case.losses)
    part = f"n = {case.n}, q = {q}, d = {d}"
    return {**tokens_record(built, [tokens], ("label", "tC", [[1]]), stated), "part": part}


def _sampled_weights(case: RoundCase) -> list[Fraction]:
    return [Fraction(i + 2, 2 * i + 3) for i in range(case.n)]


def refuted_at_points(case: RoundCase, choices: int) -> Finding | None:
    """A difference at numbers: that many choices of the bits at two points, in Q with logarithms, else in balls."""
    w = _sampled_weights(case)
    for q, d in POINTS:
        values = {Q: sp.Rational(q.numerator, q.denominator), LEAK: sp.Rational(d.numerator, d.denominator)}
        for code in sorted(range(2 ** (case.n + 1)), key=lambda code: code * 5 % 7)[:choices]:
            told = [sp.Integer(code >> i & 1) for i in range(case.n + 1)]
            if case.losses:
                told[case.n :] = LOSSES[int(told[case.n])]
            row = differs_at(case, w, told, values)
            if row is not None:
                said = "p.., l1, l2" if case.losses else "bits (p.., y)"
                point = {"w": list(map(str, w)), "q": str(q), "d": str(d), said: list(map(str, told))}
                return Finding(Verdict.REFUTED, {"case": case.name, **_difference(case, *row), "point": point})
    return None


def differs_at(
    case: RoundCase, w: Sequence[Any], told: Sequence[Any], values: dict[sp.Symbol, Any]
) -> tuple[int, Any, Any] | None:
    """(row, found, expected) of the first row that differs at a point; None where none is known to differ."""
    try:
        pairs = zip(*(x.ravel() for x in round_answers(case, w, told, values, Logarithms())), strict=True)
        return next(((row, x, e) for row, (x, e) in enumerate(pairs) if x != e), None)
    except Unsupported:
        pass
    with Balls(256).working() as balls:
        try:
            pairs = zip(*(x.entries() for x in round_answers(case, w, told, values, balls)), strict=True)
        except Unsupported:
            return None
        return next(((row, x, e) for row, (x, e) in enumerate(pairs) if not x.overlaps(e)), None)


def _difference(case: RoundCase, row: int, found: Any, expected: Any) -> dict[str, Any]:
    for block, height in answer_blocks(case.variant, case.weights()):
        if row < height:
            return {"block": block, "row": row, "found": rational(found), "expected": rational(expected)}
        row -= height
    raise ValueError("a row beyond the answer")


def prove_rounds(cases: Sequence[RoundCase]) -> Finding:
    """The lemma for every case."""
    return Finding.all_of({case.name: check_round(case) for case in cases})


def firsts(cases: Sequence[RoundCase]) -> list[RoundCase]:
    """The first case of each realisation: what a change does, it does there."""
    return list({case.variant: case for case in reversed(cases)}.values())[::-1]


def round_mutants(cases: Sequence[RoundCase]) -> Iterator[Mutant]:
    """Every non-zero weight of every realisation zeroed, negated and doubled."""
    for case in firsts(cases):
        layout = case.weights().layout(case.variant)
        for text, changed in weight_changes(matrices(case), layout):
            kind = "sign" if text.endswith("negated") else "entry"
            yield Mutant(kind, f"{case.variant}: {text}", [replace(case, matrices=changed)])
