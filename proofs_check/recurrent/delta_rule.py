"""recurrent.delta-rule: chunks equal the recurrence; gates, inverse, determinant, dissipation, interference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from constructions.exact import RATIONALS
from constructions.recurrent.delta_rule import ASSUMPTIONS, THEOREM, construction
from constructions.recurrent.streams import Stream, generic_stream, random_stream
from constructions.symbols import Polynomials

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..instances import NAMED, Instance, InstanceSource, prove_instances
from ..records import RUNS
from . import chunks, stream_facts, token_facts
from .formula import FAULTS, Formula, control_mutants, formula_mutants, prove_controls, prove_formula

SYMBOLIC_SIZES = ((2, 2, 2), (3, 2, 1), (3, 3, 1), (4, 2, 1))
"""(C, d_k, d_v)."""
LARGEST_RECORDED = 200
"""Terms up to which answers in symbols have records."""
ALL = "every chunk size, d_k, d_v and every gate matrix; scalar gates a I, also a = 0, are a case"
TRIANGULAR = "a unit lower triangular matrix is invertible (cited)"


def symbolic_instances() -> list[Instance]:
    """One chunk of the layer on generic tokens, at each size."""
    return [Instance(construction(d_k, d_v, T), generic_stream(T, d_k, d_v)) for T, d_k, d_v in SYMBOLIC_SIZES]


def prove_symbolic(instances: Sequence[Instance]) -> Finding:
    """Program and recurrence agree as polynomials in every key, value, query, rate, gate and state entry."""
    found, records = [], []
    for instance in instances:
        task: Stream = instance.task  # type: ignore[assignment]
        ring = Polynomials(task.symbols)
        left = instance.construction.outputs(task, ring)
        right = instance.construction.reference(task, ring)
        terms = 0
        for row in range(right.shape[0]):
            for column in range(right.shape[1]):
                difference = left[row, column] - right[row, column]
                if difference != 0:
                    block = "outputs" if column < task.size[0] else "state"
                    where = {"block": block, "row": row, "column": column, "stream": task.name}
                    return Finding(Verdict.REFUTED, {**where, "difference": rational(difference)})
                terms = max(terms, len(right[row, column]))
        found.append({"stream": task.name, "symbols": len(task.symbols), "terms of the largest entry": terms})
        if terms <= LARGEST_RECORDED:
            records.append(stream_facts.answered_generic(task, left))
    return Finding(Verdict.PROVED, {"sizes": found}, tuple(records))


def formula_streams(seed: int) -> list[Stream]:
    """Streams in Q with gates that vanish, rates 0, 1, 2 and between, and larger chunks."""
    return [
        random_stream(2, 2, 1, seed),
        random_stream(4, 2, 2, seed, gates=[0, 1]),
        random_stream(5, 3, 2, seed),
        random_stream(8, 4, 3, seed),
    ]


def contracting_streams(seed: int) -> list[Stream]:
    """Gates 1, rates c / |k|^2 with c among 0, 1/2, 1, 2: the last ones reflect."""
    out = []
    for T, d in ((3, 2), (6, 3)):
        drawn = random_stream(T, d, 1, seed, gates=[1])
        squares = [sum(x * x for x in key) for key in drawn.keys]
        parts = [Fraction(2), Fraction(1), Fraction(1, 2), Fraction(0)]
        rates = [parts[i % 4] / s if s else Fraction(0) for i, s in enumerate(squares)]
        out.append(Stream(drawn.keys, drawn.values, drawn.queries, rates, drawn.gates, drawn.initial, drawn.name))
    return out


def prove_streams(instances: Sequence[Instance]) -> Finding:
    """As `prove_instances`; records hold the answers of the built layer beside the recurrence."""
    finding = prove_instances(instances)
    if finding.verdict is not Verdict.PROVED:
        return finding
    first = sorted(instances, key=lambda x: x.task.size)[:: max(1, len(instances) // RUNS)]
    records = (stream_facts.answered(x.task, x.construction.outputs(x.task, RATIONALS)) for x in first)  # type: ignore[arg-type]
    return replace(finding, records=tuple(records))


def claims(instances: InstanceSource, seed: int = 0) -> list[Claim]:
    """The claims of recurrent.delta-rule; instances of the layer in Q come from the caller."""

    def formulas() -> list[Formula]:
        return [Formula(stream) for stream in formula_streams(seed)]

    def controls() -> list[Formula]:
        return [Formula(stream, fault) for fault in FAULTS for stream in formula_streams(seed)]

    def claim(
        name: str,
        statement: str,
        scope: str,
        assurance: Assurance,
        build: Callable,
        prove: Callable,
        mutants: Callable | None = None,
        more: tuple[str, ...] = (),
    ) -> Claim:
        return Claim(THEOREM, name, statement, scope, assurance, (*ASSUMPTIONS, *more), build, prove, mutants=mutants)

    inductive, exact = Assurance.INDUCTIVE, Assurance.EXACT
    return [
        claim(
            "chunks",
            "a chunk does to every state what its tokens do one by one: one token, a token more, two chunks",
            ALL,
            inductive,
            chunks.grown,
            chunks.prove_grown,
            chunks.grown_mutants,
        ),
        claim(
            "substitution",
            "W' = T diag(b g) K and Z' = T diag(b) V with T = (I + L)^-1: each token is a row of forward substitution",
            ALL,
            inductive,
            chunks.grown,
            chunks.prove_system,
            chunks.system_mutants,
            (TRIANGULAR,),
        ),
        claim(
            "monoid",
            "merging chunks is associative, and its map is the map of one after that of the other",
            ALL,
            inductive,
            chunks.brackets,
            chunks.prove_monoid,
            chunks.bracket_mutants,
        ),
        claim(
            "symbolic",
            "the layer in one chunk equals the recurrence in outputs and state, as polynomials",
            "(C, d_k, d_v) = (2, 2, 2), (3, 2, 1), (3, 3, 1), (4, 2, 1), all numbers symbols",
            exact,
            symbolic_instances,
            prove_symbolic,
        ),
        claim(
            "formula",
            "the formula with T = (I + L)^-1 by matrix inversion gives the recurrence's outputs and state",
            "the streams named in the evidence",
            exact,
            formulas,
            prove_formula,
            formula_mutants,
        ),
        claim(
            "controls",
            "forms that look alike are wrong: " + ", ".join(FAULTS),
            "refuted at the rational points named in the evidence",
            exact,
            controls,
            prove_controls,
            control_mutants,
        ),
        claim(
            "instances",
            "chunks of any size, resumed from any state, equal the recurrence",
            NAMED,
            exact,
            instances,
            prove_streams,
        ),
        claim(
            "gates",
            "gates are a diagonal similarity of T: the gated W is the ungated one times diag(g)",
            "W at the sizes of `symbolic`, all symbols; (diag(g) (I + L) diag(1/g))^-1 for all sizes, g_i != 0",
            exact,
            lambda: [token_facts.Similarity(s, s.gates) for s in map(lambda x: generic_stream(*x), SYMBOLIC_SIZES)],
            token_facts.prove_similarity,
            token_facts.similarity_mutants,
        ),
        claim(
            "inverse",
            "T_ij = -b_i k_i' prod (I - b k k') k_j, so |T_ij| <= b_i |k_i| |k_j| where 0 <= b |k|^2 <= 2 (gates 1)",
            "the product by one generic token for all sizes; entries and bound on the streams named",
            exact,
            lambda: [Formula(stream) for stream in contracting_streams(seed)],
            token_facts.prove_inverse,
            token_facts.inverse_mutants,
            ("I - b k k' has norm at most 1 where 0 <= b |k|^2 <= 2: its eigenvalues are 1 and 1 - b |k|^2",),
        ),
        claim(
            "determinant",
            "det(I - b k k') = 1 - b |k|^2, so det M = product of a_i^{d_k} (1 - b_i |k_i|^2)",
            "all d_k, one token",
            inductive,
            token_facts.determinant,
            token_facts.prove_equations,
            token_facts.equation_mutants,
            ("determinants multiply, and that of a block triangular matrix is the product of its blocks' (cited)",),
        ),
        claim(
            "determinant-of-chunks",
            "det M of the layer's chunk is the product of a_i^{d_k} (1 - b_i |k_i|^2)",
            "the streams named in the evidence",
            exact,
            lambda: token_facts.determinants([s for s in formula_streams(seed) if 0 not in s.gates]),
            token_facts.prove_determinants,
            token_facts.determinant_mutants,
        ),
        claim(
            "dissipation",
            "E E' - E+ E+' = u (2/b - |k|^2) u': below b |k|^2 = 2 errors contract on the span, at 2 they do not",
            "all sizes, every token with gate 1 and b != 0; the trace gives |E|^2 - |E M|^2 as a sum over tokens",
            inductive,
            token_facts.dissipation,
            token_facts.prove_equations,
            token_facts.equation_mutants,
        ),
        claim(
            "interference",
            "recall after later tokens: S_T k - v = -(1 - b |k|^2) e + sum of later u_j k_j.k, with e = v - S k",
            "all sizes; gates 1 from the token on",
            inductive,
            token_facts.interference,
            token_facts.prove_equations,
            token_facts.equation_mutants,
        ),
    ]
