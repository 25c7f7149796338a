"""recurrent.rescan: a net that finds out which block it needs, reads that block again, and answers (theory C1, C2).

The context holds K blocks of examples (x, y = A_j x), then a few shots (x, A_t x) of one of the functions, not said
which, then queries. One memory `work` holds one function at a time. Two ways of finding t:

* sketch: beside `work`, K memories of one row keep s_j = w'A_j for a fixed row w; a shot's residual is w'y - s_j x;
* replay: block j is read into `work`, the shots are tried on it, and the next block overwrites it; no sketch is kept.

The squared residuals r_j are summed over the shots, and the block with the smallest is read again into `work`, which
then holds A_t exactly whatever it held before: for orthogonal keys and b = 1/|k|^2, S+ = S (I - P) + A P with P the
projection on the keys (F8). The smallest residual and the choice of tokens are a controller, declared: no delta rule
does them. By sketch t is found unless w'(A_t - A_j) vanishes on every shot for some j != t; by replay unless A_t - A_j
does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..arithmetic import Arithmetic, Array
from ..construction import Construction, Steps, last
from ..errors import BadInput, Unsupported
from ..exact import RATIONALS
from ..layers import Head, LinearAttention, full, same
from ..layers import fixed as public_matrix
from ..layout import Layout
from ..program import Program
from ..task import TaskClass
from ..tokens import Span, Tokens
from .blocks import BlockTask
from .delta_rule import DeltaRule

THEOREM = "recurrent.rescan"
SOURCE = "re-scanning by a selection of tokens; theory F8, F9, F11, F12, T1-T5"
ASSUMPTIONS = (
    "a controller outside the delta rule picks the smallest residual and feeds the tokens of that block again",
    "rates are 1/|x|^2, given with the tokens",
)


@dataclass(frozen=True)
class Controller:
    """Declared, not a delta rule: a new kind `again` with the examples of the block whose residual is smallest.

    Attributes:
        residuals: one-coordinate fields of the kind `judge`, one a block.
        block: examples a block.
    """

    residuals: tuple[str, ...]
    block: int
    label: str = "controller"

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        found = [entries(tokens.read("judge", field, 1, arithmetic))[0] for field in self.residuals]
        chosen = smallest(found)
        indices = list(range(chosen * self.block, (chosen + 1) * self.block))
        fields = {f: arithmetic.select(a, indices) for (kind, f), a in tokens.blocks.items() if kind == "example"}
        yield self.label, tokens.with_kind("again", self.block, **fields)

    def describe(self) -> list[tuple[str, str]]:
        names = ", ".join(self.residuals)
        return [(self.label, f"read again the {self.block} examples of the block with the smallest of {names}")]


def entries(array: Array) -> list[Any]:
    """The entries of a matrix of any arithmetic, row by row."""
    return array.entries() if hasattr(array, "entries") else list(array.reshape(-1))


def smallest(residuals: Sequence[Any]) -> int:
    """Index of the first smallest. Polynomials must be sums of squares: one that is zero is smallest at every point.

    Raises:
        Unsupported: polynomials of which not exactly one is zero, or balls that overlap.
    """
    places = range(len(residuals))
    try:
        found = [i for i in places if all(residuals[i] <= residuals[j] for j in places if j != i)]
    except TypeError:  # polynomials have no order
        found = [i for i in places if residuals[i] == 0]
        if len(found) > 1:
            found = []
    if not found:
        raise Unsupported(
            f"controller: expected a residual that is smallest for certain, found none of {len(residuals)}"
        )
    return found[0]


def _work(span: Span, rate: str, out: str, label: str) -> DeltaRule:
    return DeltaRule("y", "x", "x", rate, "one", out, "work", span, label=label)


def _judge(fields: Sequence[tuple[str, str]]) -> LinearAttention:
    """r += <e, e> over the shots, for each (e, r)."""
    heads = (Head("one", e, e, r, (same("shot", "shot"),)) for e, r in fields)
    return LinearAttention(tuple(heads), "square")


def sketch_program(K: int, d: int, d_v: int, block: int, w: Sequence[Any]) -> Program:
    """Work head and K sketch heads of one row; w is a public matrix of shape (1, d_v), of numbers or symbols."""
    row = public_matrix("w", [list(w)])
    names = [str(j + 1) for j in range(K)]
    layout = Layout(
        x=d,
        y=d_v,
        work=d_v,
        out=d_v,
        one=1,
        rate=1,
        wy=1,
        **{f"{field}{j}": 1 for field in ("flag", "rate", "sketch", "guess", "miss", "r") for j in names},
    )
    everywhere = (same("example", "example"), same("shot", "shot"))
    sketches = [
        DeltaRule("wy", "x", "x", f"rate{j}", "one", f"guess{j}", f"sketch{j}", Span(kind), label=f"{name} {j}")
        for kind, name in (("example", "sketch"), ("shot", "try"))
        for j in names
    ]
    layers: tuple[Any, ...] = (
        LinearAttention(
            (
                Head("one", "y", "one", "wy", everywhere, weight=row),
                *(Head(f"flag{j}", "rate", "one", f"rate{j}", (same("example", "example"),)) for j in names),
            ),
            "project, gate by block",
        ),
        *sketches,
        LinearAttention(
            tuple(
                Head(field, "one", "one", f"miss{j}", (same("shot", "shot"),), sign)
                for j in names
                for field, sign in (("wy", 1), (f"guess{j}", -1))
            ),
            "residuals",
        ),
        LinearAttention(
            tuple(Head(f"miss{j}", f"miss{j}", "one", f"r{j}", (full("shot", "judge"),)) for j in names), "judge"
        ),
        _work(Span("example"), "rate", "out", "first pass"),
        Controller(tuple(f"r{j}" for j in names), block),
        _work(Span("again"), "rate", "out", "re-scan"),
        _work(Span("query"), "rate", "out", "answer"),
    )
    return Program("re-scan by sketch", layout, ("example", "shot", "judge", "query", "state", "again"), layers)


def replay_program(K: int, d: int, d_v: int, block: int) -> Program:
    """One memory: every block is read into it and tried on the shots; then the best one is read again."""
    names = [str(j + 1) for j in range(K)]
    layout = Layout(
        x=d,
        y=d_v,
        work=d_v,
        out=d_v,
        one=1,
        rate=1,
        **{f"guess{j}": d_v for j in names},
        **{f"miss{j}": d_v for j in names},
        **{f"square{j}": 1 for j in names},
        **{f"r{j}": 1 for j in names},
    )
    replays = [
        layer
        for i, j in enumerate(names)
        for layer in (
            _work(Span("example", i * block, (i + 1) * block), "rate", "out", f"replay {j}"),
            _work(Span("shot"), "rate", f"guess{j}", f"try {j}"),
        )
    ]
    shots = (same("shot", "shot"),)
    layers: tuple[Any, ...] = (
        *replays,
        LinearAttention(
            tuple(
                Head(field, "one", "one", f"miss{j}", shots, sign)
                for j in names
                for field, sign in (("y", 1), (f"guess{j}", -1))
            ),
            "residuals",
        ),
        _judge([(f"miss{j}", f"square{j}") for j in names]),
        LinearAttention(
            tuple(Head(f"square{j}", "one", "one", f"r{j}", (full("shot", "judge"),)) for j in names), "judge"
        ),
        Controller(tuple(f"r{j}" for j in names), block),
        _work(Span("again"), "rate", "out", "re-scan"),
        _work(Span("query"), "rate", "out", "answer"),
    )
    return Program("re-scan by replay", layout, ("example", "shot", "judge", "query", "state", "again"), layers)


def encode(task: BlockTask, arithmetic: Arithmetic) -> Tokens:
    """Examples [x, y, block one-hot, rate, 1], shots [x, y, 1], queries [x, 1], a judge, and empty memories."""
    K, d, d_v, block, shots = task.size
    examples = [(x, task.answer(j, x), j) for j, rows in enumerate(task.inputs) for x in rows]
    tried = [(x, task.answer(task.target, x)) for x in task.shots]

    def columns(rows: Sequence[Sequence[Any]], width: int) -> Array:
        return arithmetic.matrix(list(zip(*rows, strict=True)), (width, len(rows)))

    def ones(count: int) -> Array:
        return arithmetic.matrix([[1] * count])

    counts = {"example": K * block, "shot": shots, "judge": 1, "query": len(task.queries), "state": d}
    blocks = {
        ("example", "x"): columns([x for x, _, _ in examples], d),
        ("example", "y"): columns([y for _, y, _ in examples], d_v),
        ("example", "rate"): arithmetic.matrix(
            [[1 / sum(RATIONALS.scalar(e) ** 2 for e in x) for x, _, _ in examples]]
        ),
        ("shot", "x"): columns([x for x, _ in tried], d),
        ("shot", "y"): columns([y for _, y in tried], d_v),
        ("query", "x"): columns(task.queries, d),
        ("state", "work"): arithmetic.matrix([[0] * d] * d_v, (d_v, d)),
    }
    for kind in ("example", "shot", "judge", "query"):
        blocks[(kind, "one")] = ones(counts[kind])
    for j in range(K):
        blocks[("example", f"flag{j + 1}")] = arithmetic.matrix([[int(i == j) for _, _, i in examples]])
        blocks[("state", f"sketch{j + 1}")] = arithmetic.matrix([[0] * d])
    return Tokens(counts, blocks)


def decode(steps: Steps, arithmetic: Arithmetic, K: int) -> Array:
    """A column a query: the answer, then r_1 .. r_K, alike in every column; shape (d_v + K, queries)."""
    tokens = last(steps)
    height = arithmetic.shape(tokens.blocks[("state", "work")])[0]
    ones = arithmetic.matrix([[1] * tokens.total("query")])
    residuals = [arithmetic.matmul(tokens.read("judge", f"r{j + 1}", 1, arithmetic), ones) for j in range(K)]
    return arithmetic.stack([[tokens.read("query", "out", height, arithmetic)], *([row] for row in residuals)])


def reference(task: BlockTask, arithmetic: Arithmetic, w: Sequence[Any] | None = None) -> Array:
    """A_t x for every query, then r_j = sum over shots of (w'(A_t - A_j) x)^2, or of |(A_t - A_j) x|^2 without w."""
    mm, transpose = arithmetic.matmul, arithmetic.transpose
    A = [arithmetic.matrix(function) for function in task.functions]
    shots, queries = (transpose(arithmetic.matrix(rows)) for rows in (task.shots, task.queries))
    ones = arithmetic.matrix([[1] * len(task.queries)])
    rows = [mm(A[task.target], queries)]
    for function in A:
        miss = mm(arithmetic.add(A[task.target], arithmetic.negate(function)), shots)
        miss = miss if w is None else mm(arithmetic.matrix([list(w)]), miss)
        squares = arithmetic.dots(miss, miss)
        rows.append(mm(mm(squares, arithmetic.matrix([[1]] * len(task.shots))), ones))
    return arithmetic.stack([[row] for row in rows])


def _objection(task: BlockTask) -> str | None:
    for j, rows in enumerate(task.inputs):
        for i, x in enumerate(rows):
            if any(sum(a * b for a, b in zip(x, y, strict=True)) != 0 for y in rows[:i]):
                return f"input {i} of block {j} is not orthogonal to an earlier one"
        if len(rows) < len(rows[0]):
            return f"{len(rows)} inputs in block {j}"
    return None


ORTHOGONAL = TaskClass(
    "orthogonal blocks", "the inputs of each block are an orthogonal basis, of any lengths", _objection
)


def construction(task: BlockTask, how: str = "sketch", *, w: Sequence[Any] | None = None) -> Construction:
    """The model at the sizes of a task: `how` is sketch (w given, or 1, 2, .., d_v) or replay.

    Raises:
        BadInput: another way, or w of another length than d_v.
    """
    K, d, d_v, block, shots = task.size
    row: list[Any] | None = None
    if how == "sketch":
        row = list(w) if w is not None else list(range(1, d_v + 1))
        if len(row) != d_v:
            raise BadInput(f"re-scan: expected w of length {d_v}, found {len(row)}")
        program = sketch_program(K, d, d_v, block, row)
    elif how == "replay":
        program = replay_program(K, d, d_v, block)
    else:
        raise BadInput(f"re-scan: expected sketch or replay, found {how}")
    return Construction(
        theorem=THEOREM,
        sizes={"K": K, "d": d, "d_v": d_v, "block": block, "shots": shots},
        program=program,
        encode=encode,
        decode=lambda steps, arithmetic: decode(steps, arithmetic, K),
        reference=lambda task, arithmetic: reference(task, arithmetic, row),
        task_class=ORTHOGONAL,
        assumptions=ASSUMPTIONS,
        answer=(("answer", d_v), ("residuals", K)),
        source=SOURCE,
    )
