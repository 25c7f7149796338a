"""Records turned back into the project's own objects and decided by its own code: the other opinion on a re-check."""

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat, nmod_mat

from constructions.construction import Reading
from constructions.exact import RATIONALS, Balls, PrimeField
from constructions.layers import Forget, Head, LinearAttention, Public, Release, Repeat, Route, Tokenwise, fixed
from constructions.layout import Layout
from constructions.program import Program
from constructions.symbols import Polynomials, symbol_names
from constructions.temporal_difference.minimax import Cover, Law, Packing
from constructions.tokens import Span, Tokens
from proofs_check.facts import task
from proofs_check.temporal_difference.minimax import refute_cover, refute_packing
from proofs_check.temporal_difference.minimax_cells import LEVELS, Cell, UpperBound, refute_cell
from proofs_check.words import Words, letter, normal_form, rule, zero

RELATIONS = {
    "=": operator.eq,
    "!=": lambda x, y: x != y if isinstance(x, fmpq) else _above(y - x) or _above(x - y),
    "<": lambda x, y: x < y if isinstance(x, fmpq) else _above(y - x),
    "<=": lambda x, y: x <= y if isinstance(x, fmpq) else _least(y - x) is not None,
}
"""Of polynomials all but the first say that it is so wherever indeterminates named 0.. or +.. are not negative."""


def _above(polynomial: Any) -> bool:
    least = _least(polynomial)
    return least is not None and least > 0


def _least(polynomial: Any) -> Any:
    """The value at 0 if it is the least one where indeterminates named 0.. or +.. are not negative; None if unknown."""
    names = polynomial.context().names()
    used = {name for name, degree in zip(names, polynomial.degrees(), strict=True) if degree > 0}
    if any(c < 0 for c in polynomial.coeffs()) or any(str(name)[0] not in "0+" for name in used):
        return None
    return polynomial(*[0] * len(names))


def holds(record: dict[str, Any]) -> bool:
    """Whether what the record says is true."""
    return DECIDED[record["kind"]](record)


def _rational(text: Any) -> fmpq:
    x = Fraction(text)
    return fmpq(x.numerator, x.denominator)


def _rationals(rows: Any) -> list[list[fmpq]]:
    return [[_rational(x) for x in row] for row in rows]


def _words(record: Any, terms: Any, shape: Any) -> Words:
    total = zero(*shape)
    for c, items in terms:
        word = Words(shape[0], shape[0], {(): Fraction(1)})
        for name, transposed in items:
            entry = record["letters"][name]
            x = letter(name, *entry["shape"], symmetric=entry["symmetric"])
            word = word @ (x.T if transposed else x)
        total = total + Words(word.rows, word.columns, {w: Fraction(c) * d for w, d in word.terms.items()})
    return total


def words_hold(record: Any) -> bool:
    rules = []
    for left, right in record["rules"]:
        name, transposed = left[0]
        rows = record["letters"][name]["shape"][transposed]
        name, transposed = left[-1]
        columns = record["letters"][name]["shape"][1 - transposed]
        rules += rule(_words(record, [[1, left]], (rows, columns)), _words(record, right, (rows, columns)))[:1]
    for identity in record["identities"]:
        left, right = (_words(record, identity[side], identity["shape"]) for side in ("left", "right"))
        if normal_form(left - right, rules).terms:
            return False
    return True


def program_of(record: Any) -> Program:
    kinds = tuple(record.get("counts") or record["tokens"]["counts"])
    return Program("recorded", Layout(**record["widths"]), kinds, tuple(map(_layer, record["program"])))


def _layer(layer: Any) -> Any:
    if "repeat" in layer:
        return Repeat(tuple(map(_layer, layer["layers"])), layer["repeat"])
    if "heads" in layer:
        return LinearAttention(tuple(map(_head, layer["heads"])), layer["label"])
    if "tokenwise" in layer:
        return Tokenwise(layer["tokenwise"], Span(*layer["span"]), layer["field"], layer["label"])
    if "release" in layer:
        return Release(layer["release"], layer["gate"], layer["label"])
    return Forget(tuple(layer["keep"]), layer["label"])


def _head(head: Any) -> Head:
    routes = tuple(
        Route(Span(*source), Span(*target), relation == "same") for source, target, relation in head["routes"]
    )
    weight = fixed("W", _rationals(head["weight"])) if "weight" in head else None
    mixing = Public("T", lambda size, _: _rationals(head["mixing"][str(size)])) if "mixing" in head else None
    return Head(head["value"], head["key"], head["query"], head["out"], routes, head["sign"], weight, mixing)


def _integer(text: Any) -> int:
    x = Fraction(text)
    assert x.denominator == 1, "polynomials have integer coefficients"
    return x.numerator


def _blocks_hold(record: Any, values: Any, arithmetic: Any, number: Any) -> bool:
    def value(name: str, terms: Any) -> Any:
        kind, field = name.split(".")
        rows, columns = record["widths"][field], record["counts"][kind]
        total = arithmetic.matrix([[0] * columns] * rows, (rows, columns))
        for c, items in terms:
            product = arithmetic.one_hot(range(rows), rows)
            for x, transposed in items:
                product = arithmetic.matmul(product, arithmetic.transpose(values[x]) if transposed else values[x])
            scale = arithmetic.matrix([[number(c) if i == j else 0 for j in range(rows)] for i in range(rows)])
            total = arithmetic.add(total, arithmetic.matmul(scale, product))
        return total

    blocks = {tuple(name.split(".")): value(name, terms) for name, terms in record["before"].items()}
    out = program_of(record).run(Tokens(record["counts"], blocks), arithmetic)
    for identity in record["identities"]:
        kind, field = identity["name"].split(".")
        found = out.read(kind, field, record["widths"][field], arithmetic)
        difference = arithmetic.add(found, arithmetic.negate(value(identity["name"], identity["right"])))
        entries = difference.entries() if hasattr(difference, "entries") else difference.ravel()
        if any(x != 0 for x in entries):
            return False
    return True


def layer_holds(record: Any) -> bool:
    values = {name: fmpq_mat(_rationals(rows)) for name, rows in record["point"].items()}
    return words_hold(record) and _blocks_hold(record, values, RATIONALS, _rational)


def polynomials_hold(record: Any) -> bool:
    shapes = {name: tuple(map(int, entry["shape"])) for name, entry in record["letters"].items()}
    ring = Polynomials(symbol_names(**shapes))
    return _blocks_hold(record, {name: ring.generic(name, *shape) for name, shape in shapes.items()}, ring, _integer)


def run_holds(record: Any) -> bool:
    a: Any = PrimeField(int(record["prime"])) if "prime" in record else RATIONALS
    blocks = {tuple(name.split(".")): a.matrix(_rationals(rows)) for name, rows in record["tokens"]["blocks"].items()}
    tokens = Tokens(record["tokens"]["counts"], blocks)
    steps = list(program_of(record).steps(tokens, a))
    named = {f"{k}.{f}": tokens.read(k, f, w, a) for k in tokens.counts for f, w in record["widths"].items()}
    if record["read"]:
        reading = Reading(**record["read"])
        named["answer"] = reading.rows(steps, tokens.total(reading.kind), a)
    if record["algorithm"] or record.get("counted"):
        given = record.get("task")
        A, r = (a.matrix(_rationals(given[x])) for x in "Ar") if given else task(tokens, a)
        named |= {"A": A, "r": r}
    if "answer" in record and named["answer"] != a.matrix(_rationals(record["answer"])):
        return False
    if record["algorithm"] and record["read"]:
        v = [a.matrix([[0]] * A.nrows())]
        for _ in range(named["answer"].nrows() - 1):
            v.append(a.add(r, a.matmul(A, v[-1])))
        queries = tokens.read(reading.kind, "x", record["widths"]["x"], a)
        if named["answer"] != a.stack([[a.matmul(a.transpose(x), queries)] for x in v]):
            return False
    if "facts" not in record:
        return True
    named |= {name: a.matrix(_rationals(rows)) for name, rows in record["values"].items() if name not in named}
    return _facts_hold(record, named, a, _rational) and _left_hold(record, named, steps[-1][1], a)


def _left_hold(record: Any, named: Any, after: Tokens, a: Any) -> bool:
    if "after" not in record:
        return True
    for kind in after.counts:
        for field, width in record["widths"].items():
            found, tree = after.read(kind, field, width, a), record["after"].get(f"{kind}.{field}")
            claimed = a.matrix([[0] * after.counts[kind]] * width) if tree is None else _tree(tree, named, a, _rational)
            if a.shape(found) != a.shape(claimed) or found != claimed:
                return False
    return True


def _tree(tree: Any, named: Any, a: Any, number: Any) -> Any:
    if isinstance(tree, str):
        return named[tree]
    operation, *rest = tree
    if operation == "unit":
        return a.one_hot(range(rest[0]), rest[0])
    if operation == "fill":
        return a.matrix([[number(rest[0])] * rest[2]] * rest[1])
    if operation == "part":
        x = _tree(rest[0], named, a, number)
        (top, bottom), (left, right) = (
            slice(*ends).indices(n)[:2] for ends, n in zip((rest[1:3], rest[3:]), a.shape(x), strict=True)
        )
        return a.columns(a.rows(x, top, bottom), left, right)
    x, *others = (_tree(part, named, a, number) for part in rest)
    if operation in ("max", "hardmax", "softmax"):
        weights = (a.softmax if operation == "softmax" else a.hardmax)(x, np.ones(a.shape(x), dtype=bool))
        return a.matmul(a.transpose(weights), x) if operation == "max" else weights
    if operation == "*" and a.shape(x) == (1, 1):
        rows, columns = a.shape(others[0])
        scale = a.matmul(a.matmul(a.matrix([[1]] * rows), x), a.matrix([[1] * columns]))
        return a.hadamard(scale, others[0])
    if operation == "-":
        return a.add(x, a.negate(others[0]))
    if operation == "rows":
        return a.stack([[x], [others[0]]])
    return {"'": a.transpose, "+": a.add, "*": a.matmul, "o": a.hadamard}[operation](x, *others)


def _facts_hold(record: Any, named: Any, a: Any, number: Any) -> bool:
    for fact in record["facts"]:
        left, right = (_tree(fact[side], named, a, number) for side in ("left", "right"))
        if a.shape(left) != a.shape(right) or 0 in a.shape(left):
            return False
        pairs = zip(_entries(left), _entries(right), strict=True)
        if not all(RELATIONS[fact["relation"]](x, y) for x, y in pairs):
            return False
    return True


def _entries(matrix: Any) -> list[Any]:
    return matrix.entries() if hasattr(matrix, "entries") else list(matrix.ravel())


def _polynomials(rows: Any, ring: Polynomials) -> Any:
    """A matrix of numbers, or of terms [coefficient, [indeterminate, ..]]."""
    out = np.empty((len(rows), len(rows[0])), dtype=object)
    for place in np.ndindex(*out.shape):
        x = rows[place[0]][place[1]]
        terms = x if isinstance(x, list) else [[x, []]]
        each = (math.prod((ring.symbols[name] for name in names), start=ring.scalar(Fraction(c))) for c, names in terms)
        out[place] = sum(each, ring.scalar(0))
    return out


def facts_hold(record: Any) -> bool:
    generic = {name: tuple(shape) for name, shape in record.get("generic", {}).items()}
    if not generic:
        named = {name: RATIONALS.matrix(_rationals(rows)) for name, rows in record["values"].items()}
        return _facts_hold(record, named, RATIONALS, _rational)
    ring = Polynomials(symbol_names(**generic), rational=True)
    named = {name: _polynomials(rows, ring) for name, rows in record["values"].items()}
    named |= {name: ring.generic(name, *shape) for name, shape in generic.items()}
    return _facts_hold(record, named, ring, _rational)


def rank_holds(record: Any) -> bool:
    rows = _rationals(record["matrix"])
    if "prime" not in record:
        return fmpq_mat(rows).rank() == record["rank"]
    p = int(record["prime"])
    return nmod_mat(len(rows), len(rows[0]), [int(x) for row in rows for x in row], p).rank() == record["rank"]


def cover_holds(record: Any) -> bool:
    g, value = Fraction(record["g"]), Fraction(record["e*"])
    cover, packing = Cover(g, tuple(record["cover"])), Packing(g, tuple(record["packing"]))
    law = Law(g, record["m"], record["L"], value, cover, packing)
    return refute_cover(law) is None and refute_packing(law) is None


def intervals_hold(record: Any) -> bool:
    cells = tuple(
        Cell(Fraction(low), Fraction(high), q, tuple(map(tuple, runs))) for low, high, q, runs in record["cells"]
    )
    bound = UpperBound(Fraction(record["constant"]), cells, Fraction(record["to"]), LEVELS, ())
    ends = [Fraction(0), *(cell.high for cell in cells)]
    tiled = all(cell.low == end < cell.high for cell, end in zip(cells, ends, strict=False))
    with Balls(128).working():
        return tiled and ends[-1] >= bound.tail and not any(refute_cell(cell, bound.constant) for cell in cells)


DECIDED = {
    "words": words_hold,
    "layer": layer_holds,
    "polynomials": polynomials_hold,
    "run": run_holds,
    "schwartz-zippel": run_holds,
    "rank": rank_holds,
    "cover": cover_holds,
    "intervals": intervals_hold,
    "facts": facts_hold,
}
