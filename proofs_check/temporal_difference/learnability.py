"""td.learnability: the free layer and its loss for all sizes, constants and contraction of samples in Q (Thm 4.8)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import sympy as sp
from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.layers import Public
from constructions.program import Program
from constructions.symbols import Polynomials
from constructions.task import Task
from constructions.temporal_difference import learnability
from constructions.temporal_difference.learnability import ASSUMPTIONS, THEOREM
from constructions.tokens import Tokens

from ..claim import Assurance, Claim, Finding, Verdict, rational
from ..generic_layer import Point, first_difference, prove_layers, prove_words, random_matrix
from ..mutants import Mutant, program_mutants
from ..words import Rule, Words, identity, letter, rule
from . import training_facts
from .executor import only_step
from .free_weights import Sample, calibrated_loss, kronecker, moment, negative_eigenvalues, weights_at

N, K, Q = sp.symbols("n k q", integer=True, positive=True)
SPECTRAL = (
    "spectral theorem (cited): eigenvalues of a symmetric matrix bound its quadratic form and the norm of its powers"
)
ISOTROPIC = "E[u u'] = I, and u is independent of the task"
NOT_ONE_LAYER = Finding(Verdict.REFUTED, {"block": "layers", "failure": "expected one attention layer, run once"})


def symbolic_program() -> Program:
    """One step with n, C and W as symbols."""
    return learnability.free_program(N, 1, Public("C"), Public("W"))


def _shapes(n: int, k: int, q: int) -> dict[str, tuple[int, int]]:
    weights = {name: (n, n) for name in ("A", "C", "W")}
    return weights | {"B": (n, k), "Y": (n, k), "s": (k, 1), "u": (n, 1), "c": (q, 1), "E": (n, q)}


def _sample(rng: random.Random) -> Point:
    n, k, q = rng.choice([(3, 2, 2), (2, 3, 1), (3, 4, 3)])
    values = {name: random_matrix(rng, *shape) for name, shape in _shapes(n, k, q).items()}
    unit = RATIONALS.one_hot(range(n), n)
    values |= {"X": values["C"].transpose() + unit, "V": values["W"] - unit}
    return values, {N: n, K: k, Q: q}


def prove_layer(program: Program) -> Finding:
    """s+' = s' + s' B'(C B + W'Y), c+ = c + E'C'B s on any tokens; with B = I, Y = A': s+ = (I + C' + A W) s."""
    layer = only_step(program)
    if layer is None or program.attention_layers != 1:
        return NOT_ONE_LAYER
    A, C, W = (letter(name, N, N) for name in ("A", "C", "W"))
    E, c, s, u = letter("E", N, Q), letter("c", Q, 1), letter("s", K, 1), letter("u", N, 1)

    def step(B: Words, Y: Words, state: Words, after: Words, query: Words) -> Finding:
        kept = {("source", "x"): B, ("source", "y"): Y, ("query", "x"): E}
        tokens = Tokens({"source": B.columns, "query": Q}, {**kept, ("source", "r"): state.T, ("query", "r"): c.T})
        expected = {**kept, ("source", "r"): after, ("query", "r"): query}
        return prove_layers([layer], program.layout, tokens, expected, [], _sample)

    B, Y, one = letter("B", N, K), letter("Y", N, K), identity(N)
    return Finding.all_of(
        {
            "any tokens": step(B, Y, s, s.T + s.T @ B.T @ (C @ B + W.T @ Y), c.T + s.T @ B.T @ C @ E),
            "state tokens": step(one, A.T, u, ((one + C.T + A @ W) @ u).T, c.T + u.T @ C @ E),
        }
    )


def _target_rules() -> list[Rule]:
    """C' = X - I and W = I + V, as rules."""
    C, W, X, V, one = letter("C", N, N), letter("W", N, N), letter("X", N, N), letter("V", N, N), identity(N)
    return rule(C, X.T - one) + rule(W, one + V)


def prove_form(program: Program) -> Finding:
    """With X = C' + I, V = W - I: -C'u - u = -X u, F u - A u = (X + A V) u, so 2 J is the form of the Hessian."""
    layer = only_step(program)
    if layer is None or program.attention_layers != 1:
        return NOT_ONE_LAYER
    A, X, V, u, one = letter("A", N, N), letter("X", N, N), letter("V", N, N), letter("u", N, 1), identity(N)
    kept = {("source", "x"): one, ("source", "y"): A.T, ("query", "x"): one}
    tokens = Tokens({"source": N, "query": N}, {**kept, ("source", "r"): u.T})
    expected = {**kept, ("source", "r"): ((A + X + A @ V) @ u).T, ("query", "r"): ((X - one) @ u).T}
    residuals = prove_layers([layer], program.layout, tokens, expected, _target_rules(), _sample)
    moved = X + A @ V
    squared = X.T @ X + moved.T @ moved
    hessian = X.T @ (X + X + A @ V) + V.T @ (A.T @ X + A.T @ A @ V)
    form = prove_words({"[X; V]' [[2I, A], [A', A'A]] [X; V] = X'X + (X + A V)'(X + A V)": (hessian, squared)}, [])
    return Finding.all_of({"residuals of the layer": residuals, "quadratic form": form})


def hessian_block(tasks: Sequence[Task]) -> fmpq_mat:
    """[[2I, EA], [EA', E A'A]] of a sample, shape (2n, 2n), from the counts."""
    n = tasks[0].n
    EA, EAA = moment(tasks, lambda t: t.A), moment(tasks, lambda t: t.A.transpose() * t.A)
    return RATIONALS.stack([[RATIONALS.one_hot(range(n), n) * 2, EA], [EA.transpose(), EAA]])


def full_hessian(tasks: Sequence[Task]) -> fmpq_mat:
    """The Hessian in the order of `free_weights.ring`: C by rows, W by rows; X_ij = C_ji + [i = j]."""
    n = tasks[0].n
    block = kronecker(hessian_block(tasks), RATIONALS.one_hot(range(n), n))
    # Row i, column j of [X; V] is entry (i, j) of the block's index; X_ij stands where C_ji does.
    order = [j * n + i for i in range(n) for j in range(n)] + [n * n + i for i in range(n * n)]
    return fmpq_mat(2 * n * n, 2 * n * n, [block[a, b] for a in order for b in order])


def prove_hessian(subject: Sequence[Sample]) -> Finding:
    """At (-I, I) loss and gradient vanish, and the Hessian is that of Thm 4.8: from the built layer, entry by entry."""
    found = []
    for chosen in subject:
        n = chosen.n
        loss, point = calibrated_loss(chosen), weights_at(n, -1, 1)
        width = len(point)
        gradient = [loss.derivative(j) for j in range(width)]
        wrong = {"loss": fmpq(loss(*point)), **{f"gradient[{j}]": fmpq(g(*point)) for j, g in enumerate(gradient)}}
        bad = [name for name, value in wrong.items() if value != 0]
        if bad or loss.total_degree() > 2:
            block, text = (bad[0], rational(wrong[bad[0]])) if bad else ("loss", "degree above 2")
            return Finding(Verdict.REFUTED, {**chosen.names, "block": block, "found": text, "expected": "0"})
        built = fmpq_mat(width, width, [fmpq(g.derivative(j)(*point)) for g in gradient for j in range(width)])
        expected = full_hessian(chosen.tasks)
        place = first_difference(built, expected)
        if place is not None:
            i, j = place
            values = {"found": rational(built[i, j]), "expected": rational(expected[i, j])}
            return Finding(Verdict.REFUTED, {**chosen.names, "block": "Hessian", "row": i, "column": j, **values})
        found.append(chosen.names)
    records = tuple(training_facts.hessian(x.tasks, str(x)) for x in subject)
    return Finding(Verdict.PROVED, {"samples": found}, records)


def sample_mutants(subject: Sequence[Sample]) -> Iterator[Mutant]:
    """The changes of the program of the last sample."""
    for mutant in program_mutants(subject[-1].program):
        yield replace(mutant, subject=[replace(subject[-1], program=mutant.subject)])


def prove_bounds() -> Finding:
    """The eigenvalue bounds for every sample, as polynomial identities in k (or b), lambda and four inner products.

    With xx = |x|^2, vv = |v|^2, xa = E x'A v, aa = E|A v|^2 the form of the Hessian is 2 xx + 2 xa + aa, and

        (2 - lambda) (form - lambda (xx + vv)) = E|(2 - lambda) x + A v|^2 + (1 - lambda) aa - lambda (2 - lambda) vv .

    Let lambda = (2 + k - sqrt(k^2 + 4))/2, in (0, 1). Then k (1 - lambda) = lambda (2 - lambda) and aa >= k vv make
    the right side non-negative, so form >= lambda (xx + vv). Let lambda = (2 + b + sqrt(b^2 + 4))/2, above 2: now
    aa <= b vv and 1 - lambda < 0 make it non-negative again, while 2 - lambda < 0, so form <= lambda (xx + vv).
    """
    ring = Polynomials(["lam", "k", "root", "xx", "xa", "aa", "vv"], rational=True)
    lam, k, root, xx, xa, aa, vv = ring.symbols.values()
    form = 2 * xx + 2 * xa + aa
    square = (2 - lam) ** 2 * xx + 2 * (2 - lam) * xa + aa
    bound = (k + 2 - root) * fmpq(1, 2)
    identities = {
        "sum of squares": (2 - lam) * (form - lam * (xx + vv)) - square - (1 - lam) * aa + lam * (2 - lam) * vv,
        # Both bounds are roots of lambda^2 - (2 + k) lambda + k, the other one with -root: k^2 + 4 = root^2.
        "root": bound**2 - (k + 2) * bound + k - (root**2 - k**2 - 4) * fmpq(1, 4),
        "equation": k * (1 - lam) - lam * (2 - lam) - (lam**2 - (k + 2) * lam + k),
    }
    wrong = [name for name, polynomial in identities.items() if polynomial != 0]
    if wrong:
        return Finding(Verdict.UNDECIDED, {"missing": f"{wrong[0]}: the polynomial is not zero"})
    # 0 < lambda_- < 1: k < root < k + 2, since k^2 < k^2 + 4 < (k + 2)^2 for k > 0; lambda_+ > 2: root > 2 - k.
    evidence = {"identities": list(identities), "places": "0 < lambda_- < 1 and lambda_+ > 2, k > 0"}
    return Finding(Verdict.PROVED, evidence, (training_facts.bounds(),))


@dataclass(frozen=True, eq=False)
class Constants:
    """Rational constants of a sample: k <= E[A'A] <= b, each within `slack` of the best, and bounds of the Hessian.

    Attributes:
        tasks: the sample.
        least, most: k and b.
        low, high: rational bounds of lam_- and lam_+ that k and b imply, within `slack`.
    """

    tasks: tuple[Task, ...]
    least: Fraction
    most: Fraction
    low: Fraction
    high: Fraction
    slack: Fraction = Fraction(1, 2**20)

    def __str__(self) -> str:
        return f"{len(self.tasks)} tasks, n = {self.tasks[0].n}"


def constants_of(tasks: Sequence[Task], slack: Fraction = Fraction(1, 2**20)) -> Constants:
    """The constants by bisection, every comparison decided in Q."""
    EAA = moment(tasks, lambda t: t.A.transpose() * t.A)

    def largest(holds: Callable[[Fraction], bool], start: Fraction, end: Fraction) -> Fraction:
        while end - start > slack / 2:
            middle = (start + end) / 2
            start, end = (middle, end) if holds(middle) else (start, middle)
        return start

    least = largest(lambda x: _at_least(EAA, x), Fraction(0), Fraction(len(EAA.tolist())))
    most = -largest(lambda x: _at_most(EAA, -x), Fraction(-len(EAA.tolist())), Fraction(0))
    low = largest(lambda x: _root_above(least, x), Fraction(0), Fraction(1))
    high = -largest(lambda x: _root_below(most, -x), Fraction(-4) - most, Fraction(-2))
    return Constants(tuple(tasks), least, most, low, high, slack)


def _shifted(matrix: fmpq_mat, x: Fraction) -> fmpq_mat:
    n = matrix.nrows()
    return matrix - RATIONALS.one_hot(range(n), n) * fmpq(x.numerator, x.denominator)


def _at_least(matrix: fmpq_mat, x: Fraction) -> bool:
    return negative_eigenvalues(_shifted(matrix, x)) == 0


def _at_most(matrix: fmpq_mat, x: Fraction) -> bool:
    return negative_eigenvalues(-_shifted(matrix, x)) == 0


def _root_above(k: Fraction, x: Fraction) -> bool:
    """Whether x <= (2 + k - sqrt(k^2 + 4))/2, for x <= 1: the smaller root of x^2 - (2 + k) x + k."""
    return x <= 1 and x * x - (2 + k) * x + k >= 0


def _root_below(b: Fraction, x: Fraction) -> bool:
    """Whether x >= (2 + b + sqrt(b^2 + 4))/2, for x >= 2."""
    return x >= 2 and x * x - (2 + b) * x + b >= 0


def prove_constants(subject: Sequence[Constants]) -> Finding:
    """k and b, exact to `slack`; low and high are implied by them, and bound the Hessian's eigenvalues."""
    found, records = [], []
    for one in subject:
        EAA, hessian = moment(one.tasks, lambda t: t.A.transpose() * t.A), hessian_block(one.tasks)
        where = {"tasks": len(one.tasks), "first": one.tasks[0].name}
        checks = {
            "k > 0": one.least > 0,
            "k <= E[A'A]": _at_least(EAA, one.least),
            "k is within the slack": not _at_least(EAA, one.least + one.slack),
            "E[A'A] <= b": _at_most(EAA, one.most),
            "b is within the slack": not _at_most(EAA, one.most - one.slack),
            "low <= (2 + k - sqrt(k^2 + 4))/2": _root_above(one.least, one.low),
            "low is within the slack": not _root_above(one.least, one.low + one.slack),
            "(2 + b + sqrt(b^2 + 4))/2 <= high": _root_below(one.most, one.high),
            "high is within the slack": not _root_below(one.most, one.high - one.slack),
            "low <= Hessian": _at_least(hessian, one.low),
            "Hessian <= high": _at_most(hessian, one.high),
        }
        failing = [name for name, holds in checks.items() if not holds]
        if failing:
            return Finding(Verdict.REFUTED, {**where, "block": "constants", "failure": failing[0]})
        figures = zip(("k", "b", "lam_- >=", "lam_+ <="), (one.least, one.most, one.low, one.high), strict=True)
        found.append({**where, **{name: f"{x} = {float(x):.6f}" for name, x in figures}})
        if one.tasks[0].n <= training_facts.LARGEST:
            records.append(training_facts.constants(one))
    return Finding(Verdict.PROVED, {"samples": found, "slack": str(subject[0].slack)}, tuple(records))


def constants_mutants(subject: Sequence[Constants]) -> Iterator[Mutant]:
    """Each constant moved by twice the slack either way; and a task left out."""
    for i, one in enumerate(subject):
        for name in ("least", "most", "low", "high"):
            for sign in (-2, 2):
                changed = replace(one, **{name: getattr(one, name) + sign * one.slack})
                yield Mutant("entry", f"{name} {'+' if sign > 0 else '-'} slack of sample {i + 1}", [changed])
        yield Mutant("entry", f"first task left out of sample {i + 1}", [replace(one, tasks=one.tasks[1:])])


STEPS = 6


def exact_descent(chosen: Sample, step: Fraction, steps: int, seed: int) -> list[list[fmpq]]:
    """Weights of exact gradient descent on J, each a list in the order of `ring`; the gradient is the built layer's."""
    n, rng = chosen.n, random.Random(f"descent {seed}")
    loss = calibrated_loss(chosen)
    gradient = [loss.derivative(j) for j in range(2 * n * n)]
    rate = fmpq(step.numerator, step.denominator)
    weights = [fmpq(x) + fmpq(rng.randint(-8, 8), 8) for x in weights_at(n, -1, 1)]
    path = [weights]
    for _ in range(steps):
        weights = [w - rate * fmpq(g(*weights)) for w, g in zip(weights, gradient, strict=True)]
        path.append(weights)
    return path


def prove_contraction(subject: Sequence[Sample]) -> Finding:
    """|theta_{t+1} - theta*|^2 <= (1 - step lam_-)^2 |theta_t - theta*|^2, exactly, at step 1 / high.

    Along descent from one start with the gradient of the built layer; and for every start, since
    (1 - step low)^2 I - (I - step Hessian)^2 has no negative eigenvalue.
    """
    found, records = [], []
    for i, chosen in enumerate(subject):
        constants = constants_of(chosen.tasks)
        step = 1 / constants.high
        factor = (1 - step * constants.low) ** 2
        bound = fmpq(factor.numerator, factor.denominator)
        target = weights_at(chosen.n, -1, 1)
        ratios = []
        path = exact_descent(chosen, step, STEPS, seed=i)
        distances = [sum(((w - t) ** 2 for w, t in zip(point, target, strict=True)), fmpq(0)) for point in path]
        for t, (before, after) in enumerate(pairwise(distances)):
            if after > bound * before:
                text = {"found": f"{float(after / before):.6f}", "expected": f"at most {float(factor):.6f}"}
                return Finding(Verdict.REFUTED, {**chosen.names, "block": f"iteration {t + 1}", **text})
            ratios.append(f"{float(after / before):.6f}")
        hessian = hessian_block(chosen.tasks)
        move = RATIONALS.one_hot(range(hessian.nrows()), hessian.nrows()) - hessian * fmpq(
            step.numerator, step.denominator
        )
        if not _at_most(move * move, factor):
            return Finding(
                Verdict.REFUTED, {**chosen.names, "block": "Hessian", "failure": "some start contracts less"}
            )
        found.append({**chosen.names, "bound": f"{float(factor):.6f}", "ratios": ratios})
        records.append(training_facts.contraction(chosen.tasks, constants, path[0], STEPS, str(chosen)))
    return Finding(Verdict.PROVED, {"samples": found}, tuple(records))


def claims(samples: Callable[[], Sequence[Sample]], larger: Callable[[], Sequence[Sequence[Task]]]) -> list[Claim]:
    """The claims of td.learnability; samples of one step with programs, and larger samples of tasks only."""
    return [
        Claim(
            THEOREM,
            "layer",
            "the layer with weights C and W maps s to (I + C' + A W) s on the state tokens, s' to s' + s'B'(C B + W'Y)"
            " on any, and c to c + E'C'B s",
            "all n, k, numbers of queries, C and W",
            Assurance.INDUCTIVE,
            ASSUMPTIONS,
            symbolic_program,
            prove_layer,
        ),
        Claim(
            THEOREM,
            "form",
            "with X = C' + I and V = W - I the residuals of the layer are -X u and (X + A V) u, and 2 J is the"
            " quadratic form of [[2I, EA], [EA', E A'A]] (x) I",
            "all n and samples of tasks",
            Assurance.INDUCTIVE,
            (*ASSUMPTIONS, ISOTROPIC),
            symbolic_program,
            prove_form,
        ),
        Claim(
            THEOREM,
            "hessian",
            "loss and gradient of the built layer vanish at (-I, I), and its Hessian is [[2I, EA], [EA', E A'A]] (x) I",
            "the samples named in the evidence",
            Assurance.EXACT,
            (*ASSUMPTIONS, ISOTROPIC),
            samples,
            prove_hessian,
            mutants=sample_mutants,
        ),
        Claim(
            THEOREM,
            "bounds",
            "k I <= E[A'A] <= b I implies lam_- >= (2 + k - sqrt(k^2 + 4))/2 and lam_+ <= (2 + b + sqrt(b^2 + 4))/2",
            "all n and samples of tasks with k > 0",
            Assurance.INDUCTIVE,
            ("Ass. 4.7: k I <= E[A'A] <= b I",),
            tuple,
            lambda _: prove_bounds(),
        ),
        Claim(
            THEOREM,
            "constants",
            "k and b of Ass. 4.7, exact to 2^-20, with the bounds that they imply on the eigenvalues of the Hessian",
            "the samples named in the evidence",
            Assurance.EXACT,
            ("rows of P and counts as sampled",),
            lambda: [constants_of(tasks) for tasks in larger()],
            prove_constants,
            mutants=constants_mutants,
        ),
        Claim(
            THEOREM,
            "contraction",
            "gradient descent with step 1/high multiplies the squared distance to (-I, I) by at most (1 - step low)^2"
            " in every iteration",
            f"the samples named in the evidence: {STEPS} iterations of the built layer, and every start by the Hessian",
            Assurance.EXACT,
            (*ASSUMPTIONS, ISOTROPIC, SPECTRAL),
            samples,
            prove_contraction,
            mutants=sample_mutants,
        ),
    ]
