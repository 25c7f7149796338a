"""The command's application, and the options that its commands share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from . import storage
from .row import Options

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


def options_of(quick: bool, seed: int, device: str = "cpu", dtypes: Sequence[str] | None = None) -> Options:
    """What was chosen.

    Raises:
        BadInput: an unknown number format, or an absent device.
    """
    if device != "cpu" or dtypes:
        from numerics.torch_arithmetic import TorchArithmetic

        for dtype in dtypes or ["float64"]:
            TorchArithmetic(dtype, device)  # refuses an unknown format and an absent device
    return Options(quick, seed, device, tuple(dtypes) if dtypes else Options.dtypes)


def print_json(document: dict[str, Any]) -> None:
    """One document on standard output."""
    sys.stdout.write(storage.to_json(document))
