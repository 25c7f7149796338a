"""td.softmax-executor: one layer with two softmax heads, repeated, executes the same context (source: App. B).

Derivation. td.executor adds to a target t, a query q or a source i, the sum over sources j of G_tj s_j, where

    G = [-B; H - I],   row q of -B for query q, row i of H - I for source i.

Softmax weights are positive and sum to one. So signs and size go into the values: with G = G+ - G-, both >= 0, a public
delta > 0 and a public K that exceeds every row sum of G+ + delta and of G- + delta, source j is scored by
log(G+_tj + delta) in one head and log(G-_tj + delta) in the other, and a null source of value 0 by the logarithm of
what is left, K - sum_j (G+-_tj + delta). The exponentials of a target's scores then sum to K, so the weight of source j
is (G+-_tj + delta) / K, and the two heads, which move +K s and -K s, add

    sum_j (G+_tj + delta) s_j - sum_j (G-_tj + delta) s_j = sum_j G_tj s_j .

delta keeps the scores finite (log 0 = -inf, and a one-hot code times it is 0 * -inf = NaN) and cancels exactly.
Scores are inner products with codes: e_q, of height n + h, for query q and e_{n+i} for source i.

    field   source j                      null                     query
    pos     e_{n+j} (public)              -                        e_q (public)
    plus    log(G+_tj + delta), all t     log of what is left      -
    minus   log(G-_tj + delta), all t     log of what is left      -
    r       s_j, at first (g0)_j          -                        c, at last -v_l(q)

K is public for two kinds of context. With m = |A|_2 <= g sqrt(n):
 - "balanced": orthogonal b_j scaled by powers of two to 1/2 <= |b_j|^2 < 2, rational. Rows of B have sums at most
   sqrt(2k); H_ij = b_i'A b_j / |b_i|^2 with |b_j| < 2 |b_i|, so rows of H have sums at most 2 sqrt(k) m.
 - "companion": b_j = A^{j-1} r, H a shift with last column a. Rows of B have sums at most R / (1 - g), R >= |r|_inf
   public. For L > k the roots of x^k - sum_i a_i x^i are eigenvalues of A, at most g in modulus, so
   sum_i |a_i| <= (1 + g)^k - g^k; for L = k the last column is never read, and a = 0.
(The monic b_j of td.krylov have |b_j| <= m^{j-i} |b_i| only, hence a K that grows like (g sqrt(n))^k.)

Compiled are 2 (n + k)(k + 1) logarithms and k values, exactly and then rounded once; a query of any state needs its
code only. The encoder's rounds are not part of this program. Width 3 (n + h) + 1, at most 6n + 1.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt
from typing import Any

import sympy as sp
from flint import fmpq, fmpq_mat

from ..arithmetic import Arithmetic, Exact
from ..construction import Construction
from ..errors import BadInput
from ..exact import RATIONALS
from ..layers import Repeat, full
from ..layout import Layout, Size
from ..normalised_attention import Move, NormalisedHead, Score, SoftmaxAttention
from ..program import Program
from ..task import Task, exact_discount
from ..tokens import Tokens
from . import executor, krylov, memory_optimal

THEOREM = "td.softmax-executor"
SOURCE = "App. B: the executor by softmax attention (theory A8)"
CONTEXTS = ("balanced", "companion")
DELTA = Fraction(1, 256)
ASSUMPTIONS = (
    *executor.ASSUMPTIONS,
    "declared primitive softmax attention, weights exp(score) over their sum; exp(log x) = x for x > 0",
    "delta, K and the codes of the tokens are public",
    "the logarithms are compiled from the exact context, outside the program",
)


def softmax_layout(n: Size, h: Size) -> Layout:
    """Width 3 (n + h) + 1."""
    return Layout(pos=n + h, plus=n + h, minus=n + h, r=1)


def softmax_step(K: Exact | sp.Expr) -> SoftmaxAttention:
    """Two heads: +K s by the scores of G+, -K s by those of G-."""
    routes = tuple(full(source, target) for target in ("source", "query") for source in ("source", "null"))
    heads = tuple(
        NormalisedHead((Move("r", "r", sign * K),), (Score(part, "pos"),), routes)
        for part, sign in (("plus", 1), ("minus", -1))
    )
    return SoftmaxAttention(heads, "step")


def softmax_program(n: Size, h: Size, depth: Size, K: Exact | sp.Expr) -> Program:
    """`depth` steps; n, h, depth and K may be symbols."""
    name = "executor by softmax attention"
    return Program(name, softmax_layout(n, h), ("source", "null", "query"), (Repeat((softmax_step(K),), depth),))


def public_total(kind: str, n: int, h: int, discount: Any, delta: Exact = DELTA, largest_reward: Exact = 1) -> int:
    """K for contexts of a kind with at most h vectors on n states, by the bounds of the module's text, rounded up.

    Raises:
        BadInput: an unknown kind, a discount outside (0, 1), or a delta or reward that is not positive.
    """
    g, delta, largest = exact_discount(discount), Fraction(delta), Fraction(largest_reward)
    if kind not in CONTEXTS:
        raise BadInput(f"{THEOREM}: expected one of the contexts {', '.join(CONTEXTS)}, found {kind!r}")
    if delta <= 0 or largest <= 0:
        raise BadInput(f"{THEOREM}: expected a positive delta and reward bound, found {delta} and {largest}")
    if kind == "companion":
        return ceil(max(largest / (1 - g), 2 + (1 + g) ** h) + h * delta) + 1
    return ceil(2 * (g * (isqrt(h * n) + 1) + isqrt(h) + 1) + h * delta) + 1


Parts = tuple[fmpq_mat, fmpq_mat, fmpq_mat]
"""B, H and g0, shapes (n, k), (k, k), (k, 1)."""


@lru_cache(maxsize=4)
def balanced_parts(task: Task, depth: int) -> Parts | None:
    """The context of td.krylov with b_j scaled by powers of two to 1/2 <= |b_j|^2 < 2; None where k = 0."""
    context = krylov.exact_context(task, depth)
    if context is None:
        return None
    n, k = task.n, context.ncols()
    B, Y = RATIONALS.rows(context, 0, n), RATIONALS.rows(context, n, 2 * n)
    H = (Y - B).transpose() * B + RATIONALS.one_hot(range(k), k)
    norms = [(b.transpose() * b)[0, 0] for b in (RATIONALS.columns(B, j, j + 1) for j in range(k))]
    scale, inverse = fmpq_mat(k, k), fmpq_mat(k, k)
    for j, norm in enumerate(norms):
        scale[j, j] = fmpq(2) ** _halving(norm)
        inverse[j, j] = 1 / scale[j, j]
    g0 = RATIONALS.rows(context, 2 * n, 2 * n + 1).transpose()
    return B * scale, inverse * H * scale, inverse * g0


def _halving(norm: fmpq) -> int:
    """The e with 1/2 <= 4^e norm < 2."""
    e = (int(norm.q).bit_length() - int(norm.p).bit_length()) // 2
    while norm * fmpq(4) ** e < fmpq(1, 2):
        e += 1
    while norm * fmpq(4) ** e >= 2:
        e -= 1
    return e


@lru_cache(maxsize=4)
def companion_parts(task: Task, depth: int) -> Parts | None:
    """[r, A r, ..], the shift with last column a (0 where L = k), and e_1; None where k = 0."""
    context = memory_optimal.exact_context(task, depth)
    if context is None:
        return None
    n, k = task.n, context.ncols()
    H = fmpq_mat(k, k)
    for j in range(k - 1):
        H[j + 1, j] = fmpq(1)
    if depth > k:
        for i in range(k):
            H[i, k - 1] = H[i, k - 1] + context[n, i]
    return RATIONALS.rows(context, 0, n), H, RATIONALS.one_hot([0], k)


PARTS = {"balanced": balanced_parts, "companion": companion_parts}


def changes(parts: Parts) -> fmpq_mat:
    """G = [-B; H - I], shape (n + k, k)."""
    B, H, _ = parts
    return RATIONALS.stack([[-B], [H - RATIONALS.one_hot(range(H.ncols()), H.ncols())]])


def shares(G: fmpq_mat, delta: Exact, K: Exact) -> tuple[fmpq_mat, fmpq_mat]:
    """K times the weights of both heads, each of shape (targets, k + 1), the null source last: their rows sum to K.

    Raises:
        BadInput: a row of G+ + delta or G- + delta sums to K or more.
    """
    small, total = (fmpq(x.numerator, x.denominator) for x in (Fraction(delta), Fraction(K)))
    out = []
    for sign in (1, -1):
        rows = []
        for t, row in enumerate(G.tolist()):
            given = [max(sign * x, fmpq(0)) + small for x in row]
            left = total - sum(given, fmpq(0))
            if left <= 0:
                raise BadInput(
                    f"{THEOREM}: expected weights of target {t + 1} with a sum below K = {total}, found {total - left}"
                )
            rows.append([*given, left])
        out.append(fmpq_mat(rows))
    return out[0], out[1]


def compiled_tokens(parts: Parts | None, n: int, h: int, delta: Exact, K: Exact, arithmetic: Arithmetic) -> Tokens:
    """Sources and the null source with their logarithms, and one query per state; targets without a token have 0."""
    query = {"pos": arithmetic.one_hot(range(n), n + h)}
    if parts is None:
        return Tokens({"source": 0, "null": 1}, {}).with_kind("query", n, **query)
    k = parts[1].ncols()
    source: dict[str, Any] = {"pos": arithmetic.one_hot(range(n, n + k), n + h)}
    null = {}
    for field, weights in zip(("plus", "minus"), shares(changes(parts), delta, K), strict=True):
        rows = [[_log(x) for x in row] for row in weights.tolist()]
        rows += [[sp.Integer(0)] * (k + 1)] * (h - k)
        logs = arithmetic.matrix(rows)
        source[field], null[field] = arithmetic.columns(logs, 0, k), arithmetic.columns(logs, k, k + 1)
    source["r"] = arithmetic.matrix(parts[2].transpose().tolist())
    return Tokens({}, {}).with_kind("source", k, **source).with_kind("null", 1, **null).with_kind("query", n, **query)


def _log(x: fmpq) -> sp.Expr:
    return sp.log(sp.Rational(int(x.p), int(x.q)), evaluate=False)


def compiled_counts(n: int, k: int) -> tuple[int, int]:
    """How many logarithms and how many values are compiled: 2 (n + k)(k + 1) and k."""
    return 2 * (n + k) * (k + 1), k


def from_context(
    n: int, depth: int, discount: Any, kind: str = "balanced", delta: Exact = DELTA, largest_reward: Exact = 1
) -> Construction:
    """The softmax executor on the exact context of a kind; its answer is v_0 .. v_L, shape (L + 1, n).

    Args:
        n, depth: number of states, L.
        discount: g, or an upper bound on it, for K.
        kind: "balanced" or "companion".
        delta: what is added to both parts of G.
        largest_reward: R >= |r|_inf, for the K of companion contexts.

    Raises:
        BadInput: a size that is not a positive int, or what `public_total` refuses.
    """
    krylov.check_build(THEOREM, n, depth, 1, 1)
    h = min(n, depth)
    K = public_total(kind, n, h, discount, delta, largest_reward)

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return compiled_tokens(PARTS[kind](task, depth), n, h, delta, K, arithmetic)

    return executor.evaluator(
        THEOREM,
        {"n": n, "L": depth, "h": h},
        softmax_program(n, h, depth, K),
        encode,
        ASSUMPTIONS,
        f"{SOURCE}: {kind} context, delta = {delta}, K = {K}",
    )
