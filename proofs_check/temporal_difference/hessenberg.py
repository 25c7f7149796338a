"""td.hessenberg: the executor for all sizes, the encoder on instances in Q and on strata, the registers counted."""

from __future__ import annotations

import random
from collections.abc import Sequence

import sympy as sp
from flint import fmpq_mat

from constructions.arithmetic import Array
from constructions.exact import RATIONALS
from constructions.program import Program
from constructions.temporal_difference import hessenberg, krylov, memory_optimal
from constructions.temporal_difference.hessenberg import ASSUMPTIONS, EXECUTOR_ASSUMPTIONS, THEOREM
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding
from ..generic_layer import prove_words, random_matrix
from ..instances import InstanceSource
from ..schwartz_zippel import Case, Source
from ..words import identity, letter, ones_row, rule, zero
from . import context_facts
from .generic_tasks import Sizes, case, invariant_task, td_rows
from .memory_optimal import (
    CONTEXT,
    K,
    Kept,
    Kind,
    L,
    M,
    N,
    kept_context_claims,
    kept_or_bad,
    minus,
    prove_values,
    public_start,
    stage_two,
    states,
    values_of,
)

ROUNDS = sp.Symbol("h", integer=True, positive=True)
PLACES = "hypothesis T'U = H: u_j is column j of H, t_i the place e_i"


def _kept() -> Kept:
    T, U, H = letter("T", ROUNDS, K), letter("U", ROUNDS, K), letter("H", K, K)

    def sample(rng: random.Random, n: int, k: int) -> dict[str, fmpq_mat]:
        h = k + 1
        values = {"T": RATIONALS.one_hot(range(k), h), "U": random_matrix(rng, h, k)}
        return {**values, "H": RATIONALS.rows(values["U"], 0, k)}

    return Kept({"t": T, "u": U, "one": ones_row(K)}, H, rule(T.T @ U, H), sample, lambda k: {ROUNDS: k + 1})


def prove_identities() -> Finding:
    """H has unit sub-diagonal, zeros below it and the scores above; so A b = b_{j+1} + C h reads H off W' A B."""
    A, b, c = letter("A", N, N), letter("b", N, 1), letter("b_{j+1}", N, 1)
    C, W, h = letter("C", N, M), letter("W", N, M), letter("h", M, 1)
    w, later = letter("w_{j+1}", N, 1), letter("w_i", N, 1)
    round_ = rule(A @ b, c + C @ h)
    dual = rule(W.T @ C, identity(M)) + rule(W.T @ c, zero(M, 1))
    dual += rule(w.T @ c, identity(1)) + rule(w.T @ C, zero(1, M))
    dual += rule(later.T @ c, zero(1, 1)) + rule(later.T @ C, zero(1, M))
    return prove_words(
        {
            "above": (W.T @ A @ b, h),
            "sub-diagonal": (w.T @ A @ b, identity(1)),
            "below": (later.T @ A @ b, zero(1, 1)),
        },
        round_ + dual,
    )


def public_below(tokens: Tokens, k: int, h: int) -> str | None:
    """s_0 = e_1, places, and e_{j+1} below the diagonal in column j of u."""
    U = tokens.read("source", "u", h, RATIONALS)
    if any(U[i, j] != int(i == j + 1) for j in range(k) for i in range(j + 1, h)):
        return "source.u"
    if tokens.read("source", "t", h, RATIONALS) != RATIONALS.one_hot(range(k), h):
        return "source.t"
    return public_start(tokens, k, h)


KIND = Kind(hessenberg, lambda n, k: n * k + k * (k + 1) // 2, public_below, context_facts.hessenberg)


def generic_difference(program: Program, source: Source, sizes: Sizes) -> Array:
    """Without a depth [B; H] minus orthogonal projections, else the values minus TD's."""
    a, n, k = source.arithmetic, sizes.n, sizes.k
    A, r = invariant_task(source, sizes)
    queries = n if sizes.depth else 0
    tokens = hessenberg.with_hessenberg_banks(states(source, A, r, sizes), sizes.rounds, a, queries)
    if sizes.depth:
        return minus(a, values_of(program, tokens, source, sizes), td_rows(a, A, r, sizes.depth))
    found = hessenberg.read_context(kept_or_bad(program.run(tokens, a), sizes), n, sizes.rounds, a)
    powers, basis = [r], [r]
    for _ in range(k - 1):
        power = a.matmul(A, powers[-1])
        P = a.stack([powers])
        Pt = a.transpose(P)
        onto = a.matmul(P, a.matmul(source.inverse(a.matmul(Pt, P)), a.matmul(Pt, power)))
        basis.append(a.add(power, a.negate(onto)))
        powers.append(power)
    B = a.stack([basis])
    Bt = a.transpose(B)
    H = a.matmul(source.inverse(a.matmul(Bt, B)), a.matmul(Bt, a.matmul(A, B)))
    return minus(a, found, a.stack([[B], [H]]))


def generic_cases(strata: Sequence[Sizes]) -> list[Case]:
    """The encoder (no depth), or encoder and executor, at the sizes given."""
    out = []
    for s in strata:
        layout, layers = memory_optimal.basis_layout(s.n, s.rounds), hessenberg.encoder_layers(s.rounds)
        steps = hessenberg.executor_program(s.n, s.rounds, s.depth).layers if s.depth else ()
        block = "v at depth" if s.depth else "[B; H]"
        stated = None if s.depth else context_facts.hessenberg(s.rounds)
        built = stage_two(layout, layers, steps)
        out.append(case(built, generic_difference, s, block, stated, values=bool(s.depth)))
    return out


def claims(encoders: InstanceSource, evaluators: InstanceSource, large: InstanceSource) -> list[Claim]:
    """The claims of td.hessenberg; the instances come from the caller."""
    return [
        Claim(
            THEOREM,
            "values",
            "one layer maps s to H s and c to c - E'B s, so after l layers a query q reads v_l(q), l <= L",
            "all n, k, h, L and queries",
            Assurance.INDUCTIVE,
            (PLACES, CONTEXT, *EXECUTOR_ASSUMPTIONS),
            lambda: hessenberg.executor_program(N, ROUNDS, L),
            lambda program: prove_values(program, _kept()),
        ),
        Claim(
            THEOREM,
            "identities",
            "in the monic basis H = W'AB has unit sub-diagonal, zeros below it, and the Gram-Schmidt scores above",
            "all n, rounds and tasks",
            Assurance.INDUCTIVE,
            (*krylov.ASSUMPTIONS, "W'B = I on the tokens kept, as td.krylov proves"),
            tuple,
            lambda _: prove_identities(),
        ),
        *kept_context_claims(THEOREM, KIND, "nk + k(k+1)/2", encoders, evaluators, large, ASSUMPTIONS, generic_cases),
    ]
