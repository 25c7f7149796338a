"""Catalogue rows on what must be kept: lower bounds, and the contexts that meet them or trade memory for accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from constructions.task import Task
from constructions.temporal_difference import bits, dimension, executor, hessenberg, lanczos, memory_optimal
from numerics import reversible_tasks, tasks
from proofs_check.claim import Claim
from proofs_check.instances import Instance
from proofs_check.temporal_difference import bits as bits_proofs
from proofs_check.temporal_difference import dimension as dimension_proofs
from proofs_check.temporal_difference import hessenberg as hessenberg_proofs
from proofs_check.temporal_difference import lanczos as lanczos_proofs
from proofs_check.temporal_difference import memory as memory_proofs
from proofs_check.temporal_difference import memory_optimal as memory_optimal_proofs
from proofs_check.temporal_difference.krylov import krylov_rank

from ..row import Options, Row, Shown, measured_by
from .temporal_difference import large_tasks, small_tasks

Chosen = Sequence[tuple[Task, int]]


def reversible_tasks_small(seed: int) -> list[tuple[Task, int]]:
    """(task, depth L), count-reversible: L < k, L > k, one state, k < n, terminal successors, zero reward."""
    walk = reversible_tasks.birth_death_chain(4, seed=seed)
    return [
        (walk, 3),
        (reversible_tasks.birth_death_chain(1), 2),
        (reversible_tasks.birth_death_chain(5, 16, lazy=False, seed=seed), 7),
        (reversible_tasks.symmetric_chain(5, 10, "99/100", seed), 6),
        (tasks.half_ring(n=2, discount="1/2"), 3),
        (reversible_tasks.with_endings(walk), 6),
        (tasks.with_zero_rewards(walk), 3),
    ]


def reversible_tasks_large(seed: int) -> list[tuple[Task, int]]:
    """The slow and the fast chain at n = 24, and a longer random path."""
    return [
        (reversible_tasks.birth_death_chain(24, seed=seed), 30),
        (reversible_tasks.birth_death_chain(12, 200, seed=seed), 30),
        (reversible_tasks.symmetric_chain(24, seed=seed), 8),
    ]


def _kept(module: Any, proofs: Any, small: Callable[[int], Chosen], large: Callable[[int], Chosen]) -> Any:
    """options -> the claims of one kept context."""

    def claims(options: Options) -> list[Claim]:
        chosen = small(options.seed)
        return proofs.claims(
            lambda: [Instance(module.encoder(t.n, L, passes=passes), t) for t, L in chosen for passes in (1, 2)],
            lambda: [
                Instance(build(t.n, L), t) for t, L in chosen for build in (module.construction, module.from_context)
            ],
            lambda: [Instance(module.construction(t.n, L), t) for t, L in large(options.seed)],
        )

    return claims


def _dimension_claims(options: Options) -> list[Claim]:
    chosen = small_tasks(options.seed)

    def proposals() -> list[dimension.Proposal]:
        named = [*chosen, *reversible_tasks_small(options.seed)]
        decoders = [
            (task, depth, propose(task, depth, krylov_rank(task, depth) - 1))
            for task, depth in named
            for propose in (dimension.krylov_decoder, dimension.value_decoder)
        ]
        return [dimension.Proposal(task, depth, D) for task, depth, D in decoders if D is not None]

    return dimension_proofs.claims(lambda: [Instance(executor.construction(t.n, L), t) for t, L in chosen], proposals)


def _formats(seed: int) -> list[tuple[Task, bits.Budget]]:
    """Small tasks with rewards up to 1, each with both codes at several errors: m below and at L, b from 0 on."""
    chosen = [
        (tasks.half_ring(n=2, discount="1/2"), 3, 5),
        (tasks.block_cycle(n=6, blocks=3, transitions=24, seed=seed), 4, 12),
        (tasks.with_terminal(tasks.dirichlet_chain(n=4, transitions=24, seed=seed), 0.25, seed=seed), 12, 3),
        (tasks.ring([1], "9/10", "one state"), 8, 0),
    ]
    out = []
    for task, depth, a in chosen:
        setting = task.n, depth, task.discount, Fraction(1, 2**a)
        *_, last = bits.value_budgets(*setting)
        out += [(task, form) for form in (last, bits.model_budget(*setting))]
    return out


def _bits_claims(options: Options) -> list[Claim]:
    formats = _formats(options.seed)
    return bits_proofs.claims(
        lambda: [Instance(bits.construction(form), task) for task, form in formats],
        lambda: bits_proofs.words(formats),
        lambda: [
            bits.packing(1, 2, "1/2", "1/8", chain=0),
            bits.packing(2, 2, "9/10", "1/5", chain=1),
            bits.packing(3, 3, "1/2", "1/20", chain=2),
            bits.packing(3, 2, "9/10", "1/4", chain=1),
        ],
    )


def _shown_bits(n: int, depth: int) -> Shown:
    built = bits.construction(bits.budget(n, depth, "1/2", Fraction(1, 8)))
    kind = "slot" if "slot" in built.program.kinds else "source"
    return Shown(built, {kind: built.sizes["kept"], "query": n})


def _shown(module: Any) -> Callable[[int, int], Shown]:
    return lambda n, depth: Shown(module.from_context(n, depth), {"source": min(n, depth), "query": n})


ROWS = [
    Row(
        theorem=dimension.THEOREM,
        title="A context with a linear decoder needs k_L dimensions, the Krylov dimension of the task",
        source="Thm 4.3, lower bound",
        docs=(
            "v_{j+1} - v_j = A^j r is a difference of two outputs, so it lies in the range of the decoder, for every"
            " j < L: that range has dimension at least k_L. Proved for all sizes and states; on instances the rank is"
            " decided over Q and the built encoder keeps exactly so many tokens. Decoders with one dimension less"
            " are refuted with the depth and state that even their best approximation misses. Shown: the executor,"
            " whose context meets the bound."
        ),
        show=_shown(executor),
        claims=_dimension_claims,
    ),
    Row(
        theorem=memory_proofs.THEOREM,
        title="Any continuous exact encoder keeps nk + k real numbers, n^2 on stochastic tasks with k = n",
        source="Thm 4.3, memory; the count for k = n is this project's",
        docs=(
            "On tasks of Krylov dimension k the outputs are B H^j g. Their Jacobian in (B, H, g) has rank nk at L = k"
            " and nk + k for L > k, decided modulo primes for n <= 16 and k <= 8, and no more, since a change of basis"
            " moves no output; invariance of domain (cited, not proved) turns the rank into registers. Where k = n the"
            " rows' sums of a stochastic P are known, which leaves n^2; with terminal successors it is nk + k again."
            " Shown: the executor of the context that meets nk + k."
        ),
        show=_shown(memory_optimal),
        claims=lambda options: memory_proofs.claims(),
    ),
    Row(
        theorem=memory_optimal.THEOREM,
        title="A context of nk + k registers, which is the lower bound: Krylov basis and coefficients",
        source=memory_optimal.SOURCE,
        docs=(
            "Kept are B = [r, A r, .., A^{k-1} r] and a with A^k r = B a. The executor shifts s and adds a s_k, four"
            " heads a step, with the shift and the place of the last source public. The encoder runs Arnoldi and"
            " carries each b_j's coordinates t_j in the powers on the same scores; a = -t_{k+1} at the first dead"
            " slot. The executor is proved for all sizes, the encoder in Q on instances and by Schwartz-Zippel on"
            " every Krylov dimension; n = 24, k = 12 keeps 300 registers instead of 588. The price is conditioning:"
            " on slow chains about one and a half bits are lost per dimension, on fast ones next to none."
        ),
        show=_shown(memory_optimal),
        claims=_kept(memory_optimal, memory_optimal_proofs, small_tasks, large_tasks),
        measure=measured_by("temporal_difference.memory_optimal"),
    ),
    Row(
        theorem=hessenberg.THEOREM,
        title="A context of nk + k(k+1)/2 registers, as stable as Arnoldi: monic basis and Hessenberg matrix",
        source=hessenberg.SOURCE,
        docs=(
            "With b_1 = r and monic b_{j+1} = A b_j - .. the matrix of A on the basis has unit sub-diagonal and"
            " g_0 = e_1: only B and the k(k+1)/2 scores of Gram-Schmidt stay. Three heads a step. It lies between"
            " the memory-optimal context and Z_0. In float32 the squared norms of a monic basis underflow beyond"
            " k = 16 or so on fast chains; float64 is not affected at these sizes."
        ),
        show=_shown(hessenberg),
        claims=_kept(hessenberg, hessenberg_proofs, small_tasks, large_tasks),
        measure=measured_by("temporal_difference.hessenberg"),
    ),
    Row(
        theorem=lanczos.THEOREM,
        title="A context of nk + 2k - 1 registers for logs with N_ij = N_ji: three-term recurrence",
        source=lanczos.SOURCE,
        docs=(
            "In the inner product weighted by visits A is self-adjoint exactly where N_ij = N_ji, so each new vector"
            " needs the last two only, and A is tridiagonal. One head more in stage 1 forms N_i e_i; five heads a"
            " step execute. The class count-reversible is decided on the counts: a path sampled from a reversible"
            " chain is refused, a birth-death path that returns to its start is accepted."
        ),
        show=_shown(lanczos),
        claims=_kept(lanczos, lanczos_proofs, reversible_tasks_small, reversible_tasks_large),
        measure=measured_by("temporal_difference.lanczos"),
    ),
    Row(
        theorem=bits.THEOREM,
        title="Codes of n min{n, L, log 1/e} log 1/e bits answer within e, and no code is shorter but for a constant",
        source=bits.SOURCE,
        docs=(
            "Two codes, the shorter is taken: v_1 .. v_m rounded to b bits after the point, read by the executor of"
            " sample-and-hold; or A and r rounded, read by td.executor with B = I. Their errors are bounded by"
            " 2^-(b+1) + mass(m, L), and by a recursion from |A|_inf <= g; bits are counted on the code word, and the"
            " answers of the built programs compared with v_l in Q. Below: an explicit set of tasks, any two of which"
            " differ by more than 2e somewhere, checked pair by pair at small sizes and by an identity for all. Shown:"
            " the executor of the shorter code at g = 1/2, e = 1/8."
        ),
        show=_shown_bits,
        claims=_bits_claims,
        measure=measured_by("temporal_difference.bits"),
    ),
]
"""In catalogue order."""
