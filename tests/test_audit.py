"""The audit: rows that hold, violations that are seen, stages, branches, replays, limits of precision, the report."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from flint import fmpq, fmpq_mat

from constructions.exact import Balls
from constructions.online_learning import weighted_majority
from constructions.online_learning.expert_weights import Weights
from numerics import audit, expert_tasks
from numerics.audit import EVERY, AuditRow, Plan, Setting, Subject, Trial, audit_row, bits_lost
from numerics.formats import parse_format
from numerics.online_learning import audit as online_audit
from numerics.recurrent import audit as recurrent_audit
from numerics.rounded_arithmetic import RoundedArithmetic
from numerics.temporal_difference import audit as td_audit
from verify import auditing
from verify.auditing import Request
from verify.command_line import main
from verify.report import render_report
from verify.storage import to_json

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
    assert unknown.sound is None
    assert unknown.unbounded == 1
    assert audit_row(fixed_subject(1, math.inf), setting).sound is None
    assert audit_row(fixed_subject(1, math.inf, a_priori=math.inf), setting).sound is None
    assert audit_row(fixed_subject(1, math.inf, a_priori=0.7), setting).sound is True
    assert any("not finite" in flag for flag in unknown.flags)
    assert not audit_row(fixed_subject(None, 1.0), setting).sound


@pytest.mark.parametrize("theorem", auditing.WINGS)
def test_rows_hold_in_every_model(theorem):
    formats = ("bf16", "fp32") if theorem.startswith(("td", "recurrent")) else ("bf16",)
    rows = list(auditing.audit(Request((theorem,), formats, horizon=3, quick=True), lambda step: None))
    assert {row["model"] for row in rows} == set(audit.MODEL_TEXT.values())
    for row in rows:
        largest = float(row["error"]["absolute"]["max"])
        assert row["sound"]
        assert largest <= float(row["running_bound"])
        assert row["a_priori"] is None or largest <= float(row["a_priori"])
        assert (row["a_priori"] is not None) >= ("exact context" in row["variant"])
        if "gates left" not in row["variant"]:
            # Nothing goes wrong on these tasks: in fp32 every variant is right to four digits, in bf16 to one.
            assert row["error"]["relative"]["max"] < {"fp32": 1e-4, "bf16": 0.3}[row["format"]]


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


def test_a_row_without_any_bound_is_no_check_that_passed(capsys, monkeypatch):
    monkeypatch.setattr(auditing, "subjects", lambda request: iter([fixed_subject(1, math.inf)]))
    arguments = ("td.executor", "--formats", "fp32", "--model", "every")
    code, out, _ = call(capsys, "audit", *arguments, "--json")
    assert code == 0
    (row,) = json.loads(out)["audit"]
    assert (row["sound"], row["unbounded"], row["entries"], row["running_bound"]) == (None, 1, 1, "inf")
    _, out, _ = call(capsys, "audit", *arguments)
    assert "yes" not in out
    assert "1 of 1 entries without a running bound" in " ".join(out.split())


def test_an_interrupted_audit_goes_on(monkeypatch):
    request = Request(("td.executor",), ("bf16", "fp16", "fp32"), ("every",), quick=True)
    runs = []

    def subject(fails):
        def run(setting, arithmetic):
            runs.append(setting.format)
            if setting.format == fails:
                raise KeyboardInterrupt
            return fixed_subject(1, 1.0).run(setting, arithmetic)

        return dataclasses.replace(fixed_subject(1, 1.0), run=run)

    def silent(step):
        pass

    monkeypatch.setattr(auditing, "subjects", lambda request: iter([subject("fp32")]))
    with pytest.raises(KeyboardInterrupt):
        auditing.audit_theorem("td.executor", request, silent)
    stored = json.loads(Path("runs/audit/td.executor.json").read_text())
    assert (len(stored["rows"]), stored["complete"]) == (2, False)
    monkeypatch.setattr(auditing, "subjects", lambda request: iter([subject("")]))
    runs.clear()
    resumed = auditing.audit_theorem("td.executor", request, silent, resume=True)
    assert runs == ["fp32"]
    assert resumed == auditing.audit_theorem("td.executor", request, silent)
    assert json.loads(Path("runs/audit/td.executor.json").read_text())["complete"]
    runs.clear()
    auditing.audit_theorem("td.executor", dataclasses.replace(request, seed=1), silent, resume=True)
    assert len(runs) == 3


def test_a_device_that_is_not_there_is_refused(capsys):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    for model in ("torch", "every"):
        code, out, err = call(capsys, "audit", "td.executor", "--quick", "--device", "cuda", "--model", model)
        assert code == 2
        assert not out
        assert err.count("\n") == 1
        assert "expected a CUDA device" in err


def test_report_has_a_precision_section():
    found = [
        audit_row(fixed_subject(Fraction(1, 2), limit), Setting("bf16", EVERY)).to_json() for limit in (1.0, math.inf)
    ]
    stored = {"name": "td.executor", "stored": "now", "quick": True, "seed": 0, "rows": json.loads(to_json(found))}
    results = {"certificates": [], "measurements": [], "complete": True, "quick": True, "seed": 0}
    results |= {"contextproof": "0", "environment": {}}
    page = render_report(results, [], [], [], [stored])
    assert "Precision audit" in page
    assert "every operation rounded" in page
    assert "1 of 1 entries without a running bound" in page
    assert "<svg" in page
    assert "Precision audit" not in render_report(results, [], [], [])


def test_rows_are_repeatable():
    (subject, *_) = recurrent_audit.subjects("recurrent.delta-rule", SHORT)
    first, second = (audit_row(subject, Setting("bf16", EVERY)) for _ in range(2))
    assert isinstance(first, AuditRow)
    assert json.dumps(first.to_json(), default=str) == json.dumps(second.to_json(), default=str)
    with Balls(300).working():
        assert subject.exact.nrows() == 4
