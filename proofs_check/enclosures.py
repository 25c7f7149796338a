"""Enclosures: a construction run in Arb balls must contain the exact answer, and be narrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flint import arb, arb_mat, fmpq, fmpq_mat

from constructions.errors import Unsupported
from constructions.exact import RATIONALS, Balls
from constructions.task import Task

from .claim import Finding, Verdict, rational
from .facts import Facts, values
from .instances import Instance
from .records import RUNS, Record

BITS = 512
"""Balls widen through 24 rounds by some 180 bits; this leaves a margin."""
RADIUS_BITS = 100
PLACES = RADIUS_BITS + 1
"""Binary places of the intervals that are recorded; the width of one is at most 2^(3 - PLACES)."""
LARGEST_RECORDED = 6
"""States up to which an enclosure has a record."""


def prove_enclosures(instances: Sequence[Instance]) -> Finding:
    """Proved if on every instance each ball contains the reference in Q and has a radius below 2^-RADIUS_BITS.

    The records hold an interval around each ball of the answers to tasks (A, r), and that v_l lies in it.
    """
    tried: list[dict[str, Any]] = []
    records: list[Record] = []
    for instance in sorted(instances, key=lambda x: x.task.size):
        construction, task = instance.construction, instance.task
        where = {"task": task.name, "sizes": dict(construction.sizes)}
        exact = construction.reference(task, RATIONALS)
        with Balls(BITS).working() as balls:
            try:
                found = construction.outputs(task, balls)
            except Unsupported as error:
                return Finding(Verdict.UNDECIDED, {**where, "missing": str(error)})
            shapes = [(x.nrows(), x.ncols()) for x in (found, exact)]
            if shapes[0] != shapes[1]:
                text = {"found": f"shape {shapes[0]}", "expected": f"shape {shapes[1]}"}
                return Finding(Verdict.REFUTED, {**where, "block": construction.answer[0][0], **text})
            widest = arb(0)
            for index, (ball, value) in enumerate(zip(found.entries(), exact.entries(), strict=True)):
                row, column = divmod(index, exact.ncols())
                block, inner = construction.block_of(row)
                place = {**where, "block": block, "row": inner, "column": column}
                if not ball.contains(fmpq(value)):
                    text = {"found": str(ball), "expected": rational(value)}
                    return Finding(Verdict.REFUTED, {**place, **text, "counterexample": task.describe()})
                widest = widest.max(ball.rad())
            if not widest < arb(2) ** -RADIUS_BITS:
                missing = f"a ball of radius {widest.str(3)} is wider than 2^-{RADIUS_BITS}"
                return Finding(Verdict.UNDECIDED, {**where, "missing": missing})
            tried.append({**where, "widest radius": widest.str(3, radius=False)})
            if isinstance(task, Task) and task.n <= LARGEST_RECORDED and len(records) < RUNS:
                records.append(_intervals(found, task))
    return Finding(Verdict.PROVED, {"bits": BITS, "instances": tried}, tuple(records))


def _intervals(found: arb_mat, task: Task) -> Record:
    """Balls of v_0 .. v_L at every state, rounded outwards to multiples of 2^-PLACES."""
    f, shape = Facts(), (found.nrows(), found.ncols())
    unit = fmpq(1, 2**PLACES)
    lowest, highest = (
        fmpq_mat(*shape, [(x.mid().fmpq() + sign * x.rad().fmpq()) / unit for x in found.entries()]) for sign in (-1, 1)
    )
    low = f.value("low", fmpq_mat(*shape, [fmpq(x.floor()) * unit for x in lowest.entries()]))
    high = f.value("high", fmpq_mat(*shape, [fmpq(x.ceil()) * unit for x in highest.entries()]))
    v = values(f, f.value("A", task.A), f.value("r", task.r), shape[0] - 1)
    f.relate("low <= v", low, "<=", v)
    f.relate("v <= high", v, "<=", high)
    f.relate("width", high - low, "<=", f.fill(8 * unit, *shape))
    return f.record(task.name)
