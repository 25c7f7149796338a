"""td.executor: certificates for all sizes and depths, exactly at sizes, and on instances in Q."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import sympy as sp
from flint import fmpq_mat

from constructions.dense import DenseHead, apply_heads, assemble, dense_heads
from constructions.exact import RATIONALS
from constructions.layers import LinearAttention, Repeat
from constructions.program import Program
from constructions.symbols import ObjectArithmetic, Polynomials, symbol_names
from constructions.temporal_difference import executor
from constructions.temporal_difference.executor import ASSUMPTIONS, THEOREM, executor_program
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict, rational, table
from ..enclosures import BITS, RADIUS_BITS, prove_enclosures
from ..generic_layer import Blocks, Point, biorthogonal, prove_layers, prove_words, random_matrix
from ..instances import NAMED, InstanceSource, prove_instances
from ..mutants import Mutant, entry_mutants
from ..records import polynomial_record
from ..schwartz_zippel import Case, prove_cases
from ..words import Words, identity, letter, rule
from .context_facts import executed
from .generic_tasks import Sizes, case, executor_difference, from_states, log_difference, values_difference
from .krylov import SCHWARTZ_ZIPPEL

N, K, Q, L = sp.symbols("n k q L", integer=True, positive=True)
SIZES = [(n, k) for n in range(1, 5) for k in range(1, min(n, 3) + 1)]
LARGEST_RECORDED = 2
"""States up to which the matrices are kept in the certificate."""

BIORTHOGONAL = "hypothesis W' B = I"
KRYLOV = "hypotheses r = B g0 and A^j r = B H^j g0 for j < L"


def _letters() -> dict[str, Words]:
    shapes = {"B": (N, K), "W": (N, K), "H": (K, K), "s": (K, 1), "E": (N, Q), "c": (Q, 1)}
    return {name: letter(name, *shape) for name, shape in shapes.items()}


def _biorthogonality(x: dict[str, Words]) -> list:
    return rule(x["W"].T @ x["B"], identity(K))


def _sample(rng: random.Random) -> Point:
    n, k, q = rng.choice([(3, 2, 2), (4, 2, 3), (3, 3, 1)])
    B, W = biorthogonal(rng, n, k)
    shapes = {"H": (k, k), "s": (k, 1), "E": (n, q), "c": (q, 1)}
    point = {"B": B, "W": W} | {name: random_matrix(rng, *shape) for name, shape in shapes.items()}
    return point, {N: n, K: k, Q: q}


def only_step(program: Program) -> LinearAttention | None:
    """The layer that the executor repeats, where the program is one repeated attention layer."""
    match program.layers:
        case (Repeat(layers=(LinearAttention() as layer,)),):
            return layer
    return None


def _not_one_layer(program: Program) -> Finding:
    return Finding(Verdict.REFUTED, {"block": program.name, "failure": "expected one repeated attention layer"})


def prove_step(program: Program) -> Finding:
    """s+ = H s, c+ = c - E' B s and every other row of Zbar unchanged, for all n, k and numbers of queries."""
    layer = only_step(program)
    if layer is None:
        return _not_one_layer(program)
    x = _letters()
    B, W, H, s, E, c = (x[name] for name in ("B", "W", "H", "s", "E", "c"))
    Y = B + W @ (H - identity(K)).T
    before = {("source", "x"): B, ("source", "y"): Y, ("source", "r"): s.T, ("query", "x"): E, ("query", "r"): c.T}
    after = {**before, ("source", "r"): (H @ s).T, ("query", "r"): (c - E.T @ B @ s).T}
    tokens = Tokens({"source": K, "query": Q}, before)
    return prove_layers([layer], program.layout, tokens, after, _biorthogonality(x), _sample)


def prove_values(program: Program) -> Finding:
    """-c_l = E' v_l at every depth l <= L, by induction on l.

    Letters: p = H^l g0, a = A^l r, v = v_l. Hypothesis at depth l < L: B p = a. Base: p = g0, v = 0, c = 0. Step of the
    program: c = -E' v becomes -E' (v + a), and p becomes H p. Step of the algorithm, with r + A v = v + a as induction
    hypothesis (r + A 0 = 0 + r at l = 0): v+ = r + A v = v + a, and again r + A v+ = v+ + A a.
    """
    layer = only_step(program)
    if layer is None:
        return _not_one_layer(program)
    (loop,) = program.layers
    assert isinstance(loop, Repeat)
    if sp.expand(loop.times - L) != 0:
        return Finding(
            Verdict.REFUTED,
            {"block": "loop bound", "found": f"{loop.times} steps", "expected": "L steps, so that v_L is read"},
        )
    x = _letters()
    B, W, H, E = x["B"], x["W"], x["H"], x["E"]
    p, a, v = letter("p", K, 1), letter("a", N, 1), letter("v", N, 1)
    Y = B + W @ (H - identity(K)).T
    fixed = {("source", "x"): B, ("source", "y"): Y, ("query", "x"): E}
    before = {**fixed, ("source", "r"): p.T, ("query", "r"): -(v.T @ E)}
    after = {**fixed, ("source", "r"): (H @ p).T, ("query", "r"): -((v + a).T @ E)}
    # W' B = I is used where it meets B p = a: W' a = W' B p = p.
    rules = rule(B @ p, a) + rule(x["W"].T @ a, p)

    def sample(rng: random.Random) -> Point:
        point, sizes = _sample(rng)
        point["p"] = point.pop("s")
        point["a"] = point["B"] * point["p"]
        point["v"] = random_matrix(rng, sizes[N], 1)
        return point, sizes

    step = prove_layers([layer], program.layout, Tokens({"source": K, "query": Q}, before), after, rules, sample)
    return Finding.all_of({"base": prove_base(), "step of the program": step, "step of TD": prove_td_step()})


def prove_base() -> Finding:
    """A context enters with s_0 = g0 and c_0 = 0: exact, on the tokens as encoded."""
    context = fmpq_mat(5, 2, list(range(1, 11)))
    tokens = executor.context_tokens(context, 2, RATIONALS)
    good = tokens.blocks["source", "r"] == RATIONALS.rows(context, 4, 5) and ("query", "r") not in tokens.blocks
    block = "query.r" if ("query", "r") in tokens.blocks else "source.r"
    return Finding(Verdict.PROVED if good else Verdict.REFUTED, {"block": block, "base": "s_0 = g0, c_0 = 0"})


def prove_td_step() -> Finding:
    """r + A v = v + a implies r + A (v + a) = (v + a) + A a: TD's iterates are the partial sums of A^j r."""
    A, r = letter("A", N, N), letter("r", N, 1)
    v, a = letter("v", N, 1), letter("a", N, 1)
    return prove_words({"next iterate": (r + A @ (v + a), (v + a) + A @ a)}, rule(A @ v, v + a - r))


Sized = tuple[int, int, list[DenseHead]]
"""n, k and the built layer as whole matrices."""

QUERIES = 2


def build_sizes() -> list[Sized]:
    """The executor's one layer as matrices P, Q, R at every size of `SIZES`, with two queries."""
    out = []
    for n, k in SIZES:
        program = executor_program(n, 1)
        layer = only_step(program)
        assert layer is not None
        out.append((n, k, dense_heads(layer, program.layout, {"source": k, "query": QUERIES})))
    return out


def one_step(heads: list[DenseHead], n: int, k: int, x: dict[str, Any], arithmetic: Any) -> tuple[Any, Any, Any]:
    """Zbar+ as built; Zbar+ as claimed; and what the claim's hypothesis contributes, s' (B' W - I)(H - I)'.

    built = claimed + s' (B' W - I)(H - I)' in the last row of the sources is an identity of polynomials: the cofactor
    form of "claimed, whenever W' B = I".
    """
    mul, add, neg, t = arithmetic.matmul, arithmetic.add, arithmetic.negate, arithmetic.transpose
    eye = arithmetic.one_hot(range(k), k)
    change = t(add(x["H"], neg(eye)))
    layout = executor_program(n, 1).layout
    blocks = {
        ("source", "x"): x["B"],
        ("source", "y"): add(x["B"], mul(x["W"], change)),
        ("source", "r"): t(x["s"]),
        ("query", "x"): x["E"],
        ("query", "r"): t(x["c"]),
    }
    before = Tokens({"source": k, "query": QUERIES}, blocks)
    built = apply_heads(assemble(before, layout, arithmetic), heads, arithmetic)
    after = before.replacing(
        {
            ("source", "r"): t(mul(x["H"], x["s"])),
            ("query", "r"): t(add(x["c"], neg(mul(t(x["E"]), mul(x["B"], x["s"]))))),
        }
    )
    defect = add(mul(t(x["B"]), x["W"]), neg(eye))
    cofactor = Tokens(before.counts, {("source", "r"): mul(t(x["s"]), mul(defect, change))})
    return built, assemble(after, layout, arithmetic), assemble(cofactor, layout, arithmetic)


def _shapes(n: int, k: int) -> dict[str, tuple[int, int]]:
    return {"B": (n, k), "W": (n, k), "H": (k, k), "s": (k, 1), "E": (n, QUERIES), "c": (QUERIES, 1)}


def prove_at_sizes(subject: Sequence[Sized]) -> Finding:
    """The polynomial identity of `one_step` at every size, every row of Zbar; refutations at points with W' B = I."""
    checked, kept = [], []
    for n, k, heads in subject:
        refutation = refute_at_point(n, k, heads)
        if refutation is not None:
            return Finding(Verdict.REFUTED, refutation)
        shapes = _shapes(n, k)
        ring = Polynomials(symbol_names(**shapes))
        flint = (ring, {name: ring.generic(name, *shape) for name, shape in shapes.items()})
        methods: dict[str, tuple[ObjectArithmetic, dict[str, Any]]] = {"FLINT": flint}
        if n <= 2:
            methods["sympy"] = _sympy_symbols(shapes)
        for method, (arithmetic, x) in methods.items():
            built, claimed, cofactor = one_step(heads, n, k, x, arithmetic)
            difference = built - claimed - cofactor
            wrong = [index for index, entry in enumerate(difference.ravel()) if entry != 0]
            if wrong:
                place = executor_program(n, 1).layout.named(wrong[0] // difference.shape[1])
                text = f"(n, k) = ({n}, {k}), {method}: row {place[1]} of {place[0]} is not the claimed polynomial"
                return Finding(Verdict.UNDECIDED, {"missing": text})
            checked.append(f"({n}, {k}) {method}")
        if n <= LARGEST_RECORDED:
            program = executor_program(n, 1)
            layer = only_step(program)
            assert layer is not None
            record = polynomial_record(layer, program.layout, *words_of_step(n, k))
            kept.append({**record, "part": f"({n}, {k})"})
    evidence = {"sizes (n, k)": checked, "queries": QUERIES, "cofactor": "s' (B' W - I)(H - I)'"}
    return Finding(Verdict.PROVED, evidence, tuple(kept))


def words_of_step(n: int, k: int) -> tuple[dict[str, int], Blocks, Blocks]:
    """`one_step` in words: token counts, blocks before, blocks claimed with the cofactor added."""
    shapes = _shapes(n, k)
    B, W, H, s, E, c = (letter(name, *shapes[name]) for name in "BWHsEc")
    fixed = {("source", "x"): B, ("source", "y"): B + W @ (H - identity(k)).T, ("query", "x"): E}
    before = {**fixed, ("source", "r"): s.T, ("query", "r"): c.T}
    cofactor = s.T @ (B.T @ W - identity(k)) @ (H - identity(k)).T
    after = {**fixed, ("source", "r"): (H @ s).T + cofactor, ("query", "r"): (c - E.T @ B @ s).T}
    return {"source": k, "query": QUERIES}, before, after


def _sympy_symbols(shapes: dict[str, tuple[int, int]]) -> tuple[ObjectArithmetic, dict[str, Any]]:
    names = symbol_names(**shapes)
    ring, *symbols = sp.ring(names, sp.ZZ)
    by_name = dict(zip(names, symbols, strict=True))
    arithmetic = ObjectArithmetic("sympy polynomials", ring.ground_new)
    generic = {}
    for name, (rows, columns) in shapes.items():
        array = arithmetic.matrix([[0] * columns] * rows)
        for i in range(rows):
            for j in range(columns):
                array[i, j] = by_name[f"{name}_{i}_{j}"]
        generic[name] = array
    return arithmetic, generic


def refute_at_point(n: int, k: int, heads: list[DenseHead], points: int = 2) -> dict[str, Any] | None:
    """The first block, row and column where the built matrices, run in Q with W' B = I, miss the claim."""
    rng = random.Random(n * 100 + k)
    layout = executor_program(n, 1).layout
    for _ in range(points):
        x = {name: random_matrix(rng, *shape) for name, shape in _shapes(n, k).items()}
        x["B"], x["W"] = biorthogonal(rng, n, k)
        built, claimed, _ = one_step(heads, n, k, x, RATIONALS)
        for index, (found, expected) in enumerate(zip(built.entries(), claimed.entries(), strict=True)):
            if found != expected:
                row, column = divmod(index, built.ncols())
                field, inner = layout.named(row)
                kind = "source" if column < k else "query"
                return {
                    "sizes": {"n": n, "k": k},
                    "block": f"{kind}.{field}",
                    "row": inner,
                    "column": column if column < k else column - k,
                    "found": rational(found),
                    "expected": rational(expected),
                    "counterexample": {name: table(value) for name, value in sorted(x.items())},
                }
    return None


def end_to_end_cases() -> list[Case]:
    """From state tokens with k < n, and from the raw log with k = n, small and at n = 24, L = 30, N = 960."""
    cases = []
    for s in (Sizes(4, 2, 5, 4), Sizes(24, 12, 30, 24)):
        cases.append(case(from_states(s.n, s.rounds, s.depth), values_difference, s, "v at depth", values=True))
    for s in (Sizes(3, 3, 4, 3, 7), Sizes(24, 24, 30, 24, 960)):
        program = executor.construction(s.n, s.depth).program
        cases.append(case(program, log_difference, s, "v at depth", values=True))
    return cases


def entry_mutants_of(subject: Sequence[Any]) -> Iterator[Mutant]:
    """Single entries of the matrices changed, at the largest sizes."""
    n, k, heads = subject[-1]
    for mutant in entry_mutants(heads, executor_program(n, 1).layout):
        yield replace(mutant, subject=[(n, k, mutant.subject)])


def claims(
    instances: InstanceSource, quick_instances: InstanceSource, enclosed_instances: InstanceSource
) -> list[Claim]:
    """The claims of td.executor; the instances (encoder and executor on tasks) come from the caller."""
    inductive = partial(Claim, THEOREM, assurance=Assurance.INDUCTIVE, build=lambda: executor_program(N, L))
    end_to_end = partial(
        Claim,
        THEOREM,
        statement="encoder and executor give v_l at every state and depth l <= L, equal to v_{l+1} = r + A v_l",
        assurance=Assurance.EXACT,
        assumptions=executor.krylov.ASSUMPTIONS + ASSUMPTIONS[1:],
        prove=prove_instances,
    )
    return [
        inductive(
            name="step",
            statement="one layer maps s to H s and c to c - E' B s, and leaves every other row of Zbar unchanged",
            scope="all n, k and numbers of queries",
            assumptions=(BIORTHOGONAL, *ASSUMPTIONS),
            prove=prove_step,
        ),
        inductive(
            name="values",
            statement="after l layers minus the last coordinate of a query q is v_l(q), for every l <= L",
            scope="all n, k, L and queries",
            assumptions=(BIORTHOGONAL, KRYLOV, *ASSUMPTIONS),
            prove=prove_values,
        ),
        Claim(
            THEOREM,
            "matrices",
            "the built matrices P_TD, Q_TD and M_k give the step as an identity of polynomials, every row of Zbar",
            f"(n, k) in {', '.join(map(str, SIZES))}",
            Assurance.EXACT,
            (BIORTHOGONAL, *ASSUMPTIONS),
            build_sizes,
            prove_at_sizes,
            mutants=entry_mutants_of,
        ),
        Claim(
            THEOREM,
            "values-generic",
            "the executor on an exact context reads v_l at every depth, as an identity of rational functions",
            "all tasks with r in an A-invariant range of B and all W with W' B = I, at the sizes in the evidence",
            Assurance.PROBABILISTIC,
            (*ASSUMPTIONS, SCHWARTZ_ZIPPEL),
            lambda: [
                case(executor_program(s.n, s.depth), executor_difference, s, "v at depth", executed, values=True)
                for s in (Sizes(3, 2, 4), Sizes(24, 12, 30))
            ],
            prove_cases,
        ),
        Claim(
            THEOREM,
            "end-to-end-generic",
            "encoder and executor, from the state tokens and from raw tokens, give v_l at every state and depth l <= L",
            "all tasks and logs of Krylov dimension k with generic b_1, .., b_k, at the sizes in the evidence",
            Assurance.PROBABILISTIC,
            (*executor.krylov.ASSUMPTIONS, *ASSUMPTIONS[1:], SCHWARTZ_ZIPPEL),
            end_to_end_cases,
            prove_cases,
        ),
        Claim(
            THEOREM,
            "enclosure",
            "two balanced passes and the executor in Arb balls: every ball contains the exact v_l(q), in Q",
            f"{NAMED}, {BITS} bits, every radius below 2^-{RADIUS_BITS}",
            Assurance.ENCLOSED,
            (
                *executor.krylov.ASSUMPTIONS,
                executor.krylov.BALANCED_ASSUMPTION,
                "the number of rounds is the k found in Q",
            ),
            enclosed_instances,
            prove_enclosures,
        ),
        end_to_end(name="end-to-end", scope=NAMED, build=quick_instances),
        end_to_end(
            name="end-to-end-large", scope=f"{NAMED}, up to n = 24, N = 960, L = 30", build=instances, quick=False
        ),
    ]
