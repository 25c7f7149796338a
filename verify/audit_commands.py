"""The command audit: in which number format does a construction still work, and where does it fail?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from . import display, storage, working
from .application import Device, Ids, Json, Quick, Seed, app, print_json
from .auditing import Request, audit, replay, replay_document, worst_rows
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
    device: Device = "cpu",
    quick: Quick = False,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Error of each construction in each number format, with rigorous bounds; exit code 1 if one is violated."""
    documents: list[dict[str, Any]]
    rest: dict[str, Any]
    if replayed is not None:
        row, same = replay(storage.read_json(replayed, "a worst case of an audit"), lambda step: None)
        documents, rest = [row.to_json()], {"same": same}
    else:
        request = Request(
            tuple(ids or ()), _listed(formats), _listed(model), task, horizon, device, quick, seed, tolerance
        )
        documents, same, rest = [], True, {"seed": seed}
        with working.progress(Console(stderr=True), None, json) as announce:
            for theorem in request.theorems:
                rows = list(audit(dataclasses.replace(request, ids=(theorem,)), announce))
                own = [row.to_json() for row in rows]
                documents += own
                # Stored theorem by theorem: what a long run has done is kept if it is cut short.
                storage.store("audit", theorem, {"quick": quick, "seed": seed, "rows": own})
                for row in worst_rows(rows):
                    name = f"{theorem}-{row.setting.format}-{row.setting.model}"
                    storage.write_json(storage.RUNS / "audit" / "worst" / f"{name}.json", replay_document(request, row))
    if json:
        print_json({"audit": documents, **rest, "environment": environment(device)})
    else:
        render(documents, Console())
        if not same:
            Console().print("[bold red]the worst entry came out otherwise than recorded[/]")
    raise typer.Exit(0 if same and all(d["sound"] for d in documents) else working.REFUTED)


def _listed(given: Many) -> tuple[str, ...]:
    return tuple(part for text in given or () for part in text.split(",") if part)


def render(documents: list[dict[str, Any]], console: Console) -> None:
    """A table for each theorem, variant and task."""
    for theorem, variant, task in dict.fromkeys((d["theorem"], d["variant"], d["task"]) for d in documents):
        console.print(f"[bold]{theorem}[/], {escape(variant)}, on {escape(task)}")
        table = display.table_of("format", "MODEL", "error", "relative", "bits lost", "running", "a priori", "sound")
        for d in documents:
            if (d["theorem"], d["variant"], d["task"]) != (theorem, variant, task):
                continue
            notes = [f"{name}: {text} differ" for name, text in d["branches"].items()]
            notes += [f"first off at {d['stage']}"] if d["stage"] else []
            below = escape("; ".join([*notes, *d["flags"]]))
            device = "" if d["device"] == "cpu" else f", {d['device']}"
            table.add_row(
                d["format"],
                f"{d['model']}{device}\n[dim]{below}[/]" if below else f"{d['model']}{device}",
                display.figure(d["error"]["absolute"]["max"]),
                display.figure(d["error"]["relative"]["max"]),
                f"{d['bits_lost']:g}",
                display.figure(d["running_bound"]),
                display.figure(d["a_priori"]),
                "[green]yes[/]" if d["sound"] else "[bold red]VIOLATED[/]",
            )
        console.print(table)
