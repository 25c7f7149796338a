"""Weighted majority for every n, K and d at once: one row of scores and values per pair of token types.

The layers are read at symbolic sizes. The experts' tokens are [U; P], U'U = I, P one-hot columns; the context holds
S = U l for any l; the label token y. Scores are then words in inner products only, whatever the basis is: the asking
token scores the experts by U'U l = l and every foreign key by its bias, and this one distribution is a letter, named
after its scores. The ReLU block is decided by what its arguments are: products of what is nowhere negative stay, and
O - 1 is nowhere positive, since O averages one-hot columns and zeros; a combination of two bits is decided at its four
values. Any other relu is a letter of its own.

A mutant is looked at twice: the same layers at n = K = 2 (`one_round`), where a difference refutes, and then in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from constructions.errors import Unsupported
from constructions.layers import Head, LinearAttention, Public
from constructions.mlp import Map, Mlp
from constructions.normalised_attention import NormalisedAttention, Part
from constructions.online_learning.expert_weights import Weights
from constructions.online_learning.experts import one_hot_basis
from constructions.online_learning.weighted_majority import ASKS, KINDS, program
from constructions.parallel import Parallel
from constructions.program import Program
from constructions.tokens import Tokens

from ..claim import Finding, Verdict
from ..mutants import Mutant, program_mutants
from ..words import FreeAlgebra, Letter, Rule, Words, identity, letter, normal_form, ones_row, rule, zero
from .one_round import LEAK, Q, RoundCase, check_round

N, D, K = sp.symbols("n d K", integer=True, positive=True)
U, P, y, logs = letter("U", D, N), letter("P", K, N), letter("y", K, 1), letter("l", N, 1)
u_n, e_n = letter("u_n", D, 1), letter("e_n", N, 1)
PENALTY = letter("e(J-I)", K, K)
NAMED, BY_NAME = letter("A", K * D, N), letter("I(x)U'", K * N, K * D)
SAID = letter("vec P", K * N, 1)
LABELS, BOTH = letter("I(x)1", K * N, K) @ y, letter("vec P o (I(x)1 y)", K * N, 1)
(BIT,), (OTHER_BIT,) = SAID.terms, LABELS.terms
ONE = identity(1)
TOTAL = NAMED @ ones_row(N).T
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
    """A realisation at symbolic sizes."""

    variant: str
    program: Program


def table_case(variant: str) -> TableCase:
    """The built layers of a realisation for n experts, K labels and a basis in d dimensions."""
    return TableCase(variant, program(variant, Weights(N, D, K, Q, LEAK)))


class TokenTable(FreeAlgebra):
    """Words, with distributions named after their scores, and relu decided by signs."""

    name = "token table"

    def times(self, a: Words, factor: Any) -> Words:
        """A public number, possibly with symbolic sizes in it, times a word."""
        return Words(a.rows, a.columns, {word: c * factor for word, c in a.terms.items()})

    def distribution(self, kind: str, parts: Sequence[Part]) -> list[Words]:
        """Equal scores with all sources seen: ones over their number. Else one letter a part, of the scores of all."""
        scores = [normal_form(part.scores or zero(part.sources, part.targets), RULES) for part in parts]
        seen = all(not (part.route.same or part.route.causal) or part.sources == 1 for part in parts)
        if seen and all(not score.terms for score in scores) and all(part.targets == 1 for part in parts):
            share = 1 / sp.sympify(sum(part.sources for part in parts))
            return [self.times(ones_row(part.sources).T if part.sources != 1 else ONE, share) for part in parts]
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
        if all(c > 0 and all(_nonnegative(x) for x, _ in word) for word, c in a.terms.items()):
            return a
        if _average_minus_one(a):
            return zero(*a.shape)
        return letter(f"relu({a})", *a.shape)


def share_name(kind: str, scores: Sequence[Words], routes: str = "") -> str:
    """A distribution by its scores, and by its routes where a target does not see all of its sources."""
    return f"{kind}({'; '.join(map(str, scores))}{routes})"


def _nonnegative(x: Letter) -> bool:
    return x.name in NONNEGATIVE or x.name.startswith(("softmax(", "relu(")) or x.name.startswith("1_")


def _average_minus_one(a: Words) -> bool:
    """Whether it is sum of P a_i or P e_n a_i, a_i different parts of one distribution, minus ones."""
    minus = [(word, c) for word, c in a.terms.items() if c < 0]
    if [(word, c) for word, c in minus] != [(next(iter(letter("ones", a.rows, 1).terms)), -1)]:
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


def expected(variant: str) -> tuple[Words, Words]:
    """S' and O. The letters of O are the distribution of the scores that theory B1 states, part by part."""
    bias, half = letter("log d", 1, 1), letter("-log 2", 1, 1)

    def shares(*scores: Words) -> list[Words]:
        name = share_name("softmax", scores)
        return [letter(f"{name}[{i + 1}]", score.rows, 1) for i, score in enumerate(scores)]

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
        learned = U @ P.T @ PENALTY.T @ y
    return U @ logs + learned, output


def prove_table(cases: Sequence[TableCase]) -> Finding:
    """State, output and clean fields for every n, K, d."""
    return Finding.all_of({case.variant: _prove_case(case) for case in cases})


def _prove_case(case: TableCase) -> Finding:
    small = check_round(RoundCase(case.variant, one_hot_basis(2), at_sizes(case, 2, 2, 2)))
    if small.verdict is Verdict.REFUTED:
        return small
    tokens = tokens_of(case.variant)
    try:
        for _, tokens in case.program.steps(tokens, TokenTable()):  # noqa: B007, B020
            pass
    except Unsupported as error:
        return Finding(Verdict.UNDECIDED, {"case": case.variant, "missing": str(error)})
    state, output = expected(case.variant)
    wanted = {("label", field): zero(width, 1) for field, width in case.program.layout.widths.items()}
    wanted |= {("label", "S"): state, (ASKS[case.variant], "O"): output}
    evidence: dict[str, Any] = {"hypotheses": sorted({r.text for r in RULES})}
    for key, words in wanted.items():
        found = tokens.blocks.get(key, zero(*words.shape))
        difference = normal_form(found - words, RULES)
        if difference.terms:
            missing = f"{key[0]}.{key[1]}: the words {difference} are not known to be zero"
            return Finding(Verdict.UNDECIDED, {"case": case.variant, "missing": missing})
        if words.terms:
            evidence[f"{key[0]}.{key[1]}"] = str(normal_form(found, RULES))
    return Finding(Verdict.PROVED, evidence)


def at_sizes(case: TableCase, n: int, outcomes: int, width: int) -> Program:
    """The layers of a case at sizes and with the unit vectors as basis; public matrices by their names."""
    weights = Weights(n, width, outcomes, Q, LEAK, one_hot_basis(n))
    sizes = {N: n, K: outcomes, D: width}
    built = program(case.variant, weights)
    publics = {public.name: public for layer in built.layers for public in publics_in(layer)}
    layers = [layer_at(layer, publics, sizes, weights.layout(case.variant)) for layer in case.program.layers]
    return Program(case.program.name, built.layout, built.kinds, tuple(layers))


def publics_in(layer: Any) -> Iterator[Public]:
    if isinstance(layer, Parallel):
        for inner in layer.layers:
            yield from publics_in(inner)
    elif isinstance(layer, Mlp):
        maps = [part for group in layer.groups for part in (*group.reads, *group.writes)]
        yield from (_upright(part.weight) for part in maps if part.weight is not None)
    else:
        terms = [term for head in layer.heads for term in ((head,) if isinstance(head, Head) else head.scores)]
        yield from (_upright(term.weight) for term in terms if term.weight is not None)


def _upright(public: Public) -> Public:
    return public.T if public.transposed else public


def layer_at(layer: Any, publics: Mapping[str, Public], sizes: Mapping[sp.Symbol, int], layout: Any) -> Any:
    def public(old: Public | None) -> Public | None:
        return None if old is None else replace(publics[old.name], transposed=old.transposed)

    def number(x: Any) -> Any:
        return x.subs(sizes) if isinstance(x, sp.Expr) else x

    def mapped(part: Map) -> Map:
        return replace(part, weight=public(part.weight), scale=number(part.scale))

    if isinstance(layer, Parallel):
        return replace(layer, layers=tuple(layer_at(inner, publics, sizes, layout) for inner in layer.layers))
    if isinstance(layer, LinearAttention):
        return replace(layer, heads=tuple(replace(head, weight=public(head.weight)) for head in layer.heads))
    if isinstance(layer, NormalisedAttention):
        heads = [
            replace(
                head,
                moves=tuple(replace(move, scale=number(move.scale)) for move in head.moves),
                scores=tuple(replace(term, weight=public(term.weight)) for term in head.scores),
            )
            for head in layer.heads
        ]
        return replace(layer, heads=tuple(heads))
    groups = [
        replace(
            group,
            units=int(number(sp.sympify(group.units))),
            reads=tuple(map(mapped, group.reads)),
            writes=tuple(map(mapped, group.writes)),
        )
        for group in layer.groups
    ]
    return replace(layer, layout=layout, groups=tuple(groups))


def table_mutants(cases: Sequence[TableCase]) -> Iterator[Mutant]:
    """Every single change of the layers of every realisation."""
    for case in cases:
        for mutant in program_mutants(case.program):
            yield Mutant(mutant.kind, f"{case.variant}: {mutant.text}", [replace(case, program=mutant.subject)])
