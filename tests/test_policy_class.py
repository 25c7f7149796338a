"""One context for several policies: exact for each, of the dimension of the sum; and sequences of exact policies."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference import policy_class
from constructions.temporal_difference.policy_class import PolicyClass
from numerics import decision_tasks, tasks
from numerics.decision_tasks import DecisionProcess, deterministic, policy_task, random_process, soft
from numerics.temporal_difference import policy_class as measured
from numerics.temporal_difference.dimension import krylov_dimension, sum_dimensions
from verify.rows.policies import meeting_policies

PROCESS = random_process(n=6, actions=3, branching=2, seed=1)


def made(actions, process=PROCESS):
    return policy_task(process, deterministic(process, actions), f"{actions}")


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 50),
    depth=st.integers(1, 7),
    actions=st.lists(st.lists(st.integers(0, 1), min_size=5, max_size=5), min_size=1, max_size=3),
)
def test_one_context_serves_every_policy(seed, depth, actions):
    process = random_process(5, 2, 2, seed=seed)
    if seed % 2:  # state 0 ends with reward 0, so it is no landmark
        ends = ((Fraction(1), 0, 0, True),)
        process = DecisionProcess(((ends, ends), *process.table[1:]), process.discount, "with an end")
    policies = PolicyClass(tuple(made(a, process) for a in actions), "drawn")
    built = policy_class.construction(policies, depth)
    rows = built.outputs(policies, RATIONALS).tolist()
    for p, task in enumerate(policies.tasks):
        A, r = task.A, task.r
        v = r * 0
        for l in range(depth + 1):
            assert rows[p * (depth + 1) + l] == v.transpose().tolist()[0]
            v = r + A * v
    found = [x.value for x in sum_dimensions(policies.tasks, depth, seed)]
    prefixes = [PolicyClass(policies.tasks[: t + 1], "first") for t in range(len(actions))]
    assert found == [policy_class.sum_dimension(prefix, depth) for prefix in prefixes]
    assert built.sizes["m"] == found[-1]


def test_landmarks_give_every_state():
    policies = PolicyClass((made([0] * 6), made([1] * 6)), "two")
    context = policy_class.shared_context(policies, 2)
    assert len(context.landmarks) == context.decoder.ncols() == 4
    identity = [[context.decoder[i, j] for j in range(4)] for i in context.landmarks]
    assert identity == RATIONALS.one_hot(range(4), 4).tolist()
    tokens = policy_class.context_tokens(context, RATIONALS)
    assert policy_class.registers(tokens, RATIONALS) == (6 * 4, 2 * (16 + 4))


def test_the_sum_is_not_invariant_but_serves():
    policies = meeting_policies()
    D = policy_class.shared_context(policies, 4).decoder
    moved = [RATIONALS.stack([[D, task.A * D]]).rank() for task in policies.tasks]
    assert moved == [3, 2]
    built = policy_class.construction(policies, 9)
    assert built.outputs(policies, RATIONALS) == built.reference(policies, RATIONALS)
    assert built.outputs(policies, RATIONALS, faithful=True) == built.reference(policies, RATIONALS)


def test_a_policy_without_reward_needs_nothing():
    first = made([0] * 6)
    with_none = PolicyClass((tasks.with_zero_rewards(first), first), "one without")
    dimensions = [x.value for x in sum_dimensions(with_none.tasks, 3)]
    assert dimensions == [0, krylov_dimension(first, 3).value]


def test_bad_input():
    first = made([0] * 6)
    other = made([0] * 6, random_process(6, 2, 2, "1/2"))
    with pytest.raises(BadInput, match="one discount"):
        PolicyClass((first, other), "mixed")
    with pytest.raises(BadInput, match="at least one policy"):
        PolicyClass((), "empty")
    with pytest.raises(BadInput, match="a reward that is not zero"):
        policy_class.construction(PolicyClass((tasks.with_zero_rewards(first),), "nothing"), 3)
    one, three = PolicyClass((first,), "one"), PolicyClass((first, made([1] * 6), made([2] * 6)), "three")
    with pytest.raises(BadInput, match=r"three: expected \(n, policies, m\) = \(6, 1, 3\)"):
        policy_class.construction(one, 3).outputs(three, RATIONALS)
    with pytest.raises(BadInput, match="sum to 1"):
        DecisionProcess((((((Fraction(1, 2), 0, 0, False)),),),), Fraction(1, 2), "half")
    with pytest.raises(BadInput, match="depth of at least 1"):
        sum_dimensions([first], 0)


def test_policy_tasks_are_exact():
    half = Fraction(1, 2)
    table = (
        (((half, 0, 1, False), (half, 1, 3, False)), ((Fraction(1), 1, 5, True),)),
        (((Fraction(1), 1, 0, True),),) * 2,
    )
    process = DecisionProcess(table, Fraction(9, 10), "made")
    worth = decision_tasks.action_values(process, [Fraction(10)] * 2)  # a terminal successor is worth nothing
    assert worth == [[11, 5], [0, 0]]
    assert decision_tasks.greedy(worth) == [0, 0]
    assert decision_tasks.greedy(worth, current=[1, 1]) == [0, 1]
    task = policy_task(process, soft(process, [0, 0], Fraction(1, 5)), "soft")
    g = Fraction(9, 10)
    exact = [[g * Fraction(9, 20), g * Fraction(9, 20)], [0, 0]]
    assert [[Fraction(int(x.p), int(x.q)) for x in row] for row in task.A.tolist()] == exact
    assert Fraction(int(task.r[0, 0].p), int(task.r[0, 0].q)) == Fraction(9, 10) * 2 + Fraction(1, 10) * 5


def test_policy_iteration_ends_where_value_iteration_does():
    last = list(decision_tasks.policy_iteration(PROCESS))[-1]
    values = np.array([float(x) for x in decision_tasks.exact_values(last)])
    best = np.zeros(6)
    for _ in range(400):
        worth = [
            [sum(float(p) * (x + 0.9 * best[s] * (not e)) for p, s, x, e in own) for own in a] for a in PROCESS.table
        ]
        best = np.array([max(x) for x in worth])
    assert np.abs(values - best).max() < 1e-9
    greedy = list(decision_tasks.value_iteration(PROCESS, 60))
    assert len({task.name for task in greedy}) == len(greedy)
    assert (greedy[-1].A, greedy[-1].r) == (last.A, last.r)


def test_gymnasium_tables():
    pytest.importorskip("gymnasium")
    lake = decision_tasks.gymnasium_process("FrozenLake-v1")
    assert {p for actions in lake.table for own in actions for p, *_ in own} == {Fraction(1, 3), Fraction(1)}
    with pytest.raises(BadInput, match="transition table"):
        decision_tasks.gymnasium_process("CartPole-v1")
    with pytest.raises(BadInput, match="environment of gymnasium"):
        decision_tasks.gymnasium_process("NoLake-v1")
    rows = measured.growth(list(decision_tasks.policy_iteration(lake)), 30, 0)
    assert [row["m"] for row in rows] == sorted(row["m"] for row in rows)
    last = rows[-1]
    assert last["m"] == 11  # of 16 states four are holes and one is the goal: they end, with reward 0
    count, total = last["policies"], sum(row["k"] for row in rows)
    assert (last["one decoder"], last["Z_0 each"]) == (16 * 11 + count * 132, 33 * total)


def test_measured_within_bounds():
    found = measured.measure()
    assert len(found) == 7
    assert all(m.sound for m in found)
    exact = [m for m in found if m.arithmetic == "exact Q"]
    assert [m.error.absolute for m in exact] == [0]
    assert all(m.error.absolute < 1e-5 for m in found)
