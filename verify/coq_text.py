"""Recorded words as text that Coq reads: names, sizes, letters, sums, hypotheses, lemmas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

KEYWORDS = """
as at by cofix else end exists exists2 fix for forall fun have if in is let match mod of on over proof return then under
using where with Prop Set SProp Type ring words by_words by_blocks tt nil nat matrix sumn part
part_itself part_other scalar_symmetric iter iterate iterated corrected still corrected_after mulmx row_mx
"""
"""What a letter cannot be called: words of the language, and names that every section has."""

SPELLED = {"^-1": "_inverse_", "^": "_pow_", "+": "_plus_", "-": "_minus_", "/": "_over_", "*": "_times_"}


class Unexported(Exception):
    """What is recorded has no form in Coq; the text says what was found."""


def identifier(text: str) -> str:
    """A name that Coq takes: letters, digits, underscores and primes."""
    text = re.sub("^1_", "ones_", text)
    for sign, word in SPELLED.items():
        text = text.replace(sign, word)
    text = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_']", "_", text)).strip("_")
    return text if text[:1].isalpha() else f"x_{text}" if text else "x"


@dataclass
class Names:
    """Identifiers, each given once."""

    taken: set[str] = field(default_factory=lambda: set(KEYWORDS.split()))

    def new(self, text: str) -> str:
        """An identifier for the text that nothing else has."""
        name, count = identifier(text), 1
        base = name
        while name in self.taken:
            count += 1
            name = f"{base}_{count}"
        self.taken.add(name)
        return name


Terms = Sequence[Any]
"""A sum of words, as recorded: [coefficient, [[letter, transposed], ..]], .."""


@dataclass
class Section:
    """One record with its names.

    Attributes:
        record: of kind `words` or `layer`.
        names: every identifier of the section.
        sizes: size as recorded -> as written in Coq; the number 1 is itself.
        letters: letter as recorded -> identifier.
        rules: hypothesis -> the letters in it, as recorded; of those that were stated.
    """

    record: Mapping[str, Any]
    names: Names = field(default_factory=Names)
    sizes: dict[str, str] = field(init=False)
    letters: dict[str, str] = field(init=False)
    rules: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shapes = [letter["shape"] for letter in self.record["letters"].values()]
        shapes += [identity["shape"] for identity in self.record["identities"]]
        found = dict.fromkeys(size for shape in shapes for size in shape)
        self.sizes = {size: f"{size}%N" if size.isdigit() else self.names.new(size) for size in sorted(found)}
        self.letters = {name: self.names.new(name) for name in self.record["letters"]}

    def matrix(self, shape: Sequence[str]) -> str:
        """The type of matrices of a shape, as recorded."""
        return f"'M[ring]_({self.sizes[shape[0]]}, {self.sizes[shape[1]]})"

    def sum(self, terms: Terms, shape: Sequence[str]) -> str:
        """A sum of words as an expression."""
        text = ""
        for coefficient, word in terms:
            c = Fraction(coefficient)
            if c.denominator != 1:
                raise Unexported(f"the coefficient {coefficient}, which not every commutative ring has")
            product = " *m ".join(self.letters[x] + ("^T" if t else "") for x, t in word) or "1%:M"
            if not word and not text:
                product = f"(1%:M : {self.matrix(shape)})"
            multiple = product if abs(c) == 1 else f"({product}) *+ {abs(c)}"
            sign = ("- " if text else "-") if c < 0 else "+ " if text else ""
            # A multiple binds more loosely than the sign before it.
            text += (" " if text else "") + sign + (f"({multiple})" if abs(c) != 1 else multiple)
        return text or f"(0 : {self.matrix(shape)})"

    def sides(self, identity: Mapping[str, Any]) -> tuple[str, str]:
        """Both sides of an identity; the right one as a sum of products of sums where it is recorded so."""
        left, right = (self.sum(identity[side], identity["shape"]) for side in ("left", "right"))
        if "factors" in identity:
            products = ([f"({self.sum(x['sum'], x['shape'])})" for x in factors] for factors in identity["factors"])
            right = " + ".join(" *m ".join(product) for product in products)
        return left, right

    def word(self, word: Sequence[Any]) -> str:
        """One word as an expression."""
        return self.sum([["1", word]], self.shape(word))

    def variables(self) -> list[str]:
        """Declarations of ring, sizes and letters, with what the recorded names were where they differ."""
        sizes = [text for size, text in self.sizes.items() if not size.isdigit()]
        lines = ["Variables (ring : comRingType).", *([f"Variables ({' '.join(sizes)} : nat)."] if sizes else [])]
        by_shape: dict[str, list[str]] = {}
        for name, letter in self.record["letters"].items():
            by_shape.setdefault(self.matrix(letter["shape"]), []).append(self.letters[name])
        lines += [f"Variables ({' '.join(names)} : {shape})." for shape, names in by_shape.items()]
        renamed = [f"{new} is {comment(old)}" for old, new in self.letters.items() if old != new]
        return lines + ([f"(** {'; '.join(renamed)} *)"] if renamed else [])

    def flipped(self, word: Sequence[Any]) -> tuple[tuple[str, int], ...]:
        """The transpose of a word, as recorded."""
        letters = self.record["letters"]
        return tuple((x, 0 if letters[x]["symmetric"] else 1 - t) for x, t in reversed(word))

    def hypotheses(self) -> list[tuple[str, str]]:
        """Rules as equations, one of a rule and its transpose: the library derives the other."""
        seen: set[Any] = set()
        out: list[tuple[str, str]] = []
        for left, right in self.record["rules"]:
            key = _frozen([["1", left]]), _frozen(right)
            flip = _frozen([["1", self.flipped(left)]]), _frozen([[c, self.flipped(w)] for c, w in right])
            if not seen & {key, flip}:
                name = self.names.new(f"rule_{len(out) + 1}")
                out.append((name, f"{self.word(left)} = {self.sum(right, self.shape(left))}"))
                self.rules[name] = {x for word in (left, *(w for _, w in right)) for x, _ in word}
            seen.add(key)
        return out

    def shape(self, word: Sequence[Any]) -> tuple[str, str]:
        """The shape of a word that is not empty, as recorded."""
        (first, flip_first), (last, flip_last) = word[0], word[-1]
        letters = self.record["letters"]
        return letters[first]["shape"][flip_first], letters[last]["shape"][1 - flip_last]

    def symmetric(self) -> list[tuple[str, str, bool]]:
        """(name or term, equation, whether it is proved) of each symmetric letter; of one entry, by the library."""
        out = []
        for name, letter in self.record["letters"].items():
            x = self.letters[name]
            if letter["symmetric"]:
                scalar = letter["shape"] == ["1", "1"]
                proof = f"(scalar_symmetric {x})" if scalar else self.names.new(f"symmetric_{x}")
                out.append((proof, f"{x}^T = {x}", scalar))
        return out


def _frozen(terms: Terms) -> frozenset[Any]:
    return frozenset((Fraction(c), tuple((x, int(t)) for x, t in word)) for c, word in terms)


def comment(text: str) -> str:
    """Text that cannot end or open a comment or a string inside one."""
    return text.replace("(*", "( *").replace("*)", "* )").replace('"', "''")


@dataclass(frozen=True)
class Used:
    """What a proof may use: sizes, letters, symmetries, equations."""

    sizes: Iterable[str]
    letters: Iterable[str]
    symmetric: Iterable[str]
    rules: Iterable[str]

    def words(self) -> str:
        """The library's tactic `words` with these."""
        lists = [f"({', '.join(['tt', *items])})" for items in (self.letters, self.symmetric, self.rules)]
        return f"words ring [:: {'; '.join(dict.fromkeys(self.sizes))}] {' '.join(lists)}"

    def tactic(self, name: str) -> str:
        """The same under a name."""
        return f"Ltac {name} := {self.words()}."


def lemma(name: str, statement: str, proof: str) -> list[str]:
    """A lemma and its proof."""
    return [f"Lemma {name} : {statement}.", f"Proof. {proof} Qed."]
