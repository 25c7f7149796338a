"""Commands on a user's files: context on recorded logs, collide on the keys and gates of a delta rule."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from constructions.errors import BadInput

from . import working
from .application import Json, Out, Seed, app, print_json


@app.command()
def context(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE..", help="CSV, Parquet, npz, one transition a row; globs, folders, Minari datasets."
        ),
    ],
    reward: Annotated[str, typer.Option("--reward", help="Column of R_t.")],
    discount: Annotated[str, typer.Option("--discount", help="g, strictly between 0 and 1; read as written.")],
    state: Annotated[str | None, typer.Option("--state", help="Column of S_t.")] = None,
    next_state: Annotated[str | None, typer.Option("--next-state", help="Column of S'_t.")] = None,
    features: Annotated[str | None, typer.Option("--features", help="Columns of phi(S_t), by commas.")] = None,
    next_features: Annotated[
        str | None, typer.Option("--next-features", help="Columns of phi(S'_t), by commas.")
    ] = None,
    done: Annotated[str | None, typer.Option("--done", help="Column that says whether S'_t is terminal.")] = None,
    depth: Annotated[int | None, typer.Option("--depth", help="L; the number of states or features if none.")] = None,
    step: Annotated[str | None, typer.Option("--step", help="Step of batch TD on features, such as 1/100.")] = None,
    tolerance: Annotated[
        str | None, typer.Option("--tolerance", help="Largest error allowed: recommends the least context of states.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=0, help="Files read at once; 0: one a processor.")] = 1,
    backend: Annotated[str | None, typer.Option("--backend", help="Where: loky (processes), threading, dask.")] = None,
    scheduler: Annotated[str | None, typer.Option("--scheduler", help="Address of the Dask scheduler.")] = None,
    out: Out = None,
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """How much context a log needs: exact Krylov dimension, error at every smaller size, registers; with a report."""
    from numerics.feature_logs import read_features
    from numerics.log_jobs import Jobs
    from numerics.logs import read_log

    from .context import analyse_context, analyse_features, exact_step, render_context, result_name
    from .running import report_context

    how = Jobs(jobs, backend or ("loky" if scheduler is None else "dask"), scheduler)
    if (state is None) != (next_state is None) or (features is None) != (next_features is None):
        raise BadInput(
            "columns: expected those of the state and of its successor together, found one without the other"
        )
    if (state is None) == (features is None):
        found = "neither" if state is None else "both"
        raise BadInput(
            f"columns: expected either --state and --next-state or --features and --next-features, found {found}"
        )
    with working.progress(Console(stderr=True), None, json) as announce:
        if state is not None and next_state is not None:
            log = read_log(logs, state, next_state, reward, discount, done, announce, how)
            result = analyse_context(log, log.task.n if depth is None else depth, seed, tolerance)
        else:
            if tolerance is not None:
                raise BadInput("tolerance: expected a log of states, found one of features")
            names, others = (str(text).split(",") for text in (features, next_features))
            seen = read_features(logs, names, others, reward, discount, done, announce, how)
            result = analyse_features(seen, seen.d if depth is None else depth, seed, exact_step(step))
    folder = report_context(result, result_name(result), out)
    if json:
        print_json(result)
    else:
        console = Console()
        render_context(result, console)
        console.print(f"written to {folder}: context.json, report.html", soft_wrap=True)


@app.command()
def collide(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="npz file: keys, rates, gates; inputs, blocks.")],
    json: Json = False,
    seed: Seed = 0,
) -> None:
    """Two rational worlds that a delta rule with these keys and gates cannot tell apart, or a proof of none."""
    from .collide import collide as find
    from .collide import read_encoder, render

    document = find(read_encoder(file))
    if json:
        print_json(document)
    else:
        render(document, Console())
