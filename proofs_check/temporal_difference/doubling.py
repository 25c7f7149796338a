"""td.doubling: every layer for all sizes, the addition law by induction, digits of built programs, instances.

The state before the layer of a digit is a pair of integers (a, b), the sources holding H^a, S_a and S_b; the layers are
read off the built program and each is proved to make (2a, a + b) or (2a, b). After all of them b must be L.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sympy as sp
from flint import arb

from constructions.errors import Unsupported
from constructions.exact import RATIONALS, Balls
from constructions.layers import Layer, LinearAttention
from constructions.program import Program
from constructions.temporal_difference import doubling
from constructions.temporal_difference.doubling import ASSUMPTIONS, BANKS, EXECUTOR_ASSUMPTIONS, THEOREM
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict
from ..enclosures import RADIUS_BITS
from ..facts import Facts, Stated, values
from ..generic_layer import Point, biorthogonal, prove_layers, prove_words, random_matrix
from ..instances import NAMED, Instance, InstanceSource, prove_instances
from ..mutants import Mutant, program_mutants
from ..words import Rule, Words, identity, letter, ones_row, rule, zero
from .context_facts import tabular
from .executor import BIORTHOGONAL, KRYLOV, prove_td_step

N, K, Q, HEIGHT = sp.symbols("n k q h", integer=True, positive=True)

DEPTHS = (44, 90)
"""101100 and 1011010 in binary: together they have every form of layer (bank, digit, whether it is the last)."""

LONGEST = 10**6
BALL_BITS = 512


def segments(program: Program) -> list[list[Layer]]:
    """The layers of a program, each attention layer with what is forgotten after it."""
    out: list[list[Layer]] = []
    for layer in program.layers:
        if isinstance(layer, LinearAttention) or not out:
            out.append([])
        out[-1].append(layer)
    return out


def digits_of(depth: int) -> list[int]:
    """Binary digits, least first, by division."""
    out = []
    while depth:
        depth, digit = divmod(depth, 2)
        out.append(digit)
    return out


Blocks = dict[tuple[str, str], Words]


@dataclass(frozen=True)
class Stage:
    """Generic tokens before some layers and what they must be after, with the hypotheses in between."""

    before: Blocks
    after: Blocks
    rules: Sequence[Rule]


def stages(depth: int) -> dict[str, Stage]:
    """Extraction, one stage for each binary digit of the depth, and the read-out, by name."""
    B, W, H, P = letter("B", N, K), letter("W", N, K), letter("H", K, K), letter("P", HEIGHT, K)
    g, v, X, one = letter("g0", K, 1), letter("v", N, 1), letter("X", N, Q), ones_row(K)
    power, S, T = letter("H^a", K, K), letter("S_a", K, 1), letter("S_b", K, 1)
    places = rule(P.T @ P, identity(K))
    public = {("source", "x"): B, ("source", "pos"): P, ("source", "one"): one, ("query", "x"): X}

    def bank(index: int, *values: Words | None) -> Blocks:
        return {("source", f): x for f, x in zip(BANKS[index % 2], values, strict=True) if x is not None}

    Y = B + W @ (H - identity(K)).T
    out = {
        "extraction": Stage(
            {**public, ("source", "y"): Y, ("source", "r"): g.T},
            {**public, **bank(0, P @ H, g.T, None)},
            [*rule(W.T @ B, identity(K)), *places],
        )
    }
    digits = digits_of(depth)
    for i, digit in enumerate(digits):
        taken = (S + power @ T).T if digit else T.T
        final = i == len(digits) - 1
        doubled = (None, None) if final else (P @ power @ power, (S + power @ S).T)
        out[f"digit {i + 1}"] = Stage(
            {**public, **bank(i, P @ power, S.T, T.T)}, {**public, **bank(i + 1, *doubled, taken)}, places
        )
    held = {**public, **bank(len(digits), None, None, T.T)}
    out["read"] = Stage(held, {**held, ("query", "r"): -(v.T @ X)}, rule(B @ T, v))
    return out


def _sample(rng: random.Random) -> Point:
    """Values of all letters; P has k different unit vectors, and B S_b = v."""
    n, k, q, h = rng.choice([(3, 2, 2, 3), (4, 3, 3, 3), (3, 3, 1, 4)])
    B, W = biorthogonal(rng, n, k)
    values = {"B": B, "W": W, "P": RATIONALS.one_hot(rng.sample(range(h), k), h)}
    shapes = {"H": (k, k), "H^a": (k, k), "g0": (k, 1), "S_a": (k, 1), "S_b": (k, 1), "X": (n, q)}
    values |= {name: random_matrix(rng, *shape) for name, shape in shapes.items()}
    values["v"] = B * values["S_b"]
    return values, {N: n, K: k, Q: q, HEIGHT: h}


def prove_program(depth: int, program: Program) -> Finding:
    """-c = E' v_L: each layer of the built program by its stage, then the addition law and the values."""
    found, wanted = segments(program), stages(depth)
    if len(found) != len(wanted):
        evidence = {"block": "layers", "found": f"{len(found)} attention layers", "expected": f"{len(wanted)}"}
        return Finding(Verdict.REFUTED, evidence)
    parts = {}
    for layers, (name, stage) in zip(found, wanted.items(), strict=True):
        tokens = Tokens({"source": K, "query": Q}, stage.before)
        parts[name] = prove_layers(layers, program.layout, tokens, stage.after, stage.rules, _sample)
    return Finding.all_of({**parts, "addition law": prove_addition_law(), "values": prove_sums()})


def prove_addition_law() -> Finding:
    """S_{a+b} = S_a + H^a S_b by induction on a, from S_0 = 0, H^0 = I, S_{a+1} = g0 + H S_a and H^{a+1} = H H^a."""
    H, g, power, following = (
        letter(x, K, K) if x.startswith("H") else letter(x, K, 1) for x in ("H", "g0", "H^a", "H^(a+1)")
    )
    S, S_next, S_b, S_sum = (letter(x, K, 1) for x in ("S_a", "S_(a+1)", "S_b", "S_(a+b)"))
    defined = rule(S_next, g + H @ S) + rule(following, H @ power)
    base = {"a = 0": (S_b, zero(K, 1) + identity(K) @ S_b)}
    step = {"a + 1": (g + H @ S_sum, S_next + following @ S_b)}
    return Finding.all_of(
        {"base": prove_words(base, []), "step": prove_words(step, defined + rule(S_sum, S + power @ S_b))}
    )


def prove_sums() -> Finding:
    """B S_l = v_l by induction on l: S_{l+1} = S_l + H^l g0 (addition law, S_1 = g0) and B H^l g0 = A^l r, l < L."""
    B, S, p = letter("B", N, K), letter("S_l", K, 1), letter("H^l g0", K, 1)
    v, a = letter("v_l", N, 1), letter("A^l r", N, 1)
    words = prove_words({"B S_{l+1} = v_l + A^l r": (B @ (S + p), v + a)}, rule(B @ S, v) + rule(B @ p, a))
    return Finding.all_of({"sums": words, "step of TD": prove_td_step()})


@dataclass(frozen=True)
class Built:
    """A depth and the program built for it."""

    depth: int
    program: Program


def _form(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    return tuple(replace(layer, label="") for layer in layers)  # type: ignore[arg-type]


def proved_forms() -> dict[tuple[Any, ...], tuple[Layer, ...]]:
    """The layers of the programs of `DEPTHS`, which `prove_program` decides, by (bank, digit, whether the last)."""
    forms: dict[tuple[Any, ...], tuple[Layer, ...]] = {}
    for depth in DEPTHS:
        first, *middle, read = segments(doubling.doubling_program(N, HEIGHT, depth))
        forms["extraction",] = _form(first)
        digits = digits_of(depth)
        for i, (digit, layers) in enumerate(zip(digits, middle, strict=True)):
            forms[i % 2, digit, i == len(digits) - 1] = _form(layers)
        forms["read", len(digits) % 2] = _form(read)
    return forms


def build_all() -> list[Built]:
    """L = 1 .. 1024 and 10^6."""
    return [Built(L, doubling.doubling_program(N, HEIGHT, L)) for L in (*range(1, 1025), LONGEST)]


def prove_digits(subject: Sequence[Built]) -> Finding:
    """Each program is extraction, one proved layer for each digit, read-out; bit_length(L) + 2 attention layers."""
    forms = proved_forms()
    for built in subject:
        digits = digits_of(built.depth)
        last = len(digits) - 1
        keys = [
            ("extraction",),
            *((i % 2, digit, i == last) for i, digit in enumerate(digits)),
            ("read", len(digits) % 2),
        ]
        counted, formula = built.program.attention_layers, built.depth.bit_length() + 2
        if counted != formula:
            evidence = {"L": built.depth, "block": "layers", "found": str(counted), "expected": str(formula)}
            return Finding(Verdict.REFUTED, evidence)
        for place, (layers, key) in enumerate(zip(segments(built.program), keys, strict=True)):
            if _form(layers) != forms[key]:
                text = f"layer {place + 1} is not the proved one for {' '.join(map(str, key))}"
                return Finding(Verdict.REFUTED, {"L": built.depth, "block": "layers", "failure": text})
        excess = sp.Poly(built.program.width.subs(HEIGHT, N) - (7 * N + 4), N)
        if excess.degree() > 1 or excess.coeff_monomial(N) > 0 or excess.eval(1) > 0:
            return Finding(Verdict.REFUTED, {"block": "width", "found": str(built.program.width), "expected": "7n + 4"})
    width = str(subject[0].program.width)
    return Finding(Verdict.PROVED, {"programs": len(subject), "longest": subject[-1].depth, "width": width})


def digit_mutants(subject: Sequence[Built]) -> Iterator[Mutant]:
    """The program of another depth, and the changes of one short program."""
    for built in subject[4:6]:
        for depth in (built.depth - 1, built.depth + 1, 2 * built.depth):
            changed = replace(built, program=doubling.doubling_program(N, HEIGHT, depth))
            yield Mutant("loop", f"L = {built.depth} by the program of {depth}", [changed])
    for mutant in program_mutants(subject[5].program):
        yield replace(mutant, subject=[replace(subject[5], program=mutant.subject)])


def instance_mutants(subject: Sequence[Instance]) -> Iterator[Mutant]:
    """The changes of the program of the first of `DEPTHS`, wherever an instance has that depth."""
    for one in subject:
        if one.construction.sizes["L"] == DEPTHS[0]:
            for mutant in program_mutants(one.construction.program):
                construction = replace(one.construction, program=mutant.subject)
                yield replace(mutant, subject=[replace(one, construction=construction)])


def closed_form(instance: Instance) -> Any:
    """v_L = (I - A)^{-1} (r - A^L r) in balls, shape (1, n), by another route; I - A is invertible since g < 1."""
    task, depth = instance.task, instance.construction.sizes["L"]
    A: Any = RATIONALS.matrix(task.A.tolist())  # type: ignore[attr-defined]
    n = A.nrows()
    balls = Balls(BALL_BITS)
    power = balls.matrix(A.tolist()) ** depth
    r = balls.matrix(task.r.tolist())  # type: ignore[attr-defined]
    inverse = (RATIONALS.one_hot(range(n), n) - A).inv()
    return (balls.matrix(inverse.tolist()) * (r - power * r)).transpose()


def prove_long(instances: Sequence[Instance]) -> Finding:
    """Each ball of the program meets the one of the closed form, and both are narrower than 2^-RADIUS_BITS.

    What lies in both is within twice that of either, so the claim is an enclosure of v_L and not an equality.
    """
    tried = []
    for instance in instances:
        where = {"task": instance.task.name, "L": instance.construction.sizes["L"]}
        with Balls(BALL_BITS).working() as balls:
            try:
                found = instance.construction.outputs(instance.task, balls)
            except Unsupported as error:
                return Finding(Verdict.UNDECIDED, {**where, "missing": str(error)})
            expected = closed_form(instance)
            widest = arb(0)
            for column, (x, y) in enumerate(zip(found.entries(), expected.entries(), strict=True)):
                if not x.overlaps(y):
                    text = {"found": x.str(12), "expected": y.str(12)}
                    return Finding(Verdict.REFUTED, {**where, "block": "v_L", "column": column, **text})
                widest = widest.max(x.rad()).max(y.rad())
            if not widest < arb(2) ** -RADIUS_BITS:
                missing = f"a ball of radius {widest.str(3)} is wider than 2^-{RADIUS_BITS}"
                return Finding(Verdict.UNDECIDED, {**where, "missing": missing})
            tried.append({**where, "widest radius": widest.str(3, radius=False), "v_L(0)": found[0, 0].str(12)})
    return Finding(Verdict.PROVED, {"bits": BALL_BITS, "instances": tried})


def stated(instance: Instance) -> Stated:
    """-v_L at the queries, by L steps of v+ = r + A v on the counted A and r, or on those of the context's task."""
    depth = int(instance.construction.sizes["L"])

    def said(a: Any, before: Tokens, after: Tokens, _: Any) -> Facts:
        f = Facts(a)
        if "raw" in before.counts:
            A, r = tabular(f, before)
        else:
            A, r = (f.value(name, getattr(instance.task, name)) for name in "Ar")
        v, X = values(f, A, r, depth), f.named("query.x", before.blocks["query", "x"])
        f.leaves(after, {"query.x": X, "query.r": f.fill(0, 1, X.shape[1]) - v[depth:, :] @ X})
        return f

    return said


def claims(alone: InstanceSource, whole: InstanceSource, long: InstanceSource) -> list[Claim]:
    """The claims of td.doubling; instances: on exact contexts, with the encoder, and at L = 10^6."""
    inductive = [
        Claim(
            THEOREM,
            f"layers-{depth}",
            "extraction gives E = H, S = g0; a digit turns (H^a, S_a, S_b) into (H^2a, S_2a, S_b or S_{a+b}); minus the"
            " last coordinate of a query q is then v_L(q)",
            f"all n, k <= h and queries; L = {depth}, {depth:b} in binary (other L: claim digits)",
            Assurance.INDUCTIVE,
            (BIORTHOGONAL, KRYLOV, *EXECUTOR_ASSUMPTIONS),
            partial(doubling.doubling_program, N, HEIGHT, depth),
            partial(prove_program, depth),
        )
        for depth in DEPTHS
    ]
    proved = partial(prove_instances, stated=stated)
    on_instances = partial(Claim, THEOREM, assurance=Assurance.EXACT, prove=proved, scope=NAMED)
    return [
        *inductive,
        Claim(
            THEOREM,
            "digits",
            "the program of depth L has bit_length(L) + 2 attention layers, one for each binary digit in order, all of"
            " the forms proved in the claims layers-44 and layers-90; width 2n + 3h + 5 <= 7n + 4",
            "all n and h <= n; L = 1 .. 1024 and 10^6",
            Assurance.EXACT,
            EXECUTOR_ASSUMPTIONS,
            build_all,
            prove_digits,
            mutants=digit_mutants,
        ),
        on_instances(
            name="values",
            statement="doubling on an exact context gives v_L at every state, equal to L steps of v+ = r + A v",
            assumptions=EXECUTOR_ASSUMPTIONS,
            build=alone,
            mutants=instance_mutants,
        ),
        on_instances(
            name="end-to-end",
            statement="encoder and doubling give v_L at every state, from the raw log",
            assumptions=ASSUMPTIONS,
            build=whole,
        ),
        Claim(
            THEOREM,
            "long",
            "at L = 10^6 the program in balls encloses v_L = (I - A)^{-1} (r - A^L r)",
            NAMED,
            Assurance.ENCLOSED,
            EXECUTOR_ASSUMPTIONS,
            long,
            prove_long,
        ),
    ]
