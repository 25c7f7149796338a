"""Mistake bounds of weighted majority: per-round inequalities for all n, and the bounds on exact runs (theory B1).

Let W be the total weight, W_y that of the label y that occurs, x = eps. Then W' = W - x (W - W_y).

    potential    The learner follows the largest mass, so at a mistake W_y <= W_k, W = 2 W_y + (W_k - W_y) + others,
                 and (1 - x/2) W - W' = x/2 ((W_k - W_y) + others) >= 0.
                 With W'_T >= (1 - x)^{m*} w_*: M <= (ln n + m* ln 1/(1-x)) / ln 1/(1-x/2) from equal weights.
    randomised   With l = (W - W_y)/W the chance of a mistake, W' = (1 - x l) W, and ln(1 - x l) <= -x l gives
                 E[M] <= (m* ln 1/(1-x) + ln n)/x.
    textbook     For x <= 1/2: -ln(1 - x) <= x + x^2, as x + x^2 + ln(1 - x) is 0 at 0 and its derivative times 1 - x is
                 x (1 - 2x) >= 0; and -ln(1 - x/2) >= x/2. So M <= 2 (1 + x) m* + 2 ln n / x.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

from flint import Ordering, arb, fmpq, fmpq_mpoly_ctx

from constructions.online_learning.experts import ExpertTask
from constructions.online_learning.regret import bounds, record

from ..claim import Finding, Verdict
from ..facts import Facts, Shapes
from ..instances import Instance
from ..mutants import Mutant
from ..program_documents import Record
from .bound_records import potential_record


@dataclass(frozen=True)
class Inequalities:
    """The constants of the three bounds, as stated.

    Attributes:
        contraction: c in W' <= (1 - c x) W after a mistake.
        expected: c in W' = (1 - c x l) W in every round.
        square: c in -ln(1 - x) <= x + c x^2 for x <= limit.
        limit: the largest x of the textbook bound.
    """

    contraction: Fraction = Fraction(1, 2)
    expected: Fraction = Fraction(1)
    square: Fraction = Fraction(1)
    limit: Fraction = Fraction(1, 2)


def prove_inequalities(stated: Inequalities) -> Finding:
    """Each of them as an identity of polynomials with a remainder that is a sum of products of what is >= 0."""
    finding = Finding.all_of(
        {"potential": _potential(stated), "randomised": _randomised(stated), "textbook": _textbook(stated)}
    )
    return replace(finding, records=(_facts(stated),)) if finding.verdict is Verdict.PROVED else finding


def _facts(stated: Inequalities) -> Record:
    """The same in indeterminates that are not negative; `slack` is how far x is below the limit."""
    facts = Facts(Shapes())
    x, right, lead, others, slack = (facts.generic(f"0{name}") for name in ("x", "right", "lead", "others", "slack"))
    c, d, s = stated.contraction, stated.expected, stated.square
    total = 2 * right + lead + others
    facts.relate("potential", total - x * (total - right), "<=", (1 - c * x) * total)
    facts.equal("randomised", right + (1 - x) * lead, right + lead - d * x * lead)
    facts.equal("textbook", (1 + 2 * s * x) * (1 - x) - 1, x * (2 * s - 1 - 2 * s * x))
    facts.relate("textbook, second factor", facts.fill(0, 1, 1), "<=", 2 * s - 1 - 2 * s * (stated.limit - slack))
    return facts.record()


def _ring(*names: str) -> tuple[Any, ...]:
    return fmpq_mpoly_ctx.get(list(names), Ordering.degrevlex).gens()


def _q(x: Fraction) -> fmpq:
    return fmpq(x.numerator, x.denominator)


def _potential(stated: Inequalities) -> Finding:
    x, mass, lead, others = _ring("x", "W_y", "lead", "others")
    total = 2 * mass + lead + others
    rest = (1 - _q(stated.contraction) * x) * total - (total - x * (total - mass))
    if all(c >= 0 for c in rest.to_dict().values()):
        nonnegative = "x, W_y, lead = W_k - W_y, others"
        return Finding(Verdict.PROVED, {"(1 - x/2) W - W'": str(rest), "where >= 0": nonnegative})
    for point in product((fmpq(1, 2),), (0, 1), (0, 1), (0, 1)):
        if rest(*point) < 0:
            found = {"x": "1/2", "W_y": point[1], "lead": point[2], "others": point[3]}
            return Finding(Verdict.REFUTED, {"counterexample": found, "found": str(rest(*point)), "expected": ">= 0"})
    return Finding(Verdict.UNDECIDED, {"missing": f"the sign of {rest}"})


def _randomised(stated: Inequalities) -> Finding:
    x, right, wrong = _ring("x", "right", "wrong")
    difference = (right + (1 - x) * wrong) - (right + wrong) + _q(stated.expected) * x * wrong
    if difference == 0:
        return Finding(Verdict.PROVED, {"W'": "(1 - x l) W with l = wrong/(right + wrong)"})
    return Finding(Verdict.REFUTED, {"found": str(difference), "expected": "0"})


def _textbook(stated: Inequalities) -> Finding:
    (x,) = _ring("x")
    c, limit = _q(stated.square), _q(stated.limit)
    slope = (1 + 2 * c * x) * (1 - x) - 1
    # slope = x (2c - 1 - 2c x), and the second factor is linear: its ends decide.
    second = 2 * c - 1 - 2 * c * x
    if slope != x * second:
        return Finding(Verdict.UNDECIDED, {"missing": f"the factors of {slope}"})
    if all(second(end) >= 0 for end in (fmpq(0), limit)):
        return Finding(Verdict.PROVED, {"(1 - x) d/dx (x + c x^2 + ln(1 - x))": str(slope), "x up to": str(limit)})
    end = arb(limit)
    if end + arb(c) * end * end + (1 - end).log() < 0:
        return Finding(Verdict.REFUTED, {"counterexample": {"x": str(limit)}, "expected": "-ln(1 - x) <= x + c x^2"})
    return Finding(Verdict.UNDECIDED, {"missing": f"the sign of {slope} up to {limit}"})


def inequality_mutants(stated: Inequalities) -> Iterator[Mutant]:
    """Constants that promise more."""
    changes: dict[str, dict[str, Fraction]] = {
        "contraction 1 - x": {"contraction": Fraction(1)},
        "contraction 1 - 2x/3": {"contraction": Fraction(2, 3)},
        "expected loss halved": {"expected": Fraction(1, 2)},
        "expected loss doubled": {"expected": Fraction(2)},
        "half the square": {"square": Fraction(1, 2)},
        "x up to 9/10": {"limit": Fraction(9, 10)},
    }
    for text, change in changes.items():
        yield Mutant("constant", text, replace(stated, **change))


def prove_bounds(instances: Sequence[Instance]) -> Finding:
    """Mistakes of the program within the bounds, and the potential inequality in every round, exactly."""
    lines, records = [], []
    for instance in instances:
        task = instance.task
        assert isinstance(task, ExpertTask)
        found = record(instance.construction, task)
        limits = bounds(task, found.best)
        where = {"task": task.name, "M": found.mistakes, "m*": found.best}
        if not found.potential_holds:
            return Finding(Verdict.REFUTED, {**where, "expected": "W' <= (1 - eps/2) W after every mistake"})
        for name, limit in limits.items():
            value = arb(_q(found.expected)) if name == "randomised" else arb(found.mistakes)
            if not value <= limit:
                refuted = Verdict.REFUTED if value > limit else Verdict.UNDECIDED
                return Finding(refuted, {**where, "missing": name, "found": str(value), "expected": f"<= {limit}"})
        ratio = arb(found.mistakes) / limits["potential"]
        lines.append({**where, "M / bound": str(ratio.mid().str(4, radius=False))})
        if task.outcomes == 2:
            records.append(potential_record(task, found.decisions, found.best))
    return Finding(Verdict.PROVED, {"runs": lines}, tuple(records))
