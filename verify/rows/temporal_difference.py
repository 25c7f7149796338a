"""Catalogue rows of the temporal-difference wing, and the tasks on which their instance claims are decided."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from constructions.construction import Construction
from constructions.task import Task
from constructions.temporal_difference import executor, full_context, krylov, statistics
from numerics import feature_tasks, tasks
from proofs_check.claim import Claim
from proofs_check.instances import Instance
from proofs_check.temporal_difference import executor as executor_proofs
from proofs_check.temporal_difference import full_context as full_context_proofs
from proofs_check.temporal_difference import krylov as krylov_proofs
from proofs_check.temporal_difference import statistics as statistics_proofs

from ..row import Options, Row, Shown, measured_by

Build = Callable[..., Construction]


def small_tasks(seed: int) -> list[tuple[Task, int]]:
    """(task, depth L): rank-deficient and full, zero reward, L < k, terminal and absorbing states, one state."""
    mixed = tasks.dirichlet_chain(n=4, transitions=24, seed=seed)
    return [
        (tasks.half_ring(n=2, discount="1/2"), 3),
        (tasks.block_cycle(n=6, blocks=3, transitions=24, seed=seed), 6),
        (mixed, 4),
        (mixed, 2),
        (tasks.with_zero_rewards(mixed), 3),
        (tasks.with_terminal(mixed, 0.25, seed=seed), 4),
        (tasks.with_absorbing(mixed, 1), 5),
        (tasks.reversible_chain(n=5, transitions=40, discount="0.99", seed=seed), 3),
    ]


def large_tasks(seed: int) -> list[tuple[Task, int]]:
    """The same kinds of task at n = 24, N = 960."""
    mixed = tasks.dirichlet_chain(n=24, transitions=960, seed=seed, concentration=0.1)
    return [
        (tasks.block_cycle(seed=seed), 30),
        (tasks.reversible_chain(seed=seed), 30),
        (mixed, 8),
        (tasks.with_terminal(mixed, 0.05, seed=seed), 10),
        (tasks.with_absorbing(mixed, 3), 10),
        (tasks.with_zero_rewards(mixed), 30),
    ]


def _statistics_instances(chosen: Sequence[tuple[Task, int]]) -> list[Instance]:
    return [Instance(statistics.construction(task.n), task) for task, _ in chosen]


def _instances(build: Build, chosen: Sequence[tuple[Task, int]], **variants: Sequence[Any]) -> list[Instance]:
    """Every task with every combination of the variants, such as passes=(1, 2)."""
    return [
        Instance(build(task.n, depth, **dict(zip(variants, values, strict=True))), task)
        for task, depth in chosen
        for values in itertools.product(*variants.values())
    ]


def _statistics_claims(options: Options) -> list[Claim]:
    return statistics_proofs.claims(
        lambda: _statistics_instances(large_tasks(options.seed)),
        lambda: _statistics_instances(small_tasks(options.seed)),
    )


def _krylov_claims(options: Options) -> list[Claim]:
    return krylov_proofs.claims(
        lambda: _instances(krylov.construction, large_tasks(options.seed)),
        lambda: _instances(krylov.construction, small_tasks(options.seed), passes=(1, 2)),
        lambda: _instances(krylov.construction, small_tasks(options.seed), passes=(1, 2), balanced=(True,)),
        lambda: _instances(krylov.construction, small_tasks(options.seed), passes=(1, 2), narrow=(True,)),
    )


def _executor_claims(options: Options) -> list[Claim]:
    return executor_proofs.claims(
        lambda: _instances(executor.construction, large_tasks(options.seed)),
        lambda: _instances(executor.construction, small_tasks(options.seed), passes=(1, 2)),
        lambda: _enclosed_instances(options),
    )


def _enclosed_instances(options: Options) -> list[Instance]:
    """Balanced, two passes, with the exact k as number of rounds; a task with k = 0 has nothing to enclose."""
    chosen = small_tasks(options.seed) + ([] if options.quick else large_tasks(options.seed)[:2])
    ranked = [(task, depth, krylov_proofs.krylov_rank(task, depth)) for task, depth in chosen]
    return [
        Instance(executor.construction(task.n, depth, passes=2, balanced=True, rounds=k), task)
        for task, depth, k in ranked
        if k
    ]


def _full_context_instances(seed: int, large: bool) -> list[Instance]:
    """Each algorithm on both Boyan chains and a random chain, with one preconditioner and with one for each layer."""
    out = []
    for algorithm in full_context.ALGORITHMS:
        g = "1" if algorithm == "average-reward" else "9/10"
        rate = "1/2" if algorithm == "td-lambda" else 0
        if large:
            depth, logs = (
                40,
                [
                    feature_tasks.boyan_chain(100, 1, seed),
                    feature_tasks.continuing_boyan_chain(discount=g, seed=seed),
                    feature_tasks.random_chain(8, 5, 100, g, seed),
                ],
            )
        else:
            depth, logs = (
                4,
                [
                    feature_tasks.random_chain(4, 2, 6, g, seed),
                    feature_tasks.continuing_boyan_chain(5, 3, 10, g, seed),
                    feature_tasks.boyan_chain(20, 1, seed),
                ],
            )
        for log in logs:
            for count in (1, depth):
                d, samples = log.size
                C = feature_tasks.small_matrices(count, d, seed)
                built = full_context.construction(
                    algorithm, d, samples, depth, preconditioners=C, step="1/2", rate=rate
                )
                out.append(Instance(built, log))
    return out


def _full_context_claims(options: Options) -> list[Claim]:
    return full_context_proofs.claims(
        lambda: _full_context_instances(options.seed, True), lambda: _full_context_instances(options.seed, False)
    )


def _counts(n: int, slots: int, queries: int) -> dict[str, int]:
    counts = {"raw": 2 * n, "state": n, "slot": slots, "source": slots, "query": queries}
    return {kind: count for kind, count in counts.items() if count}


ROWS = [
    Row(
        theorem=statistics.THEOREM,
        title="Stage 1: N raw transitions to n state tokens, by linear-attention heads",
        source="Thm 4.3, encoder stage 1",
        docs=(
            "Three heads count successors, rewards and visits into the state tokens, the primitive recip_0 and"
            " two more heads turn them into the rows of A = gP and r, and the raw tokens are released. Both layers"
            " are proved for every number of transitions and states on generic tokens; whole runs are compared"
            " with direct counting in Q."
        ),
        show=lambda n, depth: Shown(statistics.construction(n), _counts(n, 0, 0)),
        claims=_statistics_claims,
        measure=measured_by("temporal_difference.statistics"),
    ),
    Row(
        theorem=krylov.THEOREM,
        title="Stage 2: n state tokens to the k tokens of a Krylov context, by primal-dual Arnoldi",
        source="Thm 4.3, encoder stage 2",
        docs=(
            "Each round computes A b, normalises, and orthogonalises in one or two passes; compilation writes Z_0"
            " = [B; Y; g0'] into fresh tokens and the gate keeps exactly k of them. Every round and pass of a built"
            " encoder, and the compilation, are proved on generic tokens for every n and number of earlier tokens;"
            " induction gives W'B = I, r = B g0 and A^j r = B H^j g0, j < L, which the executor assumes. On instances"
            " in Q the context equals orthogonal projections computed by normal equations, its size is the rank of"
            " the Krylov matrix, and it decodes to TD; the balanced variant is exact over Q with square roots, the"
            " narrow layout (width 2n + 4) over Q."
        ),
        show=lambda n, depth: Shown(krylov.construction(n, depth), _counts(n, min(n, depth), 0)),
        claims=_krylov_claims,
        measure=measured_by("temporal_difference.krylov"),
    ),
    Row(
        theorem=executor.THEOREM,
        title="One repeated linear-attention layer reads every TD iterate out of the context",
        source="Thm 4.3, upper half",
        docs=(
            "P_TD, Q_TD and the mask M_k move the last row only: s becomes H s and c becomes c - E'Bs. This is"
            " proved for all sizes from the built layer, by block matrices and in the free matrix algebra, and"
            " lifted to every depth by induction under W'B = I and A^j r = B H^j g0, j < L. At sizes up to (n, k)"
            " = (4, 3) the matrices are checked entry by entry as polynomials; encoder and executor together equal"
            " TD in Q on the tasks named."
        ),
        show=lambda n, depth: Shown(executor.from_context(n, depth), {"source": n, "query": n}),
        claims=_executor_claims,
        measure=measured_by("temporal_difference.executor"),
    ),
    Row(
        theorem=full_context.THEOREM,
        title="TD(0), TD(lambda), residual gradient and average-reward TD on the full context of N samples",
        source="arXiv 2405.13861 (Wang, Blaser, Daneshmand, Zhang)",
        docs=(
            "One layer moves the last coordinate of every sample and query by one step of the algorithm, with any"
            " public preconditioner C in each layer (step and 1/N included). Sample t holds its temporal-difference"
            " error, query q holds -w'phi_q. TD(lambda) mixes the errors by T_ij = lambda^(i-j), i >= j (the trace"
            " decays by lambda as given), residual gradient scores against phi - g phi', average reward has two values,"
            " R minus its running mean and w'(phi' - phi). Each algorithm is proved for all sizes, depths and C; the"
            " matrices are checked as polynomials up to d = 64; runs on Boyan chains and random chains equal the"
            " algorithm in Q. Shown: TD(lambda) with decay 1/2 on 4 samples; TD(0) is the same without the mixing."
        ),
        show=lambda d, depth: Shown(
            full_context.construction("td-lambda", d, 4, depth, rate="1/2"), {"sample": 4, "query": 1}
        ),
        claims=_full_context_claims,
        measure=measured_by("temporal_difference.full_context"),
    ),
]
