"""Formal export: the text says what the records say, and Coq accepts what is true and nothing else."""

import copy
import json
import re
import shutil
import subprocess
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructions.errors import BadInput
from verify import coq_text, export_proof
from verify.catalogue import CATALOGUE
from verify.command_line import main
from verify.export_theorems import GOES_ON
from verify.row import Options

QUICK = Options(quick=True)
EXPORTED = (
    *("td.statistics", "td.krylov", "td.executor", "td.full-context", "td.dimension", "td.memory", "td.memory-optimal"),
    *("td.hessenberg", "td.lanczos", "td.bits", "td.linear-features", "td.sample-and-hold", "td.anchored"),
    *("td.midpoint-hold", "td.doubling", "td.softmax-executor", "td.identifiability", "td.learnability"),
    *("td.policy-class", "recurrent.delta-rule", "recurrent.rescan"),
    *("online.weighted-majority", "online.hedge", "online.q-learning", "online.sarsa", "online.expected-sarsa"),
    *("online.double-q", "online.linear-q"),
)
SIZES = {"1": 1, "n": 3, "k": 2}


def claim(theorem, name):
    return next(c for c in CATALOGUE[theorem].claims(QUICK) if c.name == name)


def record_of(theorem, name, part=0):
    records = [x for x in claim(theorem, name).certify().records if x["kind"] in ("words", "layer")]
    return copy.deepcopy(records[part])


@pytest.mark.parametrize(
    "theorem",
    [
        "td.executor",
        "td.memory-optimal",
        "td.full-context",
        "td.doubling",
        "td.learnability",
        "recurrent.delta-rule",
        "online.hedge",
        "online.sarsa",
    ],
)
def test_sources_are_whole_and_the_same_each_time(theorem):
    first, second = (dict(export_proof.sources(CATALOGUE[theorem], QUICK)) for _ in range(2))
    assert first == second
    made = [source for source in first.values() if source is not None]
    assert made
    for part in (part for name, _, part in GOES_ON if name == theorem):
        assert any(f"\nModule {coq_text.identifier(part)}.\n" in source.text for source in made)
    for source in made:
        assert not re.search(r"\b(Admitted|Axiom|Axioms|Parameter|admit|Conjecture)\b", source.text)
        assert source.text.count("(") == source.text.count(")")
        assert source.text.count("(*") == source.text.count("*)")
        assert len(re.findall(r"^Lemma ", source.text, re.M)) == len(re.findall(r"\bQed\.", source.text))
        opened = re.findall(r"^(?:Module|Section) (\w+)\.$", source.text, re.M)
        assert sorted(opened) == sorted(re.findall(r"^End (\w+)\.$", source.text, re.M))
        named = re.search(r"all_of_them := \(tt, (.*)\)\.", source.text).group(1).split(", ")
        assert len(named) == len(set(named)) == source.lemmas
        for name in named:
            module, lemma = name.split(".")
            body = source.text.split(f"Module {module}.")[1].split(f"End {module}.")[0]
            assert re.search(rf"^Lemma {re.escape(lemma)}( [^:]*)? :", body, re.M), name


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
    stated = ["part.layer" in export_proof.section(record, "part")[1] for record in records]
    assert sum(stated) == whole


def test_heads_are_written_as_P_Q_and_masks():
    lines = "\n".join(export_proof.section(record_of("td.executor", "step"), "step")[0])
    # P_TD and Q_TD of the source: queries and sources gain r <x, y - x>.
    P, Q = "in_r *m in_r^T", "-in_x *m in_x^T + in_x *m in_y^T"
    E_s, E_t = "at_source *m at_source^T", "at_source *m at_source^T + at_query *m at_query^T"
    assert f"  U\n  + ({P}) *m U *m ({E_s}) *m (U^T *m ({Q}) *m U) *m ({E_t})." in lines
    mixed = "\n".join(export_proof.section(record_of("td.full-context", "td-lambda"), "step")[0])
    forgotten = "\n".join(export_proof.section(record_of("td.doubling", "layers-44", 1), "digit")[0])
    kept = " + ".join(f"in_{f} *m in_{f}^T" for f in ("x", "pos", "one", "F", "c", "gam"))
    assert f"  ({kept}) *m (U\n  + " in forgotten
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
    with pytest.raises(coq_text.Unexported, match="no layer on the whole token matrix in step"):
        export_proof.section(record_of("td.lanczos", "values"), "step", GOES_ON["td.executor", "step", "step"])
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
    assert written == {"_CoqProject", *export_proof.LIBRARY, "td_executor_step.v", "td_executor_values.v"}
    listed = (tmp_path / "coq" / "_CoqProject").read_text().split()
    assert written - {"_CoqProject"} <= set(listed)
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as exit_:
        main(["export-proof", "td.executor", "--to", str(tmp_path / "file")])
    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith("verify: ")


def matrix_at(record, name, values):
    """A recorded matrix in numbers."""
    (row,) = record["matrices"][name]
    return np.hstack([sum_at(block["sum"], values) for block in row])


def sum_at(terms, values):
    return sum(float(c) * reduce(np.matmul, [values[x].T if t else values[x] for x, t in word]) for c, word in terms)


def random_letters(record, **sizes):
    rng = np.random.default_rng(3)
    shapes = {x: [int(sizes.get(size, size)) for size in letter["shape"]] for x, letter in record["letters"].items()}
    return {x: rng.integers(-3, 4, shape).astype(float) for x, shape in shapes.items()}


def test_recorded_rows_are_those_of_q_learning():
    record = record_of("online.q-learning", "token-table")
    x = random_letters(record, A=2, d=3)
    (share,) = (name for name in x if name.startswith("hardmax"))
    target = x["r"] + x["g"] * (x["f+"].T @ x["W"] @ x[share])
    expected = x["W"] + x["alpha"] * (target - x["f"].T @ x["W"] @ x["a"]) * np.outer(x["f"], x["a"])
    assert np.array_equal(matrix_at(record, "next", x), expected)


@pytest.mark.parametrize("variant", range(3))
def test_recorded_states_lose_e_for_each_mistake(variant):
    record = record_of("online.weighted-majority", "token-table", variant)
    x = random_letters(record, n=2, K=3, d=2) | {"U": np.array([[0.6, -0.8], [0.8, 0.6]])}
    said, told, e = [2, 0], 2, -0.5
    x |= {"P": np.eye(3)[:, said], "y": np.eye(3)[:, [told]], "e(J-I)": e * (1 - np.eye(3))}
    expected = x["U"] @ (x["l"] + e * np.array([[label != told] for label in said]))
    assert np.allclose(matrix_at(record, "next", x), expected)


@pytest.mark.parametrize("part", range(3))
def test_recorded_chunks_do_what_the_recurrence_does(part):
    record = record_of("recurrent.delta-rule", "chunks", part)
    x = random_letters(record, C=2, d_k=3, d_v=2)
    keys, weights, values, gate = (matrix_at(record, name, x) for name in ("keys", "weights", "values", "gate"))

    def token(S):
        return S @ x["A"] @ (np.eye(3) - x["b"] * np.outer(x["k"], x["k"])) + x["b"] * np.outer(x["v"], x["k"])

    def chunk(S, i):
        return S @ x[f"G{i}"] + (x[f"Z{i}"] - S @ x[f"W{i}"]) @ x[f"H{i}"].T

    S = x["S"]
    expected = (lambda: token(S), lambda: token(chunk(S, 1)), lambda: chunk(chunk(S, 1), 2))[part]()
    assert np.array_equal(S @ gate + (values - S @ weights) @ keys.T, expected)


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


def sources_of(theorem, folder):
    """Write a theorem's sources; their names in the order of compilation, without the library that all need."""
    document = export_proof.export_proof(CATALOGUE[theorem], QUICK, folder)
    before, after = export_proof.INDUCTIONS.get(theorem, ((), ()))
    return [*before, *(file["name"] for file in document["files"]), *after]


CLEAN = "Closed under the global context\n"


@pytest.mark.coq
@needs_coq
@pytest.mark.parametrize("theorem", EXPORTED)
def test_coq_accepts(theorem, library):
    for name in sources_of(theorem, library):
        done = compiled(library, name)
        if name in export_proof.INDUCTIONS.get(theorem, [()])[0]:
            continue
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


STATEMENTS = [
    ("td.executor", "td_executor_step.v", "c_now - E^T *m B *m s_now", "c_now + E^T *m B *m s_now"),
    ("td.executor", "td_executor_step.v", "- ((iterate A r l)^T *m E)", "((iterate A r l)^T *m E)"),
    ("td.executor", "td_executor_step.v", "(iterate A r l)^T *m E", "(iterate A r l.+1)^T *m E"),
    ("td.executor", "td_executor_step.v", "Lemma every_depth l : (l <= L)", "Lemma every_depth l : (l <= L.+1)"),
    ("td.executor", "td_executor_step.v", "tokens_at (iter l (mulmx (H)) g0)", "tokens_at (iter l.+1 (mulmx (H)) g0)"),
    ("td.memory-optimal", "td_memory_optimal_values.v", "(shift + a *m u^T)", "(shift + u *m a^T)"),
    ("td.memory-optimal", "td_memory_optimal_values.v", "- (E^T *m iterate A r l)", "E^T *m iterate A r l"),
    ("td.policy-class", "td_policy_class_values.v", "iterate A2 r2 l", "iterate A1 r2 l"),
    ("td.policy-class", "td_policy_class_values.v", "v_r2_now + D *m p_r2_now", "v_r2_now + D *m p_r1_now"),
    ("td.full-context", "td_full_context_td.v", "X *m (X - Y)^T", "X *m (X + Y)^T"),
    ("td.full-context", "td_full_context_td.v", "1%:M - C *m", "1%:M + C *m"),
    ("td.full-context", "td_full_context_td.v", "w0 = (X *m R^T) ->", "w0 = (X *m R^T) *+ 2 ->"),
    ("td.full-context", "td_full_context_td_lambda.v", "Lambda^T", "Lambda"),
    ("td.learnability", "td_learnability_layer.v", "C_of_family : C = - aI", "C_of_family : C = aI"),
    ("td.learnability", "td_learnability_layer.v", "corrected aI (1%:M - A) r", "corrected aI (1%:M + A) r"),
    ("td.krylov", "td_krylov_every_round.v", "spanned b j.+1 (iter j", "spanned b j (iter j"),
    ("td.krylov", "td_krylov_every_round.v", "b k = 0.", "b k.+1 = 0."),
    ("td.krylov", "Krylov.v", "B *m iter j (mulmx (W^T *m A *m B))", "B *m iter j (mulmx (W^T *m A^T *m B))"),
    ("td.doubling", "Doubling.v", "x.1.2 + x.1.1 *m x.2 else", "x.1.2 + x.2 else"),
    ("td.doubling", "td_doubling_every_depth.v", "(0 < l <= L)%N", "(0 < l <= L.+1)%N"),
    ("td.doubling", "td_doubling_every_depth.v", "true, true => short.digit_4", "true, true => short.digit_2"),
    ("recurrent.delta-rule", "recurrent_delta_rule_chunks.v", "(v *m b - Z1 *m H1^T *m A *m k *m b)", "(v *m b)"),
    ("recurrent.delta-rule", "recurrent_delta_rule_every_chunk.v", ":= rev (t :: ts)", ":= t :: ts"),
    ("recurrent.delta-rule", "recurrent_delta_rule_every_chunk.v", "gate x = 1%:M /\\ (key x)", "(key x)"),
    ("online.weighted-majority", "online_weighted_majority_token_table.v", "(U *m l + ", "(U *m l - "),
    ("online.weighted-majority", "online_weighted_majority_every_round.v", "e *+ mistakes", "- e *+ mistakes"),
    ("online.weighted-majority", "online_weighted_majority_every_round.v", "mistakes p y T i", "mistakes p y T.+1 i"),
    ("online.q-learning", "online_q_learning_every_round.v", "(1%:M - alpha)", "(1%:M + alpha)"),
    ("online.q-learning", "online_q_learning_every_round.v", "W T *m b = W 0%N *m b", "W T *m a = W 0%N *m a"),
    ("online.hedge", "online_hedge_every_round.v", "U e%:M l", "U (- e)%:M l"),
    ("online.hedge", "online_hedge_every_round.v", "(t < T) (P t)^T", "(t < T.+1) (P t)^T"),
]
"""(theorem, source, text, what it is changed to): statements of inductions that are no longer so."""


@pytest.mark.coq
@needs_coq
@pytest.mark.parametrize(("theorem", "name", "old", "new"), STATEMENTS)
def test_changed_inductions_fail(theorem, name, old, new, library):
    names = sources_of(theorem, library)
    text = (library / name).read_text()
    assert old in text
    for needed in names[: names.index(name)]:
        if not (library / needed).with_suffix(".vo").exists():
            assert compiled(library, needed).returncode == 0
    (library / "changed.v").write_text(text.replace(old, new))
    done = compiled(library, "changed.v")
    assert done.returncode == 1
    assert not re.search("[Ss]yntax error|was not found", done.stderr), done.stderr
