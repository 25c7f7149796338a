"""Moments of a log of features, against fractions added one by one, in all formats; merging; the Krylov dimension."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from flint import fmpq, fmpq_mat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from numerics import feature_logs
from numerics.feature_logs import FeatureTask, Moments, feature_dimension, read_features
from numerics.log_jobs import Jobs

PHI, NEXT = ["a", "b"], ["c", "d"]
G = Fraction(9, 10)

numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-2, 2, width=32),
    st.integers(-(2**53), 2**53).map(float),
)
rows = st.lists(st.tuples(numbers, numbers, numbers, numbers, numbers, st.booleans()), min_size=1, max_size=12)


def table(values: list) -> dict[str, list]:
    return {name: [row[i] for row in values] for i, name in enumerate([*PHI, *NEXT, "r", "done"])}


def write(path: Path, columns: dict) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **columns)  # type: ignore[arg-type]
    elif path.suffix == ".csv":
        pl.DataFrame(columns).write_csv(path)
    else:
        pl.DataFrame(columns).write_parquet(path)
    return path


def read(*paths: Path, jobs: Jobs | None = None) -> FeatureTask:
    return read_features(paths, PHI, NEXT, "r", G, "done", jobs=jobs)


def added(values: list) -> tuple[list[list[Fraction]], list[Fraction]]:
    A, b = [[Fraction(0)] * 2 for _ in range(2)], [Fraction(0)] * 2
    for *row, done in values:
        x, y, reward = [Fraction(v) for v in row[:2]], [Fraction(0 if done else v) for v in row[2:4]], Fraction(row[4])
        for i in range(2):
            b[i] += reward * x[i]
            for j in range(2):
                A[i][j] += x[i] * (x[j] - G * y[j])
    return A, b


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, st.sampled_from(["parquet", "npz", "csv"]))
def test_sums_are_exact(tmp_path: Path, values: list, suffix: str) -> None:
    path = write(tmp_path / f"log.{suffix}", table(values))
    if suffix == "csv":  # decimals count as written
        texts = pl.read_csv(path, infer_schema=False).rows()
        values = [(*row[:5], row[5] == "true") for row in texts]
    task = read(path)
    A, b = added(values)
    assert [list(row) for row in task.A] == A
    assert list(task.b) == b
    assert (task.transitions, task.terminal_transitions) == (len(values), sum(row[5] for row in values))


def test_many_batches_and_other_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_logs, "_BATCH", 64)
    rng = np.random.default_rng(3)
    columns = {
        "a": rng.integers(-3, 3, 500),
        "b": rng.standard_normal(500).astype(np.float32),
        "c": rng.integers(2**62, 2**63 - 1, 500),
        "d": rng.standard_normal(500) * 1e-9,
        "r": rng.random(500),
        "done": rng.random(500) < 0.3,
    }
    values = list(zip(*(columns[x].tolist() for x in [*PHI, *NEXT, "r", "done"]), strict=True))
    A, b = added(values)
    for suffix in ("parquet", "npz"):
        task = read(write(tmp_path / f"log.{suffix}", columns))
        assert ([list(row) for row in task.A], list(task.b)) == (A, b)
    parts = [write(tmp_path / f"part{i}.parquet", {k: v[i::3] for k, v in columns.items()}) for i in range(3)]
    task = read(*parts[::-1], jobs=Jobs(2, "threading"))
    assert ([list(row) for row in task.A], list(task.b)) == (A, b)


moments = st.builds(
    lambda n, t: Moments(n, n // 2, tuple(map(tuple, t))) if n else Moments(),
    st.integers(0, 9),
    st.lists(st.lists(st.fractions(), min_size=3, max_size=3), min_size=1, max_size=1),
)


@given(moments, moments, moments)
def test_moments_form_a_commutative_monoid(x: Moments, y: Moments, z: Moments) -> None:
    assert x.merge(y).merge(z) == x.merge(y.merge(z)) == x.merge(y, z) == z.merge(x, y)
    assert x.merge(Moments()) == x == Moments().merge(x)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(1, 7), st.data())
def test_dimension_is_the_rank_over_q(d: int, depth: int, data: st.DataObject) -> None:
    small = st.fractions(-2, 2, max_denominator=3)
    sparse = st.one_of(st.just(Fraction(0)), small)
    A = data.draw(st.lists(st.lists(sparse, min_size=d, max_size=d), min_size=d, max_size=d))
    b = data.draw(st.lists(sparse, min_size=d, max_size=d))
    task = FeatureTask(tuple(map(tuple, A)), tuple(b), 1, 0, G, "drawn", None)  # type: ignore[arg-type]
    # Any step gives the same dimension: here a = 1/7.
    M = fmpq_mat(
        d,
        d,
        [fmpq(int(i == j)) - fmpq(x.numerator, 7 * x.denominator) for i, r in enumerate(A) for j, x in enumerate(r)],
    )
    vector = fmpq_mat(d, 1, [fmpq(x.numerator, 7 * x.denominator) for x in b])
    columns = []
    for _ in range(depth):
        columns += vector.entries()
        vector = M * vector
    assert feature_dimension(task, depth).value == fmpq_mat(depth, d, columns).rank()


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("a", float("nan"), "column 'a': expected a finite number, found nan in data row 2"),
        ("b", None, "column 'b': expected a finite number, found nothing in data row 2"),
        ("r", float("inf"), "column 'r': expected a finite number, found inf in data row 2"),
        ("c", None, "column 'c'"),
        ("done", None, "column 'done': expected true/false or 0/1, found nothing in data row 2"),
    ],
)
def test_refusals(tmp_path: Path, column: str, value: object, expected: str) -> None:
    columns = table([(1.0, 2.0, 3.0, 4.0, 5.0, False)] * 2)
    columns[column] = [columns[column][0], value]
    with pytest.raises(BadInput, match=r"log\.parquet: ") as caught:
        read(write(tmp_path / "log.parquet", columns))
    assert expected in str(caught.value)
    if column == "c":  # not looked at where the successor is terminal
        assert read(write(tmp_path / "log.parquet", {**columns, "done": [False, True]})).transitions == 2


def test_more_refusals(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", table([(1.0, 2.0, 3.0, 4.0, 5.0, False)]))
    path.write_text(path.read_text() + "1,2,3,4,high,false\n")
    with pytest.raises(BadInput, match=r"column 'r'.*'high' in data row 2"):
        read(path)
    with pytest.raises(BadInput, match="as many columns"):
        read_features(path, PHI, ["c"], "r", G)
    with pytest.raises(BadInput, match="different column"):
        read_features(path, PHI, PHI, "r", G)
    with pytest.raises(BadInput, match="'absent'"):
        read_features(path, ["a"], ["absent"], "r", G)
