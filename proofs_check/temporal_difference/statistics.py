"""td.statistics: both attention layers for all N and n on generic tokens, and whole runs in Q."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sympy as sp
from flint import fmpq_mat

from constructions.layers import LinearAttention, Tokenwise
from constructions.program import Program
from constructions.temporal_difference.statistics import ASSUMPTIONS, THEOREM, statistics_program
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict
from ..facts import Facts, of_blocks, task
from ..generic_layer import Point, prove_layers, random_matrix
from ..instances import NAMED, InstanceSource, prove_instances
from ..words import diagonal, identity, letter, ones_row

N, RAW = sp.symbols("n N", integer=True, positive=True)
SHAPE = (LinearAttention, Tokenwise, LinearAttention)


def _counted(program: Program) -> tuple[Any, ...] | None:
    """The layers that count, invert and normalise, where the program starts with layers of these three types."""
    first = program.layers[:3]
    return first if tuple(map(type, first)) == SHAPE else None


def _missing_layers(program: Program) -> Finding:
    found = ", ".join(type(layer).__name__ for layer in program.layers[:3])
    return Finding(Verdict.REFUTED, {"block": program.name, "found": found, "expected": "count, invert, normalise"})


def prove_counts(program: Program) -> Finding:
    """z_i = sum_t [S_t = i] e_{S'_t}, q_i = sum_t [S_t = i] R_t, c_i = sum_t [S_t = i], for all N and n.

    With X = [e_{S_t}], Y = [e_{S'_t}] and rewards R, all of N columns: counts are X Y', so the state tokens must hold
    (X Y')', (X R')' and (X 1)'. The identity holds for any X and Y whatever, one-hot or not.
    """
    layers = _counted(program)
    if layers is None:
        return _missing_layers(program)
    X, Y, R = letter("X", N, RAW), letter("Y", N, RAW), letter("R", 1, RAW)
    ones = ones_row(RAW)
    before = {
        ("raw", "x"): X,
        ("raw", "y"): Y,
        ("raw", "r"): R,
        ("raw", "one"): ones,
        ("state", "x"): identity(N),
        ("state", "one"): ones_row(N),
        ("state", "gam"): letter("g", 1, N),
    }
    after = {
        **before,
        ("state", "z"): (X @ Y.T).T,
        ("state", "q"): (X @ R.T).T,
        ("state", "c"): (X @ ones.T).T,
    }

    def sample(rng: random.Random) -> Point:
        n, raw = rng.choice([(2, 3), (3, 5), (4, 4)])
        shapes = {"X": (n, raw), "Y": (n, raw), "R": (1, raw), "g": (1, n)}
        return {name: random_matrix(rng, *shape) for name, shape in shapes.items()}, {N: n, RAW: raw}

    return _with_ones(layers[:1], program, before, after, sample)


def prove_normalise(program: Program) -> Finding:
    """y_i = z_i g / c_i and r_i = q_i / c_i on every state token (recip_0 where c_i = 0), for all n."""
    layers = _counted(program)
    if layers is None:
        return _missing_layers(program)
    z, q, c, g = letter("z", N, N), letter("q", 1, N), letter("c", 1, N), letter("g", 1, N)
    inverse = letter("recip_0(c)", 1, N)
    before = {
        ("state", "x"): identity(N),
        ("state", "one"): ones_row(N),
        ("state", "gam"): g,
        ("state", "z"): z,
        ("state", "q"): q,
        ("state", "c"): c,
    }
    after = {
        **before,
        ("state", "c"): inverse,
        ("state", "y"): z @ diagonal("g o recip_0(c)", N),
        ("state", "r"): q @ diagonal("recip_0(c)", N),
    }

    def sample(rng: random.Random) -> Point:
        n = rng.choice([2, 3, 4])
        shapes = {"z": (n, n), "q": (1, n), "c": (1, n), "g": (1, n)}
        point = {name: random_matrix(rng, *shape) for name, shape in shapes.items()}
        inverses = [0 if x == 0 else 1 / x for x in point["c"].entries()]
        point["recip_0(c)"] = fmpq_mat(1, n, inverses)
        point["diag(recip_0(c))"] = _diag(inverses)
        point["diag(g o recip_0(c))"] = _diag([a * b for a, b in zip(point["g"].entries(), inverses, strict=True)])
        return point, {N: n}

    return _with_ones(layers[1:3], program, before, after, sample)


def _diag(entries: Sequence[Any]) -> fmpq_mat:
    n = len(entries)
    return fmpq_mat(n, n, [entries[i] if i == j else 0 for i in range(n) for j in range(n)])


def _with_ones(layers: Sequence[Any], program: Program, before: dict, after: dict, sample: Callable) -> Finding:
    kinds = {"raw": RAW, "state": N} if ("raw", "x") in before else {"state": N}
    return prove_layers(layers, program.layout, Tokens(kinds, before), after, [], sample)


def stated(a: Any, before: Tokens, after: Tokens, _: Any) -> Facts:
    """Row i of A and r_i as counted, beside the counts and 1 / N_i, which is 0 for a state that was not visited."""
    f = Facts(a, counted=True)
    X, Y, R = of_blocks(f, before, ("raw.x", "raw.y", "raw.r")).values()
    A, r = (f.named(name, value) for name, value in zip("Ar", task(before, a), strict=True))
    visits, inverse = (X @ f.fill(1, X.shape[1], 1)).T, f.value("1/N", after.read("state", "c", 1, a))
    f.equal("recip_0: c", inverse * inverse * visits, inverse)
    f.equal("recip_0: visits", visits * visits * inverse, visits)
    made = {"state.z": Y @ X.T, "state.q": R @ X.T, "state.c": inverse, "state.y": A.T, "state.r": r.T}
    f.after = of_blocks(f, before, ("state.x", "state.one", "state.gam")) | made
    return f


def claims(instances: InstanceSource, quick_instances: InstanceSource) -> list[Claim]:
    """The claims of td.statistics; the instances (stage 1 on tasks) come from the caller."""
    whole = partial(
        Claim,
        THEOREM,
        statement="stage 1 equals direct counting, entry by entry",
        assurance=Assurance.EXACT,
        assumptions=ASSUMPTIONS,
        prove=partial(prove_instances, stated=lambda _: stated),
    )
    return [
        Claim(
            THEOREM,
            "counts",
            "the three heads of the first layer accumulate N_i., the sum of rewards and N_i in state token i",
            "all N and n",
            Assurance.INDUCTIVE,
            ASSUMPTIONS[1:],
            lambda: statistics_program(N),
            prove_counts,
        ),
        Claim(
            THEOREM,
            "normalise",
            "recip_0 and two heads turn them into row i of A = g P and r_i, token by token",
            "all n",
            Assurance.INDUCTIVE,
            ASSUMPTIONS,
            lambda: statistics_program(N),
            prove_normalise,
        ),
        whole(name="instances", scope=NAMED, build=quick_instances),
        whole(name="instances-large", scope=f"{NAMED}, up to n = 24, N = 960", build=instances, quick=False),
    ]
