"""Records turned back into the project's own objects and decided by its own code: the other opinion on a re-check."""

from fractions import Fraction
from typing import Any

from flint import fmpq, fmpq_mat, nmod_mat

from constructions.construction import Reading
from constructions.exact import RATIONALS, Balls, PrimeField
from constructions.layers import Forget, Head, LinearAttention, Public, Release, Repeat, Route, Tokenwise, fixed
from constructions.layout import Layout
from constructions.program import Program
from constructions.symbols import Polynomials, symbol_names
from constructions.temporal_difference.minimax import Cover, Law, Packing
from constructions.tokens import Span, Tokens
from proofs_check.temporal_difference.minimax import refute_cover, refute_packing
from proofs_check.temporal_difference.minimax_cells import LEVELS, Cell, UpperBound, refute_cell
from proofs_check.words import Words, letter, normal_form, rule, zero


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
    arithmetic: Any = PrimeField(int(record["prime"])) if "prime" in record else RATIONALS
    blocks = {
        tuple(name.split(".")): arithmetic.matrix(_rationals(rows)) for name, rows in record["tokens"]["blocks"].items()
    }
    tokens = Tokens(record["tokens"]["counts"], blocks)
    reading = Reading(**record["read"])
    queries = tokens.read(reading.kind, "x", record["widths"]["x"], arithmetic)
    found = reading.rows(program_of(record).steps(tokens, arithmetic), tokens.total(reading.kind), arithmetic)
    if "answer" in record and found != arithmetic.matrix(_rationals(record["answer"])):
        return False
    if not record["algorithm"]:
        return True
    v = _iterates(record, tokens, found.nrows(), arithmetic)
    return found == arithmetic.stack([[arithmetic.matmul(arithmetic.transpose(x), queries)] for x in v])


def _iterates(record: Any, tokens: Tokens, count: int, a: Any) -> list[Any]:
    if record["algorithm"] == "context":
        B, Y, g = (tokens.blocks["source", field] for field in "xyr")
        H = a.add(a.matmul(a.transpose(a.add(Y, a.negate(B))), B), a.one_hot(range(B.ncols()), B.ncols()))
        v, s = [a.matrix([[0]] * B.nrows())], a.transpose(g)
        for _ in range(count - 1):
            v.append(a.add(v[-1], a.matmul(B, s)))
            s = a.matmul(H, s)
        return v
    if "task" in record:
        A, r = (a.matrix(_rationals(record["task"][name])) for name in "Ar")
    elif ("state", "y") in tokens.blocks:
        A, r = a.transpose(tokens.blocks["state", "y"]), a.transpose(tokens.blocks["state", "r"])
    else:
        S, T, R = (tokens.blocks["raw", field] for field in "xyr")
        visits = a.recip_0(a.matmul(a.matrix([[1] * S.ncols()]), a.transpose(S)))
        At = a.scale_columns(a.matmul(T, a.transpose(S)), a.hadamard(visits, tokens.blocks["state", "gam"]))
        A, r = a.transpose(At), a.transpose(a.hadamard(visits, a.matmul(R, a.transpose(S))))
    v = [a.matrix([[0]] * A.nrows())]
    for _ in range(count - 1):
        v.append(a.add(r, a.matmul(A, v[-1])))
    return v


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
}
