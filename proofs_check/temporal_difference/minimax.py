"""td.minimax: E_m(g, L) = e*(g, m, L), decided by a cover and a packing, with integers only.

The two certificates are looked at without the closed form of a geometric sum that found them: over the common
denominator q^D of g = p / q, every mass is a difference of prefix sums of integers. What they say:

    upper   the blocks cover 0..L, at most m of them are free, and no error exceeds e*; by td.midpoint-hold a context of
            m registers a state then errs by at most e* on every task, so E_m <= e*.
    lower   m + 1 consecutive intervals within 0..L have masses >= e*, 2e*, .., 2e*. On the witness task the increments
            u_s = v_{t_s} - v_{t_{s-1}} satisfy |sum c_s u_s|_inf = sum |c_s| mass(I_s) for all c: the unit ball of
            their span is the octahedron on +-u_s / mass(I_s). By Tikhomirov's theorem no m-dimensional range D is
            closer than 1 to all of that ball, hence not to all its vertices: some |u_s - range D| >= mass(I_s). If all
            v_l are within e of range D, then u_0 = v_{t_0} is within e, the others within 2e: so e >= e*. (An infinite
            last interval stands for its finite parts, whose masses come as close as one likes.)

The identity for all c follows from finitely many facts, checked in Q: in every state |u_s| <= mass(I_s) for every s,
and for every sign pattern some state has u_s = sign_s mass(I_s) for every s.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from constructions.task import Task
from constructions.temporal_difference import minimax
from constructions.temporal_difference.minimax import ASSUMPTIONS, THEOREM, Cover, Law, Packing

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..mutants import Mutant
from ..records import Record
from . import minimax_bounds, minimax_cells
from .bound_facts import octahedron
from .sample_and_hold import SMALL

UPPER = "a cover of error e is realised with error e on every task (td.midpoint-hold, claim error)"
CHOICES = [(g, m, depth) for g in ("1/3", "1/2", "9/10", "99/100") for m in (0, 1, 2, 5, 12) for depth in (None, 30)]
GRID = [(Fraction(i, 100), m, None) for i in range(1, 100) for m in range(1, 33)]
LARGEST_RECORDED = 32
"""States up to which witnesses have records."""
WITNESSES = [("1/2", 0, 4), ("1/2", 1, 6), ("1/2", 2, 6), ("9/10", 1, 8), ("9/10", 2, 7), ("4/5", 3, 6)]


class Masses:
    """Masses over the common denominator q^D, by integer prefix sums M_b = sum_{j<b} p^j q^(D-j)."""

    def __init__(self, g: Fraction, last: int) -> None:
        p, q = g.numerator, g.denominator
        self.q, self.scale = q, q**last
        self.over = q - p
        self.sums, self.terms = [0], [q**last]
        for _ in range(last):
            self.sums.append(self.sums[-1] + self.terms[-1])
            self.terms.append(self.terms[-1] * p // q)  # exact: term j is p^j q^(D-j)

    def between(self, start: int, stop: int | None) -> tuple[int, int]:
        """mass(start, stop) as numerator and denominator; the tail is g^start q / (q - p)."""
        if stop is None:
            return self.terms[start] * self.q, self.scale * self.over
        return self.sums[stop] - self.sums[start], self.scale

    def compared(self, start: int, stop: int | None, bound: Fraction) -> int:
        """The sign of mass(start, stop) - bound."""
        top, bottom = self.between(start, stop)
        left, right = top * bound.denominator, bound.numerator * bottom
        return (left > right) - (left < right)


def _shape(ends: Sequence[int | None], depth: int | None) -> str | None:
    """Why these are not increasing ends up to L, of which only the last may be infinite."""
    finite = [x for x in ends if x is not None]
    if any(end is None for end in ends[:-1]) or (ends and ends[-1] is None and depth is not None):
        return "an infinite end that is not the last of an infinite range"
    if any(x >= y for x, y in itertools.pairwise(finite)) or any(x < 0 for x in finite):
        return "ends that do not increase"
    if depth is not None and finite and finite[-1] > depth:
        return f"an end beyond L = {depth}"
    return None


def refute_cover(law: Law) -> dict[str, Any] | None:
    """The first fault of the upper certificate."""
    ends = law.cover.ends
    fault = _shape(ends, law.depth)
    if not ends or ends[-1] != law.depth:
        fault = f"a cover that ends at {ends[-1] if ends else 'no depth'}"
    if fault is not None:
        return {"block": "cover", "found": fault, "expected": f"blocks that cover 0..{law.depth}"}
    if len(ends) - 1 > law.m:
        return {"block": "cover", "found": f"{len(ends) - 1} free blocks", "expected": f"at most {law.m}"}
    masses = Masses(law.discount, max((x for x in ends if x is not None), default=0) + 1)
    start = 0
    for s, end in enumerate(ends):
        if masses.compared(start, end, law.value * (2 if s else 1)) > 0:
            found = f"mass({start}, {end}) exceeds {'2 ' if s else ''}e*"
            return {"block": f"cover, block {s}", "found": found, "expected": rational(law.value)}
        start = 0 if end is None else end + 1
    return None


def refute_packing(law: Law) -> dict[str, Any] | None:
    """The first fault of the lower certificate; where e* = 0 nothing needs to be packed."""
    ends = law.packing.ends
    if law.value == 0 and not ends:
        return None
    fault = _shape(ends, law.depth)
    if fault is None and ends and ends[0] == 0:
        fault = "an empty first interval"
    if fault is not None:
        return {"block": "packing", "found": fault, "expected": f"consecutive intervals within 0..{law.depth}"}
    if len(ends) != law.m + 1:
        return {"block": "packing", "found": f"{len(ends)} intervals", "expected": f"{law.m + 1} intervals"}
    masses = Masses(law.discount, max((x for x in ends if x is not None), default=0))
    start = 0
    for s, end in enumerate(ends):
        if masses.compared(start, end, law.value * (2 if s else 1)) < 0:
            found = f"mass({start}, {end}) is less than {'2 ' if s else ''}e*"
            return {"block": f"packing, interval {s}", "found": found, "expected": rational(law.value)}
        start = start if end is None else end
    return None


def prove_law(laws: Sequence[Law]) -> Finding:
    """Both certificates of every triple."""
    shown: list[dict[str, Any]] = []
    records: list[Record] = []
    for law in laws:
        where = {"g": str(law.discount), "m": law.m, "L": "infinity" if law.depth is None else law.depth}
        refutation = refute_cover(law) or refute_packing(law)
        if refutation is not None:
            return Finding(Verdict.REFUTED, {**where, **refutation})
        if len(shown) < len(CHOICES):
            ends = {"cover ends": list(law.cover.ends), "packing ends": list(law.packing.ends)}
            shown.append({**where, "e*": rational(law.value), "decimal": float(law.value), **ends})
            records.append(cover_record(law))
    return Finding(Verdict.PROVED, {"triples": len(laws), "first": shown}, tuple(records))


def cover_record(law: Law) -> Record:
    """The triple, e* and the ends of both certificates (None for infinity)."""
    return {
        "kind": "cover",
        "g": str(law.discount),
        "m": law.m,
        "L": law.depth,
        "e*": str(law.value),
        "cover": list(law.cover.ends),
        "packing": list(law.packing.ends),
    }


def law_mutants(laws: Sequence[Law]) -> Iterator[Mutant]:
    """e* raised or lowered a little, each end of the cover and of the packing moved, a block or interval too few."""
    for law in laws:
        name = f"g={law.discount}, m={law.m}, L={law.depth}"
        small = min(law.value / 1000, SMALL) or SMALL
        yield Mutant("value", f"{name}: e* raised", [replace(law, value=law.value + small)])
        yield Mutant("value", f"{name}: e* lowered", [replace(law, value=law.value - small)])
        yield Mutant("value", f"{name}: e* doubled", [replace(law, value=2 * law.value)])
        yield Mutant("value", f"{name}: one register less", [replace(law, m=law.m - 1)])
        for s, end in enumerate(law.cover.ends[:-1]):
            for change in (-1, 1):
                ends = (*law.cover.ends[:s], (end or 0) + change, *law.cover.ends[s + 1 :])
                changed = replace(law, cover=Cover(law.discount, ends))
                yield Mutant("value", f"{name}: cover end {s} moved by {change:+}", [changed])
        for s, end in enumerate(law.packing.ends):
            if end is not None:
                for change in (-1, 1):
                    ends = (*law.packing.ends[:s], end + change, *law.packing.ends[s + 1 :])
                    changed = replace(law, packing=Packing(law.discount, ends))
                    yield Mutant("value", f"{name}: packing end {s} moved by {change:+}", [changed])
        changed = replace(law, packing=Packing(law.discount, law.packing.ends[:-1]))
        yield Mutant("value", f"{name}: last interval dropped", [changed])


@dataclass(frozen=True)
class Witness:
    """A task and the ends of the intervals on which its increments are claimed to span an octahedron."""

    task: Task
    ends: tuple[int, ...]


def witnesses(choices: Sequence[tuple[str, int, int]]) -> list[Witness]:
    """The witness task of each (g, m, L), with the ends of its packing."""
    out = []
    for g, m, depth in choices:
        ends = tuple(x for x in minimax.packing(g, m, depth).ends if x is not None)
        out.append(Witness(minimax.witness_task(g, m, depth), ends))
    return out


def prove_witness(cases: Sequence[Witness]) -> Finding:
    """The octahedron identity |sum c_s u_s|_inf = sum |c_s| mass(I_s) for all real c, in Q, on each task."""
    rows = []
    for case in cases:
        task, g = case.task, case.task.discount
        where = {"task": task.name, "ends": list(case.ends)}
        if any(abs(x) > 1 for x in task.exact_rewards):
            return Finding(Verdict.REFUTED, {**where, "block": "rewards", "found": "a reward beyond 1"})
        values = _values(task, case.ends[-1])
        ends = (0, *case.ends)
        increments = [[y - x for x, y in zip(values[a], values[b], strict=True)] for a, b in itertools.pairwise(ends)]
        masses = [sum((g**j for j in range(a, b)), Fraction(0)) for a, b in itertools.pairwise(ends)]
        for s, (row, bound) in enumerate(zip(increments, masses, strict=True)):
            worst = max(range(task.n), key=lambda i: abs(row[i]))
            if abs(row[worst]) > bound:
                evidence = {"block": f"increment {s}", "row": worst, "found": rational(row[worst])}
                return Finding(Verdict.REFUTED, {**where, **evidence, "expected": f"at most {rational(bound)}"})
        seen = set(zip(*increments, strict=True))
        for pattern in itertools.product((1, -1), repeat=len(masses)):
            if tuple(sign * x for sign, x in zip(pattern, masses, strict=True)) not in seen:
                evidence = {"block": "sign patterns", "found": "no state", "expected": str(list(pattern))}
                return Finding(Verdict.REFUTED, {**where, **evidence, "counterexample": task.describe()})
        rows.append({**where, "n": task.n, "sign patterns": 2 ** len(masses), "masses": list(map(rational, masses))})
    small = [case for case in cases if case.task.n <= LARGEST_RECORDED]
    records = tuple(octahedron(case.task, case.ends, case.task.name) for case in small)
    return Finding(Verdict.PROVED, {"tasks": rows}, records)


def _values(task: Task, depth: int) -> list[list[Fraction]]:
    """v_0 .. v_depth of a log, transition by transition, in fractions."""
    visits = task.visits.tolist()
    log = list(
        zip(task.states.tolist(), task.successors.tolist(), task.exact_rewards, task.terminal.tolist(), strict=True)
    )
    values = [[Fraction(0)] * task.n]
    for _ in range(depth):
        new = [Fraction(0)] * task.n
        for state, successor, reward, done in log:
            later = Fraction(0) if done else values[-1][successor]
            new[state] += (reward + task.discount * later) / visits[state]
        values.append(new)
    return values


def witness_mutants(cases: Sequence[Witness]) -> Iterator[Mutant]:
    """In each segment its first reward negated, halved or doubled, or its first successor changed; one end moved."""
    for case in cases:
        task, length = case.task, case.ends[-1]
        name = f"m={len(case.ends) - 1}, g={task.discount}"
        for start in range(0, task.n, length):
            where = f"{name}, segment {start // length}"
            for text, factor in (("negated", -1), ("halved", Fraction(1, 2)), ("doubled", 2)):
                rewards = np.array(task.exact_rewards, dtype=object)
                rewards[start] *= factor
                changed = replace(case, task=replace(task, rewards=rewards))
                yield Mutant("value", f"{where}: first reward {text}", [changed])
            successors = task.successors.copy()
            successors[start] = start
            changed = replace(case, task=replace(task, successors=successors))
            yield Mutant("value", f"{where}: first successor itself", [changed])
        for s, end in enumerate(case.ends):
            ends = (*case.ends[:s], end + 1, *case.ends[s + 1 :])
            if list(ends) == sorted(set(ends)):
                yield Mutant("value", f"{name}: end {s} moved by +1", [replace(case, ends=ends)])


def claims(choices: Sequence[tuple[Any, int, int | None]] = CHOICES) -> list[Claim]:
    """The claims of td.minimax; `choices` are the triples (g, m, L) of the claim "law", L None for infinity.

    Bounds for every g and m stand in `minimax_bounds` and `minimax_cells`.
    """

    def law(name: str, choices: Sequence[tuple[Any, int, int | None]], scope: str, quick: bool) -> Claim:
        return Claim(
            THEOREM,
            name,
            "E_m = e*: a cover with m free blocks has error e*, and m + 1 intervals of masses e*, 2e*, .. forbid less",
            scope,
            Assurance.EXACT,
            (*ASSUMPTIONS, UPPER),
            lambda: [minimax.law(*choice) for choice in choices],
            prove_law,
            quick=quick,
            mutants=law_mutants,
        )

    return [
        law("law", choices, "all n and tasks with |r|_inf <= 1, at the (g, m, L) in the evidence", True),
        Claim(
            THEOREM,
            "witness",
            "on the witness task |sum c_s u_s|_inf = sum |c_s| mass(I_s) for all c: the unit ball is an octahedron",
            "all real c, on the tasks in the evidence, m <= 3",
            Assurance.EXACT,
            ("finitely many sign patterns decide the identity for all c: both sides are maxima over them",),
            lambda: witnesses(WITNESSES),
            prove_witness,
            mutants=witness_mutants,
        ),
        *minimax_bounds.claims(),
        *minimax_cells.claims(),
        law("law-grid", GRID, "all n and tasks with |r|_inf <= 1; g = i/100, i = 1..99, m = 1..32, L infinite", False),
    ]
