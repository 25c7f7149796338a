"""recurrent.delta-rule: one token, a chunk of tokens, and how chunks compose, over any arithmetic (theory C0, C1).

The state S has shape (d_v, d_k). A token with key k, value v, query q, rate b and gate A moves and reads it:

    S+ = S A (I - k b k') + v b k',        o = S+ q.

The gated delta rule has A = a I. No step below uses that gates commute, so what is proved of them holds for every gate
matrix of shape (d_k, d_k), and the scalar ones are a case.

A chunk acts on every state at once. With one column a token, u_i = z_i - S_0 w_i is what token i writes:

    S_C = S_0 G + (Z - S_0 W) H',          O = S_0 P + R,

where G is the product of the gates and column i of H is k_i carried through the gates after it. A new token reads the
state before it, S = S_0 G + (Z - S_0 W) H', so with r = (A'H)' k

    z = (v - Z r) b,   w = (G A k - W r) b,   H+ = [A'H, k],   G+ = G A.

This is forward substitution: (W+)(I + L)' and (Z+)(I + L)' are the right-hand sides (g_i k_i) b_i and v_i b_i, with L
the strictly lower triangle of b_i <k_j carried to i, k_i>; so W' = T diag(b g) K and Z' = T diag(b) V, T = (I + L)^-1.
No gate is ever divided by, so gates may vanish.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from ..arithmetic import Arithmetic, Array
from ..construction import Construction, Steps, last
from ..errors import BadInput
from ..layout import Layout
from ..program import Program
from ..task import TaskClass
from ..tokens import Span, Tokens
from .streams import Stream

THEOREM = "recurrent.delta-rule"
SOURCE = "recurrence and chunk form of the gated delta rule; theory C1, F1-F7 and F10"


@dataclass(frozen=True)
class Token:
    """Key, value and query as columns (d_k, 1), (d_v, 1), (d_k, 1); rate (1, 1); gate A (d_k, d_k)."""

    key: Array
    value: Array
    query: Array
    rate: Array
    gate: Array


@dataclass(frozen=True)
class Chunk:
    """What some tokens do to every state.

    Attributes:
        keys: H, carried to the end of the chunk, shape (d_k, C).
        weights: W, shape (d_k, C).
        values: Z, shape (d_v, C).
        gate: G, shape (d_k, d_k).
        queries: P, shape (d_k, C).
        reads: R, shape (d_v, C).
    """

    keys: Array
    weights: Array
    values: Array
    gate: Array
    queries: Array
    reads: Array


def _minus(a: Array, b: Array, arithmetic: Arithmetic) -> Array:
    return arithmetic.add(a, arithmetic.negate(b))


def step(state: Array, token: Token, arithmetic: Arithmetic) -> Array:
    """S A (I - k b k') + v b k': the recurrence, shape (d_v, d_k)."""
    mm, key = arithmetic.matmul, arithmetic.transpose(token.key)
    decayed = mm(state, token.gate)
    kept = _minus(decayed, mm(mm(mm(decayed, token.key), token.rate), key), arithmetic)
    return arithmetic.add(kept, mm(mm(token.value, token.rate), key))


def single(token: Token, arithmetic: Arithmetic) -> Chunk:
    """One token as a chunk."""
    mm = arithmetic.matmul
    weights, values = mm(mm(token.gate, token.key), token.rate), mm(token.value, token.rate)
    score = mm(arithmetic.transpose(token.key), token.query)
    queries = _minus(mm(token.gate, token.query), mm(weights, score), arithmetic)
    return Chunk(token.key, weights, values, token.gate, queries, mm(values, score))


def append(chunk: Chunk, token: Token, arithmetic: Arithmetic) -> Chunk:
    """The chunk and one token more: a row of forward substitution."""
    mm, transpose = arithmetic.matmul, arithmetic.transpose
    carried = mm(transpose(token.gate), chunk.keys)
    row = mm(transpose(carried), token.key)
    gate = mm(chunk.gate, token.gate)
    value = mm(_minus(token.value, mm(chunk.values, row), arithmetic), token.rate)
    weight = mm(_minus(mm(gate, token.key), mm(chunk.weights, row), arithmetic), token.rate)
    keys = arithmetic.stack([[carried, token.key]])
    weights = arithmetic.stack([[chunk.weights, weight]])
    values = arithmetic.stack([[chunk.values, value]])
    scores = mm(transpose(keys), token.query)
    query = _minus(mm(gate, token.query), mm(weights, scores), arithmetic)
    return Chunk(
        keys,
        weights,
        values,
        gate,
        arithmetic.stack([[chunk.queries, query]]),
        arithmetic.stack([[chunk.reads, mm(values, scores)]]),
    )


def merge(first: Chunk, second: Chunk, arithmetic: Arithmetic) -> Chunk:
    """Two chunks as one, first then second; associative (F6), so chunks may be scanned in any bracketing."""
    mm, transpose = arithmetic.matmul, arithmetic.transpose

    def through(columns: Array) -> tuple[Array, Array]:
        """Columns x of the second chunk act on the state after the first: S_1 x = S_0 (G x - W H'x) + Z H'x."""
        scores = mm(transpose(first.keys), columns)
        linear = _minus(mm(first.gate, columns), mm(first.weights, scores), arithmetic)
        return linear, mm(first.values, scores)

    weights, moved = through(second.weights)
    queries, read = through(second.queries)
    return Chunk(
        arithmetic.stack([[mm(transpose(second.gate), first.keys), second.keys]]),
        arithmetic.stack([[first.weights, weights]]),
        arithmetic.stack([[first.values, _minus(second.values, moved, arithmetic)]]),
        mm(first.gate, second.gate),
        arithmetic.stack([[first.queries, queries]]),
        arithmetic.stack([[first.reads, arithmetic.add(second.reads, read)]]),
    )


def affine_map(chunk: Chunk, arithmetic: Arithmetic) -> tuple[Array, Array]:
    """(M, B) with S_C = S_0 M + B, shapes (d_k, d_k) and (d_v, d_k)."""
    keys = arithmetic.transpose(chunk.keys)
    moved = arithmetic.matmul(chunk.weights, keys)
    return _minus(chunk.gate, moved, arithmetic), arithmetic.matmul(chunk.values, keys)


def final_state(chunk: Chunk, state: Array, arithmetic: Arithmetic) -> Array:
    """S_C = S_0 G + (Z - S_0 W) H'."""
    mm = arithmetic.matmul
    written = _minus(chunk.values, mm(state, chunk.weights), arithmetic)
    return arithmetic.add(mm(state, chunk.gate), mm(written, arithmetic.transpose(chunk.keys)))


def outputs(chunk: Chunk, state: Array, arithmetic: Arithmetic) -> Array:
    """O = S_0 P + R, one column a token, shape (d_v, C)."""
    return arithmetic.add(arithmetic.matmul(state, chunk.queries), chunk.reads)


def chunk_of(tokens: Sequence[Token], arithmetic: Arithmetic) -> Chunk:
    """The chunk of at least one token."""
    first, *others = tokens
    return reduce(lambda chunk, token: append(chunk, token, arithmetic), others, single(first, arithmetic))


@dataclass(frozen=True)
class DeltaRule:
    """A layer: the gated delta rule along the tokens of one kind.

    Attributes:
        value, key, query, rate, gate: the fields that it reads; `rate` and `gate` have one coordinate.
        out: the field to which o_t is added.
        memory: the field of the kind `state` that holds S, a column for each coordinate of a key.
        span: the tokens that it runs along, in order.
        state: the kind that holds the state, d_k tokens.
        chunk: tokens a chunk; None runs the recurrence token by token.
    """

    value: str
    key: str
    query: str
    rate: str
    gate: str
    out: str
    memory: str
    span: Span
    state: str = "state"
    chunk: int | None = None
    label: str = "delta rule"

    SELECTORS = ("value", "key", "query", "rate", "gate", "out", "memory")

    def steps(self, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[tuple[str, Tokens]]:
        """Run along the span.

        Raises:
            BadInput: no state where the layer looks for it.
        """
        count = tokens.count(self.span)
        state = tokens.blocks.get((self.state, self.memory))
        if state is None:
            where = f"field {self.memory} of kind {self.state}"
            raise BadInput(f"layer {self.label}: expected a state in {where}, found none")
        parts = []
        read = list(read_tokens(self, tokens, arithmetic))
        for start in range(0, count, self.chunk or 1):
            if self.chunk is None:
                state = step(state, read[start], arithmetic)
                parts.append(arithmetic.matmul(state, read[start].query))
            else:
                chunk = chunk_of(read[start : start + self.chunk], arithmetic)
                parts.append(outputs(chunk, state, arithmetic))
                state = final_state(chunk, state, arithmetic)
        blocks = {(self.state, self.memory): state}
        if parts:
            written = arithmetic.stack([parts])
            old = tokens.blocks.get((self.span.kind, self.out))
            if old is not None:
                blocks[(self.span.kind, self.out)] = arithmetic.add_columns(old, self.span.start, written)
            else:
                total = tokens.total(self.span.kind)
                blocks[(self.span.kind, self.out)] = arithmetic.embed(written, self.span.start, total)
        yield self.label, tokens.replacing(blocks)

    def describe(self) -> list[tuple[str, str]]:
        form = "token by token" if self.chunk is None else f"chunks of {self.chunk}"
        read = (
            f"delta rule (value {self.value}, key {self.key}, query {self.query}, rate {self.rate}, gate {self.gate};"
        )
        return [(self.label, f"{read} {self.out})"), ("", f"along {self.span}, state {self.memory}, {form}")]


def read_tokens(layer: DeltaRule, tokens: Tokens, arithmetic: Arithmetic) -> Iterator[Token]:
    """The tokens of a layer's span, their gates as a I; a missing block is zero."""
    d_v, d_k = arithmetic.shape(tokens.blocks[(layer.state, layer.memory)])
    widths = {layer.value: d_v, layer.key: d_k, layer.query: d_k, layer.rate: 1, layer.gate: 1}
    kind = layer.span.kind
    blocks = {field: tokens.read(kind, field, width, arithmetic) for field, width in widths.items()}
    identity, ones = arithmetic.one_hot(range(d_k), d_k), arithmetic.matrix([[1] * d_k])
    for i in range(layer.span.start, layer.span.start + tokens.count(layer.span)):
        at = {field: arithmetic.columns(block, i, i + 1) for field, block in blocks.items()}
        gate = arithmetic.scale_columns(identity, arithmetic.matmul(at[layer.gate], ones))
        yield Token(at[layer.key], at[layer.value], at[layer.query], at[layer.rate], gate)


STREAMS = TaskClass("streams", "tokens (k, v, q, b, a) and an initial state, of any real values", lambda task: None)
ASSUMPTIONS = ("rates and gates are fields of the tokens, given with them; exact numbers, not floats",)
LAYER = DeltaRule("value", "key", "query", "rate", "gate", "out", "memory", Span("token"))
"""The layer, token by token; `construction` gives it a chunk size."""


def program(d_k: int, d_v: int, chunk: int | None) -> Program:
    """One delta-rule layer on tokens with every field that it reads."""
    layout = Layout(key=d_k, query=d_k, value=d_v, out=d_v, memory=d_v, rate=1, gate=1)
    name = "gated delta rule, " + ("token by token" if chunk is None else f"chunks of {chunk}")
    layer = DeltaRule("value", "key", "query", "rate", "gate", "out", "memory", Span("token"), chunk=chunk)
    return Program(name, layout, ("token", "state"), (layer,))


def encode(task: Stream, arithmetic: Arithmetic) -> Tokens:
    """The stream as tokens of kind `token`, and S_0 as columns of kind `state`."""
    T, d_k, d_v = task.size
    columns = {
        ("token", "key"): arithmetic.matrix(list(zip(*task.keys, strict=True)), (d_k, T)),
        ("token", "value"): arithmetic.matrix(list(zip(*task.values, strict=True)), (d_v, T)),
        ("token", "query"): arithmetic.matrix(list(zip(*task.queries, strict=True)), (d_k, T)),
        ("token", "rate"): arithmetic.matrix([task.rates]),
        ("token", "gate"): arithmetic.matrix([task.gates]),
        ("state", "memory"): arithmetic.matrix(task.initial, (d_v, d_k)),
    }
    return Tokens({"token": T, "state": d_k}, columns)


def decode(steps: Steps, arithmetic: Arithmetic) -> Array:
    """[O, S_T], shape (d_v, T + d_k)."""
    tokens = last(steps)
    state = tokens.blocks[("state", "memory")]
    return arithmetic.stack([[tokens.read("token", "out", arithmetic.shape(state)[0], arithmetic), state]])


def reference(task: Stream, arithmetic: Arithmetic) -> Array:
    """The recurrence itself, a token at a time: [O, S_T]."""
    tokens = encode(task, arithmetic)
    state = tokens.blocks[("state", "memory")]
    parts = []
    for token in read_tokens(LAYER, tokens, arithmetic):
        state = step(state, token, arithmetic)
        parts.append(arithmetic.matmul(state, token.query))
    return arithmetic.stack([[*parts, state]])


def construction(d_k: int, d_v: int, chunk: int | None = None) -> Construction:
    """The layer at given widths: chunks of `chunk` tokens, or the recurrence."""
    return Construction(
        theorem=THEOREM,
        sizes={"d_k": d_k, "d_v": d_v, **({} if chunk is None else {"C": chunk})},
        program=program(d_k, d_v, chunk),
        encode=encode,
        decode=decode,
        reference=reference,
        task_class=STREAMS,
        assumptions=ASSUMPTIONS,
        answer=(("outputs, then the columns of the last state", d_v),),
        source=SOURCE,
    )
