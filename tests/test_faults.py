"""Faults: a run killed at any moment leaves whole files and resumes; full disks, read-only folders, damaged files."""

import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
from rich.console import Console

from constructions.errors import BadInput
from verify import processes, running, storage
from verify.command_line import main
from verify.processes import Chosen
from verify.row import Options

CHOSEN = Chosen(("td.statistics", "td.memory"), None, Options(quick=True, dtypes=("float64",)))
FORK = multiprocessing.get_context("fork")


def run(out, resume):
    running.run_all(CHOSEN, out, Console(file=open(os.devnull, "w"), stderr=False), jobs=1, silent=True, resume=resume)  # noqa: SIM115


def whole_files(folder):
    """Every JSON file of a run, each of which must be whole."""
    return {path.relative_to(folder): json.loads(path.read_text()) for path in folder.rglob("[!.]*.json")}


def without_seconds(files):
    kept = {name: document for name, document in files.items() if name.name != "results.json"}
    (results,) = [document for name, document in files.items() if name.name == "results.json"]
    for part in ("certificates", "measurements"):
        results[part] = [{key: x for key, x in line.items() if key != "seconds"} for line in results[part]]
    return kept, results


def test_twenty_kills_lose_nothing(tmp_path):
    """Killed at random moments until it comes to its end: what was decided stays, and the end is that of a calm run."""
    calm, struck = tmp_path / "calm", tmp_path / "struck"
    start = time.perf_counter()
    run(calm, resume=False)
    usual = time.perf_counter() - start
    rng = random.Random(0)
    kills, known, resume = 0, {}, False
    while kills < 20:
        child = FORK.Process(target=run, args=(struck, resume))
        child.start()
        child.join(usual * rng.uniform(0.02, 0.4))
        if child.is_alive():
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            kills += 1
        files = whole_files(struck)
        resume = any(name.name == "results.json" for name in files)
        certificates = {name: document for name, document in files.items() if "digest" in document}
        assert known.items() <= certificates.items()
        known = certificates
        if resume and json.loads((struck / "results.json").read_text())["complete"]:
            for left in struck.rglob("*.json"):
                left.unlink()
            known, resume = {}, False
    run(struck, resume)
    assert without_seconds(whole_files(struck)) == without_seconds(whole_files(calm))
    assert not list(struck.rglob(".*.json.*"))


def working(path):
    processes._start(CHOSEN)
    path.write_text(str(os.getpid()))
    time.sleep(60)


def commanding(path):
    worker = FORK.Process(target=working, args=(path,))
    worker.start()
    worker.join()


def ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes by /proc")
def test_a_worker_ends_with_the_command_that_started_it(tmp_path):
    path = tmp_path / "pid"
    command = FORK.Process(target=commanding, args=(path,))
    command.start()
    until = time.monotonic() + 30
    while time.monotonic() < until and not (path.exists() and path.read_text()):
        time.sleep(0.05)
    worker = int(path.read_text())
    assert not ended(worker)
    os.kill(command.pid, signal.SIGKILL)
    command.join()
    while time.monotonic() < until and not ended(worker):
        time.sleep(0.05)
    assert ended(worker)


def begun(folder, **changes):
    """A run that was begun, with these entries of its results."""
    folder, results = running.begin(CHOSEN, folder)
    storage.write_json(folder / "results.json", {**results, **changes})


def test_a_run_is_resumed_only_as_it_was_begun(tmp_path):
    begun(tmp_path / "run", seed=1)
    with pytest.raises(BadInput, match="seed 0 to resume, found 1"):
        run(tmp_path / "run", resume=True)
    begun(tmp_path / "run", complete=True)
    with pytest.raises(BadInput, match="found a complete one"):
        run(tmp_path / "run", resume=True)
    with pytest.raises(BadInput, match=r"expected the results of a run, found a file that cannot be read"):
        run(tmp_path / "nothing", resume=True)


def test_nothing_to_resume(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["run", "td.memory", "--quick", "--resume"])
    assert caught.value.code == 2
    assert "expected an interrupted run to resume, found none" in capsys.readouterr().err


@pytest.mark.parametrize("text", ['{"format": 1, "comp', "[]", ""])
def test_damaged_results_are_refused_by_name(tmp_path, text):
    begun(tmp_path)
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(BadInput, match=r"results\.json: expected the results of a run"):
        run(tmp_path, resume=True)


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "kept.json"
    storage.write_json(path, {"old": True})

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match="No space left on device"):
        storage.write_json(path, {"new": True})
    assert json.loads(path.read_text()) == {"old": True}
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as caught:
        main(["run", "td.memory", "--quick", "--out", str(tmp_path / "file" / "below")])
    error = capsys.readouterr().err
    assert caught.value.code == 2
    assert error.count("\n") == 1
    assert "Traceback" not in error
