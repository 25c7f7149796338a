"""Schwartz-Zippel: an identity of rational functions, checked at random points modulo random primes.

If a difference is not identically zero, some entry has a non-zero numerator of degree at most `degree`, with integer
coefficients of at most `bits` bits. One round errs if the prime divides all its coefficients, if the point is a root of
it, or if either happens to something inverted (then a branch of recip_0 may be the wrong one); `bits` and `inverted
degree` count everything inverted. With a prime drawn
uniformly among those of b bits and a point drawn uniformly from GF(p),

    P(err) <= (bits / (b - 1)) / (number of primes of b bits) + (degree + inverted degree) / 2^(b - 1),

where the number of primes between x and 2x is more than 3x / (5 ln x) (Rosser and Schoenfeld, x >= 20.5). Points where
something inverted vanishes are counted in the second term and drawn again. Independent rounds multiply. A bound that
does not fall below one leaves the claim undecided.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from flint import fmpz

from constructions.arithmetic import Array
from constructions.construction import Reading
from constructions.errors import BadInput
from constructions.exact import PrimeField
from constructions.program import Program
from constructions.tokens import Tokens

from . import records
from .claim import Finding, Verdict, rational
from .degrees import Bound, Degrees
from .facts import Stated

LARGEST_RECORDED = 8
"""Cases with a larger size have no records."""

ROUNDS = 2
REDRAWS = 4


class BadPoint(Exception):
    """The point or prime is not generic (something inverted vanished): draw again."""


class Source:
    """Where generic matrices come from: indeterminates with degrees, or random elements of GF(p)."""

    def __init__(self, arithmetic: Any, draw: Callable[[int, int], Array], inverse: Callable[[Array], Array]) -> None:
        self.arithmetic, self.generic, self.inverse = arithmetic, draw, inverse


@dataclass(frozen=True)
class Identity:
    """An identity to check: `difference(subject, source)` must vanish, for the subject as built.

    Attributes:
        sizes: what it is checked at.
        kept: how many tokens the gate keeps on a generic task.
        difference: (program, source) -> an array that must be zero; raises `BadPoint` where the point is not generic.
        block: what a row of it is called, for messages.
        reads: where the program's answer stands, if `difference` compares it with an algorithm known by name.
        algorithm: that name, as in `Construction`.
        stated: what the records say of the run, beside the algorithm.
    """

    sizes: Mapping[str, int]
    kept: int
    difference: Callable[[Any, Source], Array]
    block: str
    reads: Reading | None = None
    algorithm: str = ""
    stated: Stated | None = None


class Watched(Program):
    """A program that keeps the tokens it was run on."""

    seen: Tokens

    def steps(self, tokens: Tokens, arithmetic: Any) -> Iterator[tuple[str, Tokens]]:
        object.__setattr__(self, "seen", tokens)
        return super().steps(tokens, arithmetic)


def bounds(identity: Identity, subject: Any) -> tuple[int, int, int]:
    """Degree of the difference's numerators; bits of their coefficients and of all that is inverted; its degree."""
    degrees = Degrees(identity.kept)
    difference: Bound = identity.difference(subject, Source(degrees, degrees.generic, degrees.inverse))
    return difference.degree or 0, difference.bits + degrees.inverted_bits, degrees.inverted_degree


def failure(degree: int, bits: int, inverted: int, prime_bits: int) -> Fraction:
    """Bound on the probability that one round misses a non-zero difference, as in the module's text."""
    x = 2 ** (prime_bits - 1)
    # 3 x / (5 ln x) primes, with ln x < b - 1 (since ln 2 < 1).
    primes = Fraction(3 * x, 5 * (prime_bits - 1))
    return Fraction(bits, prime_bits - 1) / primes + Fraction(degree + inverted, x)


def random_prime(rng: random.Random, bits: int) -> int:
    """Uniform among the primes of exactly `bits` bits."""
    while True:
        candidate = rng.getrandbits(bits) | (1 << (bits - 1)) | 1
        if fmpz(candidate).is_prime():
            return candidate


@dataclass(frozen=True)
class Case:
    """A built program and an identity that it must satisfy."""

    program: Program
    identity: Identity


def prove_cases(cases: Sequence[Case], seed: int = 0) -> Finding:
    """Decide every case; the evidence has the largest failure probability, and one part a case."""
    parts = {}
    for case in cases:
        name = ", ".join(f"{letter} = {size}" for letter, size in case.identity.sizes.items())
        parts[name] = check(case.identity, case.program, seed=seed)
    finding = Finding.all_of(parts)
    if finding.verdict is not Verdict.PROVED:
        return finding
    weakest = min((part.evidence["failure probability"] for part in parts.values()), key=_exponent)
    return replace(finding, evidence={"failure probability": weakest, **finding.evidence})


def _exponent(text: str) -> int:
    return int(text.removeprefix("below 2^-"))


def check(identity: Identity, subject: Any, *, seed: int = 0, prime_bits: int | None = None) -> Finding:
    """Decide the identity for a subject; the prime is as long as the degree bound asks for (at least 256 bits)."""
    try:
        return _check(identity, subject, seed, prime_bits)
    except BadInput as error:
        failure_text = f"the program cannot be run: {error}"
        return Finding(Verdict.REFUTED, {"sizes": dict(identity.sizes), "failure": failure_text})


def _check(identity: Identity, subject: Any, seed: int, prime_bits: int | None) -> Finding:
    try:
        degree, bits, inverted = bounds(identity, subject)
    except BadPoint:
        failure_text = f"whatever the task, the gate does not keep {identity.kept} tokens"
        return Finding(Verdict.REFUTED, {"sizes": dict(identity.sizes), "block": "gate", "failure": failure_text})
    length = prime_bits or max(256, 64 * -(-((degree + inverted + bits).bit_length() + 128) // 64))
    miss = failure(degree, bits, inverted, length)
    evidence: dict[str, Any] = {
        "sizes": dict(identity.sizes),
        "degree bound": rational(degree),
        "coefficient bits": rational(bits),
        "inverted degree": rational(inverted),
        "prime bits": length,
        "seed": seed,
    }
    if miss >= 1:
        missing = f"the degree bound {degree + inverted} is not below the prime of {length} bits"
        return Finding(Verdict.UNDECIDED, {**evidence, "missing": missing})
    rng = random.Random(f"schwartz-zippel {seed}")
    said = identity.reads is not None or identity.stated is not None
    recorded = said and max(identity.sizes.values()) <= LARGEST_RECORDED
    primes, runs = [], []
    for _ in range(ROUNDS):
        watched = Watched(subject.name, subject.layout, subject.kinds, subject.layers) if recorded else subject
        prime, difference = _evaluate(identity, watched, rng, length)
        primes.append(str(prime))
        runs.append((prime, watched))
        if difference is None:
            missing = f"{REDRAWS} points in a row were not generic: the gate keeps another number than {identity.kept}"
            return Finding(Verdict.REFUTED, {**evidence, "block": "gate", "failure": missing, "prime": str(prime)})
        wrong = [i for i, x in enumerate(difference.entries()) if x != 0]
        if wrong:
            row, column = divmod(wrong[0], difference.ncols())
            place = {"block": identity.block, "row": row, "column": column, "failure": "not zero modulo the prime"}
            return Finding(Verdict.REFUTED, {**evidence, **place, "prime": str(prime)})
    total = miss**ROUNDS
    exponent = (total.denominator // max(total.numerator, 1)).bit_length() - 1
    evidence |= {"primes": primes, "rounds": ROUNDS, "failure probability": f"below 2^-{exponent}"}
    kept = _records(identity, runs, length, (degree, bits, inverted)) if recorded else ()
    return Finding(Verdict.PROVED, evidence, kept)


def _records(
    identity: Identity, runs: Sequence[tuple[int, Watched]], length: int, degrees: tuple[int, int, int]
) -> tuple[records.Record, ...]:
    """Every round, on the tokens that its program saw."""
    figures = dict(zip(("degree", "bits", "inverted degree"), map(str, degrees), strict=True))
    figures |= {"prime bits": str(length), "miss": str(failure(*degrees, length))}
    figures["part"] = ", ".join(f"{letter} = {size}" for letter, size in identity.sizes.items())
    reads, algorithm, stated = identity.reads, identity.algorithm, identity.stated
    out = (
        records.field_record(program, program.seen, reads, algorithm, PrimeField(prime), figures, stated)
        for prime, program in runs
    )
    return tuple(record for record in out if record is not None)


def _evaluate(identity: Identity, subject: Any, rng: random.Random, bits: int) -> tuple[int, Any]:
    """The difference at a generic point of a random prime field; None where none was found."""
    prime = 0
    for _ in range(REDRAWS):
        prime = random_prime(rng, bits)
        field = PrimeField(prime)

        def draw(rows: int, columns: int, field: PrimeField = field) -> Any:
            return field.matrix([[rng.randrange(field.p) for _ in range(columns)] for _ in range(rows)])

        try:
            return prime, identity.difference(subject, Source(field, draw, lambda a: a.inv()))
        except (BadPoint, ZeroDivisionError):
            continue
    return prime, None
