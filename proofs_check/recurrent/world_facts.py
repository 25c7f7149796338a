"""What the records say of one pass and of re-scans: encoders, worlds that collide, guesses, sweeps over keys.

An encoder is recorded by its keys, rates, gates and what each token shows, a unit of [A_1 .. A_K] times its input. Its
state is A Phi with Phi from the recurrence on columns: Phi_t = a_t Phi_{t-1} (I - b_t k_t k_t') + b_t x_t k_t'.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.recurrent.blocks import BlockTask
from constructions.recurrent.collision import Collision, Encoder

from ..facts import Facts, Shapes, Term, horizontally, ranked, stacked, total
from ..records import Record


def encoding(f: Facts, encoder: Encoder) -> Term:
    """Phi, shape (K d, d_k)."""
    K = f.value("K", RATIONALS.matrix(encoder.keys))
    b, a = (f.value(x, RATIONALS.matrix([[y] for y in row])) for x, row in (("b", encoder.rates), ("a", encoder.gates)))
    shown = []
    for block, seen in zip(encoder.blocks, encoder.inputs, strict=True):
        row: list[Any] = [0] * (encoder.K * encoder.d)
        row[block * encoder.d : (block + 1) * encoder.d] = seen
        shown.append(row)
    X = f.value("X", RATIONALS.matrix(shown))
    Phi = f.fill(0, encoder.K * encoder.d, encoder.d_k)
    for t in range(K.shape[0]):
        k, x, rate, gate = (m[t : t + 1, :] for m in (K, X, b, a))
        decayed = gate * Phi
        Phi = f.defined(f"Phi_{t + 1}", decayed + rate * ((x.T - decayed @ k.T) @ k))
    return Phi


def encoder_rank(encoder: Encoder) -> Record:
    """Phi has full rank."""
    f = Facts()
    ranked(f, "Phi", encoding(f, encoder), min(encoder.d_k, encoder.K * encoder.d))
    return f.record(encoder.name)


def collision(x: Collision) -> Record:
    """Both worlds give one state; at the block and query their answers differ."""
    f, d = Facts(), x.encoder.d
    Phi = encoding(f, x.encoder)
    first, second = f.value("first", x.first), f.value("second", x.second)
    f.equal("one state", first @ Phi, second @ Phi)
    q = f.value("query", RATIONALS.matrix([[y] for y in x.query]))
    own = slice(x.block * d, (x.block + 1) * d)
    f.relate("two answers", first[:, own] @ q, "!=", second[:, own] @ q)
    return f.record(x.encoder.name)


def guess(encoder: Encoder, shots: Sequence[Sequence[Any]], error: fmpq, bound: fmpq) -> Record:
    """The error is the mean trace of I - P_t on block t, P_t the orthogonal projection on Phi and the shots of A_t."""
    f, d, K = Facts(), encoder.d, encoder.K
    Phi = encoding(f, encoder)
    seen = f.value("shots", RATIONALS.matrix([list(x) for x in shots]).transpose()) if shots else None
    parts: list[Term] = []
    for t in range(K):
        own = f.unit(K * d)[:, t * d : (t + 1) * d]
        measured = Phi if seen is None else horizontally(Phi, own @ seen)
        reduced, rank = measured.value.transpose().rref()
        basis = RATIONALS.rows(reduced, 0, rank).transpose()
        projection = basis * (basis.transpose() * basis).solve(basis.transpose())
        P = f.value(f"P_{t}", projection)
        Z = f.value(f"Z_{t}", _solution(measured.value, projection))
        f.equal(f"P_{t} is in the span", P, measured @ Z)
        f.equal(f"P_{t} keeps it", P @ measured, measured)
        f.equal(f"P_{t} is orthogonal", P, P.T)
        rest = own.T @ (f.unit(K * d) - P) @ own
        parts.append(total(f, rest * f.unit(d)))
    mean = f.value("error", fmpq_mat(1, 1, [error]))
    f.equal("mean error", mean * (K * d), sum(parts[1:], parts[0]))
    least = f.value("bound", fmpq_mat(1, 1, [bound]))
    f.relate("at least the bound", least, "<=", mean)
    if not shots:
        f.equal("just the bound", mean, least)
    return f.record(f"{encoder.name}, {len(shots)} shots")


def _solution(X: fmpq_mat, right: fmpq_mat) -> fmpq_mat:
    """Z with X Z = right, for columns of right in the span of those of X."""
    reduced, rank = X.rref()
    chosen = [next(j for j in range(X.ncols()) if reduced[i, j] != 0) for i in range(rank)]
    basis = RATIONALS.select(X, chosen)
    solved = (basis.transpose() * basis).solve(basis.transpose() * right)
    rows = [[fmpq(0)] * right.ncols() for _ in range(X.ncols())]
    for i, j in enumerate(chosen):
        rows[j] = [solved[i, c] for c in range(right.ncols())]
    return RATIONALS.matrix(rows)


def told_apart(functions: Sequence[fmpq_mat], least: int, shot: Sequence[int], part: str) -> Record:
    """Differences by rank: none has a kernel of `least` dimensions, one has least - 1; a shot that tells all apart."""
    f, d = Facts(), functions[0].ncols()
    A = [f.value(f"A_{j}", x) for j, x in enumerate(functions)]
    q = f.value("shot", fmpq_mat(d, 1, list(shot)))
    ranks = []
    for j, k in itertools.combinations(range(len(A)), 2):
        difference = f.defined(f"A_{j} - A_{k}", A[j] - A[k])
        ranks.append(difference.value.rank())
        ranked(f, f"A_{j} - A_{k}", difference, ranks[-1])
        apart = difference @ q
        f.relate(f"{j} and {k} told apart", f.fill(0, 1, 1), "<", apart.T @ apart)
    smallest = f.fill(d - min(ranks) + 1, 1, 1)
    f.equal("shots", f.value("least", fmpq_mat(1, 1, [least])), smallest)
    return f.record(part)


def answered(task: BlockTask, row: Sequence[Any] | None, answer: fmpq_mat) -> Record:
    """What the built model answered: A_t q for every query, and for block j the sum of squares of misses on the shots.

    A miss is w'(A_t - A_j) x by sketch, and (A_t - A_j) x itself by replay.
    """
    f = Facts()
    A = [f.value(f"A{j + 1}", RATIONALS.matrix(x)) for j, x in enumerate(task.functions)]
    shots, queries = (
        f.value(name, RATIONALS.matrix([list(x) for x in rows])).T
        for name, rows in (("x", task.shots), ("q", task.queries))
    )
    w = None if row is None else f.value("w", RATIONALS.matrix([list(row)]))
    _answers(f, task, (A, shots, queries, w), f.value("answer", answer))
    return f.record(task.name)


def answered_generic(task: BlockTask, sketch: bool, answer: Any, part: str) -> Record:
    """The same as polynomials in functions, w, shot and query."""
    f = Facts(Shapes())
    _, d, d_v, _, shots = task.size
    A = [f.generic(f"A{j + 1}", d_v, d) for j in range(len(task.functions))]
    given = A, f.generic("x", shots, d).T, f.generic("q", len(task.queries), d).T
    w = f.generic("w", 1, d_v) if sketch else None
    found = f.polynomials("answer", answer.tolist(), lambda name: name.replace("w_", "w_0_"))
    _answers(f, task, (*given, w), found)
    return f.record(part)


def _answers(f: Facts, task: BlockTask, given: tuple[list[Term], Term, Term, Term | None], found: Term) -> None:
    A, shots, queries, w = given
    target = A[task.target]
    d_v = target.shape[0]
    f.equal("answers", found[:d_v, : queries.shape[1]], target @ queries)
    for j, other in enumerate(A):
        miss = (target - other) @ shots
        miss = miss if w is None else w @ miss
        f.equal(f"residual {j}", found[d_v + j : d_v + j + 1, :1], total(f, miss * miss))


def plane(cosine: fmpq, sine: fmpq, sweeps: int, part: str) -> Record:
    """n_1'X n_2 at the corners of [0, 2]^(2r-2): with r sweeps one is not positive, with r - 1 all are; f = cos th."""
    f = Facts()
    c, s = (f.value(name, fmpq_mat(1, 1, [x])) for name, x in (("c", cosine), ("s", sine)))
    f.equal("c^2 + s^2 = 1", c * c + s * s, f.fill(1, 1, 1))
    one, zero = f.fill(1, 1, 1), f.fill(0, 1, 1)
    keys = stacked(c, s), stacked(one, zero)
    n1, n2 = stacked(zero, one), stacked(-s, c)

    def gap(rates: Sequence[int]) -> Term:
        left = n1.T
        for i, b in enumerate(rates):
            k = keys[i % 2]
            left = left if b == 0 else left - b * ((left @ k) @ k.T)
        return left @ n2

    f.relate(f"{sweeps} sweeps", gap([2] * (2 * sweeps - 2)), "<=", zero)
    if sweeps > 1:
        for rates in itertools.product((0, 2), repeat=2 * sweeps - 4):
            f.relate(f"{sweeps - 1} sweeps at {list(rates)}", zero, "<", gap(rates))
    f.relate("0 < th", zero, "<", s)
    f.relate("th < pi/2", zero, "<", c)
    return f.record(part)


def characteristic(n: int, cosine: fmpq, M: fmpq_mat) -> tuple[Record, ...]:
    """M V = V C with C the companion matrix of p and V invertible; p(y) (y - 1) = y (y - c)^n - y^n (1 - c)^n.

    V = [v, M v, ..] for the first v of a few that is cyclic; no record where there is none.
    """
    coefficients = M.charpoly().coeffs()
    for start in ([1] * n, list(range(1, n + 1)), [1] + [0] * (n - 1)):
        columns = [fmpq_mat(n, 1, start)]
        for _ in range(n - 1):
            columns.append(M * columns[-1])
        V = RATIONALS.stack([columns])
        if V.det() != 0:
            break
    else:
        return ()
    f = Facts(Shapes())
    kept, basis = f.value("M", M), f.value("V", V)
    f.equal("V is invertible", f.value("V^-1", V.inv()) @ basis, f.unit(n))
    p = f.value("p", fmpq_mat(n, 1, coefficients[:n]))
    f.equal("M V = V C", kept @ basis, basis @ horizontally(f.unit(n)[:, 1:], -p))
    y, c = f.generic("y"), f.value("c", fmpq_mat(1, 1, [cosine]))
    polynomial: Any = y**n
    for i in range(n):
        polynomial = polynomial + p[i : i + 1, :] * (y**i if i else f.fill(1, 1, 1))
    f.equal("p(y) (y - 1)", polynomial * (y - 1), y * (y - c) ** n - y**n * (1 - c) ** n)
    return (f.record(f"n = {n}, c = {cosine}"),)
