"""What the records of a run say of held values: each answer is a combination of the values at a few depths.

Row l of the weights S, shape (L + 1, L + 1), says which v_j the answer at depth l is made of, so that it is S v. On one
state with reward 1 and discount g the values are the masses 1 + g + .. + g^{l-1}; v - S v is then the error in every
block, which no task exceeds, and is compared with the error claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from flint import fmpq

from constructions.construction import Construction
from constructions.exact import RATIONALS
from constructions.task import AnyTask
from constructions.temporal_difference import krylov
from constructions.tokens import Tokens

from .. import facts
from ..facts import Facts, Stated, Term
from ..records import Record, run_record
from .context_facts import basis, tabular

Weights = Callable[[Tokens, int], list[dict[int, Fraction]]]
"""(tokens before, L) -> for each depth the values of which the answer is made."""


def _clocks(tokens: Tokens, field: str) -> list[int]:
    return [int(x.p) for x in tokens.blocks["slot", field].entries()]


def _last(depths: Sequence[int], l: int) -> int:
    return max((x for x in depths if x <= l), default=0)


def sampled(before: Tokens, depth: int) -> list[dict[int, Fraction]]:
    """v at the last depth sampled, v_0 = 0 before the first; the first gate of a slot opens at its depth."""
    kept = _clocks(before, "gp")
    return [{_last(kept, l): Fraction(1)} for l in range(depth + 1)]


def anchored(k: int) -> Weights:
    """v_l up to k, then v at the last of k and the depths sampled."""

    def weights(before: Tokens, depth: int) -> list[dict[int, Fraction]]:
        kept = [*range(k + 1), *_clocks(before, "gp")]
        return [{_last(kept, l): Fraction(1)} for l in range(depth + 1)]

    return weights


def centred(before: Tokens, depth: int) -> list[dict[int, Fraction]]:
    """(v_a + v_b) / 2 on a block {a..b}, nothing before the first: the two gates of a slot open at a and b."""
    blocks = list(zip(_clocks(before, "gp"), _clocks(before, "gm"), strict=True))
    out = []
    for l in range(depth + 1):
        block = next((x for x in reversed(blocks) if x[0] <= l), ())
        out.append({j: Fraction(block.count(j), 2) for j in block})
    return out


def _matrix(f: Facts, rows: Sequence[dict[int, Fraction]]) -> Term:
    size = len(rows)
    return f.value("S", RATIONALS.matrix([[row.get(j, 0) for j in range(size)] for row in rows]))


def held(weights: Weights, error: Fraction | None = None) -> Stated:
    """The answer is S v; where an error is claimed v - S v reaches it and nothing beyond."""

    def stated(a: Any, before: Tokens, _: Tokens, answer: Any) -> Facts:
        f = Facts(a)
        E, found = f.named("query.x", before.blocks["query", "x"]), f.named("answer", answer)
        v = facts.values(f, *tabular(f, before), found.shape[0] - 1)
        S = _matrix(f, weights(before, found.shape[0] - 1))
        f.equal("S v", found, S @ v @ E)
        if error is not None:
            gaps, e = (v - S @ v), fmpq(error.numerator, error.denominator)
            worst = next(i for i, x in enumerate(gaps.value.entries()) if abs(x) == e)
            f.relate("at most e", gaps, "<=", f.fill(e, *gaps.shape))
            f.relate("at least -e", f.fill(-e, *gaps.shape), "<=", gaps)
            f.equal("attained", gaps[worst : worst + 1, :] * gaps[worst : worst + 1, :], f.fill(e * e, 1, 1))
        return f

    return stated


def residual(k: int) -> Stated:
    """u_l + v_tau - u_tau, with u the values of the context of k tokens: u_l = B sum_{j<l} H^j g0."""

    def stated(a: Any, before: Tokens, _: Tokens, answer: Any) -> Facts | None:
        f = Facts(a)
        E, found = f.named("query.x", before.blocks["query", "x"]), f.named("answer", answer)
        A, r = tabular(f, before)
        depth = found.shape[0] - 1
        context = krylov.exact_context(SimpleNamespace(A=A.value, r=r.value, n=r.shape[0]), k)
        if context is None:
            return None
        B = f.value("B", a.rows(context, 0, r.shape[0]))
        H = basis(f, A, r, B, B, k)
        p = facts.iterated(f, "H^j g0", f.named("W", f.values["W"]).T @ r, H, depth - 1)
        v = facts.values(f, A, r, depth)
        u = f.value("u", krylov.decoded_values(context, r.shape[0], depth, a))
        f.equal("u_0 = 0", u[:1, :], f.fill(0, 1, r.shape[0]))
        f.equal("u_{l+1} - u_l = B H^l g0", u[1:, :] - u[:-1, :], p @ B.T)
        f.equal("u + S (v - u)", found, (u + _matrix(f, sampled(before, depth)) @ (v - u)) @ E)
        return f

    return stated


def exact_at(depths: Sequence[int]) -> Stated:
    """The answer is v_l itself at the depths named."""

    def stated(a: Any, before: Tokens, _: Tokens, answer: Any) -> Facts:
        f = Facts(a)
        E, found = f.named("query.x", before.blocks["query", "x"]), f.named("answer", answer)
        v = facts.values(f, *tabular(f, before), found.shape[0] - 1)
        for l in depths:
            f.equal(f"v_{l}", found[l : l + 1, :], v[l : l + 1, :] @ E)
        return f

    return stated


def worst_case(built: Construction, task: AnyTask, weights: Weights, error: Fraction) -> tuple[Record, ...]:
    """The run on the task that attains the error."""
    record = run_record(built, task, held(weights, error))
    return () if record is None else (record,)
