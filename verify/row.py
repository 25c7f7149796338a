"""One row of the catalogue: everything the tool knows about a theorem."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from constructions.construction import Construction
from constructions.errors import BadInput
from proofs_check.claim import Claim

if TYPE_CHECKING:
    from numerics.measurement import Measurement

ID = re.compile(r"[a-z0-9]+\.[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Options:
    """What a user chose for one run: profile, seed, device, number formats; g, m and L where a law asks for them."""

    quick: bool = False
    seed: int = 0
    device: str = "cpu"
    dtypes: tuple[str, ...] = ("float32", "float64")
    discount: str | None = None
    m: int | None = None
    depth: int | None = None


@dataclass(frozen=True)
class Shown:
    """What `verify show` draws: a construction at small sizes, and how many tokens of each kind its pictures have."""

    construction: Construction
    counts: dict[str, int]


def measured_by(module: str) -> Callable[[Options], Sequence[Measurement]]:
    """`measure` of a module in `numerics`, imported when it is called: it needs torch, which certifying does not."""

    def measure(options: Options) -> Sequence[Measurement]:
        room = importlib.import_module(f"numerics.{module}")
        return room.measure(options.seed, options.quick, options.device, options.dtypes)

    return measure


def no_measurements(options: Options) -> list[Measurement]:
    """For a theorem that has none."""
    return []


@dataclass(frozen=True)
class Row:
    """A theorem of the catalogue. A module given by `--module` offers rows of its own in a list called `ROWS`.

    Attributes:
        theorem: id, wing.module with hyphens.
        title: one line.
        source: theorem number and origin.
        docs: a paragraph for readers: what is built, what is proved, what was found.
        show: (states, depth) -> the construction at these sizes.
        claims: options -> its claims, instances drawn with the seed.
        measure: options -> its measurements.
        show_actions: (states, actions) -> the construction at these sizes; None where it has no actions.
    """

    theorem: str
    title: str
    source: str
    docs: str
    show: Callable[[int, int], Shown]
    claims: Callable[[Options], Sequence[Claim]]
    measure: Callable[[Options], Sequence[Measurement]] = field(default=no_measurements)
    show_actions: Callable[[int, int], Shown] | None = None

    def __post_init__(self) -> None:
        if not ID.fullmatch(self.theorem):
            raise BadInput(f"catalogue: expected an id such as td.executor, found {self.theorem!r}")

    def shown(self, states: int, depth: int, actions: int | None = None) -> Shown:
        """The construction at these sizes.

        Raises:
            BadInput: actions are given, and it has none.
        """
        if actions is None:
            return self.show(states, depth)
        if self.show_actions is None:
            raise BadInput(f"{self.theorem}: expected no --actions, as it has none, found {actions}")
        return self.show_actions(states, actions)
