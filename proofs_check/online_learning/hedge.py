"""online.hedge: all sizes by token types, a round from any state and losses, and whole runs with rational losses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from constructions.online_learning.experts import Basis, householder_basis, one_hot_basis
from constructions.online_learning.hedge import THEOREM, VARIANTS
from constructions.online_learning.weighted_majority import ASSUMPTIONS

from ..claim import Assurance, Claim
from ..instances import NAMED, InstanceSource
from .one_round import RoundCase, prove_rounds, round_mutants
from .round_records import hedging, with_rounds
from .runs import prove_runs
from .token_table import prove_table, table_case, table_mutants
from .weighted_majority import EXPONENTIAL

SAID = "an expert suffers the loss of the label that it says; Hedge has one expert a label, P = I"


def _cases(bases: Sequence[Basis]) -> list[RoundCase]:
    return [RoundCase(variant, basis, losses=True) for variant in VARIANTS for basis in bases]


def claims(runs: InstanceSource) -> list[Claim]:
    """The claims of online.hedge; the instances come from the caller."""
    claim = partial(Claim, THEOREM)
    return [
        claim(
            name="token-table",
            statement="a round: S' = S + e sum_i l_i u_i, O = P softmax(log w; biases of the foreign keys), else 0",
            scope="all n, K, d, orthonormal bases, log weights and losses l >= 0, all three realisations",
            assurance=Assurance.INDUCTIVE,
            assumptions=(*ASSUMPTIONS, EXPONENTIAL, SAID),
            build=lambda: [table_case(variant, losses=True) for variant in VARIANTS],
            prove=prove_table,
            mutants=table_mutants,
        ),
        claim(
            name="one-round",
            statement="from any log weights: new state, output W_k/(W + J d), its normalisation W_k/W, all else zero",
            scope="n = 1..3, K = 2, unit and Householder bases; every w > 0, q, leak d, predictions and losses > 0",
            assurance=Assurance.EXACT,
            assumptions=(*ASSUMPTIONS, EXPONENTIAL, SAID),
            build=lambda: _cases([one_hot_basis(2), one_hot_basis(1), householder_basis([1, 2, 2])]),
            prove=prove_rounds,
            mutants=round_mutants,
        ),
        claim(
            name="runs",
            statement="state, distribution and clean fields equal Hedge, w_i <- w_i b^{l_i}, in every round",
            scope=NAMED,
            assurance=Assurance.EXACT,
            assumptions=(
                *ASSUMPTIONS,
                EXPONENTIAL,
                "losses are multiples of 1/D and b = r^D, so that weights are rational",
            ),
            build=runs,
            prove=with_rounds(prove_runs, hedging),
        ),
    ]
