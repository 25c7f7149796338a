"""online.fixed-share: whole runs, exact."""

from __future__ import annotations

from constructions.online_learning.fixed_share import ASSUMPTIONS, THEOREM

from ..claim import Assurance, Claim
from ..instances import NAMED, InstanceSource, prove_instances


def claims(runs: InstanceSource) -> list[Claim]:
    """The claims of online.fixed-share; the instances come from the caller."""
    return [
        Claim(
            THEOREM,
            "runs",
            "state, raw and normalised output and clean fields equal Fixed-Share in every round",
            NAMED,
            Assurance.EXACT,
            ASSUMPTIONS,
            runs,
            prove_instances,
        )
    ]
