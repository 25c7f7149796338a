"""Records of rounds and of chambers decided by the project's own code: whole matrices, its logarithms, its chambers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import record_objects
import sympy as sp
from record_objects import _tree

from constructions.dense import DenseHead, DenseMlp, DenseNormalised, apply_heads, assemble, split
from constructions.layout import Layout
from constructions.logarithms import Logarithms
from constructions.routes import Route, mask
from constructions.tokens import Span, Tokens
from proofs_check.online_learning.chambers import chambers, setting


def holds(record: dict[str, Any]) -> bool:
    """Whether what a record of any kind says is true."""
    own = {"rounds": rounds_hold, "chambers": chambers_hold}
    return own[record["kind"]](record) if record["kind"] in own else record_objects.holds(record)


def number(x: Any) -> sp.Expr:
    """A number of a record; in chambers the first character of a symbol tells its sign, and is dropped."""
    if not isinstance(x, list):
        return sp.Rational(x)
    return sp.Add(*(sp.Mul(sp.Rational(c), *map(_factor, names)) for c, names in x))


def _factor(name: str) -> sp.Expr:
    return sp.log(sp.Rational(name[4:])) if name.startswith("log ") else sp.Symbol(name[1:])


def _matrix(rows: Any) -> list[list[sp.Expr]]:
    return [[number(x) for x in row] for row in rows]


def dense(layer: Any, layout: Layout, counts: dict[str, int]) -> list[Any]:
    """The parts of a layer as whole matrices."""
    parts: list[Any] = []
    for head in layer.get("heads", []):
        routes = [
            Route(Span(*s), Span(*t), relation == "same", relation == "causal") for s, t, relation in head["routes"]
        ]
        P, Q, R = _zeros(layout, layout), _zeros(layout, layout), mask(routes, counts)
        for move in head.get("moves", [head]):
            _put(P, layout, layout, move["out"], move["value"], move.get("map"))
        for term in head.get("scores", [head]):
            W = _zeros(layout, layout)
            _put(W, layout, layout, term["query"], term["key"], term.get("weight"))
            Q += term["sign"] * W.T
        P, Q = sp.ImmutableSparseMatrix(P), sp.ImmutableSparseMatrix(Q)
        kind = head.get("weights", "linear")
        parts.append(DenseHead(P, Q, R) if kind == "linear" else DenseNormalised(kind, P, Q, R))
    if "units" in layer:
        units = Layout(**{f"u{i}": len(group["reads"][0][1]) for i, group in enumerate(layer["units"])})
        W, V = _zeros(units, layout), _zeros(layout, units)
        for i, group in enumerate(layer["units"]):
            for field, weight in group["reads"]:
                _put(W, units, layout, f"u{i}", field, weight)
            for field, weight in group["writes"]:
                _put(V, layout, units, field, f"u{i}", weight)
        parts.append(DenseMlp(sp.ImmutableSparseMatrix(W), sp.ImmutableSparseMatrix(V)))
    return parts


def _zeros(rows: Layout, columns: Layout) -> Any:
    return sp.SparseMatrix(rows.width, columns.width, {})


def _put(total: Any, rows: Layout, columns: Layout, row: str, column: str, weight: Any) -> None:
    """Add a block; the identity where there is no weight."""
    block = sp.eye(rows[row]) if weight is None else sp.Matrix(_matrix(weight))
    assert block.shape == (rows[row], columns[column]), f"a weight of another shape than {row} and {column}"
    top, left = rows.offset(row), columns.offset(column)
    total[top : top + block.rows, left : left + block.cols] += block


def run(record: Any, tokens: Tokens, a: Any) -> Tokens:
    """The tokens after a round."""
    layout, counts = Layout(**record["widths"]), dict(tokens.counts)
    U = assemble(tokens, layout, a)
    for layer in record["program"]:
        U = apply_heads(U, dense(layer, layout, counts), a)
    return split(U, counts, layout, a)


def round_holds(record: Any, tokens: Tokens, a: Any) -> tuple[bool, Tokens]:
    """Whether a round leaves what is said and the facts hold, and what it leaves."""
    after = run(record, tokens, a)
    named = {f"{k}.{f}": tokens.read(k, f, w, a) for k in tokens.counts for f, w in record["widths"].items()}
    named |= {name: a.matrix(_matrix(rows)) for name, rows in record["values"].items() if name not in named}
    good = all(_fact_holds(fact, named, a) for fact in record["facts"])
    fed = {f"{kind}.{field}" for kind in record["kinds"] for field in record["widths"]}
    for name in fed | record["after"].keys():
        kind, field = name.split(".")
        found, tree = after.read(kind, field, record["widths"][field], a), record["after"].get(name)
        claimed = a.matrix([[0] * found.shape[1]] * found.shape[0]) if tree is None else _tree(tree, named, a, number)
        good = (
            good and found.shape == claimed.shape and all(x == y for x, y in zip(found.flat, claimed.flat, strict=True))
        )
    return good, after


def _fact_holds(fact: Any, named: Any, a: Any) -> bool:
    """Entries are decided as numbers where they are different."""
    left, right = (_tree(fact[side], named, a, number) for side in ("left", "right"))
    equal = [x == y for x, y in zip(left.flat, right.flat, strict=True)]
    return left.shape == right.shape and (all(equal) if fact["relation"] == "=" else not any(equal))


def _tokens(blocks: Any, counts: Any, a: Any) -> Tokens:
    return Tokens(counts, {tuple(name.split(".")): a.matrix(_matrix(rows)) for name, rows in blocks.items()})


def rounds_hold(record: Any) -> bool:
    a, good = Logarithms(), True
    fed: dict[tuple[str, str], Any] = {}
    source, target, flag, embedding = record["feedback"]
    for blocks in record["rounds"]:
        tokens = _tokens(blocks, record["counts"], a)
        tokens = tokens.replacing(fed)
        told, after = round_holds(record, tokens, a)
        good = good and told
        fed = {(target, field): after.read(source, field, width, a) for field, width in record["widths"].items()}
        fed[target, flag] = fed[target, flag] + a.matrix(_matrix(embedding))
    return good


def chambers_hold(record: Any) -> bool:
    U, V = (_matrix(record["values"][name]) for name in "UV")
    n, A = len(U[0]), len(V[0])
    for s, b, later in record["places"]:
        for chamber in chambers(n, A, coarse=not record["fine"]):
            if (chamber.state, chamber.action, chamber.successor) != (s, b, later):
                continue
            here = setting(chamber, n, A)
            a = here.arithmetic
            column: Callable[[Any, int], Any] = partial(_column, a)
            tokens = _tokens(record["tokens"]["blocks"], record["tokens"]["counts"], a).replacing(
                {
                    ("context", "row"): a.matmul(a.matrix(U), a.matrix(here.table)),
                    ("reward", "rew"): a.matrix([[here.reward]]),
                    ("state", "cur"): column(U, s),
                    ("action", "act"): column(V, b),
                    ("next", "nxt"): column(U, later) if later >= 0 else a.matrix([[0]] * len(U)),
                }
            )
            if not round_holds(record, tokens, a)[0]:
                return False
    return True


def _column(a: Any, rows: Any, k: int) -> Any:
    return a.matrix([[row[k]] for row in rows])
