"""Softmax in place of hardmax: how far the mean under softmax(beta Q) is below the largest value, and what adds up.

With the largest value Q_1, w_b = exp(beta (Q_b - Q_1)) in (0, 1], w_1 = 1, Z = sum w_b >= 1 and p_b = w_b / Z,

    beta (max - sum p_b Q_b) = - sum p_b log w_b = H(p) - log Z <= ln A,             H(p) = - sum p_b log p_b,
                             = sum_{b > 1} x_b exp(-x_b) / Z    <= (A - 1)/e,        x_b = - log w_b >= 0.

So M is smaller than the largest value by at most e = min(ln A, (A - 1)/e)/beta, and never larger. If every entry of the
table is at most E below Q-learning's, with E = g e / (1 - g), it is so after the round as well:
(1 - alpha) E + alpha g (E + e) = E, as max and mean are monotone and move by at most E with the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import sympy as sp
from flint import Ordering, arb, fmpq, fmpq_mpoly_ctx

from constructions.exact import RATIONALS, Balls
from constructions.logarithms import FractionField, Logarithms
from constructions.online_learning.softmax_gap import accumulated_bound, gap_bound
from constructions.online_learning.transitions import ControlTask

from ..claim import Finding, Verdict
from ..facts import Facts, Shapes, stacked
from ..instances import Instance
from ..mutants import Mutant
from ..program_documents import Record

BITS = 256
ACTIONS = (1, 2, 3, 4)
"""Where the identity with the entropy is checked."""


@dataclass(frozen=True)
class Temperature:
    """The constants of the bound, as stated.

    Attributes:
        entropy: c in c ln A / beta.
        pairs: c in c (A - 1)/(e beta).
        accumulated: c in c g e / (1 - g).
    """

    entropy: Fraction = Fraction(1)
    pairs: Fraction = Fraction(1)
    accumulated: Fraction = Fraction(1)


def prove_gap(stated: Temperature) -> Finding:
    """The identity with the entropy, the two constants, and the invariant of a round."""
    parts = {"entropy": _entropy(stated), "pairs": _pairs(stated), "accumulated": _accumulated(stated)}
    finding = Finding.all_of(parts)
    return replace(finding, records=(_facts(stated),)) if finding.verdict is Verdict.PROVED else finding


def _facts(stated: Temperature) -> Record:
    """The invariant and the identity with the entropy, with indeterminates for p and the logarithms of w and Z."""
    facts = Facts(Shapes())
    alpha, g, e = (facts.generic(f"0{name}") for name in ("alpha", "g", "e"))
    c = stated.accumulated
    # Times 1 - g > 0, as above.
    kept = (1 - alpha) * c * g * e + alpha * g * (c * g * e + (1 - g) * e)
    facts.equal("accumulated", c * g * e - kept, (c - 1) * (alpha * g * e * (1 - g)))
    for A in ACTIONS:
        log_w, log_Z = facts.generic(f"log w {A}", A), facts.generic(f"log Z {A}")
        p = facts.fill(1, 1, 1)
        if A > 1:
            others = facts.generic(f"p {A}", A - 1)
            p = stacked(1 - facts.fill(1, 1, A - 1) @ others, others)
        surprise = facts.fill(1, A, 1) @ log_Z - log_w
        facts.equal(f"entropy, A = {A}", -(p.T @ log_w), p.T @ surprise - log_Z)
    return facts.record()


def _entropy(stated: Temperature) -> Finding:
    for A in ACTIONS:
        arithmetic = Logarithms(FractionField([f"w{b}" for b in range(1, A)] or ["w"]))
        w = [arithmetic.scalar(1), *(arithmetic.scalar(sp.Symbol(f"w{b}")) for b in range(1, A))]
        Z = sum(w[1:], w[0])
        logs = [arithmetic.log(arithmetic.matrix([[x]]))[0, 0] for x in (*w, Z)]
        p = [x / Z for x in w]
        gap = -sum((x * log for x, log in zip(p, logs[:-1], strict=True)), arithmetic.scalar(0))
        surprise = [logs[-1] - log for log in logs[:-1]]
        entropy = sum((x * s for x, s in zip(p, surprise, strict=True)), arithmetic.scalar(0))
        if gap != entropy - logs[-1]:
            return Finding(Verdict.REFUTED, {"A": A, "found": str(gap), "expected": "H(p) - log Z"})
    if stated.entropy >= 1:
        return Finding(Verdict.PROVED, {"identity": "beta (max - mean) = H(p) - log Z", "A": list(ACTIONS)})
    return _exceeds(stated, "ln A")


def _pairs(stated: Temperature) -> Finding:
    if stated.pairs >= 1:
        return Finding(Verdict.PROVED, {"each x exp(-x)": "at most 1/e, and Z >= 1"})
    return _exceeds(stated, "(A - 1)/e")


def _exceeds(stated: Temperature, what: str) -> Finding:
    """A table whose gap is larger than the bound as stated: one value on top, the others x below it."""
    with Balls(BITS).working():
        for A in (2, 10, 100, 1000, 10**6):
            for x in (arb(1), arb(2), arb(A).log(), arb(A).log() - arb(A).log().log() if A > 2 else arb(1)):
                weight = (A - 1) * (-x).exp()
                gap = x * weight / (1 + weight)
                if gap > gap_bound(A, Fraction(1), stated.entropy, stated.pairs):
                    found = {"A": A, "x": str(x.mid().str(6, radius=False))}
                    return Finding(
                        Verdict.REFUTED, {**found, "found": str(gap), "expected": f"at most the {what} bound"}
                    )
    return Finding(
        Verdict.UNDECIDED, {"missing": f"a table with a gap above, or a proof of, {what} with this constant"}
    )


def _accumulated(stated: Temperature) -> Finding:
    alpha, g, e = fmpq_mpoly_ctx.get(["alpha", "g", "e"], Ordering.degrevlex).gens()
    c = fmpq(stated.accumulated.numerator, stated.accumulated.denominator)
    # Times 1 - g > 0, with E = c g e / (1 - g): what is left of E after a round.
    left = c * g * e - ((1 - alpha) * c * g * e + alpha * g * (c * g * e + (1 - g) * e))
    if left == (c - 1) * alpha * g * e * (1 - g):
        verdict = Verdict.PROVED if c >= 1 else Verdict.REFUTED
        return Finding(verdict, {"(1 - g) (E - E')": f"{c - 1} alpha g e (1 - g)", "expected": ">= 0"})
    return Finding(Verdict.UNDECIDED, {"missing": f"the sign of {left}"})


def temperature_mutants(stated: Temperature) -> Iterator[Mutant]:
    """Constants that promise more."""
    changes: dict[str, dict[str, Fraction]] = {
        "half of ln A": {"entropy": Fraction(1, 2)},
        "half of (A - 1)/e": {"pairs": Fraction(1, 2)},
        "half of g/(1 - g)": {"accumulated": Fraction(1, 2)},
        "9/10 of g/(1 - g)": {"accumulated": Fraction(9, 10)},
    }
    for text, change in changes.items():
        yield Mutant("constant", text, replace(stated, **change))


def prove_within(instances: Sequence[Instance]) -> Finding:
    """In balls: after every round the table is below Q-learning's, by at most the accumulated bound; clean is exact."""
    lines = []
    for instance in instances:
        built, task = instance.construction, instance.task
        assert isinstance(task, ControlTask)
        beta = Fraction(str(built.sizes["beta"]))
        where = {"task": task.name, "sizes": {k: str(v) for k, v in built.sizes.items()}}
        exact = built.reference(task, RATIONALS).entries()
        width = task.actions * task.rounds
        with Balls(BITS).working() as balls:
            found = built.outputs(task, balls).entries()
            limit = accumulated_bound(task.actions, beta, task.discount)
            largest = arb(0)
            for k, (x, e) in enumerate(zip(found, exact, strict=True)):
                block, row = built.block_of(k // width)
                gap = arb(e) - x
                clean = block.startswith("clean")
                inside = gap.contains(0) if clean else (gap >= -_NOTHING and gap <= limit)
                if not inside:
                    outside = clean or bool(gap < 0 or gap > limit)
                    place = {"block": block, "row": row, "round": k % width // task.actions}
                    evidence = {**where, **place, "found": str(gap), "expected": f"from 0 to {limit}"}
                    return Finding(
                        Verdict.REFUTED if outside else Verdict.UNDECIDED,
                        evidence if outside else {**evidence, "missing": "a ball too wide"},
                    )
                largest = largest if clean else largest.max(gap)
            lines.append({**where, "gap / bound": _share(largest, limit)})
    return Finding(Verdict.PROVED, {"runs": lines})


_NOTHING = arb(fmpq(1, 2**128))
"""Balls around two equal numbers overlap: a gap of 0 is told from a negative one up to this."""


def _share(part: arb, whole: arb) -> Any:
    return str((part / whole).mid().str(4, radius=False)) if whole > 0 else "0"
