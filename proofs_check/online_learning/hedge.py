"""online.hedge: whole runs with rational losses, exact by formal logarithms."""

from __future__ import annotations

from constructions.online_learning.hedge import THEOREM
from constructions.online_learning.weighted_majority import ASSUMPTIONS

from ..claim import Assurance, Claim
from ..instances import NAMED, InstanceSource
from .runs import prove_runs
from .weighted_majority import EXPONENTIAL


def claims(runs: InstanceSource) -> list[Claim]:
    """The claims of online.hedge; the instances come from the caller."""
    return [
        Claim(
            THEOREM,
            "runs",
            "state, distribution and clean fields equal Hedge, w_i <- w_i b^{l_i}, in every round",
            NAMED,
            Assurance.EXACT,
            (*ASSUMPTIONS, EXPONENTIAL, "losses are multiples of 1/D and b = r^D, so that weights are rational"),
            runs,
            prove_runs,
        )
    ]
