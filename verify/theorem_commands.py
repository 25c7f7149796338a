"""Commands on theorems: list, show, certify, measure, run, reproduce."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer
from rich.console import Console

from . import display, storage, working
from .application import Device, Dtypes, Ids, Jobs, Json, Module, Out, Quick, Seed, app, options_of, print_json
from .catalogue import CATALOGUE, chosen_rows
from .environment import environment
from .processes import Chosen, Workers
from .reproductions import chosen_reproductions
from .showing import shown_document


@app.command("list")
def list_theorems(json: Json = False, seed: Seed = 0) -> None:
    """The theorems of the catalogue."""
    rows = list(CATALOGUE.values())
    if json:
        print_json({"theorems": [{"theorem": r.theorem, "title": r.title, "source": r.source} for r in rows]})
    else:
        display.print_rows(rows, Console())


@app.command()
def show(
    theorem: Annotated[str, typer.Argument(metavar="ID", help="Theorem id.")],
    states: Annotated[int, typer.Option("--states", min=1, help="Number of states n.")] = 3,
    depth: Annotated[int, typer.Option("--depth", min=1, help="Depth L.")] = 3,
    actions: Annotated[
        int | None, typer.Option("--actions", min=1, help="Number of actions, where it has any.")
    ] = None,
    module: Module = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Layout, heads by block, claims, assumptions and task class of one theorem."""
    (row,) = chosen_rows([theorem], module)
    document = shown_document(row, states, depth, options_of(False, seed), actions)
    if json:
        print_json(document)
    else:
        display.print_shown(document, Console())


@app.command()
def certify(
    ids: Ids = None,
    quick: Quick = False,
    module: Module = None,
    jobs: Jobs = 0,
    json: Json = False,
    seed: Seed = 0,
    discount: Annotated[str | None, typer.Option("--discount", help="g, for a law such as td.minimax.")] = None,
    m: Annotated[int | None, typer.Option("--m", help="Context size, for a law such as td.minimax.")] = None,
    depth: Annotated[int | None, typer.Option("--depth", help="L of such a law; infinite if not given.")] = None,
) -> None:
    """Decide every claim of the theorems: proved, refuted or undecided."""
    options = dataclasses.replace(options_of(quick, seed), discount=discount, m=m, depth=depth)
    chosen = Chosen(tuple(ids or ()), module, options)
    with (
        Workers(chosen, jobs) as workers,
        working.progress(Console(stderr=True), len(workers.claims), json) as announce,
    ):
        certificates = list(workers.certify(announce))
    documents = [certificate.to_json() for certificate in certificates]
    if json:
        print_json({"certificates": documents, "seed": seed, "environment": environment()})
    else:
        display.print_certificates(documents, Console())
    raise typer.Exit(working.exit_code(documents))


@app.command()
def measure(
    ids: Ids = None,
    quick: Quick = False,
    module: Module = None,
    device: Device = "cpu",
    dtype: Dtypes = None,
    jobs: Jobs = 0,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Run the theorems' programs in each arithmetic and measure the error against exact values."""
    chosen = Chosen(tuple(ids or ()), module, options_of(quick, seed, device, dtype))
    with (
        Workers(chosen, jobs) as workers,
        working.progress(Console(stderr=True), len(workers.rows), json) as announce,
    ):
        documents = [m.to_json() for _, measurements in workers.measure(announce) for m in measurements]
    if json:
        print_json({"measurements": documents, "seed": seed, "environment": environment(device)})
    else:
        display.print_measurements(documents, Console())
    raise typer.Exit(working.exit_code((), documents))


@app.command()
def run(
    ids: Ids = None,
    quick: Quick = False,
    module: Module = None,
    out: Out = None,
    device: Device = "cpu",
    dtype: Dtypes = None,
    jobs: Jobs = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run at --out, or the newest cut short.")
    ] = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Certify and measure, and write a folder: results.json, certificates/*.json, report.html."""
    from .running import run_all

    chosen = Chosen(tuple(ids or ()), module, options_of(quick, seed, device, dtype))
    folder, results, code = run_all(chosen, out, Console(stderr=True), jobs=jobs, silent=json, resume=resume)
    if json:
        print_json({**results, "folder": str(folder)})
    else:
        console = Console()
        display.print_certificates(results["certificates"], console)
        display.print_measurements(results["measurements"], console)
        console.print(f"written to {folder}: results.json, certificates/, report.html", soft_wrap=True)
    raise typer.Exit(code)


@app.command()
def reproduce(
    names: Annotated[list[str], typer.Argument(metavar="NAME..", help="Reproductions, such as exactness.")],
    quick: Quick = False,
    device: Device = "cpu",
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """The source's figures beside ours, with a reason where they differ; stored for the next report."""
    chosen, options = chosen_reproductions(names), options_of(quick, seed, device)
    rows: list[dict[str, Any]] = []
    with working.progress(Console(stderr=True), len(chosen), json) as announce:
        for name, found in working.reproduce(chosen, options, announce):
            rows += found
            storage.store("reproduce", name, {"quick": quick, "environment": environment(device), "rows": found})
    if json:
        print_json({"reproductions": rows, "environment": environment(device)})
    else:
        display.print_reproductions(rows, Console())
