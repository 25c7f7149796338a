"""Weighted majority for every n, K and d at once: one row of scores and values per pair of token types.

The layers are read at symbolic sizes. The experts' tokens are [U; P], U'U = I, P one-hot columns; the context holds
S = U l for any l; the label token y. Scores are then words in inner products only, whatever the basis is: the asking
token scores the experts by U'U l = l and every foreign key by its bias, and this one distribution is a letter, named
after its scores. The ReLU block is decided by what its arguments are: products of what is nowhere negative stay, and
O - 1 is nowhere positive, since O averages one-hot columns and zeros; a combination of two bits is decided at its four
values. Any other relu is a letter of its own.

With losses (Hedge) the label token holds any y >= 0, the loss of each label; one expert a label is P = I.

A mutant is looked at twice: the same layers at n = K = 2 (`one_round`), where a difference refutes, and then in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sympy as sp

from constructions.normalised_attention import Part
from constructions.online_learning.expert_weights import Weights
from constructions.online_learning.experts import householder_basis, one_hot_basis
from constructions.online_learning.weighted_majority import ASKS, KINDS, program
from constructions.program import Program
from constructions.tokens import Tokens

from ..claim import Finding, Verdict
from ..mutants import Mutant, program_mutants
from ..records import Record, word_blocks, words_record
from ..words import Letter, Rule, Words, identity, letter, normal_form, rule, zero
from .one_round import LEAK, Q, RoundCase, at_a_point, check_round, program_of
from .round_records import with_record
from .round_words import ONE, RoundWords, ones, prove_in_words
from .sizes import at_sizes

N, D, K = sp.symbols("n d K", integer=True, positive=True)
U, P, y, logs = letter("U", D, N), letter("P", K, N), letter("y", K, 1), letter("l", N, 1)
u_n, e_n = letter("u_n", D, 1), letter("e_n", N, 1)
PENALTIES = ("e(J-I)", "e I")
NAMED, BY_NAME = letter("A", K * D, N), letter("I(x)U'", K * N, K * D)
SAID = letter("vec P", K * N, 1)
LABELS, BOTH = letter("I(x)1", K * N, K) @ y, letter("vec P o (I(x)1 y)", K * N, 1)
(BIT,), (OTHER_BIT,) = SAID.terms, LABELS.terms
TOTAL = NAMED @ ones(N)
RULES: list[Rule] = [
    *rule(U.T @ U, identity(N)),
    *rule(U.T @ u_n, e_n),
    *rule(letter("-log 2 u_n", D, 1), u_n @ letter("-log 2", 1, 1)),
    *rule(BY_NAME @ TOTAL, SAID),
    *rule(BY_NAME.T @ SAID, TOTAL),
]
"""The basis is orthonormal and u_n its last vector; A holds p_i (x) u_i in column i, vec P its coordinates by label."""
NONNEGATIVE = ("P", "y", "e_n", "vec P", "ones")


@dataclass(frozen=True)
class TableCase:
    """A realisation at symbolic sizes; with `losses` the label token tells the loss of each label."""

    variant: str
    program: Program
    losses: bool = False


def table_case(variant: str, losses: bool = False) -> TableCase:
    """The built layers of a realisation for n experts, K labels and a basis in d dimensions."""
    return TableCase(variant, program(variant, Weights(N, D, K, Q, LEAK, losses=losses)), losses)


class TokenTable(RoundWords):
    """Words, with distributions named after their scores, and relu decided by signs."""

    rules = RULES

    def symbol(self, name: str, rows: Any, columns: Any) -> Words:
        """A public matrix by its name; the penalties are symmetric."""
        return letter(name, rows, columns, symmetric=name in PENALTIES)

    def distribution(self, kind: str, parts: Sequence[Part]) -> list[Words]:
        """Equal scores with all sources seen: ones over their number. Else one letter a part, of the scores of all."""
        scores = [normal_form(part.scores or zero(part.sources, part.targets), RULES) for part in parts]
        seen = all(not (part.route.same or part.route.causal) or part.sources == 1 for part in parts)
        if seen and all(not score.terms for score in scores) and all(part.targets == 1 for part in parts):
            share = 1 / sp.sympify(sum(part.sources for part in parts))
            return [self.times(ones(part.sources), share) for part in parts]
        text = share_name(kind, scores, "" if seen else f" {'; '.join(str(part.route) for part in parts)}")
        return [letter(f"{text}[{i + 1}]", part.sources, part.targets) for i, part in enumerate(parts)]

    def relu(self, a: Words) -> Words:
        a = normal_form(a, RULES)
        if a.terms.keys() <= {BIT, OTHER_BIT}:
            # relu(a p + b y) at bits p, y is a+ p + b+ y + c p y, c by its value at p = y = 1.
            left, right = a.terms.get(BIT, 0), a.terms.get(OTHER_BIT, 0)
            both = max(left + right, 0) - max(left, 0) - max(right, 0)
            out = self.times(SAID, max(left, 0)) + self.times(LABELS, max(right, 0)) + self.times(BOTH, both)
            return Words(out.rows, out.columns, {word: c for word, c in out.terms.items() if c})
        if all(c > 0 and all(nonnegative(x) for x, _ in word) for word, c in a.terms.items()):
            return a
        if _average_minus_ones(a):
            return zero(*a.shape)
        return letter(f"relu({a})", *a.shape)


def share_name(kind: str, scores: Sequence[Words], routes: str = "") -> str:
    """A distribution by its scores, and by its routes where a target does not see all of its sources."""
    return f"{kind}({'; '.join(map(str, scores))}{routes})"


def nonnegative(x: Letter) -> bool:
    """Whether a letter has no negative entry."""
    return x.name in NONNEGATIVE or x.name.startswith(("softmax(", "relu(")) or x.name.startswith("1_")


def _average_minus_ones(a: Words) -> bool:
    """Whether it is sum of P a_i or P e_n a_i, a_i different parts of one distribution, minus ones at least once."""
    (minus,) = letter("ones", a.rows, 1).terms
    if [word for word, c in a.terms.items() if c < 0] != [minus] or a.terms[minus] > -1:
        return False
    parts: list[str] = []
    for word, c in a.terms.items():
        if c < 0:
            continue
        *values, (share, flipped) = word
        names = [(x.name, t) for x, t in values]
        if c != 1 or flipped or not share.name.startswith("softmax("):
            return False
        if names not in ([("P", False)], [("P", False), ("e_n", False)]):
            return False
        parts.append(share.name)
    distributions = {name.rpartition("[")[0] for name in parts}
    return len(distributions) == 1 and len(set(parts)) == len(parts)


def tokens_of(variant: str) -> Tokens:
    """A round on generic tokens."""
    expert = {"I": U, "P": P} | ({"A": NAMED} if variant == "softmax_only" else {})
    fields = {
        "expert": (N, expert),
        "context": (1, {"S": U @ logs, "tC": ONE}),
        "query": (1, {"tQ": ONE}),
        "label": (1, {"Y": y, "tY": ONE}),
    }
    tokens = Tokens({}, {})
    for kind in KINDS[variant]:
        count, blocks = fields[kind]
        tokens = tokens.with_kind(kind, count, **blocks)
    return tokens


def expected(case: TableCase) -> tuple[Words, Words]:
    """S' and O. The letters of O are the distribution of the scores that theory B1 states, part by part."""
    bias, half = letter("log d", 1, 1), letter("-log 2", 1, 1)

    def shares(*scores: Words) -> list[Words]:
        name = share_name("softmax", scores)
        return [letter(f"{name}[{i + 1}]", score.rows, 1) for i, score in enumerate(scores)]

    variant = case.variant
    if variant == "two_layer":
        output = P @ shares(bias, logs, bias)[1]
    elif variant == "replica":
        own, copied = shares(logs + e_n @ half, e_n.T @ logs + half)
        output = P @ own + P @ e_n @ copied
    else:
        output = P @ shares(logs, bias)[0]
    if variant == "softmax_only":
        # |p - y| = p + y - 2 p y at bits.
        learned = letter("e/2 1'(x)U", D, K * N) @ (SAID + LABELS - BOTH - BOTH)
    else:
        learned = U @ P.T @ letter("e I" if case.losses else "e(J-I)", K, K, symmetric=True) @ y
    return U @ logs + learned, output


def prove_table(cases: Sequence[TableCase]) -> Finding:
    """State, output and clean fields for every n, K, d."""
    return Finding.all_of({case.variant: _prove_case(case) for case in cases})


def _prove_case(case: TableCase) -> Finding:
    small = check_round(at_two(case))
    if small.verdict is Verdict.REFUTED:
        return small
    state, output = expected(case)
    wanted = {("label", field): zero(width, 1) for field, width in case.program.layout.widths.items()}
    wanted |= {("label", "S"): state, (ASKS[case.variant], "O"): output}
    recorded = partial(log_weights, state)
    finding = prove_in_words(
        case.variant, case.program, tokens_of(case.variant), wanted, TokenTable(), recorded=recorded
    )
    return with_record(finding, lambda: _at_three(case))


def _at_three(case: TableCase) -> Record:
    """The record of the layers for three experts and two labels in a reflected basis."""
    small = RoundCase(case.variant, householder_basis([1, 2, 3, 4], 3), losses=case.losses)
    return at_a_point(small, lambda built: at_sizes(case.program, built, {N: 3, K: 2, D: 4}))


def log_weights(state: Words, tokens: Tokens) -> tuple[Record, ...]:
    """Identities of the state that the layers leave: it is the one expected, and U'S' is l and what the round adds."""
    left = tokens.blocks["label", "S"]
    orthonormal = rule(U.T @ U, identity(N))
    record = words_record(
        {"S'": (left, state), "U'S'": (U.T @ left, normal_form(U.T @ state, orthonormal))}, orthonormal
    )
    return ({**record, "matrices": {"next": [word_blocks([left])]}},)


def at_two(case: TableCase) -> RoundCase:
    """The layers of a case for two experts, two labels and the unit vectors."""
    small = RoundCase(case.variant, one_hot_basis(2), losses=case.losses)
    sizes = {N: 2, K: 2, D: 2}
    return replace(small, program=at_sizes(case.program, program_of(small), sizes))


def table_mutants(cases: Sequence[TableCase]) -> Iterator[Mutant]:
    """Every single change of the layers of every realisation."""
    for case in cases:
        for mutant in program_mutants(case.program):
            yield Mutant(mutant.kind, f"{case.variant}: {mutant.text}", [replace(case, program=mutant.subject)])
