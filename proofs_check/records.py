"""Records: what a certificate rests on, as plain data that another program can check again.

A record is a JSON document of one of these kinds. Numbers are texts, `p/q`; a matrix is a list of rows; a sum of words
is a list of [coefficient, [[letter, transposed], ..]].

    words             letters with their shapes, hypotheses as rewrite rules, identities left = right
    layer             the same of every block, built layers at concrete sizes, the blocks before them as words, and a
                      rational point that satisfies the hypotheses
    polynomials       one built layer at concrete sizes, blocks before and after as words in generic matrices
    run               a built program on encoded tokens, what is read from it, the answer, the algorithm it follows
    schwartz-zippel   the same modulo a prime, with the degree bounds behind the failure probability
    rank              a matrix over Q or modulo a prime, a minor that is not zero, the other rows by the minor's
    cover             g, m, L, e*, the ends of a cover and of a packing
    intervals         cells of g, each with one cover of e* <= constant Psi_m for all g in it and all m

What has no such form (a layer unknown here, a large instance) is left out: a certificate may have fewer records than
parts, and the re-checker counts what it saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flint import fmpq_mat, nmod_mat

from constructions.construction import Construction, Reading
from constructions.exact import RATIONALS
from constructions.layers import Forget, Head, LinearAttention, Public, Release, Repeat, Tokenwise
from constructions.layout import Layout
from constructions.program import Program
from constructions.task import AnyTask, Task
from constructions.tokens import Span, Tokens

from .words import Letter, Rule, Words, is_ones, zero

Record = dict[str, Any]

LARGEST_RUN = 40
"""Tokens beyond which a run is left out: its record would be larger than the rest of the certificate."""

RUNS = 3
"""Runs recorded of one claim."""


class Unrecorded(Exception):
    """No record is known for this object."""


def numbers(matrix: Any) -> list[list[str]]:
    """A matrix over Q or GF(p) as rows of texts."""
    return [[str(x) for x in row] for row in matrix.tolist()]


def sum_of_words(words: Words) -> list[Any]:
    """A sum of words, in a fixed order."""
    terms = [[str(c), [[x.name, int(t)] for x, t in word]] for word, c in words.terms.items()]
    return sorted(terms, key=lambda term: (len(term[1]), str(term[1])))


def _letters(expressions: Iterable[Words]) -> dict[str, Letter]:
    found: dict[str, Letter] = {}
    for words in expressions:
        for word in words.terms:
            for x, _ in word:
                if found.setdefault(x.name, x) != x:
                    raise Unrecorded
    return dict(sorted(found.items()))


def _alphabet(expressions: Iterable[Words]) -> dict[str, Any]:
    letters = _letters(expressions).values()
    return {x.name: {"shape": [str(x.rows), str(x.columns)], "symmetric": x.symmetric} for x in letters}


def _rules(rules: Sequence[Rule]) -> list[Any]:
    return [[[[x.name, int(t)] for x, t in r.left], sum_of_words(r.right)] for r in rules]


def _all_of_rules(rules: Sequence[Rule]) -> list[Words]:
    return [w for r in rules for w in (r.right, Words(*r.right.shape, {r.left: 1}))]  # type: ignore[dict-item]


def words_record(identities: Mapping[str, tuple[Words, Words]], rules: Sequence[Rule]) -> Record:
    """Identities of words under hypotheses."""
    everything = [w for pair in identities.values() for w in pair] + _all_of_rules(rules)
    return {
        "kind": "words",
        "letters": _alphabet(everything),
        "rules": _rules(rules),
        "identities": [
            {
                "name": name,
                "shape": [str(size) for size in left.shape],
                "left": sum_of_words(left),
                "right": sum_of_words(right),
            }
            for name, (left, right) in identities.items()
        ],
    }


def layer_record(
    layers: Sequence[Any],
    layout: Layout,
    tokens: Tokens,
    found: Mapping[tuple[str, str], Words],
    expected: Mapping[tuple[str, str], Words],
    rules: Sequence[Rule],
    point: tuple[Mapping[str, fmpq_mat], Mapping[Any, int]],
) -> Record:
    """Built layers on generic tokens: the words `found` must equal those `expected`; at the point they are numbers.

    Raises:
        Unrecorded: a layer that has no document.
    """
    values, sizes = point
    identities = {f"{kind}.{field}": (found[kind, field], words) for (kind, field), words in expected.items()}
    record = words_record(identities, rules)
    before = {f"{kind}.{field}": words for (kind, field), words in tokens.blocks.items()}
    letters = _letters([*before.values(), *(w for pair in identities.values() for w in pair), *_all_of_rules(rules)])
    known = {name: numbers(value) for name, value in sorted(values.items())}
    for x in letters.values():
        if is_ones(x):
            known[x.name] = [["1"] * _size(x.columns, sizes)]
    widths = {field: _size(layout[field], sizes) for field in layout}
    counts = {kind: _size(count, sizes) for kind, count in tokens.counts.items()}
    return {
        **record,
        "kind": "layer",
        "letters": _alphabet(
            [*before.values(), *(w for pair in identities.values() for w in pair), *_all_of_rules(rules)]
        ),
        "widths": widths,
        "counts": counts,
        "program": program_document(layers, widths, counts),
        "before": {name: sum_of_words(words) for name, words in before.items()},
        "point": known,
    }


def polynomial_record(
    layer: LinearAttention,
    layout: Layout,
    counts: Mapping[str, int],
    before: Mapping[tuple[str, str], Words],
    after: Mapping[tuple[str, str], Words],
) -> Record:
    """One built layer at concrete sizes: `after`, zero where nothing is said, as polynomials in generic letters.

    Raises:
        Unrecorded: the layer has no document.
    """
    widths = {field: layout[field] for field in layout}
    claimed = {f"{k}.{f}": after.get((k, f), zero(widths[f], counts[k])) for k in counts for f in layout}
    return {
        "kind": "polynomials",
        "letters": _alphabet([*before.values(), *after.values()]),
        "widths": widths,
        "counts": dict(counts),
        "program": program_document([layer], widths, counts),
        "before": {f"{kind}.{field}": sum_of_words(words) for (kind, field), words in before.items()},
        "identities": [{"name": name, "right": sum_of_words(words)} for name, words in claimed.items()],
    }


def _size(size: Any, sizes: Mapping[Any, int]) -> int:
    if isinstance(size, int):
        return size
    return int(sizes[size] if size in sizes else size.subs(sizes))


def program_document(layers: Sequence[Any], widths: Mapping[str, int], counts: Mapping[str, int]) -> list[Record]:
    """The layers as data; public matrices by their entries.

    Raises:
        Unrecorded: a layer, or a public matrix without entries, that has no document.
    """
    out: list[Record] = []
    for layer in layers:
        label = getattr(layer, "label", "")
        if isinstance(layer, LinearAttention):
            out.append({"label": label, "heads": [_head(head, widths, counts) for head in layer.heads]})
        elif isinstance(layer, Tokenwise) and layer.primitive in ("recip_0", "eq0", "relu"):
            document = {"tokenwise": layer.primitive, "span": _span(layer.span), "field": layer.field}
            out.append({"label": label, **document})
        elif isinstance(layer, Release):
            out.append({"label": label, "release": layer.kind, "gate": layer.gate})
        elif isinstance(layer, Forget):
            out.append({"label": label, "keep": list(layer.keep)})
        elif isinstance(layer, Repeat):
            out.append({"repeat": layer.times, "layers": program_document(layer.layers, widths, counts)})
        else:
            raise Unrecorded
    return out


def _head(head: Head, widths: Mapping[str, int], counts: Mapping[str, int]) -> Record:
    routes = [[_span(r.source), _span(r.target), _relation(r)] for r in head.routes]
    document: Record = {
        "sign": head.sign,
        "value": head.value,
        "key": head.key,
        "query": head.query,
        "out": head.out,
        "routes": routes,
    }
    if head.weight is not None:
        document["weight"] = _entries(head.weight, widths[head.query], widths[head.key])
    if head.mixing is not None and head.routes:
        span = head.routes[0].source
        size = span.size(counts[span.kind])
        # Tokens may have been released by then: one matrix for each number of them.
        document["mixing"] = {str(k): _entries(head.mixing, k, k) for k in range(1, size + 1)}
    for part, public in (("weight", head.weight), ("mixing", head.mixing)):
        if public is not None:
            document[f"{part} letter"] = [public.name, int(public.transposed)]
    return document


def _relation(route: Any) -> str:
    if getattr(route, "causal", False):
        return "causal"
    return "same" if route.same else "full"


def _entries(public: Public, rows: int, columns: int) -> list[list[str]]:
    if public.entries is None:
        raise Unrecorded
    entries = public.rows(rows, columns)
    if not all(_is_rational(x) for row in entries for x in row):
        raise Unrecorded
    return [[str(x) for x in row] for row in entries]


def _is_rational(x: Any) -> bool:
    return not hasattr(x, "free_symbols") or bool(x.is_rational)


def _span(span: Span) -> list[Any]:
    return [span.kind, span.start, span.stop]


def tokens_document(tokens: Tokens) -> Record:
    """Counts by kind, and the blocks that are there."""
    blocks = {f"{kind}.{field}": numbers(array) for (kind, field), array in sorted(tokens.blocks.items())}
    return {"counts": dict(tokens.counts), "blocks": blocks}


def run_record(construction: Construction, task: AnyTask) -> Record | None:
    """A run in Q; None where it is large, is read in another way than by `Construction.reads`, or has no document."""
    if construction.reads is None:
        return None
    ran = _ran(construction.program, construction.encode(task, RATIONALS), construction.reads, construction.algorithm)
    answer = numbers(construction.outputs(task, RATIONALS)) if ran else None
    if ran is None:
        return None
    if construction.algorithm == "td" and "state" not in ran["tokens"]["counts"]:
        assert isinstance(task, Task)  # the program starts from a context, which does not show the task
        ran["task"] = {"A": numbers(task.A), "r": numbers(task.r)}
    return {"kind": "run", "part": task.name, **ran, "answer": answer}


def field_record(
    program: Program, tokens: Tokens, reads: Reading, algorithm: str, prime: int, degrees: Mapping[str, Any]
) -> Record | None:
    """A run modulo a prime on generic tokens; None as for `run_record`."""
    ran = _ran(program, tokens, reads, algorithm)
    return {"kind": "schwartz-zippel", "prime": str(prime), **degrees, **ran} if ran else None


def _ran(program: Program, tokens: Tokens, reads: Reading, algorithm: str) -> Record | None:
    if sum(tokens.counts.values()) > LARGEST_RUN:
        return None
    widths = {field: program.layout[field] for field in program.layout}
    try:
        document = program_document(program.layers, widths, tokens.counts)
    except Unrecorded:
        return None
    return {
        "widths": widths,
        "program": document,
        "tokens": tokens_document(tokens),
        "read": {"label": reads.label, "kind": reads.kind, "field": reads.field, "sign": reads.sign},
        "algorithm": algorithm,
    }


def rank_record(matrix: fmpq_mat | nmod_mat, part: str = "") -> Record:
    """rank(matrix) = r: rows and columns of a minor that is not zero, and every row as a combination of the minor's.

    Shapes: matrix (rows, columns); combinations (rows, r).
    """
    reduced, rank = matrix.rref()
    columns = [next(j for j in range(matrix.ncols()) if reduced[i, j] != 0) for i in range(rank)]
    chosen = _columns(matrix, columns)
    flipped, _ = chosen.transpose().rref()
    rows = [next(j for j in range(matrix.nrows()) if flipped[i, j] != 0) for i in range(rank)]
    minor = _columns(chosen.transpose(), rows).transpose()
    # X minor = chosen, so that X (matrix on the minor's rows) = matrix.
    combinations = minor.transpose().solve(chosen.transpose()).transpose() if rank else None
    record: Record = {
        "kind": "rank",
        "matrix": numbers(matrix),
        "rank": rank,
        "rows": rows,
        "columns": columns,
        "combinations": [] if combinations is None else numbers(combinations),
    }
    if isinstance(matrix, nmod_mat):
        record["prime"] = str(matrix.modulus())
    return {**record, "part": part} if part else record


def _columns(matrix: Any, columns: Sequence[int]) -> Any:
    entries = [matrix[i, j] for i in range(matrix.nrows()) for j in columns]
    if isinstance(matrix, nmod_mat):
        return nmod_mat(matrix.nrows(), len(columns), [int(x) for x in entries], matrix.modulus())
    return fmpq_mat(matrix.nrows(), len(columns), entries)
