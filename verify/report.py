"""The report: one HTML file that can be read without a network, on a screen or on paper."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .context import REGISTERS, context_plot
from .figures import figures_of
from .plots import audit_plot, error_plot, number, reproduction_plot

TEMPLATES = Path(__file__).parent / "templates"
VERDICTS = ("proved", "refuted", "undecided")

FAILURE = ("failing", "task", "sizes", "block", "row", "column", "found", "expected", "failure", "missing")
"""Evidence that says where and why a claim is not proved, in the order of reading; a counterexample follows."""


def render_report(
    results: Mapping[str, Any],
    theorems: Sequence[Mapping[str, Any]],
    reproductions: Sequence[Mapping[str, Any]],
    contexts: Sequence[Mapping[str, Any]],
    audits: Sequence[Mapping[str, Any]] = (),
    mutants: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The page; the same input gives the same text.

    Args:
        results: the document of a run: certificates, measurements, seed, environment, whether it is complete.
        theorems: one document per theorem of the run: docs, layout, program, pictures, assumptions.
        reproductions: stored rows of the source's figures and ours, by name.
        contexts: results of `verify.context.analyse_context`.
        audits: stored rows of `verify audit`, by theorem.
        mutants: stored judgements of `verify mutate`, by theorem.
    """
    measurements = results["measurements"]
    return (
        _environment()
        .get_template("report.html")
        .render(
            results=results,
            summary=summarise(results),
            theorems=_sections(theorems, results["certificates"]),
            measured=[
                {"theorem": theorem, "rows": rows, "plot": error_plot(rows)}
                for theorem, rows in _grouped(measurements).items()
            ],
            reproductions=[
                {**r, "plot": reproduction_plot(r["rows"]), "figures": figures_of(r["rows"])} for r in reproductions
            ],
            mutants=[_outcomes(m) for m in mutants],
            audits=[{**a, "plot": audit_plot(a["rows"])} for a in audits],
            contexts=[{**c, "plot": context_plot(dict(c))} for c in contexts],
            failure_keys=FAILURE,
            register_names=REGISTERS,
        )
    )


def summarise(results: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of verdicts and of sound, violated and unbounded measurements; `state` is good, bad, open or empty."""
    certificates, measurements = results["certificates"], results["measurements"]
    verdicts = {verdict: sum(c["verdict"] == verdict for c in certificates) for verdict in VERDICTS}
    soundness = [soundness_of(m) for m in measurements]
    counts = {name: soundness.count(name) for name in ("sound", "violated", "no bound")}
    if verdicts["refuted"] or counts["violated"]:
        state = "bad"
    elif verdicts["undecided"] or not results["complete"]:
        state = "open"
    else:
        state = "good" if certificates or measurements else "empty"
    return {"state": state, "headline": _headline(verdicts, counts), "verdicts": verdicts, "measurements": counts}


def _headline(verdicts: Mapping[str, int], measured: Mapping[str, int]) -> str:
    """One sentence: failures first, then what is open, then what holds."""
    claims = sum(verdicts.values())
    parts = []
    if verdicts["refuted"]:
        parts.append(f"{plural(verdicts['refuted'], 'claim')} refuted")
    if measured["violated"]:
        parts.append(f"{plural(measured['violated'], 'bound')} violated")
    if verdicts["undecided"]:
        parts.append(f"{plural(verdicts['undecided'], 'claim')} undecided")
    if claims:
        every = "all " if verdicts["proved"] == claims > 1 else ""
        parts.append(f"{every}{plural(verdicts['proved'], 'claim')} proved")
    if measured["sound"]:
        parts.append(f"{plural(measured['sound'], 'measurement')} within {_their(measured['sound'])}")
    if measured["no bound"]:
        parts.append(f"{plural(measured['no bound'], 'measurement')} without a bound")
    text = ", ".join(parts)
    return text[:1].upper() + text[1:]


def _their(count: int) -> str:
    return "its bound" if count == 1 else "their bounds"


def _sections(theorems: Sequence[Mapping[str, Any]], certificates: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every theorem with its certificates; a certificate of a theorem without a document gets a section of its own."""
    by_theorem = _grouped(certificates)
    known = {t["theorem"] for t in theorems}
    bare = [{"theorem": name, "title": "", "source": "", "docs": ""} for name in by_theorem if name not in known]
    sections = []
    for theorem in [*theorems, *bare]:
        own = by_theorem.get(theorem["theorem"], [])
        verdicts = {verdict: sum(c["verdict"] == verdict for c in own) for verdict in VERDICTS}
        sections.append({**theorem, "certificates": own, "verdicts": verdicts})
    return sections


def _grouped(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["theorem"], []).append(row)
    return groups


def _outcomes(judged: Mapping[str, Any]) -> dict[str, Any]:
    """How many changes of a theorem had each outcome, and whether that was all of them."""
    found = [one["outcome"] for one in judged["judged"]]
    counts = {outcome: found.count(outcome) for outcome in ("refuted", "equivalent", "undecided", "survived")}
    whole = judged["complete"] and judged["choices"]["count"] is None
    return {"theorem": judged["choices"]["theorem"], "total": len(found), **counts, "whole": whole}


def _environment() -> Any:
    """Templates with every text escaped, and the words and forms that they use."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"plural": plural, "figure": figure, "sizes": sizes, "soundness": soundness_of}
    environment.filters["subscripts"] = subscripts
    environment.tests |= {"matrix": is_matrix, "records": is_records, "flat": is_flat, "decided": _is_bool}
    return environment


def plural(count: int, noun: str, many: str | None = None) -> str:
    """``1 claim``, ``2 claims``."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def figure(value: Any) -> str:
    """A number to three digits, counts in full, a range by its ends; anything else as text."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return " … ".join(map(figure, value))
    return str(value)


def sizes(values: Mapping[str, Any]) -> str:
    """``n = 3, L = 4``, not broken around the equals signs."""
    return ", ".join(f"{name}\u00a0=\u00a0{figure(value)}" for name, value in values.items())


def subscripts(formula: str) -> Any:
    """``E_x′ E_y`` with its subscripts set as such, everything else escaped."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"E_([A-Za-z0-9]+)", r"E<sub>\1</sub>", str(escape(formula))))


def soundness_of(measurement: Mapping[str, Any]) -> str:
    """`sound`, `violated`, or `no bound` where none is known and nothing was violated."""
    if not measurement["sound"]:
        return "violated"
    bound = number(measurement["bound"])
    return "sound" if bound is not None and math.isfinite(bound) else "no bound"


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def is_flat(value: Any) -> bool:
    """A list of scalars."""
    return isinstance(value, (list, tuple)) and all(map(_is_scalar, value))


def is_matrix(value: Any) -> bool:
    """Rows of scalars, all of one length."""
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(is_flat(row) and row for row in value)
        and len({len(row) for row in value}) == 1
    )


def is_records(value: Any) -> bool:
    """Two or more mappings of the same names to scalars, or lists or mappings of scalars: a table."""
    return (
        isinstance(value, (list, tuple))
        and len(value) > 1
        and all(isinstance(row, Mapping) and list(row) == list(value[0]) for row in value)
        and all(_is_scalar(x) or _is_small(x) for row in value for x in row.values())
    )


def _is_small(value: Any) -> bool:
    return is_flat(list(value.values()) if isinstance(value, Mapping) else value)
