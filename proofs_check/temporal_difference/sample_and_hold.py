"""td.sample-and-hold: rounds and steps for every size, whole runs in Q, and the worst case over all tasks.

`prove_record` and `prove_hold` serve td.midpoint-hold too: the programs share their rounds but for a weight and a sign.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import sympy as sp
from flint import fmpq_mat

from constructions.construction import Construction
from constructions.exact import RATIONALS
from constructions.layers import LinearAttention, Repeat, Tokenwise
from constructions.program import Program
from constructions.task import Task
from constructions.temporal_difference import sample_and_hold
from constructions.temporal_difference.sample_and_hold import ASSUMPTIONS, CLOCK, THEOREM, hold_program
from constructions.tokens import Span, Tokens

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..generic_layer import Point, prove_layers, random_matrix
from ..instances import NAMED, InstanceSource, prove_instances
from ..mutants import Mutant
from ..records import Record
from ..words import Words, diagonal, identity, letter, ones_row, rule, zero
from . import held_facts

N, M, Q, T, L, RAW = sp.symbols("n m q T L N", integer=True, positive=True)
ROUTES = "routes depend on token kinds and public indices only"
BOUNDED = "rewards are bounded: |r|_inf <= 1, and |A|_inf <= g"
SMALL = Fraction(1, 1000)


def loops(program: Program) -> list[Repeat]:
    """The repeated parts: rounds of recording, steps of the executor."""
    return [layer for layer in program.layers if isinstance(layer, Repeat)]


def clocked_layer(loop: Repeat, gates: Sequence[str]) -> LinearAttention | None:
    """The attention layer of a loop that first opens the gates, each by eq0 on all slots; None if it is not one."""
    *primitives, layer = loop.layers
    opened = [(x.primitive, x.span, x.field) for x in primitives if isinstance(x, Tokenwise)]
    wanted = [("eq0", Span("slot"), gate) for gate in gates]
    if len(opened) != len(primitives) or sorted(opened, key=str) != sorted(wanted, key=str):
        return None
    return layer if isinstance(layer, LinearAttention) else None


def clocked_loop(
    program: Program, place: tuple[int, int], gates: Sequence[str], times: sp.Expr, what: str
) -> LinearAttention | Finding:
    """The attention layer of loop `place[0]` of `place[1]`, or why the program is not as the induction needs it."""

    def refuted(block: str, found: str, expected: str) -> Finding:
        return Finding(Verdict.REFUTED, {"block": f"{what}: {block}", "found": found, "expected": expected})

    found = loops(program)
    index, count = place
    if len(found) != count:
        return refuted("program", f"{len(found)} loops", f"{count} loops")
    if sp.expand(found[index].times - times) != 0:
        return refuted("loop bound", f"{found[index].times} times", f"{times} times")
    layer = clocked_layer(found[index], gates)
    if layer is None:
        return refuted("gates", "other layers", f"eq0 on slot {', '.join(gates)}, then one attention layer")
    return layer


def _slots(**fields: Words) -> dict[tuple[str, str], Words]:
    """Slots with generic fields, but for those given."""
    rows = {field: letter(f"slot_{field}", 1, M) for field in ("r", "c", "gp", "gm", "cp", "cm")}
    blocks = {**rows, "x": letter("X", N, M), "one": ones_row(M), **fields}
    return {("slot", field): words for field, words in blocks.items()}


def _queries() -> dict[tuple[str, str], Words]:
    return {("query", "x"): letter("E", N, Q)}


def prove_statistics(program: Program) -> Finding:
    """Stage 1 with overwrites, for all n and N: y_i = g N_i. / N_i, r_i the mean reward; raw tokens are released.

    X, Y, R stand for the one-hot columns and rewards of N raw tokens; the identities hold for any X, Y, R, g. The
    second part starts from letters z, s, c for the three sums, so that recip_0 acts on a named row.
    """
    X, Y, R, g = letter("X", N, RAW), letter("Y", N, RAW), letter("R", 1, RAW), letter("g", 1, N)
    own = {("state", "x"): identity(N), ("state", "one"): ones_row(N), ("state", "gam"): g}
    raw = {("raw", "x"): X, ("raw", "y"): Y, ("raw", "r"): R, ("raw", "one"): ones_row(RAW)}
    sums = {("state", "y"): Y @ X.T, ("state", "r"): R @ X.T, ("state", "c"): ones_row(RAW) @ X.T}
    z, s, c = letter("z", N, N), letter("s", 1, N), letter("c", 1, N)
    after = {
        **own,
        ("state", "y"): z @ diagonal("g o recip_0(c)", N),
        ("state", "r"): s @ diagonal("recip_0(c)", N),
        ("state", "c"): letter("recip_0(c)", 1, N),
    }

    def sample(rng: random.Random) -> Point:
        n, count = rng.choice([(2, 3), (3, 5)])
        shapes = {"X": (n, count), "Y": (n, count), "R": (1, count), "z": (n, n), **dict.fromkeys("gsc", (1, n))}
        point = {name: random_matrix(rng, *shape) for name, shape in shapes.items()}
        inverses = RATIONALS.recip_0(point["c"])
        point["recip_0(c)"] = inverses
        for name, row in (("recip_0(c)", inverses), ("g o recip_0(c)", RATIONALS.hadamard(point["g"], inverses))):
            point[f"diag({name})"] = RATIONALS.scale_columns(RATIONALS.one_hot(range(n), n), row)
        return point, {N: n, RAW: count}

    first, *middle = program.layers[:3]
    counted = Tokens({"raw": RAW, "state": N}, {**raw, **own})
    summed = Tokens({"state": N}, {**own, ("state", "y"): z, ("state", "r"): s, ("state", "c"): c})
    return Finding.all_of(
        {
            "sums": prove_layers([first], program.layout, counted, {**raw, **own, **sums}, [], sample),
            "quotients": prove_layers(middle, program.layout, summed, after, [], sample),
        }
    )


def prove_record(
    program: Program, weighted: bool = False, second_sign: int = -1, place: tuple[int, int] = (0, 2)
) -> Finding:
    """One round for all n and m: v becomes r + A v, slots read v by their gates, clocks go down by one.

    Letters: v on the work token, X the records so far, p and q the gates, a and b the clocks that made them. In round t
    clocks stand at tau - t, so a gate is [t = tau]; `weighted` says that records are taken times the work token's gam.
    """
    layer = clocked_loop(program, place, ("gp", "gm"), T, "record")
    if isinstance(layer, Finding):
        return layer
    A, r, v, X = letter("A", N, N), letter("r", N, 1), letter("v", N, 1), letter("X", N, M)
    p, q, a, b = (letter(name, 1, M) for name in "pqab")
    weight, one = letter("h", 1, 1), ones_row(M)
    before = {
        ("state", "x"): identity(N),
        ("state", "y"): A.T,
        ("state", "r"): r.T,
        ("state", "c"): letter("state_c", 1, N),
        ("state", "gam"): letter("state_gam", 1, N),
        ("state", "one"): ones_row(N),
        ("work", "x"): v,
        ("work", "one"): identity(1),
        ("work", "gam"): weight,
        **_slots(gp=p, gm=q, cp=a - one, cm=b - one),
        **_queries(),
    }
    key = weight if weighted else identity(1)
    second = v @ key @ q
    after = {
        **before,
        ("work", "x"): r + A @ v,
        ("slot", "x"): X + v @ key @ p + (second if second_sign > 0 else -second),
        ("slot", "gp"): a - one,
        ("slot", "cp"): a - one - one,
        ("slot", "gm"): b - one,
        ("slot", "cm"): b - one - one,
    }
    tokens = Tokens({"state": N, "work": 1, "slot": M, "query": Q}, before)
    step = prove_layers([layer], program.layout, tokens, after, [], _sampler(before))
    return Finding.all_of({"round": step, "base": prove_base()})


def prove_hold(program: Program, place: tuple[int, int] = (1, 2)) -> Finding:
    """One step for all n, m and numbers of queries: an open gate turns the value held into the next one.

    Letters: w the value held, d the next one, e the unit vector of the slot whose clock is at zero, X e = d - w its
    record. Without an open gate nothing but clocks moves. So after step l the queries hold the value of the last
    tau <= l, by induction: records telescope.
    """
    layer = clocked_loop(program, place, ("r",), L, "hold")
    if isinstance(layer, Finding):
        return layer
    X, E, e = letter("X", N, M), letter("E", N, Q), letter("e", M, 1, indicator=True)
    w, d, u, one = letter("w", N, 1), letter("d", N, 1), letter("u", 1, M), ones_row(M)
    counts = {"slot": M, "query": Q}

    def run(gate: Words, value: Words, rules: list) -> Finding:
        before = {**_slots(r=gate, c=u - one), **_queries(), ("query", "r"): -(w.T @ E)}
        after = {
            **before,
            ("query", "r"): -(value.T @ E),
            ("slot", "r"): u - one,
            ("slot", "c"): u - one - one,
        }
        return prove_layers([layer], program.layout, Tokens(counts, before), after, rules, sample)

    def sample(rng: random.Random) -> Point:
        values, sizes = _sampler({**_slots(c=u), **_queries(), ("query", "r"): w.T @ E})(rng)
        m = sizes[M]
        chosen = rng.randrange(m)
        values["e"] = fmpq_mat(m, 1, [int(i == chosen) for i in range(m)])
        values["d"] = values["w"] + values["X"] * values["e"]
        return values, sizes

    return Finding.all_of(
        {
            "no gate open": run(zero(1, M), w, []),
            "one gate open": run(e.T, d, rule(X @ e, d - w)),
            "base": prove_base(),
        }
    )


def _sampler(blocks: dict[tuple[str, str], Words]) -> Any:
    """Random values for every letter that stands in the blocks."""
    found = {x for words in blocks.values() for word in words.terms for x, _ in word if not x.name.startswith("1_")}

    def sample(rng: random.Random) -> Point:
        n, m, q = rng.choice([(2, 3, 2), (3, 2, 1), (3, 3, 2)])
        sizes: dict[Any, int] = {N: n, M: m, Q: q}
        values = {
            x.name: random_matrix(rng, *(s if isinstance(s, int) else sizes[s] for s in (x.rows, x.columns)))
            for x in sorted(found, key=lambda x: x.name)
        }
        return values, sizes

    return sample


def prove_base() -> Finding:
    """Tokens enter with no values or records, and clocks at tau - t: t = 0 for records, t = 1 for the executor."""
    task = one_state(Fraction(1, 2))
    clocks = [(3, 0, 3), (5, 3, 6)]
    tokens = sample_and_hold.encode_hold(task, RATIONALS, 1, clocks, 1)
    expected = {"gp": [3, 5], "cp": [2, 4], "gm": [0, 3], "cm": [-1, 2], "r": [2, 5], "c": [1, 4]}
    for field, row in expected.items():
        if tokens.blocks["slot", field] != fmpq_mat(1, 2, row):
            return Finding(Verdict.REFUTED, {"block": f"slot.{field}", "expected": row})
    filled = [key for key in (("work", "x"), ("slot", "x"), ("query", "r")) if key in tokens.blocks]
    if filled:
        return Finding(Verdict.REFUTED, {"block": ".".join(filled[0]), "expected": "zero"})
    return Finding(Verdict.PROVED, {"base": "v_0 = 0, records and values are zero, clocks stand at tau - t"})


def one_state(discount: Fraction) -> Task:
    """One state that steps to itself with reward 1: the worst case of every way of holding values."""
    zeros = np.zeros(1, dtype=np.int64)
    return Task(
        zeros, zeros, np.ones(1, dtype=np.int64), np.zeros(1, dtype=bool), 1, discount, f"one state, g={discount}"
    )


@dataclass(frozen=True)
class WorstCase:
    """A sampling of depths 0..L with its worst error over all tasks, as claimed."""

    discount: Fraction
    depths: tuple[int, ...]
    depth: int
    error: Fraction


def worst_cases(choices: Sequence[tuple[str, int, int]]) -> list[WorstCase]:
    """The schedule of Thm 4.5 for each (g, m, L)."""
    out = []
    for g, m, depth in choices:
        found = sample_and_hold.schedule(g, m)
        kept = sample_and_hold.check_depths(found.depths, depth)
        out.append(WorstCase(found.discount, kept, depth, sample_and_hold.hold_error(g, kept, depth)))
    return out


def attained(built: Construction, discount: Fraction) -> Fraction:
    """max over depths of |v_l - answer| on the one-state task, the program run in Q."""
    answer = built.outputs(one_state(discount), RATIONALS).entries()
    value, worst = Fraction(0), Fraction(0)
    for x in answer:
        worst = max(worst, abs(value - Fraction(int(x.p), int(x.q))))
        value = 1 + discount * value
    return worst


def _sampled(case: WorstCase) -> Construction:
    return sample_and_hold.construction(1, case.depth, case.depths)


def prove_worst_case(
    cases: Sequence[Any],
    build: Callable[[Any], Construction] = _sampled,
    weights: Callable[[Any], held_facts.Weights] = lambda _: held_facts.sampled,
) -> Finding:
    """Upper: |v_l - v_tau| = |sum_{tau<=j<l} A^j r| <= sum g^j <= error, at every depth. Lower: the one-state task.

    Args:
        cases: samplings with their errors.
        build: the program of a case, for one state.
        weights: what it holds, for the records.
    """
    rows: list[dict[str, Any]] = []
    records: list[Record] = []
    for case in cases:
        g = case.discount
        where = {"g": str(g), "depths": list(case.depths), "L": case.depth}
        for l in range(case.depth + 1):
            tau = max((x for x in case.depths if x <= l), default=0)
            bound = sum((g**j for j in range(tau, l)), Fraction(0))
            if bound > case.error:
                evidence = {"block": "upper", "depth": l, "found": rational(bound), "expected": rational(case.error)}
                return Finding(Verdict.REFUTED, {**where, **evidence})
        found = attained(build(case), g)
        if found != case.error:
            evidence = {"block": "lower", "found": rational(found), "expected": rational(case.error)}
            return Finding(Verdict.REFUTED, {**where, **evidence, "counterexample": one_state(g).describe()})
        rows.append({**where, "error": rational(case.error), "decimal": float(case.error)})
        records += held_facts.worst_case(build(case), one_state(g), weights(case), case.error)
    return Finding(Verdict.PROVED, {"cases": rows}, tuple(records))


def worst_case_mutants(cases: Sequence[WorstCase]) -> Iterator[Mutant]:
    """Errors and depths changed, one case at a time."""
    for case in cases:
        name = f"g={case.discount}, m={len(case.depths)}"
        changes = {
            "error raised": replace(case, error=case.error + SMALL),
            "error lowered": replace(case, error=case.error - SMALL),
            "last sample dropped": replace(case, depths=case.depths[:-1]),
            "first sample later": replace(case, depths=(case.depths[0] + 1, *case.depths[1:])),
            "one depth more": replace(case, depth=case.depth + 1),
        }
        for text, changed in changes.items():
            if changed.depths and list(changed.depths) == sorted(set(changed.depths)):
                yield Mutant("value", f"{name}: {text}", [changed])


def claims(instances: InstanceSource, quick_instances: InstanceSource) -> list[Claim]:
    """The claims of td.sample-and-hold; the instances come from the caller."""
    inductive = partial(Claim, THEOREM, assurance=Assurance.INDUCTIVE, build=lambda: hold_program(N, T, L))
    whole = partial(
        Claim,
        THEOREM,
        statement="from the raw log, the answer at depth l is v at the last sampled depth, and 0 before the first",
        assurance=Assurance.EXACT,
        assumptions=ASSUMPTIONS,
        prove=partial(prove_instances, stated=lambda _: held_facts.held(held_facts.sampled)),
    )
    return [
        inductive(
            name="statistics",
            statement="stage 1 on 2n + 8 coordinates leaves row i of A and r_i on state token i",
            scope="all n, N and logs",
            assumptions=(*ASSUMPTIONS[:1], ROUTES),
            prove=prove_statistics,
        ),
        inductive(
            name="record",
            statement=(
                "round t takes v_t to v_{t+1} = r + A v_t and adds [t = tau_u] v_t - [t = tau_{u-1}] v_t to record u,"
                " so after tau_m + 1 rounds record u is v_{tau_u} - v_{tau_{u-1}}"
            ),
            scope="all n, m and schedules, by induction over rounds, from state tokens that hold A and r",
            assumptions=(CLOCK, ROUTES),
            prove=prove_record,
        ),
        inductive(
            name="hold",
            statement="after l steps minus the last coordinate of a query q is v(q) at the last sampled depth tau <= l",
            scope="all n, m, schedules, L and queries, by induction over steps, from the records",
            assumptions=(CLOCK, ROUTES),
            prove=prove_hold,
        ),
        whole(name="instances", scope=NAMED, build=quick_instances),
        Claim(
            THEOREM,
            "worst-case",
            "the worst error over all tasks is the largest mass of a block, and one state with reward 1 attains it",
            "all n and tasks with |r|_inf <= 1, at the (g, depths, L) in the evidence",
            Assurance.EXACT,
            (BOUNDED, *ASSUMPTIONS),
            lambda: worst_cases([("1/3", 3, 8), ("9/10", 4, 30), ("9/10", 12, 30), ("4/5", 6, 20)]),
            prove_worst_case,
            mutants=worst_case_mutants,
        ),
        whole(name="instances-large", scope=f"{NAMED}, up to n = 24, N = 960", build=instances, quick=False),
    ]
