"""What the records say of decoders: one that serves has the span, one that is too small misses a value by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flint import fmpq_mat

from constructions.construction import Reading
from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.temporal_difference import dimension
from constructions.temporal_difference.policy_class import PolicyClass, names
from constructions.tokens import Tokens

from ..facts import Facts, Stated, Term, values
from ..instances import Instance
from ..records import Record, run_record


def _task(f: Facts, task: Task, p: int | str = "") -> tuple[Term, Term]:
    return f.value(f"A{p}", task.A), f.value(f"r{p}", task.r)


def missed(proposal: dimension.Proposal, part: str) -> Record:
    """A row z with z D = 0 and z v_l != 0: no combination of the columns of D is v_l.

    Raises:
        StopIteration: the decoder misses nothing.
    """
    f, residuals = Facts(), proposal.residuals()
    l = next(l for l in range(residuals.nrows()) if any(residuals[l, i] != 0 for i in range(residuals.ncols())))
    D, (A, r) = f.value("D", proposal.decoder), _task(f, proposal.task)
    z = f.value("z", RATIONALS.rows(residuals, l, l + 1))
    v = values(f, A, r, l)
    f.equal("z D = 0", z @ D, f.fill(0, 1, proposal.dimension))
    f.relate(f"z v_{l} != 0", z @ v[l:, :].T, "!=", f.fill(0, 1, 1))
    return f.record(part)


def served(instance: Instance) -> list[Record]:
    """One run for each policy, read from its own field, against v+ = r + A v of its own."""
    policies, built = instance.task, instance.construction
    assert isinstance(policies, PolicyClass)
    runs = []
    for p, task in enumerate(policies.tasks):
        reads = Reading("step", "query", names(p + 1, "r")[p], sign=-1)
        alone = replace(built, reads=reads, decode=partial(_read, reads, policies.n))
        record = run_record(alone, policies, partial(_values, task))
        runs += [] if record is None else [{**record, "part": f"{policies.name}, policy {p + 1}"}]
    return runs


def _read(reads: Reading, n: int, steps: Any, arithmetic: Any) -> Any:
    return reads.rows(steps, n, arithmetic)


def _values(task: Task, a: Any, before: Tokens, _: Tokens, answer: Any) -> Facts:
    f, E = Facts(a), before.blocks["query", "x"]
    found = f.named("answer", answer)
    f.equal("v_l", found, values(f, *_task(f, task), found.shape[0] - 1) @ f.named("query.x", E))
    return f


def _krylov(f: Facts, task: Task, depth: int, p: int) -> Term:
    """[r, A r, .., A^{depth - 1} r] as a recorded matrix."""
    A, r = _task(f, task, p)
    P = f.value(f"P{p}", _powers(task, depth))
    f.equal(f"P{p} begins", P[:, :1], r)
    if depth > 1:
        f.equal(f"P{p} goes on", P[:, 1:], A @ P[:, :-1])
    return P


def spanned(policies: PolicyClass, depth: int) -> Stated:
    """The sources hold D with W'D = I; range D is the sum of the K_L(A_p, r_p), so that as many tokens are needed."""

    def stated(a: Any, before: Tokens, after: Tokens, _: Any) -> Facts:
        f = Facts(a)
        D = f.named("source.x", before.blocks["source", "x"])
        W = f.value("W'", _left_inverse(D.value))
        f.equal("W'D = I", W @ D, f.unit(D.shape[1]))
        combined = spanning_combination([_powers(task, depth) for task in policies.tasks], D.value)
        total: Term | None = None
        for p, task in enumerate(policies.tasks):
            P = _krylov(f, task, depth, p + 1)
            f.equal(f"D W' P{p + 1} = P{p + 1}", D @ (W @ P), P)
            C = f.value(f"C{p + 1}", combined[p])
            total = P @ C if total is None else total + P @ C
        assert total is not None
        f.equal("D is a sum of combinations", D, total)
        f.leaves(after, {"source.x": D})
        return f

    return stated


def _left_inverse(D: fmpq_mat) -> fmpq_mat:
    return (D.transpose() * D).solve(D.transpose())


def _powers(task: Task, depth: int) -> fmpq_mat:
    columns = [task.r]
    for _ in range(depth - 1):
        columns.append(task.A * columns[-1])
    return RATIONALS.stack([columns])


def spanning_combination(blocks: Sequence[fmpq_mat], D: fmpq_mat) -> list[fmpq_mat]:
    """C, block by block, with [blocks] C = D, zero for columns that others span."""
    P = RATIONALS.stack([list(blocks)])
    reduced, rank = P.rref()
    chosen = [next(j for j in range(P.ncols()) if reduced[i, j] != 0) for i in range(rank)]
    basis = RATIONALS.select(P, chosen)
    solved = (basis.transpose() * basis).solve(basis.transpose() * D)
    rows = {j: i for i, j in enumerate(chosen)}
    whole = fmpq_mat(
        P.ncols(),
        D.ncols(),
        [solved[rows[j], c] if j in rows else 0 for j in range(P.ncols()) for c in range(D.ncols())],
    )
    out, start = [], 0
    for block in blocks:
        out.append(RATIONALS.rows(whole, start, start + block.ncols()))
        start += block.ncols()
    return out


def not_invariant(policies: PolicyClass, depth: int, D: fmpq_mat, p: int, part: str) -> Record:
    """A row z with z D = 0 and z A_p D not zero, while each K_L(A_q, r_q) has A_q P_q = P_q C_q."""
    f = Facts()
    for q, task in enumerate(policies.tasks):
        P = _krylov(f, task, depth, q + 1)
        A = f.named(f"A{q + 1}", task.A)
        (C,) = spanning_combination([P.value], task.A * P.value)
        f.equal(f"A{q + 1} keeps its own", A @ P, P @ f.value(f"C{q + 1}", C))
    moved = policies.tasks[p].A * D
    rest = moved - D * _left_inverse(D) * moved
    j = next(j for j in range(rest.ncols()) if any(rest[i, j] != 0 for i in range(rest.nrows())))
    z, kept = f.value("z", RATIONALS.columns(rest, j, j + 1).transpose()), f.value("D", D)
    f.equal("z D = 0", z @ kept, f.fill(0, 1, D.ncols()))
    away = z @ (f.named(f"A{p + 1}", policies.tasks[p].A) @ kept[:, j : j + 1])
    f.relate(f"z A{p + 1} D != 0", away, "!=", f.fill(0, 1, 1))
    return f.record(part)
