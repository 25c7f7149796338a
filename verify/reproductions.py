"""The reproductions by name: the sources' figures beside ours."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from constructions.errors import BadInput

from . import long_runs

Reproduce = Callable[[bool, int, str], list[dict[str, Any]]]
"""(quick, seed, device) -> rows that hold the source's figure beside ours."""


def made_by(module: str, function: str) -> Reproduce:
    """A function of a module in `numerics`, imported when it is called."""

    def reproduce(quick: bool, seed: int, device: str) -> list[dict[str, Any]]:
        return getattr(importlib.import_module(f"numerics.{module}"), function)(quick, seed, device)

    return reproduce


REPRODUCTIONS: dict[str, Reproduce] = {
    "exactness": made_by("temporal_difference.exactness", "reproduce_exactness"),
    "predecessors": made_by("temporal_difference.full_context", "reproduce_predecessors"),
    "error-law": made_by("temporal_difference.thresholds", "reproduce_error_law"),
    "thresholds": made_by("temporal_difference.thresholds", "reproduce_thresholds"),
    "memory": made_by("temporal_difference.memory", "reproduce_memory"),
    "conditioning": made_by("temporal_difference.conditioning", "reproduce_conditioning"),
    "bits": made_by("temporal_difference.bits", "reproduce_bits"),
    "policy-class": made_by("temporal_difference.policy_class", "reproduce_policy_class"),
    "recovery": long_runs.recovery,
    "bottleneck": long_runs.bottleneck,
    "precision": made_by("precision_limits", "reproduce_precision"),
    "delta-rule": made_by("recurrent.delta_rule", "reproduce_delta_rule"),
    "regret": made_by("online_learning.weighted_majority", "reproduce_regret"),
    "softmax-temperature": made_by("online_learning.q_learning", "reproduce_temperature"),
    "online-environments": made_by("online_learning.environments", "reproduce_environments"),
}


def chosen_reproductions(names: Sequence[str]) -> list[str]:
    """The reproductions named.

    Raises:
        BadInput: an unknown name, or none.
    """
    for name in names:
        if name not in REPRODUCTIONS:
            raise BadInput(f"reproduction: expected one of {', '.join(REPRODUCTIONS)}, found {name}")
    return [name for name in REPRODUCTIONS if name in set(names)]
