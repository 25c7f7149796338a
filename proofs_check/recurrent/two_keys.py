"""Keys that are not orthogonal: the rate of sweeps, equiangular keys, and two keys erased exactly (F11, F12).

In the plane of two unit keys at angle th, with c = cos th and s = sin th, let n_i be the unit vector orthogonal to k_i,
so that I - k_i k_i' = n_i n_i'.

A step I - b k k' with 0 <= b <= 2 lies between I and the reflection at n. A product of such steps vanishes only if two
steps with b = 1, next to each other among those, have n'X n = 0 for the steps X between them (n n' X n n' = 0). In r
sweeps over k_1, k_2 the widest gap is from the first step to the last: X = (I - B k_2 k_2')(I - G k_1 k_1') .. with 2
(r - 1) steps. f = n_1'X n_2 is affine in every step size, so on the box [0, 2]^(2r-2) it is smallest at a corner. At a
corner X is a word in the reflections R_1, R_2; since n_1'R_1 = n_1' and R_2 n_2 = n_2, f is there one of the values
cos((2m + 1) th) = n_1'(R_2 R_1)^m n_2 with m <= r - 1. So f vanishes somewhere on the box exactly if (2r - 1) th is at
least pi/2, by continuity from f = cos th > 0 at b = 0: r = 1 + ceil(pi/(4 th) - 1/2). Narrower gaps turn less far, by
an odd or even multiple of th that is at most 2 (r - 1).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from flint import arb, ctx, fmpq, fmpq_mat, fmpq_poly

from constructions.exact import RATIONALS
from constructions.recurrent.delta_rule import Token, affine_map, chunk_of

from ..block_words import grid
from ..claim import Finding, Verdict, rational
from ..generic_layer import Point
from ..mutants import Mutant
from ..words import Words, identity, letter, rule, zero
from . import world_facts
from .chunks import D_V, WORDS, D
from .sweeps import Sweep
from .token_facts import EYE, ONE, Equation

k1, k2, n1, n2 = (letter(name, D, 1) for name in ("k1", "k2", "n1", "n2"))
c, s, x, B, G = (letter(name, 1, 1) for name in ("c", "s", "x", "B", "G"))


def _token(key: Words, rate: Words | None = None) -> Token:
    return Token(grid([key]), grid([zero(D_V, 1)]), grid([zero(D, 1)]), ONE if rate is None else grid([rate]), EYE)


def _plane(rng: random.Random) -> Point:
    t = fmpq(rng.randint(1, 7), 8)
    cos, sin = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
    scalars = {name: fmpq_mat(1, 1, [value]) for name, value in (("c", cos), ("s", sin))}
    free = {name: fmpq_mat(1, 1, [fmpq(rng.randint(1, 9), 4)]) for name in ("x", "B", "G")}
    vectors = {"k1": [1, 0], "n1": [0, 1], "k2": [cos, sin], "n2": [-sin, cos]}
    return {**scalars, **free, **{name: fmpq_mat(2, 1, y) for name, y in vectors.items()}}, {D: 2, D_V: 1}


def sweep_norm() -> Sweep:
    """M n_1 x n_2' = n_1 c c x n_2', and M = n_1 c n_2': so M^r = c^{2r-1} n_1 n_2', of norm |c|^{2r-1}."""
    M, _ = affine_map(chunk_of([_token(k1), _token(k2)], WORDS), WORDS)
    plane = [*rule(k1 @ k1.T, identity(D) - n1 @ n1.T), *rule(k2 @ k2.T, identity(D) - n2 @ n2.T)]
    # k_1 (k_1'k_2) k_2' holds both squares: the rules meet in the middle, so the angle is one for the n's.
    rules = (*plane, *rule(n1.T @ n2, c))
    power = grid([n1 @ x @ n2.T])
    equations = (
        Equation("M", M, grid([n1 @ c @ n2.T])),
        Equation("M n_1 x n_2'", M @ power, grid([n1 @ c @ c @ x @ n2.T])),
    )
    return Sweep(equations, rules, _plane)


def two_sweeps() -> Sweep:
    """Rates 1, B, G, 1: k_1'M = 0, M k_2 = 0, n_1'M n_2 = c - B G c s^2, so M = 0 exactly if B G s^2 = 1 (c != 0)."""
    M, _ = affine_map(chunk_of([_token(k1), _token(k2, B), _token(k1, G), _token(k2)], WORDS), WORDS)
    rules = [
        *rule(k1.T @ k1, identity(1)),
        *rule(k2.T @ k2, identity(1)),
        *rule(k1.T @ k2, c),
        *rule(n1.T @ k1, zero(1, 1)),
        *rule(n2.T @ k2, zero(1, 1)),
        *rule(n1.T @ n2, c),
        *rule(n1.T @ k2, s),
        *rule(k1.T @ n2, -s),
    ]
    equations = (
        Equation("k_1' M", grid([k1.T]) @ M, grid([zero(1, D)])),
        Equation("M k_2", M @ grid([k2]), grid([zero(D, 1)])),
        Equation("n_1' M n_2", grid([n1.T]) @ M @ grid([n2]), grid([c - s @ B @ c @ G @ s])),
    )
    return Sweep(equations, tuple(rules), _plane)


def concrete(key: Sequence[Any], rate: Any) -> Token:
    """A token in Q that writes nothing: it only moves the error."""
    d = len(key)
    column = RATIONALS.matrix([[y] for y in key])
    return Token(column, fmpq_mat(1, 1), fmpq_mat(d, 1), RATIONALS.matrix([[rate]]), RATIONALS.one_hot(range(d), d))


@dataclass(frozen=True)
class Angle:
    """Two keys at a rational angle, and the number of sweeps that is claimed to be the least.

    Attributes:
        t: tan of half the angle, 0 < t < 1.
        sweeps: r.
    """

    t: fmpq
    sweeps: int

    @property
    def cosine(self) -> fmpq:
        return (1 - self.t**2) / (1 + self.t**2)

    @property
    def sine(self) -> fmpq:
        return 2 * self.t / (1 + self.t**2)

    def gap(self, rates: Sequence[Any]) -> fmpq:
        """n_1'X n_2 for the steps k_2, k_1, k_2, .. of these sizes, by the layer's chunk; c without steps."""
        c_, s_ = self.cosine, self.sine
        keys = ([c_, s_], [fmpq(1), fmpq(0)])
        left, right = fmpq_mat(1, 2, [0, 1]), fmpq_mat(2, 1, [-s_, c_])
        if rates:
            left = (
                left
                * affine_map(chunk_of([concrete(keys[i % 2], b) for i, b in enumerate(rates)], RATIONALS), RATIONALS)[0]
            )
        return (left * right)[0, 0]

    def law(self) -> int | None:
        """1 + ceil(pi/(4 th) - 1/2), decided by balls; None if they do not decide it."""
        with ctx.workprec(200):
            value = arb.pi() / (8 * arb(self.t).atan()) - arb(1) / 2
            whole = value.ceil().unique_fmpz()
        return None if whole is None else 1 + int(whole)


ANGLES = tuple(fmpq(p, q) for p, q in ((1, 2), (2, 5), (1, 3), (3, 10), (1, 4), (1, 5), (1, 6), (1, 7), (4, 5)))


def angles() -> list[Angle]:
    """Nine angles, of 15 to 80 degrees, with the least number of sweeps found by corners: no formula is used."""
    out = []
    for t in ANGLES:
        angle = Angle(t, 1)
        while angle.gap([2] * (2 * angle.sweeps - 2)) > 0:
            angle = replace(angle, sweeps=angle.sweeps + 1)
        out.append(angle)
    return out


def prove_angles(subjects: Sequence[Angle]) -> Finding:
    """With r sweeps f changes its sign on [0, 2]^(2r-2), with r - 1 every corner is positive, and r obeys the law."""
    found, records = [], []
    for angle in subjects:
        r, where = angle.sweeps, {"tan(th/2)": str(angle.t), "sweeps": angle.sweeps}
        corner = angle.gap([2] * (2 * r - 2))
        if corner > 0:
            return Finding(
                Verdict.REFUTED, {**where, "block": "r sweeps", "failure": "no sign change", "f": rational(corner)}
            )
        for rates in product((0, 2), repeat=max(2 * r - 4, 0)):
            if r > 1 and angle.gap(rates) <= 0:
                return Finding(
                    Verdict.REFUTED, {**where, "block": "r - 1 sweeps", "failure": f"enough, at rates {rates}"}
                )
        if angle.law() != r:
            return Finding(Verdict.REFUTED, {**where, "block": "law", "found": r, "expected": str(angle.law())})
        found.append(where)
        records.append(world_facts.plane(angle.cosine, angle.sine, r, f"tan(th/2) = {angle.t}"))
    return Finding(Verdict.PROVED, {"angles": found}, tuple(records))


def angle_mutants(subjects: Sequence[Angle]) -> Iterator[Mutant]:
    """One sweep more, one less."""
    for i, angle in enumerate(subjects):
        for change in (1, -1):
            if angle.sweeps + change >= 1:
                new = replace(angle, sweeps=angle.sweeps + change)
                yield Mutant(
                    "loop", f"tan(th/2) = {angle.t}: {change:+d} sweep", [*subjects[:i], new, *subjects[i + 1 :]]
                )


@dataclass(frozen=True)
class Equiangular:
    """n unit keys with equal inner products c, in n dimensions, and M of one sweep with b = 1."""

    n: int
    cosine: fmpq
    M: fmpq_mat


def equiangular(largest: int = 5) -> list[Equiangular]:
    """For each n the n + 1 values of c at which a polynomial of degree n in c is decided.

    The keys are the rows of (1 + s) I + t s J with s = -(2 + 2t) / (1 + 2t + n t^2), which have length 1.
    """
    out = []
    for n in range(2, largest + 1):
        seen: dict[fmpq, fmpq_mat] = {}
        t = fmpq(1)
        while len(seen) < n + 1:
            s_ = -(2 + 2 * t) / (1 + 2 * t + n * t * t)
            alpha, beta = 1 + s_, t * s_
            cosine = 2 * alpha * beta + n * beta**2
            keys = [[alpha * (i == j) + beta for j in range(n)] for i in range(n)]
            if cosine not in seen:
                seen[cosine] = affine_map(chunk_of([concrete(key, 1) for key in keys], RATIONALS), RATIONALS)[0]
            t += fmpq(1, 2)
        out += [Equiangular(n, cosine, M) for cosine, M in seen.items()]
    return out


def prove_equiangular(subjects: Sequence[Equiangular]) -> Finding:
    """p(y) (y - 1) = y (y - c)^n - y^n (1 - c)^n for the characteristic polynomial p of M.

    p(y) = det(y (D + U) + L) for the Gram matrix L + D + U, of degree at most n in c: n + 1 values of c decide every c.
    """
    y = fmpq_poly([0, 1])
    counts: dict[int, set[fmpq]] = {}
    for subject in subjects:
        n, cosine = subject.n, subject.cosine
        left = subject.M.charpoly() * (y - 1)
        right = y * (y - cosine) ** n - y**n * (1 - cosine) ** n
        if left != right:
            place = {"n": n, "c": rational(cosine), "found": str(left), "expected": str(right)}
            return Finding(Verdict.REFUTED, {"block": "p(y) (y - 1)", **place})
        counts.setdefault(n, set()).add(cosine)
    short = [n for n, values in counts.items() if len(values) < n + 1]
    if short:
        return Finding(Verdict.UNDECIDED, {"missing": f"n = {short[0]}: fewer than n + 1 values of c"})
    records = [x for subject in subjects for x in world_facts.characteristic(subject.n, subject.cosine, subject.M)]
    shown = {str(n): len(values) for n, values in counts.items()}
    return Finding(Verdict.PROVED, {"values of c": shown}, tuple(records))


def equiangular_mutants(subjects: Sequence[Equiangular]) -> Iterator[Mutant]:
    """An entry moved, two sweeps instead of one, M turned, another cosine."""
    subject = subjects[0]
    n = subject.n
    bump = RATIONALS.one_hot([0] + [-1] * (n - 1), n)
    changes = {
        "an entry moved": replace(subject, M=subject.M + bump),
        "two sweeps": replace(subject, M=subject.M * subject.M),
        "M turned": replace(subject, M=-subject.M),
        "another cosine": replace(subject, cosine=subject.cosine / 2),
    }
    for text, new in changes.items():
        yield Mutant("entry", text, [new, *subjects[1:]])
