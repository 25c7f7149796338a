"""The chunk formula of the gated delta rule as matrices in Q, and forms that look like it (theory F1, F3, F4).

Rows are tokens here, the transpose of the layer's columns, and the inverse is one of a matrix: nothing is shared with
the chunks that the layer runs.

    L = strictlower(diag(b) (G o KK')),  T = (I + L)^-1,  U = T diag(b) V - T diag(b g) K S_0',
    S_C = g_C S_0 + U' diag(g_C / g) K,  O = diag(g) Q S_0' + (tril(QK') o G) U.

g_i = a_1 .. a_i, and G_ij = g_i / g_j for j <= i is the product a_{j+1} .. a_i, which needs no division.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.recurrent import delta_rule
from constructions.recurrent.streams import Stream

from ..claim import Finding, Verdict, rational
from ..generic_layer import first_difference
from ..mutants import Mutant
from . import stream_facts

FAULTS = (
    "b on the wrong side",
    "no gate in L",
    "no gate in W",
    "no gate in k",
    "diagonal kept",
    "first-order Neumann",
    "no gate in the scores",
    "scores before the write",
)
"""The negative controls; the last two concern the outputs."""


@dataclass(frozen=True)
class Formula:
    """The formula for one stream, as stated or with one fault of `FAULTS`."""

    stream: Stream
    fault: str | None = None


def products(gates: Sequence[Any]) -> fmpq_mat:
    """G with G_ij = a_{j+1} .. a_i for j <= i, else 0; shape (C, C)."""
    C = len(gates)
    rows = [[fmpq(0)] * C for _ in range(C)]
    for j in range(C):
        rows[j][j] = fmpq(1)
        for i in range(j + 1, C):
            rows[i][j] = rows[i - 1][j] * gates[i]
    return fmpq_mat(C, C, [x for row in rows for x in row])


def diagonal(entries: Sequence[Any]) -> fmpq_mat:
    """diag of the entries."""
    C = len(entries)
    return fmpq_mat(C, C, [entries[i] if i == j else fmpq(0) for i in range(C) for j in range(C)])


def lower(matrix: fmpq_mat, first: int = 0) -> fmpq_mat:
    """The entries with column <= row - first; zero elsewhere."""
    C = matrix.nrows()
    return fmpq_mat(C, C, [matrix[i, j] if j <= i - first else fmpq(0) for i in range(C) for j in range(C)])


def strict_lower_part(formula: Formula) -> fmpq_mat:
    """L of the formula, shape (C, C); with the faults that concern it."""
    K, b, a = RATIONALS.matrix(formula.stream.keys), *scalars(formula.stream)
    gram = K * K.transpose()
    gated = gram if formula.fault == "no gate in L" else RATIONALS.hadamard(products(a), gram)
    if formula.fault == "b on the wrong side":
        full = gated * diagonal(b)
    else:
        full = diagonal(b) * gated
    return lower(full, 0 if formula.fault == "diagonal kept" else 1)


def scalars(stream: Stream) -> tuple[list[fmpq], list[fmpq]]:
    """Rates and gates in Q."""
    return ([RATIONALS.scalar(x) for x in stream.rates], [RATIONALS.scalar(x) for x in stream.gates])


def evaluate_formula(formula: Formula) -> fmpq_mat:
    """[O', S_C], shape (d_v, C + d_k), laid out as the layer's answer is."""
    stream, fault = formula.stream, formula.fault
    K, V, Q, S0 = (RATIONALS.matrix(x) for x in (stream.keys, stream.values, stream.queries, stream.initial))
    b, a = scalars(stream)
    C = len(b)
    G = products(a)
    g = [a[0] * G[i, 0] for i in range(C)]
    one = diagonal([fmpq(1)] * C)
    L = strict_lower_part(formula)
    T = one - L if fault == "first-order Neumann" else (one + L).inv()
    carried = K if fault == "no gate in k" else diagonal([G[C - 1, i] for i in range(C)]) * K
    decay = diagonal(b) if fault == "no gate in W" else diagonal([x * y for x, y in zip(b, g, strict=True)])
    U = T * diagonal(b) * V - T * decay * K * S0.transpose()
    scores = lower(Q * K.transpose(), 1 if fault == "scores before the write" else 0)
    if fault != "no gate in the scores":
        scores = RATIONALS.hadamard(scores, G)
    outputs = diagonal(g) * Q * S0.transpose() + scores * U
    state = S0 * g[C - 1] + U.transpose() * carried
    return RATIONALS.stack([[outputs.transpose(), state]])


def prove_formula(formulas: Sequence[Formula]) -> Finding:
    """The formula gives the outputs and the state of the recurrence on every stream."""
    tried, records = [], []
    for formula in sorted(formulas, key=lambda x: x.stream.size):
        place = disagreement(formula)
        if place is not None:
            return Finding(Verdict.REFUTED, {**place, "counterexample": formula.stream.describe()})
        tried.append(formula.stream.name)
        records.append(stream_facts.formula(formula.stream, formula.fault))
    return Finding(Verdict.PROVED, {"streams": tried}, tuple(records))


def prove_controls(formulas: Sequence[Formula]) -> Finding:
    """Each form with a fault is refuted by some stream: the place is named. A form that no stream refutes is kept."""
    found: dict[str, Any] = {}
    records = []
    for formula in formulas:
        place = disagreement(formula)
        if place is not None and str(formula.fault) not in found:
            found[str(formula.fault)] = place
            records.append(stream_facts.formula(formula.stream, formula.fault))
    missing = sorted({str(formula.fault) for formula in formulas} - set(found))
    if missing:
        return Finding(Verdict.REFUTED, {"block": missing[0], "failure": "no stream tells it from the recurrence"})
    return Finding(Verdict.PROVED, {"refuted": found}, tuple(records))


def disagreement(formula: Formula) -> dict[str, Any] | None:
    """Where the formula leaves the recurrence; None where it does not."""
    found, expected = evaluate_formula(formula), delta_rule.reference(formula.stream, RATIONALS)
    place = first_difference(found, expected)
    if place is None:
        return None
    row, column = place
    T = formula.stream.size[0]
    block = {"block": "outputs", "token": column} if column < T else {"block": "state", "column": column - T}
    sides = {"found": rational(found[place]), "expected": rational(expected[place])}
    return {"stream": formula.stream.name, **block, "row": row, **sides}


def formula_mutants(formulas: Sequence[Formula]) -> Iterator[Mutant]:
    """Every negative control."""
    for fault in FAULTS:
        yield Mutant("formula", fault, [replace(formula, fault=fault) for formula in formulas])


def control_mutants(formulas: Sequence[Formula]) -> Iterator[Mutant]:
    """The fault of one control mended."""
    for fault in FAULTS:
        changed = [replace(formula, fault=None) if formula.fault == fault else formula for formula in formulas]
        yield Mutant("formula", f"{fault} mended", changed)
