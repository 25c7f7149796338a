"""The re-checker on rounds and chambers: weights, signs, feedback, and records that are not true."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from round_objects import holds

from constructions.online_learning.experts import householder_basis, one_hot_basis
from constructions.online_learning.q_learning import EXACT
from proofs_check.online_learning.chamber_records import chambers_record
from proofs_check.online_learning.chambers import chambers
from proofs_check.online_learning.one_round import RoundCase, at_a_point
from proofs_check.online_learning.q_round import QCase, counts_of
from proofs_check.online_learning.round_records import doubled, majority, rounds_record
from verify import recheck, storage
from verify.catalogue import CATALOGUE
from verify.row import Options

UNIT = one_hot_basis(2), one_hot_basis(2)


def plain(record):
    """A record as it is read from a file."""
    return json.loads(storage.to_json(record))


def chamber(variant):
    case = QCase(variant, *UNIT, places=lambda c: (c.state, c.action) == (0, 1))
    return plain(chambers_record(case, counts_of(case)))


def run_of(theorem, stated, **wanted):
    """The first rounds of the smallest run of a claim."""
    (claim,) = [c for c in CATALOGUE[theorem].claims(Options(quick=True)) if c.name == "runs"]
    found = [x for x in claim.build() if wanted.items() <= x.construction.sizes.items()]
    instance = min(found, key=lambda x: x.task.size)
    return plain(rounds_record(instance, stated(instance.construction, instance.task)))


def logarithms(*numbers):
    return [recheck.formal([[1, [f"log {x}"]]]) for x in numbers]


def test_softmax_is_exact_on_logarithms():
    halves = recheck.WEIGHTS["softmax"](logarithms(2, 3, 5))
    assert halves == [recheck.formal(Fraction(x, 10)) for x in (2, 3, 5)]
    shifted = [x + recheck.formal([[1, ["log 7"]], ["1/2", []]]) for x in logarithms(2, 3, 5)]
    assert recheck.WEIGHTS["softmax"](shifted) == halves
    for score in (recheck.formal(1), recheck.formal([["1/2", ["log 2"]]]), recheck.formal([[1, ["log 2", "log 3"]]])):
        with pytest.raises((recheck.Refused, ValueError)):
            recheck.WEIGHTS["softmax"]([recheck.formal(0), score])


def test_hardmax_averages_ties():
    weights = recheck.WEIGHTS["hardmax"]([recheck.formal(x) for x in (1, 3, "5/2", 3)])
    assert weights == [recheck.formal(x) for x in (0, "1/2", 0, "1/2")]
    x, gap, perhaps = (recheck.formal([[1, [name]]]) for name in ("x", "+h", "0k"))
    assert recheck.hardmax([x + -gap, x, x]) == [recheck.formal(c) for c in (0, "1/2", "1/2")]
    for scores in ([x, x + -perhaps], [x, gap], [x, x + gap + -perhaps]):
        with pytest.raises(recheck.Refused):
            recheck.hardmax(scores)


@pytest.mark.parametrize(
    ("terms", "sign"),
    [
        ([], 0),
        ([[3, []]], 2),
        ([[-3, []], [-1, ["0k"]]], -2),
        ([[1, ["0k"]], [2, ["0k", "+h"]]], 1),
        ([[-1, ["0k", "0k"]]], -1),
        ([[1, ["+h"]], [-1, ["0k"]]], None),
        ([[1, ["x"]]], None),
        ([[1, ["x", "x"]]], None),
        ([[1, ["log 2"]]], None),
    ],
)
def test_signs_are_those_of_every_value(terms, sign):
    assert recheck.sign(recheck.formal(terms)) == sign


def test_names_of_absolute_values_are_kept():
    """Else a record could claim that a number of its own is the |x| of a run."""
    with pytest.raises(recheck.Refused, match="kept for absolute values"):
        recheck.formal([["1", ["|x"]]])


@given(st.lists(st.integers(-3, 3), min_size=3, max_size=3), st.fractions(-3, 3), st.fractions(1, 3))
def test_relu_of_unknown_sign(coefficients, x, scale):
    """relu(p) - relu(-p) = p and relu(c p) = c relu(p) for c > 0, whatever p is; numbers have a sign."""
    p = recheck.formal([[c, [name]] for c, name in zip(coefficients, ("x", "y", "+h"), strict=True)])
    c = recheck.formal(scale)
    assert recheck.relu(p) + -recheck.relu(-p) == p
    assert recheck.relu(c * p) == c * recheck.relu(p)
    assert recheck.relu(recheck.formal(x)) == recheck.formal(max(x, Fraction(0)))


@pytest.mark.parametrize("fine", [True, False])
def test_every_order_of_the_successors_values_is_run(monkeypatch, fine):
    """As many, and the same tables, as the chambers of the prover."""
    seen = []
    monkeypatch.setattr(recheck, "check_run", lambda record, numbers: seen.append(record["tokens"]["blocks"]))
    case = QCase("relu_tree" if fine else "four_layer", one_hot_basis(2), one_hot_basis(3))
    record = {**plain(chambers_record(case, counts_of(case))), "places": [[0, 1, 1], [1, 2, -1]]}
    recheck.check_chambers(record)
    places = {(0, 1, 1), (1, 2, -1)}
    found = [c for c in chambers(2, 3, coarse=not fine) if (c.state, c.action, c.successor) in places]
    assert len(seen) == len(found)
    tables = {str([[sorted(x.items()) for x in row] for row in blocks["context.row"]]) for blocks in seen}
    assert len(tables) == len(found)


@pytest.mark.parametrize("variant", EXACT)
def test_chambers_hold(variant):
    record = chamber(variant)
    recheck.check_chambers(record)
    assert holds(record)


@pytest.mark.parametrize(
    ("variant", "change", "text"),
    [
        ("four_layer", lambda r: _bias(r).update(weight=[["0", "0"]]), "largest|equal or not"),
        ("relu_gated", lambda r: r["program"][2]["units"].pop(1), "leaves another out.row"),
        ("relu_gated", lambda r: r["program"][2]["units"].pop(), "leaves another out.Qsa"),
        ("relu_tree", lambda r: r["values"].update(alpha=[["1/8"]]), "leaves another out.row"),
        ("four_layer", lambda r: r.update(places=[]), "no place"),
        ("four_layer", lambda r: r.update(places=[[0, -1, 0]]), "no place"),
        ("four_layer", lambda r: r.update(after={"out.row": "context.row"}), "leaves another out.row"),
        ("four_layer", lambda r: r["tokens"]["blocks"].pop("bos.tB"), "leaves another"),
    ],
)
def test_chambers_that_are_not_so(variant, change, text):
    record = chamber(variant)
    change(record)
    with pytest.raises(recheck.Refused, match=text):
        recheck.check_chambers(record)


def _bias(record):
    """The bias of the head that looks for the largest value."""
    (head,) = [h for layer in record["program"] for h in layer.get("heads", []) if h.get("weights") == "hardmax"]
    (term,) = [x for x in head["scores"] if x["key"] == "idC"]
    return term


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda r: r["values"].update(e=[["1"]]), "leaves another label.S"),
        (lambda r: r["values"].update(leak=[[[["1", ["log 2"]]]]]), "leaves another context.O"),
        (lambda r: r["feedback"].__setitem__(3, [["0"]]), "leaves another label.S|another context.O"),
        (lambda r: r["feedback"].__setitem__(0, "context"), "leaves another"),
        (lambda r: r["program"][0]["heads"].pop(1), "leaves another label.S"),
        (lambda r: r["program"][-1]["units"].pop(0), "leaves another label.tY"),
        (lambda r: r["program"].reverse(), "leaves another"),
        (lambda r: r.update(rounds=[]), "no round"),
        (lambda r: r["values"].update(e=[[[["1", ["log 0"]]]]]), "leaves another label.S"),
    ],
)
def test_rounds_that_are_not_so(change, text):
    record = run_of("online.weighted-majority", majority, n=3, d=4)
    recheck.check_rounds(record)
    change(record)
    with pytest.raises(recheck.Refused, match=text):
        recheck.check_rounds(record)


@pytest.mark.parametrize("variant", ["one_block", "two_layer", "replica", "softmax_only"])
def test_a_round_at_a_point_holds_only_with_its_leak(variant):
    record = plain(at_a_point(RoundCase(variant, householder_basis([1, 2, 2]))))
    recheck.check_rounds(record)
    assert holds(record)
    if "leak" in record["values"]:
        record["values"]["leak"] = [["0"]]
        with pytest.raises(recheck.Refused, match=r"exp of|leaves another \w+\.O"):
            recheck.check_rounds(record)


def test_double_q_learning_asks_one_table():
    """With nothing between the tables, the largest value of both would be looked for."""
    record = run_of("online.double-q", doubled)
    recheck.check_rounds(record)
    record["values"]["apart"] = [["0"]]
    with pytest.raises(recheck.Refused, match=r"leaves another out\.row"):
        recheck.check_rounds(record)


def test_a_head_reads_what_was_there_before_the_layer():
    """A second head that reads what the first one writes gets nothing of it."""
    routes = [[["a", 0, None], ["a", 0, None], "same"]]
    first = {"sign": 1, "value": "x", "key": "one", "query": "one", "out": "y", "routes": routes}
    second = {**first, "value": "y", "out": "z"}
    widths, counts = {"x": 1, "y": 1, "z": 1, "one": 1}, {"a": 1}
    blocks = {"a.x": [[Fraction(2)]], "a.one": [[Fraction(1)]]}
    bank = recheck.Bank(widths, counts, blocks, recheck.RATIONAL)
    list(recheck.run([{"label": "", "heads": [first, second]}], bank))
    assert (bank.rows("a", "y"), bank.rows("a", "z")) == ([[2]], [[0]])
    group = {"reads": [["x", [["1"]]]], "writes": [["y", [["1"]]]]}
    after = {"reads": [["y", [["1"]]]], "writes": [["z", [["1"]]]]}
    bank = recheck.Bank(widths, counts, {name: [[recheck.formal(2)]] for name in blocks}, recheck.POLYNOMIAL)
    list(recheck.run([{"label": "", "units": [group, after]}], bank))
    assert (bank.rows("a", "y"), bank.rows("a", "z")) == ([[recheck.formal(2)]], [[recheck.formal(0)]])
