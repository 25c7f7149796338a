"""A theorem of one's own: gradient descent on least squares in one linear-attention layer.

Run it with ``verify certify --module examples/least_squares.py``: no package is changed.

Statement (von Oswald et al., "Transformers learn in-context by gradient descent", arXiv 2212.07677, in the form that
keeps the weights on a token). Samples (x_t, y_t), t = 1..N, x_t in R^d; loss 1/2 sum_t (w'x_t - y_t)^2; public step a.
One layer moves w to w - a sum_t (w'x_t - y_t) x_t, on a single token that holds w.

Construction. Sample tokens hold x_t and y_t; the weight token holds w in field x, and 1 in field one. Two heads along
sample => weight:

    -(u, x, w; w): sum_t (a x_t) <x_t, w>   and   +(u, y, one; w): sum_t (a x_t) y_t,   u_t = a x_t.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy as sp

from constructions.arithmetic import Arithmetic, Array
from constructions.construction import Construction, Steps, last
from constructions.errors import BadInput
from constructions.layers import Head, LinearAttention, Repeat, full
from constructions.layout import Layout, Size
from constructions.program import Program
from constructions.task import TaskClass
from constructions.tokens import Tokens
from proofs_check.claim import Assurance, Claim, Finding, Verdict
from proofs_check.generic_layer import Point, prove_layers, random_matrix
from proofs_check.instances import NAMED, Instance, prove_instances
from proofs_check.words import identity, letter
from verify.row import Options, Row, Shown

THEOREM = "user.least-squares"
ASSUMPTIONS = ("the step a is public", "sample tokens hold u = a x")
D, N, T = sp.symbols("d N T", integer=True, positive=True)


@dataclass(frozen=True)
class Samples:
    """x_t as rows, shape (N, d), and y_t, exact; step a."""

    x: list[list[Fraction]]
    y: list[Fraction]
    step: Fraction
    name: str

    @property
    def size(self) -> tuple[int, ...]:
        return len(self.x[0]), len(self.x)

    def describe(self) -> dict[str, Any]:
        return {"x": [[str(a) for a in row] for row in self.x], "y": [str(b) for b in self.y], "step": str(self.step)}


LEAST_SQUARES = TaskClass("least squares", "finitely many samples (x_t, y_t) in R^d x R", lambda task: None)


def random_samples(d: int, samples: int, seed: int) -> Samples:
    """Small rational samples."""
    rng = random.Random(seed)

    def draw() -> Fraction:
        return Fraction(rng.randint(-4, 4), rng.randint(1, 3))

    x = [[draw() for _ in range(d)] for _ in range(samples)]
    name = f"least squares(d={d}, N={samples}, seed={seed})"
    return Samples(x, [draw() for _ in range(samples)], Fraction(1, 8), name)


def descent_program(d: Size, steps: Size) -> Program:
    """`steps` gradient steps; d and steps may be symbols."""
    route = (full("sample", "weight"),)
    step = LinearAttention((Head("u", "x", "w", "w", route, sign=-1), Head("u", "y", "one", "w", route)), "step")
    layout = Layout(u=d, x=d, y=1, w=d, one=1)
    return Program("gradient descent on least squares", layout, ("sample", "weight"), (Repeat((step,), steps),))


def construction(d: int, steps: int) -> Construction:
    """Gradient descent from w = 0; the answer is w after the last step, shape (d, 1)."""

    def encode(task: Samples, arithmetic: Arithmetic) -> Tokens:
        if task.size[0] != d:
            raise BadInput(f"{task.name}: expected samples in R^{d}, as built for, found them in R^{task.size[0]}")
        columns = [list(column) for column in zip(*task.x, strict=True)]
        scaled = [[task.step * a for a in column] for column in columns]
        samples = {"u": arithmetic.matrix(scaled), "x": arithmetic.matrix(columns), "y": arithmetic.matrix([task.y])}
        weight = {"w": arithmetic.matrix([[0]] * d), "one": arithmetic.matrix([[1]])}
        return Tokens({}, {}).with_kind("sample", len(task.y), **samples).with_kind("weight", 1, **weight)

    def decode(run: Steps, arithmetic: Arithmetic) -> Array:
        return last(run).read("weight", "w", d, arithmetic)

    def reference(task: Samples, arithmetic: Arithmetic) -> Array:
        w = [Fraction(0)] * d
        for _ in range(steps):
            errors = [sum((row[i] * w[i] for i in range(d)), -y) for row, y in zip(task.x, task.y, strict=True)]
            w = [w[i] - task.step * sum(e * row[i] for e, row in zip(errors, task.x, strict=True)) for i in range(d)]
        return arithmetic.matrix([[a] for a in w])

    return Construction(
        theorem=THEOREM,
        sizes={"d": d, "T": steps},
        program=descent_program(d, steps),
        encode=encode,
        decode=decode,
        reference=reference,
        task_class=LEAST_SQUARES,
        assumptions=ASSUMPTIONS,
        answer=(("w", d),),
        source="arXiv 2212.07677, weights kept on a token",
    )


def prove_step(program: Program) -> Finding:
    """w+ = w - U (X' w - y') with U = a X, for every d and N, and every other row unchanged."""
    match program.layers:
        case (Repeat(layers=(LinearAttention() as layer,), times=times),) if times == T:
            pass
        case _:
            return Finding(Verdict.REFUTED, {"block": program.name, "failure": "expected one layer, repeated T times"})
    U, X, y, w = letter("U", D, N), letter("X", D, N), letter("y", 1, N), letter("w", D, 1)
    before = {
        ("sample", "u"): U,
        ("sample", "x"): X,
        ("sample", "y"): y,
        ("weight", "w"): w,
        ("weight", "one"): identity(1),
    }
    after = {**before, ("weight", "w"): w - U @ (X.T @ w - y.T)}

    def sample(rng: random.Random) -> Point:
        d, n = rng.choice([(2, 3), (3, 2)])
        shapes = {"U": (d, n), "X": (d, n), "y": (1, n), "w": (d, 1)}
        return {name: random_matrix(rng, *shape) for name, shape in shapes.items()}, {D: d, N: n}

    return prove_layers([layer], program.layout, Tokens({"sample": N, "weight": 1}, before), after, [], sample)


def claims(options: Options) -> list[Claim]:
    sizes = [(1, 2, 3), (2, 4, 3), (3, 6, 5)]

    def instances() -> list[Instance]:
        return [Instance(construction(d, t), random_samples(d, n, options.seed)) for d, n, t in sizes]

    def built() -> Program:
        return descent_program(D, T)

    every = "one layer is one gradient step, and T layers are T steps"
    some = "T layers from w = 0 equal T steps of descent"
    return [
        Claim(THEOREM, "step", every, "all d, N and T", Assurance.INDUCTIVE, ASSUMPTIONS, built, prove_step),
        Claim(THEOREM, "instances", some, NAMED, Assurance.EXACT, ASSUMPTIONS, instances, prove_instances),
    ]


ROWS = [
    Row(
        theorem=THEOREM,
        title="Gradient descent on least squares in one linear-attention layer",
        source="arXiv 2212.07677, weights kept on a token",
        docs="Two heads from the samples to a weight token; proved for every dimension, number of samples and steps.",
        show=lambda states, depth: Shown(construction(states, depth), {"sample": 2 * states, "weight": 1}),
        claims=claims,
    )
]
