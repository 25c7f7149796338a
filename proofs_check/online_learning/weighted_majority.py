"""online.weighted-majority: rounds from any state, all sizes by token types, all bit patterns, whole runs, bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from constructions.online_learning.experts import Basis, householder_basis, one_hot_basis
from constructions.online_learning.weighted_majority import ASSUMPTIONS, THEOREM, VARIANTS

from ..claim import Assurance, Claim
from ..instances import NAMED, Instance, InstanceSource
from .mistake_bounds import Inequalities, inequality_mutants, prove_bounds, prove_inequalities
from .one_round import RoundCase, prove_rounds, round_mutants
from .round_records import majority, with_rounds
from .runs import each, pattern_mutants, prove_patterns, prove_runs
from .token_table import prove_table, table_case, table_mutants

EXPONENTIAL = "declared primitive exp in softmax, with exp(log x) = x; logarithms of distinct primes are independent"
MAJORITY = "the learner predicts a label of largest mass; the least of several"


def _cases(bases: Sequence[Basis]) -> Callable[[], list[RoundCase]]:
    return lambda: list(each(list(VARIANTS), bases))


def claims(runs: InstanceSource, quick_runs: InstanceSource, hard: Callable[[], Sequence[Instance]]) -> list[Claim]:
    """The claims of online.weighted-majority.

    Args:
        runs: whole runs in rotated bases, of 40 rounds.
        quick_runs: shorter ones.
        hard: runs against the adversaries, from equal weights.
    """
    assumptions = (*ASSUMPTIONS, EXPONENTIAL)
    claim = partial(Claim, THEOREM, assumptions=assumptions)
    rounds = partial(
        claim,
        statement="from any log weights: new state, output W_k/(W + J d), its normalisation W_k/W, all else zero",
        assurance=Assurance.EXACT,
        prove=prove_rounds,
        mutants=round_mutants,
    )
    patterns = partial(
        claim,
        statement="with strict feedback from equal weights, the answers to every sequence of bits are right",
        assurance=Assurance.EXACT,
    )
    whole = partial(
        claim,
        statement="state, output, normalised output and clean fields equal weighted majority in every round",
        assurance=Assurance.EXACT,
        prove=with_rounds(prove_runs, majority),
    )
    return [
        claim(
            name="token-table",
            statement="a round: S' = S + e sum_erred u_i, O = P softmax(log w; biases of the foreign keys), else 0",
            scope="all n, K, d, orthonormal bases and log weights, all four realisations",
            assurance=Assurance.INDUCTIVE,
            build=lambda: [table_case(variant) for variant in VARIANTS],
            prove=prove_table,
            mutants=table_mutants,
        ),
        rounds(
            name="one-round",
            scope="n = 1..3, K = 2, unit and Householder bases; every w > 0, q, leak d and bits",
            build=_cases([one_hot_basis(2), one_hot_basis(1), householder_basis([1, 2, 2])]),
        ),
        rounds(
            name="one-round-8",
            scope="n = 4, 8 and 3 vectors in Q^4, K = 2; every w > 0, q, leak d and bits",
            build=_cases([one_hot_basis(4), one_hot_basis(8), householder_basis([1, 2, 3, 1], 3)]),
            quick=False,
        ),
        patterns(
            name="bit-patterns",
            scope="n = 2, T = 2, K = 2; eps and the leak indeterminate",
            build=_cases([one_hot_basis(2)]),
            prove=partial(prove_patterns, rounds=2),
            mutants=pattern_mutants,
        ),
        patterns(
            name="bit-patterns-3",
            scope="n = 3, T = 3, K = 2; eps and the leak indeterminate",
            build=_cases([one_hot_basis(3)]),
            prove=partial(prove_patterns, rounds=3),
            mutants=pattern_mutants,
            quick=False,
        ),
        whole(name="runs", scope=NAMED, build=quick_runs),
        whole(name="runs-40", scope=f"{NAMED}, 40 rounds in rotated bases", build=runs, quick=False),
        Claim(
            THEOREM,
            "inequalities",
            "W' <= (1 - eps/2) W after a mistake, W' = (1 - eps l) W always, -ln(1 - eps) <= eps + eps^2 up to 1/2",
            "all n, K, weights and eps in (0, 1)",
            Assurance.INDUCTIVE,
            (MAJORITY, "ln(1 + x) <= x; a function with non-negative derivative does not fall"),
            Inequalities,
            prove_inequalities,
            mutants=inequality_mutants,
        ),
        Claim(
            THEOREM,
            "bounds",
            "the program's mistakes are within the potential and textbook bounds, expected ones in the randomised",
            NAMED,
            Assurance.EXACT,
            (*assumptions, MAJORITY),
            hard,
            with_rounds(prove_bounds, majority),
        ),
    ]
