"""Words for rounds at symbolic sizes: what the token tables share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import sympy as sp

from constructions.errors import Unsupported
from constructions.program import Program
from constructions.tokens import Tokens

from ..claim import Finding, Verdict
from ..records import Record
from ..words import FreeAlgebra, Letter, Rule, Word, Words, identity, letter, normal_form, ones_row, spell, zero

ONE = identity(1)


class RoundWords(FreeAlgebra):
    """Words whose coefficients may have symbols in them, under the hypotheses `rules`."""

    name = "token table"
    rules: Sequence[Rule] = ()

    def times(self, a: Words, factor: Any) -> Words:
        """A public number times a word."""
        return Words(a.rows, a.columns, {word: sp.expand(c * factor) for word, c in a.terms.items()})

    def normal(self, a: Words) -> Words:
        """The normal form: rules applied, scalar factors of a word in one order, coefficients expanded."""
        terms: dict[Word, Any] = {}
        for word, c in normal_form(a, self.rules).terms.items():
            ordered = _scalars_in_order(word)
            terms[ordered] = terms.get(ordered, 0) + c
        expanded = {word: sp.expand(c) for word, c in terms.items()}
        return Words(a.rows, a.columns, {word: c for word, c in expanded.items() if c != 0})

    def absolute(self, a: Words, text: str) -> Words:
        """A letter that is the same for a and -a; its name has the words in place of {}."""
        return letter(text.format(min(str(a), str(-a))), *a.shape)


def spelt(a: Words) -> Words | None:
    """The same with the symbols of coefficients as scalar letters; None where one is no polynomial over the integers.

    A letter stands where its word is a number to the left of it times one to the right.
    """
    terms: dict[Word, Fraction] = {}
    for word, coefficient in a.terms.items():
        c = sp.sympify(coefficient)
        symbols = sorted(c.free_symbols, key=str)
        if not c.is_polynomial(*symbols) or (symbols and 1 not in _sizes(word)):
            return None
        cut = _sizes(word).index(1) if symbols else 0
        for powers, number in sp.Poly(c, *symbols).terms() if symbols else [((), c)]:
            if not number.is_Integer:
                return None
            scalars = [x for x, n in zip(symbols, powers, strict=True) for _ in range(n)]
            spelled = tuple((Letter(str(x), 1, 1, symmetric=True), False) for x in scalars)
            terms[word[:cut] + spelled + word[cut:]] = Fraction(int(number))
    return Words(a.rows, a.columns, terms)


def _scalars_in_order(word: Word) -> Word:
    """A number x'y is y'x, and numbers commute: each in the smaller spelling, sorted."""
    cuts = [i for i, size in enumerate(_sizes(word)) if size == 1]
    if len(cuts) < 2:
        return word
    numbers = [word[i:j] for i, j in pairwise(cuts)]
    flipped = [tuple((x, not t and not x.symmetric) for x, t in reversed(number)) for number in numbers]
    smaller = sorted((min(pair, key=spell) for pair in zip(numbers, flipped, strict=True)), key=spell)
    return word[: cuts[0]] + tuple(x for number in smaller for x in number) + word[cuts[-1] :]


def _sizes(word: Word) -> list[Any]:
    """The sizes before, between and after the letters of a word."""
    shapes = [(x.columns, x.rows) if t else (x.rows, x.columns) for x, t in word]
    return [*(rows for rows, _ in shapes), *(columns for _, columns in shapes[-1:])]


def ones(size: Any) -> Words:
    """A column of ones."""
    return ones_row(size).T if size != 1 else ONE


def prove_in_words(
    name: str,
    program: Program,
    tokens: Tokens,
    wanted: Mapping[tuple[str, str], Words],
    words: RoundWords,
    shown: bool = True,
    recorded: Callable[[Tokens], tuple[Record, ...]] = lambda tokens: (),
) -> Finding:
    """Whether the layers leave the words that are wanted, block by block; nothing else is said of other blocks.

    The words are part of the evidence where they are to be shown; `recorded` makes records of the tokens left.
    """
    try:
        for _, tokens in program.steps(tokens, words):  # noqa: B007, B020
            pass
    except Unsupported as error:
        return Finding(Verdict.UNDECIDED, {"case": name, "missing": str(error)})
    evidence: dict[str, Any] = {"hypotheses": sorted({r.text for r in words.rules})}
    for key, target in wanted.items():
        found = tokens.blocks.get(key, zero(*target.shape))
        difference = words.normal(found - target)
        if difference.terms:
            missing = f"{key[0]}.{key[1]}: the words {difference} are not known to be zero"
            return Finding(Verdict.UNDECIDED, {"case": name, "missing": missing})
        if target.terms and shown:
            evidence[f"{key[0]}.{key[1]}"] = str(words.normal(found))
    return Finding(Verdict.PROVED, evidence, recorded(tokens))
