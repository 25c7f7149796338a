"""Catalogue rows on other executors of the same context, and on learning an executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from constructions.task import Task
from constructions.temporal_difference import doubling, identifiability, joint_training, learnability, softmax_executor
from numerics import tasks
from proofs_check.claim import Claim
from proofs_check.instances import Instance
from proofs_check.temporal_difference import doubling as doubling_proofs
from proofs_check.temporal_difference import free_weights
from proofs_check.temporal_difference import identifiability as identifiability_proofs
from proofs_check.temporal_difference import joint_training as joint_proofs
from proofs_check.temporal_difference import learnability as learnability_proofs
from proofs_check.temporal_difference import softmax_executor as softmax_proofs

from ..row import Options, Row, Shown, measured_by
from .temporal_difference import small_tasks


def _doubling_claims(options: Options) -> list[Claim]:
    seed = options.seed
    mixed = tasks.dirichlet_chain(n=3, transitions=12, seed=seed)
    cycle = tasks.block_cycle(n=6, blocks=3, transitions=24, seed=seed)
    slow = tasks.dirichlet_chain(n=4, transitions=24, discount="999999/1000000", seed=seed)
    return doubling_proofs.claims(
        lambda: [
            Instance(doubling.from_context(t.n, L), t)
            for t, depths in ((mixed, range(1, 65)), (cycle, (1, 2, 5, 64)))
            for L in depths
        ],
        lambda: [Instance(doubling.construction(t.n, L), t) for t, L in [*small_tasks(seed)[1:7], (mixed, 20)]],
        lambda: [Instance(doubling.from_context(t.n, doubling_proofs.LONGEST), t) for t in (slow, cycle)],
    )


def _softmax_claims(options: Options) -> list[Claim]:
    seed = options.seed

    def compiled(chosen: Sequence[tuple[Task, int]]) -> list[Instance]:
        return [
            Instance(softmax_executor.from_context(task.n, L, task.discount, kind), task)
            for task, L in chosen
            for kind in softmax_executor.CONTEXTS
        ]

    few = small_tasks(seed)
    deep = (tasks.dirichlet_chain(n=3, transitions=12, seed=seed), 24)
    cycle, chain = tasks.block_cycle(seed=seed), tasks.reversible_chain(seed=seed)
    return softmax_proofs.claims(
        lambda: compiled([*few, deep]),
        lambda: [*compiled([few[1], few[5]]), *compiled([(cycle, 30)])],
        lambda: compiled([(cycle, 30), (chain, 30)]),
    )


def sampled_tasks(n: int, count: int, seed: int) -> list[Task]:
    """`count` chains with Dirichlet rows, 5 transitions a state."""
    return [tasks.dirichlet_chain(n=n, transitions=5 * n, seed=seed + i) for i in range(count)]


def _learnability_claims(options: Options) -> list[Claim]:
    seed = options.seed
    return learnability_proofs.claims(
        lambda: [free_weights.sample(sampled_tasks(n, count, seed), 1) for n, count in ((1, 1), (3, 3), (2, 2))],
        lambda: [sampled_tasks(n, count, seed) for n, count in ((2, 4), (6, 20), (12, 40))],
    )


def _ranked(chosen: Sequence[Task], depth: int, rank: int, kernel: Any = (), why: str = "") -> Any:
    return identifiability_proofs.Ranked(free_weights.sample(chosen, depth), rank, kernel, why)


def constant_reward_tasks(n: int, count: int, seed: int) -> list[Task]:
    """The sampled tasks with one reward, 1, 2, .., in every state of a task."""
    return [
        replace(task, rewards=np.full(task.transitions, i + 1), name=f"{task.name} with reward {i + 1}")
        for i, task in enumerate(sampled_tasks(n, count, seed))
    ]


def unentered_tasks(n: int, count: int, seed: int) -> list[Task]:
    """The sampled tasks with every transition into state 0 made terminal."""
    return [
        replace(task, terminal=task.terminal | (task.successors == 0), name=f"{task.name}, state 0 never entered")
        for task in sampled_tasks(n, count, seed)
    ]


def _identifiability_claims(options: Options) -> list[Claim]:
    proofs, seed = identifiability_proofs, options.seed
    few = [(n, L, count) for n, L, count in ((1, 2, 1), (3, 2, 9), (3, 3, 3), (2, 2, 4))]
    ring = tasks.ring([1, 0, 0, -1], "9/10")
    return proofs.claims(
        lambda: [_ranked(sampled_tasks(n, count, seed), L, 2 * n * n) for n, L, count in few],
        lambda: [
            _ranked(sampled_tasks(n, 2 * n, seed), 1, n * n, proofs.one_step_kernel(n), "no condition on W")
            for n in (3, 2)
        ],
        lambda: [
            *(
                _ranked(constant_reward_tasks(3, 9, seed), L, 6, proofs.constant_reward_kernel(3), "rewards constant")
                for L in (2, 5)
            ),
            *(
                _ranked(unentered_tasks(3, 9, seed), L, 15, proofs.dead_state_kernel(3, 0), "A e_0 = 0 in every task")
                for L in (5, 2)
            ),
        ],
        lambda: [
            proofs.end_point(task, L)
            for task in (tasks.dirichlet_chain(n=4, transitions=24, seed=seed), ring)
            for L in (1, 2, 4, 8, 16, 24)
        ],
    )


def _joint_claims(options: Options) -> list[Claim]:
    seed = options.seed
    cycle = tasks.block_cycle(n=4, blocks=2, transitions=16, seed=seed)
    low = [tasks.block_cycle(n=4, blocks=2, transitions=16, seed=seed + i) for i in range(2)]
    factors = ((Fraction(2), Fraction(1)), (Fraction(1), Fraction(-1, 3)), (Fraction(3, 2), Fraction(4, 5)))
    return joint_proofs.claims(
        lambda: [
            joint_proofs.shared(n, depth, sampled_tasks(n, count, seed)) for n, depth, count in ((2, 3, 4), (3, 4, 6))
        ],
        lambda: [
            joint_proofs.free_contexts(2, 3, sampled_tasks(2, 2, seed)),
            joint_proofs.free_contexts(4, 4, low),
            joint_proofs.free_contexts(3, 4, sampled_tasks(3, 2, seed)),
        ],
        lambda: [
            Instance(joint_training.construction(task.n, 4, joint_training.surface(a, b)), task)
            for task in (*sampled_tasks(3, 2, seed), cycle)
            for a, b in factors
        ],
    )


ROWS = [
    Row(
        theorem=doubling.THEOREM,
        title="One depth-L query in bit_length(L) + 2 layers, by doubling",
        source=doubling.SOURCE,
        docs=(
            "The sources form H from Z_0, then square it once a layer and keep S_a = sum_{j<a} H^j g0 beside it; the"
            " binary digits of L choose which layers take S into the answer. Every layer of the built programs of"
            " L = 44 and 90, which have all forms of layer, is proved for every n, k and h, S_{a+b} = S_a + H^a S_b by"
            " induction, and programs of other L consist of the same layers. L = 1 .. 64 in Q on instances; L = 10^6"
            " enclosed in balls at g = 1 - 10^-6, where v_L is far from its limit."
        ),
        show=lambda n, depth: Shown(doubling.from_context(n, depth), {"source": min(n, depth), "query": n}),
        claims=_doubling_claims,
        measure=measured_by("temporal_difference.doubling"),
    ),
    Row(
        theorem=softmax_executor.THEOREM,
        title="The same context executed by one layer with two softmax heads",
        source=softmax_executor.SOURCE,
        docs=(
            "Softmax weights are positive and sum to one, so signs go into the values: one head holds the positive part"
            " of G = [-B; H - I], the other the negative one, both plus a public delta, as logarithms; a null source of"
            " value 0 takes what is left of a public K. The difference of the heads is G s: proved for all n and k on"
            " the built layer with exp(log x) = x, as rational functions at sizes, in Q on instances, in balls at"
            " n = 24. K is public for contexts balanced by powers of two and for companion contexts. Compiled, outside"
            " the program, are 2 (n + k)(k + 1) logarithms and k values; a fresh query needs its code only."
        ),
        show=lambda n, depth: Shown(
            softmax_executor.from_context(n, depth, "9/10"), {"source": min(n, depth), "null": 1, "query": n}
        ),
        claims=_softmax_claims,
        measure=measured_by("temporal_difference.softmax_executor"),
    ),
    Row(
        theorem=identifiability.THEOREM,
        title="Trajectories single out the executor's weights, a converged end point does not",
        source=identifiability.SOURCE,
        docs=(
            "Exact values at depths 1 and 2 leave (C, W) = (-I, I) only, whenever E[(rr') (x) (A'A)] > 0: proved for"
            " all n from the built layer, and globally, not only to first order. In Q the Jacobian of the built program"
            " has full column rank for L >= 2 and rank n^2 for L = 1; where a moment is singular its kernel is shown. A"
            " converged end point has the null direction (-I, I); at depth L the derivative along it is L A^{L-1} r."
        ),
        show=lambda n, depth: Shown(learnability.construction(n, depth), {"source": n, "query": n}),
        claims=_identifiability_claims,
    ),
    Row(
        theorem=learnability.THEOREM,
        title="The executor's weights are learned by gradient descent on a calibrated loss, at a certified rate",
        source=learnability.SOURCE,
        docs=(
            "The executor's layer with free weights C and W in its scores makes one step F = I + C' + A W; asked to"
            " answer u and to move on to A u, its loss is the quadratic form of [[2I, EA], [EA', E A'A]] (x) I in"
            " (C' + I, W - I): read off the built layer for all n, and compared entry by entry in Q. The eigenvalue"
            " bounds are polynomial identities; k and b of a sample are decided in Q to 2^-20, and exact gradient"
            " descent contracts as stated."
        ),
        show=lambda n, depth: Shown(learnability.construction(n, depth), {"source": n, "query": n}),
        claims=_learnability_claims,
        measure=measured_by("temporal_difference.learnability"),
    ),
    Row(
        theorem=joint_training.THEOREM,
        title="Encoder and executor trained together: the compiled construction is a minimum, and what is flat there",
        source=joint_training.SOURCE,
        docs=(
            "Free are the scores' weights of the compile layer (M, p, q, G) and of the executor (C, W). At the compiled"
            " weights the loss is zero, so the Hessian is J'J, had exactly by running the program on first-order jets"
            " over Q. On the samples of full-rank tasks it has two zero eigenvalues, the tangents of a surface of exact"
            " constructions, and is positive otherwise. With a free context for each task 2n^2 + nk a task are flat:"
            " GL_k, the unread part of Y, and every change of C and W. Not proved: that descent from elsewhere ends"
            " there, nor anything with the Arnoldi rounds free; descent from perturbed weights is measured."
        ),
        show=lambda n, depth: Shown(
            joint_training.construction(n, depth),
            {"raw": 2 * n, "state": n, "slot": min(n, depth), "source": min(n, depth), "query": n},
        ),
        claims=_joint_claims,
        measure=measured_by("temporal_difference.joint_training"),
    ),
]
"""In catalogue order."""
