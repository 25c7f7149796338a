"""What a token does to the state: determinant, dissipation, interference, by words; and the inverse T in Q.

The left side of every equation is read off the layer's own step or chunk.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from flint import fmpq_mat

from constructions.exact import RATIONALS
from constructions.recurrent.delta_rule import LAYER, Token, affine_map, chunk_of, encode, read_tokens, single, step
from constructions.recurrent.streams import Stream
from constructions.symbols import Polynomials

from ..block_words import Grid, Sample, free_point, grid, letters_of, prove_blocks, word_changes
from ..claim import Finding, Verdict, rational
from ..generic_layer import Point
from ..mutants import Mutant
from ..words import identity, letter, rule, zero
from . import stream_facts
from .chunks import D_V, SIZES, STATE, WORDS, C, D, generic_token
from .formula import Formula, diagonal, strict_lower_part

ONE = grid([identity(1)])
EYE = grid([identity(D)])


@dataclass(frozen=True)
class Equation:
    """What was built, and what it must be."""

    name: str
    built: Grid
    expected: Grid


def ungated() -> Token:
    """A generic token with gate I."""
    return replace(generic_token(), gate=EYE)


def dissipation() -> list[Equation]:
    """E E' - E+ E+' = u (2/b - |k|^2) u' for the difference E of two states, u = -b E k; beta stands for 1/b."""
    token = replace(ungated(), value=grid([zero(D_V, 1)]))
    after = step(STATE, token, WORDS)
    u = -(STATE @ token.key @ token.rate)
    beta = grid([letter("beta", 1, 1)])
    middle = beta + beta - token.key.T @ token.key
    return [Equation("E E' - E+ E+'", STATE @ STATE.T - after @ after.T, u @ middle @ u.T)]


def interference() -> list[Equation]:
    """S_T k - v = -e (1 - b |k|^2) + U K'k, with e = v - S k and later tokens that write U along K."""
    token = ungated()
    later = grid([letter("U", D_V, C)]) @ grid([letter("K", D, C)]).T
    e = token.value - STATE @ token.key
    recalled = (step(STATE, token, WORDS) + later) @ token.key - token.value
    expected = later @ token.key - e @ (ONE - token.rate @ token.key.T @ token.key)
    return [Equation("recall error", recalled, expected)]


def determinant() -> list[Equation]:
    """Two factorings of [[I, k], [b k', 1]], with M = I - k b k' of the built token and the scalar 1 - b |k|^2."""
    token = ungated()
    k, row, nothing = token.key, token.rate @ token.key.T, grid([zero(1, D)])
    M, _ = affine_map(single(token, WORDS), WORDS)
    stack = WORDS.stack
    upper, lower = stack([[EYE, k], [nothing, ONE]]), stack([[EYE, nothing.T], [row, ONE]])
    left = upper @ stack([[M, nothing.T], [row, ONE]])
    right = lower @ stack([[EYE, k], [nothing, ONE - row @ k]])
    return [Equation("[[I, k], [b k', 1]]", left, right)]


def prove_equations(equations: Sequence[Equation]) -> Finding:
    """Every equation, by words; `beta` is 1/b, where it occurs."""
    identities = {x.name: (x.built, x.expected) for x in equations}
    inverse = rule(letter("b", 1, 1) @ letter("beta", 1, 1), identity(1))
    told = any(x.name == "beta" for x in letters_of(identities))
    return prove_blocks(identities, inverse if told else [], _reciprocal(identities))


def _reciprocal(identities: dict[str, tuple[Grid, Grid]]) -> Sample:
    free = free_point(SIZES, identities)

    def sample(rng: random.Random) -> Point:
        values, sizes = free(rng)
        b = fmpq_mat(1, 1, [rng.randint(1, 5)])
        return {**values, "b": b, "beta": b.inv()}, sizes

    return sample


def equation_mutants(equations: Sequence[Equation]) -> Iterator[Mutant]:
    """One word of one block of what was built."""
    for i, equation in enumerate(equations):
        for text, changed in word_changes(equation.built):
            new = replace(equation, built=changed)
            yield Mutant("word", f"{equation.name}: {text}", [*equations[:i], new, *equations[i + 1 :]])


@dataclass(frozen=True)
class Determinant:
    """M of a stream, and the rates and gates by which its determinant is told."""

    stream: Stream
    M: fmpq_mat


def determinants(streams: Sequence[Stream]) -> list[Determinant]:
    """M as the layer's chunk has it."""
    return [Determinant(stream, affine_map(chunk_of(tokens_of(stream), RATIONALS), RATIONALS)[0]) for stream in streams]


def tokens_of(stream: Stream, arithmetic: Any = RATIONALS) -> list[Token]:
    """The tokens as the layer reads them."""
    return list(read_tokens(LAYER, encode(stream, arithmetic), arithmetic))


def prove_determinants(subjects: Sequence[Determinant]) -> Finding:
    """det M = product of a_i^{d_k} (1 - b_i |k_i|^2)."""
    found, records = [], []
    for subject in subjects:
        d = subject.stream.size[1]
        expected = RATIONALS.scalar(1)
        for key, b, a in zip(subject.stream.keys, subject.stream.rates, subject.stream.gates, strict=True):
            expected *= RATIONALS.scalar(a) ** d * (1 - RATIONALS.scalar(b) * squared(key))
        if subject.M.det() != expected:
            sides = {"found": rational(subject.M.det()), "expected": rational(expected)}
            return Finding(Verdict.REFUTED, {"block": "det M", **sides, "counterexample": subject.stream.describe()})
        found.append({"stream": subject.stream.name, "det M": rational(expected)})
        records.append(stream_facts.determinant(subject.stream, subject.M))
    return Finding(Verdict.PROVED, {"streams": found}, tuple(records))


def squared(key: Sequence[Any]) -> Any:
    """|k|^2 in Q."""
    return sum((RATIONALS.scalar(x) ** 2 for x in key), RATIONALS.scalar(0))


def determinant_mutants(subjects: Sequence[Determinant]) -> Iterator[Mutant]:
    """M transposed is equivalent, so: an entry moved, a column turned, the gates left out, the last token dropped."""
    for i, subject in enumerate(subjects):
        stream, M = subject.stream, subject.M
        d = M.nrows()
        bump, turn = RATIONALS.one_hot([0] + [-1] * (d - 1), d), RATIONALS.one_hot(range(d), d)
        turn[0, 0] = -1
        plain = replace(stream, gates=[1] * len(stream.gates))
        changed = {
            "an entry moved": M + bump,
            "a column turned": M * turn,
            "gates left out": determinants([plain])[0].M,
            "last token twice": M * affine_map(single(tokens_of(stream)[-1], RATIONALS), RATIONALS)[0],
        }
        for text, new in changed.items():
            yield Mutant(
                "entry", f"{text}: {stream.name}", [*subjects[:i], replace(subject, M=new), *subjects[i + 1 :]]
            )


def prove_inverse(formulas: Sequence[Formula]) -> Finding:
    """T_ij = -b_i k_i' prod (I - b k k') k_j over tokens between, and T_ij^2 <= (b_i |k_i| |k_j|)^2; gates are 1."""
    found = []
    for formula in formulas:
        stream = formula.stream
        keys = [RATIONALS.matrix([[x] for x in key]) for key in stream.keys]
        b = [RATIONALS.scalar(x) for x in stream.rates]
        C = len(b)
        L, one = strict_lower_part(formula), diagonal([RATIONALS.scalar(1)] * C)
        T = one - L if formula.fault == "first-order Neumann" else (one + L).inv()
        moves = [
            diagonal([RATIONALS.scalar(1)] * k.nrows()) - k * k.transpose() * x for k, x in zip(keys, b, strict=True)
        ]
        for j in range(C):
            carried = keys[j]
            for i in range(j + 1, C):
                where = {"block": "T", "row": i, "column": j, "counterexample": stream.describe()}
                expected = -(keys[i].transpose() * carried)[0, 0] * b[i]
                if T[i, j] != expected:
                    return Finding(
                        Verdict.REFUTED, {"found": rational(T[i, j]), "expected": rational(expected), **where}
                    )
                bound = b[i] ** 2 * squared(stream.keys[i]) * squared(stream.keys[j])
                if T[i, j] ** 2 > bound:
                    return Finding(
                        Verdict.REFUTED, {"found": rational(T[i, j]), "bound squared": rational(bound), **where}
                    )
                carried = moves[i] * carried
        found.append(stream.name)
    step_ = _carry()
    return Finding.all_of({"streams": Finding(Verdict.PROVED, {"streams": found}), "all sizes": step_})


def _carry() -> Finding:
    """T gains the row -b k'K'T, so K'T becomes [(I - k b k') K'T, k]: columns are carried past the new token."""
    K, T, k, b = letter("K", C, D), letter("T", C, C), letter("k", D, 1), letter("b", 1, 1)
    grown = grid([T, zero(C, 1)], [-(b @ k.T @ K.T @ T), identity(1)])
    carried = grid([(identity(D) - k @ b @ k.T) @ K.T @ T, k])
    identities = {"K'T": (grid([K.T, k]) @ grown, carried)}
    return prove_blocks(identities, [], free_point(SIZES, identities))


def inverse_mutants(formulas: Sequence[Formula]) -> Iterator[Mutant]:
    """Negative controls, and rates beyond 2 / |k|^2, where the bound fails."""
    for fault in ("b on the wrong side", "diagonal kept", "first-order Neumann"):
        yield Mutant("formula", fault, [replace(formula, fault=fault) for formula in formulas])
    beyond = [replace(f, stream=replace(f.stream, rates=[3 * x for x in f.stream.rates])) for f in formulas]
    yield Mutant("formula", "rates beyond 2 / |k|^2", beyond)


@dataclass(frozen=True)
class Similarity:
    """A stream, and the gates whose products take the ungated W to the gated one, tokens up to and with their own."""

    stream: Stream
    gates: Sequence[Any]
    shift: int = 0


def prove_similarity(subjects: Sequence[Similarity]) -> Finding:
    """W of the gated chunk is the ungated W times diag(g), for symbols, since L becomes diag(g) L diag(1/g)."""
    found = []
    for subject in subjects:
        ring = Polynomials(subject.stream.symbols)
        plain = replace(subject.stream, gates=[1] * len(subject.stream.gates))
        gated, free = (chunk_of(tokens_of(x, ring), ring).weights for x in (subject.stream, plain))
        gates = [ring.scalar(a) for a in subject.gates]
        one = ring.scalar(1)
        count = len(gates)
        g = [reduce(lambda x, y: x * y, gates[: i + 1 - subject.shift], one) for i in range(count)]
        wrong = [(i, j) for i in range(gated.shape[0]) for j in range(count) if gated[i, j] != free[i, j] * g[j]]
        if wrong:
            row, column = wrong[0]
            return Finding(Verdict.REFUTED, {"block": "W", "row": row, "column": column, "stream": subject.stream.name})
        found.append(subject.stream.name)
    D_, E, N, T = (letter(name, C, C) for name in "DENT")
    rules = [*rule(D_ @ E, identity(C)), *rule(E @ D_, identity(C)), *rule(N @ T, identity(C))]
    identities = {"(D N E)(D T E)": (grid([D_ @ N @ E @ D_ @ T @ E]), grid([identity(C)]))}
    return Finding.all_of(
        {
            "symbols": Finding(Verdict.PROVED, {"streams": found}),
            "all sizes": prove_blocks(identities, rules, free_point(SIZES, identities)),
        }
    )


def similarity_mutants(subjects: Sequence[Similarity]) -> Iterator[Mutant]:
    """Gates before the token's own, in reverse order, left out, squared."""
    changes = {
        "gates before the token only": lambda x: replace(x, shift=1),
        "gates in reverse order": lambda x: replace(x, gates=list(reversed(x.gates))),
        "gates left out": lambda x: replace(x, gates=[1] * len(x.gates)),
        "gates squared": lambda x: replace(x, gates=[a**2 for a in x.gates]),
    }
    for text, change in changes.items():
        yield Mutant("entry", text, [change(x) for x in subjects])
