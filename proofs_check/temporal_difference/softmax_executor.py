"""td.softmax-executor: the step and the values for all sizes, rational functions at sizes, instances in Q, enclosures.

For all sizes the built layer runs on words. Its softmax is evaluated by one lemma, on the scores it really has: where
the exponentials of a target's scores are p_1, .., p_k > 0 and K - sum_j p_j > 0 they sum to K, whatever k is, so the
weights are p_j / K. Scores are inner products of logarithms with one-hot codes, and (L'e_t)_j = log P_tj for the t-th
unit vector, entry by entry; so P'E / K are the weights where E has such columns. Other scores have no words here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import sympy as sp
from flint import fmpq_mat

from constructions.errors import Unsupported
from constructions.exact import RATIONALS, Balls
from constructions.layers import Repeat
from constructions.logarithms import FractionField, Logarithms, LogNumber, UnfactoredField
from constructions.normalised_attention import Move, NormalisedHead, Part, SoftmaxAttention
from constructions.program import Program
from constructions.temporal_difference import softmax_executor
from constructions.temporal_difference.softmax_executor import ASSUMPTIONS, THEOREM, softmax_program
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict, rational, table
from ..enclosures import BITS, RADIUS_BITS, prove_enclosures
from ..generic_layer import first_difference, prove_words, random_matrix
from ..instances import NAMED, InstanceSource
from ..mutants import Mutant, program_mutants
from ..words import FreeAlgebra, Rule, Words, evaluate, identity, letter, normal_form, ones_row, rule, zero
from .executor import KRYLOV, prove_td_step
from .softmax_facts import prove_steps

N, K, Q, L = sp.symbols("n k q L", integer=True, positive=True)
TOTAL = sp.Symbol("K", positive=True)
CODES = N + K
SIZES = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3)]
POINTS = 3
SPLIT = "hypotheses G = [-B; H - I] = P+ - P-, entries of P+ and P- positive, with row sums below K"


class SoftmaxWords(FreeAlgebra):
    """Words in which a softmax has its weights where `weights` knows its scores, and letters elsewhere."""

    name = "free algebra with the softmax lemma"

    def __init__(self, weights: Sequence[tuple[tuple[Words, Words], tuple[Words, Words]]]) -> None:
        self.weights = weights

    def times(self, a: Words, factor: Any) -> Words:
        """A public number, a symbol in it, times a word."""
        return Words(a.rows, a.columns, {word: sp.expand(c * factor) for word, c in a.terms.items()})

    def distribution(self, kind: str, parts: Sequence[Part]) -> list[Words]:
        scores = [zero(p.sources, p.targets) if p.scores is None else p.scores for p in parts]
        every = all(not part.route.same and not part.route.causal for part in parts)
        for known, found in self.weights:
            if kind == "softmax" and every and [x.terms for x in scores] == [x.terms for x in known]:
                return list(found)
        text = f"{kind}({'; '.join(map(str, scores))})"
        return [letter(f"{text}[{i + 1}]", p.sources, p.targets) for i, p in enumerate(parts)]


def only_step(program: Program) -> SoftmaxAttention | None:
    """The layer that is repeated, where the program is one repeated softmax layer."""
    match program.layers:
        case (Repeat(layers=(SoftmaxAttention() as layer,)),):
            return layer
    return None


def _not_one_layer(program: Program) -> Finding:
    return Finding(Verdict.REFUTED, {"block": program.name, "failure": "expected one repeated softmax layer"})


def prove_lemma() -> Finding:
    """The exponentials of the scores sum to K for every number k of sources: 1'p + (K - 1'p) = K."""
    p, total = letter("p", K, 1), letter("K", 1, 1)
    given = ones_row(K) @ p
    return prove_words({"sum of exponentials": (given + (total - given), total)}, [])


@dataclass(frozen=True)
class Step:
    """What the last row holds before and after one layer, by kind, with the hypotheses on its letters."""

    before: Mapping[str, Words]
    after: Mapping[str, Words]
    rules: Sequence[Rule]


def letters() -> dict[str, Words]:
    """Words of all sizes; X holds the states of the queries, E and F the codes of sources and queries."""
    shapes = {"B": (N, K), "H": (K, K), "G": (CODES, K), "X": (N, Q), "E": (CODES, K), "F": (CODES, Q)}
    shapes |= {f"{x}{part}": (CODES, K) for x in ("log P", "P") for part in "+-"}
    shapes |= {f"{x}{part}": (CODES, 1) for x in ("log p0", "p0") for part in "+-"}
    shapes |= {"s": (K, 1), "c": (Q, 1), "H^l g0": (K, 1), "A^l r": (N, 1), "v_l": (N, 1)}
    return {name: letter(name, *shape) for name, shape in shapes.items()}


def step_of_s() -> Step:
    """s becomes H s, c becomes c - X'B s."""
    x = letters()
    s, c = x["s"], x["c"]
    return Step({"source": s.T, "query": c.T}, {"source": (x["H"] @ s).T, "query": (c - x["X"].T @ x["B"] @ s).T}, [])


def step_of_values() -> Step:
    """H^l g0 becomes H H^l g0, and -X'v_l becomes -X'(v_l + A^l r)."""
    x = letters()
    p, a, v = x["H^l g0"], x["A^l r"], x["v_l"]
    before = {"source": p.T, "query": -(v.T @ x["X"])}
    return Step(before, {"source": (x["H"] @ p).T, "query": -((v + a).T @ x["X"])}, rule(x["B"] @ p, a))


def prove_layer(layer: SoftmaxAttention, step: Step) -> Finding:
    """The built layer moves the last row as stated: at points with all sizes different, then in words."""
    rng = random.Random(0)
    for _ in range(POINTS):
        refutation = separate(layer, step, rng)
        if refutation is not None:
            return Finding(Verdict.REFUTED, refutation)
    x = letters()
    blocks = {("source", "pos"): x["E"], ("query", "pos"): x["F"]}
    weights = []
    for field, part in (("plus", "+"), ("minus", "-")):
        logs, null = x[f"log P{part}"], x[f"log p0{part}"]
        blocks |= {("source", field): logs, ("null", field): null}
        for codes in (x["E"], x["F"]):
            both = [SoftmaxWords([]).times(y.T @ codes, 1 / TOTAL) for y in (x[f"P{part}"], x[f"p0{part}"])]
            weights.append(((logs.T @ codes, null.T @ codes), (both[0], both[1])))
    blocks |= {(kind, "r"): words for kind, words in step.before.items()}
    words = SoftmaxWords(weights)
    rules = [
        *rule(x["P+"], x["P-"] + x["G"]),
        *rule(x["G"].T @ x["E"], (x["H"] - identity(K)).T),
        *rule(x["G"].T @ x["F"], -(x["B"].T @ x["X"])),
        *step.rules,
    ]
    evidence: dict[str, Any] = {"hypotheses": sorted({r.text for r in rules}), "points in Q": POINTS}
    (_, out), *_ = list(layer.steps(Tokens({"source": K, "null": 1, "query": Q}, blocks), words))
    for key, found in out.blocks.items():
        claim = step.after[key[0]] if key[1] == "r" else blocks[key]
        difference = normal_form(found - claim, rules)
        if difference.terms:
            missing = f"{key[0]}.{key[1]}: the words {difference} are not zero under the hypotheses"
            return Finding(Verdict.UNDECIDED, {**evidence, "missing": missing})
        evidence[f"{key[0]}.{key[1]}"] = str(normal_form(found, rules))
    return Finding.all_of({"layer": Finding(Verdict.PROVED, evidence), "softmax": prove_lemma()})


def separate(layer: SoftmaxAttention, step: Step, rng: random.Random) -> dict[str, Any] | None:
    """The first entry where the layer at a random point differs from what is expected.

    It runs in Q with logarithms; a changed layer whose scores have no such form runs in balls, which refute where they
    miss an exact value.
    """
    n, k, q = rng.choice([(3, 2, 2), (4, 3, 1), (2, 2, 3)])
    sizes = {N: n, K: k, Q: q, L: 1}
    states = [rng.randrange(n) for _ in range(q)]
    point = {"B": random_matrix(rng, n, k), "H": random_matrix(rng, k, k), "X": RATIONALS.one_hot(states, n)}
    point |= {"s": random_matrix(rng, k, 1), "c": random_matrix(rng, q, 1), "v_l": random_matrix(rng, n, 1)}
    point |= {"H^l g0": point["s"], "A^l r": point["B"] * point["s"]}
    delta, total = Fraction(1, rng.randint(1, 9)), 60 + rng.randint(0, 9)

    def last_rows(arithmetic: Any) -> Tokens:
        parts = (point["B"], point["H"], point["s"])
        tokens = softmax_executor.compiled_tokens(parts, n, k, delta, total, arithmetic)
        blocks = {**tokens.blocks, ("query", "pos"): arithmetic.select(tokens.blocks["query", "pos"], states)}
        for kind, words in step.before.items():
            blocks[kind, "r"] = arithmetic.matrix(evaluate(words, point, sizes).tolist())
        (_, out), *_ = layer_at.steps(Tokens({**tokens.counts, "query": q}, blocks), arithmetic)
        return out

    layer_at, exact = _at(layer, total), Logarithms(UnfactoredField())
    expected = {kind: evaluate(words, point, sizes) for kind, words in step.after.items()} | {"null": fmpq_mat(1, 1)}
    try:
        out = last_rows(exact)
        found = {kind: exact.rationals(out.read(kind, "r", 1, exact)) for kind in expected}
        places = {kind: first_difference(found[kind], expected[kind]) for kind in expected}
    except Unsupported:
        with Balls(BITS).working() as balls:
            out = last_rows(balls)
            found = {kind: out.read(kind, "r", 1, balls) for kind in expected}
            places = {kind: _missed(found[kind], expected[kind]) for kind in expected}
    for kind, place in places.items():
        if place is not None:
            return {
                "block": f"{kind}.r",
                "row": place[0],
                "column": place[1],
                "found": rational(found[kind][place]),
                "expected": rational(expected[kind][place]),
                "counterexample": {"K": total, "delta": str(delta), **{x: table(m) for x, m in sorted(point.items())}},
            }
    return None


def _missed(balls: Any, exact: fmpq_mat) -> tuple[int, int] | None:
    """The first entry that its ball does not contain."""
    for i, (ball, value) in enumerate(zip(balls.entries(), exact.entries(), strict=True)):
        if not ball.contains(value):
            return divmod(i, exact.ncols())
    return None


def _at(layer: SoftmaxAttention, total: int) -> SoftmaxAttention:
    """The layer with a number for K."""

    def moves(head: NormalisedHead) -> tuple[Move, ...]:
        return tuple(replace(move, scale=sp.sympify(move.scale).subs(TOTAL, total)) for move in head.moves)

    return replace(layer, heads=tuple(replace(head, moves=moves(head)) for head in layer.heads))


def prove_step(program: Program) -> Finding:
    """s+ = H s, c+ = c - X'B s."""
    layer = only_step(program)
    return _not_one_layer(program) if layer is None else prove_layer(layer, step_of_s())


def prove_values(program: Program) -> Finding:
    """-c_l = X'v_l at every l <= L, by induction on l from s_0 = g0 and c_0 = 0, as in td.executor."""
    layer = only_step(program)
    if layer is None:
        return _not_one_layer(program)
    (loop,) = program.layers
    assert isinstance(loop, Repeat)
    if sp.expand(loop.times - L) != 0:
        return Finding(Verdict.REFUTED, {"block": "loop bound", "found": f"{loop.times} steps", "expected": "L steps"})
    parts = {"base": prove_base(), "step of the program": prove_layer(layer, step_of_values())}
    return Finding.all_of({**parts, "step of TD": prove_td_step()})


def prove_base() -> Finding:
    """Tokens are compiled with s_0 = g0 and c_0 = 0."""
    parts = (fmpq_mat(2, 2, [1, 2, 3, 4]), fmpq_mat(2, 2, [0, 1, 1, 0]), fmpq_mat(2, 1, [5, 6]))
    arithmetic = Logarithms(UnfactoredField())
    tokens = softmax_executor.compiled_tokens(parts, 2, 2, Fraction(1, 2), 20, arithmetic)
    start = arithmetic.rationals(tokens.blocks["source", "r"]) == fmpq_mat(1, 2, [5, 6])
    good = start and ("query", "r") not in tokens.blocks and ("null", "r") not in tokens.blocks
    return Finding(Verdict.PROVED if good else Verdict.REFUTED, {"base": "s_0 = g0, c_0 = 0, null value 0"})


@dataclass(frozen=True)
class Sized:
    """One step at sizes n and k, K a symbol."""

    n: int
    k: int
    program: Program


def build_sizes() -> list[Sized]:
    """The program of one step at every size of `SIZES`."""
    return [Sized(n, k, softmax_program(n, k, 1, sp.Symbol("K"))) for n, k in SIZES]


def prove_at_sizes(subject: Sequence[Sized]) -> Finding:
    """Target t gains sum_j (P+_tj - P-_tj) s_j, as an identity in the field Q(symbols).

    All positive rows p with a sum below K are p_j = K x_j / (x_1 + .. + x_k + w) for positive x_j and w, and then
    K - sum_j p_j = K w / (x_1 + .. + x_k + w).
    """
    sizes = []
    for sized in subject:
        n, k = sized.n, sized.k
        rows = [(f"{part}_{t}", [f"{part}_{t}_{j}" for j in range(k)]) for part in "xy" for t in range(n + k)]
        values = [f"s_{j}" for j in range(k)] + [f"c_{q}" for q in range(n)]
        field = FractionField([name for total, row in rows for name in (f"w{total}", *row)] + [*values, "K"])
        arithmetic = Logarithms(field)
        symbol, total = field.symbols, field.symbols["K"]
        given: dict[str, list[list[Any]]] = {"x": [], "y": []}
        for name, row in rows:
            mass = sum((symbol[x] for x in row), symbol[f"w{name}"])
            given[name[0]].append([total * symbol[x] / mass for x in [*row, f"w{name}"]])
        s, c = ([[symbol[x] for x in values[a:b]]] for a, b in ((0, k), (k, k + n)))
        blocks = _generic_blocks(arithmetic, given, s, c, n, k)
        tokens = Tokens({"source": k, "null": 1, "query": n}, blocks)
        out = sized.program.run(tokens, arithmetic)
        for kind, before, start in (("source", s[0], n), ("query", c[0], 0)):
            found = out.read(kind, "r", 1, arithmetic)[0]
            for i, old in enumerate(before):
                t = start + i
                expected = old
                for j in range(k):
                    expected = expected + (given["x"][t][j] - given["y"][t][j]) * s[0][j]
                if found[i] != expected:
                    where = {"n": n, "k": k, "block": f"{kind}.r", "row": 0, "column": i}
                    text = {"found": rational(found[i]), "expected": rational(expected)}
                    return Finding(Verdict.REFUTED, {**where, **text})
        sizes.append({"n": n, "k": k, "symbols": len(field.names)})
    return Finding(Verdict.PROVED, {"sizes": sizes})


def _generic_blocks(
    arithmetic: Logarithms, given: Mapping[str, list[list[Any]]], s: Any, c: Any, n: int, k: int
) -> dict[tuple[str, str], Any]:
    def made(rows: Any) -> Any:
        return arithmetic.matrix([[LogNumber(x, {}) for x in row] for row in rows])

    blocks = {
        ("source", "pos"): arithmetic.one_hot(range(n, n + k), n + k),
        ("query", "pos"): arithmetic.one_hot(range(n), n + k),
        ("source", "r"): made(s),
        ("query", "r"): made(c),
    }
    for field, name in (("plus", "x"), ("minus", "y")):
        logs = arithmetic.log(made(given[name]))
        blocks["source", field] = arithmetic.columns(logs, 0, k)
        blocks["null", field] = arithmetic.columns(logs, k, k + 1)
    return blocks


def size_mutants(subject: Sequence[Sized]) -> Iterator[Mutant]:
    """The changes of the program with two states and two sources."""
    for one in subject:
        if (one.n, one.k) == (2, 2):
            for mutant in program_mutants(one.program):
                yield replace(mutant, subject=[replace(one, program=mutant.subject)])


def claims(instances: InstanceSource, enclosed: InstanceSource, enclosed_large: InstanceSource) -> list[Claim]:
    """The claims of td.softmax-executor; the instances (compiled contexts on tasks) come from the caller."""
    inductive = partial(
        Claim,
        THEOREM,
        assurance=Assurance.INDUCTIVE,
        build=lambda: softmax_program(N, K, L, TOTAL),
    )
    enclosure = partial(
        Claim,
        THEOREM,
        statement="the softmax executor in Arb balls: every ball contains the exact v_l(q), in Q",
        scope=f"{NAMED}, {BITS} bits, every radius below 2^-{RADIUS_BITS}",
        assurance=Assurance.ENCLOSED,
        assumptions=ASSUMPTIONS,
        prove=prove_enclosures,
    )
    return [
        inductive(
            name="step",
            statement="the two heads together map s to H s and c to c - E'B s, and leave every other row unchanged",
            scope="all n, k, numbers of queries, delta > 0 and K above the row sums",
            assumptions=(SPLIT, *ASSUMPTIONS),
            prove=prove_step,
        ),
        inductive(
            name="values",
            statement="after l layers minus the last coordinate of a query q is v_l(q), for every l <= L",
            scope="all n, k, L, queries, delta > 0 and K above the row sums",
            assumptions=(SPLIT, KRYLOV, *ASSUMPTIONS),
            prove=prove_values,
        ),
        Claim(
            THEOREM,
            "sizes",
            "target t gains sum_j (P+_tj - P-_tj) s_j, as an identity of rational functions in P, s and K",
            f"all positive P with row sums below K; (n, k) in {', '.join(map(str, SIZES))}",
            Assurance.EXACT,
            ASSUMPTIONS,
            build_sizes,
            prove_at_sizes,
            mutants=size_mutants,
        ),
        Claim(
            THEOREM,
            "instances",
            "softmax steps on a compiled context give v_l at every state and depth l <= L, in Q",
            NAMED,
            Assurance.EXACT,
            ASSUMPTIONS,
            instances,
            prove_steps,
        ),
        enclosure(name="enclosure", build=enclosed),
        enclosure(name="enclosure-large", build=enclosed_large, quick=False),
    ]
