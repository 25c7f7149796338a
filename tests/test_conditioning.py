"""Bits lost: the contexts are told apart, L beyond k brings the loss, the report's figures hold what the rows say."""

import pytest

from numerics.temporal_difference import conditioning
from verify.figures import figures_of


@pytest.fixture(scope="module")
def rows():
    return conditioning.conditioning(quick=True, formats=("float64",))


def lost(rows, sweep, context):
    (row,) = [row for row in rows if (row["sweep"], row["context"]) == (sweep, context)]
    return row["bits lost"]


def test_bits_lost_separate_the_contexts(rows):
    for context in ("memory-optimal", "memory-optimal, exact context"):
        small, large = lost(rows, conditioning.SLOW, context)
        assert small < large
        assert large > 12
        assert max(lost(rows, conditioning.FAST, context)) < 8
    for context in ("Hessenberg", "Lanczos", "Z_0, balanced"):
        assert max(lost(rows, conditioning.SLOW, context)) < 8


def test_the_loss_is_there_beyond_k_only(rows):
    at_k, beyond = lost(rows, conditioning.DEPTH, "memory-optimal, exact context")
    assert at_k < 2
    assert beyond > 5
    for row in rows:
        assert len(row["at"]) == len(row["k"]) == len(row["L"]) == len(row["bits lost"])


def test_units_and_limits():
    from flint import fmpq_mat

    exact = fmpq_mat(1, 2, [1, 4])
    assert conditioning.bits_lost(exact, exact, 2.0**-24) == 0
    assert conditioning.bits_lost(fmpq_mat(1, 2, [1, 5]), exact, 2.0**-24) == 22
    assert conditioning.bits_lost(fmpq_mat(1, 2, [1, 400]), exact, 2.0**-24) == 24


def test_reproduction_carries_figures(monkeypatch):
    monkeypatch.setattr(conditioning, "conditioning", lambda quick, seed, device: _made())
    found = conditioning.reproduce_conditioning(True, 3)
    assert [row["agrees"] for row in found] == [True, False, None]
    assert found[0]["source"] == "none (a prototype: 10 18)"
    (figure,) = [row["figure"] for row in found if "figure" in row]
    assert figure["places"] == [8, 12]
    assert list(figure["lines"].values()) == [[9.0, 16.0], [3.0, 3.0], [0.0, 1.0]]
    (svg,) = figures_of(found)
    assert svg == figures_of(found)[0]


def _made():
    shared = {"sweep": conditioning.SLOW, "setting": "walk", "grows": "k", "at": [8, 12], "registers": "nk"}
    shared |= {"format": "float64", "k": [8, 12], "L": [32, 48]}
    return [
        {**shared, "context": "memory-optimal, exact context", "bits lost": [9.0, 16.0]},
        {**shared, "context": "Z_0, one pass", "bits lost": [3.0, 3.0]},
        {**shared, "context": "Hessenberg", "bits lost": [0.0, 1.0]},
    ]
