"""td.full-context: batch TD(0), TD(lambda), residual gradient and average-reward TD on the whole context of N samples.

Source: Wang, Blaser, Daneshmand, Zhang, "Transformers Can Learn Temporal Difference Methods for In-Context
Reinforcement Learning", arXiv 2405.13861. Their prompt has columns (phi_t; g phi'_t; R_t) and a query column
(phi_q; 0; 0), their layer is Z+ = Z + (1/N) P Z M (Z' Q Z), and the prediction is minus the last entry of the query.

Derivation. With delta_t = R_t + g w'phi'_t - w'phi_t, w_0 = 0 and a public preconditioner C_l for each layer, all four
algorithms are w+ = w + (a/N) C_l sum_t delta_t e_t, where e_t is

    td                 phi_t
    td-lambda          sum_{j <= t} lambda^(t-j) phi_j      (the trace decays by lambda as given: no g in it)
    residual-gradient  phi_t - g phi'_t
    average-reward     phi_t, with g = 1 and R_t - rbar_t for R_t, rbar_t the mean of R_1, .., R_t

Invariant: sample t holds delta_t in its last coordinate and query q holds -w'phi_q. One layer adds the change of w
times (g phi'_t - phi_t) to the former and times -phi_q to the latter. Both are sum_j value_j <W key_j, query>, with
W = (a/N) C_l, query = y - x (y = g phi', zero for a query token), key = x or x - y, and value = the last coordinate:
for TD(lambda) mixed by T_ij = lambda^(i-j), i >= j. Average reward keeps R fixed and moves a second coordinate h,
w'(phi'_t - phi_t), so it has two values: h, and R mixed by T = I - (running mean).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

from flint import fmpq

from ..arithmetic import Arithmetic, Array, Exact
from ..construction import Construction, Reading, Steps
from ..errors import BadInput
from ..layers import Head, Layer, LinearAttention, Public, Repeat, Rows, fixed, full
from ..layout import Layout, Size
from ..program import Program
from ..task import SHOWN_TRANSITIONS, TaskClass, exact_discount
from ..tokens import Tokens

THEOREM = "td.full-context"
ALGORITHMS = ("td", "td-lambda", "residual-gradient", "average-reward")
ASSUMPTIONS = (
    "routes depend on token kinds and public indices only",
    "discount, step, preconditioners, trace decay and the number N of samples are public",
)

Matrix = Sequence[Sequence[Any]]


@dataclass(frozen=True)
class FeatureLog:
    """N transitions seen through features: phi(S_t), phi(S'_t) and R_t, with query features; everything exact.

    A terminal successor has zero features, hence value 0.

    Attributes:
        features: phi_t as rows, shape (N, d); ints, `Fraction`s, or floats at their binary value.
        successors: phi'_t as rows, not discounted, shape (N, d).
        rewards: R_t, length N.
        queries: phi_q as rows, shape (queries, d).
        discount: g in (0, 1]; average-reward TD needs 1.
        name: where it comes from, with its seed.

    Raises:
        BadInput: no transition, no query, shapes that differ, an entry that is no finite number, a discount outside
            (0, 1].
    """

    features: Matrix
    successors: Matrix
    rewards: Sequence[Any]
    queries: Matrix
    discount: Fraction
    name: str = "feature log"

    def __post_init__(self) -> None:
        for field in ("features", "successors", "queries"):
            object.__setattr__(self, field, _exact_table(self.name, field, getattr(self, field)))
        (rewards,) = _exact_table(self.name, "rewards", [self.rewards])
        object.__setattr__(self, "rewards", rewards)
        object.__setattr__(self, "discount", discount_up_to_one(self.name, self.discount))
        shape = (len(self.features), self.dimension)
        for field, table in (("successors", self.successors), ("queries", self.queries)):
            found = (len(table) if field == "successors" else shape[0], len(table[0]))
            if found != shape:
                raise BadInput(f"{self.name}: expected {field} like features of shape {shape}, found shape {found}")
        if len(self.rewards) != shape[0]:
            raise BadInput(f"{self.name}: expected {shape[0]} rewards, found {len(self.rewards)}")

    @property
    def dimension(self) -> int:
        """d, the number of features."""
        return len(self.features[0])

    @property
    def size(self) -> tuple[int, ...]:
        """(d, N)."""
        return self.dimension, len(self.features)

    @cached_property
    def discounted(self) -> Matrix:
        """g phi'_t as rows, shape (N, d)."""
        return [[self.discount * x for x in row] for row in self.successors]

    def describe(self) -> dict[str, Any]:
        """Discount and number of transitions; of a small log every transition."""
        document: dict[str, Any] = {"discount": str(self.discount), "transitions": len(self.features)}
        if len(self.features) <= SHOWN_TRANSITIONS:
            triples = zip(self.features, self.successors, self.rewards, strict=True)
            document["log"] = [f"{_text(x)} -> {_text(y)}, reward {r}" for x, y, r in triples]
            document["queries"] = [_text(row) for row in self.queries]
        return document


def _text(row: Sequence[Fraction]) -> str:
    return "(" + ", ".join(map(str, row)) + ")"


def _exact_table(name: str, what: str, rows: Any) -> Matrix:
    """Rows of equal positive length as tuples of fractions."""
    listed = [list(row.tolist() if hasattr(row, "tolist") else row) for row in rows]
    widths = sorted({len(row) for row in listed})
    if len(widths) != 1 or widths[0] == 0:
        raise BadInput(f"{name}: expected {what} as rows of one positive length, found lengths {widths}")
    return tuple(tuple(_exact_number(name, what, x) for x in row) for row in listed)


def _exact_number(name: str, what: str, x: Any) -> Fraction:
    if type(x) is Fraction:
        return x
    try:
        return Fraction(int(x.p), int(x.q)) if isinstance(x, fmpq) else Fraction(x)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise BadInput(f"{name}: expected finite numbers as {what}, found {x}") from None


def discount_up_to_one(name: str, value: Any) -> Fraction:
    """A discount in (0, 1] as an exact fraction.

    Raises:
        BadInput: anything else; the sentence begins with `name`.
    """
    try:
        return Fraction(1) if value in (1, "1") else exact_discount(value)
    except BadInput:
        raise BadInput(f"{name}: expected a discount above 0 and at most 1, found {value}") from None


FEATURE_LOGS = TaskClass("feature log", "finitely many transitions (phi, phi', R) in Q", lambda task: None)
UNDISCOUNTED = TaskClass(
    "undiscounted feature log",
    "finitely many transitions (phi, phi', R) in Q, discount 1",
    lambda task: None if task.discount == 1 else f"the discount {task.discount}",
)


def decay(rate: Any) -> Public:
    """The mixing of eligibility traces, T_ij = rate^(i-j) for i >= j: sample j offers its own and later errors."""

    def entries(rows: int, columns: int) -> Rows:
        powers = [rate**k for k in range(rows)]
        return [[powers[i - j] if i >= j else 0 for j in range(columns)] for i in range(rows)]

    return Public("Lambda", entries)


def _centring_entries(rows: int, columns: int) -> Rows:
    return [[int(i == j) - Fraction(int(i <= j), j + 1) for j in range(columns)] for i in range(rows)]


CENTRING = Public("T", _centring_entries)
"""T = I - (running mean), T_ij = [i = j] - [i <= j] / j counted from 1: R T has the entries R_t - rbar_t."""


def update_layer(algorithm: str, weight: Public, mixing: Public | None, label: str = "step") -> LinearAttention:
    """One layer: w becomes w + W sum_t delta_t e_t, with `weight` W and the `mixing` of values (None for none)."""
    routes = (full("sample", "sample"), full("sample", "query"))
    average = algorithm == "average-reward"
    out = "h" if average else "r"
    values = (("r", mixing), ("h", None)) if average else (("r", mixing),)
    keys = (("x", 1), ("y", -1)) if algorithm == "residual-gradient" else (("x", 1),)
    heads = [
        Head(value, key, query, out, routes, sign=own * sign, weight=weight, mixing=mixed)
        for value, mixed in values
        for key, own in keys
        for query, sign in (("x", -1), ("y", 1))
    ]
    return LinearAttention(tuple(heads), label)


def full_context_program(
    algorithm: str, d: Size, depth: Size, weights: Sequence[Public], rate: Any = Fraction(0)
) -> Program:
    """`depth` layers on tokens (x; y; r), or (x; y; r; h) for average reward; d and depth may be symbols.

    Args:
        algorithm: one of `ALGORITHMS`.
        weights: W = (a/N) C for every layer, or one W for all of them.
        rate: lambda, the trace decay of TD(lambda).

    Raises:
        BadInput: another algorithm, or a number of weights that is neither 1 nor the depth.
    """
    if algorithm not in ALGORITHMS:
        raise BadInput(f"{THEOREM}: expected one of {', '.join(ALGORITHMS)}, found {algorithm!r}")
    mixing = {"td-lambda": decay(rate), "average-reward": CENTRING}.get(algorithm)
    layers: tuple[Layer, ...]
    if len(weights) == 1:
        layers = (Repeat((update_layer(algorithm, weights[0], mixing),), depth),)
    elif len(weights) == depth:
        layers = tuple(update_layer(algorithm, w, mixing, f"step {i + 1}") for i, w in enumerate(weights))
    else:
        raise BadInput(f"{THEOREM}: expected 1 or {depth} preconditioners, found {len(weights)}")
    widths: dict[str, Size] = {"x": d, "y": d, "r": 1}
    if algorithm == "average-reward":
        widths["h"] = 1
    return Program(f"{algorithm} on the full context", Layout(**widths), ("sample", "query"), layers)


def encode_features(task: FeatureLog, arithmetic: Arithmetic) -> Tokens:
    """A sample token (phi_t; g phi'_t; R_t) for each transition, and a query token (phi_q; 0; 0) for each query."""
    samples = {
        "x": arithmetic.matrix(_columns(task.features)),
        "y": arithmetic.matrix(_columns(task.discounted)),
        "r": arithmetic.matrix([task.rewards]),
    }
    tokens = Tokens({}, {}).with_kind("sample", len(task.features), **samples)
    return tokens.with_kind("query", len(task.queries), x=arithmetic.matrix(_columns(task.queries)))


def _columns(rows: Matrix) -> list[list[Exact]]:
    return [list(column) for column in zip(*rows, strict=True)]


def read_predictions(steps: Steps, field: str, arithmetic: Arithmetic) -> Array:
    """Minus the last coordinate of the queries: zero at depth 0, then after each layer; shape (L + 1, queries)."""
    rows: list[Array] = []
    for _, tokens in steps:
        if not rows:
            rows.append(arithmetic.matrix([[0] * tokens.total("query")]))
        rows.append(arithmetic.negate(tokens.read("query", field, 1, arithmetic)))
    return arithmetic.stack([[row] for row in rows])


def directions(algorithm: str, task: FeatureLog, rate: Fraction) -> list[list[Fraction]]:
    """e_t as rows, shape (N, d): by the recursion e_t = lambda e_{t-1} + phi_t for TD(lambda)."""
    rows = [list(row) for row in task.features]
    if algorithm == "td-lambda":
        return list(accumulate(rows, lambda e, phi: [rate * a + b for a, b in zip(e, phi, strict=True)]))
    if algorithm == "residual-gradient":
        pairs = zip(rows, task.discounted, strict=True)
        return [[a - b for a, b in zip(phi, after, strict=True)] for phi, after in pairs]
    return rows


def targets(algorithm: str, task: FeatureLog) -> list[Fraction]:
    """R_t, or R_t minus the mean of R_1, .., R_t for average reward; length N."""
    if algorithm != "average-reward":
        return list(task.rewards)
    return [
        r - total / (t + 1) for t, (r, total) in enumerate(zip(task.rewards, accumulate(task.rewards), strict=True))
    ]


def td_predictions(
    algorithm: str, task: FeatureLog, weights: Sequence[Matrix], rate: Fraction, arithmetic: Arithmetic
) -> Array:
    """The algorithm itself, on a weight vector: phi_q'w_l at every query, rows l = 0, .., len(weights).

    Args:
        weights: (a/N) C_l for each layer, exact, shape (d, d).
    """
    changes = [[b - a for a, b in zip(*pair, strict=True)] for pair in zip(task.features, task.discounted, strict=True)]
    gaps, e = arithmetic.matrix(_columns(changes)), arithmetic.matrix(_columns(directions(algorithm, task, rate)))
    R, queries = arithmetic.matrix([targets(algorithm, task)]), arithmetic.matrix(task.queries)
    exact = {id(W): arithmetic.matrix(W) for W in weights}
    w = arithmetic.matrix([[0]] * task.dimension)
    rows = [arithmetic.matmul(queries, w)]
    for W in weights:
        delta = arithmetic.add(R, arithmetic.matmul(arithmetic.transpose(w), gaps))
        total = arithmetic.matmul(e, arithmetic.transpose(delta))
        w = arithmetic.add(w, arithmetic.matmul(exact[id(W)], total))
        rows.append(arithmetic.matmul(queries, w))
    return arithmetic.stack([[arithmetic.transpose(row)] for row in rows])


def construction(
    algorithm: str,
    d: int,
    samples: int,
    depth: int,
    *,
    preconditioners: Sequence[Matrix] | None = None,
    step: Any = 1,
    rate: Any = 0,
) -> Construction:
    """One of the four algorithms on the full context; its answer is the predictions at depths 0..L, (L + 1, queries).

    Args:
        algorithm: one of `ALGORITHMS`.
        d: number of features.
        samples: N; the weights hold a/N.
        depth: L >= 1.
        preconditioners: C for every layer (one matrix), or C_1, .., C_L; the identity by default. Shape (d, d), exact.
        step: a, exact.
        rate: lambda in [0, 1], the trace decay of TD(lambda).

    Raises:
        BadInput: another algorithm, a size that is not a positive int, a preconditioner of another shape or number, a
            rate outside [0, 1], or one for an algorithm without traces.
    """
    for what, value in (("d", d), ("N", samples), ("L", depth)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadInput(f"{THEOREM}: expected a positive int as {what}, found {value!r}")
    scale = _exact_number(THEOREM, "step", step) / samples
    trace = _exact_number(THEOREM, "trace decay", rate)
    if not 0 <= trace <= 1 or (trace and algorithm != "td-lambda"):
        wanted = "between 0 and 1" if algorithm == "td-lambda" else f"of 0 for {algorithm}"
        raise BadInput(f"{THEOREM}: expected a trace decay {wanted}, found {rate}")
    given = [[[int(i == j) for j in range(d)] for i in range(d)]] if preconditioners is None else preconditioners
    exact = [_exact_table(THEOREM, "preconditioner", C) for C in given]
    for C in exact:
        if (len(C), len(C[0])) != (d, d):
            raise BadInput(f"{THEOREM}: expected preconditioners of shape {(d, d)}, found {(len(C), len(C[0]))}")
    scaled = [[[scale * x for x in row] for row in C] for C in exact]
    names = ["C"] if len(scaled) == 1 else [f"C{i + 1}" for i in range(len(scaled))]
    publics = [fixed(name, W) for name, W in zip(names, scaled, strict=True)]
    program = full_context_program(algorithm, d, depth, publics, trace)
    every = scaled * depth if len(scaled) == 1 else scaled
    return Construction(
        theorem=THEOREM,
        sizes={"d": d, "N": samples, "L": depth},
        program=program,
        encode=_checked(d, samples, encode_features),
        decode=lambda steps, arithmetic: read_predictions(steps, _moving(algorithm), arithmetic),
        reference=_checked(d, samples, lambda task, a: td_predictions(algorithm, task, every, trace, a)),
        task_class=UNDISCOUNTED if algorithm == "average-reward" else FEATURE_LOGS,
        assumptions=ASSUMPTIONS,
        answer=(("prediction at depth", depth + 1),),
        source=f"arXiv 2405.13861, {algorithm}",
        reads=Reading("step", "query", _moving(algorithm), sign=-1),
    )


def _moving(algorithm: str) -> str:
    """The one coordinate that layers change."""
    return "h" if algorithm == "average-reward" else "r"


def _checked(d: int, samples: int, run: Callable[[FeatureLog, Arithmetic], Any]) -> Callable:
    def checked(task: FeatureLog, arithmetic: Arithmetic) -> Any:
        if task.size != (d, samples):
            found = f"{task.dimension} features and {len(task.features)} transitions"
            raise BadInput(
                f"{task.name}: expected {d} features and {samples} transitions, as the construction was built for, "
                f"found {found}"
            )
        return run(task, arithmetic)

    return checked
