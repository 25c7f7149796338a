"""What the records say of training: Hessians as forms, positivity by L D L', Jacobians by their recursions, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.task import Task

from ..facts import Facts, Shapes, Term, horizontally, negative, ranked, semidefinite, stacked, total, values
from ..records import Record

LARGEST = 6
"""States up to which constants have records."""


def exact(x: Fraction) -> fmpq:
    """The same number."""
    return fmpq(x.numerator, x.denominator)


def _block(f: Facts, tasks: Sequence[Task], EAA: Term, EA: Term) -> Term:
    """[[2I, EA], [EA', E A'A]]."""
    n = tasks[0].n
    return stacked(horizontally(2 * f.unit(n), EA), horizontally(EA.T, EAA))


def _moments(f: Facts, tasks: Sequence[Task]) -> tuple[Term, Term]:
    """E[A'A] and E[A] of the tasks, which are recorded."""
    A = [f.value(f"A{t + 1}", task.A) for t, task in enumerate(tasks)]
    share = fmpq(1, len(tasks))
    EAA = f.defined("E A'A", sum((x.T @ x for x in A[1:]), A[0].T @ A[0]) * share)
    return EAA, f.defined("E A", sum(A[1:], A[0]) * share)


def hessian(tasks: Sequence[Task], part: str) -> Record:
    """The loss of X = C' + I and V = W - I over all unit states is the form of [[2I, EA], [EA', E A'A]] / 2."""
    n, count = tasks[0].n, len(tasks)
    f = Facts(Shapes())
    X, V = f.generic("C", n, n).T + f.unit(n), f.generic("W", n, n) - f.unit(n)
    A = [f.value(f"A{t + 1}", task.A) for t, task in enumerate(tasks)]
    share = fmpq(1, count)
    EA, EAA = sum(A[1:], A[0]) * share, sum((x.T @ x for x in A[1:]), A[0].T @ A[0]) * share
    squares = [total(f, X * X) + total(f, (X + x @ V) * (X + x @ V)) for x in A]
    Z = stacked(X, V)
    form = total(f, Z * (_block(f, tasks, EAA, EA) @ Z))
    f.equal("loss", sum(squares[1:], squares[0]) * share, form)
    return f.record(part)


def bounds() -> Record:
    """The identities behind the bounds of the eigenvalues, in k, lambda and four inner products."""
    f = Facts(Shapes())
    lam, k, root, xx, xa, aa, vv = (f.generic(name) for name in ("lam", "k", "root", "xx", "xa", "aa", "vv"))
    form = 2 * xx + 2 * xa + aa
    square = (2 - lam) ** 2 * xx + 2 * (2 - lam) * xa + aa
    bound = (k + 2 - root) * Fraction(1, 2)
    right = square + (1 - lam) * aa - lam * (2 - lam) * vv
    f.equal("sum of squares", (2 - lam) * (form - lam * (xx + vv)), right)
    f.equal("root", bound**2 - (k + 2) * bound + k, (root**2 - k**2 - 4) * Fraction(1, 4))
    f.equal("equation", k * (1 - lam) - lam * (2 - lam), lam**2 - (k + 2) * lam + k)
    return f.record()


def constants(of: Any) -> Record:
    """k I <= E[A'A] <= b I, low I <= Hessian <= high I, none better by `slack`, for `learnability.Constants`."""
    f, tasks = Facts(), of.tasks
    EAA, EA = _moments(f, tasks)
    given = {"k": of.least, "b": of.most, "low": of.low, "high": of.high, "slack": of.slack}
    k, b, low, high, slack = (f.value(name, fmpq_mat(1, 1, [exact(x)])) for name, x in given.items())
    unit, wide = f.unit(EAA.shape[0]), f.unit(2 * EAA.shape[0])
    H = f.defined("Hessian", _block(f, tasks, EAA, EA))
    semidefinite(f, "k <= E A'A", EAA - k * unit)
    negative(f, "k + slack", EAA - (k + slack) * unit)
    semidefinite(f, "E A'A <= b", b * unit - EAA)
    negative(f, "b - slack", (b - slack) * unit - EAA)
    semidefinite(f, "low <= Hessian", H - low * wide)
    semidefinite(f, "Hessian <= high", high * wide - H)
    zero = f.fill(0, 1, 1)
    for name, x, y in (("low", low, k), ("high", high, b)):
        f.relate(f"{name} on its side of the root", zero, "<=", x * x - (2 + y) * x + y)
    f.relate("0 < k", zero, "<", k)
    f.relate("low <= 1", low, "<=", f.fill(1, 1, 1))
    f.relate("2 <= high", f.fill(2, 1, 1), "<=", high)
    for name, x, y in (("low", low + slack, k), ("high", high - slack, b)):
        f.relate(f"{name} within the slack", x * x - (2 + y) * x + y, "<", zero)
    return f.record(str(of))


def contraction(tasks: Sequence[Task], of: Any, start: Sequence[fmpq], steps: int, part: str) -> Record:
    """Descent at step 1/high from a start, and from every start: |[X; V]|^2 falls by (1 - low/high)^2 in each step."""
    n, f = tasks[0].n, Facts()
    EAA, EA = _moments(f, tasks)
    H, wide = f.defined("Hessian", _block(f, tasks, EAA, EA)), f.unit(2 * n)
    step, factor = exact(1 / of.high), exact((1 - of.low / of.high) ** 2)
    move = f.defined("I - step Hessian", wide - step * H)
    C, W = (fmpq_mat(n, n, list(start[i : i + n * n])) for i in (0, n * n))
    unit = RATIONALS.one_hot(range(n), n)
    D = f.value("[X; V] 0", RATIONALS.stack([[C.transpose() + unit], [W - unit]]))
    for t in range(steps):
        later = f.defined(f"[X; V] {t + 1}", move @ D)
        f.relate(f"iteration {t + 1}", total(f, later * later), "<=", factor * total(f, D * D))
        D = later
    semidefinite(f, "every start", factor * wide - move @ move)
    return f.record(part)


def _moves(f: Facts, n: int, v: Term) -> tuple[Term, Term]:
    """X v by the entries C_ij = X_ji, and V v by those of V: both of shape (n, n^2)."""
    unit = f.unit(n)
    X = horizontally(*(v[i : i + 1, :] * unit for i in range(n)))
    return X, horizontally(*(unit[:, i : i + 1] @ v.T for i in range(n)))


def jacobian(
    tasks: Sequence[Task], depth: int, built: fmpq_mat, rank: int, kernel: Sequence[Sequence[Any]], part: str
) -> Record:
    """The Jacobian of v_1, .., v_L by its recursion at (-I, I), its rank, and directions that span its kernel."""
    f, n, rows = Facts(), tasks[0].n, []
    for t, task in enumerate(tasks):
        A, r = f.value(f"A{t + 1}", task.A), f.value(f"r{t + 1}", task.r)
        v = values(f, A, r, depth, f"v of task {t + 1}")
        dS: Term | None = None
        for l in range(depth):
            by_X, by_V = _moves(f, n, v[l : l + 1, :].T)
            moved = horizontally(by_X, A @ by_V)
            dS = f.defined(f"dS_{l + 1} of task {t + 1}", moved if dS is None else moved + A @ dS)
            shown, _ = _moves(f, n, v[l + 1 : l + 2, :].T)
            rows.append(dS - horizontally(shown, f.fill(0, n, n * n)))
    J = f.value("J", built)
    f.equal("J", J, stacked(*rows))
    ranked(f, "J", J, rank)
    _spanned(f, J, rank, kernel)
    return f.record(part)


def flat(built: fmpq_mat, rank: int, kernel: Sequence[Sequence[Any]], part: str) -> Record:
    """A Jacobian of this rank, whose kernel the directions span; so J'J has as many positive eigenvalues."""
    f = Facts()
    J = f.value("J", built)
    ranked(f, "J", J, rank)
    _spanned(f, J, rank, kernel)
    return f.record(part)


def _spanned(f: Facts, J: Term, rank: int, kernel: Sequence[Sequence[Any]]) -> None:
    """J N = 0 with as many independent columns as the kernel has dimensions."""
    if kernel:
        N = f.value("N", RATIONALS.matrix([list(line) for line in zip(*kernel, strict=True)]))
        f.equal("J N = 0", J @ N, f.fill(0, J.shape[0], N.shape[1]))
        ranked(f, "N", N, J.shape[1] - rank)


def end_point(task: Task, depth: int) -> Record:
    """a sum_{l<L} F^l r = w - F^L w with F = I - a (I - A), (I - A) w = r; its slope at a = 1 is L A^{L-1} r."""
    f = Facts(Shapes())
    n, unit = task.n, RATIONALS.one_hot(range(task.n), task.n)
    b, A, r = f.generic("b"), f.value("A", task.A), f.value("r", task.r)
    w, gap = f.value("w", (unit - task.A).solve(task.r)), f.unit(n) - A
    F = A - b * gap  # a = 1 + b
    f.equal("(I - A) w = r", gap @ w, r)
    first = (1 + b) * r
    summed, rest = first, F @ w
    for _ in range(depth - 1):
        summed, rest = first + F @ summed, F @ rest
    f.equal("a sum F^l r = w - F^L w", summed, w - rest)
    power = f.value("L A^(L-1) r", task.A ** (depth - 1) * task.r * depth)
    term = r
    for _ in range(depth - 1):
        term = A @ term
    f.equal("L A^(L-1) r", power, depth * term)
    # The coefficients of w - F^L w in b, by binomials of the commuting A and I - A.
    found = _coefficients(task, depth)
    horner = f.value(f"c{depth}", found[depth])
    for j in range(depth - 1, -1, -1):
        horner = (power if j == 1 else f.value(f"c{j}", found[j])) + b * horner
    f.equal("slope at b = 0", w - rest, horner)
    return f.record(f"{task.name}, L = {depth}")


def _coefficients(task: Task, depth: int) -> list[fmpq_mat]:
    """c_j, shape (n, 1), with w - (A - b (I - A))^L w = sum_j c_j b^j."""
    A, gap = task.A, RATIONALS.one_hot(range(task.n), task.n) - task.A
    w = gap.solve(task.r)
    columns = [w]
    for _ in range(depth):
        nothing = fmpq_mat(task.n, 1)
        columns = [A * x - gap * y for x, y in zip([*columns, nothing], [nothing, *columns], strict=True)]
    return [w - columns[0], *(-x for x in columns[1:])]
