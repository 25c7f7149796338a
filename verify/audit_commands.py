"""The command audit: in which number format does a construction still work, and where does it fail?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from . import display, storage, working
from .application import Device, Ids, Json, Quick, Seed, app, print_json
from .auditing import Request, audit_theorem, replay
from .environment import environment

Many = list[str] | None


@app.command("audit")
def audit_formats(
    ids: Ids = None,
    formats: Annotated[Many, typer.Option("--formats", help="e4m3, bf16, fp32, p12 ..; by commas or repeated.")] = None,
    model: Annotated[Many, typer.Option("--model", help="every, wide, torch; by commas or repeated.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="One of the theorem's tasks, by name.")] = None,
    horizon: Annotated[int | None, typer.Option("--horizon", min=1, help="Rounds T, tokens T or depth L.")] = None,
    tolerance: Annotated[float, typer.Option("--tolerance", help="Relative error that names the stage.")] = 1e-2,
    replayed: Annotated[Path | None, typer.Option("--replay", help="A worst case to run again.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the rows that an interrupted audit made.")] = False,
    device: Device = "cpu",
    quick: Quick = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Error of each construction in each number format, with rigorous bounds; exit code 1 if one is violated."""
    documents: list[dict[str, Any]] = []
    rest: dict[str, Any]
    if replayed is not None:
        row, same = replay(storage.read_json(replayed, "a worst case of an audit"), lambda step: None)
        documents, rest = [row], {"same": same}
    else:
        request = Request(
            tuple(ids or ()), _listed(formats), _listed(model), task, horizon, device, quick, seed, tolerance
        )
        same, rest = True, {"seed": seed}
        with working.progress(Console(stderr=True), None, json) as announce:
            for theorem in request.theorems:
                documents += audit_theorem(theorem, request, announce, resume)
    if json:
        print_json({"audit": documents, **rest, "environment": environment(device)})
    else:
        render(documents, Console())
        if not same:
            Console().print("[bold red]the worst entry came out otherwise than recorded[/]")
    raise typer.Exit(0 if same and all(d["sound"] is not False for d in documents) else working.REFUTED)


def _listed(given: Many) -> tuple[str, ...]:
    return tuple(part for text in given or () for part in text.split(",") if part)


def _bound(value: Any) -> str:
    return "no bound" if value == "inf" else display.figure(value)


def render(documents: list[dict[str, Any]], console: Console) -> None:
    """A table for each theorem, variant and task, and under it what a reader must know of single rows."""
    from numerics.audit import MODEL_TEXT

    short = {text: name for name, text in MODEL_TEXT.items()}
    for theorem, variant, task in dict.fromkeys((d["theorem"], d["variant"], d["task"]) for d in documents):
        console.print(f"[bold]{theorem}[/], {escape(variant)}, on {escape(task)}")
        table = display.table_of("format", "model", "error", "relative", "bits lost", "running", "a priori", "sound")
        below = []
        for d in documents:
            if (d["theorem"], d["variant"], d["task"]) != (theorem, variant, task):
                continue
            model = short[d["model"]] + ("" if d["device"] == "cpu" else f", {d['device']}")
            table.add_row(
                d["format"],
                model,
                display.figure(d["error"]["absolute"]["max"]),
                display.figure(d["error"]["relative"]["max"]),
                f"{d['bits_lost']:g}",
                _bound(d["running_bound"]),
                _bound(d["a_priori"]),
                {True: "[green]yes[/]", False: "[bold red]VIOLATED[/]", None: "no bound"}[d["sound"]],
            )
            if notes := _notes(d):
                below.append(f"[dim]{d['format']}, {model}: {escape('; '.join(notes))}[/]")
        console.print(table)
        for line in below:
            console.print(line)


def _notes(document: dict[str, Any]) -> list[str]:
    notes = [f"{name}: {text} differ" for name, text in document["branches"].items()]
    if document["unbounded"]:
        notes.append(f"{document['unbounded']} of {document['entries']} entries without a running bound")
    if document["stage"]:
        notes.append(f"first off at {document['stage']}")
    return [*notes, *document["flags"]]
