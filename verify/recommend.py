"""`verify context --tolerance`: the least context of every scheme for an error allowed, on this log and on all logs."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from constructions.errors import BadInput
from numerics.temporal_difference.recommend import LIMIT, recommend
from numerics.temporal_difference.registers import sparse_model

NAMES = {
    "projection": "Krylov projection",
    "truncation": "Krylov truncation",
    "sample_and_hold": "sample-and-hold",
    "anchored_prefix": "anchored, prefix",
    "anchored_residual": "anchored, residual",
    "midpoint_hold": "midpoint hold",
    "exact": "exact context",
}


def tolerance_of(text: str) -> float:
    """The tolerance as a float.

    Raises:
        BadInput: not a positive finite number.
    """
    try:
        value = float(Fraction(text))
    except (ValueError, OverflowError, ZeroDivisionError):
        raise BadInput(f"tolerance: expected a positive finite number such as 1/10 or 0.1, found {text!r}") from None
    if value <= 0:
        raise BadInput(f"tolerance: expected a positive finite number, found {text}")
    return value


def recommendation(task: Any, depth: int, tolerance: float, k: int) -> dict[str, Any]:
    """What to keep for a tolerance.

    Args:
        task: a log of states.
        depth: L.
        tolerance: largest error allowed, in the units of the values.
        k: the exact Krylov dimension at L.

    Returns:
        Ready for JSON: the tolerance, R = max |r|, and per scheme the least m on this log, its error there, the bound
        over all logs with the same g, L and R at that m, and the least m whose bound is within the tolerance.

    Raises:
        BadInput: a tolerance that is not a positive finite number.
    """
    A, r = sparse_model(task)
    found = recommend(A, r, task.discount, depth, tolerance, k)
    schemes = [{**asdict(x), "name": NAMES[x.scheme]} for x in found]
    usable = [x for x in found if x.m is not None]
    return {
        "tolerance": tolerance,
        "reward_bound": float(np.abs(r).max(initial=0.0)),
        "limit": LIMIT,
        "schemes": schemes,
        "least": NAMES[min(usable, key=lambda x: x.m or 0).scheme],
    }


def render_recommendation(result: dict[str, Any], console: Console) -> None:
    """Print a result of `recommendation` as one table."""
    bound = f"{result['reward_bound']:.3g}"
    table = Table(title=f"Least context for an error of at most {result['tolerance']:.3g} (rewards up to {bound})")
    for heading in ("scheme", "m, this log", "error on it", "bound at m, all logs", "m, all logs"):
        table.add_column(heading, justify="left" if heading == "scheme" else "right")
    for row in result["schemes"]:
        error, guarantee = ("-" if row[key] is None else f"{row[key]:.2e}" for key in ("error", "guarantee"))
        sizes = ("-" if row[key] is None else str(row[key]) for key in ("m", "m_all"))
        here, everywhere = sizes
        table.add_row(row["name"], here, error, guarantee, everywhere)
    console.print(table)
