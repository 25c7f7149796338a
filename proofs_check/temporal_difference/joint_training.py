"""td.joint-training: the compiled construction as a critical point of the joint loss, and its flat directions, in Q.

At the compiled weights every residual v^_l - v_l is zero, so loss and gradient of 1/2 sum |v^_l - v_l|^2 are zero and
the Hessian is J'J with the Jacobian J of the values, exactly: positive semidefinite, of the rank of J. What is proved
is that rank, and that the directions named span the kernel: all other eigenvalues are positive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flint import fmpq, fmpq_mat

from constructions.construction import Construction
from constructions.exact import RATIONALS
from constructions.program import Program
from constructions.task import Task
from constructions.temporal_difference import executor, joint_training, krylov, learnability
from constructions.temporal_difference.joint_training import ASSUMPTIONS, THEOREM, Weights

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..generic_layer import first_difference
from ..instances import NAMED, InstanceSource, prove_instances
from ..jets import Jets
from ..mutants import Mutant, program_mutants
from . import training_facts
from .free_weights import generic_weight

LARGEST_RECORDED = 30
"""Weights up to which Jacobians have records."""

COMPILED = {"M": 1, "p": 1, "q": 1, "G": 1, "C": -1, "W": 1}
"""Multiples of the identity; p and q have shape (1, 1)."""
CRITICAL = "the Hessian of half a sum of squares is J'J where all residuals are zero"

Direction = tuple[fmpq, ...]


def _size(name: str, n: int) -> int:
    return 1 if name in ("p", "q") else n


def compiled_point(n: int) -> dict[str, int]:
    """All symbols in order, with their values in the compiled construction."""
    return {
        f"{name}_{i}_{j}": value * int(i == j)
        for name, value in COMPILED.items()
        for i in range(_size(name, n))
        for j in range(_size(name, n))
    }


def tangents(n: int) -> list[Direction]:
    """Derivatives by a and b, at (1, 1), of M = aI, p = a/b, q = a, G = bI, C = -I/b, W = I/a."""
    slopes = ({"M": 1, "p": 1, "q": 1, "W": -1}, {"p": -1, "G": 1, "C": 1})
    return [
        tuple(
            fmpq(slope.get(name, 0) * int(i == j))
            for name in COMPILED
            for i in range(_size(name, n))
            for j in range(_size(name, n))
        )
        for slope in slopes
    ]


@dataclass(frozen=True, eq=False)
class Joint:
    """A construction with free weights on tasks, and what is claimed of the Jacobian of its values.

    Attributes:
        point: all symbols in order, with their values.
        rank, kernel: of the Jacobian there; directions that span the kernel.
        values: (construction, index of the task, task, arithmetic) -> v^_0 .. v^_L, shape (L + 1, n).
        groups: what the directions are.
    """

    construction: Construction
    tasks: tuple[Task, ...]
    point: dict[str, Any]
    rank: int
    kernel: tuple[Direction, ...]
    values: Callable[[Construction, int, Task, Jets], Any]
    groups: str

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {size}" for name, size in self.construction.sizes.items())
        return f"{sizes}, {len(self.tasks)} tasks, {len(self.point)} weights"


def shared(n: int, depth: int, tasks: Sequence[Task]) -> Joint:
    """Weights that all tasks share: compile layer and executor, as built."""
    weights = Weights(**{name: generic_weight(name) for name in COMPILED})
    construction = joint_training.construction(n, depth, weights)
    point = compiled_point(n)

    def values(built: Construction, index: int, task: Task, jets: Jets) -> Any:
        return built.outputs(task, jets)

    kernel = tuple(tangents(n))
    return Joint(construction, tuple(tasks), point, len(point) - 2, kernel, values, "2 tangents of the surface (a, b)")


def free_contexts(n: int, depth: int, tasks: Sequence[Task]) -> Joint:
    """A context of its own for every task, and a shared executor."""
    contexts = [krylov.exact_context(task, depth) for task in tasks]
    point: dict[str, Any] = {}
    for name, sign in (("C", -1), ("W", 1)):
        point |= {f"{name}_{i}_{j}": sign * int(i == j) for i in range(n) for j in range(n)}
    for t, context in enumerate(contexts):
        assert context is not None
        point |= {f"Z{t}_{i}_{j}": context[i, j] for i in range(2 * n + 1) for j in range(context.ncols())}
    construction = learnability.construction(n, depth, C=generic_weight("C"), W=generic_weight("W"))

    def values(built: Construction, index: int, task: Task, jets: Jets) -> Any:
        context = contexts[index]
        assert context is not None
        free = generic_weight(f"Z{index}").array(2 * n + 1, context.ncols(), jets)
        steps = built.program.steps(executor.context_tokens(free, n, jets), jets)
        return executor.VALUES.rows(steps, n, jets)

    kernel = tuple(_context_directions(n, list(point), [c for c in contexts if c is not None]))
    dimensions = sum(context.ncols() for context in contexts if context is not None)
    flat = 2 * n * n + n * dimensions
    groups = (
        f"{2 * n * n} of the executor, {n * dimensions} of the contexts (k^2 changes of basis a task, the rest unread)"
    )
    return Joint(construction, tuple(tasks), point, len(point) - flat, kernel, values, groups)


def _context_directions(n: int, names: list[str], contexts: Sequence[fmpq_mat]) -> Iterator[Direction]:
    """Changes of basis, parts of Y that W'Y does not show, and changes of C and W with what B and Y do to follow."""
    places = {name: i for i, name in enumerate(names)}
    zero = fmpq_mat(n, n)

    def direction(C: fmpq_mat, W: fmpq_mat, moved: dict[int, tuple[fmpq_mat, fmpq_mat, fmpq_mat]]) -> Direction:
        out = [fmpq(0)] * len(names)
        for name, change in (("C", C), ("W", W)):
            for i in range(n):
                for j in range(n):
                    out[places[f"{name}_{i}_{j}"]] = change[i, j]
        for t, (B, Y, g) in moved.items():
            block = RATIONALS.stack([[B], [Y], [g.transpose()]])
            for i in range(block.nrows()):
                for j in range(block.ncols()):
                    out[places[f"Z{t}_{i}_{j}"]] = block[i, j]
        return tuple(out)

    def unit(rows: int, columns: int, i: int, j: int) -> fmpq_mat:
        entry = fmpq_mat(rows, columns)
        entry[i, j] = 1
        return entry

    for t, context in enumerate(contexts):
        k = context.ncols()
        B, Y, g = _parts(context, n)
        for i in range(k):
            for j in range(k):
                T = unit(k, k, i, j)
                yield direction(zero, zero, {t: (B * T, B * T - (Y - B) * T.transpose(), -(T * g))})
        # Columns e_i - B (B'B)^{-1} B' e_i span the complement of range B; n - k of them do.
        gram = (B.transpose() * B).inv()
        hidden = RATIONALS.one_hot(range(n), n) - B * gram * B.transpose()
        chosen: list[fmpq_mat] = []
        for i in range(n):
            column = RATIONALS.columns(hidden, i, i + 1)
            if RATIONALS.stack([[*chosen, column]]).rank() == len(chosen) + 1:
                chosen.append(column)
        for column in chosen:
            for j in range(k):
                yield direction(zero, zero, {t: (fmpq_mat(n, k), column * unit(1, k, 0, j), fmpq_mat(k, 1))})
    for name in ("C", "W"):
        for i in range(n):
            for j in range(n):
                change = unit(n, n, i, j)
                C, W = (change, zero) if name == "C" else (zero, change)
                moved = {}
                for t, context in enumerate(contexts):
                    B, Y, g = _parts(context, n)
                    # -C'B stays: dB = dC'B. B'(C B + W'Y) stays: B'dY = -dB'(Y - B) - B'(dC B - dB + dW'Y).
                    dB = C.transpose() * B
                    rest = dB.transpose() * (Y - B) + B.transpose() * (C * B - dB + W.transpose() * Y)
                    dY = -(B * (B.transpose() * B).inv() * rest)
                    moved[t] = (dB, dY, g * 0)
                yield direction(C, W, moved)


def _parts(context: fmpq_mat, n: int) -> tuple[fmpq_mat, fmpq_mat, fmpq_mat]:
    """B, Y, g0 of a context."""
    cuts = (0, n), (n, 2 * n), (2 * n, 2 * n + 1)
    B, Y, g = (RATIONALS.rows(context, *cut) for cut in cuts)
    return B, Y, g.transpose()


def prove_flat(subject: Sequence[Joint]) -> Finding:
    """Residuals zero, rank of Jacobian and Hessian, and the kernel spanned by the directions, all in Q."""
    found, records = [], []
    for one in subject:
        where: dict[str, Any] = {"sizes": dict(one.construction.sizes), "tasks": [task.name for task in one.tasks]}
        jets, rows = Jets(one.point), []
        for index, task in enumerate(one.tasks):
            outputs = one.values(one.construction, index, task, jets)
            built = fmpq_mat(*outputs.shape, [x.value for x in outputs.ravel()])
            exact = executor.td_values(task, one.construction.sizes["L"], RATIONALS)
            place = first_difference(built, exact)
            if place is not None:
                i, j = place
                shape = (built.nrows(), built.ncols())
                text = rational(built[i, j]) if i < shape[0] and j < shape[1] else f"shape {shape}"
                return Finding(
                    Verdict.REFUTED,
                    {**where, "block": "residual", "task": task.name, "row": i, "column": j, "found": text},
                )
            rows.append(jets.jacobian(outputs))
        J = RATIONALS.stack([[block] for block in rows])
        weights, flat = len(one.point), len(one.point) - one.rank
        hessian = J.transpose() * J
        ranks = J.rank(), hessian.rank()
        if ranks != (one.rank, one.rank):
            text = f"ranks {ranks} of Jacobian and Hessian"
            return Finding(
                Verdict.REFUTED, {**where, "block": "Hessian", "found": text, "expected": f"rank {one.rank}"}
            )
        kernel = fmpq_mat(weights, len(one.kernel), [x for line in zip(*one.kernel, strict=True) for x in line])
        if any(x != 0 for x in (J * kernel).entries()):
            return Finding(Verdict.REFUTED, {**where, "block": "kernel", "failure": "a direction named is not flat"})
        if kernel.rank() != flat:
            counted = {"found": f"{kernel.rank()} independent directions", "expected": f"{flat}"}
            return Finding(Verdict.REFUTED, {**where, "block": "kernel", **counted})
        found.append({**where, "weights": weights, "positive": one.rank, "flat": flat, "which": one.groups})
        if weights <= LARGEST_RECORDED:
            records.append(training_facts.flat(J, one.rank, one.kernel, str(one)))
    return Finding(Verdict.PROVED, {"critical points": found}, tuple(records))


def joint_mutants(subject: Sequence[Joint]) -> Iterator[Mutant]:
    """The first subject with another rank, a direction left out or bent, and the changes of its program."""
    one = subject[0]
    for change in (-1, 1):
        yield Mutant("entry", f"rank {change:+d}", [replace(one, rank=one.rank + change)])
    for i in (0, len(one.kernel) - 1):
        kept = one.kernel[:i] + one.kernel[i + 1 :]
        yield Mutant("entry", f"direction {i + 1} left out", [replace(one, kernel=kept)])
        bent = (one.kernel[i][0] + 1, *one.kernel[i][1:])
        yield Mutant("entry", f"direction {i + 1} bent", [replace(one, kernel=(*kept, bent))])
    program: Program = one.construction.program
    for mutant in program_mutants(program):
        changed = replace(one.construction, program=mutant.subject)
        yield replace(mutant, subject=[replace(one, construction=changed)])


Joints = Callable[[], Sequence[Joint]]


def claims(weights: Joints, contexts: Joints, surface: InstanceSource) -> list[Claim]:
    """The claims of td.joint-training."""
    return [
        Claim(
            THEOREM,
            "critical-point",
            "with the compile layer's and the executor's weights free, 4n^2 + 2 in all, the compiled construction has"
            " zero loss and gradient, and a Hessian with exactly two zero eigenvalues, the tangents of the surface"
            " (a, b); all others are positive",
            "the samples named in the evidence, trajectory loss over all states and depths l <= L",
            Assurance.EXACT,
            (*ASSUMPTIONS, CRITICAL),
            weights,
            prove_flat,
            mutants=joint_mutants,
        ),
        Claim(
            THEOREM,
            "free-contexts",
            "with a context of its own for each task and C, W free, the flat directions are 2n^2 + nk a task: changes"
            " of basis in GL_k, what W'Y does not show, and every change of C and W",
            "the samples named in the evidence, L > k",
            Assurance.EXACT,
            (*ASSUMPTIONS, CRITICAL),
            contexts,
            prove_flat,
            mutants=joint_mutants,
        ),
        Claim(
            THEOREM,
            "surface",
            "with M = aI, p = a/b, q = a, G = bI, C = -I/b, W = I/a the values are exact as well",
            f"{NAMED}, a and b in the evidence",
            Assurance.EXACT,
            ASSUMPTIONS,
            surface,
            prove_instances,
        ),
    ]
