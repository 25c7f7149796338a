"""td.identifiability: what trajectories and end points determine, for all sizes and by ranks in Q (Prop 4.6)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sympy as sp
from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.layers import Public
from constructions.program import Program
from constructions.symbols import Polynomials
from constructions.task import Task
from constructions.temporal_difference import executor, learnability
from constructions.temporal_difference.identifiability import ASSUMPTIONS, THEOREM
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..generic_layer import Point, first_difference, prove_layers, prove_words, random_matrix
from ..mutants import Mutant, program_mutants
from ..words import identity, letter, normal_form, rule
from . import training_facts
from .executor import only_step
from .free_weights import Sample, jacobian, kronecker, moment, trajectories, weights_at

N = sp.symbols("n", integer=True, positive=True)
MOMENTS = "E[r r'] > 0 and E[(r r') (x) (A'A)] > 0 over the tasks; the second implies the first"
SQUARES = "E|X r|^2 = tr(X E[rr'] X') and E|A V r|^2 = vec(V)' E[(rr') (x) (A'A)] vec(V), so a positive moment leaves 0"


DEEPEST_RECORDED, DEEPEST_JACOBIAN = 8, 3
"""Depths up to which end points and Jacobians have records."""


def symbolic_program(depth: int) -> Program:
    """`depth` steps with n, C and W as symbols."""
    return learnability.free_program(N, depth, Public("C"), Public("W"))


def _sample(rng: random.Random) -> Point:
    n = rng.choice([2, 3])
    values = {name: random_matrix(rng, n, n) for name in ("A", "X", "V")} | {"r": random_matrix(rng, n, 1)}
    unit = RATIONALS.one_hot(range(n), n)
    values |= {"C": values["X"].transpose() - unit, "W": unit + values["V"]}
    return values, {N: n}


def prove_differences(depth: int, program: Program) -> Finding:
    """v^_1 - v_1 = -X r (depth 1); with X = 0, v^_2 - v_2 = A V r (depth 2): exact, not only to first order."""
    A, X, V, one = letter("A", N, N), letter("X", N, N), letter("V", N, N), identity(N)
    r = letter("r", N, 1)
    weights = rule(letter("C", N, N), X.T - one) + rule(letter("W", N, N), one + V)
    F = A + X + A @ V
    states = [r]
    for _ in range(depth):
        states.append(F @ states[-1])
    summed = sum(states[1:depth], r)
    values = summed - X @ summed
    kept = {("source", "x"): one, ("source", "y"): A.T, ("query", "x"): one}
    tokens = Tokens({"source": N, "query": N}, {**kept, ("source", "r"): r.T})
    expected = {**kept, ("source", "r"): states[depth].T, ("query", "r"): -values.T}
    layer = only_step(program)
    if layer is None or program.attention_layers != depth:
        failure = f"expected one attention layer, run {depth} times"
        return Finding(Verdict.REFUTED, {"block": program.name, "failure": failure})
    built = prove_layers([layer] * depth, program.layout, tokens, expected, weights, _sample)
    exact = r if depth == 1 else r + A @ r
    given = [] if depth == 1 else rule(X, identity(N) - identity(N))
    claimed = -(X @ r) if depth == 1 else A @ V @ r
    wording = "v^_1 - v_1 = -X r" if depth == 1 else "v^_2 - v_2 = A V r where X = 0"
    difference = normal_form(values - exact, given)
    return Finding.all_of({"values": built, "difference": prove_words({wording: (difference, claimed)}, [])})


def trajectory_formula(chosen: Sample) -> fmpq_mat:
    """The Jacobian at (-I, I) by its recursion: dv_l = dS_l - X v_l, dS_{l+1} = (X + A V) v_l + A dS_l."""
    n = chosen.n
    rows: list[list[fmpq]] = []
    for task in chosen.tasks:
        columns = []
        for place in range(2 * n * n):
            # C_ij is entry (j, i) of X = C' + I; W_ij is entry (i, j) of V.
            i, j = divmod(place % (n * n), n)
            unit = fmpq_mat(n, n)
            if place < n * n:
                unit[j, i] = 1
            else:
                unit[i, j] = 1
            X, move = (unit, unit) if place < n * n else (fmpq_mat(n, n), task.A * unit)
            v, dS = fmpq_mat(n, 1), fmpq_mat(n, 1)
            column: list[fmpq] = []
            for _ in range(chosen.depth):
                dS = move * v + task.A * dS
                v = task.r + task.A * v
                column += (dS - X * v).entries()
            columns.append(column)
        rows += [list(line) for line in zip(*columns, strict=True)]
    return fmpq_mat(len(rows), 2 * n * n, [x for row in rows for x in row])


def second_moment(tasks: Sequence[Task]) -> fmpq_mat:
    """E[(rr') (x) (A'A)], shape (n^2, n^2)."""
    return moment(tasks, lambda t: kronecker(t.r * t.r.transpose(), t.A.transpose() * t.A))


@dataclass(frozen=True, eq=False)
class Ranked:
    """A sample, the rank claimed of its Jacobian, and directions (weights by `ring`) claimed to be its kernel."""

    sample: Sample
    rank: int
    kernel: tuple[tuple[int, ...], ...] = ()
    why: str = ""

    def __str__(self) -> str:
        return f"{self.sample}, rank {self.rank}"


def prove_ranks(subject: Sequence[Ranked]) -> Finding:
    """At (-I, I): the values are TD's, the Jacobian of the built program is its recursion's, its rank and kernel."""
    found, records = [], []
    for one in subject:
        chosen, n = one.sample, one.sample.n
        point, outputs = weights_at(n, -1, 1), trajectories(one.sample)
        values = [fmpq(x(*point)) for x in outputs]
        exact = [
            x
            for task in chosen.tasks
            for x in RATIONALS.rows(executor.td_values(task, chosen.depth, RATIONALS), 1, chosen.depth + 1).entries()
        ]
        wrong = [i for i, (a, b) in enumerate(zip(values, exact, strict=False)) if a != b]
        if wrong or len(values) != len(exact):
            i = wrong[0] if wrong else min(len(values), len(exact))
            text = {"found": rational(values[i]) if i < len(values) else "nothing"}
            text["expected"] = rational(exact[i]) if i < len(exact) else "nothing"
            return Finding(Verdict.REFUTED, {**chosen.names, "block": "values at (-I, I)", "row": i, **text})
        built, formula = jacobian(outputs, point), trajectory_formula(chosen)
        place = first_difference(built, formula)
        if place is not None:
            i, j = place
            text = {"found": rational(built[i, j]), "expected": rational(formula[i, j])}
            return Finding(Verdict.REFUTED, {**chosen.names, "block": "Jacobian", "row": i, "column": j, **text})
        rank = built.rank()
        if rank != one.rank:
            text = {"found": f"rank {rank}", "expected": f"rank {one.rank} of {2 * n * n}"}
            return Finding(Verdict.REFUTED, {**chosen.names, "block": "Jacobian", **text})
        kernel = fmpq_mat(2 * n * n, len(one.kernel), [x for line in zip(*one.kernel, strict=True) for x in line])
        spans = not one.kernel or (
            kernel.rank() == 2 * n * n - rank and not any(x != 0 for x in (built * kernel).entries())
        )
        if one.kernel and not spans:
            return Finding(
                Verdict.REFUTED, {**chosen.names, "block": "kernel", "failure": "the directions do not span it"}
            )
        moments = [moment(chosen.tasks, lambda t: t.r * t.r.transpose()).rank(), second_moment(chosen.tasks).rank()]
        ranks = {"rank": rank, "of": 2 * n * n, "rank E[rr']": moments[0], "rank E[rr' (x) A'A]": moments[1]}
        if chosen.depth == 2 and moments[0] == n and rank != n * n + moments[1]:
            failure = "at L = 2 the rank is n^2 + rank of the moment"
            return Finding(Verdict.REFUTED, {**chosen.names, **ranks, "failure": failure})
        found.append({**chosen.names, **ranks, **({"kernel": len(one.kernel), "why": one.why} if one.kernel else {})})
        if chosen.depth <= DEEPEST_JACOBIAN:
            records.append(training_facts.jacobian(chosen.tasks, chosen.depth, built, rank, one.kernel, str(one)))
    return Finding(Verdict.PROVED, {"samples": found}, tuple(records))


def ranked_mutants(subject: Sequence[Ranked]) -> Iterator[Mutant]:
    """The changes of the last sample's program; another rank; a kernel direction left out or bent."""
    for mutant in program_mutants(subject[-1].sample.program):
        changed = replace(subject[-1].sample, program=mutant.subject)
        yield replace(mutant, subject=[replace(subject[-1], sample=changed)])
    for i, one in enumerate(subject):
        for change in (-1, 1):
            yield Mutant("entry", f"sample {i + 1}: rank {change:+d}", [replace(one, rank=one.rank + change)])
        if one.kernel:
            yield Mutant(
                "entry",
                f"sample {i + 1}: first direction left out",
                [replace(one, kernel=one.kernel[1:] or ((0,) * len(one.kernel[0]),))],
            )
            bent = (1 - one.kernel[0][0], *one.kernel[0][1:])
            yield Mutant(
                "entry", f"sample {i + 1}: first direction bent", [replace(one, kernel=(bent, *one.kernel[1:]))]
            )


def direction(
    n: int, X: Sequence[Sequence[int]] | None = None, V: Sequence[Sequence[int]] | None = None
) -> tuple[int, ...]:
    """A direction in the order of the symbols: C_ij = X_ji, W_ij = V_ij."""
    zero = [[0] * n for _ in range(n)]
    X, V = X or zero, V or zero
    return tuple([X[j][i] for i in range(n) for j in range(n)] + [V[i][j] for i in range(n) for j in range(n)])


def outer(n: int, left: Sequence[int], right: Sequence[int]) -> list[list[int]]:
    """left right'."""
    return [[left[i] * right[j] for j in range(n)] for i in range(n)]


def unit(n: int, i: int) -> list[int]:
    """e_i."""
    return [int(i == j) for j in range(n)]


def one_step_kernel(n: int) -> tuple[tuple[int, ...], ...]:
    """L = 1: every direction of W."""
    return tuple(direction(n, V=outer(n, unit(n, i), unit(n, j))) for i in range(n) for j in range(n))


def constant_reward_kernel(n: int) -> tuple[tuple[int, ...], ...]:
    """r = c 1 and P 1 = 1: all iterates are multiples of 1, so X and V with X 1 = V 1 = 0 are not seen."""
    rows = [
        outer(n, unit(n, i), [int(j == m) - int(j == n - 1) for j in range(n)]) for i in range(n) for m in range(n - 1)
    ]
    return tuple([direction(n, X=row) for row in rows] + [direction(n, V=row) for row in rows])


def dead_state_kernel(n: int, dead: int) -> tuple[tuple[int, ...], ...]:
    """No task ever moves into one state, so A e = 0 for its unit vector: V = e z' is not seen, whatever L is."""
    return tuple(direction(n, V=outer(n, unit(n, dead), unit(n, j))) for j in range(n))


def prove_null_direction() -> Finding:
    """The family (-aI, aI) for all n and a: one fixed point; and the derivative at depth L, by induction.

    With aI a letter that commutes with A: z = r + F z, F = I - aI + aI A, gives aI (I - A) z = r, and v = aI z, the
    value read, solves (I - A) v = r as for a = 1. Derivative at a = 1, d_l = dS_l/da: F' = A - I and S_l = v_l, so
    d_{l+1} = (A - I) v_l + A d_l. With p = l A^{l-1} r and q = A^l r the claim is d_l = p - v_l; as v_{l+1} = v_l + q
    and (l + 1) A^l r = A p + q it passes from l to l + 1, and the value's derivative v_l + d_l is p = l A^{l-1} r.
    """
    A, a, z, r, one = (
        letter("A", N, N),
        letter("aI", N, N, symmetric=True),
        letter("z", N, 1),
        letter("r", N, 1),
        identity(N),
    )
    v, p, q = letter("v_l", N, 1), letter("l A^(l-1) r", N, 1), letter("A^l r", N, 1)
    fixed = rule(a @ A @ z, a @ z - r)
    commute = [rule(A @ a, a @ A)[0]]
    F = one - a + a @ A
    d = p - v
    return Finding.all_of(
        {
            "fixed point": prove_words(
                {"r + F z = z": (r + F @ z, z), "(I - A) aI z = r": (a @ z - A @ a @ z, r)}, commute + fixed
            ),
            "base": prove_words({"d_1 = 1 A^0 r - v_1": (r - r, letter("r", N, 1) - r)}, []),
            "step": prove_words(
                {"d_{l+1} = (l + 1) A^l r - v_{l+1}": ((A - one) @ v + A @ d, (A @ p + q) - (v + q))}, []
            ),
            "value": prove_words({"v_l + d_l = l A^(l-1) r": (v + d, p)}, []),
        }
    )


@dataclass(frozen=True, eq=False)
class EndPoint:
    """A task and a program of `depth` steps with weights (-aI, aI), a the symbol of a polynomial ring."""

    task: Task
    depth: int
    program: Program

    def __str__(self) -> str:
        return f"{self.task.name}, L = {self.depth}"


def end_point(task: Task, depth: int) -> EndPoint:
    """With the program as built."""
    a = sp.Symbol("a")

    def weight(name: str, factor: Any) -> Public:
        return Public(name, lambda rows, cols: [[factor if i == j else 0 for j in range(cols)] for i in range(rows)])

    return EndPoint(task, depth, learnability.free_program(task.n, depth, weight("C", -a), weight("W", a)))


def prove_end_points(subject: Sequence[EndPoint]) -> Finding:
    """v^_L(a) = (I - (I - a (I - A))^L) (I - A)^{-1} r as a polynomial in a; derivative L A^{L-1} r at a = 1."""
    ring = Polynomials(["a"], rational=True)
    found = []
    for one in subject:
        n, A, r = one.task.n, one.task.A, one.task.r
        eye = RATIONALS.one_hot(range(n), n)
        tokens = learnability.state_tokens(ring.matrix(A.tolist()), ring.matrix(r.tolist()), ring)
        built = executor.VALUES.rows(one.program.steps(tokens, ring), n, ring)[-1].ravel()
        limit = ring.matrix((eye - A).solve(r).tolist())
        a = ring.matrix([[sp.Symbol("a")] * n] * n)
        F = ring.matrix(eye.tolist()) - ring.hadamard(ring.matrix((eye - A).tolist()), a)
        rest = limit
        for _ in range(one.depth):
            rest = F @ rest
        power = r
        for _ in range(one.depth - 1):
            power = A * power
        for state in range(n):
            where = {"task": one.task.name, "L": one.depth, "block": "v^_L", "column": state}
            if built[state] != limit[state, 0] - rest[state, 0]:
                return Finding(
                    Verdict.REFUTED, {**where, "failure": "not the polynomial (I - F^L) (I - A)^{-1} r in a"}
                )
            slope, claimed = fmpq(built[state].derivative(0)(1)), one.depth * power[state, 0]
            if slope != claimed:
                text = {"found": rational(slope), "expected": rational(claimed)}
                return Finding(Verdict.REFUTED, {**where, "failure": "derivative at a = 1", **text})
        largest = max(abs(x) for x in power.entries()) * one.depth
        found.append({"task": one.task.name, "L": one.depth, "|L A^(L-1) r|_inf": f"{float(largest):.3e}"})
    records = tuple(training_facts.end_point(x.task, x.depth) for x in subject if x.depth <= DEEPEST_RECORDED)
    return Finding(Verdict.PROVED, {"end points": found}, records)


def end_point_mutants(subject: Sequence[EndPoint]) -> Iterator[Mutant]:
    """The changes of the program of the third depth."""
    chosen = subject[min(2, len(subject) - 1)]
    for mutant in program_mutants(chosen.program):
        yield replace(mutant, subject=[replace(chosen, program=mutant.subject)])


Ranks = Callable[[], Sequence[Ranked]]


def claims(full: Ranks, one_step: Ranks, dropped: Ranks, ends: Callable[[], Sequence[EndPoint]]) -> list[Claim]:
    """The claims of td.identifiability: samples of full rank, of one step, with a condition dropped; end points."""
    differences = [
        Claim(
            THEOREM,
            f"depth-{depth}",
            statement,
            "all n, tasks, C and W",
            Assurance.INDUCTIVE,
            (*ASSUMPTIONS, MOMENTS, SQUARES),
            partial(symbolic_program, depth),
            partial(prove_differences, depth),
        )
        for depth, statement in (
            (1, "v^_1 - v_1 = -X r, so exact values at depth 1 on all tasks mean X = C' + I = 0"),
            (2, "where X = 0, v^_2 - v_2 = A V r, so exact values at depth 2 on all tasks mean V = W - I = 0"),
        )
    ]
    ranks = partial(
        Claim,
        THEOREM,
        scope="the samples named in the evidence",
        assurance=Assurance.EXACT,
        assumptions=ASSUMPTIONS,
        prove=prove_ranks,
        mutants=ranked_mutants,
    )
    return [
        *differences,
        ranks(
            name="jacobian",
            statement="for L >= 2 the Jacobian of the trajectories at (-I, I) has full column rank 2n^2, and at L = 2"
            " its rank is n^2 + rank E[(rr') (x) (A'A)] where E[rr'] > 0",
            build=full,
        ),
        ranks(
            name="one-step",
            statement="for L = 1 the rank is n^2, and the kernel is every direction of W",
            build=one_step,
        ),
        ranks(
            name="conditions",
            statement="each moment condition is needed: constant rewards (E[rr'] singular) and a state that no task"
            " enters (E[(rr') (x) (A'A)] singular) leave the kernels shown at every L tried",
            build=dropped,
        ),
        Claim(
            THEOREM,
            "null-direction",
            "(-aI, aI) has the same fixed point for every a, so (-I, I) is a null direction of the converged loss; the"
            " derivative of the depth-L values along it is L A^{L-1} r",
            "all n, L and tasks",
            Assurance.INDUCTIVE,
            ("I - A is invertible and a > 0",),
            tuple,
            lambda _: prove_null_direction(),
        ),
        Claim(
            THEOREM,
            "end-point",
            "the built program of depth L with weights (-aI, aI) reads (I - (I - a(I - A))^L)(I - A)^{-1} r, with"
            " derivative L A^{L-1} r at a = 1, at most L g^{L-1} |r|_inf",
            "the tasks and depths named in the evidence, every a",
            Assurance.EXACT,
            ASSUMPTIONS,
            ends,
            prove_end_points,
            mutants=end_point_mutants,
        ),
    ]
