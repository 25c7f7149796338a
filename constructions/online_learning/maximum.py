"""ReLU units of the Q-learning programs: the larger of each pair, and a number times two bits."""

from __future__ import annotations

from collections.abc import Sequence

from ..layers import Public, fixed
from ..layout import Size
from ..mlp import Map, Units
from .action_values import Rates, repeated_name, times

ONES = Public("ones", lambda rows, columns: [[1] * columns] * rows)


def levels(actions: Size) -> int:
    """ceil(log2 A), at least 1: the levels of a tree of pairs."""
    return max(1, (int(actions) - 1).bit_length())


def width_after(actions: int, level: int) -> int:
    """How many numbers are left after some levels: ceil(A / 2^level)."""
    return -(-actions // 2**level)


def tree_fields(actions: int) -> dict[str, Size]:
    """A field for the numbers after each level; the last is M."""
    return {_field(actions, level): width_after(actions, level) for level in range(1, levels(actions) + 1)}


def _field(actions: int, level: int) -> str:
    return "M" if level == levels(actions) else f"m{level}"


def tree_level(rates: Rates, level: int) -> tuple[Units, ...]:
    """max(x, y) = relu(y) - relu(-y) + relu(x - y) for each pair (x, y); a last one without partner is copied."""
    count = width_after(rates.actions, level - 1)
    left = width_after(rates.actions, level)
    kept = [[int(i == min(2 * j + 1, count - 1)) for i in range(count)] for j in range(left)]
    gaps = [[int(i == 2 * j) - int(i == 2 * j + 1) for i in range(count)] for j in range(count // 2)]
    out = _field(rates.actions, level)

    def read(name: str, rows: Sequence[Sequence[int]], scale: int = 1) -> tuple[Map, ...]:
        if level == 1:
            return (Map("qs", rates.selected(f"{name} V'", rows), scale),)
        return (Map(_field(rates.actions, level - 1), fixed(name, rows), scale),)

    keep = f"second of pairs {level}"
    groups = [Units(left, read(keep, kept, sign), (Map(out, scale=sign),)) for sign in (1, -1)]
    if gaps:
        to_pair = fixed(f"to pairs {level}", [[int(i == j) for j in range(len(gaps))] for i in range(left)])
        groups.append(Units(len(gaps), read(f"gaps {level}", gaps), (Map(out, to_pair),)))
    return tuple(groups)


def gated_update(rates: Rates) -> tuple[Units, ...]:
    """row += sum_s u_s c_s g x for x = alpha (rr + g M - Qsa), bits c_s = <u_s, us> and g; then everything else goes.

    With |x| <= D, relu(x - D(2 - c - g)) - relu(-x - D(2 - c - g)) is x where c = g = 1 and 0 else. The names of the
    actions, of which each output token has one, serve as bias.
    """
    by_state, by_action = rates.by_state, rates.by_action
    n = rates.count if rates.states is None else len(rates.states)
    alpha, D = rates.alpha, rates.gate
    discounted = times(alpha, rates.discount)
    bias = repeated_name(n, rates.any_action(), times(-2, D))
    gate = (Map("us", by_state, D), Map("g", ONES, D), Map("idU", bias))
    groups = []
    for sign in (1, -1):
        x = (
            Map("rr", ONES, times(sign, alpha)),
            Map("M", ONES, times(sign, discounted)),
            Map("Qsa", ONES, times(-sign, alpha)),
        )
        groups.append(Units(n, (*x, *gate), (Map("row", by_state.T, sign),)))
    for field, names in (("us", by_state), ("nx", by_state), ("va", by_action), ("idU", by_action)):
        units = n if names is by_state else rates.actions
        groups.append(Units(units, (Map(field, names),), (Map(field, names.T, -1),)))
    groups.append(Units(1, (Map("g"),), (Map("g", scale=-1),)))
    for field in ("rr", "M", "Qsa"):
        groups += [Units(1, (Map(field, scale=sign),), (Map(field, scale=-sign),)) for sign in (1, -1)]
    return tuple(groups)
