"""`verify run` and reports: a folder with results, one file per certificate, and a page to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from . import __version__, storage, working
from .environment import environment
from .processes import Chosen, Workers
from .report import render_report
from .showing import pictured_document

FORMAT = 1
"""Version of results.json and of the certificate files."""


def run_all(
    chosen: Chosen, out: Path | None, console: Console, *, jobs: int, silent: bool
) -> tuple[Path, dict[str, Any], int]:
    """Certify and measure every row into a folder; (folder, results, exit code).

    Each certificate is written when it is decided, `results.json` after every step with `complete` false until the
    end: an interrupted run leaves whole files that say how far it got.
    """
    options = chosen.options
    folder = storage.new_run_folder(out)
    certificates, measurements = [], []
    results: dict[str, Any] = {
        "format": FORMAT,
        "contextproof": __version__,
        "seed": options.seed,
        "quick": options.quick,
        "environment": environment(options.device),
        "complete": False,
        "certificates": [],
        "measurements": [],
    }
    with (
        Workers(chosen, jobs) as workers,
        working.progress(console, len(workers.claims) + len(workers.rows) + 1, silent) as announce,
    ):
        for certificate in workers.certify(announce):
            certificates.append(certificate)
            results["certificates"].append(certificate.to_json())
            claim = certificate.claim
            document = {"format": FORMAT, "seed": options.seed, **certificate.to_json(timed=False)}
            storage.write_json(folder / "certificates" / f"{claim.theorem}.{claim.name}.json", document)
            storage.write_json(folder / "results.json", results)
        for measurement in workers.measure(announce):
            measurements.append(measurement)
            results["measurements"].append(measurement.to_json())
            storage.write_json(folder / "results.json", results)
        announce("report")
        results["environment"] = environment(options.device)
        results["complete"] = True
        storage.write_json(folder / "results.json", results)
        theorems = [pictured_document(row, options) for row in workers.rows]
        page = render_report(results, theorems, storage.stored("reproduce"), storage.stored("context"))
        storage.write_text(folder / "report.html", page)
        if out is None:
            storage.point_latest(folder)
    return folder, results, working.exit_code(certificates, measurements)


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
