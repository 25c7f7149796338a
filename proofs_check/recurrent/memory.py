"""What a state must hold, and what one pass of the delta rule cannot: ranks in Q, and colliding worlds (T1-T5).

n is the number of reals of a state, N = K d d_v that of the functions. All statements are about exact answers to every
(function, input) pair, or about the mean error over functions with independent entries of variance 1.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.recurrent.blocks import BlockTask, random_block_task
from constructions.recurrent.collision import Collision, Encoder, find_collision

from ..claim import Finding, Verdict, rational
from ..mutants import Mutant
from ..records import rank_record
from . import world_facts

LARGEST_RECORDED = 6
"""Reals of a function row up to which guesses have records."""
SHAPES = ((3, 2, 4), (4, 3, 8), (2, 3, 6), (3, 2, 8))
"""(K, d, d_k): too narrow, too narrow, just wide enough, wider than needed."""


def random_encoder(K: int, d: int, d_k: int, seed: int = 0, T: int | None = None) -> Encoder:
    """Random integer keys, rates and gates; each block shows its d unit inputs, over again if T is larger than K d."""
    rng = random.Random(f"encoder {K} {d} {d_k} {seed}")
    T = T or K * d
    keys = [[rng.randint(-3, 3) for _ in range(d_k)] for _ in range(T)]
    rates = [Fraction(rng.randint(1, 7), 4) for _ in range(T)]
    gates = [Fraction(rng.randint(2, 5), 5) for _ in range(T)]
    shown = [[int(t % d == i) for i in range(d)] for t in range(T)]
    name = f"random encoder (K={K}, d={d}, d_k={d_k}, T={T}, seed={seed})"
    return Encoder(keys, rates, gates, shown, [(t // d) % K for t in range(T)], name)


def encoders(seed: int = 0) -> list[Encoder]:
    """One of each shape, and one with more tokens than needed."""
    return [*(random_encoder(K, d, d_k, seed) for K, d, d_k in SHAPES), random_encoder(3, 2, 4, seed, T=12)]


def prove_ranks(subjects: Sequence[Encoder]) -> Finding:
    """rank Phi = min(d_k, K d): no keys do better than d_v d_k reals, and generic ones do as well."""
    found = []
    for encoder in subjects:
        rank, most = encoder.rank, min(encoder.d_k, encoder.K * encoder.d)
        where = {"encoder": encoder.name, "rank": rank, "min(d_k, K d)": most}
        if rank != most:
            return Finding(Verdict.REFUTED, {"block": "Phi", **where})
        found.append(where)
    return Finding(Verdict.PROVED, {"encoders": found}, tuple(world_facts.encoder_rank(x) for x in subjects))


def rank_mutants(subjects: Sequence[Encoder]) -> Iterator[Mutant]:
    """Keys that are not generic: all alike, one missing, a rate of 0; a gate that forgets everything."""
    changes = {
        "keys all alike": lambda e: replace(e, keys=[e.keys[0]] * len(e.keys)),
        "keys in a hyperplane": lambda e: replace(e, keys=[[0, *key[1:]] for key in e.keys]),
        "rates of 0": lambda e: replace(e, rates=[0] * len(e.rates)),
        "last gate 0": lambda e: replace(e, gates=[*e.gates[:-1], 0]),
    }
    for text, change in changes.items():
        yield Mutant("entry", text, [change(e) for e in subjects])


def collisions(seed: int = 0) -> list[Collision]:
    """Two worlds for each encoder that is too narrow."""
    found = [find_collision(encoder) for encoder in encoders(seed)]
    return [x for x in found if x is not None]


def prove_collisions(subjects: Sequence[Collision]) -> Finding:
    """The layer reads both worlds into the same state, and their answers differ."""
    found = []
    for x in subjects:
        states = [x.encoder.state(world) for world in (x.first, x.second)]
        answers = [rational(x.answer(world)) for world in (x.first, x.second)]
        where = {"encoder": x.encoder.name, "block": x.block, "query": [rational(y) for y in x.query]}
        if states[0] != states[1]:
            return Finding(Verdict.REFUTED, {**where, "failure": "the states differ"})
        if answers[0] == answers[1]:
            return Finding(Verdict.REFUTED, {**where, "failure": "the answers do not differ"})
        found.append({**where, "answers": answers, "world": [rational(y) for y in x.second.entries()]})
    return Finding(Verdict.PROVED, {"worlds": found}, tuple(world_facts.collision(x) for x in subjects))


def collision_mutants(subjects: Sequence[Collision]) -> Iterator[Mutant]:
    """The worlds alike, an entry moved, a query on which they agree, another middle key."""
    x = subjects[0]
    width = x.second.ncols()
    bump = RATIONALS.one_hot([0] + [-1] * (width - 1), 1) if width > 1 else x.second
    middle = len(x.encoder.keys) // 2
    keys = [[y + (t == middle) for y in key] for t, key in enumerate(x.encoder.keys)]
    changes = {
        "worlds alike": replace(x, second=x.first),
        "an entry moved": replace(x, second=x.second + bump),
        "a query of zeros": replace(x, query=tuple(fmpq(0) for _ in x.query)),
        "another middle key": replace(x, encoder=replace(x.encoder, keys=keys)),
    }
    for text, new in changes.items():
        yield Mutant("entry", text, [new, *subjects[1:]])


@dataclass(frozen=True)
class Answers:
    """The linear map from the functions to the answers on given inputs, for the blocks that are asked.

    Attributes:
        task: gives K, d, d_v and the inputs.
        blocks: which blocks are asked.
        reals: the rank that is claimed.
    """

    task: BlockTask
    blocks: tuple[int, ...]
    reals: int

    def matrix(self) -> fmpq_mat:
        """Rows: answers y_i of (block, input); columns: entries of the A's, block by block and row by row."""
        K, d, d_v, _, _ = self.task.size
        rows = []
        for j in self.blocks:
            for x in self.task.inputs[j]:
                for i in range(d_v):
                    row = [fmpq(0)] * (K * d * d_v)
                    start = (j * d_v + i) * d
                    row[start : start + d] = map(RATIONALS.scalar, x)
                    rows.append(row)
        return RATIONALS.matrix(rows)


def answer_maps(seed: int = 0) -> list[Answers]:
    """All blocks: N = K d d_v; one block, known before it is read again: d d_v."""
    out = []
    for K, d, d_v in ((3, 2, 2), (2, 3, 2), (4, 2, 1)):
        task = random_block_task(K, d, d_v, seed=seed)
        out.append(Answers(task, tuple(range(K)), K * d * d_v))
        out.append(Answers(task, (task.target,), d * d_v))
    return out


def prove_answers(subjects: Sequence[Answers]) -> Finding:
    """The answers determine as many reals as claimed: the rank of the map."""
    found = []
    for x in subjects:
        rank = x.matrix().rank()
        where = {"task": x.task.name, "blocks asked": list(x.blocks), "rank": rank}
        if rank != x.reals:
            return Finding(Verdict.REFUTED, {"block": "answers", **where, "expected": x.reals})
        found.append(where)
    return Finding(Verdict.PROVED, {"maps": found}, tuple(rank_record(x.matrix(), x.task.name) for x in subjects))


def answer_mutants(subjects: Sequence[Answers]) -> Iterator[Mutant]:
    """Inputs that do not span, a block that is not asked, one real more or less."""
    for i in (0, 1):
        x = subjects[i]
        flat = replace(x.task, inputs=[[rows[0]] * len(rows) for rows in x.task.inputs])
        changes = {
            "inputs all alike": replace(x, task=flat),
            "a block less": replace(x, blocks=x.blocks[:-1]),
            "a real more": replace(x, reals=x.reals + 1),
            "a real less": replace(x, reals=x.reals - 1),
        }
        for text, new in changes.items():
            if new.blocks:
                yield Mutant("entry", f"{text}: {len(x.blocks)} asked", [*subjects[:i], new, *subjects[i + 1 :]])


@dataclass(frozen=True)
class Guess:
    """Best linear guess of A_t from the state and some shots of A_t; rows of A are alike, so one row is enough.

    Attributes:
        encoder: gives Phi.
        shots: inputs x of the target, shape (s, d).
    """

    encoder: Encoder
    shots: tuple[tuple[Any, ...], ...]

    def mean_error(self) -> fmpq:
        """Of A_t, averaged over targets t, for independent entries of variance 1; 1 is the error of answering 0.

        Exact: measurements X (columns) leave the covariance I - X (X'X)^-1 X'; its trace on block t over d.
        """
        K, d = self.encoder.K, self.encoder.d
        total = fmpq(0)
        for t in range(K):
            seen = [
                [fmpq(0)] * (t * d) + [RATIONALS.scalar(y) for y in x] + [fmpq(0)] * ((K - 1 - t) * d)
                for x in self.shots
            ]
            columns = self.encoder.encoding.transpose().tolist() + seen
            reduced, rank = RATIONALS.matrix(columns).rref()
            X = RATIONALS.rows(reduced, 0, rank).transpose()
            P = X * (X.transpose() * X).solve(X.transpose()) if rank else fmpq_mat(K * d, K * d)
            total += sum((1 - P[i, i] for i in range(t * d, (t + 1) * d)), fmpq(0)) / d
        return total / K

    def bound(self) -> fmpq:
        """max(0, 1 - n/N - s/d) with n/N = d_k / (K d)."""
        K, d = self.encoder.K, self.encoder.d
        return max(fmpq(0), 1 - fmpq(self.encoder.d_k, K * d) - fmpq(len(self.shots), d))


def guesses(seed: int = 0) -> list[Guess]:
    """No shot, one shot, as many as an input is wide."""
    shots = {2: ((1, 2), (3, -1)), 3: ((1, 2, 0), (0, 1, 1), (2, 0, 1))}
    return [Guess(e, shots[e.d][:s]) for e in encoders(seed) for s in range(e.d + 1)]


def prove_guesses(subjects: Sequence[Guess]) -> Finding:
    """No linear reader of state and shots does better than max(0, 1 - n/N - s/d); without shots this is the error."""
    found, records = [], []
    for x in subjects:
        error, bound = x.mean_error(), x.bound()
        where = {"encoder": x.encoder.name, "shots": len(x.shots), "error": rational(error), "bound": rational(bound)}
        if error < bound:
            return Finding(Verdict.REFUTED, {"block": "mean error", **where, "failure": "below the bound"})
        if not x.shots and error != bound:
            return Finding(Verdict.REFUTED, {"block": "mean error", **where, "failure": "the bound is not met"})
        found.append(where)
        if x.encoder.K * x.encoder.d <= LARGEST_RECORDED:
            records.append(world_facts.guess(x.encoder, x.shots, error, bound))
    return Finding(Verdict.PROVED, {"guesses": found}, tuple(records))


def guess_mutants(subjects: Sequence[Guess]) -> Iterator[Mutant]:
    """Encoders that hold less or other than their keys allow."""
    for text, mutant in ((m.text, m) for m in rank_mutants([x.encoder for x in subjects])):
        changed = [replace(x, encoder=encoder) for x, encoder in zip(subjects, mutant.subject, strict=True)]
        yield Mutant("entry", text, changed)


@dataclass(frozen=True)
class Shots:
    """Functions, and the number of shots that is claimed to be the least that always tells them apart."""

    functions: tuple[fmpq_mat, ...]
    least: int

    def pairs(self) -> list[tuple[int, int, fmpq_mat]]:
        """(j, k, A_j - A_k)."""
        A = self.functions
        return [(j, k, A[j] - A[k]) for j in range(len(A)) for k in range(j)]


def shot_cases(seed: int = 0) -> list[Shots]:
    """Differences of rank 1, 2 and 3 in three dimensions."""
    rng = random.Random(f"shots {seed}")
    out = []
    for rank in (1, 2, 3):
        base = fmpq_mat(3, 3, [rng.randint(-4, 4) for _ in range(9)])
        lower = fmpq_mat(3, 3, [int(i == j or (j < i and (i + j) % 2)) for i in range(3) for j in range(3)])
        low = fmpq_mat(3, 3, [int(i == j and i < rank) for i in range(3) for j in range(3)]) * lower
        out.append(Shots((base, base + low, base - low), 3 - rank + 1))
    return out


def prove_shots(subjects: Sequence[Shots]) -> Finding:
    """s independent shots always identify exactly if s > max dim ker(A_j - A_k): fewer may lie in a kernel.

    One shot (1, t, t^2, ..) tells all apart for some t: a difference that is not zero vanishes at fewer than d of them.
    """
    found, records = [], []
    for x in subjects:
        d = x.functions[0].ncols()
        kernels = {(j, k): d - difference.rank() for j, k, difference in x.pairs()}
        largest = max(kernels.values())
        where = {"least": x.least, "largest kernel": largest}
        if any(size == d for size in kernels.values()):
            return Finding(Verdict.REFUTED, {"block": "functions", **where, "failure": "two functions are equal"})
        if x.least != largest + 1:
            return Finding(Verdict.REFUTED, {"block": "shots", **where, "expected": largest + 1})
        (j, k) = max(kernels, key=lambda pair: kernels[pair])
        difference = x.functions[j] - x.functions[k]
        reduced, rank = difference.rref()
        for i in range(kernels[(j, k)]):
            vector = _kernel_vector(reduced, rank, i)
            if any(y != 0 for y in (difference * vector).entries()):
                return Finding(Verdict.REFUTED, {"block": "kernel", **where, "failure": "a shot tells them apart"})
        shot = generic_shot(x)
        found.append({**where, "not told apart": [j, k], "one shot that does": [str(y) for y in shot]})
        records.append(world_facts.told_apart(x.functions, x.least, shot, f"least {x.least}"))
    return Finding(Verdict.PROVED, {"cases": found}, tuple(records))


def generic_shot(x: Shots) -> list[int]:
    """A shot that tells every two functions apart, of those with small t."""
    d, pairs = x.functions[0].ncols(), x.pairs()
    for t in range((d - 1) * len(pairs) + 1):
        shot = [t**i for i in range(d)]
        column = fmpq_mat(d, 1, shot)
        if all(any(y != 0 for y in (difference * column).entries()) for _, _, difference in pairs):
            return shot
    raise ValueError("two of the functions are equal")


def _kernel_vector(reduced: fmpq_mat, rank: int, index: int) -> fmpq_mat:
    d = reduced.ncols()
    pivots = [next(j for j in range(d) if reduced[i, j] != 0) for i in range(rank)]
    free = [j for j in range(d) if j not in pivots][index]
    column = [fmpq(int(j == free)) for j in range(d)]
    for i, j in enumerate(pivots):
        column[j] = -reduced[i, free]
    return fmpq_mat(d, 1, column)


def shot_mutants(subjects: Sequence[Shots]) -> Iterator[Mutant]:
    """One shot more or less, two functions alike, all functions doubled in one direction."""
    for i, x in enumerate(subjects):
        changes = {
            "a shot less": replace(x, least=x.least - 1),
            "a shot more": replace(x, least=x.least + 1),
            "two functions alike": replace(x, functions=(x.functions[0], x.functions[0], x.functions[2])),
        }
        for text, new in changes.items():
            yield Mutant("entry", f"{text}: case {i + 1}", [*subjects[:i], new, *subjects[i + 1 :]])
