"""The Krylov dimension k_L = dim span{r, Ar, .., A^{L-1} r} of a task, decided without floats (theory A4).

* Lower bound: the rank modulo a prime that divides no denominator, which never exceeds the rank over Q.
* Upper bound, exact: min(n, L), or a polynomial of degree k that annihilates r, found by Chinese remainders and then
  checked over the integers. It proves A^k r to depend on the earlier vectors, so the space has stopped growing.
* Upper bound, probabilistic: two random primes. The rank falls short only if both divide one fixed non-zero minor, and
  few primes can.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import fmpz, fmpz_mat, nmod_mat
from numpy.typing import NDArray

from constructions.errors import BadInput
from constructions.task import TaskStatistics
from numerics.temporal_difference.registers import sparse_counts

# Primes of 50 bits: a product's quotient then fits a float64 with error below one, which `_multiply` corrects.
_BITS = 50
_TRIALS = 2
# Rosser and Schoenfeld 1962, corollary 3: more than 3x / (5 ln x) primes lie between x and 2x; ln 2^49 < 34.
_PRIMES = 3 * 2 ** (_BITS - 1) // (5 * 34)
# The exact upper bound is always sought up to this many states, and beyond if its estimated cost is below the budget.
_ALWAYS_EXACT = 64
_BUDGET = 5 * 10**9

Residues = NDArray[np.uint64]


@dataclass(frozen=True)
class KrylovDimension:
    """A Krylov dimension and how it is known.

    Attributes:
        value: k_L; where the method is probabilistic, a certain lower bound of it.
        depth: L.
        method: "exact in Q" or "probabilistic".
        evidence: one phrase saying what bounds the dimension from above.
        failure: bound on the probability that `value` is too small; 0 if exact.
        primes: the primes whose ranks bound it from below.
        seed: of the primes.
    """

    value: int
    depth: int
    method: str
    evidence: str
    failure: Fraction
    primes: tuple[int, ...]
    seed: int


def krylov_dimension(task: TaskStatistics, depth: int, seed: int = 0) -> KrylovDimension:
    """Decide k_L for a task.

    Args:
        task: any task; A = g P is kept sparse.
        depth: L >= 1.
        seed: of the random primes.

    Raises:
        BadInput: the depth is below 1.
    """
    if depth < 1:
        raise BadInput(f"{task.name}: expected a depth of at least 1, found {depth}")
    system = _System(task)
    if not any(system.rewards):
        return KrylovDimension(0, depth, "exact in Q", "every mean reward is zero", Fraction(0), (), seed)
    draw = random.Random(seed)
    limit = min(task.n, depth)
    primes = [system.prime(draw)]
    k = _rank(system, primes[0], limit)
    if k == limit:
        reason = f"min(n, L) = {limit}"
        return KrylovDimension(k, depth, "exact in Q", reason, Fraction(0), tuple(primes), seed)
    if task.n <= _ALWAYS_EXACT or system.cost(k) <= _BUDGET:
        polynomial = annihilator(system, k, draw)
        if polynomial is not None and annihilates(system, polynomial):
            reason = f"a polynomial of degree {k} annihilates r, checked over the integers"
            return KrylovDimension(k, depth, "exact in Q", reason, Fraction(0), tuple(primes), seed)
    while len(primes) < _TRIALS:
        primes.append(system.prime(draw))
        k = max(k, _rank(system, primes[-1], limit))
    reason = f"the ranks modulo {_TRIALS} random primes of {_BITS} bits"
    return KrylovDimension(k, depth, "probabilistic", reason, system.failure(limit), tuple(primes), seed)


def sum_dimensions(tasks: Sequence[TaskStatistics], depth: int, seed: int = 0) -> list[KrylovDimension]:
    """dim(K_L(A_1, r_1) + .. + K_L(A_t, r_t)) for t = 1, 2, .., for tasks on the same states (theory A10).

    Ranks modulo random primes: certain lower bounds. Exact where they reach n, else with a bound on the failure.

    Raises:
        BadInput: the depth is below 1, or no task.
    """
    if depth < 1 or not tasks:
        raise BadInput(f"dimension of a sum: expected a depth of at least 1 and a task, found {depth} and {len(tasks)}")
    systems = [_System(task) for task in tasks]
    n = tasks[0].n
    draw = random.Random(seed)
    primes: list[int] = []
    ranks: list[list[int]] = []
    while len(primes) < _TRIALS:
        p = systems[0].prime(draw)
        if all(system.Q % p and system.R % p for system in systems):
            primes.append(p)
            ranks.append(_prefix_ranks(systems, p, min(n, depth)))
    found = []
    for t, values in enumerate(zip(*ranks, strict=True), start=1):
        m = max(values)
        if m == n:
            method, reason, failure = "exact in Q", f"n = {n}", Fraction(0)
        else:
            method, reason = "probabilistic", f"the ranks modulo {_TRIALS} random primes of {_BITS} bits"
            failure = _sum_failure(systems[:t], n, min(n, depth))
        found.append(KrylovDimension(m, depth, method, reason, failure, tuple(primes), seed))
    return found


def _prefix_ranks(systems: Sequence[_System], p: int, limit: int) -> list[int]:
    """Ranks modulo p of the Krylov vectors of the first t systems together; an echelon basis is carried along."""
    basis: list[int] = []
    ranks: list[int] = []
    for system in systems:
        rank = _rank(system, p, limit)
        vectors = [vector.tolist() for vector, _ in zip(system.krylov(p), range(rank), strict=False)]
        rows = (ranks[-1] if ranks else 0) + rank
        stacked = nmod_mat(rows, system.n, basis + [x for vector in vectors for x in vector], p)
        reduced, found = stacked.rref()
        basis = [int(x) for x in reduced.entries()[: found * system.n]]
        ranks.append(found)
    return ranks


def _sum_failure(systems: Sequence[_System], n: int, limit: int) -> Fraction:
    """As `_System.failure`, for a minor of at most n of the integer columns Q^j R A^j r, j < limit, of all systems."""
    largest = max(int(system.R * max(abs(x) for x in system.rewards)) for system in systems)
    scale = max(system.Q.bit_length() for system in systems)
    bits = n * (n.bit_length() + largest.bit_length() + (limit - 1) * scale)
    divisors = sum((system.Q * system.R).bit_length() for system in systems)
    eligible = _PRIMES - divisors // (_BITS - 1)
    return min(Fraction(1), Fraction(bits // (_BITS - 1), eligible)) ** _TRIALS


class _System:
    """A task's (A, r) as exact numbers with their denominators: Q A and R r have integer entries."""

    def __init__(self, task: TaskStatistics) -> None:
        self.n = task.n
        self.discount = task.discount
        self.counts = sparse_counts(task)
        self.visits: list[int] = task.visits.tolist()
        self.rewards = [total / visits for total, visits in zip(task.reward_sums, self.visits, strict=True)]
        self.Q = self.discount.denominator * math.lcm(*self.visits)
        self.R = math.lcm(*(x.denominator for x in self.rewards))

    def prime(self, draw: random.Random) -> int:
        """A prime drawn uniformly from those of `_BITS` bits that divide no denominator."""
        while True:
            p = draw.randrange(2 ** (_BITS - 1) + 1, 2**_BITS, 2)
            if fmpz(p).is_prime() and self.Q % p and self.R % p:
                return p

    def modulo(self, p: int) -> tuple[Residues, Residues]:
        """The stored entries of A and r modulo p, shapes (nnz,) and (n,)."""
        g = self.discount.numerator * pow(self.discount.denominator, -1, p)
        scales = np.array([g * pow(v, -1, p) % p for v in self.visits], dtype=np.uint64)
        owners = np.repeat(np.arange(self.n), np.diff(self.counts.indptr))
        entries = _multiply(self.counts.data.astype(np.uint64) % np.uint64(p), scales[owners], p)
        r = [x.numerator * pow(x.denominator, -1, p) % p for x in self.rewards]
        return entries, np.array(r, dtype=np.uint64)

    def krylov(self, p: int) -> Iterator[Residues]:
        """Yield r, Ar, A^2 r, .. modulo p as arrays of shape (n,)."""
        entries, vector = self.modulo(p)
        starts, ends = self.counts.indptr[:-1], self.counts.indptr[1:]
        half = np.uint64(_BITS // 2)
        while True:
            yield vector
            terms = _multiply(entries, vector[self.counts.indices], p)
            # Row sums of high and low halves apart: neither can overflow below 2^39 entries, and empty rows give 0.
            high, low = (
                sums[ends] - sums[starts]
                for part in (terms >> half, terms & np.uint64(2 ** int(half) - 1))
                for sums in (np.concatenate([np.zeros(1, np.uint64), np.cumsum(part, dtype=np.uint64)]),)
            )
            carried = _multiply(high % np.uint64(p), np.full(self.n, 1 << int(half), dtype=np.uint64), p)
            vector = (carried + low % np.uint64(p)) % np.uint64(p)

    def failure(self, limit: int) -> Fraction:
        """Bound on the probability that all trial primes miss the rank, which is at most `limit`.

        With columns Q^j R A^j r the matrix is an integer one, its column j at most sqrt(k) Q^j R |r| in 2-norm on any k
        rows (|A| < 1), so by Hadamard a k x k minor has at most the bits below, and each bad prime takes 49 of them.
        """
        largest = int(self.R * max(abs(x) for x in self.rewards))
        bits = limit * (limit.bit_length() + largest.bit_length()) + limit * (limit - 1) // 2 * self.Q.bit_length()
        eligible = _PRIMES - (self.Q * self.R).bit_length() // (_BITS - 1)
        return min(Fraction(1), Fraction(bits // (_BITS - 1), eligible)) ** _TRIALS

    @property
    def leading(self) -> int:
        """A multiple of the leading coefficient of every primitive integer divisor of A's characteristic polynomial."""
        return self.discount.denominator**self.n * math.prod(self.visits)

    def cost(self, k: int) -> int:
        """Rough cost of `annihilator` and `annihilates` in elementary operations of about a nanosecond."""
        rounds = (self.leading.bit_length() + k) // _BITS + 2
        words = (k * self.Q.bit_length() + self.leading.bit_length()) // 64 + 1
        one_prime = self.n * (k + 1) * (2 * k + 100) + 50 * k * self.counts.nnz
        scaling = self.n * words * (self.Q.bit_length() // 64 + 1)
        return rounds * one_prime + k * (self.counts.nnz * words // 2 + 5 * self.n**2 + scaling)


def _multiply(a: Residues, b: Residues, p: int) -> Residues:
    """a b modulo p, entrywise, for residues of a p below 2^50.

    The quotient a b / p is below 2^50, so two float roundings leave it within 1/2 and its floor off by one at most;
    the remainder is then taken in integers, where wrapping is harmless because the true value lies in (-p, 2p).
    """
    quotient = np.floor(a.astype(np.float64) * b.astype(np.float64) / float(p)).astype(np.uint64)
    rest = (a * b - quotient * np.uint64(p)).view(np.int64)
    rest = np.where(rest < 0, rest + p, rest)
    return np.where(rest >= p, rest - p, rest).astype(np.uint64)


def _rank(system: _System, p: int, limit: int) -> int:
    """Rank of the first `limit` Krylov vectors modulo p; blocks double in size and stop at the first dependency."""
    rows: list[int] = []
    target = min(16, limit)
    for size, vector in enumerate(system.krylov(p), start=1):
        rows.extend(vector.tolist())
        if size == target:
            rank = nmod_mat(size, system.n, rows, p).rank()
            if rank < size or size == limit:
                return rank
            target = min(2 * size, limit)
    raise AssertionError("the Krylov sequence does not end")


def annihilator(system: _System, k: int, draw: random.Random) -> list[int] | None:
    """Integers c_0..c_k, c_k != 0, for which sum_j c_j A^j r should vanish; None if a prime shows more than k vectors.

    Each prime gives A^k r = sum a_j A^j r by elimination. The a_j are those of a monic factor of the characteristic
    polynomial, so by Gauss's lemma `leading` clears their denominators, and as |A| < 1 they are at most binomial(k, j).
    """
    scale = system.leading
    modulus, residues = 1, [0] * k
    while modulus <= scale << (k + 1):
        p = system.prime(draw)
        if modulus % p == 0:
            continue
        columns = [vector.tolist() for vector, _ in zip(system.krylov(p), range(k + 1), strict=False)]
        reduced, rank = nmod_mat(k + 1, system.n, [x for column in columns for x in column], p).transpose().rref()
        if rank > k:
            return None
        if rank < k or any(int(reduced[j, j]) != 1 for j in range(k)):
            continue  # an unlucky prime: the first k vectors are dependent modulo it
        lift = pow(modulus, -1, p)
        for j in range(k):
            wanted = int(reduced[j, k]) * scale
            residues[j] += modulus * ((wanted - residues[j]) * lift % p)
        modulus *= p
    signed = [x - modulus if 2 * x > modulus else x for x in residues]
    common = math.gcd(scale, *signed)
    return [x // common for x in signed] + [-scale // common]


def annihilates(system: _System, polynomial: list[int]) -> bool:
    """Whether sum_j c_j A^j r = 0, decided over the integers by Horner's rule on Q A and R r."""
    counts = fmpz_mat(system.counts.toarray().tolist())
    numerator = system.discount.numerator
    lcm = system.Q // system.discount.denominator
    scales = [fmpz(numerator * (lcm // visits)) for visits in system.visits]
    r = [fmpz(int(x * system.R)) for x in system.rewards]
    *rest, last = polynomial
    value = [last * x for x in r]
    power = fmpz(1)
    for coefficient in reversed(rest):
        power *= system.Q
        moved = (counts * fmpz_mat(system.n, 1, value)).entries()
        shift = coefficient * power
        value = [s * m + shift * x for s, m, x in zip(scales, moved, r, strict=True)]
    return not any(value)
