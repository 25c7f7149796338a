"""td.lanczos: the executor for all sizes, three terms suffice, instances in Q, strata, and the registers counted."""

from __future__ import annotations

import random
from collections.abc import Sequence

from flint import fmpq_mat

from constructions.arithmetic import Array
from constructions.exact import RATIONALS
from constructions.program import Program
from constructions.temporal_difference import krylov, lanczos
from constructions.temporal_difference.lanczos import ASSUMPTIONS, EXECUTOR_ASSUMPTIONS, POSITIVITY, THEOREM
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding
from ..generic_layer import prove_words, random_matrix
from ..instances import InstanceSource
from ..schwartz_zippel import Case, Source
from ..words import diagonal, letter, ones_row, rule, zero
from . import context_facts
from .generic_tasks import Sizes, case, td_rows
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
    shift_matrix,
    stage_two,
    states,
    values_of,
)


def _kept() -> Kept:
    alpha, beta, shift = letter("alpha'", 1, K), letter("beta'", 1, K), letter("shift", K, K)
    # s' N diag(beta) + s' diag(alpha) + s' N' is (H s)' for H = N + diag(alpha) + diag(beta) N'.
    H = shift + diagonal("alpha'", K) + diagonal("beta'", K) @ shift.T

    def sample(rng: random.Random, n: int, k: int) -> dict[str, fmpq_mat]:
        values = {"shift": shift_matrix(k)}
        for name in ("alpha'", "beta'"):
            row = random_matrix(rng, 1, k)
            values[name] = row
            values[f"diag({name})"] = fmpq_mat(k, k, [row[0, i] if i == j else 0 for i in range(k) for j in range(k)])
        return values

    return Kept({"q": alpha, "m": beta, "one": ones_row(K)}, H, [], sample)


def prove_identities() -> Finding:
    """D A symmetric: A b_j has no part along b_i for i < j - 1, and beta_j = d_j / d_{j-1}.

    Letters: b = b_i with A b in the span of a bank C whose D-inner products with c = b_j vanish; e = b_{j-1} with
    A e = b_j + (a bank G that is D-orthogonal to b_j).
    """
    A, D, S = letter("A", N, N), letter("D", N, N, symmetric=True), letter("DA", N, N, symmetric=True)
    b, c, e = letter("b_i", N, 1), letter("b_j", N, 1), letter("b_{j-1}", N, 1)
    C, p, d = letter("C", N, M), letter("p", M, 1), letter("d_j", 1, 1)
    self_adjoint = rule(D @ A, S)
    # b' S = (D A b)' : the one use of symmetry, given as the transposed word.
    spans = rule(S @ b, D @ C @ p) + rule(S @ e, D @ c + D @ C @ p)
    orthogonal = rule(C.T @ D @ c, zero(M, 1)) + rule(c.T @ D @ c, d)
    return prove_words(
        {
            "b_i' D A b_j = 0 for i < j - 1": (b.T @ D @ A @ c, zero(1, 1)),
            "b_{j-1}' D A b_j = d_j": (e.T @ D @ A @ c, d),
        },
        self_adjoint + spans + orthogonal,
    )


def public_last(tokens: Tokens, k: int, h: int) -> str | None:
    """s_0 = e_1, ones, and no beta beyond the last source."""
    return "source.m" if tokens.read("source", "m", 1, RATIONALS)[0, k - 1] != 0 else public_start(tokens, k, h)


KIND = Kind(lanczos, lambda n, k: n * k + 2 * k - (k > 0), public_last, context_facts.lanczos)


def reversible_task(source: Source, sizes: Sizes) -> tuple[Array, Array, Array]:
    """A, r and the visits (one row): D A symmetric, Krylov dimension k, generic otherwise.

    With F the D-orthogonal projection on the range of a generic B0: A = B0 X B0' D + (I - F) Y (I - F)' D with
    symmetric X, Y, since D (I - F) = (I - F)' D; r is in the range of B0.
    """
    a, n, k = source.arithmetic, sizes.n, sizes.k
    visits, B = source.generic(1, n), source.generic(n, k)
    weighted = a.transpose(a.scale_columns(a.transpose(B), visits))

    def symmetric(size: int) -> Array:
        X = source.generic(size, size)
        return a.add(X, a.transpose(X))

    A = a.matmul(B, a.matmul(symmetric(k), a.transpose(weighted)))
    if k < n:
        onto = a.matmul(source.inverse(a.matmul(a.transpose(weighted), B)), a.transpose(weighted))
        rest = a.add(a.one_hot(range(n), n), a.negate(a.matmul(B, onto)))
        A = a.add(A, a.scale_columns(a.matmul(rest, a.matmul(symmetric(n), a.transpose(rest))), visits))
    return A, a.matmul(B, source.generic(k, 1)), visits


def generic_difference(program: Program, source: Source, sizes: Sizes) -> Array:
    """Without a depth [B; alpha'; beta'] minus weighted projections, else the values minus TD's."""
    a, n, k = source.arithmetic, sizes.n, sizes.k
    A, r, visits = reversible_task(source, sizes)
    tokens = states(source, A, r, sizes)
    tokens = tokens.replacing({("state", "u"): a.scale_columns(a.one_hot(range(n), n), visits)})
    tokens = lanczos.with_lanczos_banks(tokens, sizes.rounds, a, n if sizes.depth else 0)
    if sizes.depth:
        return minus(a, values_of(program, tokens, source, sizes), td_rows(a, A, r, sizes.depth))
    found = lanczos.read_context(kept_or_bad(program.run(tokens, a), sizes), n, a)

    def dual(x: Array) -> Array:
        return a.scale_columns(a.transpose(x), visits)

    powers, basis = [r], [r]
    for _ in range(k - 1):
        power = a.matmul(A, powers[-1])
        P = a.stack([powers])
        onto = a.matmul(P, a.matmul(source.inverse(a.matmul(dual(P), P)), a.matmul(dual(P), power)))
        basis.append(a.add(power, a.negate(onto)))
        powers.append(power)
    B = a.stack([basis])
    H = a.matmul(source.inverse(a.matmul(dual(B), B)), a.matmul(dual(B), a.matmul(A, B)))
    alpha = a.stack([[a.columns(a.rows(H, j, j + 1), j, j + 1) for j in range(k)]])
    beta = [a.columns(a.rows(H, j, j + 1), j + 1, j + 2) for j in range(k - 1)]
    return minus(a, found, a.stack([[B], [alpha], [a.stack([[*beta, a.matrix([[0]])]])]]))


def generic_cases(strata: Sequence[Sizes]) -> list[Case]:
    """The encoder (no depth), or encoder and executor, at the sizes given."""
    out = []
    for s in strata:
        layers = lanczos.encoder_layers(s.rounds)
        steps = lanczos.executor_program(s.n, s.depth).layers if s.depth else ()
        block = "v at depth" if s.depth else "[B; alpha'; beta']"
        stated = None if s.depth else context_facts.lanczos(s.rounds)
        built = stage_two(lanczos.lanczos_layout(s.n), layers, steps)
        out.append(case(built, generic_difference, s, block, stated, values=bool(s.depth)))
    return out


def claims(encoders: InstanceSource, evaluators: InstanceSource, large: InstanceSource) -> list[Claim]:
    """The claims of td.lanczos; the instances, all count-reversible, come from the caller."""
    return [
        Claim(
            THEOREM,
            "values",
            "one layer maps s to H s with H = N + diag(alpha) + diag(beta) N', and c to c - E'B s, so after l layers"
            " a query q reads v_l(q), l <= L",
            "all n, k, L and queries",
            Assurance.INDUCTIVE,
            (CONTEXT, *EXECUTOR_ASSUMPTIONS),
            lambda: lanczos.executor_program(N, L),
            lambda program: prove_values(program, _kept()),
        ),
        Claim(
            THEOREM,
            "identities",
            "D A symmetric gives b_i' D A b_j = 0 for i < j - 1 and beta_j = d_j / d_{j-1}: three terms suffice",
            "all n, rounds and count-reversible tasks",
            Assurance.INDUCTIVE,
            (*krylov.ASSUMPTIONS[:1], "D A = (D A)', which is N_ij = N_ji", POSITIVITY),
            tuple,
            lambda _: prove_identities(),
        ),
        *kept_context_claims(THEOREM, KIND, "nk + 2k - 1", encoders, evaluators, large, ASSUMPTIONS, generic_cases),
    ]
