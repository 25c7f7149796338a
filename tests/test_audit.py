"""The audit: rows that hold, violations that are seen, stages, branches, replays, limits of precision, the report."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from flint import fmpq, fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.exact import Balls
from constructions.online_learning import weighted_majority
from constructions.online_learning.expert_weights import Weights
from numerics import audit, expert_tasks
from numerics.audit import EVERY, TORCH, AuditRow, Plan, Setting, Subject, Trial, audit_row, bits_lost
from numerics.formats import bits, parse_format, round_doubles
from numerics.online_learning import audit as online_audit
from numerics.online_learning import plateau, stalls
from numerics.precision_limits import least_bits, reproduce_precision
from numerics.recurrent import audit as recurrent_audit
from numerics.recurrent.state_formats import growth_of, relative_errors
from numerics.rounded_arithmetic import RoundedArithmetic
from numerics.temporal_difference import audit as td_audit
from verify import auditing
from verify.auditing import Request
from verify.command_line import main
from verify.report import render_report

SHORT = Plan(quick=True, horizon=5)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(capsys, *arguments):
    with pytest.raises(SystemExit) as exit_:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err


def fixed_subject(value, limit, exact=Fraction(1, 3), a_priori=None, violations=0):
    """A subject whose run is given."""
    entry = None if value is None else fmpq(Fraction(value).numerator, Fraction(value).denominator)
    trial = Trial([entry], [limit], "given", {"argmax": (1, 2)}, "", (), violations)
    target = fmpq_mat(1, 1, [fmpq(exact.numerator, exact.denominator)])
    return Subject("td.executor", "v", "t", {}, target, "Q", lambda s, a: trial, lambda s: a_priori)


def test_errors_ulps_and_bits_are_those_of_the_definition():
    value = RoundedArithmetic("bf16").matrix([[Fraction(1, 3)]])[0, 0]
    row = audit_row(fixed_subject(float(value), 1.0), Setting("bf16", EVERY))
    exact = abs(Fraction(float(value)) - Fraction(1, 3))
    assert math.isclose(row.errors["absolute"]["max"], float(exact))
    assert math.isclose(row.errors["relative"]["max"], float(exact * 3))
    # 1/3 lies in [1/4, 1/2), where bfloat16 numbers are 2^-9 apart: half a unit at most.
    assert math.isclose(row.errors["ulps"]["max"], float(exact * 2**9))
    assert row.errors["ulps"]["max"] <= 0.5
    assert row.sound
    assert row.branches == {"argmax": "1 of 2"}
    assert bits_lost(2.0**-8, parse_format("bf16")) == 0
    assert bits_lost(2.0**-5, parse_format("bf16")) == 3
    assert bits_lost(math.inf, parse_format("bf16")) == 8


def test_violations_are_seen_each_by_itself():
    setting = Setting("fp32", EVERY)
    assert not audit_row(fixed_subject(1, 0.5), setting).sound
    assert not audit_row(fixed_subject(1, 1.0, a_priori=0.5), setting).sound
    assert not audit_row(fixed_subject(1, 1.0, violations=1), setting).sound
    assert audit_row(fixed_subject(1, 1.0, a_priori=0.7), setting).sound
    unknown = audit_row(fixed_subject(None, math.inf), setting)
    assert unknown.sound
    assert any("not finite" in flag for flag in unknown.flags)
    assert not audit_row(fixed_subject(None, 1.0), setting).sound


@pytest.mark.parametrize("theorem", auditing.WINGS)
def test_rows_hold_in_every_model(theorem):
    formats = ("bf16", "fp32") if theorem.startswith(("td", "recurrent")) else ("bf16",)
    rows = list(auditing.audit(Request((theorem,), formats, horizon=3, quick=True), lambda step: None))
    assert {row.setting.model for row in rows} == {"every", "wide", "torch"}
    for row in rows:
        largest = row.errors["absolute"]["max"]
        assert row.sound
        assert largest <= row.running_bound
        assert row.a_priori is None or largest <= row.a_priori
        if "gates left" not in row.subject.variant:
            # Nothing goes wrong on these tasks: in fp32 every variant is right to four digits, in bf16 to one.
            assert row.errors["relative"]["max"] < {"fp32": 1e-4, "bf16": 0.3}[row.setting.format]


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.sampled_from(["e4m3", "bf16", "fp16", "p6", "fp32"]), st.sampled_from([EVERY, TORCH]))
def test_a_priori_bounds_hold_on_random_tasks(seed, name, model):
    if model == TORCH and name in ("e4m3", "p6"):
        name = "bf16"
    plan = Plan(seed=seed, horizon=2)
    found = [
        *online_audit.majority_subjects("online.weighted-majority", plan),
        *online_audit.control_subjects("online.q-learning", plan),
        *recurrent_audit.subjects("recurrent.delta-rule", plan),
    ]
    for subject in found:
        row = audit_row(subject, Setting(name, model))
        assert row.sound, (subject.task, row.flags)


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp32"])
def test_bound_of_weighted_majority_covers_long_runs(name):
    """The bare additions are those of the program (below): errors grow like T^2, and so must the bound."""
    target = parse_format(name)
    task = expert_tasks.opposed_pair(300, "1/10")
    most = max(sum(task.wrong(t)[i] for t in range(task.rounds)) for i in range(2))
    states = stalls.iterated(stalls.increment(task.eps, target.precision), target.precision, most)
    gap = np.abs(states + np.arange(most + 1) * math.log1p(-0.1)).max()
    limit = online_audit.majority_bound(task, Setting(name, EVERY))
    assert gap < limit < 200 * gap


def test_bound_of_the_delta_rule_adds_up_and_is_forgotten_with_decay():
    def limit(gate, tokens):
        stream = recurrent_audit.unit_stream(Fraction(gate), Fraction(1), tokens, 3, 0)
        return recurrent_audit.state_bound(stream, Setting("fp32", EVERY))

    # Without decay the bound of |S| grows like T, so a sum of local errors like T^2; one of them alone like T.
    assert limit(1, 40) > 8 * limit(1, 10)
    assert limit("1/2", 40) < 2 * limit("1/2", 10)


def test_bound_of_q_learning_is_infinite_where_the_bias_may_be_reached():
    task = online_audit.control_task("slow discount", Plan(horizon=30))
    assert math.isinf(online_audit.control_bound(task, Setting("bf16", EVERY)))
    bounds = [online_audit.plateau(task, parse_format(name)) for name in ("fp32", "fp64")]
    assert all(0 < after <= limit < 1 for after, limit in bounds)
    # Smaller by 2^29, but for what is of higher order.
    assert 0.99 < bounds[0][1] / bounds[1][1] / 2**29 < 1.01


def test_first_stage_is_where_the_error_enters():
    """A weight that is wrong by a quarter in one layer: that layer, in the first round, is named."""
    task = expert_tasks.sampled_experts(3, 2, "1/10", seed=1)
    built = weighted_majority.construction("one_block", 3, 2, task.eps)
    right = [0] * task.rounds
    trace = audit.exact_trace(lambda a: online_audit._all_steps(built, task, a))
    wrong = weighted_majority.program(
        "one_block", Weights(3, 3, 2, Fraction(7, 8), Fraction(1, 16), ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    )
    changed = dataclasses.replace(built, program=wrong)
    arithmetic = RoundedArithmetic("fp32")
    trial = online_audit._run_majority(changed, task, right, trace, Setting("fp32", EVERY), arithmetic)
    assert trial.stage.startswith("round 1, predict, learn: label.S") or trial.stage.startswith(
        "round 2, predict, learn"
    )
    same = online_audit._run_majority(built, task, right, trace, Setting("fp32", EVERY), arithmetic)
    assert same.stage == ""
    # Bounds speak of the program that was run: against another one they do not hold, and that is noticed.
    assert trial.violations > 0
    assert same.violations == 0


def test_gates_left_to_floats_keep_too_many_tokens():
    found = {s.variant: s for s in td_audit.subjects("td.executor", Plan())}
    row = audit_row(found[td_audit.FLOAT_GATES], Setting("fp32", EVERY))
    assert row.branches["rank"] == "1 of 1"
    assert row.bits_lost == 24
    assert row.sound
    assert audit_row(found["one pass"], Setting("fp32", EVERY)).branches["rank"] == "0 of 1"


def test_command_document_worst_case_and_replay(capsys):
    arguments = ("online.weighted-majority", "--formats", "bf16,fp16", "--model", "every", "--horizon", 4, "--quick")
    code, out, _ = call(capsys, "audit", *arguments, "--json")
    assert code == 0
    rows = json.loads(out)["audit"]
    keys = {
        "theorem",
        "format",
        "model",
        "error",
        "bits_lost",
        "running_bound",
        "tightness",
        "branches",
        "stage",
        "flags",
    }
    assert all(keys | {"sound"} <= set(row) for row in rows)
    assert [row["format"] for row in rows] == ["bf16", "fp16"]
    kept = "runs/audit/worst/online.weighted-majority-bf16-every.json"
    code, out, _ = call(capsys, "audit", "--replay", kept, "--json")
    again = json.loads(out)
    assert code == 0
    assert again["same"]
    assert again["audit"][0]["worst"] == rows[0]["worst"]
    document = json.loads(Path(kept).read_text())
    document["worst"]["computed"] = "1/7"
    Path(kept).write_text(json.dumps(document))
    assert call(capsys, "audit", "--replay", kept, "--json")[0] == 1
    code, out, _ = call(capsys, "audit", *arguments)
    assert code == 0
    assert "bits lost" in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["td.bits"], "expected one of td.executor"),
        (["td.executor", "--formats", "fp7"], "format: expected one of"),
        (["td.executor", "--model", "exact"], "model: expected one of"),
        (["td.executor", "--formats", "tf32", "--model", "torch"], "model torch: expected one of"),
        (["td.executor", "--task", "maze"], "expected a task among"),
        (["td.executor", "--tolerance", "-1"], "tolerance: expected"),
    ],
)
def test_bad_requests_are_refused(capsys, arguments, sentence):
    code, out, err = call(capsys, "audit", "--quick", *arguments)
    assert code == 2
    assert not out
    assert sentence in err


def test_a_violation_makes_the_exit_code_one(capsys, monkeypatch):
    monkeypatch.setattr(auditing, "subjects", lambda request: iter([fixed_subject(1, 0.25)]))
    code, out, _ = call(capsys, "audit", "td.executor", "--formats", "fp32", "--model", "every", "--json")
    assert code == 1
    assert json.loads(out)["audit"][0]["sound"] is False


def test_report_has_a_precision_section():
    row = audit_row(fixed_subject(Fraction(1, 2), 1.0), Setting("bf16", EVERY))
    stored = {"name": "td.executor", "stored": "now", "quick": True, "seed": 0, "rows": [row.to_json()]}
    results = {"certificates": [], "measurements": [], "complete": True, "quick": True, "seed": 0}
    results |= {"contextproof": "0", "environment": {}}
    page = render_report(results, [], [], [], [json.loads(json.dumps(stored))])
    assert "Precision audit" in page
    assert "every operation rounded" in page
    assert "<svg" in page
    assert "Precision audit" not in render_report(results, [], [], [])


@pytest.mark.parametrize("case", stalls.law_cases(True)[:27], ids=str)
def test_stall_law_is_bit_exact(case):
    assert stalls.law_holds(*case)


@settings(max_examples=60)
@given(st.integers(4, 12), st.integers(1, 2**12 - 1), st.integers(-3, 3))
def test_stall_law_for_any_increment(precision, top, exponent):
    h = stalls.rounder(precision)(math.ldexp(top, exponent))
    updates = min(2 ** (precision + 2), 6000)
    assert (stalls.iterated(h, precision, updates) == stalls.closed_form(h, precision, updates)).all()
    count, x = stalls.stall(h, precision)
    spacing = 2.0 ** (math.frexp(x)[1] - precision)
    assert h <= spacing / 2
    assert 2 ** (precision - 1) <= count <= 2 ** (precision + 1)


def test_scalar_rounding_is_that_of_formats():
    x = np.random.default_rng(0).standard_normal(500) * 100
    for precision in (4, 8, 11, 24):
        assert (round_doubles(x, bits(precision)) == list(map(stalls.rounder(precision), x))).all()


def test_one_hot_program_is_the_scalar_recursion():
    """Over unit vectors the program's log weights are those of the bare additions, bit for bit, in every format."""
    task = expert_tasks.sampled_experts(3, 12, "1/10", seed=2)
    built = weighted_majority.construction("one_block", 3, 2, task.eps)
    for name in ("bf16", "fp16", "fp32"):
        arithmetic = RoundedArithmetic(name)
        found = arithmetic.rows(built.outputs(task, arithmetic), 0, 3)
        h = stalls.increment(task.eps, arithmetic.roles.state.precision)
        wrong = np.array([task.wrong(t) for t in range(task.rounds)])
        sums = stalls.iterated(h, arithmetic.roles.state.precision, task.rounds)
        assert np.array_equal(found.T, -sums[np.cumsum(wrong, axis=0)])


def test_encodings():
    raw, relative, counts = (
        stalls.encoding_row(e, 8, Fraction(1, 10), 4000, 0) for e in ("raw", "relative counts", "counts")
    )
    assert raw["wrong"] > 0.02
    assert relative["wrong"] == 0
    assert counts["wrong"] > 0.02
    assert stalls.encoding_row("counts", 24, Fraction(1, 10), 4000, 0)["error"] == 0
    compensated = stalls.encoding_row("compensated", 8, Fraction(1, 10), 4000, 0)
    assert compensated["error"] < raw["error"] / 20


def test_plateau_within_its_bound():
    for model in (plateau.TABLE, plateau.OPERATIONS):
        found = plateau.run(0.1, 0.9, 11, model, 4000)
        assert 0 < found.late <= found.largest
        if model == plateau.TABLE:
            assert found.largest <= found.bound


def test_growth_has_names():
    at = (100, 400, 1600)
    assert growth_of(at, [1e-3] * 3)[1] == "flat"
    for power, name in ((0.5, "sqrt"), (1, "linear"), (2, "quadratic")):
        assert growth_of(at, [t**power for t in at])[1] == name
    errors = relative_errors(1.0, 2.0, parse_format("bf16"), "state", at)
    assert growth_of(at, errors)[1] == "sqrt"
    assert growth_of(at, relative_errors(0.9, 1.0, parse_format("bf16"), "state", at))[1] == "flat"


def test_bisection_finds_the_least():
    assert least_bits(lambda p: p >= 23) == 23
    assert least_bits(lambda p: True) == 4
    assert least_bits(lambda p: False) is None


@pytest.mark.slow
def test_precision_limits():
    rows = reproduce_precision(quick=True)
    found = {row["quantity"]: row for row in rows}
    assert found["stall law: cases bit-exact of 36"]["ours"] == 36
    assert all(row["agrees"] for row in rows if "stall" in row["quantity"] or "only the table" in row["quantity"])
    assert all(row["agrees"] is not False or row["reason"] for row in rows)
    assert sum(isinstance(row.get("figure"), dict) for row in rows) == 3


def test_rows_are_repeatable():
    (subject, *_) = recurrent_audit.subjects("recurrent.delta-rule", SHORT)
    first, second = (audit_row(subject, Setting("bf16", EVERY)) for _ in range(2))
    assert isinstance(first, AuditRow)
    assert json.dumps(first.to_json(), default=str) == json.dumps(second.to_json(), default=str)
    with Balls(300).working():
        assert subject.exact.nrows() == 4
