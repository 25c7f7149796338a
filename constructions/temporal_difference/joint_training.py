"""td.joint-training: encoder and executor with free weights together (open in the source; theory A10).

Free are the weights of the scores in the layer that compiles the context, and in the executor (td.learnability):

    Y_j = sum_i w_i <M A b_i, w_j> + p b_j - q w_j,    g0_j = sum_i r_i <G e_i, w_j>,    Q_eff(C, W),

4 n^2 + 2 numbers shared by all tasks; the Arnoldi rounds stay as they are. The compiled construction is M = G = W = I,
C = -I, p = q = 1, where the loss 1/2 sum |v^_l - v_l|^2 is zero on every task.

It is zero on a whole surface, for all a, b other than 0:

    M = aI, p = a/b, q = a, G = bI, C = -I/b, W = I/a,

for Y is multiplied by a where W'Y forgets it again, and s by b where C' does, p making up for C in the scores. At
(a, b) = (1, 1) its two tangents are flat directions of the loss.

Where instead every task has a context Z = (B, Y, g0) of its own, free in all entries, more is flat: a change of basis
(B T, B T + (Y - B) T^{-T}, T^{-1} g0) for each task, what W'Y does not show, Y + N with B'W'N = 0, and every change of
C and W at all, since B and Y can follow it: 2 n^2 + n k for each task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from ..arithmetic import Arithmetic
from ..construction import Construction
from ..errors import BadInput
from ..layers import Layer, LinearAttention, Public, Repeat
from ..layout import Size
from ..program import Program
from ..task import Task
from ..tokens import Tokens
from . import executor, krylov, learnability
from .learnability import multiple
from .tokens import encode_log

THEOREM = "td.joint-training"
SOURCE = "open in the source (theory A10); this project's"
ASSUMPTIONS = (
    *krylov.ASSUMPTIONS,
    executor.ASSUMPTIONS[1],
    "free are the weights M, p, q, G of the compile layer and C, W of the executor; all else stays as it is",
)

FREE_HEADS = {("y", "z", "z", "y"): "M", ("x", "one", "one", "y"): "p", ("y", "one", "one", "y"): "q"}
FREE_HEADS |= {("r", "x", "z", "r"): "G"}
"""The heads of the compile layer, by their selectors, and the names of their weights."""


@dataclass(frozen=True)
class Weights:
    """M, G, C, W of shape (n, n); p, q of shape (1, 1)."""

    M: Public
    p: Public
    q: Public
    G: Public
    C: Public
    W: Public


def surface(a: Fraction | int = 1, b: Fraction | int = 1) -> Weights:
    """The weights of the surface of zero loss; (1, 1) is the compiled construction.

    Raises:
        BadInput: a or b is zero.
    """
    if a == 0 or b == 0:
        raise BadInput(f"{THEOREM}: expected a and b other than zero, found {a} and {b}")
    a, b = Fraction(a), Fraction(b)
    values = {"M": a, "p": a / b, "q": a, "G": b, "C": -1 / b, "W": 1 / a}
    return Weights(**{name: multiple(name, value) for name, value in values.items()})


def compile_with(layer: LinearAttention, weights: Weights) -> LinearAttention:
    """The compile layer with weights in its scores.

    Raises:
        BadInput: it has not every head that gets a weight.
    """
    heads, left = [], dict(FREE_HEADS)
    for head in layer.heads:
        name = left.pop((head.value, head.key, head.query, head.out), None)
        heads.append(head if name is None else replace(head, weight=getattr(weights, name)))
    if left:
        raise BadInput(f"{THEOREM}: expected heads for {', '.join(left.values())} in layer {layer.label}, found none")
    return replace(layer, heads=tuple(heads))


def joint_program(n: Size, rounds: int, depth: int, weights: Weights) -> Program:
    """Encoder and executor, from the raw log, with these weights."""
    encoder = krylov.encoder_program(n, rounds)
    layers: list[Layer] = []
    for layer in encoder.layers:
        is_compile = isinstance(layer, LinearAttention) and layer.label == "compile"
        layers.append(compile_with(layer, weights) if is_compile else layer)  # type: ignore[arg-type]
    step = Repeat((learnability.free_layer(weights.C, weights.W),), depth)
    return replace(encoder, name="encoder and executor with free weights", layers=(*layers, step))


def construction(n: int, depth: int, weights: Weights | None = None) -> Construction:
    """From the raw log to v_0 .. v_L, shape (L + 1, n), with the compiled weights if none are given.

    Raises:
        BadInput: a size that is not a positive int.
    """
    krylov.check_build(THEOREM, n, depth, 1, 1)
    h = min(n, depth)
    program = joint_program(n, h, depth, weights or surface())

    def encode(task: Task, arithmetic: Arithmetic) -> Tokens:
        return encode_log(task, arithmetic, n, slots=h, queries=True)

    return executor.evaluator(THEOREM, {"n": n, "L": depth, "h": h}, program, encode, ASSUMPTIONS, SOURCE)
