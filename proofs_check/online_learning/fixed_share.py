"""online.fixed-share: a round for every n, K and basis in words, and whole runs.

The layers are read at symbolic sizes, with the public matrices spelt out: -eps (1 1' - I), -a, a/n. The experts' tokens
are [U; P] with U'U = I and one-hot columns P'1 = 1, the label 1'y = 1, the context S = U w for any w >= 0. Then
[p_i != y] = (1 - P'y)_i, and with W = diag(w)

    v = w - eps (w - W P'y),      S' = (1 - a) U v + (a/n) U 1 (1'v),      O = P w.

The block that clears g needs 1'v = (1 - eps) 1'w + eps w'P'y >= 0: products of letters without negative entries, whose
coefficients are affine in eps and not negative at 0 and 1. A relu of unknown sign is (x + |x|)/2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import sympy as sp

from constructions.online_learning import fixed_share
from constructions.online_learning.experts import ExpertTask, householder_basis
from constructions.online_learning.fixed_share import ASSUMPTIONS, KINDS, THEOREM
from constructions.program import Program
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict
from ..instances import NAMED, Instance, InstanceSource, prove_instances
from ..mutants import Mutant, program_mutants
from ..words import Words, diagonal, identity, letter, ones_row, rule, zero
from .round_records import rounds_record, sharing, with_record, with_rounds
from .round_words import ONE, RoundWords, ones, prove_in_words
from .sizes import at_sizes
from .token_table import D, K, N, P, U, nonnegative, y

EPS, SHARE = sp.symbols("eps a", positive=True)
w = letter("w", N, 1)
WEIGHTS = diagonal("w'", N)
NONNEGATIVE = ("w", "diag(w')")
SMALL = ExpertTask(
    ((0, 1, 2), (1, 1, 0), (2, 0, 1)),
    (0, 2, 1),
    3,
    Fraction(1, 4),
    (Fraction(2), Fraction(1, 3), Fraction(3, 4)),
    "three rounds of three experts",
)
"""What a changed program is run on before words are compared."""


@dataclass(frozen=True)
class ShareCase:
    """The program at symbolic sizes."""

    program: Program


class ShareWords(RoundWords):
    """Words with the penalty and the share spelt out, and relu decided by signs."""

    rules = (
        *rule(U.T @ U, identity(N)),
        *rule(P.T @ ones(K), ones(N)),
        *rule(ones_row(K) @ y, ONE),
        *rule(WEIGHTS @ ones(N), w),
    )

    def symbol(self, name: str, rows: Any, columns: Any) -> Words:
        """A public matrix in these letters."""
        spelt = {
            "-eps(J-I)": self.times(ones(K) @ ones_row(K) - identity(K), -EPS),
            "-a": self.times(ONE, -SHARE),
            "a/n": self.times(ONE, SHARE / N),
        }
        return spelt[name] if name in spelt else super().symbol(name, rows, columns)

    def matmul(self, a: Words, b: Words) -> Words:
        return self.normal(a @ b)

    def relu(self, a: Words) -> Words:
        a = self.normal(a)
        if all(_affine_nonnegative(c) and all(_nonnegative(x) for x, _ in word) for word, c in a.terms.items()):
            return a
        return self.times(a + self.absolute(a, "|{}|"), sp.Rational(1, 2))


def _nonnegative(x: Any) -> bool:
    return x.name in NONNEGATIVE or nonnegative(x)


def _affine_nonnegative(c: Any) -> bool:
    """Whether a coefficient is an affine function of eps alone that is not negative on [0, 1]."""
    c = sp.sympify(c)
    if c.free_symbols - {EPS} or sp.degree(c, EPS) > 1:
        return False
    return bool(c.subs(EPS, 0) >= 0 and c.subs(EPS, 1) >= 0)


def share_case() -> list[ShareCase]:
    """The built layers for n experts, K labels and a basis in d dimensions."""
    return [ShareCase(fixed_share.program(N, D, K, EPS, SHARE))]


def prove_table(cases: Sequence[ShareCase]) -> Finding:
    """State, output and clean fields for every n, K, d; a run at small sizes may refute a change first."""
    (case,) = cases
    small = prove_instances([at_three(case)])
    if small.verdict is Verdict.REFUTED:
        return small
    words = ShareWords()
    fields = {
        "context": (1, {"S": U @ w, "tC": ONE}),
        "expert": (N, {"I": U, "P": P, "tE": ones_row(N)}),
        "query": (1, {"tQ": ONE}),
        "label": (1, {"Y": y, "I": U @ ones(N), "tY": ONE}),
    }
    tokens = Tokens({}, {})
    for kind in KINDS:
        count, blocks = fields[kind]
        tokens = tokens.with_kind(kind, count, **blocks)
    v = w - words.times(w - WEIGHTS @ P.T @ y, EPS)
    shared = words.times(U @ v, 1 - SHARE) + words.times(U @ ones(N) @ ones_row(N) @ v, SHARE / N)
    wanted = {("label", field): zero(width, 1) for field, width in case.program.layout.widths.items()}
    wanted |= {("label", "S"): shared, ("query", "O"): P @ w}
    finding = prove_in_words("fixed share", case.program, tokens, wanted, words)
    instance = at_three(case)
    return with_record(finding, lambda: rounds_record(instance, sharing(instance.construction, instance.task)))


def at_three(case: ShareCase) -> Instance:
    """The layers for three experts and labels in a reflected basis, on a small task."""
    built = fixed_share.construction(3, 3, SMALL.eps, Fraction(1, 10), basis=householder_basis([1, 2, 3, 4], 3))
    changed = at_sizes(case.program, built.program, {N: 3, K: 3, D: 4})
    return Instance(replace(built, program=changed), SMALL)


def table_mutants(cases: Sequence[ShareCase]) -> Iterator[Mutant]:
    """Every single change of the layers."""
    for case in cases:
        for mutant in program_mutants(case.program):
            yield Mutant(mutant.kind, mutant.text, [ShareCase(mutant.subject)])


def claims(runs: InstanceSource) -> list[Claim]:
    """The claims of online.fixed-share; the instances come from the caller."""
    return [
        Claim(
            THEOREM,
            "token-table",
            "a round: S' = (1 - a) U v + (a/n) U 1 (1'v) with v_i = w_i (1 - eps [p_i != y]), O = P w, else 0",
            "all n, K, d, orthonormal bases, weights w >= 0, eps in (0, 1) and shares a",
            Assurance.INDUCTIVE,
            (*ASSUMPTIONS, "predictions and labels are one-hot"),
            share_case,
            prove_table,
            mutants=table_mutants,
        ),
        Claim(
            THEOREM,
            "runs",
            "state, raw and normalised output and clean fields equal Fixed-Share in every round",
            NAMED,
            Assurance.EXACT,
            ASSUMPTIONS,
            runs,
            with_rounds(prove_instances, sharing),
        ),
    ]
