"""Enclosures: a construction run in Arb balls must contain the exact answer, and be narrow."""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb, fmpq

from constructions.errors import Unsupported
from constructions.exact import RATIONALS, Balls

from .claim import Finding, Verdict, rational
from .instances import Instance

BITS = 512
"""Balls widen through 24 rounds by some 180 bits; this leaves a margin."""
RADIUS_BITS = 100


def prove_enclosures(instances: Sequence[Instance]) -> Finding:
    """Proved if on every instance each ball contains the reference in Q and has a radius below 2^-RADIUS_BITS."""
    tried = []
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
    return Finding(Verdict.PROVED, {"bits": BITS, "instances": tried})
