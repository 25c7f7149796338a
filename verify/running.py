"""`verify run` and reports: a folder with results, one file per certificate, and a page to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from constructions.errors import BadInput

from . import __version__, storage, working
from .environment import environment
from .processes import Chosen, Workers
from .report import render_report
from .showing import pictured_document

FORMAT = 1
"""Version of results.json and of the certificate files."""


def run_all(
    chosen: Chosen, out: Path | None, console: Console, *, jobs: int, silent: bool, resume: bool = False
) -> tuple[Path, dict[str, Any], int]:
    """Certify and measure every row into a folder; (folder, results, exit code).

    Each certificate is written when it is decided, `results.json` after every step with `complete` false until the
    end: an interrupted run leaves whole files that say how far it got, and `resume` goes on from there.

    Raises:
        BadInput: nothing to resume, or a run that was begun with other choices.
    """
    options = chosen.options
    folder, results = _reopened(chosen, out) if resume else begin(chosen, out)
    decided = {(document["theorem"], document["claim"]) for document in results["certificates"]}

    def keep() -> None:
        storage.write_json(folder / "results.json", results)

    with (
        Workers(chosen, jobs) as workers,
        working.progress(console, len(workers.claims) + len(workers.rows) + 1, silent) as announce,
    ):
        for certificate in workers.certify(announce, decided):
            claim = certificate.claim
            document = {"format": FORMAT, "seed": options.seed, **certificate.to_json(timed=False)}
            sealed = storage.sealed({**document, "records": certificate.records})
            storage.write_json(folder / "certificates" / f"{claim.theorem}.{claim.name}.json", sealed)
            results["certificates"].append(certificate.to_json())
            keep()
        for theorem, measurements in workers.measure(announce, results["measured"]):
            results["measurements"] += [measurement.to_json() for measurement in measurements]
            results["measured"].append(theorem)
            keep()
        announce("report")
        results["environment"] = environment(options.device)
        results["complete"] = True
        keep()
        theorems = [pictured_document(row, options) for row in workers.rows]
        kinds = ("reproduce", "context", "audit", "mutate")
        page = render_report(results, theorems, *(storage.stored(kind) for kind in kinds))
        storage.write_text(folder / "report.html", page)
        if out is None:
            storage.point_latest(folder)
    return folder, results, working.exit_code(results["certificates"], results["measurements"])


def _choices(chosen: Chosen) -> dict[str, Any]:
    """What a run must have in common with the one that it resumes."""
    options = chosen.options
    return {
        "format": FORMAT,
        "contextproof": __version__,
        "theorems": [row.theorem for row in chosen.rows()],
        "seed": options.seed,
        "quick": options.quick,
        "device": options.device,
        "dtypes": list(options.dtypes),
    }


def begin(chosen: Chosen, out: Path | None) -> tuple[Path, dict[str, Any]]:
    """A folder without certificates, and empty results."""
    folder = storage.new_run_folder(out)
    results = {
        **_choices(chosen),
        "environment": environment(chosen.options.device),
        "complete": False,
        "certificates": [],
        "measured": [],
        "measurements": [],
    }
    storage.write_json(folder / "results.json", results)
    return folder, results


def _reopened(chosen: Chosen, out: Path | None) -> tuple[Path, dict[str, Any]]:
    """The folder given, or that of the newest run that was interrupted, and what it has."""
    folder = out or storage.interrupted_run()
    results = storage.read_json(folder / "results.json", "the results of a run")
    for name, value in _choices(chosen).items():
        if results.get(name) != value:
            raise BadInput(f"{folder}: expected a run with {name} {value} to resume, found {results.get(name)}")
    if results.get("complete") is not False:
        raise BadInput(f"{folder}: expected an interrupted run to resume, found a complete one")
    storage.remove_unfinished(folder)
    return folder, results


def report_context(result: dict[str, Any], name: str, out: Path | None) -> Path:
    """Store a result of `verify context` for later reports, and write it with a report of its own; the folder."""
    storage.store("context", name, result)
    folder = out or storage.RUNS / "context" / name
    storage.write_json(folder / "context.json", result)
    results = {
        "format": FORMAT,
        "contextproof": __version__,
        "seed": result["krylov"]["seed"],
        "quick": False,
        "environment": environment(),
        "complete": True,
        "certificates": [],
        "measurements": [],
    }
    storage.write_text(folder / "report.html", render_report(results, [], [], [result]))
    return folder
