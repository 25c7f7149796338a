"""The free algebra: rewriting keeps values, false identities are not proved, every hypothesis of a proof is needed."""

import random

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from proofs_check.claim import Verdict
from proofs_check.generic_layer import biorthogonal, prove_words, random_matrix
from proofs_check.temporal_difference import encoder, executor
from proofs_check.words import FreeAlgebra, evaluate, identity, letter, normal_form, rule

N, K = sp.symbols("n k", integer=True, positive=True)
B, W, H = letter("B", N, K), letter("W", N, K), letter("H", K, K)
BIORTHOGONAL = rule(W.T @ B, identity(K))


@given(st.lists(st.sampled_from(["BW'", "WB'", "B H W'", "W H' B'"]), min_size=1, max_size=5), st.integers(0, 999))
def test_rewriting_keeps_the_value(factors, seed):
    """n x n words multiplied and added, evaluated in Q before and after rewriting by W'B = I."""
    squares = {"BW'": B @ W.T, "WB'": W @ B.T, "B H W'": B @ H @ W.T, "W H' B'": W @ H.T @ B.T}
    word = total = squares[factors[0]]
    for factor in factors[1:]:
        word = word @ squares[factor]
        total = total - word
    rng = random.Random(seed)
    point = dict(zip("BW", biorthogonal(rng, 3, 2), strict=True)) | {"H": random_matrix(rng, 2, 2)}
    sizes = {N: 3, K: 2}
    assert evaluate(normal_form(total, BIORTHOGONAL), point, sizes) == evaluate(total, point, sizes)


def test_true_identities_are_proved_and_false_ones_are_not():
    holds = {"W'BH = H": (W.T @ B @ H, H)}
    assert prove_words(holds, BIORTHOGONAL).verdict is Verdict.PROVED
    without = prove_words(holds, [])
    assert without.verdict is Verdict.UNDECIDED
    assert "W'BH = H" in without.evidence["missing"]
    for name, wrong in {"sign": -H, "transpose": H.T, "twice": H + H, "order": H @ H}.items():
        assert prove_words({name: (W.T @ B @ H, wrong)}, BIORTHOGONAL).verdict is Verdict.UNDECIDED


PROOFS = {
    "orthogonality": (encoder, encoder.prove_orthogonality),
    "identities": (encoder, encoder.prove_context),
    "step of TD": (executor, executor.prove_td_step),
}


@pytest.mark.parametrize("name", PROOFS)
def test_every_hypothesis_is_needed(name, monkeypatch):
    """Leave out one hypothesis after the other: none of the proofs may still go through."""
    module, prove = PROOFS[name]
    calls = []
    monkeypatch.setattr(module, "rule", lambda left, right: calls.append(1) or rule(left, right))
    assert prove().verdict is Verdict.PROVED
    total = len(calls)
    assert total
    superfluous = []
    for left_out in range(total):
        calls.clear()

        def all_but_one(left, right, left_out=left_out):
            calls.append(1)
            return [] if len(calls) - 1 == left_out else rule(left, right)

        monkeypatch.setattr(module, "rule", all_but_one)
        if prove().verdict is Verdict.PROVED:
            superfluous.append(left_out)
    assert not superfluous


def test_only_an_indicator_is_its_own_square():
    algebra, m = FreeAlgebra(), sp.Symbol("m")
    gate, other = letter("e", m, 1, indicator=True).T, letter("u", m, 1).T
    assert algebra.dots(gate, gate) == gate == algebra.scale_columns(gate, gate)
    assert algebra.dots(other, other) != other
    assert algebra.dots(gate, other) not in (gate, other)
