"""Whole runs of online constructions, exact: every round's answer equals the reference, in Q with formal logarithms.

Where a number leaves Q (a mutant that scores with e, say) the run is repeated in balls, which refutes where a ball
excludes the exact value, and decides nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import sympy as sp

from constructions.arithmetic import Array
from constructions.construction import Construction
from constructions.errors import BadInput, Unsupported
from constructions.logarithms import FractionField, Logarithms
from constructions.online_learning.expert_weights import Weights
from constructions.online_learning.experts import ExpertTask
from constructions.online_learning.rounds import hidden
from constructions.online_learning.weighted_majority import (
    answer_blocks,
    construction,
    expected_output,
    initial_context,
    normalised,
    read_round,
    round_tokens,
)

from ..claim import Finding, Verdict, rational
from ..instances import Instance, apart
from ..mutants import Mutant, program_mutants
from ..program_documents import Record
from .one_round import RoundCase, firsts, program_of, refuted_at_points
from .round_records import majority, rounds_record


def prove_runs(instances: Sequence[Instance]) -> Finding:
    """Proved if program and reference agree in every entry of every round of every instance, smallest first."""
    tried = []
    for instance in sorted(instances, key=lambda x: x.task.size):
        built, task = instance.construction, instance.task
        where = {"construction": built.program.name, "task": task.name, "sizes": dict(built.sizes)}
        try:
            place = _first_difference(built, task)
        except BadInput as error:
            return Finding(Verdict.REFUTED, {**where, "failure": f"the program cannot be run: {error}"})
        except Unsupported as error:
            place = apart(built, task)
            if place is None:
                return Finding(Verdict.UNDECIDED, {**where, "missing": str(error)})
        if place is not None:
            (row, column), found, expected = place
            block, inner = built.block_of(row)
            difference = {"block": block, "row": inner, "round": column}
            values = {"found": rational(found), "expected": rational(expected)}
            return Finding(Verdict.REFUTED, {**where, **difference, **values, "counterexample": task.describe()})
        tried.append({**where, "size": list(task.size)})
    return Finding(Verdict.PROVED, {"runs": tried})


def _first_difference(built: Construction, task: Any) -> tuple[tuple[int, int], Any, Any] | None:
    arithmetic = Logarithms()
    found, expected = built.outputs(task, arithmetic), built.reference(task, arithmetic)
    if found.shape != expected.shape:
        raise BadInput(f"answer: expected shape {expected.shape}, found {found.shape}")
    for place in sorted(((i, j) for i in range(found.shape[0]) for j in range(found.shape[1])), key=lambda x: x[::-1]):
        if found[place] != expected[place]:
            return place, found[place], expected[place]
    return None


def prove_patterns(cases: Sequence[RoundCase], rounds: int) -> Finding:
    """Every sequence of bits of the given number of rounds, q = 1 - eps and the leak indeterminate, from equal weights.

    The program is a function of its tokens: a context that has been seen before in the same round, in every field, is
    followed once. The weights are those of the number of mistakes of each expert, which the context has to determine.
    """
    return Finding.all_of({case.name: _patterns_or_points(case, rounds) for case in cases})


def _patterns_or_points(case: RoundCase, rounds: int) -> Finding:
    """Where a mutant takes the numbers out of the field, one round at points may still refute it."""
    try:
        finding = _patterns(case, rounds)
    except Unsupported as error:
        undecided = Finding(Verdict.UNDECIDED, {"case": case.name, "missing": str(error)})
        return refuted_at_points(case, 2 ** (case.n + 1)) or undecided
    if finding.verdict is not Verdict.PROVED or case.program is not None:
        return finding
    return replace(finding, records=(_one_pattern(case, rounds),))


def _one_pattern(case: RoundCase, rounds: int) -> Record:
    """The record of one sequence of bits, with numbers for eps and the leak."""
    bits = [[(5 * t + 3 * i + t * i) % 2 for i in range(case.n + 1)] for t in range(rounds)]
    eps, leak = Fraction(1, 3), Fraction(1, 5)
    task = ExpertTask(
        tuple(tuple(1 - x for x in row[:-1]) for row in bits),
        tuple(1 - row[-1] for row in bits),
        2,
        eps,
        name=f"bits {bits}, eps = {eps}, leak {leak}",
    )
    built = construction(case.variant, case.n, 2, eps, leak=leak, basis=case.basis)
    return rounds_record(Instance(built, task), majority(built, task))


def _patterns(case: RoundCase, rounds: int) -> Finding:
    arithmetic = Logarithms(FractionField(["q", "d"]))
    case = replace(case, program=program_of(case))
    weights, n = case.weights(), case.n
    logs = arithmetic.log(arithmetic.matrix([[1]] * n))
    start = initial_context(case.variant, weights, logs, arithmetic)
    reached = {(0,) * n: start}
    followed = 0
    for t in range(rounds):
        following: dict[tuple[int, ...], Any] = {}
        for counts, context in reached.items():
            for bits in product((0, 1), repeat=n + 1):
                found, context_after = follow(case, weights, context, bits, arithmetic)
                new = tuple(c + (p != bits[-1]) for c, p in zip(counts, bits[:-1], strict=True))
                wanted = _wanted(case, weights, counts, new, bits, arithmetic)
                followed += 1
                where = {"round": t + 1, "mistakes before": list(counts), "bits (p.., y)": list(bits)}
                for row, (x, e) in enumerate(zip(found.ravel(), wanted.ravel(), strict=True)):
                    if x != e:
                        values = {"row": row, "found": rational(x), "expected": rational(e)}
                        return Finding(Verdict.REFUTED, {"case": case.name, **where, **values})
                if new in following and not _equal(following[new], context_after):
                    return Finding(Verdict.REFUTED, {"case": case.name, **where, "block": "context", "found": "two"})
                following[new] = context_after
        reached = following
    patterns = 2 ** ((n + 1) * rounds)
    return Finding(Verdict.PROVED, {"case": case.name, "patterns": patterns, "rounds followed": followed})


def follow(case: RoundCase, weights: Weights, context: Any, bits: Sequence[int], arithmetic: Any) -> tuple:
    """(answer, next context) of one round with two labels."""
    *p, y = bits
    P, label = [list(p), [1 - x for x in p]], [y, 1 - y]
    built = program_of(case)
    tokens = round_tokens(case.variant, weights, P, label, context, arithmetic)
    after = built.run(tokens, arithmetic)
    answer = read_round(case.variant, weights)([("", after)], arithmetic)
    fields = dict(hidden(after, "label", built.layout, arithmetic))
    return answer, {**fields, "tC": arithmetic.add(fields["tC"], arithmetic.matrix([[1]]))}


def _wanted(case: RoundCase, weights: Weights, counts: Any, new: Any, bits: Sequence[int], arithmetic: Any) -> Array:
    q = sp.Symbol("q")
    P = [list(bits[:-1]), [1 - x for x in bits[:-1]]]
    w = arithmetic.matrix([[q**m] for m in counts])
    O = expected_output(case.variant, weights, P, w, arithmetic)
    S = arithmetic.matmul(arithmetic.matrix(weights.columns), arithmetic.log(arithmetic.matrix([[q**m] for m in new])))
    rest = arithmetic.matrix([[0]] * sum(height for _, height in answer_blocks(case.variant, weights)[3:]))
    return arithmetic.stack([[S], [O], [normalised(O, arithmetic)], [rest]])


def _equal(one: Any, other: Any) -> bool:
    return all((one[field] == other[field]).all() for field in one)


def each(variants: Sequence[str], bases: Sequence[Any]) -> Iterator[RoundCase]:
    """Every realisation in every basis."""
    for variant in variants:
        for basis in bases:
            yield RoundCase(variant, basis)


def pattern_mutants(cases: Sequence[RoundCase]) -> Iterator[Mutant]:
    """Every single change of the layers of each realisation."""
    for case in firsts(cases):
        for mutant in program_mutants(program_of(case)):
            yield Mutant(mutant.kind, f"{case.variant}: {mutant.text}", [replace(case, program=mutant.subject)])
