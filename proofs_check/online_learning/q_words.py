"""Words for a round of Q-learning: names of actions that are orthonormal, public matrices spelt out, signs of relu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from constructions.errors import Unsupported
from constructions.normalised_attention import Part
from constructions.online_learning.maximum import levels, width_after

from ..words import Rule, Words, identity, is_ones, letter, normal_form, ones_row, rule, zero
from .chambers import BOUND, DISCOUNT, GATE
from .round_words import ONE, RoundWords, ones

S, A, D, E = sp.symbols("S A d d_a", integer=True, positive=True)
BETA, EPS = sp.symbols("beta eps", positive=True)


class QWords(RoundWords):
    """Words in which the names of the actions are orthonormal and the public matrices are spelt out.

    Attributes:
        leading: scores of which the largest is positive, by |Q| < B.
    """

    leading: Words

    def __init__(self, actions: Any) -> None:
        self.actions = actions
        self.V, self.U = letter("V", E, actions), letter("U", D, S)
        self.rules: list[Rule] = [*rule(self.V.T @ self.V, identity(actions)), *rule(self.U.T @ self.U, identity(S))]
        self.any_action = ones_row(actions) @ self.V.T if actions != 1 else self.V.T

    def matrix(self, rows: Any, shape: Any = None) -> Words:
        """The number one, the only matrix that a round has besides its letters."""
        if rows != [[1]]:
            raise Unsupported(f"{self.name}: no word for the matrix {rows}")
        return ONE

    def symbol(self, name: str, rows: Any, columns: Any) -> Words:
        """A public matrix in these letters."""
        spelt = {
            "1'V'": self.any_action,
            "B 1'V'": self.times(self.any_action, BOUND),
            "V'": self.V.T,
            "U'": self.U.T,
            "Pi": self.V @ swapped(self.actions) @ self.V.T,
        }
        spelt |= {f"{-2 * GATE} 1'V'": self.times(ones(S) @ self.any_action, -2 * GATE)}
        if name in spelt:
            return spelt[name]
        factors = {"g I": DISCOUNT, "beta I": BETA, "2B I": 2 * BOUND}
        if name in factors:
            return self.times(identity(rows), factors[name])
        if name == "ones":
            return ones(rows) @ ones(columns).T
        if name.endswith(" V'"):
            return letter(name.removesuffix(" V'"), rows, self.actions) @ self.V.T
        return letter(name, rows, columns)

    def matmul(self, a: Words, b: Words) -> Words:
        return self.normal(a @ b)

    def masked(self, part: Part) -> Words:
        """A multiple of the identity is diagonal, and a causal mask leaves it."""
        scores = self.normal(part.scores or zero(part.sources, part.targets))
        if all(word == () for word in scores.terms):
            return scores
        raise Unsupported(f"{self.name}: the words {scores} under the mask of {part.route}")

    def distribution(self, kind: str, parts: Sequence[Part]) -> list[Words]:
        """A letter a part; under hardmax nothing for scores of zero where some score is sure to be positive."""
        scores = [self.normal(part.scores or zero(part.sources, part.targets)) for part in parts]
        live = [i for i, score in enumerate(scores) if score.terms]
        masks = [_relation(part) for part in parts]
        if kind == "hardmax" and live and not any(masks[i] for i in live):
            winning = self._winning([scores[i] for i in live], parts[0].targets)
            if winning is not None:
                weights = dict(zip(live, winning, strict=True))
                return [weights.get(i, zero(part.sources, part.targets)) for i, part in enumerate(parts)]
        return [share(kind, scores, i, part.targets, masks) for i, part in enumerate(parts)]

    def _winning(self, scores: Sequence[Words], targets: Any) -> list[Words] | None:
        """The hardmax weights of some parts, if one of their scores is positive for each target; None if unknown."""
        if list(scores) == [self.leading]:
            return [picked(self)]
        if any(score.rows != 1 or not _positive_ones(score) for score in scores):
            return None
        if len(scores) == 1:
            return [ones(targets).T]
        return [share("hardmax", scores, i, targets) for i in range(len(scores))]

    def relu(self, a: Words) -> Words:
        a = self.normal(a)
        if all(_sign(c) > 0 and all(x.name in BITS or is_ones(x) for x, _ in word) for word, c in a.terms.items()):
            return a
        gated = {word: c for word, c in a.terms.items() if sp.sympify(c).has(GATE)}
        if gated:
            return self._gate(a, Words(a.rows, a.columns, gated))
        return self.times(a + self.absolute(a, "|{}|"), sp.Rational(1, 2))

    def _gate(self, a: Words, gated: Words) -> Words:
        """(c g x + s)/2, where s is the same for x and -x: the lemma."""
        c, g = letter("e", S, 1), letter("a", self.actions, 1)
        wanted = c @ ones(self.actions).T + ones(S) @ g.T + self.times(ones(S) @ ones(self.actions).T, -2)
        x = self.normal(a - gated)
        # a is one-hot: its entries add up to one.
        other = normal_form(gated - self.times(wanted, GATE), [*self.rules, *rule(ones(self.actions).T @ g, ONE)])
        if other.terms or not all(self._constant(word) for word in x.terms):
            raise Unsupported(f"{self.name}: no lemma for relu({a})")
        start, stop = len(next(iter(ones(S).terms))), len(next(iter(ones(self.actions).terms)))
        inside = Words(1, 1, {word[start : len(word) - stop]: k for word, k in x.terms.items()})
        return self.times(c @ inside @ g.T + self.absolute(x, "gate({})"), sp.Rational(1, 2))

    def _constant(self, word: Any) -> bool:
        """Whether a word is 1 x 1', the same number in every entry."""
        (first,), (last,) = ones(S).terms, ones(self.actions).T.terms
        return word[: len(first)] == first and word[len(word) - len(last) :] == last


def swapped(actions: Any) -> Words:
    """The permutation that swaps two tables of which each has half of the actions."""
    return letter("sigma", actions, actions, symmetric=True)


BITS = ("e", "e+", "a")
"""One-hot letters."""


def _sign(c: Any) -> int:
    """1 for a coefficient that is positive whatever its symbols are, else 0."""
    return int(sp.sympify(c).is_positive is True)


def share(kind: str, scores: Sequence[Words], place: int, targets: Any, masks: Sequence[str] = ()) -> Words:
    """The weights of one part of a distribution: a letter named after all scores, with their masks."""
    texts = [f"{score}{mask}" for score, mask in zip(scores, masks or [""] * len(scores), strict=True)]
    return letter(f"{kind}({'; '.join(texts)})[{place + 1}]", scores[place].rows, targets)


def _relation(part: Part) -> str:
    """The mask of a part of which some targets do not see all."""
    if (part.sources, part.targets) == (1, 1) or not (part.route.same or part.route.causal):
        return ""
    return " ->" if part.route.same else " >>"


def _positive_ones(score: Words) -> bool:
    (word, c), *others = score.terms.items()
    return not others and _sign(c) > 0 and word in (next(iter(ones(score.columns).T.terms)), ())


def largest(values: Words, words: QWords) -> Words:
    """h'W'f+, h the hardmax distribution of N over the context."""
    return picked(words).T @ values


def picked(words: QWords) -> Words:
    """The hardmax distribution of N over the context."""
    return share("hardmax", [words.leading], 0, 1)


def biased(values: Words, words: QWords) -> Words:
    """W'f+ + B 1, all positive."""
    return values + words.times(ones(words.actions), BOUND)


def soft_mean(values: Words, words: QWords) -> Words:
    """The mean of W'f+ under softmax(beta W'f+)."""
    return share("softmax", [words.times(values, BETA)], 0, 1).T @ values


def tree_of_pairs(values: Words, actions: int, words: QWords) -> Words:
    """max by pairs, y + relu(x - y), in the letters of the built levels."""
    for level in range(1, levels(actions) + 1):
        count, left = width_after(actions, level - 1), width_after(actions, level)
        kept = words.symbol(f"second of pairs {level}", left, count) @ values
        if count > 1:
            gaps = words.symbol(f"gaps {level}", count // 2, count) @ values
            kept = kept + words.symbol(f"to pairs {level}", left, count // 2) @ words.relu(gaps)
        values = words.normal(kept)
    return values
