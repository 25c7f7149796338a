"""Catalogue rows on several policies: one context for a set of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from constructions.task import Task, exact_discount
from constructions.temporal_difference import policy_class
from constructions.temporal_difference.policy_class import PolicyClass
from numerics import tasks
from numerics.decision_tasks import (
    deterministic,
    policy_iteration,
    policy_task,
    random_process,
    soft,
    value_iteration,
)
from proofs_check.claim import Claim
from proofs_check.instances import Instance
from proofs_check.temporal_difference import policy_class as policy_class_proofs

from ..row import Options, Row, Shown, measured_by


def small_classes(seed: int) -> list[tuple[PolicyClass, int]]:
    """(class, depth L): one policy, m < n and m = n, L < k, zero rewards of one policy, terminal successors."""
    process = random_process(n=6, actions=3, branching=2, seed=seed)
    constant = [[action] * process.n for action in range(3)]
    three = tuple(policy_task(process, deterministic(process, a), f"action {a[0]}") for a in constant)
    mixed = tuple(policy_task(process, soft(process, a, Fraction(1, 4)), f"mostly {a[0]}") for a in constant)
    cycle = tasks.block_cycle(n=6, blocks=3, transitions=24, seed=seed)
    return [
        (PolicyClass(three[:1], "one policy"), 4),
        (PolicyClass(three, "three policies"), 7),
        (PolicyClass(three, "three policies, shallow"), 1),
        (PolicyClass(mixed[:2], "two soft policies"), 2),
        (PolicyClass((three[0], tasks.with_zero_rewards(three[1])), "a policy and one without reward"), 3),
        (PolicyClass((cycle, tasks.with_terminal(cycle, 0.25, seed)), "a cycle and its leaky twin"), 4),
    ]


def meeting_policies() -> PolicyClass:
    """Four states, reward 1 in state 0: one policy stays there and swaps states 1 and 2, the other moves 1 to 0.

    The Krylov spaces span {e_0} and {e_0, e_1}; the first policy takes e_1 to e_2, out of their sum.
    """
    reward = np.array([1, 0, 0, 0], dtype=np.int64)
    states = np.arange(4, dtype=np.int64)
    going = np.zeros(4, dtype=bool)
    g = exact_discount("9/10")
    moves = {"stay at 0, swap 1 and 2": [0, 2, 1, 3], "1 to 0": [2, 0, 2, 3]}
    return PolicyClass(
        tuple(Task(states, np.array(after), reward, going, 4, g, name) for name, after in moves.items()),
        "two policies that meet in state 0",
    )


def large_classes(seed: int) -> list[tuple[PolicyClass, int]]:
    """Policies of an iteration, and greedy ones of value iteration, at n = 24."""
    process = random_process(24, 4, 3, seed=seed)
    return [
        (PolicyClass(tuple(policy_iteration(process)), "policies of an iteration, n = 24"), 3),
        (PolicyClass(tuple(value_iteration(process, 10)), "greedy policies of value iteration, n = 24"), 12),
    ]


def _instances(classes: Sequence[tuple[PolicyClass, int]]) -> list[Instance]:
    return [Instance(policy_class.construction(policies, depth), policies) for policies, depth in classes]


def _proposals(seed: int) -> list[policy_class.Proposal]:
    found = [
        (
            policies,
            depth,
            policy_class.landmark_decoder(policies, depth, policy_class.sum_dimension(policies, depth) - 1),
        )
        for policies, depth in small_classes(seed)
    ]
    return [policy_class.Proposal(policies, depth, D) for policies, depth, D in found if D is not None]


def _policy_class_claims(options: Options) -> list[Claim]:
    seed = options.seed
    meeting = [(meeting_policies(), 4)]
    return policy_class_proofs.claims(
        lambda: _instances([*small_classes(seed), *meeting]),
        lambda: _proposals(seed),
        lambda: meeting,
        lambda: _instances(large_classes(seed)),
    )


def _shown(n: int, depth: int) -> Shown:
    process = random_process(n, 2, 2)
    actions = ([0] * n, [1] * n)
    policies = PolicyClass(
        tuple(policy_task(process, deterministic(process, a), f"action {a[0]}") for a in actions), "two"
    )
    built = policy_class.construction(policies, depth)
    return Shown(built, {"source": built.sizes["m"], "query": n})


ROWS = [
    Row(
        theorem=policy_class.THEOREM,
        title="One decoder serves every policy of a set iff its range contains the sum of their Krylov spaces",
        source=policy_class.SOURCE,
        docs=(
            "D is kept once; every policy adds H_p = W'A_p D and g_p = W'r_p, m^2 + m registers. One layer steps all"
            " policies, two heads each. Necessary: A_p^j r_p is a difference of outputs. Sufficient: D W' fixes the"
            " sum, so D H_p^j g_p = A_p^j r_p for j < L, although the sum is in general not invariant under A_p,"
            " however large L is (each K_L(A_p, r_p) is, once L >= its dimension). W selects m landmark states whose"
            " values give all others, for every policy. verify reproduce policy-class measures how m grows along"
            " policy iteration."
        ),
        show=_shown,
        claims=_policy_class_claims,
        measure=measured_by("temporal_difference.policy_class"),
    ),
]
