"""The re-checker: it accepts what was proved, shares no code with the provers, and what it accepts is true."""

import ast
import copy
import json
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from record_objects import holds

from verify import recheck, storage
from verify.catalogue import CATALOGUE
from verify.row import Options

SOURCE = Path(recheck.__file__)
THEOREMS = ("td.executor", "td.dimension", "td.minimax", "td.memory-optimal", "td.hessenberg")
SLOW = {"lower-bound", "truncation-gap", "end-to-end-generic"}


@pytest.fixture(scope="module")
def documents():
    """Sealed certificates of every kind of record."""
    claims = [c for name in THEOREMS for c in CATALOGUE[name].claims(Options(quick=True)) if c.quick]
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


def test_standard_library_only():
    tree = ast.parse(SOURCE.read_text())
    imported = {a.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    imported |= {node.module.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(node.level for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    assert imported <= sys.stdlib_module_names


def test_it_is_short():
    assert sum(bool(line.strip()) for line in SOURCE.read_text().splitlines()) <= 500


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
