"""Records of a round in chambers: the program in symbols of known sign, at places (s, a, s'), in every order there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sympy as sp

from constructions.online_learning.action_values import Rates
from constructions.online_learning.q_learning import program

from ..program_documents import Record, program_document
from .round_records import VALUES, control, plain

if TYPE_CHECKING:
    from .q_round import QCase

ALPHA, DISCOUNT, BOUND = (sp.Symbol(f"+{name}") for name in ("alpha", "g", "B"))
GATE = ALPHA * (sp.Symbol("0p") + sp.Symbol("0q")) / 2
"""D; names that begin with + are positive, those with 0 not negative."""
Place = tuple[int, int, int]
LARGEST, SAMPLED = 30, 16
"""Chambers of a record of all places, and of one of some places, unless a single place has more."""


def chambers_record(case: QCase, counts: Mapping[str, int]) -> Record:
    """The round of a case as built, for a re-checker that makes the tables itself."""
    A = len(case.names)
    widths = len(case.states[0]), len(case.names[0])
    rates = Rates(A, *widths, ALPHA, DISCOUNT, BOUND, GATE, 1, case.states, case.names)
    built = program(case.variant, rates)
    U, V = ([[str(x) for x in row] for row in matrix] for matrix in (rates.U, rates.V))
    one = [["1"]]
    blocks: dict[str, Any] = {"bos.tB": one, "context.idC": V, "next.tN": one, "out.idU": V}
    blocks |= {f"{kind}.tX": one for kind in ("state", "action", "reward")}
    stated = control(ALPHA, DISCOUNT, A, ["max", VALUES]).document()
    stated["values"] |= {"U": U, "V": V}
    names = {"name": "names", "left": "V", "relation": "=", "right": "context.idC"}
    places, every = _places(case)
    return {
        "kind": "chambers",
        "part": f"{len(places)} of {every} places (s, a, s')",
        "widths": dict(built.layout.widths),
        "program": program_document(built.layers, built.layout.widths, counts),
        "tokens": {"counts": dict(counts), "blocks": blocks},
        "fine": case.variant == "relu_tree",
        "places": [list(place) for place in places],
        **plain("out"),
        **stated,
        "facts": [*stated["facts"], names],
    }


def _places(case: QCase) -> tuple[list[Place], int]:
    """Those that the case looks at, and how many they are; of large cases and in rotated bases up to three of them."""
    count = Counter((x.state, x.action, x.successor) for x in case.chambers())
    every = list(count)
    if count.total() <= LARGEST and len(case.states[0]) == len(case.states):
        return every, len(every)
    found: list[Place] = []
    for place in (every[min(len(every) // 2 + 1, len(every) - 1)], every[0], every[-1]):
        if not found or sum(count[x] for x in {*found, place}) <= SAMPLED:
            found.append(place)
    return list(dict.fromkeys(found)), len(every)
