"""td.policy-class: one decoder for every policy of a set (this project's; theory A10, first step towards control).

A set of policies on the same n states gives tasks (A_p, r_p). A context serves the set if one decoder D of shape (n,
m) and states s_{p,j} of its own for every policy give all iterates, v^p_l = D sum_{j<l} s_{p,j} for l <= L. That is
possible if and only if range D contains the sum of the Krylov spaces K_L(A_p, r_p):

* necessary: A_p^j r_p = v^p_{j+1} - v^p_j is a difference of two outputs, for every j < L and p;
* sufficient: let W'D = I and let D W' fix the sum. With H_p = W'A_p D and g_p = W'r_p,

      D H_p^j g_p = A_p^j r_p  for j < L:
      D H_p (H_p^j g_p) = D W'A_p A_p^j r_p = D W'(A_p^{j+1} r_p) = A_p^{j+1} r_p .

  Only vectors of the sum are asked for, so range D need not be invariant under A_p. (K_L(A_p, r_p) is invariant under
  its own A_p once L >= its dimension; the sum of two such spaces in general is not, whatever L.)

The decoder built here is the reduced echelon basis of the sum. W selects m states, the landmarks: the values of any
policy of the set at the landmarks give its values everywhere, by the same D.

    kept once        x = d_i', the rows of D'                     n m registers
    kept a policy    u_p = row i of H_p - I, r_p = g_p            m^2 + m registers
    public           t = e_i, the places of the tokens

A step is that of td.executor with the scores <x, y - x> = (H - I)_ij held as <t_j, u_i>: two heads a policy, all
policies in the same layer. s_p becomes H_p s_p and c_p becomes c_p - e_q'D s_p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flint import fmpq_mat

from ..arithmetic import Arithmetic, Array
from ..construction import Construction, Steps
from ..errors import BadInput
from ..exact import RATIONALS
from ..layers import Head, LinearAttention, Repeat, full
from ..layout import Layout, Size
from ..program import Program
from ..task import Task, TaskClass
from ..tokens import Tokens
from . import dimension
from .executor import td_values
from .krylov import check_build

THEOREM = "td.policy-class"
SOURCE = "this project; control is open in the source (theory A10)"
ASSUMPTIONS = (
    "routes depend on token kinds and public indices only",
    "places of the tokens kept are public",
    "the context is computed from A_p and r_p of every policy of the set, not by attention",
)


@dataclass(frozen=True)
class PolicyClass:
    """The tasks of several policies on the same states, with one discount.

    Raises:
        BadInput: no task, or tasks with different numbers of states or discounts.
    """

    tasks: tuple[Task, ...]
    name: str

    def __post_init__(self) -> None:
        if not self.tasks:
            raise BadInput(f"{self.name}: expected at least one policy, found none")
        for what in ("n", "discount"):
            found = sorted({getattr(task, what) for task in self.tasks})
            if len(found) > 1:
                raise BadInput(f"{self.name}: expected one {what} for all policies, found {found[0]} and {found[1]}")

    @property
    def n(self) -> int:
        """Number of states."""
        return self.tasks[0].n

    @property
    def size(self) -> tuple[int, ...]:
        """(n, number of policies)."""
        return self.n, len(self.tasks)

    def describe(self) -> dict[str, Any]:
        """The task of every policy."""
        return {task.name: task.describe() for task in self.tasks}


POLICY_CLASS = TaskClass(
    "policy class", "policies on the same states with one discount; full coverage", lambda policies: None
)


@dataclass(frozen=True, eq=False)
class SharedContext:
    """What serves a policy class.

    Attributes:
        decoder: D in reduced echelon form, shape (n, m), so D at the landmarks is the identity.
        landmarks: the m states that W selects.
        steps: H_p, shape (m, m), for each policy.
        starts: g_p, shape (m, 1), for each policy.
    """

    decoder: fmpq_mat
    landmarks: tuple[int, ...]
    steps: tuple[fmpq_mat, ...]
    starts: tuple[fmpq_mat, ...]


def krylov_sum(policies: PolicyClass, depth: int) -> fmpq_mat:
    """All A_p^j r_p, j < min(n, L), as columns, policy after policy; they span the sum of the K_L(A_p, r_p)."""
    columns = []
    for task in policies.tasks:
        power = task.r
        for _ in range(min(task.n, depth)):
            columns.append(power)
            power = task.A * power
    return RATIONALS.stack([columns])


def shared_context(policies: PolicyClass, depth: int) -> SharedContext | None:
    """D, H_p and g_p in Q from the definition; None where every reward is zero."""
    reduced, m = krylov_sum(policies, depth).transpose().rref()
    if m == 0:
        return None
    D = RATIONALS.rows(reduced, 0, m).transpose()
    landmarks = tuple(next(i for i in range(policies.n) if D[i, j] != 0) for j in range(m))
    steps = tuple(_at(task.A * D, landmarks) for task in policies.tasks)
    return SharedContext(D, landmarks, steps, tuple(_at(task.r, landmarks) for task in policies.tasks))


def _at(matrix: fmpq_mat, landmarks: Sequence[int]) -> fmpq_mat:
    """The rows of the landmarks."""
    width = matrix.ncols()
    return fmpq_mat(len(landmarks), width, [matrix[i, j] for i in landmarks for j in range(width)])


def sum_dimension(policies: PolicyClass, depth: int) -> int:
    """m, the dimension of the sum of the Krylov spaces, in Q."""
    return krylov_sum(policies, depth).rank()


def names(policies: int, letter: str) -> list[str]:
    """The fields of the policies: u1, u2, .. or r1, r2, .."""
    return [f"{letter}{p + 1}" for p in range(policies)]


def executor_program(n: Size, m: Size, policies: int, depth: Size) -> Program:
    """`depth` steps for all policies at once, width n + m + policies (m + 1); n, m and depth may be symbols."""
    among, asked = (full("source", "source"),), (full("source", "query"),)
    heads = []
    for u, r in zip(names(policies, "u"), names(policies, "r"), strict=True):
        heads += [Head(r, "t", u, r, among), Head(r, "x", "x", r, asked, sign=-1)]
    widths = {"x": n, "t": m} | dict.fromkeys(names(policies, "u"), m) | dict.fromkeys(names(policies, "r"), 1)
    step = LinearAttention(tuple(heads), "step")
    return Program(
        f"executor for {policies} policies", Layout(**widths), ("source", "query"), (Repeat((step,), depth),)
    )


def context_tokens(context: SharedContext, arithmetic: Arithmetic) -> Tokens:
    """m sources that hold a context, each entry rounded once, and one query a state."""
    n, m = context.decoder.nrows(), context.decoder.ncols()
    fields = {"x": arithmetic.matrix(context.decoder.tolist()), "t": arithmetic.one_hot(range(m), m)}
    identity = RATIONALS.one_hot(range(m), m)
    count = len(context.steps)
    for u, r, H, g in zip(names(count, "u"), names(count, "r"), context.steps, context.starts, strict=True):
        fields[u] = arithmetic.matrix((H - identity).transpose().tolist())
        fields[r] = arithmetic.matrix(g.transpose().tolist())
    return Tokens({}, {}).with_kind("source", m, **fields).with_kind("query", n, x=arithmetic.one_hot(range(n), n))


def registers(tokens: Tokens, arithmetic: Arithmetic) -> tuple[int, int]:
    """Array entries of the sources: those of D, and those of the policies; places are public."""
    counted = {"x": 0, "policy": 0}
    for (kind, field), block in tokens.blocks.items():
        if kind == "source" and field != "t":
            rows, columns = arithmetic.shape(block)
            counted["x" if field == "x" else "policy"] += rows * columns
    return counted["x"], counted["policy"]


def construction(policies: PolicyClass, depth: int) -> Construction:
    """The executor on the exact context of a class; it answers v^p_0 .. v^p_L for p = 1, 2, .., shape (p (L + 1), n).

    Built for the sizes of the class: another one may have other rewards and transitions, but the same n, m and number.

    Raises:
        BadInput: a depth that is not a positive int, or a class whose rewards are all zero.
    """
    check_build(THEOREM, policies.n, depth, 1, 1)
    n, count, m = policies.n, len(policies.tasks), sum_dimension(policies, depth)
    if m == 0:
        raise BadInput(f"{policies.name}: expected a reward that is not zero, found none (every iterate is zero)")

    def encode(given: PolicyClass, arithmetic: Arithmetic) -> Tokens:
        context = shared_context(given, depth)
        found = None if context is None else (given.n, len(given.tasks), context.decoder.ncols())
        if context is None or found != (n, count, m):
            raise BadInput(f"{given.name}: expected (n, policies, m) = {(n, count, m)}, found {found}")
        return context_tokens(context, arithmetic)

    def decode(steps: Steps, arithmetic: Arithmetic) -> Array:
        rows: list[list[Array]] = [[arithmetic.matrix([[0] * n])] for _ in range(count)]
        for _, tokens in steps:
            for own, field in zip(rows, names(count, "r"), strict=True):
                own.append(arithmetic.negate(tokens.read("query", field, 1, arithmetic)))
        return arithmetic.stack([[row] for own in rows for row in own])

    def reference(given: PolicyClass, arithmetic: Arithmetic) -> Array:
        return arithmetic.stack([[td_values(task, depth, arithmetic)] for task in given.tasks])

    return Construction(
        theorem=THEOREM,
        sizes={"n": n, "L": depth, "m": m, "policies": count},
        program=executor_program(n, m, count, depth),
        encode=encode,
        decode=decode,
        reference=reference,
        task_class=POLICY_CLASS,
        assumptions=ASSUMPTIONS,
        answer=tuple((f"policy {p + 1}, v at depth", depth + 1) for p in range(count)),
        source=SOURCE,
    )


@dataclass(frozen=True, eq=False)
class Proposal:
    """One linear decoder proposed for all policies of a class: shape (n, m), independent columns."""

    policies: PolicyClass
    depth: int
    decoder: fmpq_mat

    @property
    def parts(self) -> list[dimension.Proposal]:
        """The same decoder proposed for each policy.

        Raises:
            BadInput: another number of rows than states, no column, or dependent columns.
        """
        return [dimension.Proposal(task, self.depth, self.decoder) for task in self.policies.tasks]


def landmark_decoder(policies: PolicyClass, depth: int, m: int) -> fmpq_mat | None:
    """The first m columns of D, shape (n, m); None where it has fewer, or m < 1."""
    context = shared_context(policies, depth)
    if context is None or not 1 <= m <= context.decoder.ncols():
        return None
    return RATIONALS.columns(context.decoder, 0, m)
