"""Every mutant of a built object is refuted or proved equivalent: a seeded sample, or all of them with --full.

Equivalent means: the same answer on generic tasks of every Krylov dimension (Schwartz-Zippel, failure probability in
the certificate), or for all sizes where the claim is inductive. The sign of b_j is a gauge of the values: the encoder
is judged by Z_0 itself.
"""

from collections import Counter

import pytest

from constructions.errors import BadInput, Unsupported
from constructions.program import Program
from constructions.temporal_difference import narrow
from proofs_check.claim import Finding, Verdict
from proofs_check.mutants import program_mutants
from proofs_check.mutation import judge, sampled
from proofs_check.schwartz_zippel import prove_cases
from proofs_check.temporal_difference import executor, statistics
from proofs_check.temporal_difference.generic_tasks import Sizes, case, context_difference, from_states

STRATA = [Sizes(3, k, 4, 3) for k in (3, 2, 1)]


def on_strata(program: Program) -> Finding:
    return prove_cases([case(program, context_difference, sizes, "[B; Y; g0']") for sizes in STRATA])


def narrow_from_states() -> Program:
    layers = narrow.krylov_layers(3)
    return Program("narrow stage 2", narrow.narrow_layout(3), narrow.KINDS, layers)


def both_layers(program: Program) -> Finding:
    return Finding.all_of(
        {"counts": statistics.prove_counts(program), "normalise": statistics.prove_normalise(program)}
    )


def guarded(certificate):
    """What does not fit together cannot run, which refutes it; what an arithmetic cannot decide is undecided."""

    def run(subject):
        try:
            return certificate(subject)
        except BadInput as error:
            return Finding(Verdict.REFUTED, {"failure": str(error)})
        except Unsupported as error:
            return Finding(Verdict.UNDECIDED, {"missing": str(error)})

    return run


THEOREMS = {
    "td.statistics": (lambda: statistics.statistics_program(statistics.N), both_layers),
    "td.krylov, one pass": (lambda: from_states(3, 3), on_strata),
    "td.krylov, two passes": (lambda: from_states(3, 3, passes=2), on_strata),
    "td.krylov, narrow": (narrow_from_states, on_strata),
    "td.executor": (lambda: executor.executor_program(executor.N, executor.L), executor.prove_values),
}


@pytest.mark.parametrize("theorem", THEOREMS)
def test_every_mutant_is_refuted_or_equivalent(theorem, mutants_a_theorem):
    build, certificate = THEOREMS[theorem]
    program = build()
    assert certificate(program).verdict is Verdict.PROVED
    mutants = sampled(program_mutants(program), mutants_a_theorem, seed=0)
    judged = [judge(mutant, [("all sizes or strata", guarded(certificate))]) for mutant in mutants]
    outcomes = Counter(j.outcome for j in judged)
    print(theorem, dict(outcomes))
    for j in judged:
        if j.outcome != "refuted":
            print(f"  {j.outcome}: {j.mutant.text}" + (f" ({j.reason})" if j.outcome == "undecided" else ""))
    assert outcomes["undecided"] == 0, [j.mutant.text for j in judged if j.outcome == "undecided"]
    assert outcomes["refuted"] > outcomes["equivalent"]
