"""What the records of a run say of the context it leaves: each definition in matrices, with witnesses.

With k tokens kept, B of shape (n, k) and W = B D, W'B = I: the tokens are independent and D is the inverse Gram matrix.
A basis is monic if b_1 = r and A b_j - b_{j+1} is a combination of b_1, .., b_j; where k < L, A b_k is one of all. So
B spans K_L(A, r), and all that is left beside is named: other blocks are zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from constructions.tokens import Tokens

from .. import facts
from ..facts import Facts, Stated, Term, stacked
from ..instances import Instance, differ
from ..records import RUNS, Record, run_record

Task = Callable[[Facts, Tokens], tuple[Term, Term]]
"""How A and r come from the tokens."""


def tabular(f: Facts, before: Tokens) -> tuple[Term, Term]:
    """Counted, or of the state tokens."""
    f.counted = True
    A, r = facts.task(before, f.arithmetic)
    return f.named("A", A), f.named("r", r)


def linear(f: Facts, before: Tokens) -> tuple[Term, Term]:
    """M = I - a X (X - g Y)' and s_0 = a X R' of raw transitions with features."""
    X, Y, R, gam, alp = facts.of_blocks(f, before, ("raw.x", "raw.y", "raw.r", "state.gam", "state.alp")).values()
    g, step = gam[:1, :1], alp[:1, :1]
    M = f.defined("M", f.unit(X.shape[0]) - step * (X @ (X - g * Y).T))
    return M, f.defined("s_0", step * (X @ R.T))


def basis(f: Facts, A: Term, r: Term, B: Term, dual: Term, depth: int) -> Term:
    """b_1 = r, the rounds, independence, and that B' dual is diagonal; H = W'AB with W = dual D."""
    k = B.shape[1]
    gram = B.T @ dual
    W = f.defined("W", dual @ f.value("D", gram.value.inv()))
    if k > 1:
        f.equal("b_i is orthogonal to b_j", gram * (f.fill(1, k, k) - f.unit(k)), f.fill(0, k, k))
    f.equal("W'B = I", W.T @ B, f.unit(k))
    H = f.defined("H", W.T @ A @ B)
    f.equal("b_1 = r", B[:, :1], r)
    for j in range(1, k):
        combined = B[:, :j] @ H[:j, j - 1 : j]
        f.equal(f"A b_{j} = b_{j + 1} + ..", A @ B[:, j - 1 : j], B[:, j : j + 1] + combined)
    if k < depth:
        f.equal(f"A b_{k} is in the span", A @ B[:, k - 1 :], B @ H[:, k - 1 :])
    return H


def _sources(f: Facts, after: Tokens) -> Term | None:
    """B; None where nothing is kept."""
    if after.total("source") == 0 or ("source", "x") not in after.blocks:
        return None
    return f.value("B", after.blocks["source", "x"])


def krylov(depth: int, task: Task = tabular) -> Stated:
    """Z_0 = [B; B + W (H - I)'; r'W], B orthogonal and monic."""

    def stated(a: Any, before: Tokens, after: Tokens, _: Any) -> Facts | None:
        f = Facts(a)
        B = _sources(f, after)
        if B is None:
            return None
        A, r = task(f, before)
        H = basis(f, A, r, B, B, depth)
        W = f.named("W", f.values["W"])
        f.after = {"source.x": B, "source.y": B + W @ (H - f.unit(B.shape[1])).T, "source.r": r.T @ W}
        return f

    return stated


def _public(f: Facts, after: Tokens, k: int) -> dict[str, Term]:
    """s_0 = e_1, ones, and places e_j where the program leaves any."""
    blocks = {"source.r": f.unit(k)[:1, :], "source.one": f.fill(1, 1, k)}
    if ("source", "t") in after.blocks:
        blocks["source.t"] = f.unit(f.arithmetic.shape(after.blocks["source", "t"])[0])[:, :k]
    return blocks


def memory_optimal(depth: int) -> Stated:
    """[B; a'] with B = [r, A r, ..] and a the coefficients of A^k r, projected where L < k_n."""

    def stated(a: Any, before: Tokens, after: Tokens, _: Any) -> Facts | None:
        f = Facts(a)
        B = _sources(f, after)
        if B is None:
            return None
        A, r = tabular(f, before)
        k = B.shape[1]
        W = f.defined("W", B @ f.value("D", (B.T @ B).value.inv()))
        f.equal("W'B = I", W.T @ B, f.unit(k))
        f.equal("b_1 = r", B[:, :1], r)
        if k > 1:
            f.equal("A b_j = b_{j+1}", A @ B[:, :-1], B[:, 1:])
        coefficients = f.value("a'", after.read("source", "q", 1, a))
        last, combined = A @ B[:, k - 1 :], B @ coefficients.T
        f.equal("B'A^k r = B'B a", B.T @ last, B.T @ combined)
        if k < depth:
            f.equal("A^k r = B a", last, combined)
        f.after = {"source.x": B, "source.q": coefficients, **_public(f, after, k)}
        return f

    return stated


def hessenberg(depth: int) -> Stated:
    """[B; H] with B as in td.krylov; below the diagonal of H are public ones, one more under its last column."""

    def stated(a: Any, before: Tokens, after: Tokens, _: Any) -> Facts | None:
        f = Facts(a)
        B = _sources(f, after)
        if B is None:
            return None
        A, r = tabular(f, before)
        H = basis(f, A, r, B, B, depth)
        k, h = B.shape[1], a.shape(after.read("source", "u", B.shape[1], a))[0]
        u = H if k == h else stacked(H, f.unit(h)[k - 1 : h - 1, :k])
        f.after = {"source.x": B, "source.u": u, **_public(f, after, k)}
        return f

    return stated


def lanczos(depth: int) -> Stated:
    """[B; alpha'; beta'] with B monic and orthogonal for the visits, H = N + diag(alpha) + diag(beta) N'."""

    def stated(a: Any, before: Tokens, after: Tokens, _: Any) -> Facts | None:
        f = Facts(a)
        B = _sources(f, after)
        if B is None:
            return None
        A, r = tabular(f, before)
        n, k = B.shape
        if ("state", "u") in before.blocks:
            visits = f.named("state.u", before.blocks["state", "u"])
        else:
            X = f.named("raw.x", before.blocks["raw", "x"])
            visits = (X @ f.fill(1, X.shape[1], n)) * f.unit(n)
        H = basis(f, A, r, B, visits @ B, depth)
        ones, shift = f.fill(1, 1, k), f.unit(k + 1)[:k, 1:]
        alpha, beta = (f.defined(name, ones @ (x * f.unit(k))) for name, x in (("alpha'", H), ("beta'", H @ shift)))
        f.after = {"source.x": B, "source.q": alpha, "source.m": beta, **_public(f, after, k)}
        return f

    return stated


def executed(a: Any, before: Tokens, _: Tokens, answer: Any) -> Facts:
    """From a context alone: the answer goes on by B H^l g0 at each query."""
    f = Facts(a)
    B, Y, g, E = facts.of_blocks(f, before, ("source.x", "source.y", "source.r", "query.x")).values()
    v = f.named("answer", answer)
    S = facts.iterated(f, "H^j g0", g.T, f.unit(B.shape[1]) + (Y - B).T @ B, v.shape[0] - 2)
    f.equal("v_{l+1} - v_l = B H^l g0", v[1:, :] - v[:-1, :], S @ B.T @ E)
    return f


def predictions(a: Any, before: Tokens, _: Tokens, answer: Any) -> Facts:
    """phi_q' w_l by batch TD: w_0 = 0, w_{l+1} = s_0 + M w_l."""
    f = Facts(a)
    E, found = f.named("query.x", before.blocks["query", "x"]), f.named("answer", answer)
    f.equal("phi_q' w_l", found, facts.values(f, *linear(f, before), found.shape[0] - 1) @ E)
    return f


def decoding(depth: int) -> Stated:
    """B sum_{j<l} H^j g0 = v_l for every l <= L, with H - I = (Y - B)'B read off Z_0."""

    def stated(a: Any, before: Tokens, after: Tokens, _: Any) -> Facts | None:
        f = Facts(a)
        B = _sources(f, after)
        if B is None:
            return None
        Y = f.value("Y", after.read("source", "y", B.shape[0], a))
        g = f.value("g0'", after.read("source", "r", 1, a))
        f.after = {"source.x": B, "source.y": Y, "source.r": g}
        H = f.unit(B.shape[1]) + (Y - B).T @ B
        S = facts.iterated(f, "H^j g0", g.T, H, depth - 1)
        v = facts.values(f, *tabular(f, before), depth)
        f.equal("v_{l+1} - v_l = B H^l g0", v[1:, :] - v[:-1, :], S @ B.T)
        return f

    return stated


def at_depth(kind: Callable[[int], Stated]) -> Callable[[Instance], Stated]:
    """The statement on an instance, at its depth L."""
    return lambda instance: kind(int(instance.construction.sizes["L"]))


def records(instances: Sequence[Instance], kind: Callable[[int], Stated]) -> tuple[Record, ...]:
    """The first runs of which something is said, smallest first; their contexts must be those of the definition."""
    exact = (x for x in sorted(instances, key=lambda x: x.task.size) if differ(x) is None)
    runs = (run_record(x.construction, x.task, at_depth(kind)(x)) for x in exact)
    return tuple(itertools.islice((run for run in runs if run is not None), RUNS))
