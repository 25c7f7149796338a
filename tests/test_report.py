"""The report: pictures of real matrices, plots, and one self-contained page in which every text is escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from constructions.errors import BadInput
from constructions.layout import Layout
from constructions.temporal_difference.executor import executor_program
from constructions.temporal_difference.krylov import encoder_program
from proofs_check.mutants import program_mutants
from proofs_check.temporal_difference import executor as executor_proofs
from verify.context import context_plot
from verify.pictures import COLOURS, attention_layers, grid_svg, layer_pictures, representative_layers
from verify.plots import Decades, error_plot, figure_to_svg, reproduction_plot
from verify.report import figure, is_matrix, is_records, plural, render_report, soundness_of, summarise

NASTY = "<script>alert('x')</script> & --> <b>"
JUDGED = [{"outcome": outcome} for outcome in ("refuted", "refuted", "equivalent", "survived")]
COUNTS = {"raw": 6, "state": 3, "slot": 3, "source": 3, "query": 3}


def cells(svg: str, kind: str) -> int:
    """How many entries of one sign a picture has."""
    path = re.search(rf'<path fill="{COLOURS[kind]}" d="([^"]*)"', svg)
    return path.group(1).count("M") if path else 0


def measurement(**changes):
    return {
        "theorem": "td.executor",
        "task": "a task",
        "arithmetic": "float64",
        "sizes": {"n": 3, "L": 4},
        "error": {"absolute": 3e-16, "relative": 1e-16},
        "reference": "Q",
        "bound": 1e-13,
        "sound": True,
        "seconds": 0.01,
        "flags": [],
        "seed": 0,
        **changes,
    }


def run(certificates=(), measurements=(), complete=True):
    return {
        "format": 1,
        "contextproof": "0.1.0",
        "seed": 7,
        "quick": False,
        "environment": {"python": "3.11", "cpus": 2},
        "complete": complete,
        "certificates": list(certificates),
        "measurements": list(measurements),
    }


CONTEXT = {
    "file": NASTY,
    "transitions": 1,
    "terminal_transitions": 0,
    "states": 2,
    "discount": "9/10",
    "depth": 2,
    "krylov": {
        "dimension": 1,
        "method": "exact",
        "evidence": "one vector",
        "failure_probability_float": 0.0,
        "seed": 0,
    },
    "errors": {
        "m": [0, 1],
        "projection": [1.0, 0.0],
        "projection_relative": [1.0, 0.0],
        "truncation": [1.0, 0.5],
        "truncation_relative": [1.0, 0.5],
        "largest_value": 1.0,
        "arithmetic": "float64, observed",
    },
    "registers": {"context": {"registers": 5, "kib_float32": 0.02}},
}


@pytest.fixture(scope="module")
def step_claim():
    return executor_proofs.claims(lambda: [], lambda: [], lambda: [])[0]


@pytest.fixture(scope="module")
def page(step_claim):
    """A page with everything on it: a proof, a refutation, a violated bound, and text that must be escaped."""
    program = executor_program(3, 3)
    (mutant,) = [m for m in program_mutants(step_claim.build()) if "(r, x, x; r) negated" in m.text]
    proved, refuted = step_claim.certify().to_json(), step_claim.certify(mutant.subject).to_json()
    undecided = {**proved, "theorem": "td.other", "verdict": "undecided", "evidence": {"missing": NASTY}}
    theorem = {
        "theorem": "td.executor",
        "title": NASTY,
        "source": "Thm 4.3",
        "docs": "What is built.",
        "task_class": {"name": "sub-stochastic", "statement": "rows sum to at most one"},
        "layout": dict(program.layout.widths),
        "width": program.width,
        "attention_layers": program.attention_layers,
        "heads": len(program.heads),
        "program": str(program),
        "assumptions": ["an assumption of the construction"],
        "pictures": layer_pictures(program, {"source": 2, "query": 3}),
    }
    rows = [
        {
            "name": "exactness",
            "quantity": NASTY,
            "setting": "float64",
            "source": [1e-16, 3e-15],
            "ours": 2e-14,
            "agrees": False,
            "reason": NASTY,
            "seed": 0,
        }
    ]
    measured = [
        measurement(task=NASTY),
        measurement(arithmetic=NASTY, sound=False, bound=1e-17),
        measurement(arithmetic="Q", error={"absolute": 0.0, "relative": 0.0}, bound=None),
    ]
    arguments = (
        run([proved, refuted, undecided], measured, complete=False),
        [theorem],
        [{"name": "exactness", "stored": "2026-01-01", "rows": rows}],
        [CONTEXT],
        (),
        [{"choices": {"theorem": NASTY, "count": None}, "complete": True, "judged": JUDGED}],
    )
    text = render_report(*arguments)
    assert text == render_report(*arguments)
    return text


def parse(text: str) -> ET.Element:
    return ET.fromstring(text)


def words(text: str) -> str:
    return " ".join("".join(parse(text).itertext()).replace("\u00a0", " ").split())


def test_executor_picture_shows_P_Q_and_mask():
    (layer,) = layer_pictures(executor_program(3, 3), {"source": 2, "query": 3})
    assert (layer["label"], layer["times"], layer["alike"]) == ("step", 3, [])
    (head,) = layer["heads"]
    assert head["text"] == "r gains r, scored by −⟨x, x⟩ + ⟨x, y⟩"
    assert head["formulas"]["Q"] == "−E_x′ E_x + E_x′ E_y"
    counts = {name: (cells(svg, "positive"), cells(svg, "negative")) for name, svg in head["svgs"].items()}
    assert counts == {"P": (1, 0), "Q": (3, 3), "R": (2 * 5, 0)}
    labels = {name: [t.text for t in parse(svg).iter() if t.tag.endswith("text")] for name, svg in head["svgs"].items()}
    assert labels == {"P": ["x", "y", "r"] * 2, "Q": ["x", "y", "r"] * 2, "R": ["source", "query"] * 2}
    assert parse(head["svgs"]["P"])[0].text == "P of step: E_r′ E_r"


def test_released_kinds_leave_the_mask_and_repeated_rounds_are_drawn_once():
    program = encoder_program(3, 3)
    chosen = representative_layers(program, COUNTS)
    assert [s.label for s in chosen] == [
        "count",
        "normalise",
        "b_1 = r",
        "round 1: A b, d",
        "round 1: w, next",
        "round 2: pass 1",
        "compile",
    ]
    by_label = {s.label: s for s in chosen}
    assert by_label["round 1: w, next"].alike == ("round 2: w, next", "round 3: w, next")
    assert by_label["round 2: pass 1"].alike == ("round 1: pass 1",)
    assert "raw" in by_label["normalise"].counts
    assert "raw" not in by_label["compile"].counts
    assert len(attention_layers(program, COUNTS)) == len(chosen) + sum(len(s.alike) for s in chosen)


def test_every_picture_has_as_many_entries_as_its_matrix():
    program = encoder_program(2, 2)
    for layer in layer_pictures(program, COUNTS, attention_layers(program, COUNTS)):
        for head in layer["heads"]:
            assert cells(head["svgs"]["P"], "positive") in (1, 2)
            assert cells(head["svgs"]["Q"], "positive") + cells(head["svgs"]["Q"], "negative") in (1, 2)
            assert cells(head["svgs"]["R"], "positive") >= 1
            assert all(parse(svg).get("role") == "img" for svg in head["svgs"].values())


def test_a_kind_on_no_route_needs_no_count():
    assert layer_pictures(encoder_program(2, 2), {k: c for k, c in COUNTS.items() if k != "query"})
    with pytest.raises(BadInput, match="expected a count for every routed kind, found none for source"):
        layer_pictures(executor_program(2, 2), {"query": 1})


def test_symbolic_sizes_cannot_be_drawn():
    import sympy as sp

    n = sp.Symbol("n", integer=True, positive=True)
    with pytest.raises(BadInput, match="expected concrete widths"):
        layer_pictures(executor_program(n, 2), {"source": 1, "query": 1})
    with pytest.raises(BadInput, match="expected a concrete number of repetitions"):
        layer_pictures(executor_program(2, n), {"source": 1, "query": 1})


def test_other_entries_are_named_and_symbols_have_a_colour_of_their_own():
    import sympy as sp

    matrix = sp.SparseMatrix(2, 2, {(0, 0): sp.Rational(-1, 2), (1, 1): sp.Symbol("t")})
    svg = grid_svg(matrix, Layout(a=1, b=1).widths, {"empty": 0, NASTY: 2}, NASTY)
    assert (cells(svg, "negative"), cells(svg, "other"), cells(svg, "positive")) == (1, 1, 0)
    titles = [e.text for e in parse(svg).iter() if e.tag.endswith("title")]
    assert titles == [NASTY, "-1/2", "t"]
    assert "empty" not in svg


def test_decades_give_zero_and_infinity_places_of_their_own():
    scale = Decades.covering([0.0, 1e-16, 0.5, float("inf")])
    assert (scale.low, scale.high) == (-16, 0)
    assert scale.place(0.0) < -16 < scale.place(1e-15) < 0 < scale.place(float("inf")) == scale.place(float("nan"))
    assert Decades.covering([0.0]) == Decades(0, 1, True, False)


def test_plots_are_svg_without_outside_references(page):
    measured = [
        measurement(),
        measurement(theorem="td.krylov", error={"absolute": "nan", "relative": "nan"}, bound="inf"),
    ]
    plots = [error_plot(measured), context_plot(CONTEXT)]
    for svg in plots:
        assert parse(svg).tag.endswith("svg")
        assert "currentColor" in svg
        assert "#010203" not in svg
        assert "purl.org" not in svg
    identifiers = [re.findall(r' id="([^"]+)"', svg) for svg in plots]
    assert not set(identifiers[0]) & set(identifiers[1])
    assert set(re.findall(r"url\(#([^)]+)\)", plots[0])) <= set(identifiers[0])
    assert figure_to_svg(lambda f: f.text(0, 0, "a"), (1, 1), NASTY).count("<title>&lt;script") == 1


def test_plots_without_numbers_are_empty():
    assert error_plot([]) == ""
    assert reproduction_plot([]) == ""
    text = {"quantity": "verdict", "setting": "", "source": "exact", "ours": "exact", "agrees": True}
    assert reproduction_plot([text, {**text, "source": True, "ours": 1}, {**text, "source": [1, "x"], "ours": 1}]) == ""


def test_negative_figures_are_plotted_on_a_linear_scale():
    row = {"quantity": "slope", "setting": "", "source": [-2.0, -1.0], "ours": -1.5, "agrees": True}
    assert parse(reproduction_plot([row])).tag.endswith("svg")


class Balanced(HTMLParser):
    """Fails on a tag that is closed out of order."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.external: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.external += [
            v for k, v in attrs if k in ("src", "href", "xlink:href", "srcset", "data") and not v.startswith("#")
        ]
        assert tag not in ("script", "link", "iframe", "object", "img")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_balanced_and_self_contained(page):
    checker = Balanced()
    checker.feed(page)
    assert checker.open == []
    assert checker.external == []
    assert "@import" not in page
    assert not re.findall(r"url\((?!#)", page)


def test_links_lead_to_sections_and_ids_are_unique(page):
    root = parse(page)
    identifiers = [e.get("id") for e in root.iter() if e.get("id")]
    assert len(identifiers) == len(set(identifiers))
    assert {e.get("href")[1:] for e in root.iter("a")} <= set(identifiers)


def test_user_text_is_escaped(page):
    assert "<script" not in page
    assert "<b>ring" not in page
    assert words(page).count("alert('x')") >= 6


def test_refutation_and_assumptions_are_in_the_open(page):
    root = parse(page)
    hidden = {id(e) for details in root.iter("details") for e in details.iter()}
    visible = " ".join(e.text for e in root.iter() if e.text and id(e) not in hidden)
    (failure,) = [e for e in root.iter("div") if e.get("class") == "failure refuted"]
    text = " ".join("".join(failure.itertext()).split())
    assert text.startswith("Refuted in block source.r, row 0, column 0: found")
    assert "Counterexample B" in text
    assert id(failure) not in hidden
    assert "hypothesis W' B = I" in visible
    assert "an assumption of the construction" in visible
    assert NASTY in visible  # what an undecided claim misses


def test_summary_counts_everything_and_says_that_the_run_was_interrupted(page):
    text = words(page)
    assert "1 claim refuted, 1 bound violated, 1 claim undecided, 1 claim proved" in text
    assert "1 measurement within its bound, 1 measurement without a bound." in text
    assert "interrupted run" in text
    assert "seed 7" in text
    assert "td.other" in text  # certified, though no document describes it
    assert "1 row, stored 2026-01-01" in text
    assert "1 transition (0 terminal), 2 states" in text
    assert f"{NASTY}42101all of them" in text  # total, refuted, equivalent, undecided, survived


def test_empty_run():
    text = words(render_report(run(), [], [], []))
    assert "No claims and no measurements in this run." in text
    assert text.count("None stored.") == 2
    assert "Taken as given" not in text


def test_summary_states(step_claim):
    proved = {"verdict": "proved"}
    assert summarise(run())["state"] == "empty"
    assert summarise(run([proved, proved], [measurement()])) == {
        "state": "good",
        "headline": "All 2 claims proved, 1 measurement within its bound",
        "verdicts": {"proved": 2, "refuted": 0, "undecided": 0},
        "measurements": {"sound": 1, "violated": 0, "no bound": 0},
    }
    assert summarise(run([proved], complete=False))["state"] == "open"
    assert summarise(run([proved, {"verdict": "undecided"}]))["state"] == "open"
    assert summarise(run([proved], [measurement(sound=False)]))["state"] == "bad"


def test_forms():
    assert [plural(n, "entry", "entries") for n in (0, 1, 1200)] == ["0 entries", "1 entry", "1,200 entries"]
    assert [figure(x) for x in (None, True, 12345, 2.5e-16, [1, 2], "inf")] == [
        "–",
        "yes",
        "12,345",
        "2.5e-16",
        "1 … 2",
        "inf",
    ]
    assert is_matrix([["1", "2"], ["3", "4"]])
    assert not is_matrix([["1"], ["3", "4"]])
    assert not is_matrix([])
    assert is_records([{"task": "a", "sizes": {"n": 1}, "size": [1, 2]}, {"task": "b", "sizes": {"n": 2}, "size": []}])
    assert not is_records([{"a": 1}, {"b": 1}])
    for bound, sound, expected in ((1.0, True, "sound"), (None, True, "no bound"), ("inf", True, "no bound")):
        assert soundness_of({"bound": bound, "sound": sound}) == expected
    assert soundness_of({"bound": "inf", "sound": False}) == "violated"
