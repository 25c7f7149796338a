"""Commands that doubt the certificates: mutate, recheck, export-proof."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from constructions.errors import BadInput

from . import display, working
from .application import Ids, Jobs, Json, Module, Seed, app, options_of, print_json
from .catalogue import chosen_rows
from .environment import environment
from .processes import Chosen, Workers


@app.command()
def mutate(
    ids: Ids = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Changes judged of each theorem.")] = 25,
    full: Annotated[bool, typer.Option("--full", help="Judge every change; this takes long.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from what such a command has judged.")] = False,
    module: Module = None,
    jobs: Jobs = 0,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Change the built objects in one place each, drop hypotheses, and see what the certificates say."""
    from .mutating import tally

    chosen = Chosen(tuple(ids or ()), module, options_of(not full, seed))
    with (
        Workers(chosen, jobs) as workers,
        working.progress(Console(stderr=True), len(workers.rows), json) as announce,
    ):
        judged = list(workers.mutate(None if full else count, announce, resume))
    theorems = [
        {"theorem": theorem, **tally([j for j in judged if j.theorem == theorem])}
        for theorem in dict.fromkeys(j.theorem for j in judged)
    ]
    unrefuted = [dataclasses.asdict(j) for j in judged if j.outcome != "refuted"]
    total = tally(judged)
    if json:
        document = {"mutants": total, "theorems": theorems, "not refuted": unrefuted}
        print_json({**document, "seed": seed, "environment": environment()})
    else:
        display.print_mutants(theorems, unrefuted, Console())
    if total["survived"]:
        raise typer.Exit(working.REFUTED)
    raise typer.Exit(working.UNDECIDED if total["undecided"] else 0)


@app.command()
def recheck(
    path: Annotated[Path, typer.Argument(metavar="FILE_OR_FOLDER", help="A certificate, or the folder of a run.")],
    json: Json = False,
) -> None:
    """Check certificate files again, with the standard library only; exit code 1 if one is refused."""
    from .recheck import recheck as check_again

    try:
        lines = check_again(path)
    except FileNotFoundError:
        raise BadInput(f"{path}: expected a certificate file or a folder of them, found none") from None
    if json:
        print_json({"recheck": lines})
    else:
        display.print_rechecked(lines, Console())
    raise typer.Exit(working.REFUTED if any(line["refused"] for line in lines) else 0)


@app.command()
def export_proof(
    theorem: Annotated[str, typer.Argument(metavar="ID", help="Theorem id.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder to write.")],
    module: Module = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Write Coq sources of the claims that hold at every size, for its kernel to check."""
    from .export_proof import export_proof as export

    (row,) = chosen_rows([theorem], module)
    document = export(row, options_of(False, seed), to)
    if json:
        print_json(document)
    else:
        display.print_exported(document, Console())
