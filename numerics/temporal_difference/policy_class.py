"""td.policy-class measured: one context for several policies in floats, and how its dimension grows as policies
improve.

A measurement runs the executor for all policies on the exact context, rounded once; its bound is that of
`residual_bound`, policy by policy.

Growth. Along a sequence of policies m_t = dim(sum of K_L(A_p, r_p), p <= t), decided modulo primes. Three ways to serve
the first t policies, in registers: one decoder, n m + t (m^2 + m); a Z_0 each, sum of (2n + 1) k_p; a memory-optimal
context each, sum of n k_p + k_p. One decoder pays where m stays well below n and k_p does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from constructions.exact import RATIONALS, Balls
from constructions.task import Task
from constructions.temporal_difference import policy_class
from constructions.temporal_difference.policy_class import PolicyClass
from numerics.decision_tasks import (
    DecisionProcess,
    gymnasium_process,
    policy_iteration,
    random_process,
    value_iteration,
)
from numerics.errors import error_against, residual_bound
from numerics.measurement import Measurement, timed
from numerics.mpmath_arithmetic import MpmathArithmetic
from numerics.temporal_difference.dimension import sum_dimensions
from numerics.temporal_difference.krylov import BALL_BITS, MPMATH_BITS
from numerics.torch_arithmetic import TorchArithmetic

VALUES = 30
"""Values of value iteration whose greedy policies are taken."""
SOFT = "1/10"


def measure_class(policies: PolicyClass, depth: int, arithmetic: Any, seed: int) -> Measurement:
    """The executor for all policies at once, on the exact context rounded once."""
    built = policy_class.construction(policies, depth)
    values, seconds = timed(arithmetic, lambda: built.outputs(policies, arithmetic))
    error = error_against(values, built.reference(policies, RATIONALS))
    if isinstance(arithmetic, Balls):
        bound, method = error.radius, "radii of the balls, entry by entry"
    else:
        height = depth + 1
        parts = [arithmetic.rows(values, p * height, (p + 1) * height) for p in range(len(policies.tasks))]
        bound = max(max(residual_bound(part, task)) for part, task in zip(parts, policies.tasks, strict=True))
        method = "a posteriori: exact residuals of the iterates of every policy"
    assert bound is not None
    return Measurement(
        theorem=policy_class.THEOREM,
        task=policies.name,
        arithmetic=arithmetic.name,
        sizes=built.sizes,
        error=error,
        reference="TD iterates of every policy in Q",
        bound=bound,
        method=method,
        seconds=seconds,
        seed=seed,
        flags=("executor alone, exact context rounded once",),
    )


def measure(
    seed: int = 0, quick: bool = True, device: Any = "cpu", dtypes: Sequence[str] = ("float32", "float64")
) -> list[Measurement]:
    """Policies of an iteration on random processes: m < n (shallow) and m = n.

    Raises:
        BadInput: an unknown dtype or device.
    """
    chosen = []
    for n, depth, count in ((8, 3, 2), (8, 30, 4)) if quick else ((8, 3, 2), (8, 30, 4), (24, 5, 4), (24, 60, 4)):
        process = random_process(n, 4, 3, seed=seed)
        policies = tuple(islice(policy_iteration(process), count))
        chosen.append((PolicyClass(policies, f"first policies of policy iteration on {process.name}"), depth))
    out = [
        measure_class(shared, depth, TorchArithmetic(dtype, device), seed)
        for dtype in dtypes
        for shared, depth in chosen
    ]
    shared, depth = chosen[0]
    precise: tuple[Any, ...] = (MpmathArithmetic(MPMATH_BITS), Balls(BALL_BITS), RATIONALS)
    return out + [measure_class(shared, depth, exact, seed) for exact in precise]


def growth(tasks: Sequence[Task], depth: int, seed: int) -> list[dict[str, Any]]:
    """One entry a policy: k of its own, m of all so far, and the registers of the three ways to serve all so far."""
    sums = sum_dimensions(tasks, depth, seed)
    n, k_total, rows = tasks[0].n, 0, []
    for t, (task, total) in enumerate(zip(tasks, sums, strict=True), start=1):
        k, m = sum_dimensions([task], depth, seed)[0].value, total.value
        k_total += k
        rows.append(
            {
                "policies": t,
                "k": k,
                "m": m,
                "method": total.method,
                "one decoder": n * m + t * (m * m + m),
                "Z_0 each": (2 * n + 1) * k_total,
                "memory-optimal each": (n + 1) * k_total,
            }
        )
    return rows


def sequences(process: DecisionProcess) -> list[tuple[str, Iterable[Task]]]:
    """Policy iteration, its soft version, and the greedy policies of value iteration."""
    return [
        ("policy iteration", policy_iteration(process)),
        (f"soft policy iteration, epsilon = {SOFT}", policy_iteration(process, SOFT)),
        (f"greedy policies of {VALUES} values of value iteration", value_iteration(process, VALUES)),
    ]


def processes(quick: bool, seed: int) -> list[tuple[DecisionProcess, int]]:
    """(process, depth L)."""
    lake = gymnasium_process("FrozenLake-v1", "99/100")
    small = random_process(24, 4, 3, seed=seed)
    if quick:
        return [(small, 4), (lake, 30)]
    large = gymnasium_process("FrozenLake-v1", "99/100", map_name="8x8")
    taxi = gymnasium_process("Taxi-v4", "9/10")
    return [(small, 4), (random_process(200, 4, 3, seed=seed), 8), (lake, 30), (large, 30), (taxi, 30)]


def reproduce_policy_class(quick: bool = True, seed: int = 0, device: str = "cpu") -> list[dict[str, Any]]:
    """How m grows along three sequences of policies, and what serving them costs; the source has no such figures.

    Everything is exact or a rank modulo primes, whatever the device.

    Raises:
        BadInput: gymnasium is not installed.
    """
    rows: list[dict[str, Any]] = []
    for process, depth in processes(quick, seed):
        for name, policies in sequences(process):
            found = growth(list(policies), depth, seed)
            last = found[-1]
            setting = f"{process.name}, n={process.n}, L={depth}, {name}: {last['policies']} policies"
            certain = all(row["method"] == "exact in Q" for row in found if row["m"] == process.n)
            decided = "ranks modulo two 50-bit primes" + ("; exact where m = n" if certain else "")
            figures = {
                "k of each policy": [row["k"] for row in found],
                "m after each policy": [row["m"] for row in found],
                "registers: one decoder": last["one decoder"],
                "registers: Z_0 each": last["Z_0 each"],
                "registers: memory-optimal each": last["memory-optimal each"],
            }
            for quantity, ours in figures.items():
                text = " ".join(map(str, ours)) if isinstance(ours, list) else ours
                rows.append(
                    {
                        "name": "policy-class",
                        "quantity": quantity,
                        "setting": setting,
                        "source": "none",
                        "ours": text,
                        "agrees": None,
                        "reason": f"the source has no such figure; {decided}",
                        "seed": seed,
                    }
                )
    return rows
