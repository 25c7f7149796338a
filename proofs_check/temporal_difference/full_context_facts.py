"""What the records say of TD on the full context: runs against weight vectors, and one step in indeterminates."""

from __future__ import annotations

from typing import Any

import sympy as sp

from constructions.layers import Public, Repeat
from constructions.temporal_difference.full_context import full_context_program
from constructions.tokens import Tokens

from ..facts import Facts, Shapes, Stated, Term, of_blocks, running, stacked
from ..instances import Instance
from ..program_documents import formal, program_document
from ..records import Record


def stated(instance: Instance) -> Stated:
    """phi_q'w_l with w_0 = 0 and w_{l+1} = w_l + W_l sum_t delta_t e_t, each by its definition."""
    program = instance.construction.program
    algorithm = program.name.split()[0]
    steps = [x for layer in program.layers for x in (layer.layers if isinstance(layer, Repeat) else (layer,))]

    def said(a: Any, before: Tokens, _: Tokens, answer: Any) -> Facts | None:
        f = Facts(a)
        X, Y, R, E = of_blocks(f, before, ("sample.x", "sample.y", "sample.r", "query.x")).values()
        found, (d, samples) = f.named("answer", answer), X.shape
        depth = found.shape[0] - 1
        weights = [_public(step, "weight") for step in (steps * depth)[:depth]]
        decay = _public(steps[0], "mixing") if algorithm == "td-lambda" else None
        if any(W is None for W in weights) or (algorithm == "td-lambda" and decay is None):
            return None
        each = [f.value(W.name, a.matrix(W.rows(d, d))) for W in weights if W]
        e, targets = X - Y if algorithm == "residual-gradient" else X, R
        if decay is not None:
            rate = f.value("lambda", a.matrix([[decay.rows(2, 2)[1][0]]]))
            e = running(f, "e", X, rate)
        if algorithm == "average-reward":
            one = f.fill(1, 1, 1)
            count = running(f, "t", f.fill(1, 1, samples), one)
            mean = f.value("rbar", a.hadamard(running(f, "sum R", R, one).value, a.recip_0(count.value)))
            f.equal("t rbar = sum R", count * mean, f.named("sum R", f.values["sum R"]))
            targets = R - mean
        w = [f.fill(0, d, 1)]
        for W in each:
            delta = targets + w[-1].T @ (Y - X)
            w.append(f.defined(f"w_{len(w)}", w[-1] + W @ e @ delta.T))
        f.equal("predictions", found, stacked(*(x.T for x in w)) @ E)
        return f

    return said


def _public(step: Any, part: str) -> Public | None:
    """The first public matrix of that kind in a layer."""
    return next((getattr(head, part) for head in step.heads if getattr(head, part) is not None), None)


def step_record(algorithm: str, d: int, samples: int, weight: Public) -> Record:
    """One built layer on tokens of indeterminates under the invariant for w: they are as for w + C sum delta_t e_t.

    C and, for traces, the rate are indeterminates too; X, Y, R, E and w as in the module that proves it.
    """
    rate = sp.Symbol("rate_0_0")
    program = full_context_program(algorithm, d, 1, [weight], rate if algorithm == "td-lambda" else 0)
    average = algorithm == "average-reward"
    moving, counts = "h" if average else "r", {"sample": samples, "query": 1}
    widths = {field: int(program.layout[field]) for field in program.layout}
    shapes = {"X": (d, samples), "Y": (d, samples), "R": (1, samples), "E": (d, 1), "w": (d, 1), "C": (d, d)}
    entries = {x: sp.Matrix(*shape, lambda i, j, x=x: sp.Symbol(f"{x}_{i}_{j}")) for x, shape in shapes.items()}
    moved = entries["w"].T * (entries["Y"] - entries["X"])
    blocks = {"sample.x": entries["X"], "sample.y": entries["Y"], "sample.r": entries["R"], "query.x": entries["E"]}
    blocks[f"sample.{moving}"] = moved if average else entries["R"] + moved
    blocks[f"query.{moving}"] = -entries["w"].T * entries["E"]
    f = Facts(Shapes())
    X, Y, R, E, w, C = (f.generic(name, *shape) for name, shape in shapes.items())
    later = w + C @ _directions(f, algorithm, X, Y) @ _errors(f, average, X, Y, R, w).T
    f.after = {"sample.x": X, "sample.y": Y, "sample.r": R, "query.x": E, f"query.{moving}": -(later.T @ E)}
    shown = later.T @ (Y - X)
    f.after[f"sample.{moving}"] = shown if average else R + shown
    tokens = {name: [[formal(sp.expand(x)) for x in row] for row in block.tolist()] for name, block in blocks.items()}
    return {
        "kind": "run",
        "part": f"{algorithm}, d = {d}, N = {samples}",
        "widths": widths,
        "program": program_document(program.layers, widths, counts),
        "tokens": {"counts": counts, "blocks": tokens},
        "read": None,
        "algorithm": "",
        "counted": False,
        **f.document(),
    }


def _directions(f: Facts, algorithm: str, X: Term, Y: Term) -> Term:
    """e_t as columns."""
    if algorithm == "residual-gradient":
        return X - Y
    if algorithm != "td-lambda":
        return X
    rate = f.generic("rate")
    columns = [X[:, :1]]
    for t in range(1, X.shape[1]):
        columns.append(rate * columns[-1] + X[:, t : t + 1])
    return stacked(*(e.T for e in columns)).T


def _errors(f: Facts, average: bool, X: Term, Y: Term, R: Term, w: Term) -> Term:
    """delta_t as a row; rewards less their running means for average reward."""
    delta = R + w.T @ (Y - X)
    if not average:
        return delta
    means, seen = [], R[:, :1]
    for t in range(R.shape[1]):
        seen = seen + R[:, t : t + 1] if t else seen
        means.append(seen * sp.Rational(1, t + 1))
    return delta - stacked(*means).T
