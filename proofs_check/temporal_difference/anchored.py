"""td.anchored: rounds and steps of both readings for all sizes, whole runs in Q, exact depths, the prefix's worst case.

Stage 1 and the Krylov context before the records are those of td.statistics and td.krylov; what their claims prove is
taken up here as W'B = I, Y = B + W (H - I)' and A^j r = B H^j g0 for j < k.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sympy as sp

from constructions.construction import Construction
from constructions.exact import RATIONALS
from constructions.layers import LinearAttention
from constructions.program import Program
from constructions.task import Task
from constructions.temporal_difference import anchored, sample_and_hold
from constructions.temporal_difference.anchored import (
    ASSUMPTIONS,
    THEOREM,
    anchored_program,
    prefix_layers,
    residual_layers,
)
from constructions.temporal_difference.executor import td_values
from constructions.temporal_difference.sample_and_hold import CLOCK
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..facts import Stated
from ..generic_layer import Point, biorthogonal, prove_layers, random_matrix
from ..instances import NAMED, Instance, InstanceSource, prove_instances
from ..records import RUNS, Record, run_record
from ..words import Words, identity, letter, ones_row, rule
from . import executor, held_facts
from .executor import BIORTHOGONAL, KRYLOV
from .sample_and_hold import (
    BOUNDED,
    ROUTES,
    L,
    M,
    N,
    Q,
    T,
    WorstCase,
    clocked_loop,
    loops,
    prove_hold,
    prove_record,
    prove_worst_case,
    worst_case_mutants,
)

K = executor.K
CONTEXT = 2
"""Rounds of the encoder in the programs that are built: the layers after it do not depend on their number."""


def prefix_program() -> Program:
    """T rounds of recording, K steps of the executor, L steps of holding."""
    return anchored_program(N, CONTEXT, prefix_layers(T, K, L), "prefix")


def residual_program() -> Program:
    """T rounds of recording, L steps."""
    return anchored_program(N, CONTEXT, residual_layers(T, L), "residual")


def prove_prefix(program: Program) -> Finding:
    """The second loop is td.executor, K times, and then its sources go."""
    found = loops(program)
    if len(found) != 3:
        return Finding(Verdict.REFUTED, {"block": "program", "found": f"{len(found)} loops", "expected": "3 loops"})
    loop = found[1]
    if sp.expand(loop.times - K) != 0:
        text = {"found": f"{loop.times} times", "expected": f"{K} times"}
        return Finding(Verdict.REFUTED, {"block": "prefix: loop bound", **text})
    alone = Program("prefix", program.layout, ("source", "query"), (replace(loop, times=executor.L),))
    return executor.prove_values(alone)


def _context() -> tuple[dict[tuple[str, str], Words], list, dict[str, Words]]:
    """Source blocks, the rule W'B = I, and their letters."""
    shapes = {"B": (N, K), "W": (N, K), "H": (K, K), "s": (K, 1), "g": (1, K)}
    x = {name: letter(name, *shape) for name, shape in shapes.items()}
    blocks = {
        ("source", "x"): x["B"],
        ("source", "y"): x["B"] + x["W"] @ (x["H"] - identity(K)).T,
        ("source", "r"): x["s"].T,
        ("source", "q"): x["g"],
        ("source", "one"): ones_row(K),
    }
    return blocks, rule(x["W"].T @ x["B"], identity(K)), x


def _sampler(*blocks: dict[tuple[str, str], Words]) -> Any:
    """Random values for all letters in the blocks, with W'B = I."""
    found = {x for part in blocks for words in part.values() for word in words.terms for x, _ in word}
    named = sorted((x for x in found if not x.name.startswith("1_")), key=lambda x: x.name)

    def sample(rng: random.Random) -> Point:
        n, k, m, q = rng.choice([(3, 2, 3, 2), (4, 2, 2, 1), (3, 3, 1, 2)])
        sizes: dict[Any, int] = {N: n, K: k, M: m, Q: q}
        B, W = biorthogonal(rng, n, k)
        given = {"B": B, "W": W}
        shape = {x.name: [s if isinstance(s, int) else sizes[s] for s in (x.rows, x.columns)] for x in named}
        return {**{name: random_matrix(rng, *shape[name]) for name in shape}, **given}, sizes

    return sample


def prove_residual_round(program: Program) -> Finding:
    """One round for all n, m, k: v and u move on, s becomes H s, and slots read v - u by their gates.

    Letters: v and u on the work token, X the records, p and q the gates, a and b the clocks that made them.
    """
    layer = clocked_loop(program, (0, 2), ("gp", "gm"), T, "residual round")
    if isinstance(layer, Finding):
        return layer
    sources, rules, x = _context()
    A, r, v, u, X = letter("A", N, N), letter("r", N, 1), letter("v", N, 1), letter("u", N, 1), letter("X", N, M)
    p, q, a, b = (letter(name, 1, M) for name in "pqab")
    one = ones_row(M)
    before = {
        **sources,
        ("state", "x"): identity(N),
        ("state", "y"): A.T,
        ("state", "r"): r.T,
        ("state", "one"): ones_row(N),
        ("work", "x"): v,
        ("work", "y"): u,
        ("work", "one"): identity(1),
        ("slot", "x"): X,
        ("slot", "one"): one,
        ("slot", "r"): letter("slot_r", 1, M),
        ("slot", "c"): letter("slot_c", 1, M),
        **{("slot", name): words for name, words in {"gp": p, "gm": q, "cp": a - one, "cm": b - one}.items()},
        ("query", "x"): letter("E", N, Q),
    }
    after = {
        **before,
        ("source", "r"): (x["H"] @ x["s"]).T,
        ("work", "x"): r + A @ v,
        ("work", "y"): u + x["B"] @ x["s"],
        ("slot", "x"): X + (v - u) @ (p - q),
        **{("slot", name): words for name, words in {"gp": a - one, "cp": a - one - one}.items()},
        **{("slot", name): words for name, words in {"gm": b - one, "cm": b - one - one}.items()},
    }
    tokens = Tokens({"source": K, "state": N, "work": 1, "slot": M, "query": Q}, before)
    step = prove_layers([layer], program.layout, tokens, after, rules, _sampler(before, {("W", ""): x["W"]}))
    return Finding.all_of({"round": step, **_copies(program)})


def _copies(program: Program) -> dict[str, Finding]:
    """g0 is copied before the rounds and comes back after them, whatever s was then."""
    sources, _, x = _context()
    plain = {key: words for key, words in sources.items() if key not in {("source", "q"), ("source", "y")}}
    named = {layer.label: layer for layer in program.layers if isinstance(layer, LinearAttention)}
    parts = {
        "save g0": (plain, {**plain, ("source", "q"): x["s"].T}),
        "restore g0": ({**plain, ("source", "q"): x["g"]}, {**plain, ("source", "q"): x["g"], ("source", "r"): x["g"]}),
    }
    out = {}
    order = [getattr(layer, "label", "") or type(layer).__name__ for layer in program.layers]
    places = [order.index(name) if name in order else -1 for name in ("save g0", "Repeat", "restore g0")]
    if -1 in places or places != sorted(places):
        text = {"found": ", ".join(order), "expected": "save g0, rounds, restore g0 in this order"}
        return {"copies": Finding(Verdict.REFUTED, {"block": "program", **text})}
    for name, (before, after) in parts.items():
        tokens = Tokens({"source": K}, before)
        out[name] = prove_layers([named[name]], program.layout, tokens, after, [], _sampler(before))
    return out


def prove_residual_step(program: Program) -> Finding:
    """One step for all n, m, k and queries: the value w held becomes w + B s + X p, s becomes H s, clocks go down.

    Letters: w the value, p the gates, X the records, c the clocks that make the next gates.
    """
    layer = clocked_loop(program, (1, 2), ("r",), L, "residual step")
    if isinstance(layer, Finding):
        return layer
    sources, rules, x = _context()
    X, E, w, p, c, one = (
        letter("X", N, M),
        letter("E", N, Q),
        letter("w", N, 1),
        letter("p", 1, M),
        letter("c", 1, M),
        ones_row(M),
    )
    before = {
        **sources,
        ("slot", "x"): X,
        ("slot", "one"): one,
        ("slot", "r"): p,
        ("slot", "c"): c - one,
        ("query", "x"): E,
        ("query", "r"): -(w.T @ E),
    }
    after = {
        **before,
        ("source", "r"): (x["H"] @ x["s"]).T,
        ("slot", "r"): c - one,
        ("slot", "c"): c - one - one,
        ("query", "r"): -((w + x["B"] @ x["s"] + X @ p.T).T @ E),
    }
    tokens = Tokens({"source": K, "slot": M, "query": Q}, before)
    return prove_layers([layer], program.layout, tokens, after, rules, _sampler(before, {("W", ""): x["W"]}))


def prove_exact_depths(instances: Sequence[Instance]) -> Finding:
    """The program's answer in Q is v_l at every l <= k and at every sample."""
    rows: list[dict[str, Any]] = []
    records: list[Record] = []
    for instance in instances:
        built, task = instance.construction, instance.task
        assert isinstance(task, Task)
        k, depth = int(built.sizes["k"]), int(built.sizes["L"])
        answer, values = built.outputs(task, RATIONALS), td_values(task, depth, RATIONALS)
        equal = [l for l in range(depth + 1) if RATIONALS.rows(answer, l, l + 1) == RATIONALS.rows(values, l, l + 1)]
        needed = set(range(k + 1)) | {int(tau) for name, tau in built.sizes.items() if name.startswith("tau_")}
        missing = sorted(needed - set(equal))
        where = {"task": task.name, "sizes": dict(built.sizes)}
        if missing:
            i = next(i for i in range(task.n) if answer[missing[0], i] != values[missing[0], i])
            text = {"block": f"v at depth {missing[0]}", "column": i, "found": rational(answer[missing[0], i])}
            expected = {"expected": rational(values[missing[0], i]), "counterexample": task.describe()}
            return Finding(Verdict.REFUTED, {**where, **text, **expected})
        rows.append({**where, "exact at": sorted(needed)})
        record = run_record(built, task, held_facts.exact_at(sorted(needed)))
        records += [] if record is None or len(records) == RUNS else [record]
    return Finding(Verdict.PROVED, {"instances": rows}, tuple(records))


@dataclass(frozen=True)
class PrefixCase(WorstCase):
    """A worst case whose first k samples are the depths 1..k of the Krylov prefix."""

    k: int = 1


def prefix_cases(choices: Sequence[tuple[str, int, int]]) -> list[PrefixCase]:
    """The even split for each (g, m, L)."""
    out = []
    for g, m, depth in choices:
        found = anchored.split(g, m)
        kept = (*range(1, found.k + 1), *(x for x in found.samples if x <= depth))
        error = sample_and_hold.hold_error(g, kept, depth)
        out.append(PrefixCase(found.discount, kept, depth, error, found.k))
    return out


def _prefix(case: PrefixCase) -> Construction:
    return anchored.construction(1, case.depth, case.k, case.depths[case.k :])


def _stated(instance: Instance) -> Stated:
    """What the records say of a run, by its reading."""
    k = int(instance.construction.sizes["k"])
    prefix = "prefix" in instance.construction.program.name
    return held_facts.held(held_facts.anchored(k)) if prefix else held_facts.residual(k)


def claims(instances: InstanceSource, quick_instances: InstanceSource) -> list[Claim]:
    """The claims of td.anchored; the instances come from the caller."""
    inductive = partial(Claim, THEOREM, assurance=Assurance.INDUCTIVE)
    whole = partial(
        Claim,
        THEOREM,
        statement="from the raw log: prefix, v_l up to k and v at the last sample; residual, u_l + v_tau - u_tau",
        assurance=Assurance.EXACT,
        assumptions=ASSUMPTIONS,
        prove=partial(prove_instances, stated=_stated),
    )
    return [
        inductive(
            name="record",
            statement="prefix: after tau_j + 1 rounds record u is v_{tau_u} - v_{tau_{u-1}}, tau_0 = k",
            scope="all n, j and samples, by induction over rounds, from state tokens that hold A and r",
            assumptions=(CLOCK, ROUTES),
            build=prefix_program,
            prove=partial(prove_record, place=(0, 3)),
        ),
        inductive(
            name="prefix",
            statement="prefix: the answer is v_l at every depth l <= k",
            scope="all n, k and queries, by induction over steps, from a context of k Krylov vectors",
            assumptions=(BIORTHOGONAL, KRYLOV, ROUTES),
            build=prefix_program,
            prove=prove_prefix,
        ),
        inductive(
            name="hold",
            statement="prefix: after depth k the answer is v at the last of k and the samples",
            scope="all n, j, samples, L and queries, by induction over steps, from v_k and the records",
            assumptions=(CLOCK, ROUTES),
            build=prefix_program,
            prove=partial(prove_hold, place=(2, 3)),
        ),
        inductive(
            name="residual-round",
            statement="residual: after tau_j + 1 rounds record u is (v - u) at tau_u less (v - u) at tau_{u-1}",
            scope="all n, j, k and samples, by induction over rounds, from states and a context of k Krylov vectors",
            assumptions=(BIORTHOGONAL, CLOCK, ROUTES),
            build=residual_program,
            prove=prove_residual_round,
        ),
        inductive(
            name="residual-step",
            statement="residual: after l steps it is u_l + (v - u) at the last sample, u_l = B sum_{t<l} H^t g0",
            scope="all n, j, k, samples, L and queries, by induction over steps, from the context and the records",
            assumptions=(BIORTHOGONAL, CLOCK, ROUTES),
            build=residual_program,
            prove=prove_residual_step,
        ),
        whole(name="instances", scope=NAMED, build=quick_instances),
        Claim(
            THEOREM,
            "exact-depths",
            "both readings answer v_l itself at every depth l <= k and at every sample",
            NAMED,
            Assurance.EXACT,
            ASSUMPTIONS,
            lambda: quick_instances()[:2],
            prove_exact_depths,
        ),
        Claim(
            THEOREM,
            "worst-case",
            "prefix: the worst error over all tasks is the largest mass of a block; one state with reward 1 attains it",
            "all n and tasks with |r|_inf <= 1, at the (g, k, samples, L) in the evidence",
            Assurance.EXACT,
            (BOUNDED, *ASSUMPTIONS),
            lambda: prefix_cases([("1/3", 3, 8), ("9/10", 4, 30), ("9/10", 12, 30), ("4/5", 6, 20)]),
            partial(prove_worst_case, build=_prefix, weights=lambda case: held_facts.anchored(case.k)),
            mutants=worst_case_mutants,
        ),
        whole(name="instances-large", scope=f"{NAMED}, up to n = 24, N = 960", build=instances, quick=False),
    ]
