"""Exact instances: a construction run in Q on given tasks must equal its reference, entry by entry.

Where a run leaves Q (a mutant whose softmax meets unequal scores, say) it is repeated in balls. A ball that excludes
the exact value refutes; balls that hold every value decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flint import arb, arb_mat, fmpq, fmpq_mat

from constructions.construction import Construction
from constructions.errors import BadInput, Unsupported
from constructions.exact import RATIONALS, Balls
from constructions.square_roots import SquareRoots
from constructions.task import AnyTask

from .claim import Finding, Verdict, rational
from .facts import Stated
from .generic_layer import first_difference
from .records import RUNS, Record, run_record


@dataclass(frozen=True)
class Instance:
    """A construction and a task of its size."""

    construction: Construction
    task: AnyTask


InstanceSource = Callable[[], Sequence[Instance]]
"""Instances, drawn when they are needed."""

BITS = 256
"""The precision of runs in balls."""

NAMED = "the tasks named in the evidence"
"""The scope of a claim about instances."""

Run = Callable[[Construction, AnyTask], fmpq_mat | None]
"""How a construction answers a task in exact numbers; None stands for an answer without tokens."""


def in_rationals(construction: Construction, task: AnyTask) -> fmpq_mat | None:
    """Run over Q."""
    return construction.outputs(task, RATIONALS)


def with_square_roots(construction: Construction, task: AnyTask) -> fmpq_mat:
    """Run over Q with square roots adjoined as they arise; the answer must come out rational."""
    answer = construction.outputs(task, SquareRoots())
    return fmpq_mat(*answer.shape, [x.rational for x in answer.ravel()])


def prove_instances(
    instances: Sequence[Instance], run: Run = in_rationals, stated: Callable[[Instance], Stated] | None = None
) -> Finding:
    """Proved if program and reference agree on every instance; instances are tried smallest first.

    Args:
        instances: constructions with tasks.
        run: how they run.
        stated: what the records say of a run in Q, beside the answer.
    """
    ordered = sorted(instances, key=lambda x: x.task.size)
    tried: list[dict[str, Any]] = []
    records: list[Record] = []
    for instance in ordered:
        where = {"task": instance.task.name, "sizes": dict(instance.construction.sizes)}
        try:
            refutation = differ(instance, run)
        except Unsupported as error:
            return Finding(Verdict.UNDECIDED, {**where, "missing": str(error)})
        if refutation is not None:
            return Finding(Verdict.REFUTED, {**where, **refutation})
        tried.append({**where, "size": list(instance.task.size)})
        if run is in_rationals and len(records) < RUNS:
            record = run_record(instance.construction, instance.task, stated and stated(instance))
            records += [] if record is None else [record]
    return Finding(Verdict.PROVED, {"instances": tried}, tuple(records))


def differ(instance: Instance, run: Run = in_rationals) -> dict[str, Any] | None:
    """Where program and reference differ: block, row, column, both values and the log; None where they agree.

    Raises:
        Unsupported: the arithmetic cannot decide a step of the run.
    """
    construction, task = instance.construction, instance.task
    right = construction.reference(task, RATIONALS)
    try:
        try:
            left = run(construction, task)
        except Unsupported:
            outside = None if right is None else apart(construction, task, right)
            if outside is None:
                raise
            return _difference(instance, *outside) | {"arithmetic": f"Arb balls, {BITS} bits"}
    except BadInput as error:
        return {"block": construction.program.name, "failure": f"the program cannot be run: {error}"}
    if left is None or right is None:
        if left is right:
            return None
        found, expected = ("no token" if x is None else f"{x.ncols()} tokens" for x in (left, right))
        return {"block": construction.answer[0][0], "found": found, "expected": expected}
    place = first_difference(left, right)
    if place is None:
        return None
    row, column = place
    values = (m[place] if row < m.nrows() and column < m.ncols() else "nothing" for m in (left, right))
    return _difference(instance, place, *values)


def _difference(instance: Instance, place: tuple[int, int], found: Any, expected: Any) -> dict[str, Any]:
    block, row = instance.construction.block_of(place[0])
    values = {"found": rational(found), "expected": rational(expected)}
    return {"block": block, "row": row, "column": place[1], **values, "counterexample": instance.task.describe()}


def apart(
    construction: Construction, task: AnyTask, exact: fmpq_mat | None = None
) -> tuple[tuple[int, int], arb, arb | fmpq] | None:
    """(place, found, expected) of the first entry where balls around answer and reference have no number in common.

    None where there is no such entry or balls cannot decide a step. The reference may be given in Q.

    Raises:
        BadInput: the program cannot be run, or its answer has another shape.
    """
    with Balls(BITS).working() as balls:
        try:
            found = construction.outputs(task, balls)
            expected = construction.reference(task, balls) if exact is None else arb_mat(exact)
        except Unsupported:
            return None
        if found is None or expected is None:
            return None
        shapes = balls.shape(expected), balls.shape(found)
        if shapes[0] != shapes[1]:
            raise BadInput(f"answer: expected shape {shapes[0]}, found {shapes[1]}")
        place = separated(found, expected)
        return None if place is None else (place, found[place], (expected if exact is None else exact)[place])


def separated(found: arb_mat, expected: arb_mat) -> tuple[int, int] | None:
    """Row and column of the first entry whose two balls are disjoint, in matrices of one shape."""
    for index, (x, e) in enumerate(zip(found.entries(), expected.entries(), strict=True)):
        if not x.overlaps(e):
            return divmod(index, found.ncols())
    return None
