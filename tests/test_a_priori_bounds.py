"""A-priori bounds: they hold on random tasks, are of the size of the errors, and grow as the theory says."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.exact import RATIONALS
from constructions.temporal_difference import executor, memory_optimal
from numerics import audit, expert_tasks
from numerics.audit import EVERY, TORCH, WIDE, Plan, Setting, audit_row
from numerics.errors import error_against
from numerics.formats import parse_format
from numerics.online_learning import audit as online_audit
from numerics.online_learning import stalls
from numerics.recurrent import audit as recurrent_audit
from numerics.reversible_tasks import symmetric_chain
from numerics.tasks import dirichlet_chain
from numerics.temporal_difference import audit as td_audit
from numerics.temporal_difference.a_priori import executor_recursion, memory_optimal_recursion


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


def test_bound_of_the_delta_rule_is_smaller_where_the_states_are_known():
    (subject, *_) = recurrent_audit.subjects("recurrent.delta-rule", Plan(quick=False, horizon=60))
    stream = recurrent_audit.unit_stream(Fraction(1), Fraction(1), 60, 8, 0)
    setting = Setting("fp32", EVERY)
    assert subject.a_priori(setting) < recurrent_audit.state_bound(stream, setting) / 2


EXECUTORS = {
    "td.executor": (executor_recursion, executor.from_context),
    "td.memory-optimal": (memory_optimal_recursion, memory_optimal.from_context),
}


@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.sampled_from(["e5m2", "bf16", "fp16", "p6", "fp32", "fp64"]),
    st.sampled_from(list(EXECUTORS)),
)
def test_bound_of_executors_on_random_tasks(seed, name, theorem):
    task = dirichlet_chain(3, 24, seed=seed) if seed % 2 else symmetric_chain(4, seed=seed)
    depth = 1 + seed % 7
    recursion, from_context = EXECUTORS[theorem]
    built, bound = from_context(task.n, depth), recursion(task, depth).bound
    exact = executor.td_values(task, depth, RATIONALS)
    for model in (EVERY, WIDE, *([TORCH] if name in audit.TORCH_NAMES else [])):
        setting = Setting(name, model)
        assert error_against(built.outputs(task, setting.arithmetic()), exact).absolute <= bound(setting)


@pytest.mark.parametrize("theorem", EXECUTORS)
def test_bound_of_executors_is_of_the_size_of_errors(theorem):
    """Between 50 and 2000 times the largest of the errors, in formats whose square of u is nothing."""
    for task in td_audit.TASKS:
        subject = next(iter(td_audit.subjects(theorem, Plan(task=task))))
        for name in ("fp32", "fp64"):
            row = audit_row(subject, Setting(name, EVERY))
            assert 50 < row.a_priori / row.errors["absolute"]["max"] < 2000


def test_bound_of_executors_is_broken_by_another_program():
    """A program whose answers are off by 2^-11."""
    subject = next(iter(td_audit.subjects("td.executor", Plan())))

    def shifted(setting, arithmetic):
        trial = subject.run(setting, arithmetic)
        moved = [x + fmpq(1, 2**11) for x in trial.values]
        return dataclasses.replace(trial, values=moved, limits=[1.0] * len(moved))

    assert audit_row(subject, Setting("fp32", EVERY)).sound
    row = audit_row(dataclasses.replace(subject, run=shifted), Setting("fp32", EVERY))
    assert row.sound is False
    assert "A-PRIORI BOUND VIOLATED" in row.flags


def test_bound_of_q_learning_is_infinite_where_the_bias_may_be_reached():
    task = online_audit.control_task("slow discount", Plan(horizon=30))
    assert math.isinf(online_audit.control_bound(task, Setting("bf16", EVERY)))
    bounds = [online_audit.plateau(task, parse_format(name)) for name in ("fp32", "fp64")]
    assert all(0 < after <= limit < 1 for after, limit in bounds)
    # Smaller by 2^29, but for what is of higher order.
    assert 0.99 < bounds[0][1] / bounds[1][1] / 2**29 < 1.01
