"""Catalogue rows on less context than the Krylov dimension: sample-and-hold, midpoint hold, the exact minimax law."""

from __future__ import annotations

from collections.abc import Sequence

from constructions.construction import Construction
from constructions.errors import BadInput
from constructions.task import Task
from constructions.temporal_difference import anchored, midpoint_hold, minimax, sample_and_hold
from proofs_check.claim import Claim
from proofs_check.instances import Instance
from proofs_check.temporal_difference import anchored as anchored_proofs
from proofs_check.temporal_difference import midpoint_hold as midpoint_proofs
from proofs_check.temporal_difference import minimax as minimax_proofs
from proofs_check.temporal_difference import sample_and_hold as hold_proofs

from ..row import Options, Row, Shown, measured_by
from .temporal_difference import large_tasks, small_tasks


def _hold_instances(chosen: Sequence[tuple[Task, int]], sizes: Sequence[int]) -> list[Instance]:
    """The schedule of Thm 4.5 on every task, for each m whose first sample is not beyond L; and every depth sampled."""
    out = []
    for task, depth in chosen:
        options = [sample_and_hold.schedule(task.discount, m).depths for m in sizes]
        options = [depths for depths in options if depths[0] <= depth]
        for depths in [*options, tuple(range(1, min(depth, 4) + 1))]:
            out.append(Instance(sample_and_hold.construction(task.n, depth, depths), task))
    return out


def _midpoint_instances(chosen: Sequence[tuple[Task, int]], sizes: Sequence[int]) -> list[Instance]:
    return [
        Instance(midpoint_hold.construction(task.n, depth, m, task.discount), task)
        for task, depth in chosen
        for m in sizes
    ]


def _anchored_instances(chosen: Sequence[tuple[Task, int]], sizes: Sequence[int]) -> list[Instance]:
    """Both readings of the even split on every task, for each m whose first sample is not beyond L."""
    out = []
    for task, depth in chosen:
        for found in (anchored.split(task.discount, m) for m in sizes):
            if found.samples and found.samples[0] <= depth:
                for reading in anchored.READINGS:
                    built = anchored.construction(task.n, depth, found.k, found.samples, reading)
                    out.append(Instance(built, task))
    return out


def _small_anchored_instances(seed: int) -> list[Instance]:
    """Two vectors and two samples, rank-deficient, zero and absorbing; terminal successors; first both readings."""
    _, cycle, _, _, zero, terminal, absorbing, _ = small_tasks(seed)
    chosen: list[tuple[tuple[Task, int], int, Sequence[int], str]] = [
        *((cycle, 2, (3, 6), reading) for reading in anchored.READINGS),
        *((terminal, 1, (3,), reading) for reading in anchored.READINGS),
        (zero, 1, (2,), "residual"),
        (absorbing, 3, (5,), "residual"),
    ]
    return [
        Instance(anchored.construction(task.n, depth, k, samples, reading), task)
        for (task, depth), k, samples, reading in chosen
    ]


def _hold_claims(options: Options) -> list[Claim]:
    return hold_proofs.claims(
        lambda: _hold_instances(large_tasks(options.seed), (4, 12)),
        lambda: _hold_instances(small_tasks(options.seed), (1, 2, 3)),
    )


def _anchored_claims(options: Options) -> list[Claim]:
    return anchored_proofs.claims(
        lambda: _anchored_instances(large_tasks(options.seed), (4, 12)),
        lambda: _small_anchored_instances(options.seed),
    )


def _midpoint_claims(options: Options) -> list[Claim]:
    return midpoint_proofs.claims(
        lambda: _midpoint_instances(large_tasks(options.seed), (4, 12)),
        lambda: _midpoint_instances(small_tasks(options.seed), (1, 2, 3)),
    )


def _minimax_claims(options: Options) -> list[Claim]:
    """The law at the triples of the catalogue, or only at the one that the user chose."""
    if options.discount is None and options.m is None:
        return minimax_proofs.claims()
    if options.discount is None or options.m is None:
        missing = "discount" if options.discount is None else "m"
        raise BadInput(f"{minimax.THEOREM}: expected both --discount and --m, found no --{missing}")
    minimax.law(options.discount, options.m, options.depth)  # refuses what is not a triple of the law
    return minimax_proofs.claims([(options.discount, options.m, options.depth)])[:1]


def _shown(built: Construction) -> Shown:
    n, m = int(built.sizes["n"]), int(built.sizes["m"])
    return Shown(built, {"raw": 2 * n, "state": n, "work": 1, "slot": m, "query": n})


def _shown_anchored(n: int, depth: int) -> Shown:
    """The residual reading, whose rounds have every head of the prefix one."""
    built = anchored.construction(n, max(depth, 2), 1, [2], "residual")
    return Shown(built, {"raw": 2 * n, "state": n, "basis": 1, "source": 1, "work": 1, "slot": 1, "query": n})


def _shown_midpoint(n: int, depth: int) -> Shown:
    return _shown(midpoint_hold.construction(n, depth, min(2, depth), "9/10"))


ROWS = [
    Row(
        theorem=sample_and_hold.THEOREM,
        title="Sample and hold: m records of v answer every depth, the last sampled value being held",
        source="Thm 4.5, upper half",
        docs=(
            "One work token runs v+ = r + A v; two heads with public clocks write v_{tau_u} - v_{tau_{u-1}} into slot"
            " u, everything else is released, n m registers stay, and the executor adds each record at its depth. Width"
            " 2n + 8. Rounds and steps are proved for every n, m and schedule on generic tokens, whole runs in Q. The"
            " worst error over all tasks with |r|_inf <= 1 is the largest mass of a block, and one state with reward 1"
            " attains it."
        ),
        show=lambda n, depth: _shown(sample_and_hold.construction(n, depth, sorted({1, depth}))),
        claims=_hold_claims,
        measure=measured_by("temporal_difference.sample_and_hold"),
    ),
    Row(
        theorem=anchored.THEOREM,
        title="Krylov-anchored: k Krylov vectors beside held records, as a prefix or under held residuals",
        source="theory A6; the source leaves the definition open, so both readings are built",
        docs=(
            "Prefix: v_l for l <= k from the context, then v at the last sample; its worst case is that of"
            " sample-and-hold with the same samples. Residual: the projection u_l on k Krylov vectors plus the residual"
            " v - u at the last sample; exact at l <= k and at samples, without a bound over all tasks. One work token"
            " carries v and u. Width 3n + 9; rounds and steps for every size, whole runs in Q."
        ),
        show=_shown_anchored,
        claims=_anchored_claims,
        measure=measured_by("temporal_difference.anchored"),
    ),
    Row(
        theorem=midpoint_hold.THEOREM,
        title="Midpoint hold: m centres of an optimal cover, error e* on every task",
        source="this project",
        docs=(
            "The same clocked records, taken with weight 1/2 at both ends of every block of an optimal cover, and one"
            " layer of differences: slot s adds (v_a + v_b) / 2 at depth a. For l in {a..b} the error is half of"
            " sum_{[a,l)} A^j r - sum_{[l,b)} A^j r, so at most mass(a, b) / 2; together at most e*(g, m, L), which no"
            " context of m registers a state can beat (td.minimax). Width 2n + 8."
        ),
        show=_shown_midpoint,
        claims=_midpoint_claims,
        measure=measured_by("temporal_difference.midpoint_hold"),
    ),
    Row(
        theorem=minimax.THEOREM,
        title="The exact minimax law: E_m(g, L) = e*(g, m, L)",
        source="this project; Thm 4.5 has it up to constants",
        docs=(
            "e* is the least error of a cover of the depths 0..L by a zero block, mass(0, b) <= e, and m free blocks,"
            " mass(a, b) <= 2e. A cover and a packing of m + 1 intervals decide it in integers; the witness task shows"
            " every sign pattern on the packing, so that the increments span an octahedron, and Tikhomirov's theorem"
            " gives the lower bound. For L infinite this is a statement about decoders: the last centre needs the"
            " limit of v. Shown: the program that attains it."
        ),
        show=_shown_midpoint,
        claims=_minimax_claims,
    ),
]
