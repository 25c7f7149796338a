"""Many files: counts as a monoid, the same result for every split, order, number of jobs and backend."""

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.task import Task
from numerics import log_files, log_jobs
from numerics.log_counts import Columns, LogCounts, count_file
from numerics.log_files import find_files
from numerics.log_jobs import Jobs
from numerics.logs import Log, read_log
from numerics.temporal_difference.dimension import krylov_dimension
from numerics.temporal_difference.registers import count_registers, sparse_counts

COLUMNS = Columns("s", "t", "r", "d")
SIZE = 900


def transitions(seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    states = draw.integers(0, 9, SIZE) * 3
    return {
        "s": states,
        "t": draw.permutation(states),
        "r": draw.standard_normal(SIZE) * 10.0 ** draw.integers(-9, 9, SIZE),
        "d": draw.random(SIZE) < 0.1,
    }


def write(path: Path, columns: dict) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **columns)  # type: ignore[arg-type]
    elif path.suffix == ".csv":
        pl.DataFrame(columns).write_csv(path)
    else:
        pl.DataFrame(columns).write_parquet(path)
    return path


def parts(folder: Path, columns: dict, count: int = 5, suffixes: tuple[str, ...] = (".parquet",)) -> list[Path]:
    """The rows dealt to several files."""
    return [
        write(folder / f"part{i}{suffixes[i % len(suffixes)]}", {k: v[i::count] for k, v in columns.items()})
        for i in range(count)
    ]


def read(logs: object, jobs: Jobs | None = None) -> Log:
    return read_log(logs, "s", "t", "r", "0.9", "d", jobs=jobs)  # type: ignore[arg-type]


def content(log: Log) -> tuple:
    task = log.task
    return log.labels, [x.tolist() for x in task.pairs], task.visits.tolist(), task.reward_sums, log.rows


def as_lists(counts: LogCounts) -> tuple:
    tables = [{kind: table.rows() for kind, table in x.items()} for x in (counts.pairs, counts.rewards)]
    return *tables, counts.files


rows = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 2**40]),
        st.sampled_from([1, 2, 5]),
        st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.5, 1.0])),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(rows, st.sampled_from(["parquet", "npz", "csv"]), st.booleans()), min_size=3, max_size=3))
def test_counts_form_a_commutative_monoid(tmp_path: Path, logs: list) -> None:
    found = []
    for i, (values, suffix, text) in enumerate(logs):
        columns = {name: [row[j] for row in values] for j, name in enumerate("strd")}
        if text:
            columns |= {name: [f"state {x}" for x in columns[name]] for name in "st"}
        write(tmp_path / f"log{i}.{suffix}", columns)
        (file,) = find_files(tmp_path / f"log{i}.{suffix}")
        found.append(count_file(file, COLUMNS))
    x, y, z = found
    expected = as_lists(x.merge(y, z))
    assert as_lists(x.merge(y).merge(z)) == as_lists(x.merge(y.merge(z))) == as_lists(z.merge(y, x)) == expected
    assert as_lists(x.merge(LogCounts())) == as_lists(LogCounts().merge(x)) == as_lists(x)
    assert x.merge(y).rows == x.rows + y.rows


def test_statistics_are_those_of_the_task(tmp_path: Path) -> None:
    columns = transitions()
    log = read(parts(tmp_path, columns))
    ends = np.where(columns["d"], 0, columns["t"] // 3)
    task = Task(columns["s"] // 3, ends, columns["r"], columns["d"], 9, Fraction(9, 10))
    assert log.task.size == task.size
    assert log.task.terminal_transitions == task.terminal_transitions == columns["d"].sum()
    assert log.task.counts.tolist() == task.counts.tolist() == sparse_counts(log.task).toarray().tolist()
    assert log.task.reward_sums == task.reward_sums
    assert (log.task.A, log.task.r) == (task.A, task.r)
    assert krylov_dimension(log.task, 6) == krylov_dimension(task, 6)
    assert count_registers(log.task, 4) == count_registers(task, 4)


@pytest.mark.parametrize("jobs", [Jobs(), Jobs(2, "threading"), Jobs(2)], ids=["one", "threads", "processes"])
def test_jobs_and_order_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: Jobs) -> None:
    monkeypatch.setattr(log_jobs, "_MERGED_AT_ONCE", 2)
    columns = transitions()
    whole = content(read(write(tmp_path / "whole.parquet", columns)))
    files = parts(tmp_path, columns)
    assert content(read(files[::-1], jobs)) == whole
    assert content(read(str(tmp_path / "part*.parquet"), jobs)) == whole


def test_folders_globs_and_formats_mix(tmp_path: Path) -> None:
    columns = {**transitions(), "r": np.arange(SIZE) % 7}
    whole = content(read(write(tmp_path / "whole.npz", columns)))
    (tmp_path / "logs" / "deep").mkdir(parents=True)
    files = parts(tmp_path / "logs", columns, 6, (".parquet", ".csv", ".npz"))
    files[4] = files[4].rename(tmp_path / "logs" / "deep" / "part4.csv")
    (tmp_path / "logs" / "notes.txt").write_text("not a log")
    log = read(tmp_path / "logs")
    assert content(log) == whole
    # A file that is named twice is read once.
    assert content(read([tmp_path / "logs", files[0], str(tmp_path / "logs" / "*.npz")])) == whole
    assert (log.file, log.reading.files) == ("part4.csv and 5 more", 6)


def test_archives_are_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = transitions()
    path = write(tmp_path / "log.npz", columns)
    whole = content(read(path))
    monkeypatch.setattr(log_files, "CHUNK", 64)
    assert content(read(path)) == whole
    np.savez_compressed(path, **{**columns, "r": np.where(np.arange(SIZE) == 700, np.nan, columns["r"])})
    with pytest.raises(BadInput, match=r"log\.npz: column 'r': expected a finite number, found nan in data row 701"):
        read(path)


@pytest.mark.parametrize("far", [2**40, 2**31, -1])
def test_far_labels_in_one_file_only(tmp_path: Path, far: int) -> None:
    first = write(tmp_path / "a.parquet", {"s": [1], "t": [far], "r": [1.0], "d": [False]})
    second = write(tmp_path / "b.parquet", {"s": [far], "t": [1], "r": [1.0], "d": [False]})
    log = read([first, second])
    assert log.labels == sorted([1, far])
    assert log.task.counts.tolist() == [[0, 1], [1, 0]]


def test_csv_labels_are_sorted_out_over_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("s,t,r,d\n1.0,02,1,0\n")
    (tmp_path / "b.csv").write_text("s,t,r,d\n2,1,1,0\n")
    typed = write(tmp_path / "c.parquet", {"s": [1, 10], "t": [10, 1], "r": [1, 1], "d": [False, False]})
    log = read([tmp_path / "a.csv", tmp_path / "b.csv", typed])
    assert log.labels == [1, 2, 10]
    assert log.task.counts.tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]
    (tmp_path / "b.csv").write_text("s,t,r,d\nx,1.0,1,0\n02,x,1,0\n")
    assert read([tmp_path / "a.csv", tmp_path / "b.csv"]).labels == ["02", "1.0", "x"]


def refused(logs: object) -> str:
    with pytest.raises(BadInput) as caught:
        read(logs)
    return str(caught.value)


def test_refusals_name_the_file(tmp_path: Path) -> None:
    good = write(tmp_path / "a.parquet", {"s": [1], "t": [1], "r": [1.0], "d": [False]})
    text = write(tmp_path / "b.parquet", {"s": ["x"], "t": ["x"], "r": [1.0], "d": [False]})
    assert refused([good, text]) == (
        "b.parquet: column 's': expected integers as state labels, as in a.parquet, found text"
    )
    loose = tmp_path / "c.csv"
    loose.write_text("s,t,r,d\none,1,1,0\n")
    assert (
        refused([good, loose]) == "c.csv: column 's': expected integers as state labels, as in a.parquet, found 'one'"
    )
    numbers = tmp_path / "b.csv"
    numbers.write_text("s,t,r,d\n1,1,1,0\n1,0.5,1,1\n1,0.5,1,0\n")
    assert refused([good, numbers, loose]).startswith("c.csv: column 's': expected integers")
    assert refused([good, numbers]) == (
        "b.csv: column 't': expected integers or text as state labels, found '0.5' in data row 3"
    )
    away = write(tmp_path / "d.npz", {"s": [1], "t": [7], "r": [1.0], "d": [False]})
    assert refused([good, away]).startswith("d.npz: column 't': expected every successor")
    away.write_bytes(away.read_bytes()[:-9])
    assert refused([good, away]).startswith("d.npz: expected a readable .npz file")
    good.write_bytes(good.read_bytes()[:-9])
    assert refused([good, text]).startswith("a.parquet: expected a readable Parquet file")
    (tmp_path / "logs").mkdir()
    assert "expected a folder with logs" in refused(tmp_path / "logs")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((-1,), "jobs"), ((1, "abacus"), "backend"), ((1, "dask"), "scheduler"), ((1, "loky", "x:1"), "scheduler")],
)
def test_impossible_jobs(arguments: tuple, expected: str) -> None:
    with pytest.raises(BadInput, match=expected):
        Jobs(*arguments)


def test_dask_cluster_of_two_workers(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    columns = transitions()
    files = parts(tmp_path, columns)
    alone = content(read(files))
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, local_directory=str(tmp_path)
    )
    with cluster:
        jobs = Jobs(2, "dask", cluster.scheduler_address)
        assert content(read(files[::-1], jobs)) == alone
        files[1].write_bytes(files[1].read_bytes()[:-9])
        with pytest.raises(BadInput, match=r"part1\.parquet: expected a readable Parquet file"):
            read(files, jobs)


def test_absent_dask_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(log_jobs, "_CONNECTING_SECONDS", 1)
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        with pytest.raises(BadInput, match="expected a Dask scheduler at"):
            read(parts(tmp_path, transitions()), Jobs(2, "dask", address))


@pytest.mark.filterwarnings("ignore:`:UserWarning")
def test_minari_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("h5py")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    environment = minari.DataCollector(gymnasium.make("FrozenLake-v1", is_slippery=False))
    environment.action_space.seed(1)
    pairs: Counter = Counter()
    for episode in range(40):
        state, over = environment.reset(seed=episode)[0], False
        while not over:
            after, _, terminated, truncated, _ = environment.step(environment.action_space.sample())
            pairs[state, None if terminated else after] += 1
            state, over = after, terminated or truncated
    environment.create_dataset(dataset_id="lake/test-v0", algorithm_name="random", author="test", description="test")
    log = read_log(tmp_path / "lake" / "test-v0", "state", "next_state", "reward", "0.9", "done")
    assert log.labels == sorted({state for state, _ in pairs})
    assert (log.rows, log.file) == (sum(pairs.values()), "test-v0")
    assert log.task.terminal_transitions == sum(n for (_, after), n in pairs.items() if after is None)
    for (state, after), times in pairs.items():
        if after is not None:
            assert log.task.counts[log.labels.index(state), log.labels.index(after)] == times
    with pytest.raises(BadInput, match="expected a column named 'speed', found state"):
        read_log(tmp_path / "lake" / "test-v0", "state", "next_state", "speed", "0.9")
