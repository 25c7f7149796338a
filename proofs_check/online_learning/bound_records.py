"""Records of the potential bound on a run: weights, mistakes and powers as matrices over Q, with what is so of them."""

from __future__ import annotations

from collections.abc import Sequence

from flint import fmpq, fmpq_mat

from constructions.online_learning.experts import ExpertTask

from ..facts import Facts, Term, iterated
from ..program_documents import Record


def potential_record(task: ExpertTask, decisions: Sequence[int], best: int) -> Record:
    """M mistakes of these decisions, m* of the best expert, and the bound as (1 - x)^{m*} <= n (1 - x/2)^M.

    A mistake is made only where at least half of the weight errs, of two labels; then W' <= (1 - x/2) W.
    """
    f, T, n, x = Facts(), task.rounds, task.n, fmpq(task.eps.numerator, task.eps.denominator)
    wrong = [task.wrong(t) for t in range(T)]
    erred = f.value("erred", fmpq_mat([[fmpq(e) for e in row] for row in wrong]))
    missed = [decision != label for decision, label in zip(decisions, task.labels, strict=True)]
    mistaken = f.value("mistaken", fmpq_mat([[fmpq(m)] for m in missed]))
    rows = [[fmpq(1)] * n]
    for row in wrong:
        rows.append([w * (1 - x) if e else w for w, e in zip(rows[-1], row, strict=True)])
    weights, every = f.value("weights", fmpq_mat(rows)), f.fill(1, n, 1)
    before = weights[:-1, :]
    f.equal("equal weights first", weights[:1, :], f.fill(1, 1, n))
    f.equal("those who err lose x", weights[1:, :], before - x * (before * erred))
    totals, lost = before @ every, (before * erred) @ every
    f.relate("a mistake is one of at least half", mistaken * totals, "<=", mistaken * lost * 2)
    f.relate("no mistake is one of at most half", (1 - mistaken) * lost * 2, "<=", totals)
    f.relate("potential", weights[1:, :] @ every, "<=", totals - x / 2 * (mistaken * totals))
    count, leader = sum(missed), [sum(column) for column in zip(*wrong, strict=True)].index(best)
    f.equal("M", f.fill(1, 1, T) @ mistaken, f.fill(count, 1, 1))
    f.equal("m*", f.fill(1, 1, T) @ erred[:, leader : leader + 1], f.fill(best, 1, 1))
    kept, halved = _power(f, "1 - x", 1 - x, best), _power(f, "1 - x/2", 1 - x / 2, count)
    f.relate("(1 - x)^m* <= n (1 - x/2)^M", kept, "<=", n * halved)
    return f.record(f"potential bound, {task.name}")


def _power(f: Facts, name: str, base: fmpq, exponent: int) -> Term:
    move = f.value(name, fmpq_mat([[base]]))
    return iterated(f, f"powers of {name}", f.fill(1, 1, 1), move, exponent)[exponent:, :]
