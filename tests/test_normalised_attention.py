"""Softmax and hardmax heads, ReLU blocks, causal masks: fused equals faithful, and both equal direct formulas."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
import torch
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st

from constructions.dense import dense_steps
from constructions.errors import BadInput, Unsupported
from constructions.exact import RATIONALS, Balls, PrimeField
from constructions.layers import Head, LinearAttention, Tokenwise, fixed, full, same
from constructions.layout import Layout
from constructions.logarithms import FractionField, Logarithms
from constructions.mlp import Map, Mlp, Units
from constructions.normalised_attention import HardmaxAttention, Move, NormalisedHead, Score, SoftmaxAttention
from constructions.parallel import Parallel
from constructions.program import Program
from constructions.routes import causal, causal_routes
from constructions.symbols import Polynomials
from constructions.tokens import Span, Tokens
from numerics.errors import exact_entries
from numerics.measurement import precision_of
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.torch_arithmetic import TorchArithmetic
from proofs_check.degrees import Degrees
from proofs_check.mutants import program_mutants

LAYOUT = Layout(x=2, y=2, v=3, o=3, f=1)
KINDS = ("item", "asker")
CAUSAL = causal_routes(KINDS)
SCORES = (Score("x", "y", fixed("W", [[1, 2], [0, -1]])), Score("f", "f", sign=-1))
MOVES = (Move("v", "o", sp.Rational(1, 2)), Move("v", "v", -1))
BLOCK = Mlp(
    LAYOUT,
    (
        Units(2, (Map("x"), Map("f", fixed("b", [[1], [-3]]))), (Map("y", fixed("V", [[1, 1], [0, 2]]), -2),)),
        Units(3, (Map("o", scale=-1),), (Map("o", scale=3), Map("v"))),
    ),
    "block",
)
EQUAL = Score("f", "y", fixed("zero", [[0], [0]]))


def program(*layers) -> Program:
    return Program("example", LAYOUT, KINDS, layers)


def items(arithmetic, x=((1, 0, -1), (2, 1, 1)), targets=2) -> Tokens:
    """Three items and two askers; some blocks are structurally zero."""
    tokens = Tokens({}, {}).with_kind(
        "item",
        3,
        x=arithmetic.matrix(x),
        y=arithmetic.matrix([[1, -1, 2], [0, 1, 1]]),
        v=arithmetic.matrix([[1, 0, 2], [0, 3, Fraction(1, 2)], [-1, 1, 0]]),
    )
    f, y = arithmetic.matrix([[1] * targets]), arithmetic.matrix([[2, 0][:targets], [-1, 1][:targets]])
    return tokens.with_kind("asker", targets, y=y, f=f)


PROGRAMS = {
    "softmax": program(SoftmaxAttention((NormalisedHead(MOVES, SCORES, CAUSAL),), "soft")),
    "uniform": program(SoftmaxAttention((NormalisedHead(MOVES, (EQUAL,), CAUSAL),), "pool")),
    "no scores": program(HardmaxAttention((NormalisedHead(MOVES, (), CAUSAL),), "pool")),
    "hardmax": program(HardmaxAttention((NormalisedHead(MOVES, SCORES, CAUSAL),), "hard")),
    "hardmax among parts": program(
        HardmaxAttention(
            (NormalisedHead(MOVES, SCORES, (full(Span("item", 1, 3), Span("asker", 0, 1)), same("item", "item"))),)
        )
    ),
    "causal linear": program(LinearAttention((Head("v", "x", "y", "o", CAUSAL), Head("v", "y", "x", "v", CAUSAL)))),
    "ReLU": program(BLOCK, Tokenwise("relu", Span("item"), "x", "relu")),
    "parallel": program(
        Parallel(
            (
                HardmaxAttention((NormalisedHead(MOVES, SCORES, CAUSAL),)),
                LinearAttention((Head("v", "x", "y", "o", CAUSAL),)),
            ),
            "both",
        )
    ),
    "all": program(
        HardmaxAttention((NormalisedHead(MOVES, SCORES, CAUSAL),), "hard"),
        BLOCK,
        SoftmaxAttention((NormalisedHead(MOVES, (EQUAL,), CAUSAL), NormalisedHead(MOVES, (), CAUSAL)), "pool"),
    ),
}
EXACT = [name for name in PROGRAMS if name != "softmax"]
ARITHMETICS = {
    "Q": (RATIONALS, 0.0, EXACT),
    "logarithms": (Logarithms(), 0.0, EXACT),
    "balls": (Balls(200), 1e-50, list(PROGRAMS)),
    "mpmath": (MpmathArithmetic(150), 1e-40, list(PROGRAMS)),
    "float64": (TorchArithmetic("float64"), 1e-13, list(PROGRAMS)),
    "float16": (TorchArithmetic("float16"), 2e-2, list(PROGRAMS)),
    "bfloat16": (TorchArithmetic("bfloat16"), 1e-1, list(PROGRAMS)),
}


def numbers(value) -> list[float]:
    if hasattr(value, "ravel") and value.dtype == object and hasattr(value.ravel()[0], "logs"):
        return [float(Fraction(int(x.plain.p), int(x.plain.q))) for x in value.ravel()]
    if hasattr(value, "entries"):
        return [float(x) if isinstance(x, arb) else float(Fraction(int(x.p), int(x.q))) for x in value.entries()]
    return [float(Fraction(int(x.p), int(x.q))) for x in exact_entries(value)[1]]


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_fused_equals_faithful(arithmetic):
    run, tolerance, names = ARITHMETICS[arithmetic]
    for name in names:
        tokens = items(run)
        with precision_of(run):
            *_, (_, fused) = PROGRAMS[name].steps(tokens, run)
            *_, (_, faithful) = dense_steps(PROGRAMS[name], tokens, run)
            for key, block in faithful.blocks.items():
                left = numbers(fused.read(*key, LAYOUT[key[1]], run))
                assert left == pytest.approx(numbers(block), rel=tolerance, abs=tolerance), (name, key)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_softmax_equals_torch_attention(dtype):
    run = TorchArithmetic(dtype)
    tokens = items(run)
    (_, after), *_ = PROGRAMS["softmax"].steps(tokens, run)
    U = [[*tokens.read(kind, field, LAYOUT[field], run)] for kind in KINDS for field in "xyvf"]
    x, y, v, f = (torch.cat([torch.stack(U[4 * k + i]) for k in range(2)], -1) for i in range(4))
    W = torch.tensor([[1, 2], [0, -1]], dtype=run.dtype)
    scores = (W @ x).mT @ y - f.mT @ f
    scores = scores.mT
    attended = torch.nn.functional.scaled_dot_product_attention(
        torch.zeros(1, 5, 1, dtype=run.dtype),
        torch.zeros(1, 5, 1, dtype=run.dtype),
        v.mT[None],
        attn_mask=scores.masked_fill(~torch.ones(5, 5).tril().bool(), -torch.inf),
    )[0]
    found = torch.cat([after.read(kind, "o", 3, run) for kind in KINDS], -1).mT
    torch.testing.assert_close(found, attended / 2)


def test_hardmax_averages_ties_and_ignores_what_it_does_not_see():
    seen = np.array([[True, True, False], [True, True, False], [False, True, False]])
    scores = [[3, 1, 9], [3, 2, 9], [7, 2, 9]]
    expected = [[Fraction(1, 2), 0, 0], [Fraction(1, 2), Fraction(1, 2), 0], [0, Fraction(1, 2), 0]]
    for run in (RATIONALS, Logarithms(), MpmathArithmetic(60), Balls(60), TorchArithmetic("float32")):
        assert numbers(run.hardmax(run.matrix(scores), seen)) == [float(x) for row in expected for x in row]


def test_one_distribution_over_all_routes_together():
    # Three items and the asker itself, all with score 0: a quarter each, however the routes are cut.
    run = RATIONALS
    for routes in (
        CAUSAL,
        (full(Span("item", 0, 2), "asker"), full(Span("item", 2, 3), "asker"), same("asker", "asker")),
    ):
        one = program(SoftmaxAttention((NormalisedHead((Move("v", "o"),), (), routes),)))
        o = one.run(items(run, targets=1), run).blocks["asker", "o"]
        assert o.entries() == [fmpq(3, 4), fmpq(7, 8), fmpq(0)]


def test_formal_logarithms_decide():
    run = Logarithms()
    log = run.log(run.matrix([[4, Fraction(2, 3), 6]]))
    four, ratio, six = log.ravel()
    assert four + ratio + ratio == run.log(run.matrix([[Fraction(16, 9)]]))[0, 0]
    assert run.exp(log).ravel().tolist() == [4, fmpq(2, 3), 6]
    weights = run.softmax(log.T + run.matrix([[Fraction(1, 7)]]), np.ones((3, 1), bool))
    assert run.rationals(weights).entries() == [fmpq(3, 8), fmpq(1, 16), fmpq(9, 16)]
    assert [run.relu(run.matrix([[x]]))[0, 0] == 0 for x in (sp.log(2) - 1, 1 - sp.log(2))] == [True, False]
    assert run.matrix([[sp.log(sp.Rational(1, 8)) / 3]])[0, 0] == -run.log(run.matrix([[2]]))[0, 0]
    for bad in (lambda: run.exp(run.matrix([[1]])), lambda: run.exp(log / run.scalar(2)), lambda: four * six):
        with pytest.raises(Unsupported):
            bad()
    assert run.relu(run.matrix([[sp.log(2) * 10**30 - 693147180559945309417232121458]]))[0, 0] != 0


@given(st.lists(st.fractions(min_value="1/9", max_value=9, max_denominator=9), min_size=1, max_size=5))
def test_softmax_of_logarithms_is_a_ratio(weights):
    run = Logarithms()
    found = run.softmax(run.log(run.matrix([[w] for w in weights])), np.ones((len(weights), 1), bool))
    assert [Fraction(int(x.plain.p), int(x.plain.q)) for x in found.ravel()] == [w / sum(weights) for w in weights]


def test_fraction_field():
    field = FractionField(["w", "d"], ["p"])
    run = Logarithms(field)
    w, d, p = (sp.Symbol(name) for name in "wdp")
    share = run.softmax(run.matrix([[sp.log(w)], [sp.log(d)]]), np.ones((2, 1), bool))[0, 0] * run.scalar(p)
    assert share == run.scalar(p) * run.scalar(w) / (run.scalar(w) + run.scalar(d))
    assert run.relu(run.matrix([[1]]) + -share)[0, 0] == run.scalar(1) - share
    assert run.relu(run.matrix([[-1]]) + share)[0, 0] == 0
    assert run.exp(run.matrix([[sp.log(w * d / (w + d)) - sp.log(d)]]))[0, 0] == run.matrix([[w]])[0, 0] / (
        run.scalar(w) + run.scalar(d)
    )
    assert run.relu(run.matrix([[2 * p - 1]]))[0, 0] == run.scalar(p)
    for undecided in (w - d, p - w, sp.log(w)):
        with pytest.raises(Unsupported):
            run.relu(run.matrix([[undecided]]))


def test_constants_are_rounded_once():
    third = sp.log(sp.Rational(1, 3))
    assert float(TorchArithmetic("float64").matrix([[third]])) == -math.log(3)
    assert float(TorchArithmetic("float16").matrix([[third]])) == float(torch.tensor(-math.log(3)).half())
    with Balls(100).working() as run:
        assert run.matrix([[2 * third]])[0, 0].overlaps(arb(9).log() * -1)


def test_undecided_steps_are_refused():
    seen = np.ones((2, 1), bool)
    for run in (RATIONALS, PrimeField(101), Polynomials(["t"])):
        with pytest.raises(Unsupported):
            run.softmax(run.matrix([[1], [2]]), seen)
    for run in (PrimeField(101), Polynomials(["t"])):
        with pytest.raises(Unsupported):
            run.hardmax(run.matrix([[1], [2]]), seen)
        with pytest.raises(Unsupported):
            run.relu(run.matrix([[1], [2]]))
    with Balls(100).working() as run:
        third = run.matrix([[1]])[0, 0] / 3
        with pytest.raises(Unsupported):
            run.hardmax(run.build(2, 1, [third, third]), seen)
        assert run.hardmax(run.build(2, 1, [third, third + 1]), seen).entries() == [0, 1]
    bounds = Degrees(1)
    with pytest.raises(Unsupported):
        bounds.relu(bounds.generic(1, 1))


def test_bad_heads_are_named():
    heads = {
        "equal widths, found v:3 and x:2": NormalisedHead((Move("v", "x"),), SCORES, CAUSAL),
        "equal widths, found x:2 and f:1": NormalisedHead(MOVES, (Score("x", "f"),), CAUSAL),
        "disjoint or equal targets": NormalisedHead(
            MOVES, SCORES, (full("item", "asker"), full("asker", Span("asker", 0, 1)))
        ),
        "signs of 1 or -1, found 2": NormalisedHead(MOVES, (replace(SCORES[0], sign=2),), CAUSAL),
    }
    for text, head in heads.items():
        with pytest.raises(BadInput, match=text):
            program(SoftmaxAttention((head,)))
    with pytest.raises(BadInput, match="equally many tokens along item >> asker"):
        program(SoftmaxAttention((NormalisedHead(MOVES, (), (causal("item", "asker"),)),))).run(
            items(RATIONALS), RATIONALS
        )
    with pytest.raises(BadInput, match="expected the layout"):
        Program("other", Layout(x=2), KINDS, (BLOCK,))
    with pytest.raises(BadInput, match="y:2 and 3 units"):
        Mlp(LAYOUT, (Units(3, (Map("y"),), ()),))


def test_counts_and_mutants():
    built = PROGRAMS["all"]
    assert (built.attention_layers, len(built.heads), BLOCK.hidden) == (2, 3, 5)
    assert "softmax (1/2 v to o, -v to v by" in str(built)
    texts = [mutant.text for mutant in program_mutants(built)]
    assert len(texts) == len(set(texts)) > 60
    for piece in (
        "softmax for hardmax",
        "negated",
        "key y in",
        "along item -> item",
        "block: layer dropped",
        "3 o dropped",
    ):
        assert any(piece in text for text in texts), piece
