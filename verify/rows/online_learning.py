"""Catalogue rows on online learning in one latent context."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from constructions.online_learning import fixed_share, hedge, weighted_majority
from constructions.online_learning.experts import Basis, ExpertTask, cayley_basis, householder_basis, one_hot_basis
from numerics import expert_tasks
from proofs_check.claim import Claim
from proofs_check.instances import Instance
from proofs_check.online_learning import fixed_share as fixed_share_proofs
from proofs_check.online_learning import hedge as hedge_proofs
from proofs_check.online_learning import weighted_majority as weighted_majority_proofs

from ..row import Options, Row, Shown, measured_by

LEAK = Fraction(1, 5)


def rotated_bases(n: int) -> list[Basis]:
    """Unit vectors, n columns of a reflection in Q^{n+1}, n columns of a Cayley transform in Q^{n+1}."""
    upper = [[(3 * i + 5 * j) % 7 - 3 for j in range(i + 1, n + 1)] for i in range(n)]
    return [one_hot_basis(n), householder_basis(range(1, n + 2), n), cayley_basis(upper)[:n]]


def _instances(tasks: Sequence[ExpertTask], bases: slice) -> list[Instance]:
    """Every realisation on every task, in some of the bases."""
    return [
        Instance(weighted_majority.construction(v, t.n, t.outcomes, t.eps, leak=LEAK, basis=basis), t)
        for t in tasks
        for v in weighted_majority.VARIANTS
        for basis in rotated_bases(t.n)[bases]
    ]


def adversaries(rounds: int, seed: int) -> list[ExpertTask]:
    """One task for each adversary of theory B1; the balanced split three times as long."""
    return [
        expert_tasks.sampled_experts(4, rounds, "1/4", seed=seed),
        expert_tasks.against_random_experts(4, rounds, "1/3", seed),
        expert_tasks.opposed_pair(rounds, "1/3", seed),
        expert_tasks.balanced_split(4, 3 * rounds, "1/2", seed),
        expert_tasks.perfect_expert(5, rounds, "1/3", seed),
    ]


def _weighted_majority_claims(options: Options) -> list[Claim]:
    sample = expert_tasks.sampled_experts
    small = [sample(1, 2, seed=options.seed), sample(3, 5, "1/4", 3, seed=options.seed, weighted=True)]
    large = [sample(4, 40, "1/3", 3, seed=options.seed, weighted=True), sample(5, 40, "1/10", seed=options.seed)]
    rounds = 12 if options.quick else 40
    return weighted_majority_proofs.claims(
        lambda: _instances(large, slice(1, 3)),
        lambda: _instances(small, slice(0, 2)),
        lambda: [
            Instance(weighted_majority.construction("one_block", t.n, 2, t.eps, leak=LEAK), t)
            for t in adversaries(rounds, options.seed)
        ],
    )


def _shown(n: int, depth: int) -> Shown:
    built = weighted_majority.construction("one_block", n, 2, Fraction(1, 3), leak=LEAK)
    return Shown(built, {"expert": n, "context": 1, "label": 1})


def _hedge_claims(options: Options) -> list[Claim]:
    tasks = [expert_tasks.sampled_losses(n, T, seed=options.seed) for n, T in ((1, 2), (3, 6), (4, 20))]
    return hedge_proofs.claims(
        lambda: [
            Instance(hedge.construction(v, t.n, t.root, t.parts, leak=LEAK, basis=basis), t)
            for t in tasks
            for v in hedge.VARIANTS
            for basis in rotated_bases(t.n)[:2]
        ]
    )


def _fixed_share_claims(options: Options) -> list[Claim]:
    sample = expert_tasks.sampled_experts
    tasks = [sample(n, T, "1/4", K, options.seed, weighted=True) for n, T, K in ((1, 2, 2), (3, 6, 3), (4, 40, 2))]
    return fixed_share_proofs.claims(
        lambda: [
            Instance(fixed_share.construction(t.n, t.outcomes, t.eps, Fraction(1, 10), basis=basis), t)
            for t in tasks
            for basis in rotated_bases(t.n)[:2]
        ]
    )


def _shown_fixed_share(n: int, depth: int) -> Shown:
    built = fixed_share.construction(n, 2, Fraction(1, 3), Fraction(1, 10))
    return Shown(built, {"context": 1, "expert": n, "query": 1, "label": 1})


def _shown_hedge(n: int, depth: int) -> Shown:
    return Shown(hedge.construction("replica", n, Fraction(4, 5), 4), {"expert": n, "context": 1, "label": 1})


ROWS = [
    Row(
        theorem=weighted_majority.THEOREM,
        title="Weighted majority with its whole state in one latent context token, in four realisations",
        source=weighted_majority.SOURCE,
        docs=(
            "S = sum_i log w_i u_i over any orthonormal basis; softmax over <u_i, S> predicts, linear heads carry S and"
            " add log(1 - eps) u_i for each expert that erred, a ReLU block clears the rest, and the whole last hidden"
            " vector is the next context. One block or two layers leave a leak of J d / (W + J d) in the raw mass,"
            " which tends to one as W shrinks; a half-weight copy of one expert has none; one realisation uses softmax"
            " attention only. Proved for all sizes by types of tokens, from arbitrary weights as an identity of"
            " rational functions, on all bit patterns with eps indeterminate, and on whole runs in rotated bases with"
            " formal logarithms. verify reproduce regret compares mistakes with the bounds."
        ),
        show=_shown,
        claims=_weighted_majority_claims,
        measure=measured_by("online_learning.weighted_majority"),
    ),
    Row(
        theorem=hedge.THEOREM,
        title="Hedge with rational losses, by the same programs",
        source=hedge.SOURCE,
        docs=(
            "Weighted majority with K = n: expert i always says i, so the output is the distribution w / W; the label"
            " token tells the losses, and the penalty matrix is e I in place of e (J - I). Proved for all sizes by"
            " types of tokens, from arbitrary weights and losses as an identity of rational functions, and on whole"
            " runs, which are exact where losses are multiples of 1/D and a loss of one costs a factor r^D."
        ),
        show=_shown_hedge,
        claims=_hedge_claims,
        measure=measured_by("online_learning.hedge"),
    ),
    Row(
        theorem=fixed_share.THEOREM,
        title="Fixed-Share, which tracks the best expert, on the weights themselves",
        source=fixed_share.SOURCE,
        docs=(
            "S = sum_i w_i u_i; linear heads read w_i into the experts' tokens, predict, take eps w_i u_i off for each"
            " expert that erred, and share a fraction of the total equally. Rational throughout, and the raw mass is"
            " exact. Sharing is not linear in log w, hence the weight domain. Proved for all n, K, bases and weights by"
            " types of tokens, and on whole runs. A round does not stretch |U'x|_1 + |x - U U'x|_2, so the residuals of"
            " the rounds bound the error of a run in any number format."
        ),
        show=_shown_fixed_share,
        claims=_fixed_share_claims,
        measure=measured_by("online_learning.fixed_share"),
    ),
]
"""In catalogue order."""
