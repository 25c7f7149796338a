"""The memory table: what is counted is what the built programs hold; the conclusions at small sizes."""

import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference import executor, krylov
from numerics.environment_tasks import drift_kernel, goal_gridworld
from numerics.mountain_car import mountain_car
from numerics.tasks import block_cycle
from numerics.temporal_difference import memory, retained
from numerics.temporal_difference.projection import compress
from numerics.temporal_difference.registers import kib, sparse_model
from numerics.torch_arithmetic import TorchArithmetic

FLOAT64 = TorchArithmetic("float64")
KEYS = {"name", "quantity", "setting", "source", "ours", "agrees", "reason", "seed"}


def by_quantity(rows):
    return {row["quantity"].partition(",")[0].partition(";")[0]: row for row in rows}


def test_counts_are_those_of_the_exact_run():
    """The float run in batches holds what the run in Q on all raw tokens holds, layer by layer."""
    task = block_cycle(12, 4, 60)
    built = executor.construction(12, 8, rounds=4)
    steps = [tokens for _, tokens in built.program.steps(built.encode(task, RATIONALS), RATIONALS)]

    def held(tokens):
        blocks = [b for (kind, _), b in tokens.blocks.items() if kind not in ("raw", "query")]
        return sum(b.nrows() * b.ncols() for b in blocks)

    result = retained.run_task(task, 8, 4, FLOAT64)
    balanced = executor.construction(12, 8, passes=2, balanced=True, rounds=4)
    assert result.vectors == 4
    assert result.retained == krylov.registers(steps[-1], RATIONALS) == 25 * 4
    assert result.kept == 25 * 5
    # x, y, z of states, slots and sources, and every scalar that a layer writes; a balanced slot keeps w in y too.
    assert result.peak == max(map(held, steps)) + 25
    exact = balanced.reference(task, FLOAT64)
    assert float(abs(result.values - exact).max()) < 1e-14


def test_batches_of_raw_tokens_add_up(monkeypatch):
    task = block_cycle(12, 4, 60)
    whole = retained.run_task(task, 8, 4, FLOAT64)
    monkeypatch.setattr(retained, "BATCH", 7)
    parts = retained.run_task(task, 8, 4, FLOAT64)
    assert replace(parts, values=None) == replace(whole, values=None)
    assert float(abs(parts.values - whole.values).max()) < 1e-14


def test_rows_of_the_small_cycle():
    rows = memory.tabular(memory.SMALL_CYCLE, block_cycle(), 30, 0, FLOAT64)
    assert all(set(row) == KEYS and row["agrees"] and not row["reason"] for row in rows)
    found = by_quantity(rows)
    assert found["vectors kept m"]["ours"] == 12
    assert found["absolute error at m"]["ours"] < 1e-13
    assert found["peak of our run"]["ours"] < 37.5 / 2


def test_a_count_that_differs_is_said_to():
    table = memory._Table(memory.GRID, "here", 0)
    table.count("sparse", "5.7", 1400, "another sample")
    table.count("sparse", "5.7", 1459)
    assert [(row["agrees"], row["reason"]) for row in table.rows] == [(False, "another sample"), (True, "")]
    assert memory.close(".08", 20 * 4 / 1024)
    assert not memory.close("2.49", 2.44)


def test_smooth_values_need_few_vectors_though_the_dimension_is_full():
    rows = memory.tabular(memory.DRIFT, drift_kernel(200, 20_000), 30, 0, FLOAT64)
    least = next(row for row in rows if row["quantity"].startswith("least m"))
    assert least["ours"] == 9
    assert "exact Krylov dimension 30" in least["quantity"]
    error = next(row["ours"] for row in rows if "absolute error of the built run" in row["quantity"])
    assert 1e-4 < error <= memory.ERROR


def test_gridworlds_lie_around_the_source():
    found = []
    for seed in range(3):
        A, r = sparse_model(goal_gridworld(seed=seed))
        found.append(int(np.argmax(compress(A, r, 500, 60).projection <= memory.ERROR)))
    assert all(30 <= m <= 46 for m in found)


def test_the_built_run_errs_as_the_projection_does():
    """m rounds of the encoder and the executor are a Krylov projection: same error, computed without a program."""
    task, m, depth = goal_gridworld(5, 6, 200), 7, 60
    A, r = sparse_model(task)
    result = retained.run_task(task, depth, m, FLOAT64)
    exact = memory.iterates(A, r, depth)
    error = float(np.abs(result.values.numpy() - exact).max())
    assert error == pytest.approx(compress(A, r, depth, m).projection[m], rel=1e-6)
    assert error > 1e-6


def test_boyan_chain_keeps_four():
    rows = by_quantity(memory.boyan(0, FLOAT64, transitions=2_000))
    assert all(row["agrees"] for row in rows.values())
    assert rows["vectors kept m = k"]["ours"] == 4
    assert rows["ours: context of m = 4 and a query"]["ours"] == round(kib(45), 3)


def test_mountain_car_registers_follow_d_alone_and_the_step_decides_the_error():
    pytest.importorskip("gymnasium")
    kept = {}
    for transitions in (1_000, 4_000):
        log = mountain_car(transitions)
        kept[transitions] = retained.run_car(log, Fraction(2, transitions), 40, 8, FLOAT64)
        assert kept[transitions].kept == (2 * log.d + 1) * 9
    step = Fraction(2, 4_000)
    errors, _ = memory.car_errors(log, step, 8, (10, 40))
    built = memory.built_error(log, step, kept[4_000].values.numpy())
    assert built == pytest.approx(errors[40], rel=1e-6)
    later, _ = memory.car_errors(log, 4 * step, 8, (40,))
    assert errors[10] < 1e-9 < errors[40] < later[40]
    # What counts is about step times depth.
    assert memory.car_errors(log, step, 8, (160,))[0][160] == pytest.approx(later[40], rel=0.5)


def test_mountain_car_counts_are_the_formulas_at_its_d():
    pytest.importorskip("gymnasium")
    rows, columns = memory.car(1_500, 0, FLOAT64, (2,))
    assert columns == 33
    counts = [row for row in rows if "registers)" in row["quantity"]]
    d = mountain_car(1_500).d
    for row, registers in zip(counts, (d * d + d, (2 * d + 1) * 33), strict=True):
        assert row["ours"] == round(kib(registers), 3)
        assert row["agrees"] == (row["reason"] == "") == memory.close(row["source"], row["ours"])
        assert row["agrees"] or f"{registers:,} registers at {d}" in row["reason"]


def test_without_gymnasium_the_table_is_refused_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.setattr(memory, "tabular", lambda *arguments: pytest.fail("a long run began"))
    with pytest.raises(BadInput, match="expected the package gymnasium"):
        memory.reproduce_memory()
