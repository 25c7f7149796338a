"""td.full-context: four algorithms proved for all sizes, as polynomials up to d = 64, and on instances in Q."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import sympy as sp
from flint import fmpq, fmpq_mat

from constructions.dense import DenseHead, apply_heads, assemble, dense_heads
from constructions.exact import RATIONALS
from constructions.layers import LinearAttention, Public, Repeat
from constructions.program import Program
from constructions.symbols import Polynomials, symbol_names
from constructions.temporal_difference import full_context
from constructions.temporal_difference.full_context import ALGORITHMS, ASSUMPTIONS, THEOREM, full_context_program
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..generic_layer import Point, prove_layers, random_matrix
from ..instances import NAMED, Instance, InstanceSource, prove_instances
from ..mutants import Mutant, entry_mutants
from ..records import run_record
from ..words import Words, letter
from .full_context_facts import stated, step_record

D, N, Q, L = sp.symbols("d N q L", integer=True, positive=True)
RATE = Fraction(2, 3)
"""The trace decay of the program that is proved; the proof keeps the mixing as a letter."""

UPDATES = {
    "td": "w + C sum_t delta_t phi_t",
    "td-lambda": "w + C sum_t delta_t e_t with e_t = lambda e_{t-1} + phi_t",
    "residual-gradient": "w + C sum_t delta_t (phi_t - g phi'_t)",
    "average-reward": "w + C sum_t (R_t - rbar_t + w'phi'_t - w'phi_t) phi_t",
}
MIXED = {"td-lambda": "Lambda", "average-reward": "T"}
"""The letter of the public mixing, where there is one."""

MIXING = "the entries of the public mixing, a letter in the proof, are those stated: compared at the points in Q"


def symbolic_program(algorithm: str) -> Program:
    """The program with d, L and the preconditioner C (step and 1/N included) as symbols."""
    return full_context_program(algorithm, D, L, [Public("C")], RATE if algorithm == "td-lambda" else 0)


def update_words(algorithm: str) -> tuple[dict[tuple[str, str], Words], dict[tuple[str, str], Words]]:
    """Generic tokens under the invariant for w, and for the w of the next step as the algorithm defines it."""
    X, Y, R, w = letter("X", D, N), letter("Y", D, N), letter("R", 1, N), letter("w", D, 1)
    C, E = letter("C", D, D), letter("E", D, Q)
    # A mixing T takes a row r of samples to r T: errors to their decayed sums, R to R - rbar.
    T = letter(MIXED[algorithm], N, N) if algorithm in MIXED else None
    average = algorithm == "average-reward"
    delta = (R @ T if average and T is not None else R) + w.T @ (Y - X)
    e = X @ T.T if algorithm == "td-lambda" and T is not None else X - Y if algorithm == "residual-gradient" else X
    return tuple(_tokens(v, X, Y, R, E, average) for v in (w, w + C @ e @ delta.T))  # type: ignore[return-value]


def _tokens(w: Words, X: Words, Y: Words, R: Words, E: Words, average: bool) -> dict[tuple[str, str], Words]:
    moving, gap = "h" if average else "r", w.T @ (Y - X)
    blocks = {("sample", "x"): X, ("sample", "y"): Y, ("sample", "r"): R, ("query", "x"): E}
    return blocks | {("sample", moving): gap if average else R + gap, ("query", moving): -(w.T @ E)}


def mixing_value(algorithm: str, samples: int) -> list[list[Fraction]]:
    """The mixing by what it must do to each unit row: a decayed sum from the end, or the row minus running means."""
    out = []
    for i in range(samples):
        row = [Fraction(int(j == i)) for j in range(samples)]
        if algorithm == "td-lambda":
            for j in reversed(range(samples - 1)):
                row[j] += RATE * row[j + 1]
        else:
            means = [sum(row[: j + 1], Fraction(0)) / (j + 1) for j in range(samples)]
            row = [a - b for a, b in zip(row, means, strict=True)]
        out.append(row)
    return out


def prove_algorithm(algorithm: str, program: Program) -> Finding:
    """predictions = w_l'phi_q at every depth l <= L, by induction on l: base, one layer, number of layers."""
    match program.layers:
        case (Repeat(layers=(LinearAttention() as layer,), times=times),):
            pass
        case _:
            return Finding(Verdict.REFUTED, {"block": program.name, "failure": "expected one repeated attention layer"})
    if sp.expand(times - L) != 0:
        evidence = {"block": "loop bound", "found": f"{times} layers", "expected": "L layers, so that w_L is read"}
        return Finding(Verdict.REFUTED, evidence)
    before, after = update_words(algorithm)

    def sample(rng: random.Random) -> Point:
        d, n, q = rng.choice([(2, 3, 2), (3, 4, 1), (1, 3, 2)])
        shapes = {"X": (d, n), "Y": (d, n), "R": (1, n), "w": (d, 1), "C": (d, d), "E": (d, q)}
        values = {name: random_matrix(rng, *shape) for name, shape in shapes.items()}
        if algorithm in MIXED:
            values[MIXED[algorithm]] = RATIONALS.matrix(mixing_value(algorithm, n))
        return values, {D: d, N: n, Q: q}

    step = prove_layers([layer], program.layout, Tokens({"sample": N, "query": Q}, before), after, [], sample)
    return Finding.all_of({"base": prove_base(), "step": step})


def prove_base() -> Finding:
    """A log enters as (phi; g phi'; R) and (phi_q; 0; 0), the invariant for w_0 = 0: exact, on tokens as encoded."""
    log = full_context.FeatureLog([[1, 2], [3, 4]], [[5, 6], [7, 8]], [9, 10], [[11, 12]], Fraction(1, 2), "base")
    expected = {
        ("sample", "x"): fmpq_mat(2, 2, [1, 3, 2, 4]),
        ("sample", "y"): fmpq_mat(2, 2, [fmpq(5, 2), fmpq(7, 2), 3, 4]),
        ("sample", "r"): fmpq_mat(1, 2, [9, 10]),
        ("query", "x"): fmpq_mat(2, 1, [11, 12]),
    }
    found = full_context.encode_features(log, RATIONALS).blocks
    wrong = [key for key in {**expected, **found} if found.get(key) != expected.get(key)]
    block = ".".join(wrong[0]) if wrong else "every block"
    return Finding(Verdict.REFUTED if wrong else Verdict.PROVED, {"block": block, "base": "w_0 = 0"})


@dataclass(frozen=True)
class Sized:
    """One built layer as whole matrices: `samples` sample tokens and one query; C holds symbols, and so may Lambda."""

    algorithm: str
    d: int
    samples: int
    heads: list[DenseHead]

    def __str__(self) -> str:
        return f"{self.algorithm} ({self.d}, {self.samples})"


SIZES = ((1, 1), (2, 2), (2, 3), (3, 2), (64, 2))
"""(d, N) of the polynomial identities."""

LARGEST_RECORDED = 2
"""d and N up to which a step in indeterminates has a record."""
ENTRIES_BELOW = 4
"""Up to this d every entry of C is a symbol; beyond C is the symbol a (the step) times a public sparse matrix."""


def public_weight(d: int) -> Public:
    """C with entries C_i_j for small d, else a (I + 2 S), S the shift: nothing symmetric, and every index occurs."""
    if d < ENTRIES_BELOW:
        return Public(
            "C", lambda rows, columns: [[sp.Symbol(f"C_{i}_{j}") for j in range(columns)] for i in range(rows)]
        )
    return Public("C", lambda rows, columns: [[sp.Symbol("a") * x for x in row] for row in _sparse(rows)])


def _sparse(d: int) -> list[list[int]]:
    return [[int(i == j) + 2 * int(i + 1 == j) for j in range(d)] for i in range(d)]


def build_sizes() -> list[Sized]:
    """Every algorithm at every size of `SIZES`, with the trace decay as a symbol."""
    out = []
    for algorithm in ALGORITHMS:
        for d, samples in SIZES:
            rate = sp.Symbol("rate") if algorithm == "td-lambda" else 0
            program = full_context_program(algorithm, d, 1, [public_weight(d)], rate)
            (loop,) = program.layers
            assert isinstance(loop, Repeat)
            counts = {"sample": samples, "query": 1}
            out.append(Sized(algorithm, d, samples, dense_heads(loop.layers[0], program.layout, counts)))
    return out


def entry_mutants_of(subject: Sequence[Sized]) -> Iterator[Mutant]:
    """Single entries of the matrices changed, at the sizes (2, 3)."""
    for sized in subject:
        if (sized.d, sized.samples) == (2, 3):
            for mutant in entry_mutants(sized.heads, layout_of(sized)):
                changed = replace(sized, heads=mutant.subject)
                yield replace(mutant, text=f"{sized}: {mutant.text}", subject=[changed])


def layout_of(sized: Sized) -> Any:
    """The layout of the tokens that the matrices of a size act on."""
    return full_context_program(sized.algorithm, sized.d, 1, [Public("C")]).layout


def generic_tokens(sized: Sized, values: Callable[[Any], Any], x: dict[str, Any], ring: Polynomials) -> Any:
    """The tokens under the invariant for a w that is given by `values`: columns -> the row w'columns; one matrix."""
    average = sized.algorithm == "average-reward"
    moved = values(x["Y"] - x["X"])
    blocks = {("sample", "x"): x["X"], ("sample", "y"): x["Y"], ("sample", "r"): x["R"], ("query", "x"): x["E"]}
    moving = "h" if average else "r"
    blocks[("sample", moving)] = moved if average else x["R"] + moved
    blocks[("query", moving)] = -values(x["E"])
    return assemble(Tokens({"sample": sized.samples, "query": 1}, blocks), layout_of(sized), ring)


def next_values(sized: Sized, x: dict[str, Any], C: Any, step: Any, ring: Polynomials) -> Callable[[Any], Any]:
    """columns -> w+'columns for w+ = w + step C sum_t delta_t e_t, sample by sample, as the algorithm defines it.

    Each delta_t multiplies last, which keeps the polynomials short for as long as possible.
    """
    e, rewards = ring.matrix([[0]] * sized.d), ring.matrix([[0]])
    rate = ring.matrix([[sp.Symbol("rate")]])
    terms = []
    for t in range(sized.samples):
        phi, after, reward = (table[:, t : t + 1] for table in (x["X"], x["Y"], x["R"]))
        delta = reward + x["w"].T @ (after - phi)
        if sized.algorithm == "average-reward":
            rewards = rewards + reward
            delta = delta - rewards @ ring.matrix([[Fraction(1, t + 1)]])
        if sized.algorithm == "td-lambda":
            e = e @ rate + phi
        else:
            e = phi - after if sized.algorithm == "residual-gradient" else phi
        terms.append((delta, C @ (e @ step)))
    return lambda columns: sum((delta @ (change.T @ columns) for delta, change in terms), x["w"].T @ columns)


def polynomials_at(sized: Sized) -> tuple[Any, Any, Polynomials]:
    """The tokens after the built layer, as built and as claimed, and the ring that they lie in."""
    d, samples = sized.d, sized.samples
    shapes = {"w": (d, 1), "X": (d, samples), "Y": (d, samples), "R": (1, samples), "E": (d, 1)}
    small = d < ENTRIES_BELOW
    names = [*symbol_names(**shapes, **({"C": (d, d)} if small else {})), "a", "rate"]
    ring = Polynomials(names, rational=True)
    x = {name: ring.generic(name, *shape) for name, shape in shapes.items()}
    C, step = (
        ring.generic("C", d, d) if small else ring.matrix(_sparse(d)),
        ring.matrix([[1 if small else sp.Symbol("a")]]),
    )
    built = apply_heads(generic_tokens(sized, lambda columns: x["w"].T @ columns, x, ring), sized.heads, ring)
    claimed = generic_tokens(sized, next_values(sized, x, C, step, ring), x, ring)
    return built, claimed, ring


def prove_at_sizes(subject: Sequence[Sized]) -> Finding:
    """Built and claimed tokens are equal polynomials, every row; else a point where they differ."""
    for sized in subject:
        built, claimed, ring = polynomials_at(sized)
        for index, difference in enumerate((built - claimed).ravel()):
            if difference != 0:
                row, column = divmod(index, built.shape[1])
                return Finding(Verdict.REFUTED, _counterexample(sized, built, claimed, ring, row, column))
    small = [x for x in subject if max(x.d, x.samples) <= LARGEST_RECORDED]
    records = tuple(step_record(x.algorithm, x.d, x.samples, public_weight(x.d)) for x in small)
    return Finding(Verdict.PROVED, {"sizes (d, N)": [str(sized) for sized in subject], "queries": 1}, records)


def _counterexample(sized: Sized, built: Any, claimed: Any, ring: Polynomials, row: int, column: int) -> dict[str, Any]:
    """Small integers for the symbols at which one entry is not what it should be."""
    rng = random.Random(0)
    found = expected = fmpq(0)
    values: list[int] = []
    while found == expected:
        values = [rng.randint(-4, 4) for _ in ring.symbols]
        found, expected = (matrix[row, column](*values) for matrix in (built, claimed))
    field, inner = layout_of(sized).named(row)
    query = column >= sized.samples
    evidence: dict[str, Any] = {
        "sizes": {"d": sized.d, "N": sized.samples},
        "algorithm": sized.algorithm,
        "block": f"{'query' if query else 'sample'}.{field}",
        "row": inner,
        "column": 0 if query else column,
        "found": rational(found),
        "expected": rational(expected),
    }
    if sized.d < ENTRIES_BELOW:
        evidence["counterexample"] = dict(zip(ring.symbols, map(str, values), strict=True))
    return evidence


def prove_runs(instances: Sequence[Instance]) -> Finding:
    """As `prove_instances`, with a record of the first run of each algorithm."""
    finding = prove_instances(instances)
    first = {x.construction.program.name: x for x in sorted(instances, key=lambda x: x.task.size, reverse=True)}
    runs = [run_record(x.construction, x.task, stated(x)) for x in first.values()]
    proved = finding.verdict is Verdict.PROVED
    return replace(finding, records=tuple(run for run in runs if run is not None)) if proved else finding


def claims(instances: InstanceSource, quick_instances: InstanceSource) -> list[Claim]:
    """The claims of td.full-context; the instances come from the caller."""
    inductive = [
        Claim(
            THEOREM,
            algorithm,
            f"after l layers minus the last coordinate of a query q is w_l'phi_q, where w_0 = 0 and w becomes {update}",
            "all d, N, numbers of queries, depths, preconditioners C (step and 1/N included, one for each layer or all)"
            + (", trace decays" if algorithm == "td-lambda" else ""),
            Assurance.INDUCTIVE,
            ASSUMPTIONS + ((MIXING,) if algorithm in MIXED else ()),
            partial(symbolic_program, algorithm),
            partial(prove_algorithm, algorithm),
        )
        for algorithm, update in UPDATES.items()
    ]
    end_to_end = partial(
        Claim,
        THEOREM,
        statement="the predictions equal those of the algorithm run on a weight vector, at every query and depth",
        assurance=Assurance.EXACT,
        assumptions=ASSUMPTIONS,
        prove=prove_runs,
    )
    return [
        *inductive,
        Claim(
            THEOREM,
            "matrices",
            "the built matrices P, Q, M and the mask give each update as an identity of polynomials, every row",
            f"(d, N) in {', '.join(map(str, SIZES))}, one query; C generic for d < {ENTRIES_BELOW}, else step times"
            " a sparse matrix",
            Assurance.EXACT,
            ASSUMPTIONS,
            build_sizes,
            prove_at_sizes,
            mutants=entry_mutants_of,
        ),
        end_to_end(name="instances", scope=NAMED, build=quick_instances),
        end_to_end(name="instances-large", scope=f"{NAMED}, up to N = 100, L = 40", build=instances, quick=False),
    ]
