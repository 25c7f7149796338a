"""What the records say of streams: the recurrence token by token, the chunk formula and its faulty forms, determinants.

G is built row by row, G_i = a_i G_{i-1} + e_i', so it is lower triangular with unit diagonal and no mask is needed:
G - I is strictly lower, and so is L = diag(b) ((G - I) o K K').
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from flint import fmpq, fmpq_mat

from constructions.exact import RATIONALS
from constructions.recurrent.streams import Stream

from ..facts import Facts, Shapes, Term, horizontally, inverse, running
from ..generic_layer import first_difference
from ..records import Record


def recorded(f: Facts, stream: Stream) -> dict[str, Term]:
    """K, V, Q, b, a by tokens and S_0."""
    tables = {"K": stream.keys, "V": stream.values, "Q": stream.queries, "S_0": stream.initial}
    out = {name: f.value(name, RATIONALS.matrix(table)) for name, table in tables.items()}
    rates = {"b": stream.rates, "a": stream.gates}
    return out | {name: f.value(name, RATIONALS.matrix([[x] for x in row])) for name, row in rates.items()}


def generic(f: Facts, size: Sequence[int]) -> dict[str, Term]:
    """The same as indeterminates."""
    T, d_k, d_v = size
    shapes = {"K": ("k", T, d_k), "V": ("v", T, d_v), "Q": ("q", T, d_k), "S_0": ("s", d_v, d_k)}
    out = {name: f.generic(*shape) for name, shape in shapes.items()}
    return out | {name: f.generic(name, 1, T).T for name in "ba"}


def recurrence(f: Facts, x: dict[str, Term]) -> Term:
    """[O, S_T] by S_t = a_t S_{t-1} (I - b_t k_t k_t') + b_t v_t k_t', o_t = S_t q_t."""
    S, parts = x["S_0"], []
    numbers = not f.indeterminates
    for t in range(x["K"].shape[0]):
        k, v, q, b, a = (x[name][t : t + 1, :] for name in ("K", "V", "Q", "b", "a"))
        decayed = a * S
        S = decayed + b * ((v.T - decayed @ k.T) @ k)
        S = f.defined(f"S_{t + 1}", S) if numbers else S
        parts.append(S @ q.T)
    return horizontally(*parts, S)


def chunk_formula(f: Facts, x: dict[str, Term], fault: str | None = None) -> Term:
    """[O, S_C] of one chunk, as stated or with a fault of `formula.FAULTS`."""
    K, b, a = x["K"], x["b"], x["a"]
    C = K.shape[0]
    one, across = f.unit(C), f.fill(1, 1, C)
    G = _products(f, a)
    g = f.defined("g", a[:1, :] * G[:, :1])
    gram = K @ K.T
    strict = _ones_below(f, C)
    below = strict if fault == "no gate in L" else G - one
    if fault == "diagonal kept":
        below = G
    rates = across.T @ b.T if fault == "b on the wrong side" else b @ across
    L = f.defined("L", rates * (below * gram))
    T = one - L
    if fault != "first-order Neumann":
        T = f.value("T", inverse(one + L))
        f.equal("(I + L) T = I", (one + L) @ T, one)
    along = f.fill(1, 1, x["V"].shape[1])
    decay = b if fault == "no gate in W" else b * g
    written = T @ ((b @ along) * x["V"]) - T @ ((decay @ along) * (K @ x["S_0"].T))
    U = f.defined("U", written)
    wide = f.fill(1, 1, K.shape[1])
    carried = K if fault == "no gate in k" else (G[C - 1 :, :].T @ wide) * K
    scores = x["Q"] @ K.T
    seen = {"scores before the write": G - one, "no gate in the scores": strict + one}.get(fault or "", G)
    outputs = (g @ along) * (x["Q"] @ x["S_0"].T) + (scores * seen) @ U
    return horizontally(outputs.T, g[C - 1 :, :] * x["S_0"] + U.T @ carried)


def _products(f: Facts, a: Term) -> Term:
    """G with G_1 = e_1', G_i = a_i G_{i-1} + e_i'."""
    C = a.shape[0]
    rows = [[fmpq(int(j == 0)) for j in range(C)]]
    for i in range(1, C):
        rows.append([a.value[i, 0] * x if j < i else fmpq(int(i == j)) for j, x in enumerate(rows[-1])])
    G = f.value("G", fmpq_mat(C, C, [x for row in rows for x in row]))
    f.equal("G begins", G[:1, :], f.unit(C)[:1, :])
    if C > 1:
        f.equal("G goes on", G[1:, :], (a[1:, :] @ f.fill(1, 1, C)) * G[:-1, :] + f.unit(C)[1:, :])
    return G


def _ones_below(f: Facts, C: int) -> Term:
    """Ones below the diagonal: a running sum of the rows of I, less I."""
    return running(f, "lower", f.unit(C), f.fill(1, 1, 1)).T - f.unit(C)


def formula(stream: Stream, fault: str | None = None) -> Record:
    """The formula is the recurrence; with a fault it differs from it in the entry named."""
    f = Facts()
    x = recorded(f, stream)
    found, expected = chunk_formula(f, x, fault), recurrence(f, x)
    if fault is None:
        f.equal("formula", found, expected)
    else:
        i, j = first_difference(found.value, expected.value) or (0, 0)
        f.relate(f"fault: {fault}", found[i : i + 1, j : j + 1], "!=", expected[i : i + 1, j : j + 1])
    return f.record(stream.name if fault is None else f"{fault}: {stream.name}")


def answered(stream: Stream, answer: fmpq_mat) -> Record:
    """What the built layer answered, [O, S_T], is what the recurrence gives."""
    f = Facts()
    f.equal("answer", f.value("answer", answer), recurrence(f, recorded(f, stream)))
    return f.record(stream.name)


def answered_generic(stream: Stream, answer: Any) -> Record:
    """The same as polynomials in every number of the stream."""
    f = Facts(Shapes())
    f.equal("answer", f.polynomials("answer", answer.tolist()), recurrence(f, generic(f, stream.size)))
    return f.record(stream.name)


def determinant(stream: Stream, M: fmpq_mat) -> Record:
    """M = prod a_i (I - b_i k_i k_i'), and its expansion over permutations is prod a_i^d (1 - b_i |k_i|^2)."""
    f = Facts()
    x = recorded(f, stream)
    d = M.nrows()
    product: Any = f.unit(d)
    claimed: Any = f.fill(1, 1, 1)
    for t in range(x["K"].shape[0]):
        k, b, a = (x[name][t : t + 1, :] for name in ("K", "b", "a"))
        product = f.defined(f"M_{t + 1}", a * (product - b * ((product @ k.T) @ k)))
        claimed = claimed * a**d * (1 - b * (k @ k.T))
    kept = f.value("M", M)
    f.equal("M", kept, product)
    f.equal("det M", leibniz(kept), claimed)
    return f.record(stream.name)


def leibniz(M: Term) -> Term:
    """The determinant as a sum over permutations, shape (1, 1)."""
    d = M.shape[0]
    total: Any = None
    for order in itertools.permutations(range(d)):
        term: Any = None
        for i, j in enumerate(order):
            entry = M[i : i + 1, j : j + 1]
            term = entry if term is None else term * entry
        odd = sum(order[i] > order[j] for i in range(d) for j in range(i + 1, d)) % 2
        signed = -term if odd else term
        total = signed if total is None else total + signed
    return total
