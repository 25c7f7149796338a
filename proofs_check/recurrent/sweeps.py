"""Re-scans as sweeps over keys: overwriting, bias by gates, Kaczmarz's method, random keys (F8, F9, F11).

The left sides are read off chunks and steps of the layer; hypotheses on keys are rewrite rules.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.recurrent.blocks import orthogonal_basis
from constructions.recurrent.delta_rule import Token, affine_map, append, final_state, step

from ..block_words import Sample, grid, prove_blocks
from ..claim import Finding
from ..generic_layer import Point, random_matrix
from ..mutants import Mutant
from ..words import Rule, diagonal, identity, letter, rule, zero
from .chunks import D_V, STATE, WORDS, C, D, generic_chunk
from .token_facts import EYE, Equation, equation_mutants

K_BLOCK, k, v, b, q = (
    letter("K", D, C),
    letter("k", D, 1),
    letter("v", D_V, 1),
    letter("b", 1, 1),
    letter("q", D, 1),
)
A = letter("A", D_V, D)


@dataclass(frozen=True)
class Sweep:
    """Equations under hypotheses, and points that satisfy these."""

    equations: tuple[Equation, ...]
    rules: tuple[Rule, ...]
    sample: Sample


def prove_sweep(subject: Sweep) -> Finding:
    """Every equation, by words under the hypotheses."""
    identities = {x.name: (x.built, x.expected) for x in subject.equations}
    return prove_blocks(identities, subject.rules, subject.sample)


def sweep_mutants(subject: Sweep) -> Iterator[Mutant]:
    """One word of one block of what was built, among the words that the hypotheses leave."""
    left = [replace(x, built=x.built.under(subject.rules)) for x in subject.equations]
    for mutant in equation_mutants(left):
        yield replace(mutant, subject=replace(subject, equations=tuple(mutant.subject)))


def _orthogonal_point(rng: random.Random) -> Point:
    """Two orthogonal keys K and a third k, rates 1/|k|^2, and everything else free."""
    basis = [fmpq_mat(3, 1, [RATIONALS.scalar(x) for x in row]) for row in orthogonal_basis(rng, 3)]
    squares = [(x.transpose() * x)[0, 0] for x in basis]
    values = {
        "K": RATIONALS.stack([[basis[0], basis[1]]]),
        "k": basis[2],
        "b": fmpq_mat(1, 1, [1 / squares[2]]),
        "diag(b)": fmpq_mat(2, 2, [1 / squares[0], 0, 0, 1 / squares[1]]),
        "A": random_matrix(rng, 2, 3),
        "S": random_matrix(rng, 2, 3),
        "q": random_matrix(rng, 3, 1),
    }
    return values, {C: 2, D: 3, D_V: 2}


def overwriting() -> Sweep:
    """Chunks with H = K, W = K D and Z = A K D stay so under an orthogonal key with b |k|^2 = 1 and v = A k.

    D is diag(1/|k|^2). So S+ = S (I - P) + A P with P = K D K', whatever S is: a block is exact after it is read again.
    """
    Db = diagonal("b", C)
    chunk = replace(
        generic_chunk("1"),
        keys=grid([K_BLOCK]),
        weights=grid([K_BLOCK @ Db]),
        values=grid([A @ K_BLOCK @ Db]),
        gate=EYE,
    )
    token = Token(grid([k]), grid([A @ k]), grid([zero(D, 1)]), grid([b]), EYE)
    more = append(chunk, token, WORDS)
    after = final_state(more, STATE, WORDS)
    P = grid([K_BLOCK @ Db @ K_BLOCK.T + k @ b @ k.T])
    return Sweep(
        (
            Equation("H", more.keys, grid([K_BLOCK, k])),
            Equation("W", more.weights, grid([K_BLOCK @ Db, k @ b])),
            Equation("Z", more.values, grid([A @ K_BLOCK @ Db, A @ k @ b])),
            Equation("S+", after, STATE @ (EYE - P) + grid([A]) @ P),
            Equation("recall of k", after @ grid([k]), grid([A @ k])),
        ),
        (*rule(K_BLOCK.T @ k, zero(C, 1)), *rule(b @ k.T @ k, identity(1))),
        _orthogonal_point,
    )


def bias() -> Sweep:
    """A later token with an orthogonal key scales what k_i recalls by its gate: after m - i of them, by a^{m-i}."""
    ki, alpha, gate = letter("k_i", D, 1), letter("alpha", 1, 1), letter("A", D, D)
    token = Token(grid([k]), grid([v]), grid([q]), grid([b]), grid([gate]))
    after = step(STATE, token, WORDS)

    def sample(rng: random.Random) -> Point:
        values, sizes = _orthogonal_point(rng)
        a = fmpq(rng.randint(1, 4), 5)
        one = RATIONALS.one_hot(range(3), 3)
        first = RATIONALS.columns(values["K"], 0, 1)
        return {
            **values,
            "k_i": first,
            "v": random_matrix(rng, 2, 1),
            "alpha": fmpq_mat(1, 1, [a]),
            "A": one * a,
        }, sizes

    rules = (
        *rule(gate @ ki, ki @ alpha),
        *rule(k.T @ ki, zero(1, 1)),
        *rule(b @ k.T @ k, identity(1)),
        *rule(k.T @ k @ b, identity(1)),
    )
    earlier = Equation("S+ k_i", after @ grid([ki]), STATE @ grid([ki @ alpha]))
    return Sweep((earlier, Equation("S+ k", after @ grid([k]), grid([v]))), rules, sample)


def kaczmarz() -> Sweep:
    """With gates 1 and v = A k in every token, Z = A W, so S+ - A = (S - A) M: r sweeps give E_r = E_0 M^r."""
    W = letter("W1", D, C)
    chunk = replace(generic_chunk("1"), weights=grid([W]), values=grid([A @ W]), gate=EYE)
    token = Token(grid([k]), grid([A @ k]), grid([zero(D, 1)]), grid([b]), EYE)
    more = append(chunk, token, WORDS)
    M, _ = affine_map(chunk, WORDS)
    whole = grid([A])

    def sample(rng: random.Random) -> Point:
        values, sizes = _orthogonal_point(rng)
        free = {"H1": random_matrix(rng, 3, 2), "W1": random_matrix(rng, 3, 2)}
        return {**values, **free, "k": random_matrix(rng, 3, 1)}, sizes

    return Sweep(
        (
            Equation("Z", more.values, whole @ more.weights),
            Equation("S+ - A", final_state(chunk, STATE, WORDS) - whole, (STATE - whole) @ M),
        ),
        (),
        sample,
    )


def random_key() -> Sweep:
    """E+ E+' = E E' - E k (2b - b^2) k'E' for a unit key, v = 0; where k k' has mean I/d, |E|^2 shrinks in the mean."""
    token = Token(grid([k]), grid([zero(D_V, 1)]), grid([q]), grid([b]), EYE)
    after = step(STATE, token, WORDS)
    middle = grid([b + b - b @ b])

    def sample(rng: random.Random) -> Point:
        x = fmpq(rng.randint(1, 5), rng.randint(1, 5))
        unit = [(1 - x * x) / (1 + x * x), 2 * x / (1 + x * x), fmpq(0)]
        values, sizes = _orthogonal_point(rng)
        return {**values, "k": fmpq_mat(3, 1, unit), "b": random_matrix(rng, 1, 1)}, sizes

    right = STATE @ STATE.T - STATE @ token.key @ middle @ token.key.T @ STATE.T
    return Sweep((Equation("E+ E+'", after @ after.T, right),), tuple(rule(k.T @ k, identity(1))), sample)
