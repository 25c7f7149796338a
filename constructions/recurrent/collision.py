"""What one pass can hold: the state as a linear map of the functions, and two worlds that it cannot tell apart.

Tokens carry (block j, input x) and the value A_j x; keys, rates and gates do not depend on the A's (theory C2). Then
the last state from S_0 = 0 is A Phi with A = [A_1 .. A_K] of shape (d_v, K d) and Phi of shape (K d, d_k). Where Phi
has rank below K d, a row n with n Phi = 0 gives two worlds, A = 0 and one with n as its row, with the same state and
different answers; no reader of that state is right in both. Where the rank is K d, the state determines A, and a linear
reader exists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flint import fmpq, fmpq_mat

from ..errors import BadInput
from ..exact import RATIONALS, PrimeField
from . import delta_rule
from .streams import Stream


@dataclass(frozen=True, eq=False)
class Encoder:
    """Keys, rates, gates, and what each token shows; exact numbers.

    Attributes:
        keys: shape (T, d_k).
        rates, gates: length T.
        inputs: x of each token, shape (T, d).
        blocks: j of each token, from 0, length T.
        name: where it comes from, with its seed.

    Raises:
        BadInput: no token, or lengths that differ; block numbers that are negative.
    """

    keys: Sequence[Sequence[Any]]
    rates: Sequence[Any]
    gates: Sequence[Any]
    inputs: Sequence[Sequence[Any]]
    blocks: Sequence[int]
    name: str = "encoder"

    def __post_init__(self) -> None:
        T = len(self.keys)
        for field in ("rates", "gates", "inputs", "blocks"):
            if not T or len(getattr(self, field)) != T:
                found = len(getattr(self, field))
                raise BadInput(f"{self.name}: expected one of {field} a token, {T} tokens, found {found}")
        if min(self.blocks) < 0:
            raise BadInput(f"{self.name}: expected block numbers from 0 on, found {min(self.blocks)}")

    @property
    def K(self) -> int:
        """Number of blocks."""
        return max(self.blocks) + 1

    @property
    def d(self) -> int:
        """Width of an input."""
        return len(self.inputs[0])

    @property
    def d_k(self) -> int:
        """Width of a key."""
        return len(self.keys[0])

    def state(self, world: fmpq_mat) -> fmpq_mat:
        """The last state in a world A of shape (d_v, K d), by the layer from S_0 = 0; shape (d_v, d_k)."""
        d_v = world.nrows()
        values = [[entry for (entry,) in (world * self._shown(t)).tolist()] for t in range(len(self.keys))]
        nothing = [[0] * self.d_k] * len(self.keys)
        stream = Stream(self.keys, values, nothing, self.rates, self.gates, [[0] * self.d_k] * d_v, self.name)
        answer = delta_rule.construction(self.d_k, d_v).outputs(stream, RATIONALS)
        return RATIONALS.columns(answer, len(self.keys), len(self.keys) + self.d_k)

    @cached_property
    def encoding(self) -> fmpq_mat:
        """Phi, shape (K d, d_k): a value written at token t has become b_t k_t' M_{t+1} .. M_T at the end, summed."""
        later = RATIONALS.one_hot(range(self.d_k), self.d_k)
        phi = [[fmpq(0)] * self.d_k for _ in range(self.K * self.d)]
        for t in reversed(range(len(self.keys))):
            key = RATIONALS.matrix([self.keys[t]])
            rate, gate = RATIONALS.scalar(self.rates[t]), RATIONALS.scalar(self.gates[t])
            written = key * later * rate
            for i, x in enumerate(self.inputs[t]):
                row = phi[self.blocks[t] * self.d + i]
                for j, y in enumerate(written.entries() if x else ()):
                    row[j] += RATIONALS.scalar(x) * y
            later = (later - key.transpose() * written) * gate
        return RATIONALS.matrix(phi)

    @cached_property
    def rank(self) -> int:
        """Of Phi: full where it is so modulo a prime, else decided in Q."""
        most = min(self.d_k, self.K * self.d)
        try:
            if PrimeField(PRIME).matrix(self.encoding.tolist()).rank() == most:
                return most
        except ZeroDivisionError:
            pass
        return self.encoding.rank()

    def _shown(self, t: int) -> fmpq_mat:
        column = [fmpq(0)] * (self.K * self.d)
        start = self.blocks[t] * self.d
        column[start : start + self.d] = map(RATIONALS.scalar, self.inputs[t])
        return fmpq_mat(len(column), 1, column)


@dataclass(frozen=True)
class Collision:
    """Two worlds of one row, shape (1, K d) each, and the place where their answers differ.

    Attributes:
        encoder: by which both are read.
        first, second: the worlds.
        block: j.
        query: an input on which A_j x differs.
    """

    encoder: Encoder
    first: fmpq_mat
    second: fmpq_mat
    block: int
    query: tuple[fmpq, ...]

    def answer(self, world: fmpq_mat) -> fmpq:
        """A_j x at the block and query."""
        start = self.block * self.encoder.d
        return sum((world[0, start + i] * x for i, x in enumerate(self.query)), fmpq(0))


PRIME = 2**61 - 1


def left_null(matrix: fmpq_mat) -> fmpq_mat | None:
    """A row n of coprime integers with n matrix = 0, shape (1, rows); None if the rows are independent.

    The last rows come first, and no more than can be independent and one: late tokens are the shorter numbers.
    """
    rows = matrix.nrows()
    taken = range(rows - 1, max(-1, rows - matrix.ncols() - 2), -1)
    reduced, rank = RATIONALS.select(matrix.transpose(), taken).rref()
    if rank == len(taken):
        return None
    pivots = [next(j for j in range(len(taken)) if reduced[i, j] != 0) for i in range(rank)]
    free = next(j for j in range(len(taken)) if j not in pivots)
    row = [fmpq(0)] * rows
    row[taken[free]] = fmpq(1)
    for i, j in enumerate(pivots):
        row[taken[j]] = -reduced[i, free]
    numerators, _ = fmpq_mat(1, rows, row).numer_denom()
    return fmpq_mat(numerators) / math.gcd(*map(int, numerators.entries()))


def find_collision(encoder: Encoder) -> Collision | None:
    """Two worlds with the same state and different answers; None if the state determines the world."""
    row = left_null(encoder.encoding)
    if row is None:
        return None
    place = next(i for i in range(row.ncols()) if row[0, i] != 0)
    block, unit = divmod(place, encoder.d)
    query = tuple(fmpq(int(i == unit)) for i in range(encoder.d))
    return Collision(encoder, fmpq_mat(1, row.ncols()), row, block, query)
