"""Errors of every scheme against m: the half ring, panels, slopes, reproductions, recommendations, their figures."""

import json
from fractions import Fraction

import numpy as np
import pytest

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference import anchored, midpoint_hold, minimax, sample_and_hold
from numerics import tasks
from numerics.temporal_difference import error_law, recommend, thresholds
from numerics.temporal_difference.projection import arnoldi, compress, iterates
from numerics.temporal_difference.registers import sparse_model
from verify.command_line import main
from verify.figures import figures_of
from verify.recommend import recommendation, tolerance_of

CHAIN = tasks.reversible_chain(seed=1)


@pytest.fixture(scope="module")
def ring():
    return error_law.half_ring_errors()


def test_half_ring_figures(ring):
    """Theory A9: sample-and-hold within [.45, 2.7] Psi_m, midpoint hold at e*, truncation up to 37 times worse."""
    assert all(0.45 <= x.sample_and_hold / x.psi <= 2.7 for x in ring)
    assert all(abs(x.midpoint_hold - x.law) < 1e-9 for x in ring)
    assert max(x.truncation / x.sample_and_hold for x in ring) == pytest.approx(37.0, abs=0.1)
    assert all(x.truncation / x.sample_and_hold >= min(x.m, 100) / np.e * (1 - 1e-3) for x in ring)
    assert all(x.anchored_prefix / x.psi <= 3.3 for x in ring)
    found = error_law.slope(ring, "sample_and_hold", 2, 64)
    assert found.low < found.value == pytest.approx(-0.89, abs=0.01)
    assert error_law.slope(ring, "midpoint_hold", 2, 64).value == pytest.approx(-0.98, abs=0.01)


def test_slope_of_a_power_law():
    """Exact powers give the slope and no width; scattered ones an interval of Student's t by hand."""
    made = [error_law.SchemeErrors(m, *([float(m) ** -1.5] * 6), 1.0, float(m)) for m in (1, 2, 4, 8)]
    found = error_law.slope(made, "truncation", 1, 8)
    assert (found.low, found.value, found.high) == pytest.approx((-1.5, -1.5, -1.5))
    for x, factor in zip(made, (1.0, 2.0, 1.0, 2.0), strict=True):
        object.__setattr__(x, "truncation", x.truncation * factor)
    logs, errors = np.log([1, 2, 4, 8]), np.log([x.truncation for x in made])
    (value, _), (residual,), *_ = np.polyfit(logs, errors, 1, full=True)
    half = 4.302652729911275 * np.sqrt(residual / 2 / ((logs - logs.mean()) ** 2).sum())
    found = error_law.slope(made, "truncation", 1, 8)
    assert (found.low, found.high) == pytest.approx((value - half, value + half))
    with pytest.raises(BadInput, match="at least three sizes"):
        error_law.slope(made, "truncation", 1, 2)
    object.__setattr__(made[0], "truncation", 0.0)
    with pytest.raises(BadInput, match="positive errors"):
        error_law.slope(made, "truncation", 1, 8)


def test_schemes_on_a_chain():
    sizes = (1, 4, 8, 12, 20)
    found = error_law.task_errors(CHAIN, 30, sizes, 24)
    other = compress(*sparse_model(CHAIN), 30, 24)
    for x in found:
        depths = sample_and_hold.schedule("9/10", x.m).depths
        assert x.midpoint_hold <= x.law
        assert x.sample_and_hold <= float(sample_and_hold.hold_error("9/10", depths, 30)) * (1 + 1e-12)
        assert x.projection == pytest.approx(other.projection[x.m], rel=1e-6, abs=1e-13)
        assert x.truncation == pytest.approx(other.truncation[x.m], rel=1e-9)
    # One register: nothing is held beside the single vector, so the readings are truncation and projection.
    assert (found[0].anchored_prefix, found[0].anchored_residual) == (found[0].truncation, found[0].projection)


def test_float_answers_equal_those_of_the_programs():
    """Every scheme that is a program, on a task with terminal successors: its answers in Q, depth by depth."""
    task = tasks.with_terminal(tasks.dirichlet_chain(n=5, transitions=40, seed=3), 0.1, 3)
    depth, m = 15, 4
    split = anchored.split(task.discount, m)
    built = {
        "sample_and_hold": sample_and_hold.construction(5, depth, sample_and_hold.schedule(task.discount, m).depths),
        "anchored_prefix": anchored.construction(5, depth, split.k, split.samples, "prefix"),
        "anchored_residual": anchored.construction(5, depth, split.k, split.samples, "residual"),
        "midpoint_hold": midpoint_hold.construction(5, depth, m, task.discount),
    }
    A, r = sparse_model(task)
    values, basis = iterates(A, r, depth), arnoldi(A, r, m)
    for scheme, construction in built.items():
        exact = construction.outputs(task, RATIONALS)
        expected = np.array([[int(x.p) / int(x.q) for x in row] for row in exact.tolist()])
        found = error_law.ANSWERS[scheme](values, basis, task.discount, m)
        assert np.allclose(found, expected, rtol=0, atol=1e-13), scheme


def test_keeps_law_is_decided():
    assert error_law.keeps_law(CHAIN, 30, (4, 8, 30))
    louder = tasks.ring([2, 2], "9/10")  # rewards beyond 1 void the bound, and are caught
    assert not error_law.keeps_law(louder, 30, (4,))


def test_error_law_reproduction(ring, monkeypatch):
    monkeypatch.setattr(thresholds, "half_ring_errors", lambda: ring)
    rows = thresholds.reproduce_error_law(quick=True)
    kept = {row["quantity"]: row for row in rows}
    assert kept["sample-and-hold / Psi_m"]["agrees"]
    assert not kept["anchored residual / Psi_m"]["agrees"]
    assert kept["lower bound / e*, m = 1"]["ours"] == 1.0
    assert {"name", "quantity", "setting", "source", "ours", "agrees", "reason", "seed"} <= set(rows[0])
    drawn = figures_of(rows)
    assert len(drawn) == 3
    assert all(text.startswith("<svg") and "currentColor" in text for text in drawn)
    assert "zero block" not in drawn[0]


def test_thresholds_reproduction(monkeypatch):
    monkeypatch.setattr(thresholds, "PANELS", thresholds.PANELS[:1])
    rows = thresholds.reproduce_thresholds(quick=True)
    figures = {row["quantity"]: row["ours"] for row in rows}
    assert figures["projection, m = 12"] < 1e-13 < 0.05 < figures["projection, m = 11"]
    assert figures["tasks on which midpoint hold keeps e*, in balls"] == 10
    assert len(figures_of(rows)) == 1


def test_recommendation():
    A, r = sparse_model(CHAIN)
    found = {x.scheme: x for x in recommend.recommend(A, r, CHAIN.discount, 30, 0.1, 24)}
    errors = {m: error_law.task_errors(CHAIN, 30, (m,), 24)[0] for m in range(1, 31)}
    for scheme in error_law.SCHEMES:
        chosen = found[scheme]
        assert chosen.m == min(m for m, x in errors.items() if getattr(x, scheme) <= 0.1)
        assert chosen.error == pytest.approx(getattr(errors[chosen.m], scheme), rel=1e-12)
        if chosen.guarantee is not None:
            assert chosen.error <= chosen.guarantee
    assert (found["exact"].m, found["exact"].error) == (24, 0.0)
    # Over all logs: the least m, by the exact law and by the exact masses.
    bound = Fraction(float(np.abs(r).max()))
    least = next(m for m in range(31) if bound * minimax.minimax_error("9/10", m, 30) <= Fraction(0.1))
    assert found["midpoint_hold"].m_all == least
    assert found["truncation"].m_all == next(
        m for m in range(31) if bound * minimax.mass("9/10", m, 30) <= Fraction(0.1)
    )
    assert found["projection"].m_all is None is found["anchored_residual"].guarantee
    # Errors and bounds scale with the rewards.
    scaled = {x.scheme: x for x in recommend.recommend(A, 4 * r, CHAIN.discount, 30, 0.4, 24)}
    assert {x.scheme: (x.m, x.m_all) for x in found.values()} == {x.scheme: (x.m, x.m_all) for x in scaled.values()}
    assert scaled["midpoint_hold"].guarantee == pytest.approx(4 * found["midpoint_hold"].guarantee)


def test_recommendation_document_and_bad_input():
    result = recommendation(CHAIN, 30, tolerance_of("1/10"), 24)
    assert result["least"] == "Krylov projection"
    assert [x["name"] for x in result["schemes"]][-1] == "exact context"
    assert recommendation(CHAIN, 30, 1e6, 24)["schemes"][0]["m"] == 0
    for text in ("0", "-1", "x", "1/0"):
        with pytest.raises(BadInput, match="tolerance: expected a positive"):
            tolerance_of(text)


def test_context_recommends_and_draws_it_in_the_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{s},{t},{x}\n" for s, t, x in zip(CHAIN.states, CHAIN.successors, CHAIN.rewards, strict=True))
    (tmp_path / "log.csv").write_text(f"s,t,r\n{rows}")
    columns = ["--state", "s", "--next-state", "t", "--reward", "r", "--discount", "9/10", "--depth", "30"]
    with pytest.raises(SystemExit) as ended:
        main(["context", "log.csv", *columns, "--tolerance", "1/10", "--out", "out", "--json"])
    assert ended.value.code == 0
    shown = json.loads(capsys.readouterr().out)["recommendation"]
    assert shown == recommendation(CHAIN, 30, 0.1, 24)
    assert "Bound at m, all logs" in (tmp_path / "out" / "report.html").read_text()
    with pytest.raises(SystemExit) as ended:
        main(["context", "log.csv", *columns, "--tolerance", "none"])
    assert ended.value.code == 2
