"""td.krylov: for all sizes (`encoder`); in Q on instances the context, its dimension and what it decodes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from constructions.arithmetic import Arithmetic, Array
from constructions.exact import RATIONALS
from constructions.temporal_difference import krylov
from constructions.temporal_difference.executor import td_values
from constructions.temporal_difference.krylov import ASSUMPTIONS, BALANCED_ASSUMPTION, THEOREM

from ..claim import Assurance, Claim, Finding, Verdict
from ..instances import NAMED, Instance, InstanceSource, prove_instances, with_square_roots
from ..schwartz_zippel import Case, prove_cases
from . import context_facts, encoder
from .context_facts import at_depth
from .generic_tasks import Sizes, case, context_difference, from_states

SCHWARTZ_ZIPPEL = "Schwartz-Zippel lemma and a bound on the number of primes (cited)"


def prove_decoding(instances: Sequence[Instance]) -> Finding:
    """B sum_{j<l} H^j g0 = v_l for every l <= L, with H - I = (Y - B)' B read off Z_0."""
    decoding = at_depth(context_facts.decoding)
    return prove_instances([Instance(_decoding(x), x.task) for x in instances], stated=decoding)


def _decoding(instance: Instance) -> Any:
    """The same program, answering with what its context decodes to instead of with the context."""
    construction = instance.construction
    n, depth = construction.sizes["n"], construction.sizes["L"]

    def decode(steps: Any, arithmetic: Arithmetic) -> Array:
        return krylov.decoded_values(construction.decode(steps, arithmetic), n, depth, arithmetic)

    def reference(task: Any, arithmetic: Arithmetic) -> Array:
        return td_values(task, depth, arithmetic)

    return replace(construction, decode=decode, reference=reference, answer=(("v at depth", depth + 1),))


def prove_dimension(instances: Sequence[Instance]) -> Finding:
    """The number of tokens kept is k_L = rank of [r, A r, .., A^{L-1} r], decided in Q."""
    kept = []
    for instance in sorted(instances, key=lambda x: x.task.size):
        task, depth = instance.task, instance.construction.sizes["L"]
        context = instance.construction.outputs(task, RATIONALS)
        found = 0 if context is None else context.ncols()
        expected = krylov_rank(task, depth)
        if found != expected:
            return Finding(
                Verdict.REFUTED,
                {"task": task.name, "block": "source", "found": f"{found} tokens", "expected": f"{expected} tokens"},
            )
        kept.append({"task": task.name, "L": depth, "k": expected})
    return Finding(Verdict.PROVED, {"instances": kept}, context_facts.records(instances, context_facts.krylov))


def krylov_rank(task: Any, depth: int) -> int:
    """dim span{r, A r, .., A^{depth - 1} r} in Q (A and r are scaled to integers, which changes no span)."""
    columns = [task.r]
    for _ in range(min(task.n, depth) - 1):
        columns.append(task.A * columns[-1])
    return RATIONALS.stack([columns]).rank()


def prove_balanced(instances: Sequence[Instance]) -> Finding:
    """The balanced program decodes to v_l exactly, by t_j^2 d_j = 1: every answer is rational again."""
    return prove_instances([Instance(_decoding(x), x.task) for x in instances], with_square_roots)


def generic_cases() -> list[Case]:
    """Every Krylov dimension at n = 4, L < k, n = 24, k = 12, L = 30; and two passes."""
    chosen = [(Sizes(4, k, 6, 4), 1) for k in range(1, 5)]
    chosen += [(Sizes(5, 3, 3, 3), 1), (Sizes(24, 12, 30, 24), 1), (Sizes(4, 2, 5, 4), 2)]
    return [
        case(
            from_states(s.n, s.rounds, passes=passes),
            context_difference,
            s,
            "[B; Y; g0']",
            stated=context_facts.krylov(s.rounds),
        )
        for s, passes in chosen
    ]


def claims(
    instances: InstanceSource,
    quick_instances: InstanceSource,
    balanced_instances: InstanceSource,
    narrow_instances: InstanceSource,
) -> list[Claim]:
    """The claims of td.krylov; the instances (encoder on tasks) come from the caller."""
    on_instances = partial(Claim, THEOREM, assurance=Assurance.EXACT)
    context = partial(
        on_instances,
        statement=(
            "the tokens kept hold Z_0 = [B; Y; g0'], with B the orthogonal Krylov basis, H = W' A B"
            " and Y = B + W (H - I)'"
        ),
        assumptions=ASSUMPTIONS,
        prove=partial(prove_instances, stated=at_depth(context_facts.krylov)),
    )
    return [
        *encoder.claims(),
        context(name="context", scope=NAMED, build=quick_instances),
        Claim(
            THEOREM,
            "context-generic",
            "Z_0 equals the context by orthogonal projections, as an identity of rational functions in A and r",
            "all tasks of Krylov dimension k with generic b_1, .., b_k, at the sizes in the evidence",
            Assurance.PROBABILISTIC,
            (*ASSUMPTIONS, SCHWARTZ_ZIPPEL),
            generic_cases,
            prove_cases,
        ),
        context(name="narrow", scope=f"{NAMED}, in the narrow layout of width 2n + 4", build=narrow_instances),
        on_instances(
            name="dimension",
            statement="exactly k_L = dim K_L(A, r) tokens are kept",
            scope=NAMED,
            assumptions=ASSUMPTIONS,
            build=quick_instances,
            prove=prove_dimension,
        ),
        on_instances(
            name="decoding",
            statement="B sum_{j<l} H^j g0 = v_l for every l <= L, also where L < k_n",
            scope=NAMED,
            assumptions=ASSUMPTIONS,
            build=quick_instances,
            prove=prove_decoding,
        ),
        on_instances(
            name="balanced",
            statement="the balanced encoder decodes to v_l as well",
            scope=NAMED,
            assumptions=(*ASSUMPTIONS, BALANCED_ASSUMPTION, "rewrite t_j^2 d_j = 1 for t_j = rsqrt_0(d_j)"),
            build=balanced_instances,
            prove=prove_balanced,
        ),
        context(name="context-large", scope=f"{NAMED}, up to n = 24, N = 960, L = 30", build=instances, quick=False),
    ]
