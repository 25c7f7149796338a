"""td.bits: how many bits a context with error e needs, and codes that have so many up to a constant (Thm C.1).

Tasks have |r|_inf <= 1; g, n, L and e are public. A code word must give every v_l(i), l <= L, within e. Two codes, the
shorter of which is taken; both round once and are read by executors of this project in exact arithmetic.

values: keep round(v_l 2^b) for l = 1..m, and answer v~_m beyond m. The error is at most

        2^-(b+1) + mass(m, L),          mass(m, L) = sum_{m<=j<L} g^j ,

    because |v_l - v_m|_inf <= mass(m, l). Each |v_l|_inf <= mass(0, m), so a number takes the bits of an integer
    between -Q and Q, Q = floor(mass(0, m) 2^b + 1/2). With m ~ min{L, log 1/e} this is n min{L, log 1/e} log 1/e up
    to constants.

model: keep C = floor(A 2^b) / 2^b and s = round(r 2^b) / 2^b, and iterate u_{l+1} = s + C u_l. From

        v_{l+1} - u_{l+1} = (r - s) + (A - C) v_l + C (v_l - u_l)

    and 0 <= C <= A entrywise, hence |C|_inf <= g, |A - C|_inf <= n 2^-b and |v_l|_inf <= mass(0, l), the error at L is
    at most 2^-b sum_{l<L} g^{L-1-l} (1/2 + n mass(0, l)). This is n^2 log 1/e up to constants where n <= log 1/e.

Lower bound. States 0..h-1 form a chain i -> i-1, state 0 ends with reward 1; state u beyond moves to i with
probability P_ui and ends else, with reward r_u. Then v_1(u) = r_u and v_{i+2}(u) - v_{i+1}(u) = g^{i+1} P_ui. Let r_u
have levels in [-1, 1] more than 2e apart, and P_ui levels in [0, 1/h] more than 2e / g^{i+1} apart. At the first
coordinate in which two such tasks differ, earlier depths agree at u and this one differs by more than 2e: one answer
cannot serve both. So a code needs at least log2 of the number of tasks, n min{n, L, log 1/e} log 1/e up to a constant
that depends on g.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat

from ..arithmetic import Arithmetic, Array
from ..construction import Construction
from ..errors import BadInput
from ..exact import RATIONALS
from ..layers import Repeat
from ..layout import Layout, Size
from ..program import Program
from ..task import Task, TaskClass, exact_discount
from ..tokens import Tokens
from . import executor, sample_and_hold
from .krylov import check_build
from .midpoint_hold import difference_layer
from .minimax import mass

THEOREM = "td.bits"
SOURCE = "Thm C.1; codes and packing are this project's"
ASSUMPTIONS = (
    "rewards are bounded: |r|_inf <= 1",
    "g, n, L and e are public, so is the format of a code word",
    "executors run in exact arithmetic on the numbers decoded",
)


def _largest_reward(task: Task) -> str | None:
    largest = max(abs(Fraction(int(x.p), int(x.q))) for x in task.r.entries())
    return f"a mean reward of magnitude {largest}" if largest > 1 else None


BOUNDED = TaskClass("bounded rewards", "full coverage; |r|_inf <= 1", _largest_reward)


@dataclass(frozen=True)
class Budget:
    """The public format of a code word.

    Attributes:
        n: states.
        depth: L.
        discount: g.
        error: e, what the answers may be off by.
        kind: "values" or "model".
        kept: m, the depths that are kept (values), or n (model).
        fraction: b, bits after the binary point.
    """

    n: int
    depth: int
    discount: Fraction
    error: Fraction
    kind: str
    kept: int
    fraction: int

    @property
    def bound(self) -> Fraction:
        """What the answers are off by at most, as in the module's text."""
        unit = Fraction(1, 2**self.fraction)
        if self.kind == "values":
            return unit / 2 + mass(self.discount, self.kept, max(self.depth, self.kept))
        return unit * _spread(self.n, self.depth, self.discount)

    @property
    def groups(self) -> tuple[tuple[int, int], ...]:
        """(how many numbers, the largest integer Q) of each group: values; or entries of A and of r."""
        if self.kind == "values":
            return ((self.n * self.kept, _nearest(mass(self.discount, 0, self.kept) * 2**self.fraction)),)
        return (self.n**2, math.floor(self.discount * 2**self.fraction)), (self.n, 2**self.fraction)

    @property
    def widths(self) -> tuple[int, ...]:
        """Bits of a number of each group: integers from -Q to Q, but from 0 to Q for the entries of A."""
        signed = [True] if self.kind == "values" else [False, True]
        return tuple((top * (1 + s)).bit_length() for (_, top), s in zip(self.groups, signed, strict=True))

    @property
    def bits(self) -> int:
        """Length of a code word."""
        return sum(count * width for (count, _), width in zip(self.groups, self.widths, strict=True))


def _nearest(x: Fraction) -> int:
    return math.floor(x + Fraction(1, 2))


def _spread(n: int, depth: int, g: Fraction) -> Fraction:
    """sum_{l<L} g^{L-1-l} (1/2 + n mass(0, l)) by the recursion of the error itself."""
    total, largest = Fraction(0), Fraction(0)
    for _ in range(depth):
        total = g * total + Fraction(1, 2) + n * largest
        largest = 1 + g * largest
    return total


def _fraction_bits(units: Fraction, error: Fraction) -> int:
    """The least b >= 0 with units 2^-b <= error."""
    ratio = math.ceil(units / error)
    return max(ratio - 1, 0).bit_length()


def value_budgets(n: int, depth: int, discount: Any, error: Any) -> Iterator[Budget]:
    """The codes by values that meet e, one for each m up to the first whose tail takes at most half of e."""
    g, e = exact_discount(discount), _positive_error(error)
    for m in range(1, depth + 1):
        tail = mass(g, m, depth)
        if tail < e:
            yield Budget(n, depth, g, e, "values", m, _fraction_bits(Fraction(1, 2), e - tail))
            if 2 * tail <= e:
                return


def model_budget(n: int, depth: int, discount: Any, error: Any) -> Budget:
    """The code by A and r that meets e."""
    g, e = exact_discount(discount), _positive_error(error)
    return Budget(n, depth, g, e, "model", n, _fraction_bits(_spread(n, depth, g), e))


def budget(n: int, depth: int, discount: Any, error: Any) -> Budget:
    """The shortest of these codes.

    Raises:
        BadInput: a size that is not a positive int, a discount outside (0, 1), or an error that is not positive.
    """
    check_build(THEOREM, n, depth, 1, 1)
    found = [*value_budgets(n, depth, discount, error), model_budget(n, depth, discount, error)]
    return min(found, key=lambda x: x.bits)


def _positive_error(value: Any) -> Fraction:
    error = Fraction(value)
    if error <= 0:
        raise BadInput(f"{THEOREM}: expected a positive error, found {value}")
    return error


def kept_numbers(task: Task, form: Budget) -> list[Fraction]:
    """What a code word holds, before rounding: v_1, .., v_m; or A by rows, then r."""
    if form.kind == "values":
        values = executor.td_values(task, form.kept, RATIONALS)
        exact = values.entries()[task.n :]
    else:
        exact = [*task.A.entries(), *task.r.entries()]
    return [Fraction(int(x.p), int(x.q)) for x in exact]


def encode_word(task: Task, form: Budget) -> str:
    """The code word of a task: its numbers one after the other, each as an unsigned integer of fixed width.

    Raises:
        BadInput: another number of states or another discount, or a reward beyond 1.
    """
    if (task.n, task.discount) != (form.n, form.discount):
        wanted, found = (form.n, str(form.discount)), (task.n, str(task.discount))
        raise BadInput(f"{task.name}: expected (n, g) = {wanted}, as the code was made for, found {found}")
    BOUNDED.require(task)
    scaled = iter([x * 2**form.fraction for x in kept_numbers(task, form)])
    parts = []
    for place, ((count, top), width) in enumerate(zip(form.groups, form.widths, strict=True)):
        entries_of_A = form.kind == "model" and place == 0
        for x in itertools.islice(scaled, count):
            number = math.floor(x) if entries_of_A else _nearest(x) + top
            parts.append(format(number, f"0{width}b") if width else "")
    return "".join(parts)


def decode_word(word: str, form: Budget) -> list[Fraction]:
    """The numbers of a code word.

    Raises:
        BadInput: a word of another length.
    """
    if len(word) != form.bits:
        raise BadInput(f"code word: expected {form.bits} bits, found {len(word)}")
    numbers, start = [], 0
    for place, ((count, top), width) in enumerate(zip(form.groups, form.widths, strict=True)):
        shift = 0 if form.kind == "model" and place == 0 else top
        for _ in range(count):
            numbers.append(Fraction(int(word[start : start + width] or "0", 2) - shift, 2**form.fraction))
            start += width
    return numbers


def _rows(numbers: list[Fraction], width: int) -> fmpq_mat:
    entries = [fmpq(x.numerator, x.denominator) for x in numbers]
    return fmpq_mat(len(numbers) // width, width, entries)


def value_program(n: Size, m: int, depth: Size) -> Program:
    """Values to increments in one layer, then the executor of td.sample-and-hold; width n + 3."""
    layers = (*difference_layer(m), Repeat(sample_and_hold.hold_step(), depth))
    return Program("executor of rounded values", Layout(x=n, r=1, c=1, one=1), ("slot", "query"), layers)


def word_tokens(word: str, form: Budget, arithmetic: Arithmetic) -> Tokens:
    """The tokens that a code word stands for, and one query a state."""
    n, numbers = form.n, decode_word(word, form)
    if form.kind == "model":
        C, s = _rows(numbers[: n * n], n), _rows(numbers[n * n :], n)
        context = RATIONALS.stack([[RATIONALS.one_hot(range(n), n)], [C.transpose()], [s]])
        return executor.context_tokens(arithmetic.matrix(context.tolist()), n, arithmetic)
    m = form.kept
    slots = {
        "x": arithmetic.matrix(_rows(numbers, n).transpose().tolist()),
        "one": arithmetic.matrix([[1] * m]),
        "r": arithmetic.matrix([list(range(m))]),
        "c": arithmetic.matrix([[a - 1 for a in range(m)]]),
    }
    return Tokens({}, {}).with_kind("slot", m, **slots).with_kind("query", n, x=arithmetic.one_hot(range(n), n))


def decoded_values(word: str, form: Budget, arithmetic: Arithmetic) -> Array:
    """The answers by direct iteration on the numbers decoded, rows l = 0..L, shape (L + 1, n)."""
    n, depth, numbers = form.n, form.depth, decode_word(word, form)
    if form.kind == "values":
        rows = [[0] * n, *_rows(numbers, n).tolist()]
        return arithmetic.matrix([rows[min(l, form.kept)] for l in range(depth + 1)])
    C, s = arithmetic.matrix(_rows(numbers[: n * n], n).tolist()), arithmetic.matrix([[x] for x in numbers[n * n :]])
    u = arithmetic.matrix([[0]] * n)
    columns = [u]
    for _ in range(depth):
        u = arithmetic.add(s, arithmetic.matmul(C, u))
        columns.append(u)
    return arithmetic.transpose(arithmetic.stack([columns]))


def construction(form: Budget) -> Construction:
    """From a task through its code word to answers at every state and depth, shape (L + 1, n)."""
    n, depth = form.n, form.depth
    program = executor.executor_program(n, depth) if form.kind == "model" else value_program(n, form.kept, depth)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return word_tokens(encode_word(task, form), form, arithmetic)

    def reference(task: Task, arithmetic: Arithmetic) -> Array:
        return decoded_values(encode_word(task, form), form, arithmetic)

    sizes = {"n": n, "L": depth, "kept": form.kept, "b": form.fraction}
    return executor.evaluator(
        THEOREM, sizes, program, encode, ASSUMPTIONS, SOURCE, task_class=BOUNDED, reference=reference
    )


@dataclass(frozen=True)
class Packing:
    """A set of tasks any two of which differ by more than 2e at some state and depth.

    Attributes:
        n, depth, discount, error: as in `Budget`.
        chain: h, the length of the chain.
        rewards: number of levels of r_u.
        levels: number of levels of P_ui for i = 0..h-1.
    """

    n: int
    depth: int
    discount: Fraction
    error: Fraction
    chain: int
    rewards: int
    levels: tuple[int, ...]

    @property
    def choices(self) -> int:
        """How many ways there are for one state beyond the chain."""
        return self.rewards * math.prod(self.levels)

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return self.choices ** (self.n - self.chain)

    @property
    def bits(self) -> int:
        """log2 of the number of tasks, rounded down to a 16th of a bit a state, then to a bit: what any code needs."""
        return (self.n - self.chain) * ((self.choices**16).bit_length() - 1) // 16

    def tasks(self) -> Iterator[Task]:
        """All of them, as logs."""
        h, top = self.chain, self.n - self.chain
        own = [range(self.rewards), *(range(t) for t in self.levels)]
        for number, choice in enumerate(itertools.product(itertools.product(*own), repeat=top)):
            yield self._task(choice, f"packing(n={self.n}, L={self.depth}, h={h}), task {number}")

    def _task(self, choice: tuple[tuple[int, ...], ...], name: str) -> Task:
        h = self.chain
        states, successors, rewards, terminal = [], [], [], []
        for i in range(h):
            states.append(i)
            successors.append(max(i - 1, 0))
            rewards.append(Fraction(int(i == 0)))
            terminal.append(i == 0)
        common = max(h, 1) * math.lcm(*(max(t - 1, 1) for t in self.levels))
        for u, (level, *shares) in enumerate(choice, start=h):
            reward = Fraction(2 * level, max(self.rewards - 1, 1)) - 1
            times = [common // h * j // max(t - 1, 1) for j, t in zip(shares, self.levels, strict=True)]
            after = [i for i, count in enumerate(times) for _ in range(count)]
            ends = common - len(after)
            states += [u] * common
            successors += after + [0] * ends
            rewards += [reward] * common
            terminal += [False] * len(after) + [True] * ends
        return Task(
            np.array(states),
            np.array(successors),
            np.array(rewards, dtype=object),
            np.array(terminal),
            self.n,
            self.discount,
            name,
        )


def packing(n: int, depth: int, discount: Any, error: Any, chain: int | None = None) -> Packing:
    """The set with the most levels for a chain of length h < min(n, L); for the best h where none is given.

    Raises:
        BadInput: as `budget`, or a chain that is not shorter than min(n, L).
    """
    check_build(THEOREM, n, depth, 1, 1)
    g, e = exact_discount(discount), _positive_error(error)
    rewards = max(math.ceil(1 / e), 1)
    if chain is not None and not 0 <= chain < min(n, depth):
        raise BadInput(f"{THEOREM}: expected a chain shorter than min(n, L) = {min(n, depth)}, found {chain}")
    best, most = Packing(n, depth, g, e, 0, rewards, ()), n * math.log2(rewards)
    ranges: list[Fraction] = []
    for h in range(1, min(n, depth)):
        ranges.append((ranges[-1] if ranges else 1 / (2 * e)) * g)
        levels = tuple(max(-(-x.numerator // (x.denominator * h)), 1) for x in ranges)
        # Only the choice of h rests on a float: every h gives a packing.
        found = Packing(n, depth, g, e, h, rewards, levels)
        if h == chain:
            return found
        size = (n - h) * math.log2(found.choices)
        if size > most and chain is None:
            best, most = found, size
        elif levels[-1] == 1 and chain is None:
            break
    return best
