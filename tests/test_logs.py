"""Reading logs: every convention and every refusal, in all three formats."""

import io
import json
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from constructions.errors import BadInput
from numerics.logs import Log, read_log
from verify.context import analyse_context, context_plot, render_context

NAMES = ("s", "t", "r")
EXAMPLE = Path(__file__).parents[1] / "examples" / "frozen_lake.parquet"


def csv(folder: Path, text: str, name: str = "log.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def parquet(folder: Path, **columns: object) -> Path:
    pl.DataFrame(columns).write_parquet(folder / "log.parquet")
    return folder / "log.parquet"


def npz(folder: Path, **arrays: object) -> Path:
    np.savez(folder / "log.npz", **arrays)  # type: ignore[arg-type]
    return folder / "log.npz"


def read(path: Path, done: str | None = None, discount: object = "0.9") -> Log:
    return read_log(path, *NAMES, discount, done)


def rewards(path: Path) -> list[Fraction]:
    """The rewards of a log in which each state 0, 1, .. starts one transition."""
    log = read(path)
    assert log.labels == list(range(log.rows))
    return log.task.reward_sums


def one_state_each(texts: Sequence[object]) -> str:
    return "s,t,r\n" + "".join(f"{i},{i},{x}\n" for i, x in enumerate(texts))


def refusal(path: Path, done: str | None = None, discount: object = "0.9") -> str:
    with pytest.raises(BadInput) as caught:
        read(path, done, discount)
    sentence = str(caught.value)
    assert "expected" in sentence
    assert "found" in sentence
    assert "\n" not in sentence
    assert caught.value.__cause__ is None
    return sentence


# --- rewards ----------------------------------------------------------------------------------------------------------


def test_csv_decimals_are_exact(tmp_path: Path) -> None:
    texts = ["0.1", "-2.50", "+3", "1e-3", ".5", "7.", " 0.1", "1E2", "0.10"]
    exact = ["1/10", "-5/2", "3", "1/1000", "1/2", "7", "1/10", "100", "1/10"]
    assert rewards(csv(tmp_path, one_state_each(texts))) == [Fraction(x) for x in exact]
    log = read(csv(tmp_path, "s,t,r\n" + "".join(f"0,0,{x}\n" for x in texts)))
    assert log.task.reward_sums == [sum(map(Fraction, exact))]


@pytest.mark.parametrize(
    "text",
    [
        "9223372036854775809",
        "-1e400",
        str(2**90),
        "0." + 40 * "1",
        "-" + 25 * "7" + "." + 25 * "3",
        "4.9e-324",
    ],
)
def test_long_decimals_are_exact(tmp_path: Path, text: str) -> None:
    assert rewards(csv(tmp_path, one_state_each([text, "1"]))) == [Fraction(text), 1]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9), min_size=1))
def test_csv_decimals_round_trip(tmp_path: Path, values: list[Decimal]) -> None:
    assert rewards(csv(tmp_path, one_state_each(values))) == [Fraction(x) for x in values]


def test_binary_floats_stand_for_their_value(tmp_path: Path) -> None:
    narrow = np.array([0.1, 0.2], dtype=np.float32)
    expected = [Fraction(float(x)) for x in narrow]
    assert expected != [Fraction(1, 10), Fraction(1, 5)]
    states = np.arange(2, dtype=np.int8)
    assert rewards(parquet(tmp_path, s=states, t=states, r=narrow)) == expected
    assert rewards(npz(tmp_path, s=states, t=states, r=narrow)) == expected
    for array in (narrow.astype(np.float16), narrow.astype(">f8")):
        assert rewards(npz(tmp_path, s=states, t=states, r=array)) == [Fraction(float(x)) for x in array]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    st.sampled_from([0, 2**40, -5]),
    st.booleans(),
)
def test_float_sums_are_exact(tmp_path: Path, values: list[float], first: int, archive: bool) -> None:
    # Labels that a packed key cannot hold must give the same sums.
    states = [first + i % 3 for i in range(len(values))]
    path = (npz if archive else parquet)(tmp_path, s=states, t=states, r=np.array(values))
    sums: Counter = Counter()
    for s, x in zip(states, values, strict=True):
        sums[s] += Fraction(x)
    log = read(path)
    assert log.labels == sorted(set(states))
    assert log.task.reward_sums == [sums[s] for s in log.labels]


def test_parquet_decimals_and_integers_are_exact(tmp_path: Path) -> None:
    values = [Decimal("0.10"), Decimal("-1.25")]
    assert rewards(parquet(tmp_path, s=[0, 1], t=[0, 1], r=pl.Series(values, dtype=pl.Decimal(10, 2)))) == [
        Fraction(1, 10),
        Fraction(-5, 4),
    ]
    wide = pl.Series([Decimal(10**36), Decimal(1)], dtype=pl.Decimal(38, 1))
    assert rewards(parquet(tmp_path, s=[0, 1], t=[0, 1], r=wide)) == [10**36, 1]
    for kind, large in ((pl.UInt64, 2**64 - 1), (pl.Int64, -(2**63)), (pl.Int128, 2**120), (pl.Int8, -3)):
        column = pl.Series([large, 3], dtype=kind)
        assert rewards(parquet(tmp_path, s=[0, 1], t=[0, 1], r=column)) == [large, 3]


# --- states and flags -------------------------------------------------------------------------------------------------


def test_integer_labels_sort_numerically_and_may_have_gaps(tmp_path: Path) -> None:
    log = read(csv(tmp_path, "s,t,r\n10,2,1\n2,-7,1\n-7,10,1\n"))
    assert log.labels == [-7, 2, 10]
    assert log.task.counts.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert (log.rows, log.file, log.task.n) == (3, "log.csv", 3)


def test_text_labels_sort_lexicographically(tmp_path: Path) -> None:
    log = read(csv(tmp_path, 's,t,r\nten,2,1\n2,"a, b",1\n"a, b",ten,1\n'))
    assert log.labels == ["2", "a, b", "ten"]
    assert log.task.counts.tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


def test_label_types_across_formats(tmp_path: Path) -> None:
    kinds = pl.Series(["b", "a"], dtype=pl.Categorical)
    assert read(parquet(tmp_path, s=kinds, t=["a", "b"], r=[1, 2])).labels == ["a", "b"]
    # Text in a typed file is text, even if it reads like a number.
    assert read(parquet(tmp_path, s=["10", "9"], t=["9", "10"], r=[1, 2])).labels == ["10", "9"]
    # Numbers of different types meet by value; a float column with whole numbers is what a missing value leaves behind.
    mixed = {"s": pl.Series([3, 5], dtype=pl.UInt8), "t": [5.0, 3.0], "r": [1, 2]}
    assert read(parquet(tmp_path, **mixed)).labels == [3, 5]
    assert read(csv(tmp_path, "s,t,r\n1.0,2,1\n2,01,1\n")).labels == [1, 2]
    for array in (np.array(["x", "yy"]), np.array([b"x", b"yy"])):
        assert read(npz(tmp_path, s=array, t=array[::-1], r=np.ones(2))).labels == ["x", "yy"]


@pytest.mark.parametrize(
    "flags", [["true", "false", "FALSE"], ["1", "0", "0"], ["True", "False", " false"], ["1.0", "0.0", "0"]]
)
def test_csv_flags(tmp_path: Path, flags: list[str]) -> None:
    rows = zip([1, 1, 2], [9, 2, 1], flags, strict=True)
    log = read(csv(tmp_path, "s,t,r,d\n" + "".join(f"{s},{t},1,{d}\n" for s, t, d in rows)), "d")
    assert log.task.terminal_transitions == 1
    assert log.labels == [1, 2]
    assert log.task.visits.tolist() == [2, 1]
    assert log.task.counts.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("flags", [[True, False], [1, 0], [1.0, 0.0], ["True", "false"]])
def test_typed_flags(tmp_path: Path, flags: list) -> None:
    for path in (
        parquet(tmp_path, s=[1, 1], t=[5, 1], r=[1, 2], d=flags),
        npz(tmp_path, s=[1, 1], t=[5, 1], r=[1, 2], d=flags),
    ):
        task = read(path, "d").task
        assert (task.terminal_transitions, task.counts.tolist()) == (1, [[1]])


def test_terminal_labels_are_not_looked_at(tmp_path: Path) -> None:
    assert read(csv(tmp_path, "s,t,r,d\n1,,1,1\n1,end,1,1\n1,0.5,1,1\n1,1,1,0\n"), "d").labels == [1]
    log = read(parquet(tmp_path, s=[1, 1], t=[None, 1], r=[1, 2], d=[True, False]), "d")
    assert (log.task.terminal_transitions, log.task.counts.tolist()) == (1, [[1]])
    everything = read(parquet(tmp_path, s=[1, 4], t=pl.Series([None, None]), r=[1, 2], d=[True, True]), "d")
    assert everything.labels == [1, 4]
    assert everything.task.counts.tolist() == [[0, 0], [0, 0]]


def test_discount_is_read_as_written(tmp_path: Path) -> None:
    path = csv(tmp_path, "s,t,r\n0,0,1\n")
    assert read(path, discount="0.9").task.discount == Fraction(9, 10)
    assert read(path, discount="3/4").task.discount == Fraction(3, 4)


def test_progress_and_names(tmp_path: Path) -> None:
    heard: list[str] = []
    path = csv(tmp_path, "\ufeffreward of step,s,t\r\n1,0,0\r\n", "a [1]*.CSV")
    log = read_log(str(path), "s", "t", "reward of step", "0.5", progress=heard.append)
    assert heard[0] == "reading a [1]*.CSV"
    assert log.task.name == log.file == "a [1]*.CSV"


def test_blank_lines_at_the_end_are_no_rows(tmp_path: Path) -> None:
    assert read(csv(tmp_path, "s,t,r\n0,0,1\n\n \n")).rows == 1
    assert "no rows" in refusal(csv(tmp_path, "s,t,r\n\n\n"))
    assert "data row 2" in refusal(csv(tmp_path, "s,t,r\n0,0,1\n\n0,0,1\n"))


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
def test_counts_against_plain_counting(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(7)
    size = 3000
    states = rng.integers(0, 9, size) * 3 - 5
    successors = rng.permutation(states)
    tenths = rng.integers(-20, 20, size)
    done = rng.random(size) < 0.2
    if kind == "csv":
        rows = zip(states, successors, tenths, done, strict=True)
        path = csv(tmp_path, "s,t,r,d\n" + "".join(f"{s},{t},{x}e-1,{d}\n" for s, t, x, d in rows))
        values = [Fraction(int(x), 10) for x in tenths]
    else:
        write = parquet if kind == "parquet" else npz
        path = write(tmp_path, s=states, t=successors, r=tenths / 10, d=done)
        values = [Fraction(float(x)) for x in tenths / 10]
    log = read(path, "d")

    pairs = Counter((s, t) for s, t, d in zip(states.tolist(), successors.tolist(), done, strict=True) if not d)
    visits = Counter(states.tolist())
    sums: Counter = Counter()
    for s, x in zip(states.tolist(), values, strict=True):
        sums[s] += x
    assert log.labels == sorted(visits)
    for i, a in enumerate(log.labels):
        assert log.task.visits[i] == visits[a]
        assert log.task.reward_sums[i] == sums[a]
        for j, b in enumerate(log.labels):
            assert log.task.counts[i, j] == pairs[a, b]


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "folder with logs" in refusal(tmp_path / "folder.csv")
    assert "no file that matches" in refusal(tmp_path / "*.parquet")
    with pytest.raises(BadInput, match="at least one file"):
        read_log([], *NAMES, "0.9")
    assert "'.txt'" in refusal(csv(tmp_path, "s,t,r\n0,0,1\n", "log.txt"))
    assert "found none" in refusal(csv(tmp_path, "s,t,r\n0,0,1\n", "log"))
    for suffix in ("csv", "parquet", "npz"):
        assert "empty file" in refusal(csv(tmp_path, "", f"empty.{suffix}"))
    assert "no rows" in refusal(csv(tmp_path, "s,t,r\n"))
    assert "no rows" in refusal(parquet(tmp_path, s=[], t=[], r=[]))
    assert "no rows" in refusal(npz(tmp_path, s=[], t=[], r=[]))


def test_damaged_files(tmp_path: Path) -> None:
    numbers = np.arange(5000) % 7
    for path in (parquet(tmp_path, s=numbers, t=numbers, r=numbers), npz(tmp_path, s=numbers, t=numbers, r=numbers)):
        whole = path.read_bytes()
        for damaged in (whole[: len(whole) // 2], whole[:-3], whole[:5], b"nonsense" * 20):
            path.write_bytes(damaged)
            assert path.name in refusal(path)
        middle = len(whole) // 2 if path.suffix == ".npz" else 20
        path.write_bytes(whole[:middle] + bytes(x ^ 0x5A for x in whole[middle : middle + 40]) + whole[middle + 40 :])
        assert path.name in refusal(path)
    np.save(tmp_path / "one.npy", numbers)
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    assert "single array" in refusal(tmp_path / "one.npz")
    (tmp_path / "bytes.csv").write_bytes(b"s,t,r\n\xff\xfe,0,1\n")
    assert "CSV" in refusal(tmp_path / "bytes.csv")
    assert "CSV" in refusal(csv(tmp_path, "s,t,r\n0,0,1\n0,0,1,5\n"))


def test_missing_and_repeated_columns(tmp_path: Path) -> None:
    for path in (csv(tmp_path, "s,t,gain\n0,0,1\n"), parquet(tmp_path, s=[0], t=[0], gain=[1])):
        assert "'r', found s, t, gain" in refusal(path)
    assert "'r', found s, t, gain" in refusal(npz(tmp_path, s=[0], t=[0], gain=[1]))
    assert "'d'" in refusal(csv(tmp_path, "s,t,r\n0,0,1\n"), done="d")
    assert "one column named 's', found 2" in refusal(csv(tmp_path, "s,s,t,r\n0,0,0,1\n"))
    with pytest.raises(BadInput, match="different column for each role"):
        read_log(csv(tmp_path, "s,t,r\n0,0,1\n"), "s", "s", "r", "0.9")


@pytest.mark.parametrize(
    "text", ["nan", "inf", "-Infinity", "", "  ", "good", "1,5", "0x10", "1e99999", "1e5000", "1_0", "1/2", ".", "e5"]
)
def test_csv_rewards_that_are_no_numbers(tmp_path: Path, text: str) -> None:
    sentence = refusal(csv(tmp_path, f's,t,r\n0,0,1\n0,0,"{text}"\n'))
    assert "log.csv: column 'r'" in sentence
    assert "data row 2" in sentence
    assert "0,0,1\n0,0" not in sentence


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_float_rewards_that_are_not_finite(tmp_path: Path, value: float) -> None:
    rewards = np.array([1.0, 2.0, value])
    zeros = np.zeros(3, dtype=int)
    for path in (parquet(tmp_path, s=zeros, t=zeros, r=rewards), npz(tmp_path, s=zeros, t=zeros, r=rewards)):
        assert "data row 3" in refusal(path)


def test_typed_rewards_that_are_no_numbers(tmp_path: Path) -> None:
    assert "found nothing in data row 2" in refusal(parquet(tmp_path, s=[0, 0], t=[0, 0], r=[1.0, None]))
    assert "found text" in refusal(parquet(tmp_path, s=[0, 0], t=[0, 0], r=["1", "2"]))
    assert "found text" in refusal(npz(tmp_path, s=[0, 0], t=[0, 0], r=["1", "2"]))
    assert "found boolean" in refusal(npz(tmp_path, s=[0, 0], t=[0, 0], r=[True, False]))
    assert "complex" in refusal(npz(tmp_path, s=[0, 0], t=[0, 0], r=[1j, 0]))


def test_arrays_that_do_not_fit(tmp_path: Path) -> None:
    objects = np.array([Fraction(1, 2), None], dtype=object)
    assert "array 'r': expected plain numbers or text, found pickled" in refusal(
        npz(tmp_path, s=[0, 0], t=[0, 0], r=objects)
    )
    assert "'s' 2, 't' 3, 'r' 2" in refusal(npz(tmp_path, s=[0, 0], t=[0, 0, 0], r=[1, 1]))
    assert "shape (2, 1)" in refusal(npz(tmp_path, s=[0, 0], t=[0, 0], r=[[1], [1]]))
    assert "shape ()" in refusal(npz(tmp_path, s=0, t=0, r=1))


def test_states_that_are_no_labels(tmp_path: Path) -> None:
    assert "column 's': expected a state label, found nothing in data row 2" in refusal(
        csv(tmp_path, "s,t,r\n0,0,1\n,0,1\n")
    )
    assert "column 't': expected a state label" in refusal(parquet(tmp_path, s=[0, 0], t=[0, None], r=[1, 1]))
    for path in (
        parquet(tmp_path, s=[0.0, 0.5], t=[0.0, 0.0], r=[1, 1]),
        npz(tmp_path, s=[0.0, 0.5], t=[0.0, 0.0], r=[1, 1]),
        csv(tmp_path, "s,t,r\n0,0,1\n0.5,0,1\n"),
    ):
        assert "integers or text as state labels, found" in refusal(path)
    # The row named is one whose label counts: in row 2 the successor is terminal.
    assert "data row 3" in refusal(parquet(tmp_path, s=[0, 0, 0], t=[0.0, 0.5, 0.5], r=[1, 1, 1], d=[0, 1, 0]), "d")
    assert "data row 2" in refusal(npz(tmp_path, s=[0.0, np.nan], t=[0, 0], r=[1, 1]))
    assert "found boolean" in refusal(parquet(tmp_path, s=[True, True], t=[True, True], r=[1, 1]))
    assert "column 't': expected integers" in refusal(parquet(tmp_path, s=[1, 2], t=["1", "2"], r=[1, 1]))


def test_successors_without_a_row(tmp_path: Path) -> None:
    sentence = refusal(csv(tmp_path, "s,t,r\n1,2,1\n2,7,1\n2,5,1\n"))
    assert "column 't'" in sentence
    assert "found 5 (and 1 more)" in sentence
    assert "found 'exit'," in refusal(csv(tmp_path, "s,t,r\na,exit,1\na,a,1\n"))
    assert "found 7," in refusal(csv(tmp_path, "s,t,r,d\n1,7,1,1\n1,7,1,0\n"), "d")


@pytest.mark.parametrize("flag", ["2", "yes", "", "-1"])
def test_flags_that_are_none(tmp_path: Path, flag: str) -> None:
    sentence = refusal(csv(tmp_path, f"s,t,r,d\n0,0,1,0\n0,0,1,{flag}\n"), "d")
    assert "column 'd': expected true/false or 0/1" in sentence
    assert "data row 2" in sentence


def test_typed_flags_that_are_none(tmp_path: Path) -> None:
    assert "found nothing" in refusal(parquet(tmp_path, s=[0, 0], t=[0, 0], r=[1, 1], d=[True, None]), "d")
    assert "found 2" in refusal(npz(tmp_path, s=[0, 0], t=[0, 0], r=[1, 1], d=[2, 0]), "d")


@pytest.mark.parametrize("discount", ["0", "1", "-0.5", "nan", "inf", "x", None, "1/0", 1.5])
def test_bad_discounts(tmp_path: Path, discount: object) -> None:
    assert "discount" in refusal(csv(tmp_path, "s,t,r\n0,0,1\n"), discount=discount)


# --- a recorded log, end to end ---------------------------------------------------------------------------------------


def test_frozen_lake() -> None:
    log = read_log(EXAMPLE, "state", "next_state", "reward", "0.9", "done")
    assert log.labels == [0, 1, 2, 3, 4, 6, 8, 9, 10, 13, 14]  # the goal and the holes start no transition
    assert (log.rows, log.task.terminal_transitions) == (100_000, 12_840)
    # Only the step onto the goal pays, and only state 14 is beside it.
    assert np.flatnonzero(log.task.reward_sums).tolist() == [10]

    result = analyse_context(log, 30, 0)
    assert json.loads(json.dumps(result)) == result
    assert (result["krylov"]["dimension"], result["krylov"]["method"]) == (11, "exact in Q")
    assert result["errors"]["projection_relative"][11] < 1e-14 < result["errors"]["projection_relative"][10]
    assert result["registers"]["context"] == {"registers": 253, "kib_float32": 253 / 256}
    plot = context_plot(result)
    assert plot == context_plot(result)
    assert ElementTree.fromstring(plot).tag.endswith("svg")
    shown = io.StringIO()
    render_context(result, Console(file=shown, width=100))
    text = shown.getvalue()
    assert "exact in Q" in text
    assert "143" in text


def test_context_of_a_log_without_reward(tmp_path: Path) -> None:
    result = analyse_context(read(csv(tmp_path, "s,t,r\n0,1,1\n1,0,0\n0,1,-1\n")), 5, 0)
    assert result["krylov"]["dimension"] == 0
    assert result["errors"]["projection"] == [0.0]
    assert context_plot(result).startswith("<svg")
