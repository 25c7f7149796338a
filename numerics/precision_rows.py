"""Rows of the precision figures: ours beside those of theory B4 and C3, as single figures or as a spread over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from statistics import median
from typing import Any

import numpy as np

Row = dict[str, Any]


class Rows:
    """Collects rows with the keys name, quantity, setting, source, ours, agrees, reason, seed, and drawings."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rows = seed, list[Row]()

    def seeds(self, count: int) -> range:
        """So many seeds, from that of the rows."""
        return range(self.seed, self.seed + count)

    def add(
        self, quantity: str, setting: str, ours: Any, source: Any = None, agrees: bool | None = None, reason: str = ""
    ) -> None:
        """One row; a numeric figure of the source agrees within a factor of 3 where nothing else is said."""
        if agrees is None and isinstance(source, (int, float)) and isinstance(ours, (int, float)):
            agrees = bool(source / 3 <= ours <= source * 3) if source else ours == 0
        self.rows.append(
            {
                "name": "precision",
                "quantity": quantity,
                "setting": setting,
                "source": "none" if source is None else source,
                "ours": ours,
                "agrees": agrees,
                "reason": "" if agrees or agrees is None else reason or "apart by more than a factor of 3",
                "seed": self.seed,
            }
        )

    def add_spread(self, quantity: str, setting: str, values: Iterable[float], source: str = "") -> None:
        """A row whose `ours` is the range over seeds; it agrees if the source's figure, as printed, lies within.

        Args:
            quantity: what was measured.
            setting: of the runs; number of seeds, the first of them and the median are added.
            values: one for each seed, from the rows' seed upwards.
            source: a decimal number such as "4.2e3", or "" for none.
        """
        found = sorted(map(float, values))
        text = f"{setting}; {len(found)} seeds from {self.seed}, median {median(found):.2g}"
        agrees = inside(source, found) if source else None
        reason = "the source's figure is outside the range over seeds"
        self.add(quantity, text, [found[0], found[-1]], float(source) if source else None, agrees, reason)

    def draw(self, title: str, x: str, y: str, places: Sequence[Any], lines: dict[str, Any], scale: str) -> None:
        """A drawing of lines, carried by the row added last."""
        figure = {"kind": "lines", "title": title, "x": x, "y": y, "scale": scale}
        self.rows[-1]["figure"] = {**figure, "places": list(places), "lines": lines}


def inside(figure: str, values: Sequence[float]) -> bool:
    """Whether a number that is rounded to the digits shown may lie between the least and the largest value."""
    shown = Decimal(figure)
    half = Decimal(5).scaleb(int(shown.as_tuple().exponent) - 1) if shown else Decimal(0)
    return Decimal(min(values)) <= shown + half and shown - half <= Decimal(max(values))


NAMES = ((0.2, "flat"), (0.75, "sqrt"), (1.5, "linear"), (float("inf"), "quadratic"))
"""Exponents of T up to each value have the name."""


def growth_of(at: Sequence[float], errors: Sequence[float]) -> tuple[float, str]:
    """The exponent of a power law fitted to errors at several T by least squares on logarithms, and its name."""
    slope = float(np.polyfit(np.log(at), np.log(errors), 1)[0])
    return slope, next(name for limit, name in NAMES if slope <= limit)
