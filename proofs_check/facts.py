"""Facts: what is so of named matrices, as data that another program evaluates for itself.

A matrix here is a value together with the tree that says how it is made: a name, or an operation and what it is applied
to. Operations are + - * (one entry scales), the transpose ', the product by entries o, rows under rows, a part, the
unit and constant matrices. A fact is a relation = != < <= that holds entry by entry. Inverses, solutions and other
witnesses are recorded as values and multiplied, not computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.tokens import Tokens

from .records import Record, numbers, rank_record


class Shapes:
    """An arithmetic in which a matrix is its shape: enough for facts on indeterminates, which only others evaluate."""

    def matrix(self, rows: Any) -> tuple[int, int]:
        """As in `Arithmetic`, and so below."""
        return len(rows), len(rows[0])

    def one_hot(self, indices: Any, size: int) -> tuple[int, int]:
        return size, len(indices)

    def shape(self, a: tuple[int, int]) -> tuple[int, int]:
        return a

    def transpose(self, a: tuple[int, int]) -> tuple[int, int]:
        return a[1], a[0]

    def negate(self, a: tuple[int, int]) -> tuple[int, int]:
        return a

    def add(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        assert a == b, f"shapes {a} and {b}"
        return a

    hadamard = add

    def matmul(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        assert a[1] == b[0], f"shapes {a} and {b}"
        return a[0], b[1]

    def rows(self, a: tuple[int, int], start: int, stop: int) -> tuple[int, int]:
        return stop - start, a[1]

    def columns(self, a: tuple[int, int], start: int, stop: int) -> tuple[int, int]:
        return a[0], stop - start

    def stack(self, blocks: Any) -> tuple[int, int]:
        return sum(row[0][0] for row in blocks), sum(block[1] for block in blocks[0])


class Term:
    """A matrix with its tree; shape as that of the value. A number stands for a matrix filled with it."""

    def __init__(self, tree: Any, value: Any, arithmetic: Any = RATIONALS) -> None:
        self.tree, self.value, self.arithmetic = tree, value, arithmetic

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.arithmetic.shape(self.value)

    @property
    def T(self) -> Term:
        """The transpose."""
        return self._made(["'", self.tree], self.arithmetic.transpose(self.value))

    def _lifted(self, other: Any) -> Term:
        if isinstance(other, Term):
            return other
        return self._made(["fill", str(other), *self.shape], self._filled(*self.shape, other).value)

    def __add__(self, other: Any) -> Term:
        other = self._lifted(other)
        return self._made(["+", self.tree, other.tree], self.arithmetic.add(self.value, other.value))

    __radd__ = __add__

    def __neg__(self) -> Term:
        return self * -1

    def __rsub__(self, other: Any) -> Term:
        return self._lifted(other) - self

    def __pow__(self, n: int) -> Term:
        """By entries."""
        return self if n == 1 else self * self ** (n - 1)

    def __sub__(self, other: Any) -> Term:
        other = self._lifted(other)
        negative = self.arithmetic.negate(other.value)
        return self._made(["-", self.tree, other.tree], self.arithmetic.add(self.value, negative))

    def __matmul__(self, other: Term) -> Term:
        return self._made(["*", self.tree, other.tree], self.arithmetic.matmul(self.value, other.value))

    def __mul__(self, other: Any) -> Term:
        """By entries; a matrix of one entry scales."""
        other = self._lifted(other)
        if self.shape == (1, 1):
            rows, columns = other.shape
            value = self._filled(rows, 1) @ self @ self._filled(1, columns) * other if other.shape != (1, 1) else None
            product = self.arithmetic.matmul(self.value, other.value) if value is None else value.value
            return self._made(["*", self.tree, other.tree], product)
        return self._made(["o", self.tree, other.tree], self.arithmetic.hadamard(self.value, other.value))

    __rmul__ = __mul__

    def __getitem__(self, place: tuple[slice, slice]) -> Term:
        """A part, by slices of rows and columns; it must have entries."""
        (top, bottom, _), (left, right, _) = (s.indices(n) for s, n in zip(place, self.shape, strict=True))
        part = self.arithmetic.columns(self.arithmetic.rows(self.value, top, bottom), left, right)
        return self._made(["part", self.tree, top, bottom, left, right], part)

    def _filled(self, rows: int, columns: int, x: Any = 1) -> Term:
        return Term(None, self.arithmetic.matrix([[x] * columns] * rows), self.arithmetic)

    def _made(self, tree: Any, value: Any) -> Term:
        return Term(tree, value, self.arithmetic)


def stacked(*terms: Term) -> Term:
    """Rows under rows."""
    first, *rest = terms
    for term in rest:
        value = first.arithmetic.stack([[first.value], [term.value]])
        first = Term(["rows", first.tree, term.tree], value, first.arithmetic)
    return first


class Facts:
    """Values by name, relations between matrices made of them, and what a program leaves of its blocks.

    Attributes:
        after: kind.field -> matrix, every other block being zero; None where nothing is said.
        counted: whether A and r are those of the state tokens, or counted from the raw ones.
    """

    def __init__(self, arithmetic: Any = RATIONALS, *, counted: bool = False) -> None:
        self.arithmetic, self.counted = arithmetic, counted
        self.values: dict[str, Any] = {}
        self.relations: list[Record] = []
        self.indeterminates: dict[str, list[int]] = {}
        self.expanded: dict[str, Any] = {}
        self.after: dict[str, Term] | None = None

    def named(self, name: str, value: Any) -> Term:
        """What the re-checker knows by this name without being told."""
        return Term(name, value, self.arithmetic)

    def value(self, name: str, value: Any) -> Term:
        """A recorded matrix."""
        self.values[name] = value
        shapes = isinstance(self.arithmetic, Shapes)
        return self.named(name, (value.nrows(), value.ncols()) if shapes else value)

    def generic(self, name: str, rows: int = 1, columns: int = 1) -> Term:
        """A matrix of indeterminates, over `Shapes`; those of a name that begins with 0 are not negative."""
        self.indeterminates[name] = [rows, columns]
        return self.named(name, (rows, columns))

    def polynomials(self, name: str, rows: Any, names: Callable[[str], str] = str) -> Term:
        """A recorded matrix of polynomials, over `Shapes`; `names` are those of the indeterminates of this document."""
        self.expanded[name] = [[_terms(x, names) for x in row] for row in rows]
        return self.named(name, (len(rows), len(rows[0])))

    def defined(self, name: str, term: Term) -> Term:
        """A recorded matrix that equals a term."""
        kept = self.value(name, term.value)
        self.equal(f"{name} as defined", kept, term)
        return kept

    def unit(self, n: int) -> Term:
        """I."""
        return self.named(["unit", n], self.arithmetic.one_hot(range(n), n))  # type: ignore[arg-type]

    def fill(self, x: Any, rows: int, columns: int) -> Term:
        """Every entry x."""
        return self.named(["fill", str(x), rows, columns], self.arithmetic.matrix([[x] * columns] * rows))  # type: ignore[arg-type]

    def leaves(self, after: Tokens, said: dict[str, Term]) -> None:
        """Every block left: what is said of it, else its entries as a value."""
        names = (f"{kind}.{field}" for kind, field in after.blocks if after.counts[kind])
        rest = {x: after.blocks[tuple(x.split("."))] for x in names if x not in said}  # type: ignore[index]
        self.after = said | {name: self.value(f"{name} left", block) for name, block in rest.items()}

    def equal(self, name: str, left: Term, right: Term) -> None:
        """left = right."""
        self.relate(name, left, "=", right)

    def relate(self, name: str, left: Term, relation: str, right: Term) -> None:
        """A relation, entry by entry."""
        self.relations.append({"name": name, "left": left.tree, "relation": relation, "right": right.tree})

    def document(self) -> Record:
        """The fields of a record."""
        values = {name: numbers(value) for name, value in self.values.items()} | self.expanded
        out: Record = {"values": values, "facts": self.relations}
        out |= {"generic": self.indeterminates} if self.indeterminates else {}
        return out if self.after is None else {**out, "after": {name: term.tree for name, term in self.after.items()}}

    def record(self, part: str = "") -> Record:
        """A record that stands alone, in Q."""
        return {"kind": "facts", **({"part": part} if part else {}), **self.document()}


def _terms(polynomial: Any, names: Callable[[str], str]) -> list[Any]:
    """[coefficient, [indeterminate, ..]], .. of a polynomial of FLINT."""
    known = [names(str(x)) for x in polynomial.context().names()]
    return [
        [str(c), [name for name, e in zip(known, exponents, strict=True) for _ in range(int(e))]]
        for exponents, c in polynomial.to_dict().items()
    ]


Stated = Callable[[Any, Tokens, Tokens, Any], Facts | None]
"""(arithmetic, tokens before, tokens after, the answer or None) -> what is so of a run; None where it is not said."""


def horizontally(*terms: Term) -> Term:
    """Columns beside columns."""
    return stacked(*(term.T for term in terms)).T


def total(facts: Facts, term: Term) -> Term:
    """The sum of all entries."""
    rows, columns = term.shape
    return facts.fill(1, 1, rows) @ term @ facts.fill(1, columns, 1)


def inverse(term: Term) -> Any:
    """The value of an inverse matrix, over Q or a prime field."""
    return term.value.inv()


def task(tokens: Tokens, a: Any) -> tuple[Any, Any]:
    """A, shape (n, n), and r, shape (n, 1), of the state tokens, or counted from the raw ones."""
    if ("state", "y") in tokens.blocks:
        return a.transpose(tokens.blocks["state", "y"]), a.transpose(tokens.blocks["state", "r"])
    S, T, R = (tokens.blocks["raw", field] for field in "xyr")
    St, visits = a.transpose(S), a.matmul(a.matrix([[1] * a.shape(S)[1]]), a.transpose(S))
    each = a.recip_0(visits)
    At = a.scale_columns(a.matmul(T, St), a.hadamard(each, tokens.blocks["state", "gam"]))
    return a.transpose(At), a.transpose(a.hadamard(each, a.matmul(R, St)))


def ranked(facts: Facts, name: str, matrix: Term, rank: int) -> None:
    """Of that rank: some of its rows span all, and a minor of theirs has an inverse."""
    found = rank_record(matrix.value)
    rows, columns = ([int(i) for i in found[x]] for x in ("rows", "columns"))
    a, (height, width) = facts.arithmetic, matrix.shape
    combined = [[Fraction(x) for x in row] for row in found["combinations"]]
    some = facts.value(f"{name}: rows chosen", a.transpose(a.one_hot(rows, height)))
    minor = some @ matrix @ facts.value(f"{name}: columns chosen", a.one_hot(columns, width))
    facts.equal(f"{name}: minor", facts.value(f"{name}: inverse", inverse(minor)) @ minor, facts.unit(rank))
    facts.equal(f"{name}: rows", facts.value(f"{name}: combinations", a.matrix(combined)) @ (some @ matrix), matrix)


def _factors(matrix: fmpq_mat) -> tuple[list[list[Any]], list[Any]]:
    """L, lower with unit diagonal, and D with matrix = L diag(D) L', up to the first D that is negative."""
    n, rest = matrix.nrows(), matrix.tolist()
    L, D = [[fmpq(int(i == j)) for j in range(n)] for i in range(n)], []
    for k in range(n):
        D.append(rest[k][k])
        if D[k] < 0:
            break
        for i in range(k + 1, n) if D[k] != 0 else ():
            L[i][k] = rest[i][k] / D[k]
            rest[i] = [x - L[i][k] * y for x, y in zip(rest[i], rest[k], strict=True)]
    return L, D


def semidefinite(facts: Facts, name: str, matrix: Term) -> None:
    """matrix = L diag(D) L' with D >= 0."""
    L, D = _factors(matrix.value)
    n = matrix.shape[0]
    lower = facts.value(f"{name}: L", fmpq_mat(n, n, [x for row in L for x in row]))
    diagonal = facts.value(f"{name}: D", fmpq_mat(1, len(D), D))
    facts.equal(f"{name}: L D L'", lower @ ((facts.fill(1, n, 1) @ diagonal) * facts.unit(n)) @ lower.T, matrix)
    facts.relate(f"{name}: D >= 0", facts.fill(0, 1, n), "<=", diagonal)


def negative(facts: Facts, name: str, matrix: Term) -> None:
    """z' matrix z < 0, for L'z a unit vector."""
    L, D = _factors(matrix.value)
    n, k = matrix.shape[0], len(D) - 1
    z = facts.value(
        f"{name}: z", fmpq_mat(n, n, [x for row in L for x in row]).transpose().solve(RATIONALS.one_hot([k], n))
    )
    facts.relate(f"{name}: z'Mz < 0", z.T @ matrix @ z, "<", facts.fill(0, 1, 1))


def iterated(facts: Facts, name: str, start: Term, move: Term, count: int, gain: Term | None = None) -> Term:
    """x_0, .., x_count as rows, x_{l+1} = move x_l + gain: a recorded matrix with these facts; start is a column."""
    rows = [start.value]
    a = facts.arithmetic
    for _ in range(count):
        moved = a.matmul(move.value, rows[-1])
        rows.append(moved if gain is None else a.add(moved, gain.value))
    X = facts.value(name, a.stack([[a.transpose(x)] for x in rows]))
    facts.equal(f"{name} begins", X[:1, :], start.T)
    if count:
        later = X[:-1, :] @ move.T
        facts.equal(f"{name} goes on", X[1:, :], later if gain is None else facts.fill(1, count, 1) @ gain.T + later)
    return X


def running(facts: Facts, name: str, x: Term, rate: Term) -> Term:
    """e_1 = x_1, e_t = rate e_{t-1} + x_t as columns; rate has one entry."""
    a = facts.arithmetic
    columns: list[Any] = []
    for t in range(x.shape[1]):
        now = x[:, t : t + 1]
        columns.append(now.value if not t else (rate * Term(None, columns[-1], a) + now).value)
    e = facts.value(name, a.stack([columns]))
    facts.equal(f"{name} begins", e[:, :1], x[:, :1])
    if x.shape[1] > 1:
        facts.equal(f"{name} goes on", e[:, 1:], rate * e[:, :-1] + x[:, 1:])
    return e


def values(facts: Facts, A: Term, r: Term, depth: int, name: str = "v") -> Term:
    """v_0 = 0, v_{l+1} = r + A v_l as rows, shape (depth + 1, n)."""
    return iterated(facts, name, facts.fill(0, r.shape[0], 1), A, depth, r)


def of_blocks(facts: Facts, tokens: Tokens, names: Iterable[str]) -> dict[str, Term]:
    """Blocks as they enter, by kind.field."""
    return {name: facts.named(name, tokens.blocks[tuple(name.split("."))]) for name in names}  # type: ignore[index]
