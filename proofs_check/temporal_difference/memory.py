"""td.memory: how many real numbers must stay, whatever the encoder and decoder (Thm 4.3, theory A4).

An encoder that is continuous in (A, r), and exact for every state and depth l <= L, determines all A^j r, j < L.
On tasks of Krylov dimension k these are B H^j g with B of shape (n, k). Where the Jacobian of (B, H, g) -> (B H^j g)_j
has rank d, the outputs contain an open piece of R^d, and by invariance of domain (cited) no continuous encoder into
fewer than d registers is injective on it.

A rank modulo a prime at an integer point never exceeds the rank there over Q, and no rank exceeds the generic one: a
lower bound. Upper bounds: the number n L of outputs, and n k + k, since (B T, T^-1 H T, T^-1 g) has the same outputs
for every invertible T, k^2 independent directions. On a class of tasks the tangent directions are those of the class.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp
from flint import nmod_mat

from ..claim import Assurance, Claim, Finding, Verdict
from ..generic_layer import prove_words
from ..mutants import Mutant
from ..records import rank_record
from ..schwartz_zippel import random_prime
from ..words import identity, letter, rule, zero

THEOREM = "td.memory"
INVARIANCE = "invariance of domain (cited): no continuous injection of an open set of R^d into R^m for m < d"
CONTINUITY = "the encoder is continuous in (A, r), and exact for every state and depth l <= L"
N, K, R = sp.symbols("n k m", integer=True, positive=True)
BITS = 61
LARGEST_RECORDED = 4
"""States up to which the Jacobians themselves are kept in the certificate."""

POINTS = 2
CLASSES = ("tasks of dimension k", "sub-stochastic", "stochastic")


@dataclass(frozen=True)
class Jacobian:
    """The map of one class at one size, and the rank that is claimed.

    Attributes:
        n, k, depth: sizes; k = n for the last two classes.
        kind: one of `CLASSES`: (B, H, g), or (A, r) with rows of A free, or with row sums fixed to g.
        expected: the rank.
        held: letters among B, H, g that do not move.
    """

    n: int
    k: int
    depth: int
    kind: str
    expected: int
    held: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}, n = {self.n}, k = {self.k}, L = {self.depth}"

    @property
    def upper(self) -> int:
        """What the rank cannot exceed: outputs, and parameters without the directions that change nothing."""
        parameters = self.n * self.n if self.kind == "stochastic" else self.n * self.k + self.k
        return min(self.n * self.depth, parameters)


def random_rows(rng: random.Random, p: int, rows: int, columns: int) -> nmod_mat:
    """Uniform residues."""
    return nmod_mat(rows, columns, [rng.randrange(p) for _ in range(rows * columns)], p)


def jacobian(case: Jacobian, rng: random.Random, p: int) -> nmod_mat:
    """Rows are outputs (depth, state), columns the directions that may move; at a random point modulo p."""
    n, k = case.n, case.k
    if case.kind == CLASSES[0]:
        return _of_context(case, random_rows(rng, p, n, k), random_rows(rng, p, k, k), random_rows(rng, p, k, 1), p)
    A, r = random_rows(rng, p, n, n), random_rows(rng, p, n, 1)
    if case.kind == "stochastic":
        g = rng.randrange(1, p)
        for i in range(n):
            A[i, n - 1] = g - sum((int(A[i, j]) for j in range(n - 1)), 0)
    # (A, r) -> A^j r is the map above with B = I held, H = A, g = r.
    one = nmod_mat(n, n, [int(i == j) for i in range(n) for j in range(n)], p)
    J = _of_context(Jacobian(n, n, case.depth, CLASSES[0], 0, (*case.held, "B")), one, A, r, p)
    if case.kind == "sub-stochastic" or "H" in case.held:
        return J
    # Directions of A with zero row sums: e_a (e_b - e_n)'.
    return J * _fixed_row_sums(n, 0 if "g" in case.held else n, p)


def _of_context(case: Jacobian, B: nmod_mat, H: nmod_mat, g: nmod_mat, p: int) -> nmod_mat:
    """d(B H^j g) = dB H^j g + sum_i B H^i dH H^{j-1-i} g + B H^j dg; columns ordered (B by rows, H by rows, g)."""
    n, k = case.n, case.k
    maps, states = [B], [g]
    for _ in range(case.depth - 1):
        maps.append(maps[-1] * H)
        states.append(H * states[-1])
    # All (state x, row a) down, powers i across; then times the states, (i, column b).
    stacked = [[int(M[x, a]) for M in maps] for x in range(n) for a in range(k)]
    rows: list[list[int]] = []
    for j in range(case.depth):
        y = [int(states[j][b, 0]) for b in range(k)]
        if j:
            left = nmod_mat(n * k, j, [x for line in stacked for x in line[:j]], p)
            right = nmod_mat(j, k, [int(states[j - 1 - i][b, 0]) for i in range(j) for b in range(k)], p)
            moved = left * right
        for x in range(n):
            line: list[int] = []
            if "B" not in case.held:
                line += [0] * (x * k) + y + [0] * ((n - 1 - x) * k)
            if "H" not in case.held:
                line += [int(moved[x * k + a, b]) for a in range(k) for b in range(k)] if j else [0] * (k * k)
            if "g" not in case.held:
                line += [int(maps[j][x, a]) for a in range(k)]
            rows.append(line)
    moving = sum({"B": n * k, "H": k * k, "g": k}[name] for name in "BHg" if name not in case.held)
    return nmod_mat(len(rows), moving, [x for line in rows for x in line], p)


def _fixed_row_sums(n: int, rewards: int, p: int) -> nmod_mat:
    """Columns are directions of (A by rows, r): e_a (e_b - e_n)' for b < n, then the rewards that move."""
    height, width = n * n + rewards, n * (n - 1) + rewards
    out = nmod_mat(height, width, [0] * (height * width), p)
    for a in range(n):
        for b in range(n - 1):
            out[a * n + b, a * (n - 1) + b] = 1
            out[a * n + n - 1, a * (n - 1) + b] = p - 1
    for i in range(rewards):
        out[n * n + i, n * (n - 1) + i] = 1
    return out


def prove_ranks(cases: Sequence[Jacobian], seed: int = 0) -> Finding:
    """At random points modulo primes every rank is the one claimed, and it meets the upper bound."""
    rng = random.Random(f"memory {seed}")
    found, kept = [], []
    for case in cases:
        ranks = []
        for _ in range(POINTS):
            p = random_prime(rng, BITS)
            matrix = jacobian(case, rng, p)
            ranks.append(matrix.rank())
            if ranks[-1] == case.expected:
                break
        where: dict[str, Any] = {"class": case.kind, "n": case.n, "k": case.k, "L": case.depth}
        if ranks[-1] != case.expected:
            wrong = {"block": "Jacobian", "found": f"rank {max(ranks)}", "expected": f"rank {case.expected}"}
            return Finding(Verdict.REFUTED, {**where, **wrong, "points": len(ranks)})
        if case.upper != case.expected:
            beyond = {"block": "upper bound", "found": case.upper, "expected": case.expected}
            return Finding(Verdict.REFUTED, {**where, **beyond})
        found.append({**where, "rank": case.expected})
        if case.n <= LARGEST_RECORDED:
            kept.append(rank_record(matrix, f"{case}"))
    return Finding(Verdict.PROVED, {"jacobians": found}, tuple(kept))


def context_cases(states: int, dimension: int) -> list[Jacobian]:
    """(B, H, g) for n <= states, k <= min(n, dimension): rank nk at L = k, nk + k at L = k + 1 and k + 2."""
    return [
        Jacobian(n, k, k + more, CLASSES[0], n * k + (k if more else 0))
        for n in range(1, states + 1)
        for k in range(1, min(n, dimension) + 1)
        for more in (0, 1, 2)
    ]


def class_cases(states: int) -> list[Jacobian]:
    """k = n: stochastic n^2, sub-stochastic n^2 + n, at L = n + 1."""
    return [
        case
        for n in range(2, states + 1)
        for case in (
            Jacobian(n, n, n + 1, "stochastic", n * n),
            Jacobian(n, n, n + 1, "sub-stochastic", n * n + n),
        )
    ]


def jacobian_mutants(cases: Sequence[Jacobian]) -> Iterator[Mutant]:
    """Another depth, a letter that does not move, another class of tasks; one case each."""
    for case in cases:
        for change in (-1, 1):
            yield Mutant("loop", f"{case}: depth {change:+d}", [replace(case, depth=case.depth + change)])
        for held in ("B", "H", "g"):
            yield Mutant("entry", f"{case}: {held} held", [replace(case, held=(held,))])
        for kind in CLASSES:
            if kind != case.kind:
                yield Mutant("entry", f"{case}: as {kind}", [replace(case, kind=kind)])


def prove_gauge() -> Finding:
    """(B T, T^-1 H T, T^-1 g) has the outputs of (B, H, g); and below n states a stochastic A carries any (B, H).

    The second: complete [B 1] by X to an invertible matrix, with inverse [W'; w'; Y'], and set
    A = B H W' + g 1 w' + Z Y'. Then A B = B H and A 1 = g 1, and A depends continuously on (B, H): near a positive A
    it stays positive.
    """
    B, H, p, T, S = letter("B", N, K), letter("H", K, K), letter("p", K, 1), letter("T", K, K), letter("T^-1", K, K)
    inverse = rule(T @ S, identity(K))
    gauge = {
        "output": (B @ T @ (S @ p), B @ p),
        "next state": (S @ H @ T @ (S @ p), S @ (H @ p)),
    }
    one, g, W, w = letter("1", N, 1), letter("g", 1, 1), letter("W", N, K), letter("w", N, 1)
    Z, Y = letter("Z", N, R), letter("Y", N, R)
    A = B @ H @ W.T + one @ g @ w.T + Z @ Y.T
    dual = rule(W.T @ B, identity(K)) + rule(W.T @ one, zero(K, 1)) + rule(w.T @ B, zero(1, K))
    dual += rule(w.T @ one, identity(1)) + rule(Y.T @ B, zero(R, K)) + rule(Y.T @ one, zero(R, 1))
    return Finding.all_of(
        {
            "gauge": prove_words(gauge, inverse),
            "stochastic, k < n": prove_words({"A B = B H": (A @ B, B @ H), "A 1 = g 1": (A @ one, one @ g)}, dual),
        }
    )


def claims() -> list[Claim]:
    """The claims of td.memory."""
    assumptions = (CONTINUITY, INVARIANCE, "the rank at one point is a lower bound on the generic rank")
    return [
        Claim(
            THEOREM,
            "gauge",
            "a change of basis leaves all outputs as they are, so no rank exceeds nk + k; for k < n a stochastic A"
            " carries any (B, H) near one that it carries",
            "all n and k",
            Assurance.INDUCTIVE,
            (CONTINUITY, INVARIANCE, "[B 1] has independent columns, which holds for almost all B where k < n"),
            tuple,
            lambda _: prove_gauge(),
        ),
        Claim(
            THEOREM,
            "rank",
            "the Jacobian of (B, H, g) -> (B H^j g)_{j<L} has rank nk at L = k and nk + k at L = k + 1 and k + 2",
            "n <= 16, k <= min(n, 8)",
            Assurance.EXACT,
            assumptions,
            lambda: context_cases(16, 8),
            prove_ranks,
            mutants=jacobian_mutants,
        ),
        Claim(
            THEOREM,
            "classes",
            "at k = n the tangent space of stochastic tasks with public g gives rank n^2, of sub-stochastic n^2 + n",
            "n <= 10, L = n + 1",
            Assurance.EXACT,
            assumptions,
            lambda: class_cases(10),
            prove_ranks,
            mutants=jacobian_mutants,
        ),
    ]
