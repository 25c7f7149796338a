"""The re-checker: it accepts what was proved, shares no code with the provers, and what it accepts is true."""

import ast
import copy
import io
import json
import random
import subprocess
import sys
import tokenize
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from round_objects import holds

from constructions.online_learning.experts import one_hot_basis
from proofs_check.online_learning.q_round import QCase
from verify import recheck, storage
from verify.catalogue import CATALOGUE
from verify.row import Options

SOURCE = Path(recheck.__file__)
THEOREMS = ("td.executor", "td.dimension", "td.minimax", "td.memory-optimal", "td.hessenberg", "td.policy-class")
SLOW = {"end-to-end-generic"}


ROUNDS = (
    ("weighted-majority", "bit-patterns"),
    ("weighted-majority", "bounds"),
    ("fixed-share", "runs"),
    ("q-learning", "domain"),
    ("expected-sarsa", "runs"),
)


def claim_of(wing, theorem, name):
    """A claim by name."""
    (claim,) = [c for c in CATALOGUE[f"{wing}.{theorem}"].claims(Options(quick=True)) if c.name == name]
    return claim


@pytest.fixture(scope="module")
def documents():
    """Sealed certificates of every kind of record."""
    claims = [c for name in THEOREMS for c in CATALOGUE[name].claims(Options(quick=True)) if c.quick]
    claims += [claim_of("online", *names) for names in ROUNDS]
    claims.append(claim_of("recurrent", "delta-rule", "symbolic"))
    bases = one_hot_basis(2), one_hot_basis(2)
    cases = [QCase(v, *bases, places=lambda c: (c.state, c.action) == (0, 1)) for v in ("relu_gated", "relu_tree")]
    claims.append(replace(claim_of("online", "q-learning", "chambers"), build=lambda: cases))
    certificates = [claim.certify() for claim in claims if claim.name not in SLOW]
    made = [storage.sealed({"format": 1, **c.to_json(timed=False), "records": c.records}) for c in certificates]
    return [json.loads(storage.to_json(document)) for document in made]


def test_every_certificate_holds(documents):
    kinds = set()
    for document in documents:
        assert recheck.check_document(document) == len(document["records"])
        for record in document["records"]:
            assert holds(record)
            kinds.add(record["kind"])
    assert kinds == set(recheck.KINDS)


def leaves(document, path=()):
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def edited(document, rng):
    """One number, name or index of the records changed."""
    changed = copy.deepcopy(document)
    places = list(leaves(changed["records"]))
    path, old = rng.choice(places)
    if isinstance(old, bool):
        new = not old
    elif old is None:
        new = 3
    elif isinstance(old, int):
        new = old + rng.choice([-1, 1])
    else:
        try:
            new = str(Fraction(old) + rng.choice([-1, 1, Fraction(1, 2)]))
        except ValueError:
            new = rng.choice([text for _, text in places if isinstance(text, str) and text != old])
    target = changed["records"]
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = new
    return changed, path


def test_edits_are_refused_or_still_true(documents):
    """200 edits: the digest refuses all; with a digest forged to fit, only those that are still true."""
    rng = random.Random(0)
    documents = [d for d in documents if d["records"] and d["claim"] != "upper-bound"]
    accepted = 0
    for _ in range(200):
        changed, path = edited(rng.choice(documents), rng)
        with pytest.raises(recheck.Refused, match="digest"):
            recheck.check_document(changed)
        changed["digest"] = recheck.digest(changed)
        try:
            recheck.check_document(changed)
        except recheck.Refused:
            continue
        accepted += 1
        assert holds(changed["records"][path[0]]), path
    assert accepted < 60


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d.pop("digest"), "digest"),
        (lambda d: d.update(format=2), "format 2"),
        (lambda d: d.update(verdict="undecided"), "digest"),
        (lambda d: d.update(statement="something else"), "digest"),
    ],
)
def test_damaged_documents_are_refused_by_name(documents, change, text):
    document = copy.deepcopy(documents[0])
    change(document)
    with pytest.raises(recheck.Refused, match=text):
        recheck.check_document(document)


def test_what_is_not_a_proof_or_not_known_is_refused(documents):
    for change, text in (
        ({"verdict": "undecided"}, "verdict is undecided"),
        ({"records": [{"kind": "x"}]}, "unknown kind"),
    ):
        document = {**documents[0], **change}
        document["digest"] = recheck.digest(document)
        with pytest.raises(recheck.Refused, match=text):
            recheck.check_document(document)


def test_a_block_without_coordinates_proves_nothing(documents):
    """A width of zero would make every statement on that field true."""
    document = copy.deepcopy(next(d for d in documents if d["claim"] == "matrices"))
    document["records"][0]["widths"]["r"] = 0
    document["digest"] = recheck.digest(document)
    with pytest.raises(recheck.Refused, match="without coordinates"):
        recheck.check_document(document)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda r: r["cells"].pop(1), "tile"),
        (lambda r: r["cells"].pop(), "no cell beyond"),
        (lambda r: r.update(constant="11/10"), "too"),
        (lambda r: r["cells"][40].__setitem__(2, r["cells"][40][2] + 3), "too large"),
        (lambda r: r["cells"][40][3].pop(), "too heavy"),
        (lambda r: r["cells"][40][3][0].__setitem__(0, 10_000), "too heavy"),
    ],
)
def test_wrong_cells_are_refused(documents, change, text):
    document = copy.deepcopy(next(d for d in documents if d["claim"] == "upper-bound"))
    change(document["records"][0])
    with pytest.raises(recheck.Refused, match=text):
        recheck.check_intervals(document["records"][0])


A = [["1", "2"], ["3", "5"]]
INVERSE = {"name": "inverse", "left": ["*", "B", "A"], "relation": "=", "right": ["unit", 2]}
SHIFTED = [["0", "-9"], ["-14", "0"]]
"""-5 less A o B."""
FACTS = {"kind": "facts", "values": {"A": A, "B": [["-5", "2"], ["3", "-1"]]}, "facts": [INVERSE]}


def relation(left, sign, right, **fields):
    return {**FACTS, "facts": [{"name": "stated", "left": left, "relation": sign, "right": right}], **fields}


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (FACTS, None),
        ({**FACTS, "values": {"A": A, "B": A}}, "inverse: not so"),
        ({**FACTS, "facts": []}, "no fact"),
        ({**FACTS, "facts": [INVERSE, {**INVERSE, "name": "second", "right": "A"}]}, "second: not so"),
        (relation(["o", "A", "A"], "=", ["*", "A", "A"]), "stated: not so"),
        (
            relation(["o", "A", "B"], "=", ["-", ["fill", "-5", 2, 2], "C"], values={**FACTS["values"], "C": SHIFTED}),
            None,
        ),
        (relation(["rows", "A", "A"], "!=", ["rows", "A", ["+", "A", "A"]]), "stated: not so"),
        (relation("A", "!=", ["+", "A", ["fill", "1/3", 2, 2]]), None),
        (relation(["'", ["part", "A", 0, 1, 0, 2]], "<", ["part", "A", 0, 2, 1, 2]), None),
        (relation(["part", "A", 0, 1, 0, 2], "<=", ["'", ["part", "A", 0, 2, 1, 2]]), None),
        (relation(["part", "A", 0, 2, 0, 1], "<", ["fill", "2", 2, 1]), "stated: not so"),
        (relation(["part", "A", 0, 0, 0, 1], "=", ["part", "A", 1, 1, 0, 1]), "stated: not so"),
        (relation(["part", "A", 0, -1, 0, 1], "=", ["part", "A", 0, -1, 0, 1]), "cannot be read"),
        (relation("A", "=", ["part", "A", 0, 1, 0, 2]), "cannot be read"),
        (relation("A", "=", "C"), "cannot be read"),
        (relation("A", ">=", "A"), "cannot be read"),
        (relation(["det", "A"], "=", ["fill", "-1", 1, 1]), "cannot be read"),
        (relation(["*", "A", ["part", "A", 0, 1, 0, 2]], "=", "A"), "a product of"),
        (
            relation(
                ["*", "x", "A"], "=", ["+", "A", ["*", ["-", "x", ["fill", "1", 1, 1]], "A"]], generic={"x": [1, 1]}
            ),
            None,
        ),
        (relation(["*", "x", "x"], "=", "x", generic={"x": [1, 1]}), "stated: not so"),
        (relation(["*", "x", "x"], "!=", "x", generic={"x": [1, 1]}), "stated: not so"),
        (relation(["fill", "0", 1, 1], "!=", ["+", "0x", ["fill", "1", 1, 1]], generic={"0x": [1, 1]}), None),
        (relation("x", "<", ["+", "x", ["fill", "1", 1, 1]], generic={"x": [1, 1]}), None),
        (relation(["fill", "0", 1, 1], "<=", ["*", "0x", "0x"], generic={"0x": [1, 1]}), None),
        (relation(["fill", "0", 1, 1], "<", "0x", generic={"0x": [1, 1]}), "stated: not so"),
        (relation(["fill", "0", 1, 1], "<=", ["*", "x", "x"], generic={"x": [1, 1]}), "stated: not so"),
    ],
)
def test_facts_are_decided(documents, record, text):
    """As the project's own arithmetic decides them, where they can be read."""
    document = {**documents[0], "records": [record]}
    document["digest"] = recheck.digest(document)
    if text is None:
        assert recheck.check_document(document) == 1
        assert holds(record)
        return
    with pytest.raises(recheck.Refused, match=text):
        recheck.check_document(document)
    assert text != "stated: not so" or not holds(record)


def test_what_a_run_leaves_is_stated_of_every_block(documents):
    """Sources with another context, a block of which nothing is said, an order modulo a prime."""
    document = copy.deepcopy(next(d for d in documents if (d["theorem"], d["claim"]) == ("td.hessenberg", "context")))
    record = document["records"][-1]
    recheck.check_run({**record, "values": {**record["values"], "A": A, "source.x": A}})  # names of the run come first
    for change, text in (
        (lambda r: r["after"].pop("source.t"), "leaves another source.t"),
        (lambda r: r["after"].update({"source.x": ["*", ["fill", "2", 1, 1], "B"]}), "leaves another source.x"),
        (lambda r: r["values"]["H"][0].__setitem__(0, "7"), "leaves another source.u"),
        (lambda r: r["values"]["W"][0].__setitem__(0, "7"), "W as defined: not so"),
    ):
        changed = copy.deepcopy(record)
        change(changed)
        with pytest.raises(recheck.Refused, match=text):
            recheck.check_run(changed)
    generic = next(d for d in documents if (d["theorem"], d["claim"]) == ("td.hessenberg", "generic"))
    changed = copy.deepcopy(generic["records"][0])
    changed["facts"][0]["relation"] = "<="
    with pytest.raises((recheck.Refused, AttributeError)):
        recheck.check_field(changed)


def test_standard_library_only():
    tree = ast.parse(SOURCE.read_text())
    imported = {a.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    imported |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(node.level for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    assert imported <= sys.stdlib_module_names


def test_it_is_short():
    """Lines of code, that is without comments, docstrings and blank lines."""
    text = SOURCE.read_text()
    docs = [x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant)]
    told = {line for x in docs for line in range(x.lineno, x.end_lineno + 1)}
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = [x for x in tokenize.generate_tokens(io.StringIO(text).readline) if x.type not in layout]
    lines = {line for x in tokens for line in range(x.start[0], x.end[0] + 1)} - told
    assert len(lines) <= 500


def test_it_runs_alone(documents, tmp_path):
    storage.write_json(tmp_path / "whole.json", documents[0])
    (tmp_path / "torn.json").write_text('{"format": 1, "theorem"')
    (tmp_path / "other.json").write_text("[1]")
    run = subprocess.run(
        [sys.executable, "-I", SOURCE, tmp_path], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    lines = dict(line.split(": ", 1) for line in run.stdout.splitlines())
    assert lines["whole.json"].endswith("records hold")
    assert "not a certificate" in lines["torn.json"]
    assert "not a certificate" in lines["other.json"]
