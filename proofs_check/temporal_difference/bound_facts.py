"""What the records say of bounds: signs of polynomials, sign patterns of a task, packings, code words."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from flint import fmpq, fmpq_mat

from constructions.construction import Construction
from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.tokens import Tokens

from ..facts import Facts, Shapes, Term, iterated, running, stacked, values
from ..records import Record, run_record


def exact(x: Fraction | int) -> fmpq:
    """The same number."""
    return fmpq(x.numerator, x.denominator)


def _row(f: Facts, name: str, numbers: Sequence[Fraction | int]) -> Term:
    return f.value(name, fmpq_mat(1, len(numbers), [exact(x) for x in numbers]))


def polynomials(
    zero: Callable[..., Mapping[str, Any]], positive: Callable[..., Mapping[str, Any]], names: Sequence[Sequence[str]]
) -> tuple[Record, ...]:
    """Identities in the first names, and polynomials in the second that are not negative where these are not."""
    f = Facts(Shapes())
    for name, term in zero(*(f.generic(x) for x in names[0])).items():
        f.equal(name, term, f.fill(0, 1, 1))
    g = Facts(Shapes())
    for name, term in positive(*(g.generic(f"0{x}") for x in names[1])).items():
        g.relate(name, g.fill(0, 1, 1), "<=", term)
    return f.record("identities"), g.record("inequalities")


def octahedron(task: Task, ends: Sequence[int], part: str) -> Record:
    """|u_s| <= mass(I_s) in every state, and every sign pattern is that of some state: u_s = sign mass(I_s) for all s.

    The columns of `signs` are all patterns: read as binary numbers they count up.
    """
    f, count = Facts(), len(ends)
    A, r = f.value("A", task.A), f.value("r", task.r)
    v, one = values(f, A, r, ends[-1]), f.fill(1, 1, 1)
    g = f.value("g", fmpq_mat(1, 1, [exact(task.discount)]))
    m = iterated(f, "mass", f.fill(0, 1, 1), g, ends[-1], one)
    pairs = list(itertools.pairwise((0, *ends)))
    U = stacked(*(v[b : b + 1, :] - v[a : a + 1, :] for a, b in pairs))
    masses = f.defined("masses", stacked(*(m[b : b + 1, :] - m[a : a + 1, :] for a, b in pairs)))
    wide = masses @ f.fill(1, 1, task.n)
    f.relate("u <= mass", U, "<=", wide)
    f.relate("-mass <= u", -wide, "<=", U)
    f.relate("rewards", f.fill(-1, task.n, 1), "<=", r)
    f.relate("rewards up to 1", r, "<=", f.fill(1, task.n, 1))
    patterns = list(itertools.product((-1, 1), repeat=count))
    signs = f.value("signs", RATIONALS.matrix([list(row) for row in zip(*patterns, strict=True)]))
    weights = _row(f, "weights", [2 ** (count - 1 - s) for s in range(count)])
    f.equal("+1 and -1", signs * signs, f.fill(1, count, 2**count))
    f.equal("weights double", weights[:, count - 1 :], one)
    if count > 1:
        f.equal("weights go on", weights[:, :-1], 2 * weights[:, 1:])
    counted = running(f, "counted", f.fill(1, 1, 2**count), one)
    f.equal("all patterns", weights @ (signs + 1), 2 * (counted - 1))
    table = list(zip(*U.value.tolist(), strict=True))
    wanted = [tuple(s * x for s, (x,) in zip(row, masses.value.tolist(), strict=True)) for row in patterns]
    chosen = f.value("states", RATIONALS.one_hot([table.index(x) for x in wanted], task.n))
    f.equal("some state", U @ chosen, signs * (masses @ f.fill(1, 1, 2**count)))
    return f.record(part)


def apart(tasks: Sequence[Task], depth: int, error: Fraction, part: str) -> Record:
    """Any two tasks differ by more than 2e in the entry of v_0 .. v_L that is named."""
    f = Facts()
    v = [
        values(f, f.value(f"A{t}", task.A), f.value(f"r{t}", task.r), depth, f"v of task {t}")
        for t, task in enumerate(tasks)
    ]
    e = f.value("e", fmpq_mat(1, 1, [exact(error)]))
    for i, j in itertools.combinations(range(len(tasks)), 2):
        entries = (v[i].value - v[j].value).entries()
        place = max(range(len(entries)), key=lambda p: abs(entries[p]))
        l, state = divmod(place, tasks[0].n)
        x, y = (w[l : l + 1, state : state + 1] for w in ((v[i], v[j]) if entries[place] > 0 else (v[j], v[i])))
        f.relate(f"tasks {i} and {j}", 2 * e, "<", x - y)
    return f.record(part)


def within(built: Construction, task: Task, bound: Fraction, error: Fraction) -> tuple[Record, ...]:
    """The answers of a run are within the bound of every v_l, and the bound is at most e."""

    def stated(a: Any, before: Tokens, _: Tokens, answer: Any) -> Facts:
        f = Facts(a)
        found, E = f.named("answer", answer), f.named("query.x", before.blocks["query", "x"])
        v = values(f, f.value("A", task.A), f.value("r", task.r), found.shape[0] - 1)
        b, e = (f.value(name, fmpq_mat(1, 1, [exact(x)])) for name, x in (("bound", bound), ("e", error)))
        limit = b * f.fill(1, *found.shape)
        f.relate("within the bound", found - v @ E, "<=", limit)
        f.relate("within the bound below", -limit, "<=", found - v @ E)
        f.relate("bound <= e", b, "<=", e)
        return f

    record = run_record(replace(built, algorithm=""), task, stated)
    return () if record is None else (record,)


def order(rows: Mapping[str, Sequence[int]], lower: Fraction, upper: Fraction, part: str) -> Record:
    """c n M a <= packing and code <= C n M a with M = min{n, L, a}, a = log 1/e, entry by entry."""
    f = Facts()
    n, L, a, least, code, packing = (_row(f, name, rows[name]) for name in ("n", "L", "a", "M", "code", "packing"))
    for name, x in (("n", n), ("L", L), ("a", a)):
        f.relate(f"M <= {name}", least, "<=", x)
    f.equal("M is one of them", (n - least) * (L - least) * (a - least), 0 * n)
    unit = n * least * a
    f.relate("packing", exact(lower) * unit, "<=", packing)
    f.relate("code", code, "<=", exact(upper) * unit)
    return f.record(part)
