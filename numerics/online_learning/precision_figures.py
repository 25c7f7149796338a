"""The figures of theory B4 beside ours: stalls, encodings of weighted majority, and Q-learning's plateau.

Figures that depend on a random process are given as ranges over seeds; the processes stand in `encodings` and
`plateau`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from numerics.precision_rows import Rows, growth_of

from . import encodings, plateau, stalls

TENTH = Fraction(1, 10)
BITS = {"bf16": 8, "fp16": 11, "fp32": 24, "fp64": 53}
LONG = 100_000
"""T of the source's runs."""


def stall_rows(rows: Rows, quick: bool) -> None:
    """The closed form against iteration, where it stalls, and how errors grow before it does."""
    cases = stalls.law_cases(quick)
    same = sum(stalls.law_holds(*case) for case in cases)
    text = "constant increment -log(1 - eps), every addition rounded; p = 4, 8, 11, 24, nine eps"
    rows.add(f"stall law: cases bit-exact of {len(cases)}", text, same, 36, same == len(cases))
    for name, known in (("bf16", 272), ("fp16", 2179), ("fp32", 2e7)):
        p = BITS[name]
        updates, _ = stalls.stall(stalls.increment(TENTH, p), p)
        rows.add(f"updates until the stall, {name}", "eps=1/10; every addition rounded", updates, known)
    places = [1_000, 10_000, 100_000, 1_000_000]
    h = stalls.increment(TENTH, 24)
    step, sums = Fraction(h), stalls.closed_form(h, 24, places[-1])
    slope, growth = growth_of(places, [float(abs(Fraction(float(sums[m])) - m * step)) for m in places])
    setting = "1e3 .. 1e6 updates, eps=1/10; every addition rounded"
    rows.add("growth of the sum's error before the stall, fp32", setting, growth, "quadratic", growth == "quadratic")
    rows.rows[-1]["reason"] = f"exponent {slope:.2f}"


def majority_rows(rows: Rows, quick: bool) -> None:
    """Errors and wrong decisions by encoding and format; raw log weights at the source's T even when quick."""
    process = (
        "n=4 experts that err with probability 1/10 .. 1/2, eps=1/10; the state alone rounded, decisions in float64"
    )
    known = {"bf16": ("4.2e3", ".195"), "fp16": ("", ".157"), "fp32": ("3.2", "0"), "fp64": ("4e-9", "")}
    seeds = rows.seeds(16)
    for name, (error, wrong) in known.items():
        found = encodings.outcome("raw", BITS[name], TENTH, LONG, seeds)
        rows.add_spread(f"error of a difference, raw log weights, {name}", f"{process}; T={LONG}", found.error, error)
        rows.add_spread(
            f"share of wrong decisions, raw log weights, {name}", f"{process}; T={LONG}", found.wrong, wrong
        )
    rounds = LONG // 20 if quick else LONG
    for name in ("bf16", "fp16", "fp32"):
        for encoding in encodings.ENCODINGS[1:]:
            found = encodings.outcome(encoding, BITS[name], TENTH, rounds, seeds)
            setting = f"{process}; T={rounds}"
            none = "0" if (name, encoding) == ("bf16", "relative counts") else ""
            rows.add_spread(f"share of wrong decisions, {encoding}, {name}", setting, found.wrong, none)
            whole = "0" if (name, encoding) == ("fp32", "counts") else ""
            rows.add_spread(f"error of a difference, {encoding}, {name}", setting, found.error, whole)


def embedding_rows(rows: Rows) -> None:
    """What embeddings cost that are not orthogonal, in float64."""
    n, d, rounds = 64, 256, 1000
    found = [encodings.crosstalk(n, d, rounds, seed, TENTH) for seed in rows.seeds(10)]
    setting = (
        f"n={n}, random unit embeddings in R^{d}, one expert errs with probability 1/10, the others guess, T={rounds}"
    )
    rows.add_spread("mistakes of weighted majority, orthogonal embeddings", setting, [x for _, x, _ in found], ".12")
    rows.add_spread("mistakes of weighted majority, these embeddings", setting, [x for *_, x in found], ".50")
    places = [30, 100, 300, 999]
    slope, growth = growth_of(places, [float(np.median([errors[t] for errors, *_ in found])) for t in places])
    rows.add("growth of the error, these embeddings", f"{setting}, float64", growth, "linear", growth == "linear")
    rows.rows[-1]["reason"] = f"exponent {slope:.2f}"


def plateau_rows(rows: Rows, quick: bool) -> None:
    """Errors of Q-learning's table in both models, and the bound for a rounded table."""
    rounds, names = (LONG // 20 if quick else LONG), ("bf16", "fp16", "fp32")
    precisions, seeds = [BITS[name] for name in names], rows.seeds(40)
    known = {
        (0.1, 0.9): ("1.25", "1.3e-2", "6e-7"),
        (0.1, 0.99): ("56", "19", "1.3e-5"),
        (0.01, 0.9): ("7.0", "1.2", "5e-6"),
    }
    for (alpha, discount), sources in known.items():
        setting = f"|S|=5, |A|=3, T={rounds}, alpha={alpha}, g={discount}, fixed rewards in [0, 1], dense random P"
        tables = plateau.run(alpha, discount, precisions, plateau.TABLE, rounds, seeds)
        for name, found, source in zip(names, tables, sources, strict=True):
            # Errors grow with T: a shorter run is not compared.
            text = f"{setting}; the table alone rounded"
            rows.add_spread(f"error of the table at T, {name}", text, found.end, "" if quick else source)
            largest, bounded = float(found.largest.max()), found.bound < float("inf")
            rows.add(
                f"largest error of the table over all rounds, {name}; source: the bound u Qmax/(alpha (1 - g))",
                f"{text}; {len(seeds)} seeds from {rows.seed}",
                largest,
                found.bound if bounded else None,
                largest <= found.bound if bounded else None,
                "the bound is violated",
            )
            if not bounded:
                rows.rows[-1]["reason"] = "no bound: u is not below alpha (1 - g)"
        for name, found in zip(
            names, plateau.run(alpha, discount, precisions, plateau.OPERATIONS, rounds, seeds), strict=True
        ):
            rows.add_spread(f"error of the table at T, {name}", f"{setting}; every operation rounded", found.end)


def add_figures(rows: Rows, quick: bool) -> None:
    """All of them."""
    stall_rows(rows, quick)
    majority_rows(rows, quick)
    embedding_rows(rows)
    plateau_rows(rows, quick)
