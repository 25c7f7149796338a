"""`verify context` from the command line: several files, features, steps, jobs, and what it refuses."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from numerics.feature_logs import FeatureTask, read_features
from numerics.feature_tasks import boyan_chain
from verify.command_line import main
from verify.context import analyse_features, usual_step

STATES = ["--state", "s", "--next-state", "t", "--reward", "r", "--discount", "0.9"]
FEATURES = ["--features", "x0,x1,x2,x3", "--next-features", "y0,y1,y2,y3", "--reward", "r", "--discount", "0.9"]


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main([str(x) for x in arguments])
    out, err = capsys.readouterr()
    return caught.value.code, out, err


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_states(folder: Path) -> list[Path]:
    folder.mkdir()
    draw = np.random.default_rng(5)
    states, successors = draw.permutation(np.repeat(np.arange(6), 30)), draw.permutation(np.repeat(np.arange(6), 30))
    table = pl.DataFrame({"s": states, "t": successors, "r": draw.random(180)})
    for i in range(3):
        table[60 * i : 60 * (i + 1)].write_parquet(folder / f"{i}.parquet")
    return sorted(folder.iterdir())


def write_features(path: Path) -> Path:
    """A Boyan chain of four features, 100 transitions."""
    log = boyan_chain(discount="9/10", seed=2)
    columns = {f"x{i}": [float(row[i]) for row in log.features] for i in range(4)}
    columns |= {f"y{i}": [float(row[i]) for row in log.successors] for i in range(4)}
    pl.DataFrame(columns | {"r": [int(x) for x in log.rewards]}).write_parquet(path)
    return path


def without_seconds(document: dict) -> dict:
    assert document["reading"].pop("seconds") > 0
    return document


def test_several_files(capsys, tmp_path):
    files = write_states(tmp_path / "logs")
    code, out, err = call(capsys, "context", *files, *STATES, "--json")
    assert (code, err) == (0, "")
    document = without_seconds(json.loads(out))
    assert (document["transitions"], document["states"], document["reading"]["files"]) == (180, 6, 3)
    assert document["reading"]["engine"].startswith("polars")
    stored = tmp_path / "runs" / "context" / "0-and-2-more"
    assert without_seconds(json.loads((stored / "context.json").read_text())) == document
    assert "<svg" in (stored / "report.html").read_text()
    pattern = str(tmp_path / "logs" / "*.parquet")
    for more in ([], ["--jobs", 2, "--backend", "threading"]):
        code, out, _ = call(capsys, "context", pattern, *STATES, *more, "--json")
        assert code == 0
        assert without_seconds(json.loads(out)) == document
    code, out, _ = call(capsys, "context", tmp_path / "logs", *STATES)
    assert code == 0
    assert "3 files in" in out


def test_features(capsys, tmp_path):
    path = write_features(tmp_path / "boyan.parquet")
    code, out, _ = call(capsys, "context", path, *FEATURES, "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["transitions"], document["features"], document["depth"]) == (100, 4, 4)
    assert (document["krylov"]["dimension"], document["krylov"]["method"]) == (4, "exact in Q")
    assert document["registers"]["feature_context"]["registers"] == (2 * 4 + 1) * 4
    errors = document["errors"]["projection_relative"]
    assert errors[4] < 1e-12 < errors[3]
    other = json.loads(call(capsys, "context", path, *FEATURES, "--step", "1/1000", "--json")[1])
    assert other["step"] == "1/1000"
    assert other["krylov"] == document["krylov"]
    assert other["errors"] != document["errors"]
    code, out, _ = call(capsys, "context", path, *FEATURES)
    assert code == 0
    assert "4 features" in (tmp_path / "runs" / "context" / "boyan" / "report.html").read_text()


def test_weights_are_those_of_batch_td(tmp_path):
    task = read_features(
        write_features(tmp_path / "log.parquet"), [f"x{i}" for i in range(4)], [f"y{i}" for i in range(4)], "r", "9/10"
    )
    step = usual_step(task)
    log = boyan_chain(discount="9/10", seed=2)
    weights, largest = [Fraction(0)] * 4, Fraction(0)
    for _ in range(3):
        change = [Fraction(0)] * 4
        for x, y, reward in zip(log.features, log.successors, log.rewards, strict=True):
            error = reward + sum(w * (log.discount * b - a) for w, a, b in zip(weights, x, y, strict=True))
            change = [c + error * a for c, a in zip(change, x, strict=True)]
        weights = [w + step * c for w, c in zip(weights, change, strict=True)]
        largest = max(largest, *map(abs, weights))
    assert analyse_features(task, 3, 0)["errors"]["largest_value"] == pytest.approx(float(largest), rel=1e-12)


@pytest.mark.parametrize("norm", ["1", "3/4", "1/3", "1000", "1025", "1/1024", "7/1000"])
def test_usual_step(norm):
    task = FeatureTask(((Fraction(norm), 0), (0, 0)), (1, 0), 1, 0, Fraction(9, 10), "t", None)  # type: ignore[arg-type]
    step = usual_step(task)
    assert step * Fraction(norm) <= 1 < 2 * step * Fraction(norm)
    assert 1 in (step.numerator, step.denominator)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--reward", "r", "--discount", "0.9"], "found neither"),
        ([*STATES, *FEATURES], "found both"),
        (["--state", "s", "--reward", "r", "--discount", "0.9"], "without the other"),
        ([*STATES, "--backend", "abacus"], "backend"),
        ([*STATES, "--backend", "dask"], "scheduler"),
        ([*STATES, "--depth", "0"], "depth"),
        ([*FEATURES, "--step", "0"], "step"),
        ([*FEATURES, "--step", "1e9"], "step"),
        ([*FEATURES, "--step", "1" + 90 * "0", "--depth", "99"], "step"),
        ([*FEATURES, "--depth", "0"], "depth"),
    ],
)
def test_refusals_leave_nothing_behind(capsys, tmp_path, options, expected):
    path = write_features(tmp_path / "log.parquet")
    with_states = pl.read_parquet(path).with_columns(s=0, t=0)
    with_states.write_parquet(path)
    code, out, err = call(capsys, "context", path, *options)
    assert (code, out) == (2, "")
    assert expected in err
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
