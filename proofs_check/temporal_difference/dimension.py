"""td.dimension: no linear decoder of dimension below k_L is exact, for all sizes and on instances in Q."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import sympy as sp

from constructions.construction import last
from constructions.exact import RATIONALS
from constructions.temporal_difference.dimension import (
    ASSUMPTIONS,
    THEOREM,
    Proposal,
    krylov_decoder,
    value_decoder,
)

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..generic_layer import prove_words
from ..instances import NAMED, Instance, InstanceSource
from ..mutants import Mutant
from ..records import rank_record
from ..words import letter, rule
from .decoder_facts import missed
from .executor import prove_td_step
from .krylov import krylov_rank

N, M = sp.symbols("n m", integer=True, positive=True)

LARGEST_RECORDED = 6
"""States up to which what a decoder misses is recorded."""

ProposalSource = Callable[[], list[Proposal]]


def prove_argument() -> Finding:
    """Exact outputs at depths j and j + 1 put A^j r into range D, whatever the states.

    With D p = v_{j+1} = v + w and D q = v_j = v, where w = A^j r: D (p - q) = w. So [r, .., A^{L-1} r] = D X for some
    X, and k_L, the rank of the left side, is at most the number m of columns of D.
    """
    D, p, q, v, w = letter("D", N, M), letter("p", M, 1), letter("q", M, 1), letter("v", N, 1), letter("w", N, 1)
    difference = prove_words({"D (p - q) = A^j r": (D @ (p - q), w)}, rule(D @ p, v + w) + rule(D @ q, v))
    return Finding.all_of({"difference of outputs": difference, "v_{j+1} - v_j = A^j r": prove_td_step()})


def prove_necessary(instances: Sequence[Instance]) -> Finding:
    """The outputs of the built program differ from depth to depth by vectors of rank k_L, and it keeps k_L tokens."""
    found, kept = [], []
    for instance in sorted(instances, key=lambda x: x.task.size):
        construction = instance.construction
        task: Any = instance.task
        depth, n = construction.sizes["L"], task.n
        values = construction.outputs(task, RATIONALS)
        rows = values.nrows()
        k = krylov_rank(task, depth)
        where = {"task": task.name, "L": depth}
        if rows != depth + 1:
            return Finding(
                Verdict.REFUTED, {**where, "block": "v at depth", "found": f"{rows - 1} depths", "expected": depth}
            )
        steps = RATIONALS.rows(values, 1, rows) - RATIONALS.rows(values, 0, rows - 1)
        tokens = last(construction.program.steps(construction.encode(task, RATIONALS), RATIONALS))
        for block, number in (("v at depth", steps.rank()), ("source", tokens.total("source"))):
            if number != k:
                return Finding(Verdict.REFUTED, {**where, "block": block, "found": number, "expected": k})
        powers = [task.r]
        for _ in range(depth - 1):
            powers.append(task.A * powers[-1])
        if steps != RATIONALS.stack([powers]).transpose():
            return Finding(Verdict.REFUTED, {**where, "block": "v at depth", "failure": "a step is not A^j r"})
        found.append({**where, "n": n, "k": k})
        kept.append(rank_record(steps, f"{task.name}, L = {depth}"))
    return Finding(Verdict.PROVED, {"instances": found}, tuple(kept))


def prove_too_small(proposals: Sequence[Proposal]) -> Finding:
    """Each decoder of fewer than k_L columns misses some v_l at some state, even by its best approximation."""
    misses = []
    for proposal in sorted(proposals, key=lambda x: x.task.size):
        residuals = proposal.residuals()
        k = krylov_rank(proposal.task, proposal.depth)
        where = {"task": proposal.task.name, "L": proposal.depth, "k": k, "m": proposal.dimension}
        entries = residuals.entries()
        place = next((i for i, x in enumerate(entries) if x != 0), None)
        if place is None:
            return Finding(Verdict.REFUTED, {**where, "block": "decoder", "failure": "exact at every depth and state"})
        if proposal.dimension >= k:
            return Finding(Verdict.REFUTED, {**where, "block": "decoder", "failure": "not fewer columns than k"})
        depth, state = divmod(place, residuals.ncols())
        misses.append({**where, "fails at depth": depth, "state": state, "missed by": rational(entries[place])})
    records = [missed(x, f"{x.task.name}, m = {x.dimension}") for x in proposals if x.task.n <= LARGEST_RECORDED]
    return Finding(Verdict.PROVED, {"proposals": misses}, tuple(records))


def proposal_mutants(proposals: Sequence[Proposal]) -> Iterator[Mutant]:
    """Decoders that serve the task: k Krylov vectors, also doubled; k iterates; the whole space."""
    for p in proposals:
        k = krylov_rank(p.task, p.depth)
        basis = krylov_decoder(p.task, p.depth, k)
        assert basis is not None
        decoders = {
            "k Krylov vectors": basis,
            "k Krylov vectors doubled": basis * 2,
            "k iterates": value_decoder(p.task, p.depth, k),
            "everything": RATIONALS.one_hot(range(p.task.n), p.task.n),
        }
        for text, decoder in decoders.items():
            if decoder is not None:
                yield Mutant("entry", f"{text}: {p.task.name}", [replace(p, decoder=decoder)])


def claims(instances: InstanceSource, proposals: ProposalSource) -> list[Claim]:
    """The claims of td.dimension; instances (encoder and executor on tasks) and proposals come from the caller."""
    return [
        Claim(
            THEOREM,
            "argument",
            "a context that is exact for every depth l <= L has dimension m >= k_L",
            "all n, m, L, tasks and linear decoders",
            Assurance.INDUCTIVE,
            ASSUMPTIONS,
            tuple,
            lambda _: prove_argument(),
        ),
        Claim(
            THEOREM,
            "necessary",
            "the steps v_{j+1} - v_j of the built program are A^j r, of rank k_L over Q; it keeps k_L tokens, no more",
            NAMED,
            Assurance.EXACT,
            ASSUMPTIONS,
            instances,
            prove_necessary,
        ),
        Claim(
            THEOREM,
            "too-small",
            "decoders of dimension k_L - 1 fail, at the depth and state named, even by the best approximation",
            "the decoders named in the evidence: first Krylov vectors, and iterates spread over the depths",
            Assurance.EXACT,
            ASSUMPTIONS,
            proposals,
            prove_too_small,
            mutants=proposal_mutants,
        ),
    ]
