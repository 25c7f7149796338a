"""td.policy-class: a decoder serves a set of policies iff its range contains the sum of their Krylov spaces."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import sympy as sp
from flint import fmpq_mat

from constructions.exact import RATIONALS
from constructions.layers import Repeat
from constructions.program import Program
from constructions.temporal_difference import policy_class
from constructions.temporal_difference.policy_class import ASSUMPTIONS, THEOREM, PolicyClass, Proposal, names
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..generic_layer import Point, prove_layers, prove_words, random_matrix
from ..instances import NAMED, Instance, InstanceSource, prove_instances
from ..mutants import Mutant
from ..records import RUNS, Record, run_record
from ..words import Words, identity, letter, rule
from . import decoder_facts
from . import dimension as dimension_proofs
from .executor import only_step, prove_td_step

N, M, Q, L = sp.symbols("n m q L", integer=True, positive=True)
POLICIES = 2
"""Policies of the program that is proved for all n, m and L: their heads meet no field of each other."""
CONTEXT = "hypothesis A_p^j r_p = D H_p^j g_p for j < L (claim identities)"


def prove_identities() -> Finding:
    """With H = W'A D: D p = w, A w = z and D W'z = z give D H p = z. With g = W'r and D W'r = r: D g = r."""
    A, D, W = letter("A", N, N), letter("D", N, M), letter("W", N, M)
    p, w, z, r = letter("p", M, 1), letter("w", N, 1), letter("z", N, 1), letter("r", N, 1)
    step = rule(D @ p, w) + rule(A @ w, z) + rule(D @ W.T @ z, z)
    return Finding.all_of(
        {
            "first": prove_words({"D g = r": (D @ (W.T @ r), r)}, rule(D @ W.T @ r, r)),
            "next": prove_words({"D H p = A w": (D @ ((W.T @ A @ D) @ p), z)}, step),
        }
    )


def prove_values(program: Program) -> Finding:
    """s_p becomes H_p s_p and -c_p = E'v_p becomes E'(v_p + A_p^l r_p), for every policy, and nothing else moves.

    Letters a policy: p = H^l g, w = A^l r, v = v_l; hypothesis at depth l < L: D p = w. Base: p = g, v = 0, c = 0.
    """
    layer = only_step(program)
    if layer is None:
        return Finding(Verdict.REFUTED, {"block": program.name, "failure": "expected one repeated attention layer"})
    (loop,) = program.layers
    assert isinstance(loop, Repeat)
    if sp.expand(loop.times - L) != 0:
        steps = {"found": f"{loop.times} steps", "expected": "L steps, so that v_L is read"}
        return Finding(Verdict.REFUTED, {"block": "loop bound", **steps})
    D, E = letter("D", N, M), letter("E", N, Q)
    before: dict[tuple[str, str], Words] = {("source", "x"): D, ("source", "t"): identity(M), ("query", "x"): E}
    after = dict(before)
    rules = []
    for u, r in zip(names(POLICIES, "u"), names(POLICIES, "r"), strict=True):
        H, p = letter(f"H_{r}", M, M), letter(f"p_{r}", M, 1)
        v, w = letter(f"v_{r}", N, 1), letter(f"w_{r}", N, 1)
        before |= {("source", u): (H - identity(M)).T, ("source", r): p.T, ("query", r): -(v.T @ E)}
        after |= {("source", u): (H - identity(M)).T, ("source", r): (H @ p).T, ("query", r): -((v + w).T @ E)}
        rules += rule(D @ p, w)

    def sample(rng: random.Random) -> Point:
        n, m, q = rng.choice([(3, 2, 2), (4, 3, 1), (2, 2, 3)])
        point = {"D": random_matrix(rng, n, m), "E": random_matrix(rng, n, q)}
        for r in names(POLICIES, "r"):
            shapes = {"H": (m, m), "p": (m, 1), "v": (n, 1)}
            point |= {f"{name}_{r}": random_matrix(rng, *shape) for name, shape in shapes.items()}
            point[f"w_{r}"] = point["D"] * point[f"p_{r}"]
        return point, {N: n, M: m, Q: q}

    step = prove_layers([layer], program.layout, Tokens({"source": M, "query": Q}, before), after, rules, sample)
    return Finding.all_of({"step of the program": step, "step of TD": prove_td_step()})


def invariant(policies: PolicyClass, decoder: fmpq_mat) -> list[bool]:
    """For each policy whether range D is invariant under A_p, in Q."""
    m = decoder.ncols()
    return [RATIONALS.stack([[decoder, task.A * decoder]]).rank() == m for task in policies.tasks]


def prove_served(instances: Sequence[Instance]) -> Finding:
    """As `prove_instances`, with records of the first policies."""
    finding = prove_instances(instances)
    if finding.verdict is not Verdict.PROVED:
        return finding
    first = sorted(instances, key=lambda x: x.task.size)[:RUNS]
    return replace(finding, records=tuple(run for x in first for run in decoder_facts.served(x))[: 2 * RUNS])


def prove_kept(instances: Sequence[Instance]) -> Finding:
    """As many tokens stay as the sum has dimensions, n m + p (m^2 + m) registers; the outputs' steps span the sum."""
    found: list[dict[str, Any]] = []
    records: list[Record] = []
    for instance in sorted(instances, key=lambda x: x.task.size):
        built, policies = instance.construction, instance.task
        assert isinstance(policies, PolicyClass)
        n, depth, count = policies.n, built.sizes["L"], len(policies.tasks)
        spanning = policy_class.krylov_sum(policies, depth)
        m = spanning.rank()
        tokens = built.encode(policies, RATIONALS)
        left = built.program.run(tokens, RATIONALS).total("source")
        registers = policy_class.registers(tokens, RATIONALS)
        values = built.outputs(policies, RATIONALS)
        height = values.nrows() // count
        steps = [
            RATIONALS.rows(values, p * height + 1, (p + 1) * height)
            - RATIONALS.rows(values, p * height, (p + 1) * height - 1)
            for p in range(count)
            if height > 1
        ]
        span = RATIONALS.stack([[block] for block in steps]) if steps else fmpq_mat(0, n)
        joint = RATIONALS.stack([[span], [spanning.transpose()]])
        decoder = tokens.blocks["source", "x"]
        where = {"class": policies.name, "n": n, "L": depth, "policies": count}
        checks = {
            "v at depth": (height - 1, depth),
            "source": (left, m),
            "registers": (list(registers), [n * m, count * (m * m + m)]),
            "rank of the steps": (span.rank(), m),
            "rank of the steps and the sum": (joint.rank(), m),
            "rank of D and the sum": (RATIONALS.stack([[decoder, spanning]]).rank(), m),
        }
        for block, (left_side, right_side) in checks.items():
            if left_side != right_side:
                return Finding(Verdict.REFUTED, {**where, "block": block, "found": left_side, "expected": right_side})
        for p, (task, block) in enumerate(zip(policies.tasks, steps, strict=True)):
            powers = [task.r]
            for _ in range(depth - 1):
                powers.append(task.A * powers[-1])
            if block != RATIONALS.stack([powers]).transpose():
                failure = {"block": f"policy {p + 1}, v at depth", "failure": "a step is not A^j r"}
                return Finding(Verdict.REFUTED, {**where, **failure})
        own = [policy_class.sum_dimension(PolicyClass((task,), task.name), depth) for task in policies.tasks]
        run = run_record(replace(built, reads=None), policies, decoder_facts.spanned(policies, depth))
        records += [] if run is None or len(records) == RUNS else [run]
        kept = "yes" if all(invariant(policies, decoder)) else "no"
        found.append({**where, "m": m, "k of each": own, "range D invariant under every A": kept})
    return Finding(Verdict.PROVED, {"instances": found}, tuple(records))


def prove_not_invariant(classes: Sequence[tuple[PolicyClass, int]]) -> Finding:
    """The sum is not invariant under some A_p though L >= n, each K_L(A_p, r_p) is under its own; D serves all same."""
    found, records = [], []
    for policies, depth in classes:
        context = policy_class.shared_context(policies, depth)
        where = {"class": policies.name, "n": policies.n, "L": depth}
        if context is None or depth < policies.n:
            return Finding(Verdict.REFUTED, {**where, "block": "depth", "failure": "expected L >= n and a reward"})
        inside = invariant(policies, context.decoder)
        own = [PolicyClass((task,), task.name) for task in policies.tasks]
        bases = [policy_class.shared_context(single, depth) for single in own]
        if not all(b is None or all(invariant(single, b.decoder)) for single, b in zip(own, bases, strict=True)):
            return Finding(Verdict.REFUTED, {**where, "block": "K_L(A_p, r_p)", "failure": "not invariant under A_p"})
        if all(inside):
            return Finding(Verdict.REFUTED, {**where, "block": "sum", "failure": "invariant under every A_p"})
        served = prove_instances([Instance(policy_class.construction(policies, depth), policies)])
        if served.verdict is not Verdict.PROVED:
            return served
        p = inside.index(False)
        found.append({**where, "m": context.decoder.ncols(), "not invariant under policy": p + 1})
        records.append(decoder_facts.not_invariant(policies, depth, context.decoder, p, policies.name))
    return Finding(Verdict.PROVED, {"classes": found}, tuple(records))


def class_mutants(classes: Sequence[tuple[PolicyClass, int]]) -> Iterator[Mutant]:
    """One policy left out; the first twice; a depth below n."""
    for policies, depth in classes:
        for p in range(len(policies.tasks)):
            rest = policies.tasks[:p] + policies.tasks[p + 1 :]
            if rest:
                yield Mutant(
                    "entry", f"{policies.name}: policy {p + 1} left out", [(replace(policies, tasks=rest), depth)]
                )
        same = replace(policies, tasks=(policies.tasks[0],) * len(policies.tasks))
        yield Mutant("entry", f"{policies.name}: one policy throughout", [(same, depth)])
        yield Mutant("loop", f"{policies.name}: depth n - 1", [(policies, policies.n - 1)])


def prove_too_small(proposals: Sequence[Proposal]) -> Finding:
    """Each decoder misses some policy at the depth and state named, even by its best approximation; so m is needed."""
    misses, records = [], []
    for proposal in sorted(proposals, key=lambda x: x.policies.size):
        D, policies, depth = proposal.decoder, proposal.policies, proposal.depth
        where = {
            "class": policies.name,
            "L": depth,
            "dimension of the sum": policy_class.sum_dimension(policies, depth),
            "m": D.ncols(),
        }
        missed = None
        for p, part in enumerate(proposal.parts):
            residuals = part.residuals()
            place = next((i for i, x in enumerate(residuals.entries()) if x != 0), None)
            if place is not None:
                l, state = divmod(place, policies.n)
                missed = {"policy": p + 1, "depth": l, "state": state, "missed by": rational(residuals[l, state])}
                break
        if missed is None:
            return Finding(Verdict.REFUTED, {**where, "block": "decoder", "failure": "exact for every policy"})
        misses.append({**where, **missed})
        records.append(decoder_facts.missed(part, f"{policies.name}, policy {p + 1}"))
    return Finding(Verdict.PROVED, {"proposals": misses}, tuple(records))


def proposal_mutants(proposals: Sequence[Proposal]) -> Iterator[Mutant]:
    """Decoders that serve the class: D, D doubled, the Krylov vectors' own basis, the whole space."""
    for proposal in proposals:
        policies, depth = proposal.policies, proposal.depth
        context = policy_class.shared_context(policies, depth)
        assert context is not None
        D = context.decoder
        mixed = D * fmpq_mat(D.ncols(), D.ncols(), [int(i <= j) for i in range(D.ncols()) for j in range(D.ncols())])
        whole = RATIONALS.one_hot(range(policies.n), policies.n)
        for text, decoder in {"D": D, "D doubled": D * 2, "D mixed": mixed, "everything": whole}.items():
            yield Mutant("entry", f"{text}: {policies.name}", [replace(proposal, decoder=decoder)])


def claims(
    instances: InstanceSource,
    proposals: Callable[[], list[Proposal]],
    not_invariant: Callable[[], list[tuple[PolicyClass, int]]],
    large: InstanceSource,
) -> list[Claim]:
    """The claims of td.policy-class; the classes of policies come from the caller."""
    inductive = partial(Claim, THEOREM, assurance=Assurance.INDUCTIVE)
    exact = partial(Claim, THEOREM, assurance=Assurance.EXACT, assumptions=ASSUMPTIONS)
    values = partial(
        exact, statement="one context answers v^p_l at every state, depth l <= L and policy p", prove=prove_served
    )
    return [
        inductive(
            name="necessary",
            statement=(
                "every A_p^j r_p, j < L, is a difference of two outputs: range D contains the sum of the K_L(A_p, r_p)"
            ),
            scope="all n, m, L, sets of policies, linear decoders and states (which may depend on the policy)",
            assumptions=("the output is D sum_{j<l} s_{p,j} with one decoder D for all policies and depths",),
            build=tuple,
            prove=lambda _: dimension_proofs.prove_argument(),
        ),
        inductive(
            name="identities",
            statement="H_p = W'A_p D and g_p = W'r_p give D H_p^j g_p = A_p^j r_p for j < L, without A_p D = D H_p",
            scope="all n, m, L and policies, by induction on j",
            assumptions=("D W' fixes A_p^j r_p for j < L, which W'D = I gives where range D contains the sum",),
            build=tuple,
            prove=lambda _: prove_identities(),
        ),
        inductive(
            name="values",
            statement=(
                "one layer maps s_p to H_p s_p and c_p to c_p - E'D s_p for all policies, so -c_p = v^p_l(q), l <= L"
            ),
            scope=f"all n, m, L and queries, {POLICIES} policies side by side",
            assumptions=(CONTEXT, *ASSUMPTIONS[:2]),
            build=lambda: policy_class.executor_program(N, M, POLICIES, L),
            prove=prove_values,
        ),
        values(name="serves", scope=NAMED, build=instances),
        exact(
            name="kept",
            statement=(
                "exactly dim(sum_p K_L(A_p, r_p)) tokens stay, n m + p (m^2 + m) registers, and the outputs need them:"
                " their differences are the A_p^j r_p, which span the sum"
            ),
            scope=NAMED,
            build=instances,
            prove=prove_kept,
        ),
        exact(
            name="not-invariant",
            statement=(
                "for L >= n each K_L(A_p, r_p) is invariant under its A_p, the sum is not, and its decoder serves all"
            ),
            scope="the classes named in the evidence",
            build=not_invariant,
            prove=prove_not_invariant,
            mutants=class_mutants,
        ),
        exact(
            name="too-small",
            statement="decoders of one dimension less miss a policy, at the depth and state named",
            scope="the decoders named in the evidence",
            build=proposals,
            prove=prove_too_small,
            mutants=proposal_mutants,
        ),
        values(name="serves-large", scope=f"{NAMED}, at n = 24", build=large, quick=False),
    ]
