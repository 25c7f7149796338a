"""Results as tables in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .row import Row

STYLES = {"proved": "green", "refuted": "bold red", "undecided": "yellow"}


def table_of(*headings: str) -> Table:
    """A table whose short columns never wrap; a heading in capitals marks a column of prose, which does."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for heading in headings:
        table.add_column(heading.lower(), no_wrap=not heading.isupper(), overflow="fold")
    return table


def print_rows(rows: Sequence[Row], console: Console) -> None:
    """The catalogue."""
    table = table_of("theorem", "TITLE", "SOURCE")
    for row in rows:
        table.add_row(row.theorem, row.title, row.source)
    console.print(table)


def print_certificates(certificates: Sequence[dict[str, Any]], console: Console) -> None:
    """Verdict and assurance of each claim, its scope below it; a law asked for by itself with its cover and packing;
    what failed in words; assumptions once each."""
    for theorem in dict.fromkeys(c["theorem"] for c in certificates):
        console.print(f"[bold]{theorem}[/]")
        table = table_of("CLAIM", "verdict", "assurance", "seconds")
        for c in certificates:
            if c["theorem"] == theorem:
                below = [c["scope"]]
                if "failure probability" in c["evidence"]:
                    below.append(f"failure probability {c['evidence']['failure probability']}")
                claim = f"{c['claim']}\n[dim]{escape('; '.join(below))}[/]"
                verdict = f"[{STYLES[c['verdict']]}]{c['verdict']}[/]"
                table.add_row(claim, verdict, c["assurance"], f"{c['seconds']:.2f}")
        console.print(table)
    for c in certificates:
        if len(c["evidence"].get("first", ())) == 1:
            (law,) = c["evidence"]["first"]
            console.print("; ".join(f"{name} {value}" for name, value in law.items()), soft_wrap=True)
        if c["verdict"] != "proved":
            console.print(f"{c['theorem']} {c['claim']}: {escape(failure_text(c['evidence']))}")
    for theorem in dict.fromkeys(c["theorem"] for c in certificates):
        assumed = dict.fromkeys(a for c in certificates if c["theorem"] == theorem for a in c["assumptions"])
        console.print(f"{theorem} assumes: {escape('; '.join(assumed))}.")


def failure_text(evidence: dict[str, Any]) -> str:
    """One sentence on why a claim is not proved: block, row, column and values, or what is missing."""
    places = ("failing", "task", "sizes", "block", "row", "column")
    parts = [f"{key} {evidence[key]}" for key in places if key in evidence]
    if "found" in evidence:
        parts.append(f"expected {evidence.get('expected')}, found {evidence['found']}")
    parts += [str(evidence[key]) for key in ("failure", "missing") if key in evidence]
    if "counterexample" in evidence:
        parts.append(f"counterexample {evidence['counterexample']}")
    return "; ".join(parts) or str(evidence)


def print_mutants(theorems: Sequence[dict[str, Any]], unrefuted: Sequence[dict[str, Any]], console: Console) -> None:
    """Counts for each theorem, then every change that was not refuted with the claims that say why."""
    outcomes = ("total", "refuted", "equivalent", "undecided", "survived")
    table = table_of("theorem", *outcomes)
    for line in theorems:
        table.add_row(line["theorem"], *(str(line[outcome]) for outcome in outcomes))
    console.print(table)
    for line in unrefuted:
        console.print(
            f"{line['theorem']}, {line['outcome']}: {escape(line['text'])} [dim]({escape(line['reason'])})[/]"
        )


def print_rechecked(lines: Sequence[dict[str, Any]], console: Console) -> None:
    """How many records hold in each certificate file, and why one is refused."""
    table = table_of("theorem", "claim", "records", "VERDICT")
    for line in lines:
        verdict = "[green]holds[/]" if line["records"] else "nothing recorded"
        if line["refused"]:
            verdict = f"[bold red]{escape(line['refused'])}[/]"
        table.add_row(line["theorem"], line["claim"], str(line["records"]), verdict)
    console.print(table)
    kept = [line for line in lines if line["records"]]
    refused = sum(bool(line["refused"]) for line in lines)
    console.print(
        f"{sum(line['records'] for line in kept)} records of {len(kept)} certificates hold, {refused} files refused,"
        f" {len(lines) - len(kept) - refused} certificates without records."
    )


def print_exported(document: dict[str, Any], console: Console) -> None:
    """The sources written, the claims that have none, and how to check them."""
    table = table_of("source", "lemmas")
    for line in document["files"]:
        table.add_row(line["name"], str(line["lemmas"]))
    console.print(table)
    if document["not exported"]:
        claims = ", ".join(document["not exported"])
        console.print(f"Not exported, as they record no two different sums of words for every size: {claims}.")
    folder = document["folder"]
    console.print(f"cd {folder} && coq_makefile -f _CoqProject -o Makefile && make", soft_wrap=True, markup=False)


def print_measurements(measurements: Sequence[dict[str, Any]], console: Console) -> None:
    """Error beside its bound, a table for each theorem and task."""
    for theorem, task in dict.fromkeys((m["theorem"], m["task"]) for m in measurements):
        console.print(f"[bold]{theorem}[/] on {escape(task)}")
        table = table_of("ARITHMETIC", "error", "relative", "bound", "sound", "seconds")
        for m in measurements:
            if (m["theorem"], m["task"]) != (theorem, task):
                continue
            table.add_row(
                escape(", ".join([m["arithmetic"], *_variant(m)])),
                figure(m["error"]["absolute"]),
                figure(m["error"]["relative"]),
                figure(m["bound"]),
                _soundness(m),
                f"{m['seconds']:.2f}",
            )
        console.print(table)


def _soundness(measurement: dict[str, Any]) -> str:
    if not measurement["sound"]:
        return "[bold red]VIOLATED[/]"
    return "no bound" if measurement["bound"] in (None, "inf") else "[green]yes[/]"


def _variant(measurement: dict[str, Any]) -> list[str]:
    """What was run, without how the bound was obtained (the report says that too)."""
    return [flag for flag in measurement.get("flags", []) if not flag.startswith("bound:")]


def print_reproductions(rows: Sequence[dict[str, Any]], console: Console) -> None:
    """The source's figure beside ours, the setting and the reason under the quantity."""
    table = table_of("QUANTITY", "source", "ours", "agrees")
    for row in rows:
        below = [row["setting"]] + ([row["reason"]] if row["reason"] else [])
        quantity = f"{escape(row['name'])}: {escape(row['quantity'])}\n[dim]{escape(chr(10).join(below))}[/]"
        agrees = {True: "yes", False: "[yellow]no[/]", None: "-"}[row["agrees"]]
        table.add_row(quantity, figure(row["source"]), figure(row["ours"]), agrees)
    console.print(table)


def figure(value: Any) -> str:
    """A number to three digits; anything else as text."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return " .. ".join(figure(x) for x in value)
    return escape(str(value))


def print_shown(document: dict[str, Any], console: Console) -> None:
    """`verify show`: program, layout, claims, assumptions."""
    console.print(f"[bold]{document['theorem']}[/]: {escape(document['title'])} ({escape(document['source'])})")
    console.print(escape(document["docs"]), "\n")
    counts = f"width {document['width']}, {document['attention_layers']} attention layers, {document['heads']} heads"
    console.print(f"{counts}. {escape(document['built'])}.\n", highlight=False)
    console.print(escape(document["program"]), highlight=False, soft_wrap=True)
    console.print()
    for matrices in document["matrices"]:
        console.print(f"[bold]{escape(matrices['layer'])}[/], heads {escape(', '.join(matrices['heads']))}:")
        for name in ("P", "Q"):
            console.print(f"  {name}: {escape(matrices[name])}", highlight=False, soft_wrap=True)
    table = table_of("CLAIM", "assurance")
    for claim in document["claims"]:
        text = f"{claim['claim']}: {escape(claim['statement'])}\n[dim]{escape(claim['scope'])}[/]"
        table.add_row(text, claim["assurance"])
    console.print(table)
    task_class = document["task_class"]
    console.print(f"task class {task_class['name']}: {escape(task_class['statement'])}.")
    console.print(f"assumes: {escape('; '.join(document['assumptions']))}.")
