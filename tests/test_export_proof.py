"""Formal export: the text says what the records say, and Coq accepts what is true and nothing else."""

import copy
import json
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructions.errors import BadInput
from verify import coq_text, export_proof
from verify.catalogue import CATALOGUE
from verify.command_line import main
from verify.row import Options

QUICK = Options(quick=True)
EXPORTED = (
    *("td.statistics", "td.krylov", "td.executor", "td.full-context", "td.dimension", "td.memory", "td.memory-optimal"),
    *("td.hessenberg", "td.lanczos", "td.bits", "td.linear-features", "td.sample-and-hold", "td.anchored"),
    *("td.midpoint-hold", "td.doubling", "td.softmax-executor", "td.identifiability", "td.learnability"),
    *("td.policy-class", "recurrent.delta-rule", "recurrent.rescan"),
)
SIZES = {"1": 1, "n": 3, "k": 2}


def claim(theorem, name):
    return next(c for c in CATALOGUE[theorem].claims(QUICK) if c.name == name)


def record_of(theorem, name, part=0):
    return copy.deepcopy(claim(theorem, name).certify().records[part])


@pytest.mark.parametrize("theorem", ["td.executor", "td.memory-optimal", "td.full-context", "recurrent.rescan"])
def test_sources_are_whole_and_the_same_each_time(theorem):
    first, second = (dict(export_proof.sources(CATALOGUE[theorem], QUICK)) for _ in range(2))
    assert first == second
    made = [source for source in first.values() if source is not None]
    assert made
    for source in made:
        assert not re.search(r"\b(Admitted|Axiom|Axioms|Parameter|admit|Conjecture)\b", source.text)
        assert source.text.count("(") == source.text.count(")")
        assert source.text.count("(*") == source.text.count("*)")
        assert len(re.findall(r"^Lemma ", source.text, re.M)) == source.text.count(" Qed.")
        opened = re.findall(r"^(?:Module|Section) (\w+)\.$", source.text, re.M)
        assert sorted(opened) == sorted(re.findall(r"^End (\w+)\.$", source.text, re.M))
        named = re.search(r"all_of_them := \(tt, (.*)\)\.", source.text).group(1).split(", ")
        assert len(named) == len(set(named)) == source.lemmas
        for name in named:
            module, lemma = name.split(".")
            body = source.text.split(f"Module {module}.")[1].split(f"End {module}.")[0]
            assert re.search(rf"^Lemma {re.escape(lemma)} : ", body, re.M), name


@st.composite
def sums(draw):
    """Letters with values, and a sum of words of shape (n, k) in them."""
    shapes = {"A^l r": ("n", "k"), "B'": ("n", "k"), "H": ("k", "k"), "b_{j+1}": ("n", "n"), "S": ("n", "1")}
    letters = {name: {"shape": list(shape), "symmetric": False} for name, shape in shapes.items()}
    terms = []
    for _ in range(draw(st.integers(0, 4))):
        word, at = [], "n"
        while at != "k" or draw(st.booleans()):
            options = [(x, t) for x, shape in shapes.items() for t in (0, 1) if shape[t] == at]
            x, t = draw(st.sampled_from(options))
            word.append([x, t])
            at = shapes[x][1 - t]
            if len(word) > 6:
                word, at = [], "n"
        terms.append([str(draw(st.sampled_from([1, -1, 2, -3]))), word])
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    values = {x: rng.integers(-3, 4, [SIZES[size] for size in shape]) for x, shape in shapes.items()}
    return letters, values, terms


@given(sums())
def test_a_sum_is_written_as_it_is(made):
    letters, values, terms = made
    identity = {"name": "x", "shape": ["n", "k"], "left": terms, "right": []}
    section = coq_text.Section({"kind": "words", "letters": letters, "rules": [], "identities": [identity]})
    text = section.sum(terms, ["n", "k"])
    for old, new in ((" *m ", " @ "), ("^T", ".T"), (" *+ ", " * "), (" : 'M[ring]_(n, k)", "")):
        text = text.replace(old, new)
    found = eval(text.replace("'", "_"), {section.letters[x].replace("'", "_"): value for x, value in values.items()})
    expected = np.zeros((SIZES["n"], SIZES["k"]), dtype=int)
    for c, word in terms:
        product = np.eye(SIZES["n"], dtype=int)
        for x, t in word:
            product = product @ (values[x].T if t else values[x])
        expected += int(c) * product
    assert np.array_equal(np.broadcast_to(found, expected.shape), expected)


@given(st.lists(st.text(alphabet="AHbr_^'{}+-/() 01λ", max_size=6), max_size=8))
def test_names_are_names_and_each_is_given_once(texts):
    names = coq_text.Names()
    made = [names.new(text) for text in texts]
    assert len(made) == len(set(made))
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_']*", name) for name in made)
    assert not set(made) & set(coq_text.KEYWORDS.split())


def test_text_stays_inside_its_comment():
    assert not re.search(r'\(\*|\*\)|"', coq_text.comment('a (* b *) c "d" (**) e'))


def test_symmetric_letters():
    letters = {
        "c": {"shape": ["1", "1"], "symmetric": True},
        "diag(x)": {"shape": ["n", "n"], "symmetric": True},
        "x": {"shape": ["1", "n"], "symmetric": False},
    }
    section = coq_text.Section({"kind": "words", "letters": letters, "rules": [], "identities": []})
    assert section.symmetric() == [
        ("(scalar_symmetric c)", "c^T = c", True),
        ("symmetric_diag_x", "diag_x^T = diag_x", False),
    ]


@pytest.mark.parametrize(
    ("theorem", "name", "whole"),
    [
        ("td.full-context", "td-lambda", 1),
        ("td.memory-optimal", "values", 2),
        ("td.lanczos", "values", 0),
        ("td.statistics", "normalise", 0),
        ("td.sample-and-hold", "hold", 2),
    ],
)
def test_layers_that_are_products_of_matrices_are_stated_whole(theorem, name, whole):
    records = [record for record in claim(theorem, name).certify().records if record["kind"] == "layer"]
    assert records
    stated = [export_proof.section(record, "part")[1][-1:] == ["part.layer"] for record in records]
    assert sum(stated) == whole


def test_heads_are_written_as_P_Q_and_masks():
    lines = "\n".join(export_proof.section(record_of("td.executor", "step"), "step")[0])
    # P_TD and Q_TD of the source: queries and sources gain r <x, y - x>.
    P, Q = "in_r *m in_r^T", "-in_x *m in_x^T + in_x *m in_y^T"
    E_s, E_t = "at_source *m at_source^T", "at_source *m at_source^T + at_query *m at_query^T"
    assert f"  U\n  + ({P}) *m U *m ({E_s}) *m (U^T *m ({Q}) *m U) *m ({E_t})." in lines
    mixed = "\n".join(export_proof.section(record_of("td.full-context", "td-lambda"), "step")[0])
    weighted = "-in_x *m C^T *m in_x^T + in_x *m C^T *m in_y^T"
    assert f"(at_sample *m Lambda *m at_sample^T) *m (U^T *m ({weighted}) *m U)" in mixed


def test_one_of_a_rule_and_its_transpose_is_a_hypothesis():
    record = record_of("td.executor", "values")
    assert len(record["rules"]) == 4
    assert [text for _, text in coq_text.Section(record).hypotheses()] == ["B *m p = a", "W^T *m a = p"]


def test_what_has_no_form_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"td\.minimax: expected a claim that rests on identities of words"):
        export_proof.export_proof(CATALOGUE["td.minimax"], QUICK, tmp_path)
    assert not list(tmp_path.iterdir())
    record = record_of("td.executor", "values")
    record["identities"][0]["left"][0][0] = "1/2"
    with pytest.raises(coq_text.Unexported, match="1/2"):
        export_proof.section(record, "step")
    row = replace(CATALOGUE["td.executor"], claims=lambda _: [broken()])
    with pytest.raises(BadInput, match="claim step: expected a proof to export, found refuted"):
        export_proof.export_proof(row, QUICK, tmp_path)


def broken():
    """The claim `step` of an executor with a head too few."""
    good = claim("td.executor", "step")
    program = good.build()
    (loop,) = program.layers
    (layer,) = loop.layers
    short = replace(loop, layers=(replace(layer, heads=layer.heads[:1]),))
    return replace(good, build=lambda: replace(program, layers=(short,)))


def test_the_command_writes_sources(tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["export-proof", "td.executor", "--to", str(tmp_path / "coq"), "--json"])
    assert exit_.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert {file["name"] for file in document["files"]} == {"td_executor_step.v", "td_executor_values.v"}
    assert "matrices" in document["not exported"]
    written = {path.name for path in (tmp_path / "coq").iterdir()}
    assert written == {
        *("_CoqProject", "Words.v", "Executor.v"),
        *("td_executor_step.v", "td_executor_values.v", "td_executor_every_depth.v"),
    }
    listed = (tmp_path / "coq" / "_CoqProject").read_text().split()
    assert written - {"_CoqProject"} <= set(listed)
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as exit_:
        main(["export-proof", "td.executor", "--to", str(tmp_path / "file")])
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith("verify: ")


# With Coq -----------------------------------------------------------------------------------------------------------

needs_coq = pytest.mark.skipif(shutil.which("coqc") is None, reason="coqc is not installed")


def compiled(folder, *names):
    """The last compilation of some sources, in their order."""
    for name in names:
        call = ["coqc", "-w", "none", "-Q", ".", export_proof.PACKAGE, name]
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            break
    return done


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A folder with the compiled library."""
    folder = tmp_path_factory.mktemp("coq")
    for name in export_proof.LIBRARY:
        (folder / name).write_text(export_proof.library(name))
    done = compiled(folder, *export_proof.LIBRARY)
    assert done.returncode == 0, done.stderr
    return folder


CLEAN = "Closed under the global context\n"


@pytest.mark.coq
@needs_coq
@pytest.mark.parametrize("theorem", EXPORTED)
def test_coq_accepts(theorem, library):
    document = export_proof.export_proof(CATALOGUE[theorem], QUICK, library)
    before, after = export_proof.INDUCTIONS.get(theorem, ((), ()))
    if before:
        assert compiled(library, *before).returncode == 0
    for name in (*(file["name"] for file in document["files"]), *after):
        done = compiled(library, name)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        assert done.stdout == CLEAN, name


def of_program(record):
    """The identities alone, without the layer on the whole token matrix."""
    return {**record, "kind": "words"}


def wrong_sign(record):
    term = identity(record, "query.r")["right"][0]
    term[0] = "-1" if term[0] == "1" else "1"
    return of_program(record)


def dropped_hypothesis(record):
    record["rules"] = []
    return of_program(record)


def swapped_letters(record):
    word = identity(record, "source.r")["left"][1][1]
    assert [x for x, _ in word] == ["p", "B", "W"]
    word[1], word[2] = ["W", 1], ["B", 0]
    return of_program(record)


def dropped_transpose(record):
    word = identity(record, "source.r")["right"][0][1]
    assert word == [["p", 1], ["H", 1]]
    word[1][1] = 0
    return of_program(record)


def changed_coefficient(record):
    identity(record, "source.r")["left"][2][0] = "2"
    return of_program(record)


def flipped_head(record):
    record["program"][0]["heads"][0]["sign"] *= -1
    return record


def other_block_before(record):
    record["before"]["source.y"][0][0] = "-1"
    return record


def identity(record, name):
    return next(x for x in record["identities"] if x["name"] == name)


@pytest.mark.coq
@needs_coq
@pytest.mark.parametrize(
    "change",
    [
        *(wrong_sign, dropped_hypothesis, swapped_letters, dropped_transpose, changed_coefficient),
        *(flipped_head, other_block_before),
    ],
)
def test_coq_refuses(change, library):
    lines, lemmas = export_proof.section(change(record_of("td.executor", "values")), "changed")
    assert lemmas
    name = f"refused_{change.__name__}.v"
    (library / name).write_text("\n".join([export_proof.HEAD, *lines]) + "\n")
    done = compiled(library, name)
    assert done.returncode == 1
    assert 'Unable to unify "true" with "false"' in done.stderr
