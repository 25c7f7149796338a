"""Bounds by Psi_m = g^m max{1, 1 / (m (1 - g))} for every g in (0, 1) and m >= 1: of e* from below, of sample-and-hold.

Write T = 1 / (1 - g), x = e (1 - g). A block or interval that starts at depth a has potential p = g^a, the next one
starts at some p'. L is infinite; for finite L see the end. The upper bound of e* stands in `minimax_cells`.

Lower: e* >= V = g^m / (2 - (1 + g) g^m) >= m / (2m + 1) Psi_m >= Psi_m / 3. Pack greedily with budget e = V, each
    interval as short as its mass allows. Without its last depth an interval stays below its budget: p_1 > g (1 - x) and
    p_{s+1} > g (p_s - 2x). The recursion with equality has p_s = g^s (1 - x) - 2x (g + .. + g^{s-1}), which decreases,
    and p_m = 2x at x = V (1 - g): the last interval, infinite, has mass >= 2e. For the ratio use g^m >= 1 - m (1 - g)
    (Bernoulli) if m (1 - g) <= 1, and 2 - (1 + g) g^m <= 2 otherwise. For each m the ratio tends to m / (2m + 1) as
    g -> 1, since 2m + 1 shares of 1 / (2m + 1) each make a cover of error at most T / (2m + 1).

Hold: the worst error of Thm 4.5's sample-and-hold is at most e Psi_m (e = 2.718..). Between samples 1 - g^i grows by
    less than 1 / (j + 1), so each block, the last one too, has mass at most g^k T / (j + 1). If g < 1/2 that is
    g^m T <= 2 g^m. Else, with J = floor(T) >= 2: m <= J gives the ratio g^{-m} m / (m + 1), which falls as T grows from
    m on, and m > J gives g^{-J} T / (J + 1), which falls on [J, J + 1). Both are at most
    f(n) = (1 + 1/n)^n (n + 1)^2 / (n (n + 2)), n = m - 1 or J - 1 (m = 1: 1 / (2g) <= 1), and f(n) < e: by
    log(1 + u) <= u - u^2/2 + u^3/3 and log(1 + u) <= u it is log f(n) <= 1 - 1/(2n) + 1/(3n^2) + 1/(n (n + 2)), less
    than 1 for n >= 2, and f(1) = 8/3.
    Truncation after m depths errs by g^m T = min{m, T} Psi_m on one state of reward 1. So it is worse by the factor
    min{m, T} / e at least, where the source has min{m, T} / e^2.

Finite L >= m: e* and the error of sample-and-hold do not grow when L falls, so their upper bounds stay; the packing
    ends by L if p_m - 2x >= g^L, so e*(g, m, L) >= (1 - g^{L-m}) V; truncation errs by (1 - g^{L-m}) g^m T.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from flint import arb, fmpq

from constructions.exact import Balls
from constructions.temporal_difference import minimax, sample_and_hold
from constructions.temporal_difference.minimax import ASSUMPTIONS, THEOREM

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..mutants import Mutant
from ..positivity import prove_nonnegative, prove_zero, variables
from .bound_facts import polynomials

HOLD_CONSTANT = Fraction(27183, 10000)
BITS = 128
INSTANCES = [(Fraction(g), m) for g in ("1/50", "1/3", "1/2", "4/5", "9/10", "99/100") for m in (1, 2, 5, 12, 40)]
BERNOULLI = "Bernoulli's inequality g^m >= 1 - m (1 - g) (cited)"
LOGARITHM = "log(1 + u) <= u - u^2/2 + u^3/3 and log(1 + u) <= u for u >= 0 (cited)"


def ball(x: Fraction | int) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


# Lower


@dataclass(frozen=True)
class LowerBound:
    """V = G / (a - (b + c g) G) with G = g^m, and the coefficient m / (p m + q) of Psi_m, as claimed."""

    a: int
    b: int
    c: int
    p: int
    q: int
    instances: Sequence[tuple[Fraction, int]]


LOWER = LowerBound(2, 1, 1, 2, 1, tuple(INSTANCES))


def prove_lower(bound: LowerBound) -> Finding:
    """The recursion of the packing, its end, and the ratio; then the exact e* of some pairs (g, m)."""
    wrong = _lower_instances(bound)
    if wrong is not None:
        return wrong
    packing = prove_zero(_packing(bound, *variables("g", "G", "x")))
    ratio = prove_nonnegative(_ratio(bound, *variables("t", "n", "s")))
    found = Finding.all_of({"packing": packing, "ratio": ratio})
    if found.verdict is not Verdict.PROVED:
        return found
    names = ("g", "G", "x"), ("t", "n", "s")
    return replace(found, records=polynomials(partial(_packing, bound), partial(_ratio, bound), names))


def _packing(bound: LowerBound, g: Any, G: Any, x: Any) -> dict[str, Any]:
    """Potentials over the denominator 1 - g, with G = g^s: p_s (1 - g) = G (1 - x)(1 - g) - 2x (g - G)."""

    def potential(power: Any) -> Any:
        return power * (1 - x) * (1 - g) - 2 * x * (g - power)

    numerator, denominator = G, bound.a - (bound.b + bound.c * g) * G
    # At x = (1 - g) numerator / denominator the last potential is 2x: (1 - g) p_m - 2x (1 - g), times the denominator.
    last = G * (denominator - (1 - g) * numerator) - 2 * numerator * (g - G) - 2 * (1 - g) * numerator
    return {
        "first potential": potential(g) - g * (1 - x) * (1 - g),
        "next potential": potential(g * G) - g * (potential(G) - 2 * x * (1 - g)),
        "last potential": last,
    }


def _ratio(bound: LowerBound, t: Any, n: Any, s: Any) -> dict[str, Any]:
    """g = t / (1 + t), 1 - g = 1 / (1 + t), t > 0, cleared of denominators; m >= 1."""
    m, T = n + 1, t + 1
    weight = bound.p * m + bound.q
    # m <= T: G = 1 - m / T + s, s >= 0. V T m >= m G T^2 / .. : (p m + q) m >= m T (a - (b + c g) G).
    power = T - m + s * T  # G T
    first = weight * m * T - m * (bound.a * T * T - (bound.b * T + bound.c * t) * power)
    # m >= T: p m + q >= m (a - (b + c g) G) for every G >= 0, s = G.
    second = weight * T - m * (bound.a * T - (bound.b * T + bound.c * t) * s)
    third = 3 * m - weight
    return {"m (1 - g) <= 1": first, "m (1 - g) >= 1": second, "m / (2m + 1) >= 1/3": third}


def _lower_instances(bound: LowerBound) -> Finding | None:
    for g, m in bound.instances:
        value, psi, power = minimax.minimax_error(g, m), minimax.psi(g, m), g**m
        least = max(power / (bound.a - (bound.b + bound.c * g) * power), m * psi / (bound.p * m + bound.q))
        if value < least:
            evidence = {"block": "instance", "g": str(g), "m": m, "found": rational(value), "expected": rational(least)}
            return Finding(Verdict.REFUTED, evidence)
    return None


def lower_mutants(bound: LowerBound) -> Iterator[Mutant]:
    """Each coefficient changed by one."""
    for name in ("a", "b", "c", "p", "q"):
        for change in (-1, 1):
            yield Mutant("value", f"{name} {change:+}", replace(bound, **{name: getattr(bound, name) + change}))


# Hold and truncation


@dataclass(frozen=True)
class HoldBound:
    """Error of sample-and-hold <= constant Psi_m, error of truncation = factor min{m, T} Psi_m; exact at some pairs."""

    constant: Fraction
    factor: Fraction
    instances: tuple[tuple[Fraction, int], ...]


HOLD = HoldBound(HOLD_CONSTANT, Fraction(1), (*INSTANCES, (Fraction(99, 100), 100)))


def prove_hold_bound(bound: HoldBound) -> Finding:
    """The schedule's masses and both errors at the instances, in Q; then monotony, the last inequality and the gap."""
    rows: list[dict[str, Any]] = []
    for g, m in bound.instances:
        psi, horizon, where = minimax.psi(g, m), 1 / (1 - g), {"g": str(g), "m": m}
        schedule = sample_and_hold.schedule(g, m)
        hold = sample_and_hold.hold_error(g, schedule.depths)
        truncation = sample_and_hold.hold_error(g, range(1, m + 1))
        share = g**schedule.exact * horizon / (schedule.spread + 1)
        if hold > min(bound.constant * psi, share):
            evidence = {"block": "sample-and-hold", "found": rational(hold), "expected": f"{rational(share)} at most"}
            return Finding(Verdict.REFUTED, {**where, **evidence})
        if truncation != bound.factor * min(Fraction(m), horizon) * psi:
            return Finding(Verdict.REFUTED, {**where, "block": "truncation", "found": rational(truncation)})
        rows.append({**where, "hold / Psi_m": float(hold / psi), "truncation / hold": float(truncation / hold)})
    names = ("T", "k", "i", "n"), ("T", "u", "n")
    algebra = prove_zero(_derivatives(*variables(*names[0])))
    inequalities = prove_nonnegative(_falls(*variables(*names[1])))
    with Balls(BITS).working():
        e = arb(1).exp()
        ends = {"e": e, "f(1)": ball(Fraction(8, 3)), "g < 1/2": arb(2)}
        beyond = [name for name, value in ends.items() if not value <= ball(bound.constant)]
    if beyond:
        return Finding(Verdict.UNDECIDED, {"missing": f"{beyond[0]} is not below {bound.constant}"})
    largest = max(rows, key=lambda row: row["hold / Psi_m"])
    gap = max(rows, key=lambda row: row["truncation / hold"])
    shown = Finding(Verdict.PROVED, {"pairs": len(rows), "largest hold": largest, "largest gap": gap})
    found = Finding.all_of({"instances": shown, "algebra": algebra, "inequalities": inequalities})
    proved = found.verdict is Verdict.PROVED
    return replace(found, records=polynomials(_derivatives, _falls, names)) if proved else found


def _fall(T: Any, k: Any, i: Any) -> Any:
    """-T (T - 1) times the derivative of log((T / (T-1))^k T^i)."""
    return k - i * (T - 1)


def _derivatives(T: Any, k: Any, i: Any, n: Any) -> dict[str, Any]:
    return {
        "derivative": _fall(T, k, i) + k * (T - 1) - k * T + i * (T - 1),
        "f(n): (n + 1)^2 = n (n + 2) + 1": (n + 1) ** 2 - n * (n + 2) - 1,
    }


def _falls(T: Any, u: Any, n: Any) -> dict[str, Any]:
    p = n + 2
    return {
        "m <= J, k = m, i = 0": _fall(T, n + 1, 0 * T),
        "m > J, k = J, i = 1, T = J + 1 - u": _fall(n + 2 - u, n + 1, 0 * T + 1),
        # 1/(2p) - 1/(3p^2) - 1/(p (p+2)), times 6 p^2 (p + 2).
        "log f(p) <= 1, p >= 2": 3 * p * (p + 2) - 2 * (p + 2) - 6 * p,
    }


def hold_mutants(bound: HoldBound) -> Iterator[Mutant]:
    """A constant below what an instance reaches, another truncation."""
    for constant in (Fraction(5, 2), Fraction(2), Fraction(26, 10)):
        yield Mutant("value", f"constant {constant}", replace(bound, constant=constant))
    for factor in (Fraction(99, 100), Fraction(101, 100)):
        yield Mutant("value", f"truncation times {factor}", replace(bound, factor=factor))


def claims() -> list[Claim]:
    """The claims of td.minimax about all g in (0, 1) and all m >= 1."""
    return [
        Claim(
            THEOREM,
            "lower-bound",
            "E_m >= g^m / (2 - (1 + g) g^m) >= m / (2m + 1) Psi_m >= Psi_m / 3, where Thm 4.5 has 1/64",
            "all g in (0, 1) and m >= 1, L infinite; times 1 - g^(L-m) for finite L >= m",
            Assurance.INDUCTIVE,
            (*ASSUMPTIONS, BERNOULLI),
            lambda: LOWER,
            prove_lower,
            mutants=lower_mutants,
        ),
        Claim(
            THEOREM,
            "truncation-gap",
            "sample-and-hold errs by at most e Psi_m, truncation by min{m, T} Psi_m, T = 1/(1-g): a factor min{m, T}/e",
            "all g in (0, 1) and m >= 1, L infinite; the factor times 1 - g^(L-m) for finite L >= m",
            Assurance.INDUCTIVE,
            (*ASSUMPTIONS[:2], LOGARITHM),
            lambda: HOLD,
            prove_hold_bound,
            mutants=hold_mutants,
        ),
    ]
