"""Generic tasks over any field: the rational parametrisations on which the Schwartz-Zippel claims evaluate both sides.

* The executor alone: B and W are the first k columns of a generic T and of its inverse transpose, so W' B = I; H, g0
  and G are generic, A = B H W' + G (I - B W') and r = B g0. These are all tasks with r in an A-invariant range of B.
* The encoder from the state tokens: A = T [A11 A12; 0 A22] T^-1 and r in the span of the first k columns of T, so that
  the Krylov dimension is k and d_{k+1} vanishes identically.
* From the raw log: X and Y of N generic columns in place of the one-hot e_S and e_S', rewards R and discount g generic;
  visits are X 1, A = g diag(1 / X 1) X Y' and r = diag(1 / X 1) X R'. The identity for all such X and Y contains every
  log with full coverage whose b_1, .., b_n are non-zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from constructions.arithmetic import Arithmetic, Array
from constructions.errors import BadInput
from constructions.program import Program
from constructions.temporal_difference import executor, krylov
from constructions.temporal_difference.tokens import KINDS, wide_layout
from constructions.tokens import Tokens

from ..facts import Stated
from ..schwartz_zippel import BadPoint, Case, Identity, Source


@dataclass(frozen=True)
class Sizes:
    """n states, k tokens kept, depth L, h rounds, N transitions (for raw logs)."""

    n: int
    k: int
    depth: int
    rounds: int = 0
    transitions: int = 0

    def to_dict(self) -> dict[str, int]:
        letters = {"n": self.n, "k": self.k, "L": self.depth, "h": self.rounds, "N": self.transitions}
        return {letter: size for letter, size in letters.items() if size}


def case(
    program: Program,
    difference: Callable[[Program, Source, Sizes], Array],
    sizes: Sizes,
    block: str,
    stated: Stated | None = None,
    *,
    values: bool = False,
) -> Case:
    """A program with a difference at given sizes, `stated` for its records; `values`: it is that of v_0 .. v_L."""
    reads = executor.VALUES if values else None
    algorithm = "td" if values and stated is None else ""

    def at_sizes(p: Program, source: Source) -> Array:
        return difference(p, source, sizes)

    return Case(program, Identity(sizes.to_dict(), sizes.k, at_sizes, block, reads, algorithm, stated))


def executor_difference(program: Program, source: Source, sizes: Sizes) -> Array:
    """Values read by the executor minus TD's, on a generic exact context; rows are depths."""
    a = source.arithmetic
    n, k = sizes.n, sizes.k
    T = source.generic(n, n)
    inverse = source.inverse(T)
    B, Wt = a.columns(T, 0, k), a.rows(inverse, 0, k)
    H, g, G = source.generic(k, k), source.generic(k, 1), source.generic(n, n)
    BW = a.matmul(B, Wt)
    A = a.add(a.matmul(a.matmul(B, H), Wt), a.matmul(G, _minus(a, a.one_hot(range(n), n), BW)))
    Y = a.add(B, a.matmul(a.transpose(Wt), a.transpose(_minus(a, H, a.one_hot(range(k), k)))))
    context = a.stack([[B], [Y], [a.transpose(g)]])
    tokens = executor.context_tokens(context, n, a)
    values = executor.VALUES.rows(program.steps(tokens, a), n, a)
    return _minus(a, values, td_rows(a, A, a.matmul(B, g), sizes.depth))


def invariant_task(source: Source, sizes: Sizes) -> tuple[Array, Array]:
    """A and r with Krylov dimension k, generic otherwise."""
    a = source.arithmetic
    n, k = sizes.n, sizes.k
    T = source.generic(n, n)
    inverse = source.inverse(T)
    first, rest = a.columns(T, 0, k), a.columns(T, k, n)
    top = a.matmul(source.generic(k, n), inverse)
    A = a.matmul(first, top)
    if k < n:
        A = a.add(A, a.matmul(rest, a.matmul(source.generic(n - k, n - k), a.rows(inverse, k, n))))
    return A, a.matmul(first, source.generic(k, 1))


def state_tokens(a: Arithmetic, A: Array, r: Array, sizes: Sizes, queries: bool) -> Tokens:
    """Tokens as stage 1 leaves them, with blank slots and sources."""
    n, h = sizes.n, sizes.rounds
    every = a.one_hot(range(n), n)
    ones = a.matrix([[1] * n])
    tokens = Tokens({}, {}).with_kind("state", n, x=every, y=a.transpose(A), r=a.transpose(r), one=ones)
    for kind in ("slot", "source"):
        tokens = tokens.with_kind(kind, h, one=a.matrix([[1] * h]))
    return tokens.with_kind("query", n, x=every) if queries else tokens


def from_states(n: int, rounds: int, depth: int = 0, passes: int = 1) -> Program:
    """Stage 2 of the encoder on the state tokens, and (with a depth) the executor after it."""
    layers = krylov.krylov_layers(rounds, passes)
    if depth:
        layers += executor.executor_program(n, depth).layers
    return Program("stage 2" + (" and executor" if depth else ""), wide_layout(n), KINDS, layers)


def values_difference(program: Program, source: Source, sizes: Sizes) -> Array:
    """Encoder from state tokens and executor, minus TD; rows are depths."""
    a = source.arithmetic
    A, r = invariant_task(source, sizes)
    values = _values(program, state_tokens(a, A, r, sizes, queries=True), a, sizes)
    return _minus(a, values, td_rows(a, A, r, sizes.depth))


def context_difference(program: Program, source: Source, sizes: Sizes) -> Array:
    """Z_0 of the encoder minus Z_0 by orthogonal projections (normal equations); rows are B, Y, g0'."""
    a = source.arithmetic
    n, k = sizes.n, sizes.k
    A, r = invariant_task(source, sizes)
    final = program.run(state_tokens(a, A, r, sizes, queries=False), a)
    if final.total("source") != k:
        raise BadPoint
    found = krylov.read_context(final, n, a)
    powers, basis = [r], [r]
    for _ in range(k - 1):
        power = a.matmul(A, powers[-1])
        K = a.stack([powers])
        Kt = a.transpose(K)
        onto = a.matmul(K, a.matmul(source.inverse(a.matmul(Kt, K)), a.matmul(Kt, power)))
        basis.append(_minus(a, power, onto))
        powers.append(power)
    B = a.stack([basis])
    W = a.stack([[a.scale_columns(b, a.recip_0(a.dots(b, b))) for b in basis]])
    H = a.matmul(a.transpose(W), a.matmul(A, B))
    Y = a.add(B, a.matmul(W, a.transpose(_minus(a, H, a.one_hot(range(k), k)))))
    return _minus(a, found, a.stack([[B], [Y], [a.matmul(a.transpose(r), W)]]))


def log_difference(program: Program, source: Source, sizes: Sizes) -> Array:
    """From raw tokens to values, minus TD on the counted A and r; rows are depths."""
    a = source.arithmetic
    n, N, h = sizes.n, sizes.transitions, sizes.rounds
    X, Y, R, g = source.generic(n, N), source.generic(n, N), source.generic(1, N), source.generic(1, 1)
    ones = a.matrix([[1] * N])
    discounts = a.matmul(g, a.matrix([[1] * n]))
    tokens = Tokens({}, {}).with_kind("raw", N, x=X, y=Y, r=R, one=ones)
    tokens = tokens.with_kind("state", n, x=a.one_hot(range(n), n), one=a.matrix([[1] * n]), gam=discounts)
    for kind in ("slot", "source"):
        tokens = tokens.with_kind(kind, h, one=a.matrix([[1] * h]))
    tokens = tokens.with_kind("query", n, x=a.one_hot(range(n), n))
    values = _values(program, tokens, a, sizes)
    # Rows are divided by visits: as columns of the transposes, so that scale_columns does it.
    inverse_visits = a.recip_0(a.matmul(ones, a.transpose(X)))
    At = a.scale_columns(a.scale_columns(a.matmul(Y, a.transpose(X)), inverse_visits), discounts)
    rt = a.scale_columns(a.matmul(R, a.transpose(X)), inverse_visits)
    return _minus(a, values, td_rows(a, a.transpose(At), a.transpose(rt), sizes.depth))


def _values(program: Program, tokens: Tokens, a: Any, sizes: Sizes) -> Array:
    steps = []
    for label, after in program.steps(tokens, a):
        if label.startswith("step"):
            steps.append((label, after))
            if after.total("source") != sizes.k:
                raise BadPoint
    return executor.VALUES.rows(steps, sizes.n, a)


def td_rows(a: Arithmetic, A: Array, r: Array, depth: int) -> Array:
    """v_0 = 0, v_{l+1} = r + A v_l as rows, shape (depth + 1, n)."""
    v = a.matrix([[0]] * a.shape(A)[0])
    rows = [[a.transpose(v)]]
    for _ in range(depth):
        v = a.add(r, a.matmul(A, v))
        rows.append([a.transpose(v)])
    return a.stack(rows)


def _minus(a: Arithmetic, x: Array, y: Array) -> Array:
    if a.shape(x) != a.shape(y):
        raise BadInput(f"answer: expected a block of shape {a.shape(y)}, found {a.shape(x)}")
    return a.add(x, a.negate(y))
