"""The command `verify`: list, show, certify, measure, run, reproduce, context.

Each takes `--json` (one document on standard output and nothing else) and `--seed`. Exit code 0: all proved and sound;
1: something refuted or violated; 2: bad input, said in one sentence; 3: something undecided.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from constructions.errors import BadInput

from . import display, storage, working
from .catalogue import CATALOGUE, chosen_reproductions, chosen_rows
from .environment import environment
from .processes import Chosen, Workers
from .row import Options
from .showing import shown_document

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Certify explicit in-context-learning constructions, measure them in every number format, and report.",
)

Ids = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]..", help="Theorem ids, such as td.executor; all if none.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every random draw.")]
Quick = Annotated[bool, typer.Option("--quick", help="The quick profile: smaller instances, fewer tasks.")]
Jobs = Annotated[int, typer.Option("--jobs", min=0, help="Processes at work; 0: one a processor, one if quick.")]
Device = Annotated[str, typer.Option("--device", help="torch device of float runs: cpu, cuda.")]
Dtypes = Annotated[
    list[str] | None, typer.Option("--dtype", help="torch number format of float runs; may be repeated.")
]
Module = Annotated[
    Path | None, typer.Option("--module", help="A Python file whose list ROWS adds theorems of your own.")
]
Out = Annotated[Path | None, typer.Option("--out", help="The folder to write; else a new one under runs/.")]


def _options(quick: bool, seed: int, device: str = "cpu", dtypes: Sequence[str] | None = None) -> Options:
    if device != "cpu" or dtypes:
        from numerics.torch_arithmetic import TorchArithmetic

        for dtype in dtypes or ["float64"]:
            TorchArithmetic(dtype, device)  # refuses an unknown format and an absent device
    return Options(quick, seed, device, tuple(dtypes) if dtypes else Options.dtypes)


def _print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(storage.to_json(document))


@app.command("list")
def list_theorems(json: Json = False, seed: Seed = 0) -> None:
    """The theorems of the catalogue."""
    rows = list(CATALOGUE.values())
    if json:
        _print_json({"theorems": [{"theorem": r.theorem, "title": r.title, "source": r.source} for r in rows]})
    else:
        display.print_rows(rows, Console())


@app.command()
def show(
    theorem: Annotated[str, typer.Argument(metavar="ID", help="Theorem id.")],
    states: Annotated[int, typer.Option("--states", min=1, help="Number of states n.")] = 3,
    depth: Annotated[int, typer.Option("--depth", min=1, help="Depth L.")] = 3,
    module: Module = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Layout, heads by block, claims, assumptions and task class of one theorem."""
    (row,) = chosen_rows([theorem], module)
    document = shown_document(row, states, depth, _options(False, seed))
    if json:
        _print_json(document)
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
    options = dataclasses.replace(_options(quick, seed), discount=discount, m=m, depth=depth)
    chosen = Chosen(tuple(ids or ()), module, options)
    with (
        Workers(chosen, jobs) as workers,
        working.progress(Console(stderr=True), len(workers.claims), json) as announce,
    ):
        certificates = list(workers.certify(announce))
    documents = [certificate.to_json() for certificate in certificates]
    if json:
        _print_json({"certificates": documents, "seed": seed, "environment": environment()})
    else:
        display.print_certificates(documents, Console())
    raise typer.Exit(working.exit_code(certificates))


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
    chosen = Chosen(tuple(ids or ()), module, _options(quick, seed, device, dtype))
    with (
        Workers(chosen, jobs) as workers,
        working.progress(Console(stderr=True), len(workers.rows), json) as announce,
    ):
        measurements = list(workers.measure(announce))
    documents = [measurement.to_json() for measurement in measurements]
    if json:
        _print_json({"measurements": documents, "seed": seed, "environment": environment(device)})
    else:
        display.print_measurements(documents, Console())
    raise typer.Exit(working.exit_code((), measurements))


@app.command()
def run(
    ids: Ids = None,
    quick: Quick = False,
    module: Module = None,
    out: Out = None,
    device: Device = "cpu",
    dtype: Dtypes = None,
    jobs: Jobs = 0,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Certify and measure, and write a folder: results.json, certificates/*.json, report.html."""
    from .running import run_all

    chosen = Chosen(tuple(ids or ()), module, _options(quick, seed, device, dtype))
    folder, results, code = run_all(chosen, out, Console(stderr=True), jobs=jobs, silent=json)
    if json:
        _print_json({**results, "folder": str(folder)})
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
    chosen, options = chosen_reproductions(names), _options(quick, seed, device)
    rows: list[dict[str, Any]] = []
    with working.progress(Console(stderr=True), len(chosen), json) as announce:
        for name, found in working.reproduce(chosen, options, announce):
            rows += found
            storage.store("reproduce", name, {"quick": quick, "environment": environment(device), "rows": found})
    if json:
        _print_json({"reproductions": rows, "environment": environment(device)})
    else:
        display.print_reproductions(rows, Console())


@app.command()
def context(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="CSV, Parquet or npz file, one transition a row.")],
    state: Annotated[str, typer.Option("--state", help="Column of S_t.")],
    next_state: Annotated[str, typer.Option("--next-state", help="Column of S'_t.")],
    reward: Annotated[str, typer.Option("--reward", help="Column of R_t.")],
    discount: Annotated[str, typer.Option("--discount", help="g, strictly between 0 and 1; read as written.")],
    done: Annotated[str | None, typer.Option("--done", help="Column that says whether S'_t is terminal.")] = None,
    depth: Annotated[int | None, typer.Option("--depth", help="L; the number of states if not given.")] = None,
    out: Out = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """How much context a log needs: exact Krylov dimension, error at every smaller size, registers; with a report."""
    from numerics.logs import read_log

    from .context import analyse_context, render_context
    from .running import report_context

    read = read_log(log, state, next_state, reward, discount, done)
    result = analyse_context(read, read.task.n if depth is None else depth, seed)
    folder = report_context(result, log.stem, out)
    if json:
        _print_json(result)
    else:
        console = Console()
        render_context(result, console)
        console.print(f"written to {folder}: context.json, report.html", soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run a command and exit with its code; bad input is one sentence on standard error, code 2."""
    try:
        code = app(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except BadInput as error:
        code = _refuse(str(error))
    except BrokenPipeError:
        # The reader went away (as in `| head`): nothing more can be said, and a second failure at exit is avoided.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        # The command-line library's own errors (a missing option, an unknown command) know how to say themselves.
        if type(error).__name__ == "Abort":
            code = 130
        elif hasattr(error, "format_message"):
            code = _refuse(" ".join(error.format_message().split()))
        else:
            raise
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(sentence: str) -> int:
    print(f"verify: {sentence}", file=sys.stderr)
    return working.BAD_INPUT


if __name__ == "__main__":
    main()
