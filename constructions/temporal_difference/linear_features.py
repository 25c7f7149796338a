"""td.linear-features: batch TD on linear features, from N raw transitions to the k tokens of a context (Thm 4.4).

Batch TD, not normalised, with public step a, moves the weight vector by

    w_{l+1} = w_l + a (b_N - A_N w_l) ,   A_N = sum_t phi_t (phi_t - g phi'_t)' ,   b_N = sum_t R_t phi_t ,

which is the affine recursion w_{l+1} = s_0 + M w_l with M = I - a A_N and s_0 = a b_N. So a task with features is read
by everything that reads (A, r) of a tabular one, with d features for n states, M for A and s_0 for r: the encoder's
second stage, the executor, and the lower bound are those of td.krylov, td.executor and td.dimension as they stand. A
query holds phi_q instead of a unit vector and reads phi_q' w_l; unit vectors read w_l itself.

Stage 1. Raw token t holds phi_t, phi'_t, R_t; state token i holds e_i and the public constants 1, g, a. With the score
phi_t.e_i, the i-th feature, three heads along raw => state accumulate the moments

    z_i = sum_t phi_t[i] phi_t ,   u_i = sum_t phi_t[i] phi'_t ,   q_i = sum_t phi_t[i] R_t = (b_N)_i ,

and four heads along state -> state form y_i = e_i - a z_i + a g u_i, row i of M, and r_i = a q_i. Nothing is inverted.
(With u in the place of y the token is 3d + 5 wide, but then y must be overwritten: it is the sum of N products, its new
value is of order one, and floats would lose log2 N bits to "new - old".)

a scales: K_L(M, s_0) = K_L(A_N, b_N) for every a, since a polynomial of degree below L in M is one in A_N.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from flint import fmpq, fmpq_mat

from ..arithmetic import Arithmetic, Array
from ..construction import Construction, Steps
from ..errors import BadInput
from ..exact import RATIONALS
from ..layers import Head, Layer, LinearAttention, Release, full, same
from ..layout import Layout, Size
from ..program import Program
from ..task import TaskClass
from ..tokens import Tokens
from . import executor, krylov
from .full_context import FeatureLog, read_predictions, td_predictions
from .tokens import KINDS, with_states

THEOREM = "td.linear-features"
SOURCE = "Thm 4.4 (theory A5)"
ASSUMPTIONS = (
    "declared primitive recip_0(x) = 1/x, and 0 at x = 0 (stage 2 only)",
    "routes depend on token kinds and public indices only",
    "the discount g and the step a are public",
    "token release by a gate that is zero or not",
    "the number of rounds min(d, L) is public",
)


@dataclass(frozen=True, eq=False)
class BatchTask:
    """A feature log with the step of batch TD; `A` and `r` are its M and s_0, as readers of tabular tasks call them.

    Attributes:
        log: transitions (phi, phi', R) and queries phi_q, exact.
        step: a, public; an int, a `Fraction`, a float at its binary value, or text such as ``"1/8"``.

    Raises:
        BadInput: a step that is not a positive number.
    """

    log: FeatureLog
    step: Any

    def __post_init__(self) -> None:
        try:
            step = Fraction(self.step)
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            step = Fraction(0)
        if step <= 0:
            raise BadInput(f"{self.log.name}: expected a positive rational step, found {self.step!r}")
        object.__setattr__(self, "step", step)

    @property
    def name(self) -> str:
        """That of the log, with the step."""
        return f"{self.log.name}, step {self.step}"

    @property
    def n(self) -> int:
        """d, the number of features."""
        return self.log.dimension

    @property
    def size(self) -> tuple[int, ...]:
        """(d, N)."""
        return self.log.size

    def describe(self) -> dict[str, Any]:
        """The log and the step."""
        return {**self.log.describe(), "step": str(self.step)}

    @cached_property
    def moments(self) -> tuple[fmpq_mat, fmpq_mat]:
        """A_N and b_N, exact, shapes (d, d) and (d, 1), without attention."""
        before = RATIONALS.matrix(self.log.features)
        changes = before - RATIONALS.matrix(self.log.discounted)
        return before.transpose() * changes, before.transpose() * RATIONALS.matrix([self.log.rewards]).transpose()

    @cached_property
    def A(self) -> fmpq_mat:
        """M = I - a A_N, exact, shape (d, d)."""
        A_N, _ = self.moments
        return RATIONALS.one_hot(range(self.n), self.n) - A_N * self._step

    @cached_property
    def r(self) -> fmpq_mat:
        """s_0 = a b_N, exact, shape (d, 1)."""
        _, b_N = self.moments
        return b_N * self._step

    @property
    def _step(self) -> fmpq:
        return fmpq(self.step.numerator, self.step.denominator)


BATCH_LOGS = TaskClass(
    "feature log with a step", "finitely many transitions (phi, phi', R) in Q, a public step a > 0", lambda task: None
)


def layout(d: Size) -> Layout:
    """Width 4d + 6: the wide layout with a field for the second moment, and the step."""
    return Layout(x=d, y=d, z=d, u=d, r=1, q=1, c=1, one=1, gam=1, alp=1)


def moment_layers() -> tuple[Layer, ...]:
    """Stage 1: two attention layers, seven heads, no primitive."""
    gather, own = (full("raw", "state"),), (same("state", "state"),)
    return (
        LinearAttention(
            (
                Head("x", "x", "x", "z", gather),
                Head("y", "x", "x", "u", gather),
                Head("r", "x", "x", "q", gather),
            ),
            "moments",
        ),
        LinearAttention(
            (
                Head("x", "one", "one", "y", own),
                Head("z", "alp", "one", "y", own, sign=-1),
                Head("u", "alp", "gam", "y", own),
                Head("q", "alp", "one", "r", own),
            ),
            "M, s_0",
        ),
        Release("raw", label="release raw"),
    )


def encoder_program(d: Size, rounds: int, passes: int = 1, balanced: bool = False) -> Program:
    """Raw tokens to the context Z_0 of (M, s_0)."""
    layers = moment_layers() + krylov.krylov_layers(rounds, passes, balanced)
    return Program(f"context of linear features (N -> d -> k), {rounds} rounds", layout(d), KINDS, layers)


def program(d: Size, depth: Size, rounds: int, passes: int = 1, balanced: bool = False) -> Program:
    """Raw tokens to phi_q' w_l: the encoder, then the executor of td.executor; d and depth may be symbols."""
    encode = encoder_program(d, rounds, passes, balanced)
    return encode.then(executor.executor_program(d, depth), f"batch TD on linear features, {rounds} rounds")


def encode(task: BatchTask, arithmetic: Arithmetic, d: int, slots: int, queries: bool) -> Tokens:
    """Raw tokens (phi; phi'; R), blank states, slots and sources, and where asked a query token for each phi_q.

    Raises:
        BadInput: the task has another number of features than the construction.
    """
    if task.n != d:
        raise BadInput(f"{task.name}: expected {d} features, as the construction was built for, found {task.n}")
    log = task.log
    tokens = Tokens({}, {}).with_kind(
        "raw",
        len(log.features),
        x=_columns(log.features, arithmetic),
        y=_columns(log.successors, arithmetic),
        r=arithmetic.matrix([log.rewards]),
    )
    tokens = with_states(tokens, d, arithmetic, slots, gam=log.discount, alp=task.step)
    return tokens.with_kind("query", len(log.queries), x=_columns(log.queries, arithmetic)) if queries else tokens


def _columns(rows: Any, arithmetic: Arithmetic) -> Array:
    return arithmetic.transpose(arithmetic.matrix(rows))


def _sizes(d: object, depth: object, passes: object, rounds: int | None) -> dict[str, int]:
    """d, L, h = min(d, L) or the rounds given, and passes.

    Raises:
        BadInput: a size that is not a positive int.
    """
    if isinstance(d, bool) or not isinstance(d, int) or d < 1:
        raise BadInput(f"{THEOREM}: expected a positive number of features d, found {d!r}")
    h = min(d, depth) if rounds is None and isinstance(depth, int) else rounds
    krylov.check_build(THEOREM, d, depth, h, passes)
    return {"d": d, "L": depth, "h": h, "passes": passes}  # type: ignore[dict-item]


def _assumed(balanced: bool) -> tuple[str, ...]:
    return ASSUMPTIONS + ((krylov.BALANCED_ASSUMPTION,) if balanced else ())


def encoder(d: int, depth: int, *, passes: int = 1, balanced: bool = False, rounds: int | None = None) -> Construction:
    """From raw transitions to Z_0 = [B; Y; g0'], shape (2d + 1, k); `rounds` replaces min(d, L) where k is known.

    Raises:
        BadInput: a size that is not a positive int.
    """
    sizes = _sizes(d, depth, passes, rounds)

    def enter(task: BatchTask, arithmetic: Arithmetic) -> Tokens:
        return encode(task, arithmetic, d, sizes["h"], queries=False)

    def read(tokens: Tokens, arithmetic: Arithmetic) -> Array | None:
        return krylov.read_context(tokens, d, arithmetic)

    built = encoder_program(d, sizes["h"], passes, balanced)
    answer = (("B", d), ("Y", d), ("g0'", 1))
    exact = krylov.exact_context
    return krylov.context_builder(
        THEOREM, sizes, built, enter, read, exact, _assumed(balanced), answer, SOURCE, BATCH_LOGS
    )


def construction(
    d: int, depth: int, *, passes: int = 1, balanced: bool = False, rounds: int | None = None
) -> Construction:
    """From raw transitions to phi_q' w_l at every query and depth l <= L, shape (L + 1, queries).

    Raises:
        BadInput: a size that is not a positive int.
    """
    sizes = _sizes(d, depth, passes, rounds)

    def enter(task: BatchTask, arithmetic: Arithmetic) -> Tokens:
        return encode(task, arithmetic, d, sizes["h"], queries=True)

    def reference(task: BatchTask, arithmetic: Arithmetic) -> Array:
        return td_predictions("td", task.log, [step_matrix(task)] * depth, Fraction(0), arithmetic)

    return Construction(
        theorem=THEOREM,
        sizes=sizes,
        program=program(d, depth, sizes["h"], passes, balanced),
        encode=enter,
        decode=decode,
        reference=reference,
        task_class=BATCH_LOGS,
        assumptions=_assumed(balanced) + executor.ASSUMPTIONS[1:],
        answer=(("prediction at depth", depth + 1),),
        source=SOURCE,
        reads=executor.VALUES,
    )


def decode(steps: Steps, arithmetic: Arithmetic) -> Array:
    """phi_q' w_l after every step of the executor, zero at depth 0; shape (L + 1, queries)."""
    executed = ((label, tokens) for label, tokens in steps if label.startswith("step"))
    return read_predictions(executed, "r", arithmetic)


def step_matrix(task: BatchTask) -> list[list[Fraction]]:
    """a I, the weight with which td.full-context makes the same step on all samples."""
    return [[task.step if i == j else Fraction(0) for j in range(task.n)] for i in range(task.n)]
