"""The free algebra of matrices: sums of words in typed letters, with sizes that may be symbols.

Every expression has one normal form (coefficients of words), so an identity without hypotheses is decided by comparing
dictionaries. A hypothesis is a rewrite rule on adjacent letters, such as W' B -> I; equal normal forms under the rules
prove the identity wherever the hypotheses hold, at every size.

`FreeAlgebra` is one more `Arithmetic`: running a program over it gives what the built heads do to generic tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy as sp
from flint import fmpq, fmpq_mat

from constructions.errors import Unsupported
from constructions.layout import Size


@dataclass(frozen=True)
class Letter:
    """A matrix symbol of shape (rows, columns); a symmetric one is its own transpose, an indicator has entries 0, 1."""

    name: str
    rows: Size
    columns: Size
    symmetric: bool = False
    indicator: bool = False


Word = tuple[tuple[Letter, bool], ...]
"""A product of letters, each with whether it is transposed; the empty word is an identity matrix."""


@dataclass(frozen=True)
class Words:
    """A sum of words, shape (rows, columns); `terms` has no zero coefficient."""

    rows: Size
    columns: Size
    terms: Mapping[Word, Fraction]

    @property
    def T(self) -> Words:
        """The transpose."""
        flipped = {
            tuple((x, not t and not x.symmetric) for x, t in reversed(word)): c for word, c in self.terms.items()
        }
        return Words(self.columns, self.rows, flipped)

    def __add__(self, other: Words) -> Words:
        if (self.rows, self.columns) != (other.rows, other.columns):
            raise Unsupported(f"free algebra: cannot add {self.shape} and {other.shape}")
        return Words(self.rows, self.columns, _collect([*self.terms.items(), *other.terms.items()]))

    def __neg__(self) -> Words:
        return Words(self.rows, self.columns, {word: -c for word, c in self.terms.items()})

    def __sub__(self, other: Words) -> Words:
        return self + -other

    def __matmul__(self, other: Words) -> Words:
        if self.columns != other.rows:
            raise Unsupported(f"free algebra: cannot multiply {self.shape} and {other.shape}")
        products = [(v + w, c * d) for v, c in self.terms.items() for w, d in other.terms.items()]
        return Words(self.rows, other.columns, _collect(products))

    @property
    def shape(self) -> tuple[Size, Size]:
        return self.rows, self.columns

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = []
        for word, c in sorted(self.terms.items(), key=lambda item: (len(item[0]), spell(item[0]))):
            minus = c.could_extract_minus_sign() if isinstance(c, sp.Expr) else c < 0
            size = -c if minus else c
            factor = "" if size == 1 else f"({size}) " if isinstance(size, sp.Add) else f"{size} "
            parts.append(("- " if minus else "+ ") + factor + spell(word))
        text = " ".join(parts)
        return text[2:] if text.startswith("+ ") else "-" + text[2:]


def spell(word: Word) -> str:
    """A word as text: W' B."""
    return " ".join(x.name + ("'" if t else "") for x, t in word) or "I"


def _collect(items: Sequence[tuple[Word, Fraction]]) -> dict[Word, Fraction]:
    out: dict[Word, Fraction] = {}
    for word, c in items:
        out[word] = out.get(word, Fraction(0)) + c
    return {word: c for word, c in out.items() if c}


def letter(name: str, rows: Size, columns: Size, *, symmetric: bool = False, indicator: bool = False) -> Words:
    """A generic matrix; a scalar (1 x 1) is symmetric by itself."""
    made = Letter(name, rows, columns, symmetric or (rows, columns) == (1, 1), indicator)
    return Words(rows, columns, {((made, False),): Fraction(1)})


def identity(size: Size) -> Words:
    return Words(size, size, {(): Fraction(1)})


def zero(rows: Size, columns: Size) -> Words:
    return Words(rows, columns, {})


@dataclass(frozen=True)
class Rule:
    """A hypothesis `left = right`, used from left to right; `left` is a single word. `text` says it to a reader."""

    left: Word
    right: Words
    text: str


def rule(left: Words, right: Words) -> list[Rule]:
    """The hypothesis left = right and its transpose, as rewrite rules."""
    if left.shape != right.shape or list(left.terms.values()) != [1]:
        raise Unsupported(f"free algebra: expected one word of shape {right.shape} on the left, found {left}")
    (word,) = left.terms
    (flipped,) = left.T.terms
    text = f"{left} = {right}"
    rules = [Rule(word, right, text)]
    if flipped != word:
        rules.append(Rule(flipped, right.T, text))
    return rules


def normal_form(expression: Words, rules: Sequence[Rule], limit: int = 10_000) -> Words:
    """Rewrite until no rule applies.

    Raises:
        Unsupported: more than `limit` rewrites (the rules do not terminate).
    """
    pending = list(expression.terms.items())
    done: list[tuple[Word, Fraction]] = []
    steps = 0
    while pending:
        word, c = pending.pop()
        rewritten = _rewrite_once(word, rules)
        if rewritten is None:
            done.append((word, c))
            continue
        steps += 1
        if steps > limit:
            raise Unsupported(f"free algebra: more than {limit} rewrites of {expression}")
        pending += [(w, c * d) for w, d in rewritten]
    return Words(expression.rows, expression.columns, _collect(done))


def _rewrite_once(word: Word, rules: Sequence[Rule]) -> list[tuple[Word, Fraction]] | None:
    for start in range(len(word)):
        for r in rules:
            end = start + len(r.left)
            if word[start:end] == r.left:
                return [(word[:start] + middle + word[end:], c) for middle, c in r.right.terms.items()]
    return None


def is_ones(x: Letter) -> bool:
    """Whether a letter is the public row of ones."""
    return x == next(iter(ones_row(x.columns).terms))[0][0]


def _is_ones_row(a: Words) -> bool:
    return a.rows == 1 and a.terms == ones_row(a.columns).terms


def _ones(x: Letter, sizes: Mapping[Size, int]) -> fmpq_mat:
    columns = x.columns if isinstance(x.columns, int) else sizes[x.columns]
    return fmpq_mat(1, columns, [1] * columns)


def evaluate(expression: Words, point: Mapping[str, fmpq_mat], sizes: Mapping[Size, int]) -> fmpq_mat:
    """The value in Q when letters and sizes are given."""
    rows, columns = (size if isinstance(size, int) else sizes[size] for size in expression.shape)
    total = fmpq_mat(rows, columns)
    for word, c in expression.terms.items():
        product = fmpq_mat(rows, rows, [int(i == j) for i in range(rows) for j in range(rows)])
        for x, transposed in word:
            value = _ones(x, sizes) if is_ones(x) else point[x.name]
            product = product * (value.transpose() if transposed else value)
        total = total + product * fmpq(c.numerator, c.denominator)
    return total


class FreeAlgebra:
    """An `Arithmetic` of words. What words cannot express raises `Unsupported`; nothing is approximated.

    Along `same` routes a token meets only itself, so scores are scalars of one token. For a kind with one token they
    are 1 x 1 words. Else `dots` of two one-row letters is a one-row letter again (their entrywise product; ones are
    neutral, an indicator is its own square), of two other letters a row named after them, and scaling columns by a row
    multiplies by a diagonal letter.
    """

    name = "free algebra"

    def shape(self, a: Words) -> tuple[Size, Size]:
        return a.shape

    def symbol(self, name: str, rows: Size, columns: Size) -> Words:
        """A public matrix: the letter of its name, so that a proof holds whatever its entries are."""
        return letter(name, rows, columns)

    def add(self, a: Words, b: Words) -> Words:
        return a + b

    def negate(self, a: Words) -> Words:
        return -a

    def matmul(self, a: Words, b: Words) -> Words:
        return a @ b

    def transpose(self, a: Words) -> Words:
        return a.T

    def dots(self, a: Words, b: Words) -> Words:
        if not (a.terms and b.terms):
            return zero(1, a.columns)
        if a.columns == 1:
            return a.T @ b
        if a.rows != 1:
            return letter(f"dots({self._single_letter(a)}, {self._single_letter(b)})", 1, a.columns)
        rows = [(row, words) for words in (a, b) if not is_ones(row := self._row_letter(words))]
        if len(rows) == 2 and rows[0][0] == rows[1][0] and rows[0][0].indicator:
            rows.pop()
        if len(rows) < 2:
            return rows[0][1] if rows else ones_row(a.columns)
        return letter(" o ".join(sorted(row.name for row, _ in rows)), 1, a.columns)

    def scale_columns(self, a: Words, scores: Words) -> Words:
        if not (a.terms and scores.terms):
            return zero(*a.shape)
        if a.columns == 1:
            return a @ scores
        row = self._row_letter(scores)
        if is_ones(row):
            return a
        if _is_ones_row(a):
            return scores
        if row.indicator and a.terms == scores.terms:
            return a
        return a @ diagonal(row.name, a.columns)

    def recip_0(self, a: Words) -> Words:
        if a.shape == (1, 1):
            return letter(f"recip_0({a})", 1, 1)
        row = self._row_letter(a)
        return letter(f"recip_0({row.name})", 1, a.columns)

    @staticmethod
    def _single_letter(a: Words) -> str:
        if len(a.terms) == 1 and list(a.terms.values()) == [1] and len(next(iter(a.terms))) == 1:
            return str(a)
        raise Unsupported(f"free algebra: expected one named matrix, found {a}")

    @staticmethod
    def _row_letter(a: Words) -> Letter:
        if a.rows == 1 and list(a.terms.values()) == [1]:
            (word,) = a.terms
            if len(word) == 1:
                x, transposed = word[0]
                return Letter(f"{x.name}'", 1, a.columns, indicator=x.indicator) if transposed else x
        raise Unsupported(f"free algebra: expected a row of named scalars, found {a}")

    def __getattr__(self, operation: str) -> Any:
        raise Unsupported(f"free algebra: no operation {operation} on generic tokens")


def diagonal(name: str, size: Size) -> Words:
    """diag of the row called `name`, as a symmetric letter."""
    return letter(f"diag({name})", size, size, symmetric=True)


def ones_row(columns: Size) -> Words:
    """The row of ones, a public constant: neutral in `dots`, and known to `evaluate`."""
    return letter(f"1_{columns}'", 1, columns)


def from_sympy(expression: Any) -> Words:
    """A sympy matrix expression without blocks as words."""
    if isinstance(expression, sp.MatrixSymbol):
        return letter(expression.name, *expression.shape)
    if isinstance(expression, sp.Identity):
        return identity(expression.shape[0])
    if isinstance(expression, sp.ZeroMatrix):
        return zero(*expression.shape)
    if isinstance(expression, sp.Transpose):
        return from_sympy(expression.arg).T
    if isinstance(expression, sp.MatAdd):
        first, *others = map(from_sympy, expression.args)
        return sum(others, first)
    if isinstance(expression, sp.MatMul):
        coefficient, factors = expression.as_coeff_matrices()
        first, *others = map(from_sympy, factors)
        for factor in others:
            first = first @ factor
        c = Fraction(int(coefficient.p), int(coefficient.q))
        return Words(first.rows, first.columns, _collect([(word, c * d) for word, d in first.terms.items()]))
    raise Unsupported(f"free algebra: no words for {type(expression).__name__} {expression}")
