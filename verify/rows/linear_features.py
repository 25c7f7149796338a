"""Catalogue row of batch TD on linear features, and the logs on which its instance claims are decided."""

from __future__ import annotations

from collections.abc import Callable

from constructions.temporal_difference import linear_features
from constructions.temporal_difference.full_context import FeatureLog
from constructions.temporal_difference.linear_features import BatchTask
from numerics import feature_tasks
from proofs_check.claim import Claim
from proofs_check.instances import Instance
from proofs_check.temporal_difference import linear_features as proofs

from ..row import Options, Row, Shown, measured_by


def small_logs(seed: int) -> list[tuple[FeatureLog, int]]:
    """(log, depth L): L < d and L > d, one feature, dependent ones, tilings that sum to one, zero reward, terminals."""
    chain = feature_tasks.random_chain(4, 3, 8, "9/10", seed)
    return [
        (chain, 2),
        (chain, 4),
        (feature_tasks.random_chain(3, 1, 5, "1/2", seed), 3),
        (feature_tasks.with_dependent_feature(chain), 5),
        (feature_tasks.tiled_walk(seed=seed), 6),
        (feature_tasks.with_zero_rewards(chain), 3),
        (feature_tasks.boyan_chain(20, 1, seed), 5),
        (feature_tasks.continuing_boyan_chain(5, 2, 12, "99/100", seed), 4),
    ]


def large_logs(seed: int) -> list[tuple[FeatureLog, int]]:
    """The same kinds with up to 16 features and 200 transitions."""
    return [
        (feature_tasks.boyan_chain(200, "9/10", seed), 30),
        (feature_tasks.random_chain(20, 12, 120, "9/10", seed), 14),
        (feature_tasks.tiled_walk(20, 3, 4, 200, "9/10", seed), 20),
    ]


def _tasks(logs: list[tuple[FeatureLog, int]]) -> list[tuple[BatchTask, int]]:
    """Each log with two steps that are not 1/N, stable or not: an identity asks for neither."""
    return [(BatchTask(log, f"1/{3 + i}"), depth) for i, (log, depth) in enumerate(logs)]


def _instances(
    build: Callable, logs: list[tuple[FeatureLog, int]], passes: tuple[int, ...] = (1,), **variant: bool
) -> list[Instance]:
    return [Instance(build(task.n, depth, passes=p, **variant), task) for task, depth in _tasks(logs) for p in passes]


def _claims(options: Options) -> list[Claim]:
    chosen = small_logs(options.seed)
    whole, encoder = linear_features.construction, linear_features.encoder
    return proofs.claims(
        lambda: _instances(encoder, chosen, (1, 2)),
        lambda: _instances(whole, chosen, (1, 2)),
        lambda: _instances(whole, [(feature_tasks.with_unit_queries(log, alone=True), L) for log, L in chosen]),
        lambda: _instances(whole, chosen, balanced=True),
        lambda: _instances(whole, large_logs(options.seed)),
    )


def _shown(d: int, depth: int) -> Shown:
    h = min(d, depth)
    counts = {"raw": 2 * d, "state": d, "slot": h, "source": h, "query": 1}
    return Shown(linear_features.construction(d, depth), counts)


ROWS = [
    Row(
        theorem=linear_features.THEOREM,
        title="Batch TD on linear features: N raw transitions to a context of dim K_L(M, s_0) tokens",
        source=linear_features.SOURCE,
        docs=(
            "w_{l+1} = w_l + a (b_N - A_N w_l) is the affine recursion with M = I - a A_N and s_0 = a b_N. Seven heads"
            " in two layers gather the moments of (phi, phi', R) and form M and s_0, nothing is inverted; stage 2 and"
            " the executor are those of the tabular case, their proofs read off this program. Stage 1 is proved for"
            " every N and d; whole runs equal batch TD in Q on logs with dependent features, tilings that sum to one,"
            " fewer depths than features and zero reward, and as rational functions of every number in the log. No"
            " linear decoder has fewer than k = dim K_L(M, s_0) dimensions, and k does not depend on the step. Logs"
            " whose features span k dimensions, with any successors and rewards, need dk + k registers (Jacobian and"
            " invariance of domain); where phi and phi' take finitely many known values this is not claimed. The"
            " context keeps (2d + 1) k."
        ),
        show=_shown,
        claims=_claims,
        measure=measured_by("temporal_difference.linear_features"),
    )
]
"""One row."""
