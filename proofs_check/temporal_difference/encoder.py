"""td.krylov for every n and every round: the layers of a built encoder, read one round at a time on generic tokens.

A round speaks of slot j, slot j + 1, source j and the slots up to j. Renaming these spans to kinds (here, next, kept,
done) makes it independent of j: `done` has a symbolic number m of tokens. Every round of the built program is read so.

Invariant after each round, with B the b's so far, d_i = b_i' b_i, Delta = diag(d), D = diag(recip_0(d)), eta = D Delta:

    W = B D,   B' B = Delta,   B eta = B   (so W' B = eta, diagonal with entries 0 and 1).

The primitive enters by two facts: recip_0(x) x recip_0(x) = recip_0(x), and b recip_0(b'b) b'b = b, which holds over
the reals because b'b = 0 only for b = 0.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy as sp
from flint import fmpq_mat

from constructions.errors import Unsupported
from constructions.layers import Layer, LinearAttention, Tokenwise
from constructions.program import Program
from constructions.temporal_difference import krylov
from constructions.temporal_difference.krylov import ASSUMPTIONS, THEOREM
from constructions.temporal_difference.statistics import statistics_layers
from constructions.tokens import Span, Tokens

from ..claim import Assurance, Claim, Finding, Verdict
from ..generic_layer import Point, prove_layers, prove_words, random_matrix
from ..words import Words, identity, letter, ones_row, rule, zero

N, K, M = sp.symbols("n k m", integer=True, positive=True)
ROUNDS, PASSES = 4, 2

POSITIVITY = "b'b = 0 only for b = 0 (real numbers)"
SPAN = "A^j r lies in the span of b_1, .., b_{j+1}: from the claim orthogonality, one round after the other"
SPANNING = "n orthogonal non-zero vectors of R^n span it (cited)"


def build() -> Program:
    """The encoder for a symbolic n, with enough rounds to have a first, inner and last one."""
    return krylov.encoder_program(N, ROUNDS, PASSES)


def labelled(program: Program, label: str) -> list[Layer]:
    """The layers whose label starts so."""
    return [layer for layer in program.layers if layer.label.startswith(label)]  # type: ignore[union-attr]


def renamed(layers: Sequence[Layer], kinds: Mapping[Span, str]) -> list[Layer]:
    """The layers with each span read as a whole kind, without labels.

    Raises:
        Unsupported: a span that has no name, so the layers speak of other tokens than a round may.
    """

    def kind(span: Span) -> Span:
        if span not in kinds:
            raise Unsupported(f"the round speaks of {span}, which is not among {', '.join(map(str, kinds))}")
        return Span(kinds[span])

    out: list[Layer] = []
    for layer in layers:
        if isinstance(layer, LinearAttention):
            heads = tuple(
                replace(h, routes=tuple(replace(r, source=kind(r.source), target=kind(r.target)) for r in h.routes))
                for h in layer.heads
            )
            out.append(LinearAttention(heads))
        elif isinstance(layer, Tokenwise):
            out.append(replace(layer, span=kind(layer.span), label=""))
        else:
            raise Unsupported(f"a round has attention and primitives only, found {type(layer).__name__}")
    return out


def round_kinds(j: int) -> dict[Span, str]:
    """The spans of round j (from 0), with their kinds; in round 0 `done` is slot 0 itself."""
    return {
        Span("state"): "state",
        Span("slot", j, j + 1): "here",
        Span("slot", j + 1, j + 2): "next",
        Span("source", j, j + 1): "kept",
    }


def stray_layer(program: Program, stage_1: Sequence[Layer]) -> str | None:
    """Why the program is not stage 1, b_1, the rounds in order, compilation and releases; else None."""
    if program.layers[: len(stage_1)] != tuple(stage_1):
        return f"expected {len(stage_1)} layers of stage 1 first, as they are proved elsewhere"
    rest = [layer.label for layer in program.layers[len(stage_1) :]]  # type: ignore[union-attr]
    found = [label for label, _ in itertools.groupby(re.sub(r"^(round \d+):.*", r"\1", label) for label in rest)]
    after = ["compile", "release slots", "release states", "gate", "forget workspace"]
    expected = ["b_1 = r", *(f"round {j + 1}" for j in range(ROUNDS)), *after]
    return None if found == expected else f"expected the parts {', '.join(expected)}, found {', '.join(found)}"


def split_round(program: Program, j: int) -> tuple[list[Layer], list[list[Layer]]]:
    """Round j as generic layers: those before the passes, and each pass."""
    layers = labelled(program, f"round {j + 1}:")
    passes = [layer for layer in layers if re.search(r"pass \d+$", layer.label)]  # type: ignore[union-attr]
    before = layers[: len(layers) - len(passes)]
    if layers[len(before) :] != passes:
        raise Unsupported(f"round {j + 1}: expected the passes last")
    done = {Span("slot", 0, j + 1): "done", Span("slot", j + 1, j + 2): "next"}
    return renamed(before, round_kinds(j)), [renamed([layer], done) for layer in passes]


def _state(r: bool = False) -> dict[tuple[str, str], Words]:
    """State tokens after stage 1: e_i, row i of A, r_i."""
    blocks = {("state", "x"): identity(N), ("state", "y"): letter("A", N, N).T, ("state", "one"): ones_row(N)}
    return {**blocks, ("state", "r"): letter("r", N, 1).T} if r else blocks


def prove_rounds(program: Program, stage_1: Sequence[Layer] | None = None) -> Finding:
    """b_1 = r; w = b recip_0(b'b), the copies, z = A b in the next slot; each pass z - B W' z; zero stays zero.

    `stage_1` stands before the rounds: the layers of td.statistics by default.
    """
    stray = stray_layer(program, statistics_layers() if stage_1 is None else stage_1)
    if stray is not None:
        return Finding(Verdict.REFUTED, {"block": program.name, "failure": stray})
    findings = {"b_1 = r": _prove_first(program)}
    for j in range(ROUNDS):
        before, passes = split_round(program, j)
        findings[f"round {j + 1}"] = _prove_start(before, program, j == ROUNDS - 1)
        if j < ROUNDS - 1:
            if len(passes) != PASSES:
                return Finding(
                    Verdict.REFUTED,
                    {"block": f"round {j + 1}", "found": f"{len(passes)} passes", "expected": f"{PASSES} passes"},
                )
            for p, layers in enumerate(passes):
                findings[f"round {j + 1}, pass {p + 1}"] = _prove_pass(layers, program)
    return Finding.all_of(findings)


def _prove_first(program: Program) -> Finding:
    layers = renamed(labelled(program, "b_1"), {Span("state"): "state", Span("slot", 0, 1): "here"})
    before = {**_state(r=True), ("here", "one"): identity(1)}
    after = {**before, ("here", "x"): letter("r", N, 1)}

    def sample(rng: random.Random) -> Point:
        return {"A": random_matrix(rng, 3, 3), "r": random_matrix(rng, 3, 1)}, {N: 3}

    return prove_layers(layers, program.layout, Tokens({"state": N, "here": 1}, before), after, [], sample)


def _prove_start(layers: Sequence[Layer], program: Program, last_round: bool) -> Finding:
    b = letter("b", N, 1)
    A = letter("A", N, N)
    inverse = letter("recip_0(b' b)", 1, 1)
    counts = {"state": N, "here": 1, "kept": 1, **({} if last_round else {"next": 1})}
    ones = {(kind, "one"): identity(1) for kind in counts if kind != "state"}

    def run(b: Words, w: Words, c: Words) -> Finding:
        before = {**_state(), **ones, ("here", "x"): b}
        after = {
            **before,
            ("here", "y"): w,
            ("here", "z"): A @ b,
            ("here", "c"): c,
            ("kept", "x"): b,
            ("kept", "z"): w,
            ("next", "x"): A @ b,
        }
        return prove_layers(layers, program.layout, Tokens(counts, before), after, [], sample)

    def sample(rng: random.Random) -> Point:
        n = rng.choice([2, 3])
        point = {"A": random_matrix(rng, n, n), "b": random_matrix(rng, n, 1)}
        d = (point["b"].transpose() * point["b"])[0, 0]
        point["recip_0(b' b)"] = fmpq_mat(1, 1, [0 if d == 0 else 1 / d])
        point["recip_0(0)"] = fmpq_mat(1, 1, [0])
        return point, {N: n}

    nothing = zero(N, 1)
    return Finding.all_of(
        {"generic b": run(b, b @ inverse, inverse), "b = 0": run(nothing, nothing, letter("recip_0(0)", 1, 1))}
    )


def _prove_pass(layers: Sequence[Layer], program: Program) -> Finding:
    B, W, z = letter("B", N, M), letter("W", N, M), letter("z", N, 1)
    before = {("done", "x"): B, ("done", "y"): W, ("next", "x"): z}
    after = {**before, ("next", "x"): z - B @ W.T @ z}

    def sample(rng: random.Random) -> Point:
        n, m = rng.choice([(2, 1), (3, 2), (3, 3)])
        shapes = {"B": (n, m), "W": (n, m), "z": (n, 1)}
        return {name: random_matrix(rng, *shape) for name, shape in shapes.items()}, {N: n, M: m}

    return prove_layers(layers, program.layout, Tokens({"done": M, "next": 1}, before), after, [], sample)


def prove_orthogonality() -> Finding:
    """The invariant passes from m tokens to m + 1, and A b lies in the span of the new bank."""
    B, z, b = letter("B", N, M), letter("z", N, 1), letter("b", N, 1)
    A = letter("A", N, N)
    D, delta, eta = (letter(name, M, M, symmetric=True) for name in ("D", "Delta", "eta"))
    inverse = letter("recip_0(b' b)", 1, 1)
    W = B @ D
    invariant = rule(B.T @ B, delta) + rule(B @ eta, B)
    primitive = rule(D @ delta, eta) + rule(D @ eta, D)
    projected = z - B @ W.T @ z
    one_pass = prove_words(
        {
            "B' b = 0": (B.T @ projected, zero(M, 1)),
            "W' b = 0": (W.T @ projected, zero(M, 1)),
            "a second pass changes nothing": (projected - B @ W.T @ projected, projected),
            "A b_m = b_{m+1} + B (W' A b_m)": (projected + B @ (W.T @ z), z),
        },
        invariant + primitive,
    )
    # The bank [B b]: its blocks, with B' b = 0 from the pass and w = b recip_0(b'b) from the round.
    w = b @ inverse
    extended = prove_words(
        {
            "(B' B)_{11}": (B.T @ B, delta),
            "(B' B)_{12}": (B.T @ b, zero(M, 1)),
            "(W' B)_{11}": (W.T @ B, eta),
            "(W' B)_{12}": (W.T @ b, zero(M, 1)),
            "(W' B)_{21}": (w.T @ B, zero(1, M)),
            "(B eta)_1": (B @ eta, B),
            "(B eta)_2": (b @ inverse @ b.T @ b, b),
        },
        invariant + primitive + rule(B.T @ b, zero(M, 1)) + rule(b @ inverse @ b.T @ b, b),
    )
    nothing = zero(N, 1)
    zeros = {"A 0 = 0": (A @ nothing, nothing), "0 - B W' 0 = 0": (nothing - B @ W.T @ nothing, nothing)}
    start = prove_words(zeros, [])
    return Finding.all_of({"one pass": one_pass, "one more token": extended, "zeros come last": start})


def prove_compilation(program: Program) -> Finding:
    """Y = B - W + W H', g0' = r' W, the gate is the diagonal of B' W; H = W' A B."""
    layers = renamed(labelled(program, "compile"), {Span(kind): kind for kind in ("state", "slot", "source")})
    A, r, B, W = letter("A", N, N), letter("r", N, 1), letter("B", N, K), letter("W", N, K)
    before = {
        **_state(r=True),
        ("slot", "x"): B,
        ("slot", "y"): W,
        ("slot", "z"): A @ B,
        ("slot", "one"): ones_row(K),
        ("source", "x"): B,
        ("source", "z"): W,
        ("source", "one"): ones_row(K),
    }
    H = W.T @ A @ B
    after = {
        **before,
        ("source", "y"): B + W @ (H - identity(K)).T,
        ("source", "r"): (W.T @ r).T,
        ("source", "c"): letter("dots(B, W)", 1, K),
    }

    def sample(rng: random.Random) -> Point:
        n, k = rng.choice([(2, 2), (3, 2)])
        shapes = {"A": (n, n), "r": (n, 1), "B": (n, k), "W": (n, k)}
        point = {name: random_matrix(rng, *shape) for name, shape in shapes.items()}
        gate = point["B"].transpose() * point["W"]
        point["dots(B, W)"] = fmpq_mat(1, k, [gate[i, i] for i in range(k)])
        return point, {N: n, K: k}

    tokens = Tokens({"state": N, "slot": K, "source": K}, before)
    return prove_layers(layers, program.layout, tokens, after, [], sample)


def prove_context() -> Finding:
    """On the tokens kept W' B = I, so r = B g0 and, by induction on j, A^j r = B H^j g0 while A^j r is in range B.

    Letters: r = B e (b_1 = r is the first column); a = A^j r, p = H^j g0, and A a = B q (the span of the next token).
    """
    A, B, W = letter("A", N, N), letter("B", N, K), letter("W", N, K)
    e, a, p, q = letter("e", K, 1), letter("a", N, 1), letter("p", K, 1), letter("q", K, 1)
    kept = rule(W.T @ B, identity(K))
    base = prove_words({"B g0 = r": (B @ W.T @ (B @ e), B @ e)}, kept)
    H = W.T @ A @ B
    step = prove_words({"B H^{j+1} g0 = A^{j+1} r": (B @ H @ p, A @ a)}, kept + rule(B @ p, a) + rule(A @ a, B @ q))
    return Finding.all_of({"base": base, "step": step})


def claims() -> list[Claim]:
    """The inductive claims of td.krylov (wide layout, unbalanced)."""

    def no_object() -> Any:
        return ()

    return [
        Claim(
            THEOREM,
            "rounds",
            "b_1 = r; a round makes w = b recip_0(b'b), A b and the copies; a pass makes z - B W' z; zero stays zero",
            f"all n and numbers of earlier tokens, each of the {ROUNDS} rounds and {PASSES} passes as built",
            Assurance.INDUCTIVE,
            ASSUMPTIONS[:2],
            build,
            prove_rounds,
        ),
        Claim(
            THEOREM,
            "orthogonality",
            "after every round B'B = diag(d), W = B diag(recip_0(d)), W'B has entries 0 and 1, A b_j is in the span of"
            " the next bank, a second pass changes nothing, and zeros come last",
            "all n and numbers of rounds, by induction over rounds",
            Assurance.INDUCTIVE,
            (*ASSUMPTIONS[:1], POSITIVITY),
            no_object,
            lambda _: prove_orthogonality(),
        ),
        Claim(
            THEOREM,
            "compilation",
            "the sources receive Y = B + W (H - I)', g0' = r'W and the diagonal of B'W, with H = W'AB",
            "all n and h",
            Assurance.INDUCTIVE,
            ASSUMPTIONS[1:2],
            build,
            prove_compilation,
        ),
        Claim(
            THEOREM,
            "identities",
            "on the tokens kept W'B = I, r = B g0 and A^j r = B H^j g0 for every j < L",
            "all n, L and tasks",
            Assurance.INDUCTIVE,
            (*ASSUMPTIONS, POSITIVITY, SPAN, SPANNING),
            no_object,
            lambda _: prove_context(),
        ),
    ]
