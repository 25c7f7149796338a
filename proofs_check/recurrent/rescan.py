"""recurrent.rescan: what reading again does to a state, what one pass must hold, and the model that reads again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import sympy as sp

from constructions.errors import Unsupported
from constructions.exact import RATIONALS
from constructions.recurrent.blocks import BlockTask, generic_block_task
from constructions.recurrent.rescan import ASSUMPTIONS, THEOREM, construction
from constructions.symbols import Polynomials

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..instances import NAMED, Instance, InstanceSource, prove_instances
from ..records import RUNS
from . import memory, sweeps, two_keys, world_facts

SYMBOLIC = (3, 2, 2)
"""(K, d, d_v)."""
INVARIANCE = "invariance of domain (cited): no continuous injection of an open set of R^N into R^n for n < N"
BORSUK_ULAM = (
    "Borsuk-Ulam (cited): with n < N reals two opposite worlds of every sphere share a code, so that some error is as"
    " large as that of answering 0"
)
LINEAR = (
    "scope of 1 - n/N - s/d: a linear encoder with Gaussian functions and any reader (cited), or independent entries of"
    " variance 1 with a linear reader; it is false for non-linear encoders"
)


def symbolic_instances() -> list[Instance]:
    """Functions, w, the shot and the query symbols, for every target; by sketch, and by replay for one."""
    K, d, d_v = SYMBOLIC
    w = sp.symbols(f"w_0:{d_v}")
    tasks = [generic_block_task(K, d, d_v, target) for target in range(K)]
    sketched = [Instance(construction(task, w=w), task) for task in tasks]
    return [*sketched, Instance(construction(tasks[1], "replay"), tasks[1])]


def prove_symbolic(instances: Sequence[Instance]) -> Finding:
    """Residuals and answers are the polynomials that they must be: that of block t is zero, no other one is.

    A controller that finds not exactly one zero refutes this. Residuals are sums of squares, so block t is chosen at
    every point where no other residual vanishes.
    """
    found, records = [], []
    for instance in instances:
        task: BlockTask = instance.task  # type: ignore[assignment]
        ring = Polynomials([*task.symbols, *(f"w_{i}" for i in range(SYMBOLIC[2]))], rational=True)
        where = {"task": task.name, "program": instance.construction.program.name}
        try:
            left = instance.construction.outputs(task, ring)
        except Unsupported as error:
            return Finding(Verdict.REFUTED, {"block": "residuals", **where, "failure": str(error)})
        right = instance.construction.reference(task, ring)
        for row in range(right.shape[0]):
            difference = left[row, 0] - right[row, 0]
            if difference != 0:
                block, inner = instance.construction.block_of(row)
                place = {"block": block, "row": inner, "difference": rational(difference)}
                return Finding(Verdict.REFUTED, {**where, **place})
        found.append(where)
        name = instance.construction.program.name
        records.append(world_facts.answered_generic(task, "sketch" in name, left, f"{task.name}, {name}"))
    return Finding(Verdict.PROVED, {"tasks": found}, tuple(records))


def prove_model(instances: Sequence[Instance]) -> Finding:
    """As `prove_instances`; records hold the answers of the built model beside the functions."""
    finding = prove_instances(instances)
    if finding.verdict is not Verdict.PROVED:
        return finding
    records = []
    for x in sorted(instances, key=lambda x: x.task.size)[:: max(1, len(instances) // RUNS)]:
        task: BlockTask = x.task  # type: ignore[assignment]
        sketch = "sketch" in x.construction.program.name
        row = range(1, task.size[2] + 1) if sketch else None
        records.append(world_facts.answered(task, row, x.construction.outputs(task, RATIONALS)))
    return replace(finding, records=tuple(records))


def claims(sketched: InstanceSource, replayed: InstanceSource, seed: int = 0) -> list[Claim]:
    """The claims of recurrent.rescan; instances of the model come from the caller."""
    inductive, exact = Assurance.INDUCTIVE, Assurance.EXACT
    gates = "all gates are 1"
    linear = "values are linear in the functions; keys, rates and gates do not depend on them; the state starts at 0"

    def claim(
        name: str,
        statement: str,
        scope: str,
        assurance: Assurance,
        assumptions: tuple[str, ...],
        build: Callable,
        prove: Callable,
        mutants: Callable | None = None,
    ) -> Claim:
        return Claim(THEOREM, name, statement, scope, assurance, assumptions, build, prove, mutants=mutants)

    return [
        claim(
            "overwriting",
            "orthogonal keys, b = 1/|k|^2, v = A k: S+ = S (I - P) + A P for every S; the block is recalled exactly",
            "all sizes and states, keys of any lengths",
            inductive,
            (gates, "keys are orthogonal; v = A k for the key itself, not for a normalised one"),
            sweeps.overwriting,
            sweeps.prove_sweep,
            sweeps.sweep_mutants,
        ),
        claim(
            "bias",
            "with gates a < 1 key i of m orthogonal ones comes back scaled by a^{m-i}: each later token scales it by a",
            "all sizes; one later token, hence any number",
            inductive,
            ("the gate is a I; keys are orthogonal", "b = 1/|k|^2 at the token whose own recall is exact"),
            sweeps.bias,
            sweeps.prove_sweep,
            sweeps.sweep_mutants,
        ),
        claim(
            "kaczmarz",
            "whatever the keys, r re-scans give E_r = E_0 M^r for E = S - A: sweeps of Kaczmarz's method",
            "all sizes, keys and rates",
            inductive,
            (gates, "v = A k in every token"),
            sweeps.kaczmarz,
            sweeps.prove_sweep,
            sweeps.sweep_mutants,
        ),
        claim(
            "random-keys",
            "a random unit key leaves (1 - b (2 - b)/d) |E|^2 in the mean: after n of them the n-th power",
            "all sizes",
            inductive,
            (gates, "keys are independent with E[k k'] = I/d"),
            sweeps.random_key,
            sweeps.prove_sweep,
            sweeps.sweep_mutants,
        ),
        claim(
            "two-keys",
            "two unit keys at cosine c, b = 1: M^r = c^{2r-1} n_1 n_2' on their span, of norm |c|^{2r-1}",
            "all angles and r",
            inductive,
            (gates, "I - k_i k_i' = n_i n_i' in the plane of the keys"),
            two_keys.sweep_norm,
            sweeps.prove_sweep,
            sweeps.sweep_mutants,
        ),
        claim(
            "equiangular",
            "n unit keys at cosine c, b = 1: p(y) (y - 1) = y (y - c)^n - y^n (1 - c)^n for the polynomial of M",
            "n = 2 .. 5, every c (n + 1 values decide a polynomial of degree n)",
            exact,
            (gates, "p depends on the Gram matrix only, with degree at most n in c"),
            two_keys.equiangular,
            two_keys.prove_equiangular,
            two_keys.equiangular_mutants,
        ),
        claim(
            "two-sweeps",
            "rates 1, B, G, 1 on k_1, k_2, k_1, k_2 erase every error exactly if B G = 1/sin^2 th: M = 0 on the span",
            "all angles 0 < th < pi/2; for B, G in [0, 2] this needs th >= pi/6, and there B = G = 2",
            inductive,
            (gates, "cos th is not 0"),
            two_keys.two_sweeps,
            sweeps.prove_sweep,
            sweeps.sweep_mutants,
        ),
        claim(
            "sweeps-needed",
            "with b in [0, 2] the least number of sweeps that can be exact is 1 + ceil(pi/(4 th) - 1/2)",
            "nine angles with rational sine and cosine, named in the evidence; two keys; three are open",
            exact,
            (
                gates,
                "a function affine in each variable is smallest at a corner of a box; intermediate values (cited)",
                "an exact product has n'X n = 0 between two steps with b = 1; first to last is the widest such gap",
            ),
            two_keys.angles,
            two_keys.prove_angles,
            two_keys.angle_mutants,
        ),
        claim(
            "answers",
            "the answers determine N = K d d_v reals; with the target known before the re-scan, d d_v",
            "the tasks named in the evidence; inputs of each block span",
            exact,
            (INVARIANCE, BORSUK_ULAM, "the encoder is continuous, and its state answers every pair exactly"),
            lambda: memory.answer_maps(seed),
            memory.prove_answers,
            memory.answer_mutants,
        ),
        claim(
            "encoder-rank",
            "one pass keeps d_v rank(Phi) <= d_v min(d_k, K d) of these reals, with equality for the keys named",
            "the encoders named in the evidence; a rank is at most the number of columns, for all of them",
            exact,
            (linear,),
            lambda: memory.encoders(seed),
            memory.prove_ranks,
            memory.rank_mutants,
        ),
        claim(
            "collisions",
            "where d_k < K d two rational worlds give the layer the same state and have different answers",
            "the encoders named in the evidence",
            exact,
            (linear,),
            lambda: memory.collisions(seed),
            memory.prove_collisions,
            memory.collision_mutants,
        ),
        claim(
            "mean-error",
            "a linear reader of n reals and s shots errs by at least 1 - n/N - s/d in the mean; without shots just so",
            "the encoders and shots named in the evidence; 1 is the error of answering 0",
            exact,
            (linear, LINEAR, "keys are generic: Phi has full rank"),
            lambda: memory.guesses(seed),
            memory.prove_guesses,
            memory.guess_mutants,
        ),
        claim(
            "shots",
            "s independent shots always identify exactly if s > max dim ker(A_j - A_k); one may do if the A's differ",
            "the functions named in the evidence",
            exact,
            ("more independent vectors than a kernel has dimensions do not all lie in it (cited)",),
            lambda: memory.shot_cases(seed),
            memory.prove_shots,
            memory.shot_mutants,
        ),
        claim(
            "model",
            "work head, K sketch heads and the controller: r_j = sum of (w'(A_t - A_j) x)^2, and every answer is exact",
            NAMED,
            exact,
            (*ASSUMPTIONS, "w'(A_t - A_j) is not 0 on all shots for any j other than t"),
            sketched,
            prove_model,
        ),
        claim(
            "symbolic",
            "as polynomials in functions, w, shot, query: r_t = 0, no other r_j is, the answer is A_t q; by replay too",
            "K = 3, d = 2, d_v = 2, one shot, every target; wherever no other block's residual vanishes",
            exact,
            (
                *ASSUMPTIONS,
                "residuals are sums of squares of real numbers; inputs are orthogonal, rational, named by seed",
            ),
            symbolic_instances,
            prove_symbolic,
        ),
        claim(
            "replay",
            "without a sketch: each block is read into one memory and tried on the shots; the best is read again",
            NAMED,
            exact,
            (*ASSUMPTIONS, "A_t - A_j is not 0 on all shots for any j other than t"),
            replayed,
            prove_model,
        ),
    ]
