"""td.memory-optimal: the executor for all sizes, the encoder on instances in Q and on strata, the registers counted."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import sympy as sp
from flint import fmpq_mat

from constructions.arithmetic import Array
from constructions.construction import last
from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.layers import Layer
from constructions.layout import Layout
from constructions.program import Program
from constructions.temporal_difference import executor as executor_room
from constructions.temporal_difference import krylov, memory_optimal
from constructions.temporal_difference.memory_optimal import ASSUMPTIONS, EXECUTOR_ASSUMPTIONS, THEOREM
from constructions.temporal_difference.tokens import KINDS
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict
from ..facts import Stated
from ..generic_layer import Point, prove_layers, prove_words, random_matrix
from ..instances import NAMED, Instance, InstanceSource, prove_instances
from ..schwartz_zippel import BadPoint, Case, Source, prove_cases
from ..words import Rule, Words, letter, ones_row, rule, zero
from . import context_facts
from .context_facts import at_depth
from .executor import only_step, prove_td_step
from .generic_tasks import Sizes, case, invariant_task, td_rows
from .krylov import SCHWARTZ_ZIPPEL, krylov_rank

N, K, Q, L, M = sp.symbols("n k q L m", integer=True, positive=True)
CONTEXT = "hypothesis A^j r = B H^j e_1 for j < L (claims identities, here and of td.krylov)"


@dataclass(frozen=True)
class Kept:
    """What the sources of an executor hold besides B and s, as words, and the step s+ = H s that it must make.

    Attributes:
        fields: words of the fields of the sources, without x = B and r = s'.
        H: the matrix of the step, in words.
        rules: hypotheses on these letters.
        sample: (rng, n, k) -> values in Q of the letters in `fields`, `H` and `rules`.
        sizes: values of size symbols other than n, k, q, given k.
        facts: more that is true of the public matrices, which the layers as built do not need.
    """

    fields: Mapping[str, Words]
    H: Words
    rules: Sequence[Rule]
    sample: Callable[[random.Random, int, int], dict[str, fmpq_mat]]
    sizes: Callable[[int], dict[Any, int]] = lambda k: {}
    facts: Sequence[Rule] = ()

    def point(self, rng: random.Random) -> Point:
        n, k, q = rng.choice([(3, 2, 2), (4, 3, 3), (3, 3, 1)])
        shapes = {"B": (n, k), "s": (k, 1), "E": (n, q), "c": (q, 1), "v": (n, 1)}
        values = {name: random_matrix(rng, *shape) for name, shape in shapes.items()}
        values["w"] = values["B"] * values["s"]
        return values | self.sample(rng, n, k), {N: n, K: k, Q: q, **self.sizes(k)}


def shift_matrix(k: int) -> fmpq_mat:
    """N in Q."""
    return RATIONALS.matrix(memory_optimal.SHIFT.rows(k, k))


def prove_values(program: Program, kept: Kept) -> Finding:
    """s+ = H s and -c_l = E' v_l at every depth l <= L, by induction on l; every other field stays as it is.

    At depth l < L, with p = H^l e_1, w = A^l r, v = v_l and the hypothesis B p = w: c = -E' v becomes -E' (v + w).
    """
    layer = only_step(program)
    if layer is None:
        return Finding(Verdict.REFUTED, {"block": program.name, "failure": "expected one repeated attention layer"})
    (loop,) = program.layers
    if sp.expand(loop.times - L) != 0:  # type: ignore[union-attr]
        found = f"{loop.times} steps"  # type: ignore[union-attr]
        return Finding(
            Verdict.REFUTED, {"block": "loop bound", "found": found, "expected": "L steps, so that v_L is read"}
        )
    B, s, E, c = letter("B", N, K), letter("s", K, 1), letter("E", N, Q), letter("c", Q, 1)
    v, w = letter("v", N, 1), letter("w", N, 1)
    fixed = {("source", field): words for field, words in kept.fields.items()}
    fixed |= {("source", "x"): B, ("query", "x"): E}
    tokens = {"source": K, "query": Q}

    def step(query: Words, after: Words, rules: Sequence[Rule]) -> Finding:
        before = {**fixed, ("source", "r"): s.T, ("query", "r"): query.T}
        expected = {**fixed, ("source", "r"): (kept.H @ s).T, ("query", "r"): after.T}
        bank = Tokens(tokens, before)
        found = prove_layers([layer], program.layout, bank, expected, rules, kept.point)
        if found.verdict is Verdict.UNDECIDED and kept.facts:
            found = prove_layers([layer], program.layout, bank, expected, [*rules, *kept.facts], kept.point)
        return found

    return Finding.all_of(
        {
            "step": step(c, c - E.T @ B @ s, kept.rules),
            "values": step(-(E.T @ v), -(E.T @ (v + w)), [*kept.rules, *rule(B @ s, w)]),
            "step of TD": prove_td_step(),
        }
    )


def _kept() -> Kept:
    a, u, shift = letter("a", K, 1), letter("u", K, 1), letter("shift", K, K)

    def sample(rng: random.Random, n: int, k: int) -> dict[str, fmpq_mat]:
        u = RATIONALS.one_hot([k - 1], k)
        return {"a": random_matrix(rng, k, 1), "u": u, "shift": shift_matrix(k), "last": u * u.transpose()}

    end = letter("last", K, K)
    symmetric = rule(end.T @ ones_row(K).T, u)
    fields = {"q": a.T, "one": ones_row(K)}
    return Kept(fields, shift + a @ u.T, rule(end @ ones_row(K).T, u), sample, facts=symmetric)


def prove_identities() -> Finding:
    """The recursion of t, the coefficients, and A^j r = B H^j e_1 for j < L with H = N + a u'."""
    A, B, a, u, shift = letter("A", N, N), letter("B", N, K), letter("a", K, 1), letter("u", K, 1), letter("N", K, K)
    p, w, q = letter("p", K, 1), letter("w", N, 1), letter("q", N, 1)
    H = shift + a @ u.T
    invariant = rule(B @ shift, A @ B - q @ u.T) + rule(B @ a, q)
    e, f = letter("e_j", K, 1), letter("e_{j+1}", K, 1)
    # The recursion: P = [r, A r, ..], C the slots so far, C = P T; z = A b with b = P t, hence z = P N t.
    P, T, C, W = letter("P", N, K), letter("T", K, M), letter("C", N, M), letter("W", N, M)
    t, z, b, y = letter("t", K, 1), letter("z", N, 1), letter("b", N, 1), letter("y", K, 1)
    recursion = rule(P @ T, C) + rule(P @ shift @ t, z) + rule(P @ t, b)
    return Finding.all_of(
        {
            "A B = B H": prove_words({"A B = B H": (B @ H, A @ B)}, invariant),
            "next power": prove_words({"B H p = A w": (B @ H @ p, A @ w)}, invariant + rule(B @ p, w)),
            "depths below k": prove_words(
                {"H e_j = e_{j+1}": (H @ e, f)}, rule(shift @ e, f) + rule(u.T @ e, zero(1, 1))
            ),
            "recursion": prove_words(
                {
                    "b = P t, next round": (P @ (shift @ t - T @ (W.T @ z)), z - C @ W.T @ z),
                    "b = P t, second pass": (P @ (t - T @ (W.T @ b)), b - C @ W.T @ b),
                },
                recursion,
            ),
            "coefficients": prove_words({"B (-y) = A^k r": (B @ -y, q)}, rule(B @ y, -q)),
        }
    )


@dataclass(frozen=True)
class Kind:
    """One kept context: its module, its registers by formula, and what its public fields must hold.

    Attributes:
        module: of `constructions`, with `encoder`, `registers`.
        formula: (n, k) -> registers.
        public: (tokens, k, h) -> None, or the name of a block that is not the public constant it should be.
        stated: depth L -> what records say of the context that is left.
    """

    module: ModuleType
    formula: Callable[[int, int], int]
    public: Callable[[Tokens, int, int], str | None]
    stated: Callable[[int], Stated]


def public_start(tokens: Tokens, k: int, h: int) -> str | None:
    """r holds e_1' and one holds ones, whatever the task."""
    expected = {"r": RATIONALS.one_hot([0] + [-1] * (k - 1), 1), "one": RATIONALS.matrix([[1] * k])}
    wrong = [field for field, block in expected.items() if tokens.read("source", field, 1, RATIONALS) != block]
    return f"source.{wrong[0]}" if wrong else None


def prove_registers(instances: Sequence[Instance], kind: Kind) -> Finding:
    """The entries that stay after the encoder are as many as the formula says, with k decided in Q."""
    counted = []
    for instance in sorted(instances, key=lambda x: x.task.size):
        construction: Any = instance.construction
        task: Any = instance.task
        n, depth, h = task.n, construction.sizes["L"], construction.sizes["h"]
        tokens = last(construction.program.steps(construction.encode(task, RATIONALS), RATIONALS))
        k = krylov_rank(task, depth)
        found, expected = kind.module.registers(tokens, RATIONALS), kind.formula(n, k)
        where = {"task": task.name, "n": n, "k": k}
        if found != expected:
            counts = {"block": "source", "found": f"{found} registers", "expected": f"{expected} registers"}
            return Finding(Verdict.REFUTED, {**where, **counts})
        wrong = kind.public(tokens, k, h) if k else None
        if wrong is not None:
            return Finding(Verdict.REFUTED, {**where, "block": wrong, "failure": "not the public constant"})
        counted.append({**where, "registers": found})
    return Finding(Verdict.PROVED, {"instances": counted}, context_facts.records(instances, kind.stated))


KIND = Kind(memory_optimal, lambda n, k: n * k + k, public_start, context_facts.memory_optimal)


def states(source: Source, A: Array, r: Array, sizes: Sizes) -> Tokens:
    """State tokens as stage 1 leaves them."""
    a, n = source.arithmetic, sizes.n
    blocks = {"x": a.one_hot(range(n), n), "y": a.transpose(A), "r": a.transpose(r), "one": a.matrix([[1] * n])}
    return Tokens({}, {}).with_kind("state", n, **blocks)


def stage_two(layout: Layout, encoder: Sequence[Layer], executor: Sequence[Layer] = ()) -> Program:
    """The encoder from the state tokens on, and the executor after it where given."""
    name = "stage 2 and executor" if executor else "stage 2"
    return Program(name, layout, KINDS, (*encoder, *executor))


def kept_or_bad(tokens: Tokens, sizes: Sizes) -> Tokens:
    """The tokens, if the gate kept k of them.

    Raises:
        BadPoint: it kept another number.
    """
    if tokens.total("source") != sizes.k:
        raise BadPoint
    return tokens


def values_of(program: Program, tokens: Tokens, source: Source, sizes: Sizes) -> Array:
    """v_0 .. v_L as the program reads them."""
    steps = [
        (label, kept_or_bad(after, sizes))
        for label, after in program.steps(tokens, source.arithmetic)
        if label.startswith("step")
    ]
    return executor_room.VALUES.rows(steps, sizes.n, source.arithmetic)


def minus(a: Any, x: Array, y: Array) -> Array:
    """x - y.

    Raises:
        BadInput: the shapes differ.
    """
    if a.shape(x) != a.shape(y):
        raise BadInput(f"answer: expected a block of shape {a.shape(y)}, found {a.shape(x)}")
    return a.add(x, a.negate(y))


def generic_difference(program: Program, source: Source, sizes: Sizes) -> Array:
    """Without a depth [B; a'] minus the definition, else the values minus TD's."""
    a, n, k = source.arithmetic, sizes.n, sizes.k
    A, r = invariant_task(source, sizes)
    tokens = memory_optimal.with_banks(states(source, A, r, sizes), sizes.rounds, a, n if sizes.depth else 0)
    if sizes.depth:
        return minus(a, values_of(program, tokens, source, sizes), td_rows(a, A, r, sizes.depth))
    found = memory_optimal.read_context(kept_or_bad(program.run(tokens, a), sizes), n, a)
    powers = [r]
    for _ in range(k):
        powers.append(a.matmul(A, powers[-1]))
    B = a.stack([powers[:k]])
    Bt = a.transpose(B)
    coefficients = a.matmul(source.inverse(a.matmul(Bt, B)), a.matmul(Bt, powers[k]))
    return minus(a, found, a.stack([[B], [a.transpose(coefficients)]]))


def generic_cases(strata: Sequence[Sizes]) -> list[Case]:
    """The encoder (no depth), or encoder and executor, at the sizes given."""
    out = []
    for s in strata:
        layout, layers = memory_optimal.basis_layout(s.n, s.rounds), memory_optimal.encoder_layers(s.rounds)
        steps = memory_optimal.executor_program(s.n, s.depth).layers if s.depth else ()
        block = "v at depth" if s.depth else "[B; a']"
        stated = None if s.depth else context_facts.memory_optimal(s.rounds)
        built = stage_two(layout, layers, steps)
        out.append(case(built, generic_difference, s, block, stated, values=bool(s.depth)))
    return out


STRATA = (Sizes(4, 4, 0, 4), Sizes(4, 2, 0, 4), Sizes(5, 3, 0, 3), Sizes(4, 2, 5, 4))
"""Contexts (no depth) with k = n, k < h, L < k; then encoder and executor."""
LARGE_STRATA = (Sizes(24, 12, 0, 24), Sizes(24, 12, 30, 24))


def kept_context_claims(
    theorem: str,
    kind: Kind,
    formula: str,
    encoders: InstanceSource,
    evaluators: InstanceSource,
    large: InstanceSource,
    assumptions: tuple[str, ...],
    cases: Callable[[Sequence[Sizes]], list[Case]],
) -> list[Claim]:
    """The claims that every kept context has: context, registers and values on instances in Q, and on strata."""
    exact = partial(Claim, theorem, assurance=Assurance.EXACT, assumptions=assumptions)
    values = partial(
        exact,
        statement="encoder and executor give v_l at every state and depth l <= L; so does the executor alone",
        prove=prove_instances,
    )
    generic = partial(
        Claim,
        theorem,
        statement="the encoder gives the context, and with the executor v_l, as identities of rational functions",
        scope="all tasks of Krylov dimension k with generic b_1, .., b_k, at the sizes in the evidence",
        assurance=Assurance.PROBABILISTIC,
        assumptions=(*assumptions, SCHWARTZ_ZIPPEL),
        prove=prove_cases,
    )
    return [
        exact(
            name="context",
            statement="the tokens kept hold the context of the definition, by normal equations",
            scope=NAMED,
            build=encoders,
            prove=partial(prove_instances, stated=at_depth(kind.stated)),
        ),
        exact(
            name="registers",
            statement=f"{formula} registers stay, with k = dim K_L(A, r); all other entries are public constants",
            scope=NAMED,
            build=encoders,
            prove=lambda instances: prove_registers(instances, kind),
        ),
        generic(name="generic", build=lambda: cases(STRATA)),
        generic(name="generic-large", build=lambda: cases(LARGE_STRATA), quick=False),
        values(name="end-to-end", scope=NAMED, build=evaluators),
        values(name="end-to-end-large", scope=f"{NAMED}, at n = 24", build=large, quick=False),
    ]


def claims(encoders: InstanceSource, evaluators: InstanceSource, large: InstanceSource) -> list[Claim]:
    """The claims of td.memory-optimal; the instances come from the caller."""
    return [
        Claim(
            THEOREM,
            "values",
            "one layer maps s to N s + a s_k and c to c - E'B s, so after l layers a query q reads v_l(q), l <= L",
            "all n, k, L and queries",
            Assurance.INDUCTIVE,
            (CONTEXT, *EXECUTOR_ASSUMPTIONS),
            lambda: memory_optimal.executor_program(N, L),
            lambda program: prove_values(program, _kept()),
        ),
        Claim(
            THEOREM,
            "identities",
            "b_j = [r, A r, ..] t_j in every round and pass, a = -t_{k+1}, and B N + p u' = A B with B a = p give"
            " A^j r = B (N + a u')^j e_1",
            "all n, k, L and tasks",
            Assurance.INDUCTIVE,
            (*krylov.ASSUMPTIONS, "b_{k+1} = 0 where L > k, as td.krylov proves"),
            tuple,
            lambda _: prove_identities(),
        ),
        *kept_context_claims(THEOREM, KIND, "nk + k", encoders, evaluators, large, ASSUMPTIONS, generic_cases),
    ]
