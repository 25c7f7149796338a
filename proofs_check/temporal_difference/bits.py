"""td.bits: codes that meet their error, an exact packing below them, and both of the order of Thm C.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import sympy as sp
from flint import fmpq_mat

from constructions.exact import RATIONALS
from constructions.task import Task
from constructions.temporal_difference import bits, executor
from constructions.temporal_difference.bits import ASSUMPTIONS, THEOREM, Budget, Packing

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..generic_layer import prove_words
from ..instances import NAMED, InstanceSource, prove_instances
from ..mutants import Mutant
from ..records import Record
from ..words import identity, letter, rule, zero
from . import bound_facts
from .executor import prove_td_step

N, H, U = sp.symbols("n h u", integer=True, positive=True)
LARGEST_RECORDED = 15
"""Tasks up to which a packing has a record."""
ROW_SUMS = "|A|_inf <= g, |r|_inf <= 1, and the triangle inequality"


def prove_recursion() -> Finding:
    """The error identities from which the bounds follow by norms."""
    A, C = letter("A", N, N), letter("C", N, N)
    r, s, v, u = (letter(name, N, 1) for name in "rsvu")
    return Finding.all_of(
        {
            "model": prove_words({"v+ - u+": ((r + A @ v) - (s + C @ u), (r - s) + (A - C) @ v + C @ (v - u))}, []),
            "v_{j+1} - v_j = A^j r": prove_td_step(),
        }
    )


@dataclass(frozen=True)
class Word:
    """A task, a format and the code word that is claimed to answer within its error."""

    task: Task
    form: Budget
    word: str


def words(chosen: Sequence[tuple[Task, Budget]]) -> list[Word]:
    """The tasks' code words."""
    return [Word(task, form, bits.encode_word(task, form)) for task, form in chosen]


def _largest(matrix: fmpq_mat) -> Fraction:
    return max((abs(Fraction(int(x.p), int(x.q))) for x in matrix.entries()), default=Fraction(0))


def prove_within(cases: Sequence[Word]) -> Finding:
    """Numbers rounded as stated, bound <= e, and the program's answers in Q within the bound of every v_l."""
    found: list[dict[str, Any]] = []
    records: list[Record] = []
    for case in cases:
        form, task = case.form, case.task
        where = {"task": task.name, "L": form.depth, "e": rational(form.error), "code": form.kind}
        numbers = bits.decode_word(case.word, form)
        unit = Fraction(1, 2**form.fraction)
        for place, (kept, exact) in enumerate(zip(numbers, bits.kept_numbers(task, form), strict=True)):
            below = form.kind == "model" and place < task.n**2
            if not (0 <= exact - kept < unit if below else 2 * abs(exact - kept) <= unit):
                wrong = {"block": f"number {place}", "found": rational(kept), "expected": rational(exact)}
                return Finding(Verdict.REFUTED, {**where, **wrong})
        if form.bound > form.error:
            wrong = {"block": "bound", "found": rational(form.bound), "expected": f"at most {rational(form.error)}"}
            return Finding(Verdict.REFUTED, {**where, **wrong})
        built = bits.construction(form)
        tokens = bits.word_tokens(case.word, form, RATIONALS)
        answers = built.decode(built.program.steps(tokens, RATIONALS), RATIONALS)
        error = _largest(answers - executor.td_values(task, form.depth, RATIONALS))
        if error > form.bound:
            wrong = {"block": "v at depth", "found": f"error {rational(error)}", "expected": rational(form.bound)}
            return Finding(Verdict.REFUTED, {**where, **wrong})
        figures = {"bits": len(case.word), "error": float(error), "bound": float(form.bound)}
        found.append({**where, "kept": form.kept, "b": form.fraction, **figures})
        records += bound_facts.within(built, task, form.bound, form.error)
    return Finding(Verdict.PROVED, {"words": found}, tuple(records))


def word_mutants(cases: Sequence[Word]) -> Iterator[Mutant]:
    """A word's first bit flipped, its last bit dropped; one bit of precision less; half the error asked."""
    for case in cases:
        name = f"{case.form.kind}, L={case.form.depth}: {case.task.name}"
        flipped = ("1" if case.word[0] == "0" else "0") + case.word[1:]
        yield Mutant("value", f"first bit flipped, {name}", [replace(case, word=flipped)])
        yield Mutant("value", f"last bit dropped, {name}", [replace(case, word=case.word[:-1])])
        if case.form.fraction:
            coarse = replace(case.form, fraction=case.form.fraction - 1)
            yield Mutant("value", f"one bit less, {name}", words([(case.task, coarse)]))
        demanding = replace(case.form, error=case.form.error / 2)
        yield Mutant("value", f"half the error, {name}", [replace(case, form=demanding)])


def prove_packing_argument() -> Finding:
    """A = T Q S' + S C S' takes T p + S C^j b to T Q C^j b + S C^{j+1} b: the coordinates come one by one.

    S and T select the chain and the other states, Q = g P_u. and C = g times the chain's shift. With r = T r_u + S e_0
    and C^j e_0 = g^j e_j the top of A^{j+1} r is g^{j+1} P_uj, which is what depth j + 2 adds.
    """
    S, T, Q = letter("S", N, H), letter("T", N, U), letter("Q", U, H)
    C, b, c, p = letter("C", H, H), letter("C^j b", H, 1), letter("C^{j+1} b", H, 1), letter("p", U, 1)
    A = T @ Q @ S.T + S @ C @ S.T
    chosen = rule(S.T @ S, identity(H)) + rule(S.T @ T, zero(H, U)) + rule(C @ b, c)
    return Finding.all_of(
        {
            "A (T p + S C^j b)": prove_words({"A (T p + S C^j b)": (A @ (T @ p + S @ b), T @ Q @ b + S @ c)}, chosen),
            "v_{j+1} - v_j = A^j r": prove_td_step(),
        }
    )


def prove_packing(packings: Sequence[Packing]) -> Finding:
    """All tasks of each set, pair by pair: some |v_l(i) - v'_l(i)| > 2e, in Q; and |r|_inf <= 1."""
    found, records = [], []
    for packing in packings:
        where = {"n": packing.n, "L": packing.depth, "g": str(packing.discount), "e": rational(packing.error)}
        answers = []
        for task in packing.tasks():
            bits.BOUNDED.require(task)
            entries = executor.td_values(task, packing.depth, RATIONALS).entries()
            answers.append([Fraction(int(x.p), int(x.q)) for x in entries])
        if len(answers) != packing.count:
            wrong = {"block": "number of tasks", "found": len(answers), "expected": packing.count}
            return Finding(Verdict.REFUTED, {**where, **wrong})
        limit, least = 2 * packing.error, None
        for i, first in enumerate(answers):
            for j in range(i):
                gap = max(abs(x - y) for x, y in zip(first, answers[j], strict=True))
                if gap <= limit:
                    wrong = {"block": f"tasks {j} and {i}", "found": rational(gap), "expected": f"more than {limit}"}
                    return Finding(Verdict.REFUTED, {**where, **wrong})
                least = gap if least is None else min(least, gap)
        sizes = {"h": packing.chain, "tasks": packing.count, "bits needed": packing.bits}
        found.append({**where, **sizes, "least distance": rational(least)})
        if packing.count <= LARGEST_RECORDED:
            records.append(bound_facts.apart(list(packing.tasks()), packing.depth, packing.error, str(packing.count)))
    return Finding(Verdict.PROVED, {"packings": found}, tuple(records))


def packing_mutants(packings: Sequence[Packing]) -> Iterator[Mutant]:
    """A level more for the rewards or for one probability; twice the error; a depth too few to see the last level."""
    for packing in packings:
        name = f"n={packing.n}, L={packing.depth}, g={packing.discount}"
        yield Mutant("value", f"{name}: a reward level more", [replace(packing, rewards=packing.rewards + 1)])
        yield Mutant("value", f"{name}: error doubled", [replace(packing, error=2 * packing.error)])
        for i, level in enumerate(packing.levels):
            changed = (*packing.levels[:i], level + 1, *packing.levels[i + 1 :])
            yield Mutant("value", f"{name}: a level more for chain state {i}", [replace(packing, levels=changed)])
        if packing.levels and packing.levels[-1] > 1:
            yield Mutant("loop", f"{name}: depth h", [replace(packing, depth=packing.chain)])


@dataclass(frozen=True)
class Order:
    """Two constants for one discount: c n min{n, L, log 1/e} log 1/e <= packing, code <= C n min{..} log 1/e."""

    discount: Fraction
    lower: Fraction
    upper: Fraction


STATES, DEPTHS, LOGS = (1, 2, 4, 16, 64), (1, 2, 8, 32, 128), (2, 4, 8, 16, 32, 64)
ORDERS = (
    Order(Fraction(1, 2), Fraction(1, 6), Fraction(6)),
    Order(Fraction(9, 10), Fraction(1, 5), Fraction(74)),
)
"""Constants found on the grid below, to a digit or so; C grows with log(1/(1-g)) / log(1/g)."""


def prove_order(orders: Sequence[Order]) -> Finding:
    """Both inequalities at every (n, L, e = 2^-a) of the grid, in integers."""
    found, records = [], []
    for order in orders:
        ratios: dict[str, list[Fraction]] = {"code": [], "packing": []}
        rows: dict[str, list[int]] = {name: [] for name in ("n", "L", "a", "M", "code", "packing")}
        for n in STATES:
            for depth in DEPTHS:
                for a in LOGS:
                    e, unit = Fraction(1, 2**a), n * min(n, depth, a) * a
                    code = bits.budget(n, depth, order.discount, e).bits
                    below = bits.packing(n, depth, order.discount, e).bits
                    where = {"g": str(order.discount), "n": n, "L": depth, "log 1/e": a}
                    if code > order.upper * unit:
                        wrong = {"block": "code", "found": code, "expected": f"at most {order.upper} * {unit}"}
                        return Finding(Verdict.REFUTED, {**where, **wrong})
                    least = order.lower * unit
                    if below < least:
                        wrong = {"block": "packing", "found": below, "expected": f"at least {rational(least)}"}
                        return Finding(Verdict.REFUTED, {**where, **wrong})
                    ratios["code"].append(Fraction(code, unit))
                    ratios["packing"].append(Fraction(below, unit))
                    for row, x in zip(rows.values(), (n, depth, a, min(n, depth, a), code, below), strict=True):
                        row.append(x)
        figures = {f"{name} / (n min log 1/e)": [float(min(x)), float(max(x))] for name, x in ratios.items()}
        found.append({"g": str(order.discount), "c": str(order.lower), "C": str(order.upper), **figures})
        records.append(bound_facts.order(rows, order.lower, order.upper, f"g = {order.discount}"))
    grid = [list(STATES), list(DEPTHS), list(LOGS)]
    return Finding(Verdict.PROVED, {"grid": grid, "constants": found}, tuple(records))


def order_mutants(orders: Sequence[Order]) -> Iterator[Mutant]:
    """Each constant changed by a factor of 2 to the wrong side."""
    for order in orders:
        yield Mutant("value", f"g={order.discount}: C halved", [replace(order, upper=order.upper / 2)])
        yield Mutant("value", f"g={order.discount}: c doubled", [replace(order, lower=2 * order.lower)])


def claims(
    instances: InstanceSource, cases: Callable[[], list[Word]], packings: Callable[[], list[Packing]]
) -> list[Claim]:
    """The claims of td.bits; tasks, code words and packings come from the caller."""
    exact = partial(Claim, THEOREM, assurance=Assurance.EXACT, assumptions=ASSUMPTIONS)
    inductive = partial(Claim, THEOREM, assurance=Assurance.INDUCTIVE, build=tuple)
    return [
        inductive(
            name="recursion",
            statement="v+ - u+ = (r - s) + (A - C) v + C (v - u) and v_{j+1} - v_j = A^j r: the bounds follow by norms",
            scope="all n, L, tasks and roundings",
            assumptions=(ROW_SUMS,),
            prove=lambda _: prove_recursion(),
        ),
        exact(
            name="programs",
            statement="both executors answer as direct iteration on the numbers of the code word",
            scope=NAMED,
            build=instances,
            prove=prove_instances,
        ),
        exact(
            name="within",
            statement="the code word has the bits of its format; every answer is within its bound, at most e, of v_l",
            scope="the tasks and formats named in the evidence",
            build=cases,
            prove=prove_within,
            mutants=word_mutants,
        ),
        inductive(
            name="packing-argument",
            statement=(
                "with a chain and states that move into it, depth j + 2 adds g^{j+1} P_uj to state u: levels more than"
                " 2e / g^{j+1} apart are told apart"
            ),
            scope="all n, h and numbers of levels",
            assumptions=("tasks with terminal successors; |r|_inf <= 1",),
            prove=lambda _: prove_packing_argument(),
        ),
        exact(
            name="packing",
            statement=(
                "any two tasks of the set differ by more than 2e at some state and depth, so a code needs log2 of"
                " their number"
            ),
            scope="the sets named in the evidence, every pair",
            build=packings,
            prove=prove_packing,
            mutants=packing_mutants,
        ),
        exact(
            name="order",
            statement="c n min{n, L, log 1/e} log 1/e <= log2 of the packing, and the code has at most C of that",
            scope="the grid and constants in the evidence; that the packing's tasks are told apart: packing-argument",
            build=lambda: list(ORDERS),
            prove=prove_order,
            mutants=order_mutants,
        ),
    ]
