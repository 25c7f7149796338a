"""td.linear-features: stage 1 for all sizes, stage 2 and executor as td.krylov and td.executor prove them, registers.

The program that is certified is one object: stage 1, the rounds of the encoder, compilation, the executor's loop. Each
inductive claim reads its own layers off it; those of stage 2 and of the executor are read by the proofs of td.krylov
and td.executor, with d for n, M for A and s_0 for r.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import sympy as sp
from flint import fmpq_mat

from constructions.arithmetic import Array
from constructions.layers import LinearAttention, Release, Repeat
from constructions.program import Program
from constructions.temporal_difference import executor as executor_room
from constructions.temporal_difference import krylov, linear_features
from constructions.temporal_difference.linear_features import ASSUMPTIONS, THEOREM
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict
from ..facts import Stated
from ..generic_layer import Point, prove_layers, prove_words, random_matrix
from ..instances import NAMED, Instance, InstanceSource, prove_instances, with_square_roots
from ..schwartz_zippel import Case, Identity, Source, prove_cases
from ..words import diagonal, identity, letter, ones_row, rule
from . import context_facts, dimension, encoder, executor, memory
from .context_facts import at_depth
from .generic_tasks import Sizes
from .krylov import SCHWARTZ_ZIPPEL
from .log_jacobians import prove_ranks, rank_cases, rank_mutants
from .memory_optimal import Kind, kept_or_bad, minus, prove_registers

D, RAW, K = encoder.N, sp.Symbol("N", integer=True, positive=True), encoder.K
SHAPE = (LinearAttention, LinearAttention, Release)
QUERIES = 2
REUSED = "M for A and s_0 for r in the induction of td.krylov (claims orthogonality and identities there)"


def build() -> Program:
    """The whole program for symbolic d and L, with enough rounds to have a first, inner and last one."""
    return linear_features.program(D, executor.L, encoder.ROUNDS, encoder.PASSES)


def _stage_1(program: Program) -> tuple[Any, ...] | None:
    """The layers that gather moments and form M, where the program starts with layers of these types."""
    first = program.layers[:3]
    return first if tuple(map(type, first)) == SHAPE else None


def _not_stage_1(program: Program) -> Finding:
    found = ", ".join(type(layer).__name__ for layer in program.layers[:3])
    return Finding(Verdict.REFUTED, {"block": program.name, "found": found, "expected": "moments, M and s_0, release"})


def prove_moments(program: Program) -> Finding:
    """z_i = sum_t phi_t[i] phi_t, u_i = sum_t phi_t[i] phi'_t, q_i = sum_t phi_t[i] R_t, for all N and d.

    With X = [phi_t], Y = [phi'_t] and rewards R, all of N columns: (X X')', (X Y')' and (X R')'.
    """
    layers = _stage_1(program)
    if layers is None:
        return _not_stage_1(program)
    X, Y, R = letter("X", D, RAW), letter("Y", D, RAW), letter("R", 1, RAW)
    before = {("raw", "x"): X, ("raw", "y"): Y, ("raw", "r"): R, **_blank()}
    after = {
        **before,
        ("state", "z"): (X @ X.T).T,
        ("state", "u"): (X @ Y.T).T,
        ("state", "q"): (X @ R.T).T,
    }

    def sample(rng: random.Random) -> Point:
        d, raw = rng.choice([(2, 3), (3, 5), (4, 4)])
        shapes = {"X": (d, raw), "Y": (d, raw), "R": (1, raw), "g": (1, d), "a": (1, d)}
        return {name: random_matrix(rng, *shape) for name, shape in shapes.items()}, {D: d, RAW: raw}

    return prove_layers(layers[:1], program.layout, Tokens({"raw": RAW, "state": D}, before), after, [], sample)


def _blank() -> dict[tuple[str, str], Any]:
    """State tokens as they enter: e_i, 1, g and a (the last two as rows of any numbers, one a token)."""
    public = {"one": ones_row(D), "gam": letter("g", 1, D), "alp": letter("a", 1, D)}
    return {("state", "x"): identity(D), **{("state", field): row for field, row in public.items()}}


def prove_step(program: Program) -> Finding:
    """y_i = e_i - a z_i + a g u_i and r_i = a q_i on every state token, for all d."""
    layers = _stage_1(program)
    if layers is None:
        return _not_stage_1(program)
    z, u, q = letter("z", D, D), letter("u", D, D), letter("q", 1, D)
    before = {**_blank(), ("state", "z"): z, ("state", "u"): u, ("state", "q"): q}
    after = {
        **before,
        ("state", "y"): identity(D) - z @ diagonal("a", D) + u @ diagonal("a o g", D),
        ("state", "r"): q @ diagonal("a", D),
    }

    def sample(rng: random.Random) -> Point:
        d = rng.choice([2, 3, 4])
        shapes = {"z": (d, d), "u": (d, d), "q": (1, d), "g": (1, d), "a": (1, d)}
        point = {name: random_matrix(rng, *shape) for name, shape in shapes.items()}
        a, g = point["a"].entries(), point["g"].entries()
        point["diag(a)"] = _diag(a)
        point["diag(a o g)"] = _diag([x * y for x, y in zip(a, g, strict=True)])
        return point, {D: d}

    return prove_layers(layers[1:2], program.layout, Tokens({"state": D}, before), after, [], sample)


def _diag(entries: Sequence[Any]) -> fmpq_mat:
    d = len(entries)
    return fmpq_mat(d, d, [entries[i] if i == j else 0 for i in range(d) for j in range(d)])


def prove_stage_2(program: Program) -> Finding:
    """The rounds and the compilation of td.krylov, read off this program after its own stage 1."""
    encoded = program.with_layers(program.layers[:-1])
    if not isinstance(program.layers[-1], Repeat) or any(isinstance(layer, Repeat) for layer in encoded.layers):
        return Finding(Verdict.REFUTED, {"block": program.name, "failure": "expected one loop, at the end"})
    rounds = encoder.prove_rounds(encoded, linear_features.moment_layers())
    return Finding.all_of({"rounds": rounds, "compilation": encoder.prove_compilation(encoded)})


def prove_values(program: Program) -> Finding:
    """-c_l = phi_q' w_l at every depth l <= L: the executor of td.executor, whose queries are any vectors."""
    return executor.prove_values(program.with_layers(program.layers[-1:]))


def prove_strata() -> Finding:
    """Features phi_t = T c_t give M^j s_0 = T H^j h with H = I - a C (X - g Y)' T and h = a C R'; and any M, s_0 occur.

    Letters: E = X - g Y, p = H^j h, w any vector. For given A_N and b_N take N = d, X = I, Y = (I - A_N)' / g and
    R = b_N': then Y' w = (w - A_N w) / g, and X (X - g Y)' w = w - g Y' w.
    """
    T, C, E, R = letter("T", D, K), letter("C", K, RAW), letter("E", D, RAW), letter("R", 1, RAW)
    a, p, X = letter("a", 1, 1), letter("p", K, 1), letter("T", D, K) @ letter("C", K, RAW)
    A, w, g, inverse = letter("A_N", D, D), letter("w", D, 1), letter("g", 1, 1), letter("1/g", 1, 1)
    ahead = (w - A @ w) @ inverse
    return prove_words(
        {
            "s_0 = T h": (X @ R.T @ a, T @ (C @ R.T @ a)),
            "M T p = T H p": (_less(D, X @ E.T, T @ p, a), T @ _less(K, C @ E.T @ T, p, a)),
            "any A_N": (w - ahead @ g, A @ w),
        },
        rule(inverse @ g, identity(1)),
    )


def _less(size: Any, matrix: Any, vector: Any, a: Any) -> Any:
    """(I - a matrix) vector, with the scalar a on the right."""
    return identity(size) @ vector - matrix @ vector @ a


def log_difference(program: Program, source: Source, sizes: Sizes) -> Array:
    """From raw tokens with features T c_t, T of shape (d, k), to predictions, minus batch TD sample by sample."""
    a, d, N = source.arithmetic, sizes.n, sizes.transitions
    X = a.matmul(source.generic(d, sizes.k), source.generic(sizes.k, N))
    Y, R, queries = source.generic(d, N), source.generic(1, N), source.generic(d, QUERIES)
    g, step = source.generic(1, 1), source.generic(1, 1)
    ones = a.matrix([[1] * d])
    public = {"one": ones, "gam": a.matmul(g, ones), "alp": a.matmul(step, ones)}
    tokens = Tokens({}, {}).with_kind("raw", N, x=X, y=Y, r=R)
    tokens = tokens.with_kind("state", d, x=a.one_hot(range(d), d), **public)
    for kind in ("slot", "source"):
        tokens = tokens.with_kind(kind, sizes.rounds, one=a.matrix([[1] * sizes.rounds]))
    tokens = tokens.with_kind("query", QUERIES, x=queries)
    steps = [
        (label, kept_or_bad(after, sizes) if label.startswith("step") else after)
        for label, after in program.steps(tokens, a)
    ]
    w, rows = a.matrix([[0]] * d), [[a.matrix([[0] * QUERIES])]]
    for _ in range(sizes.depth):
        now = a.transpose(w)
        ahead = a.matmul(g, a.matmul(now, Y))
        delta = a.add(a.add(R, ahead), a.negate(a.matmul(now, X)))
        w = a.add(w, a.matmul(a.matmul(X, a.transpose(delta)), step))
        rows.append([a.matmul(a.transpose(w), queries)])
    return minus(a, linear_features.decode(steps, a), a.stack(rows))


def generic_cases(strata: Sequence[Sizes], passes: int = 1) -> list[Case]:
    """The whole program at the sizes given; d stands where a tabular task has n."""
    out = []
    for s in strata:
        letters = {"d": s.n, "k": s.k, "L": s.depth, "h": s.rounds, "N": s.transitions, "passes": passes}
        built = linear_features.program(s.n, s.depth, s.rounds, passes)

        def difference(program: Program, source: Source, s: Sizes = s) -> Array:
            return log_difference(program, source, s)

        reads, stated = executor_room.VALUES, context_facts.predictions
        out.append(Case(built, Identity(letters, s.k, difference, "prediction at depth", reads, stated=stated)))
    return out


def predicted(_: Instance) -> Stated:
    """What the records say of a run of the whole program."""
    return context_facts.predictions


STRATA = (Sizes(3, 3, 4, 3, 4), Sizes(4, 2, 4, 4, 3), Sizes(4, 2, 2, 2, 5))
"""k = d; dependent features with k < h; L < d."""
LARGE_STRATA = (Sizes(24, 12, 30, 24, 60),)
CONTEXT = partial(context_facts.krylov, task=context_facts.linear)
KIND = Kind(krylov, lambda d, k: (2 * d + 1) * k, lambda tokens, k, h: None, CONTEXT)


def claims(
    encoders: InstanceSource,
    evaluators: InstanceSource,
    weights: InstanceSource,
    balanced: InstanceSource,
    large: InstanceSource,
) -> list[Claim]:
    """The claims of td.linear-features; the instances come from the caller, those of `weights` query unit vectors."""
    inductive = partial(Claim, THEOREM, assurance=Assurance.INDUCTIVE, build=build)
    exact = partial(Claim, THEOREM, assurance=Assurance.EXACT, assumptions=ASSUMPTIONS, scope=NAMED)
    values = partial(
        exact,
        statement="the whole program gives phi_q' w_l at every query and depth l <= L, as batch TD sample by sample",
    )
    generic = partial(
        Claim,
        THEOREM,
        statement="from raw transitions to predictions equals batch TD, as an identity of rational functions",
        scope="all logs whose features span k dimensions, with generic b_1, .., b_k, at the sizes in the evidence",
        assurance=Assurance.PROBABILISTIC,
        assumptions=(*ASSUMPTIONS, SCHWARTZ_ZIPPEL),
        prove=prove_cases,
    )
    return [
        inductive(
            name="moments",
            statement="three heads accumulate sum phi_t[i] phi_t, sum phi_t[i] phi'_t and (b_N)_i in state token i",
            scope="all N and d",
            assumptions=ASSUMPTIONS[1:2],
            prove=prove_moments,
        ),
        inductive(
            name="step",
            statement="four heads turn them into row i of M = I - a A_N and (s_0)_i = a (b_N)_i, without recip_0",
            scope="all d",
            assumptions=ASSUMPTIONS[1:3],
            prove=prove_step,
        ),
        inductive(
            name="stage-2",
            statement="after stage 1 the program's rounds and compilation make Z_0 of (M, s_0)",
            scope=f"all d, each of the {encoder.ROUNDS} rounds and {encoder.PASSES} passes as built",
            assumptions=(*ASSUMPTIONS, encoder.POSITIVITY, REUSED),
            prove=prove_stage_2,
        ),
        inductive(
            name="values",
            statement="after l layers minus the last coordinate of a query phi_q is phi_q' w_l, for every l <= L",
            scope="all d, k, L and queries",
            assumptions=(executor.BIORTHOGONAL, executor.KRYLOV, *executor.ASSUMPTIONS),
            prove=prove_values,
        ),
        exact(
            name="context",
            statement="the tokens kept hold Z_0 of (M, s_0), by orthogonal projections",
            build=encoders,
            prove=partial(prove_instances, stated=at_depth(CONTEXT)),
        ),
        exact(
            name="registers",
            statement="(2d + 1) k registers stay, with k = dim K_L(M, s_0)",
            build=encoders,
            prove=lambda instances: prove_registers(instances, KIND),
        ),
        exact(
            name="minimum",
            statement="the steps w_{l+1} - w_l are M^l s_0, of rank k_L = dim K_L(M, s_0), and k_L tokens are kept",
            assumptions=(*dimension.ASSUMPTIONS, "the argument of td.dimension: no linear decoder has fewer"),
            build=weights,
            prove=dimension.prove_necessary,
        ),
        generic(name="generic", build=lambda: generic_cases(STRATA) + generic_cases(STRATA[1:2], passes=2)),
        generic(name="generic-large", build=lambda: generic_cases(LARGE_STRATA), quick=False),
        values(name="end-to-end", build=evaluators, prove=partial(prove_instances, stated=predicted)),
        values(
            name="balanced",
            assumptions=(*ASSUMPTIONS, krylov.BALANCED_ASSUMPTION, "rewrite t_j^2 d_j = 1 for t_j = rsqrt_0(d_j)"),
            build=balanced,
            prove=lambda instances: prove_instances(instances, with_square_roots),
        ),
        values(name="end-to-end-large", build=large, prove=prove_instances, quick=False),
        Claim(
            THEOREM,
            "strata",
            "features T c_t give M^j s_0 = T H^j h, so no rank exceeds dk + k; and any M and s_0 occur, with N = d",
            "all d, k, N and logs",
            Assurance.INDUCTIVE,
            (memory.CONTINUITY, "the gauge of td.memory"),
            tuple,
            lambda _: prove_strata(),
        ),
        Claim(
            THEOREM,
            "rank",
            "outputs of logs whose features span k dimensions: Jacobian of rank dk at L = k, dk + k at k + 1 and k + 2",
            "k <= d <= 5, N = k + 1; phi_t in a k-dimensional space, phi'_t and R_t any vectors and numbers",
            Assurance.EXACT,
            (memory.CONTINUITY, memory.INVARIANCE, "the rank at one point is a lower bound on the generic rank"),
            lambda: rank_cases(5),
            prove_ranks,
            mutants=rank_mutants,
        ),
    ]
