"""The roles that numbers play in a run, with a format for each, and the two models of rounding.

What is rounded to each: `input` the entries of tasks, `weight` public matrices, `accumulator` every product and partial
sum of an inner product (in order, from the first), `output` the results of products, inner products and primitives,
`state` sums with what a token holds already, whose operands are converted to it first. Two models: every operation
rounded (one format for all roles), and wide accumulation (a wider accumulator, one rounding after it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from numerics.formats import PRESETS, BinaryFormat, parse_format


@dataclass(frozen=True)
class Roles:
    """The format of each role, as in the module's text."""

    input: BinaryFormat
    weight: BinaryFormat
    state: BinaryFormat
    accumulator: BinaryFormat
    output: BinaryFormat

    def __str__(self) -> str:
        found = {field.name: str(getattr(self, field.name)) for field in fields(self)}
        if len(set(found.values())) == 1:
            return found["state"]
        usual = found["state"]
        return ", ".join([usual, *(f"{name} {x}" for name, x in found.items() if x != usual)])


def every(target: BinaryFormat | str) -> Roles:
    """Every operation rounded to one format."""
    given = parse_format(target) if isinstance(target, str) else target
    return Roles(given, given, given, given, given)


def wide(target: BinaryFormat | str) -> Roles:
    """Inner products accumulated in fp32 for formats of at most 11 bits, in fp64 up to 24, else with 2p + 64 bits."""
    given = parse_format(target) if isinstance(target, str) else target
    narrow, middle = given.precision <= 11, given.precision <= 24
    beyond = BinaryFormat(2 * given.precision + 64, -(2**20), 2**20)
    accumulator = PRESETS["fp32"] if narrow else PRESETS["fp64"] if middle else beyond
    return Roles(given, given, given, accumulator, given)


MODELS: dict[str, Callable[[BinaryFormat | str], Roles]] = {"every": every, "wide": wide}
"""Every operation rounded; wide accumulation."""
