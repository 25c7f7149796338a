"""Runs of the softmax executor with exact logarithms, and their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flint import fmpq_mat

from constructions.construction import Construction
from constructions.logarithms import Logarithms, UnfactoredField
from constructions.task import AnyTask
from constructions.tokens import Tokens

from ..claim import Finding, Verdict
from ..facts import Facts, Stated, values
from ..instances import Instance, prove_instances
from ..records import run_record

LARGEST_RECORDED = 2
"""States up to which runs have records."""


def with_logarithms(construction: Construction, task: AnyTask) -> fmpq_mat:
    """Run in Q with logarithms that are not factored; the answer must come out rational.

    Raises:
        Unsupported: it does not.
    """
    arithmetic = Logarithms(UnfactoredField())
    return arithmetic.rationals(construction.outputs(task, arithmetic))


def _stated(instance: Instance) -> Stated:
    """The answer is v_l at every state."""

    def stated(arithmetic: Any, before: Tokens, after: Tokens, answer: Any) -> Facts:
        f, task = Facts(), instance.task
        A, r = (f.value(name, getattr(task, name)) for name in "Ar")
        f.equal("v_l", f.named("answer", answer), values(f, A, r, int(instance.construction.sizes["L"])))
        return f

    return stated


def prove_steps(instances: Sequence[Instance]) -> Finding:
    """As `prove_instances` with logarithms; in the records of the smallest they are factored."""
    finding = prove_instances(instances, with_logarithms)
    if finding.verdict is not Verdict.PROVED:
        return finding
    small = [x for x in instances if x.task.size[0] <= LARGEST_RECORDED]
    runs = (run_record(replace(x.construction, algorithm=""), x.task, _stated(x), Logarithms()) for x in small)
    return replace(finding, records=tuple(run for run in runs if run is not None))
