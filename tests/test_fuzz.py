"""Whatever a user hands in, a reader or a constructor answers, or refuses in one sentence: no other error, no hang."""

import json
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.layout import Layout
from constructions.temporal_difference import (
    doubling,
    executor,
    hessenberg,
    krylov,
    lanczos,
    linear_features,
    memory_optimal,
    minimax,
    sample_and_hold,
    statistics,
)
from constructions.tokens import Span
from numerics.logs import read_log
from verify import recheck, storage
from verify.collide import read_encoder

SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
COLUMNS = ("s", "t", "r", "d")


def one_sentence(error):
    text = str(error.value if hasattr(error, "value") else error)
    assert text
    assert "\n" not in text
    assert "Traceback" not in text


def answers_or_refuses(call):
    try:
        call()
    except BadInput as error:
        one_sentence(error)


@SETTINGS
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".csv", ".parquet", ".npz", ".txt", ""]))
def test_logs_of_any_bytes(tmp_path, content, suffix):
    path = tmp_path / f"log{suffix}"
    path.write_bytes(content)
    answers_or_refuses(lambda: read_log([str(path)], "s", "t", "r", "9/10", "d"))


CELL = st.sampled_from(
    ["0", "1", "2", "-1", "1.5", "", "nan", "inf", "a", "true", "1e400", "0x1", '"', "999999999999999999999"]
)


@SETTINGS
@given(rows=st.lists(st.lists(CELL, min_size=3, max_size=5), max_size=5), header=st.permutations(COLUMNS))
def test_tables_of_any_cells(tmp_path, rows, header):
    path = tmp_path / "log.csv"
    path.write_text("\n".join([",".join(header), *(",".join(row) for row in rows)]))
    answers_or_refuses(lambda: read_log([str(path)], "s", "t", "r", "9/10", "d"))


ARRAY = st.sampled_from(
    [
        np.array([0, 1]),
        np.array([1.0, np.nan]),
        np.array([[0.5, 1.0], [1.0, 0.0]]),
        np.array([]),
        np.array(3),
        np.array(["a", "b"]),
        np.array([1 + 2j, 0]),
        np.array([True, False]),
        np.array([2**62, -(2**62)]),
        np.zeros((2, 0)),
    ]
)


@SETTINGS
@given(arrays=st.dictionaries(st.sampled_from([*COLUMNS, "keys", "rates", "gates", "blocks", "inputs"]), ARRAY))
def test_archives_of_any_arrays(tmp_path, arrays):
    path = tmp_path / "arrays.npz"
    np.savez(path, **arrays)
    answers_or_refuses(lambda: read_log([str(path)], "s", "t", "r", "9/10", None))
    answers_or_refuses(lambda: read_encoder(path))


class Evil:
    def __reduce__(self):
        return pytest.fail, ("a pickle of a user's file was opened",)


def test_pickles_are_never_opened(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, keys=np.array([Evil()]), rates=np.array([Evil()]), gates=np.array([1.0]), s=np.array([Evil()]))
    for read in (lambda: read_encoder(path), lambda: read_log([str(path)], "s", "s", "s", "9/10", None)):
        with pytest.raises(BadInput) as error:
            read()
        one_sentence(error)


def test_archives_that_are_not_arrays(tmp_path):
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("keys.npy", b"not an array")
        archive.writestr("../rates.npy", b"")
    with pytest.raises(BadInput) as error:
        read_encoder(path)
    one_sentence(error)


@SETTINGS
@given(document=JSON, kind=st.sampled_from(sorted(recheck.KINDS)), record=st.dictionaries(st.text(max_size=8), JSON))
def test_certificates_of_any_json(document, kind, record):
    with pytest.raises(recheck.Refused):
        recheck.check_document(document)
    whole = {"format": 1, "verdict": "proved", "records": [{**record, "kind": kind}]}
    with pytest.raises(recheck.Refused):
        recheck.check_document({**whole, "digest": recheck.digest(whole)})


@SETTINGS
@given(content=st.binary(max_size=60) | JSON.map(lambda x: json.dumps(x).encode()))
def test_stored_files_of_any_bytes(tmp_path, content):
    path = tmp_path / "results.json"
    path.write_bytes(content)
    answers_or_refuses(lambda: storage.read_json(path, "the results of a run"))
    (line,) = recheck.recheck(path)
    assert line["refused"]


SIZE = st.sampled_from([0, 1, 2, 3, -1, True, 2.5, "3", None, float("nan"), [2]])
BUILDERS = {
    "statistics": lambda n, depth: statistics.construction(n),
    "krylov": krylov.construction,
    "narrow": lambda n, depth: krylov.construction(n, depth, narrow=True),
    "executor": executor.construction,
    "executor of a context": executor.from_context,
    "memory-optimal": memory_optimal.construction,
    "hessenberg": hessenberg.construction,
    "lanczos": lanczos.construction,
    "linear-features": linear_features.construction,
    "doubling": doubling.construction,
    "sample-and-hold": lambda n, depth: sample_and_hold.construction(n, depth, [1]),
    "passes": lambda n, depth: krylov.construction(2, 2, passes=n, rounds=depth),
    "depths": lambda n, depth: sample_and_hold.construction(2, 3, [n, depth]),
    "span": lambda n, depth: Span("slot", n, depth),
    "layout": lambda n, depth: Layout(x=n, y=depth),
    "law": lambda n, depth: minimax.law("9/10", n, depth),
}


@pytest.mark.parametrize("name", BUILDERS)
@SETTINGS
@given(n=SIZE, depth=SIZE)
def test_constructors_of_any_sizes(name, n, depth):
    answers_or_refuses(lambda: BUILDERS[name](n, depth))


@pytest.mark.parametrize("build", [executor.from_context, memory_optimal.from_context, hessenberg.from_context])
def test_huge_sizes_cost_nothing_until_they_run(build):
    """Weights are names and routes: a million states are no more work to write down than three."""
    assert build(10**6, 3).program.width > 10**6
