"""The command: documents, exit codes, one sentence for bad input, folders that are whole."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from verify.command_line import main

ROOT = Path(__file__).parents[1]
FROZEN_LAKE = ROOT / "examples" / "frozen_lake.parquet"
COLUMNS = ["--state", "state", "--next-state", "next_state", "--reward", "reward", "--done", "done"]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(capsys, *arguments):
    """(exit code, standard output, standard error) of a command."""
    with pytest.raises(SystemExit) as exit_:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err


def refused(capsys, *arguments):
    """The one sentence with which a command is refused."""
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("verify: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def test_list(capsys):
    code, out, _ = call(capsys, "list", "--json")
    assert code == 0
    assert [row["theorem"] for row in json.loads(out)["theorems"]] == [
        "td.statistics",
        "td.krylov",
        "td.executor",
        "td.full-context",
        "td.dimension",
        "td.memory",
        "td.memory-optimal",
        "td.hessenberg",
        "td.lanczos",
        "td.bits",
        "td.linear-features",
        "td.sample-and-hold",
        "td.anchored",
        "td.midpoint-hold",
        "td.minimax",
        "td.doubling",
        "td.softmax-executor",
        "td.identifiability",
        "td.learnability",
        "td.joint-training",
        "td.policy-class",
        "recurrent.delta-rule",
        "recurrent.rescan",
        "online.weighted-majority",
        "online.hedge",
        "online.fixed-share",
        "online.q-learning",
        "online.sarsa",
        "online.expected-sarsa",
        "online.double-q",
        "online.linear-q",
    ]
    assert "td.executor" in call(capsys, "list")[1]


def test_show(capsys):
    code, out, _ = call(capsys, "show", "td.krylov", "--states", 4, "--depth", 3, "--json")
    document = json.loads(out)
    assert code == 0
    # Width 3n + 5; stage 1 has 2 attention layers, stage 2 has 2 + 2h + (h - 1) with h = 3 rounds and one pass.
    assert (document["width"], document["attention_layers"]) == (3 * 4 + 5, 2 + 2 + 2 * 3 + 2)
    assert document["claims"]
    assert document["assumptions"]
    code, out, _ = call(capsys, "show", "td.executor")
    assert "- E_x' E_x + E_x' E_y" in out


KEYS = {"theorem", "claim", "scope", "assurance", "assumptions", "verdict", "evidence", "seconds"}


def test_certify(capsys):
    code, out, _ = call(capsys, "certify", "td.executor", "--quick", "--json")
    certificates = json.loads(out)["certificates"]
    assert code == 0
    assert all(set(c) >= KEYS for c in certificates)
    assert {c["verdict"] for c in certificates} == {"proved"}


def test_measure(capsys):
    code, out, _ = call(capsys, "measure", "td.statistics", "--quick", "--json", "--dtype", "float32")
    measurements = json.loads(out)["measurements"]
    keys = {"theorem", "task", "arithmetic", "sizes", "error", "reference", "bound", "sound", "seconds"}
    assert code == 0
    assert all(set(m) >= keys for m in measurements)
    assert all(m["sound"] for m in measurements)
    assert not any("float64" in m["arithmetic"] for m in measurements)


def test_run_writes_a_whole_folder(capsys, tmp_path):
    code, out, _ = call(capsys, "run", "td.statistics", "--quick", "--json")
    document = json.loads(out)
    folder = tmp_path / document["folder"]
    assert code == 0
    assert (tmp_path / "runs" / "latest").resolve() == folder.resolve()
    results = json.loads((folder / "results.json").read_text())
    assert results["complete"]
    assert len(list((folder / "certificates").glob("*.json"))) == len(results["certificates"])
    assert "td.statistics" in (folder / "report.html").read_text()
    assert not [p for p in folder.rglob("*") if p.name.startswith(".")]


def test_run_gives_the_same_certificate_bytes(capsys, tmp_path):
    for out in ("a", "b"):
        assert call(capsys, "run", "td.statistics", "--quick", "--out", tmp_path / out)[0] == 0
    first = {p.name: p.read_bytes() for p in (tmp_path / "a" / "certificates").iterdir()}
    assert first == {p.name: p.read_bytes() for p in (tmp_path / "b" / "certificates").iterdir()}


def test_a_module_adds_a_theorem(capsys):
    module = ROOT / "examples" / "least_squares.py"
    code, out, _ = call(capsys, "certify", "--module", module, "--json")
    certificates = json.loads(out)["certificates"]
    assert code == 0
    assert {c["theorem"] for c in certificates} == {"user.least-squares"}
    assert {c["verdict"] for c in certificates} == {"proved"}


BROKEN = """
import importlib.util, sys
from dataclasses import replace
spec = importlib.util.spec_from_file_location("least_squares", {path!r})
m = importlib.util.module_from_spec(spec); sys.modules["least_squares"] = m; spec.loader.exec_module(m)
{change}
ROWS = m.ROWS
"""


@pytest.mark.parametrize(
    ("change", "code", "verdict"),
    [
        # One sign of one head: refuted by both claims.
        ("m.Head = lambda *a, sign=1: __import__('constructions.layers').layers.Head(*a, sign=1)", 1, "refuted"),
        # The claim does not know that the one of the weight token is 1: undecided, exit code 3.
        ("m.identity = __import__('proofs_check.words').words.ones_row", 3, "undecided"),
    ],
)
def test_exit_codes_of_refuted_and_undecided(capsys, tmp_path, change, code, verdict):
    module = tmp_path / "broken.py"
    module.write_text(BROKEN.format(path=str(ROOT / "examples" / "least_squares.py"), change=change))
    found, out, _ = call(capsys, "certify", "--module", module, "--json")
    assert verdict in {c["verdict"] for c in json.loads(out)["certificates"]}
    assert found == code


def test_a_module_whose_proof_breaks_gets_one_sentence(capsys, tmp_path):
    module = tmp_path / "broken.py"
    change = "m.identity = lambda size: m.letter('one', 1, 1)"  # a letter that its points do not know
    module.write_text(BROKEN.format(path=str(ROOT / "examples" / "least_squares.py"), change=change))
    assert "user.least-squares step" in refused(capsys, "certify", "--module", module)


def test_reproduce_is_stored_for_the_report(capsys, tmp_path):
    code, out, _ = call(capsys, "reproduce", "exactness", "--quick", "--json")
    rows = json.loads(out)["reproductions"]
    assert code == 0
    assert all(
        set(row) == {"name", "quantity", "setting", "source", "ours", "agrees", "reason", "seed"} for row in rows
    )
    assert (tmp_path / "runs" / "reproduce" / "exactness.json").is_file()
    call(capsys, "run", "td.statistics", "--quick", "--out", tmp_path / "r")
    assert "exactness" in (tmp_path / "r" / "report.html").read_text()


def test_context_of_the_recorded_log(capsys, tmp_path):
    code, out, _ = call(capsys, "context", FROZEN_LAKE, *COLUMNS, "--discount", "0.99", "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["transitions"], document["states"], document["depth"]) == (100_000, 11, 11)
    assert document["discount"] == "99/100"
    assert document["krylov"]["method"] == "exact in Q"
    report = (tmp_path / "runs" / "context" / "frozen_lake" / "report.html").read_text()
    assert "<svg" in report


def write_csv(path, rows, header="s,t,r,d"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


GOOD = ["0,1,0.5,0", "1,0,1,0", "1,0,1,1"]
CSV = ["--state", "s", "--next-state", "t", "--reward", "r", "--done", "d"]


@pytest.mark.parametrize(
    ("rows", "header", "discount", "expected"),
    [
        (GOOD, "s,t,x,d", "0.9", ["column", "r"]),
        ([*GOOD, "0,1,nan,0"], "s,t,r,d", "0.9", ["r", "nan"]),
        ([*GOOD, "0,1,high,0"], "s,t,r,d", "0.9", ["r", "high"]),
        ([*GOOD, "0,2,1,0"], "s,t,r,d", "0.9", ["2"]),
        (GOOD, "s,t,r,d", "1.0", ["discount", "1.0"]),
        (GOOD, "s,t,r,d", "0", ["discount", "0"]),
        (GOOD, "s,t,r,d", "nan", ["discount", "nan"]),
    ],
    ids=[
        "missing column",
        "NaN reward",
        "text reward",
        "state without start",
        "discount 1",
        "discount 0",
        "discount nan",
    ],
)
def test_bad_logs_get_one_sentence(capsys, tmp_path, rows, header, discount, expected):
    log = write_csv(tmp_path / "log.csv", rows, header)
    sentence = refused(capsys, "context", log, *CSV, "--discount", discount)
    assert all(piece in sentence for piece in expected), sentence
    assert not (tmp_path / "runs").exists()


def test_empty_and_torn_files_get_one_sentence(capsys, tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    assert "empty.csv" in refused(capsys, "context", empty, *CSV, "--discount", "0.9")
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(FROZEN_LAKE.read_bytes()[:20_000])
    assert "torn.parquet" in refused(capsys, "context", torn, *COLUMNS, "--discount", "0.9")
    assert "absent.csv" in refused(capsys, "context", tmp_path / "absent.csv", *CSV, "--discount", "0.9")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["certify", "td.nothing"], "td.nothing"),
        (["frobnicate"], "frobnicate"),
        (["show"], "ID"),
        (["show", "td.executor", "--states", "0"], "states"),
        (["certify", "--seed", "-1"], "seed"),
        (["certify", "--seed", "one"], "seed"),
        (["certify", "--module", "absent.py"], "absent.py"),
        (["reproduce", "nothing"], "nothing"),
        (["measure", "--quick", "--dtype", "float31"], "float31"),
        (["measure", "--quick", "--device", "abacus"], "abacus"),
    ],
)
def test_bad_input_gets_one_sentence(capsys, arguments, expected):
    assert expected in refused(capsys, *arguments)


def test_no_cuda_gets_one_sentence(capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("a CUDA device is there")
    assert "cuda" in refused(capsys, "measure", "--quick", "--device", "cuda")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x = (", "SyntaxError"), ("import nothing_of_that_name", "nothing_of_that_name"), ("ROWS = 3", "ROWS")],
)
def test_bad_modules_get_one_sentence(capsys, tmp_path, text, expected):
    module = tmp_path / "mine.py"
    module.write_text(text)
    assert expected in refused(capsys, "certify", "--module", module)


def test_an_unwritable_folder_gets_one_sentence(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert "file" in refused(capsys, "run", "td.statistics", "--quick", "--out", tmp_path / "file")


def test_a_closed_pipe_is_quiet():
    command = f"{sys.executable} -m verify.command_line show td.krylov --states 30 | head -n 1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_npz_log(capsys, tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, s=np.array([0, 1]), t=np.array([1, 0]), r=np.array([0.5, 1.0]), d=np.array([False, False]))
    code, out, _ = call(capsys, "context", path, *CSV, "--discount", "9/10", "--json")
    assert code == 0
    assert json.loads(out)["krylov"]["dimension"] == 2


def test_several_processes_give_the_same_certificates(capsys):
    documents = []
    for jobs in (1, 2):
        code, out, _ = call(capsys, "certify", "td.executor", "--quick", "--jobs", jobs, "--json")
        assert code == 0
        certificates = json.loads(out)["certificates"]
        documents.append([{key: c[key] for key in c if key != "seconds"} for c in certificates])
    assert documents[0] == documents[1]


def test_a_law_at_a_triple_of_ones_own(capsys):
    code, out, _ = call(capsys, "certify", "td.minimax", "--discount", "9/10", "--m", 12, "--json")
    (certificate,) = json.loads(out)["certificates"]
    assert code == 0
    (triple,) = certificate["evidence"]["first"]
    assert triple["e*"] == "59049/200000"
    assert len(triple["cover ends"]) == len(triple["packing ends"]) == 13
    assert "--m" in refused(capsys, "certify", "td.minimax", "--discount", "9/10")
    assert "discount" in refused(capsys, "certify", "td.minimax", "--discount", "1", "--m", 3)
    assert "registers" in refused(capsys, "certify", "td.minimax", "--discount", "9/10", "--m", -1)
