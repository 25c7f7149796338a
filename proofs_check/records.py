"""Records: what a certificate rests on, as plain data that another program can check again.

A record is a JSON document of one of these kinds. Numbers are texts, `p/q`; a matrix is a list of rows; a sum of words
is a list of [coefficient, [[letter, transposed], ..]].

    words             letters with their shapes, hypotheses as rewrite rules, identities left = right
                      and, for a reader or the formal export, factors of a right side and matrices by their blocks
    layer             the same of every block, built layers at concrete sizes, the blocks before them as words, and a
                      rational point that satisfies the hypotheses
    polynomials       one built layer at concrete sizes, blocks before and after as words in generic matrices
    run               a built program on encoded tokens, what is read from it, the answer, the algorithm it follows;
                      what is so of the tokens, of the answer and of the blocks that the program leaves
    schwartz-zippel   the same modulo a prime, with the degree bounds behind the failure probability
    rank              a matrix over Q or modulo a prime, a minor with its inverse, the other rows by the minor's
    cover             g, m, L, e*, the ends of a cover and of a packing
    intervals         cells of g, each with one cover of e* <= constant Psi_m for all g in it and all m
    facts             relations between named matrices over Q, or equalities in matrices of indeterminates
    rounds            a program of one round with the tokens of the rounds (`online_learning.round_records`)
    chambers          such a program in symbols of known sign (`online_learning.chamber_records`)

What has no such form (a layer unknown here, a large instance) is left out: a certificate may have fewer records than
parts, and the re-checker counts what it saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flint import fmpq_mat, nmod_mat

from constructions.construction import Construction, Reading, last
from constructions.exact import RATIONALS, PrimeField
from constructions.layers import LinearAttention
from constructions.layout import Layout
from constructions.program import Program
from constructions.task import AnyTask, Task
from constructions.tokens import Tokens

from .program_documents import Record as Record
from .program_documents import Unrecorded as Unrecorded
from .program_documents import numbers as numbers
from .program_documents import program_document, size_at
from .words import Letter, Rule, Words, is_ones, zero

if TYPE_CHECKING:
    from .facts import Stated

LARGEST_RUN = 48
"""Tokens beyond which a run is left out: its record would be larger than the rest of the certificate."""

RUNS = 3
"""Runs recorded of one claim."""


def sum_of_words(words: Words) -> list[Any]:
    """A sum of words, in a fixed order."""
    terms = [[str(c), [[x.name, int(t)] for x, t in word]] for word, c in words.terms.items()]
    return sorted(terms, key=lambda term: (len(term[1]), str(term[1])))


def word_blocks(blocks: Iterable[Words]) -> list[Any]:
    """Sums of words with their shapes: factors of a product, or the blocks of a row."""
    return [{"shape": [str(size) for size in x.shape], "sum": sum_of_words(x)} for x in blocks]


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
            known[x.name] = [["1"] * size_at(x.columns, sizes)]
    widths = {field: size_at(layout[field], sizes) for field in layout}
    counts = {kind: size_at(count, sizes) for kind, count in tokens.counts.items()}
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


def tokens_document(tokens: Tokens) -> Record:
    """Counts by kind, and the blocks that are there."""
    blocks = {f"{kind}.{field}": numbers(array) for (kind, field), array in sorted(tokens.blocks.items())}
    return {"counts": dict(tokens.counts), "blocks": blocks}


def run_record(
    construction: Construction, task: AnyTask, stated: Stated | None = None, arithmetic: Any = RATIONALS
) -> Record | None:
    """A run in Q, or with formal logarithms, with what is stated of it.

    None where it is large, has no document, or nothing is said: neither `Construction.reads` nor `stated` is there.
    """
    reads = construction.reads
    if reads is None and stated is None:
        return None
    tokens = construction.encode(task, arithmetic)
    ran = _ran(construction.program, tokens, reads, construction.algorithm if reads else "")
    if ran is None:
        return None
    if reads is not None:
        ran["answer"] = numbers(construction.outputs(task, arithmetic))
    if arithmetic is not RATIONALS:
        ran["generic"] = {}
    if ran["algorithm"] == "td" and "state" not in tokens.counts:
        assert isinstance(task, Task)  # the program starts from a context, which does not show the task
        ran["task"] = {"A": numbers(task.A), "r": numbers(task.r)}
    if stated is not None and not _say(ran, construction.program, tokens, reads, arithmetic, stated):
        return None
    return {"kind": "run", "part": task.name, **ran}


def field_record(
    program: Program,
    tokens: Tokens,
    reads: Reading | None,
    algorithm: str,
    field: PrimeField,
    degrees: Mapping[str, Any],
    stated: Stated | None = None,
) -> Record | None:
    """A run modulo a prime on generic tokens; None as for `run_record`."""
    ran = _ran(program, tokens, reads, algorithm)
    if ran is None or (stated is not None and not _say(ran, program, tokens, reads, field, stated)):
        return None
    return {"kind": "schwartz-zippel", "prime": str(field.p), **degrees, **ran}


def _say(ran: Record, program: Program, tokens: Tokens, reads: Reading | None, arithmetic: Any, stated: Stated) -> bool:
    """Add what is stated of the run; False where nothing is."""
    steps = list(program.steps(tokens, arithmetic))
    answer = None if reads is None else reads.rows(steps, int(tokens.total(reads.kind)), arithmetic)
    facts = stated(arithmetic, tokens, last(steps), answer)
    if facts is None:
        return False
    ran.update(facts.document(), counted=facts.counted)
    return True


def _ran(program: Program, tokens: Tokens, reads: Reading | None, algorithm: str) -> Record | None:
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
        "read": reads and {"label": reads.label, "kind": reads.kind, "field": reads.field, "sign": reads.sign},
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
        "inverse": numbers(minor.inv()) if rank else [],
    }
    if isinstance(matrix, nmod_mat):
        record["prime"] = str(matrix.modulus())
    return {**record, "part": part} if part else record


def _columns(matrix: Any, columns: Sequence[int]) -> Any:
    entries = [matrix[i, j] for i in range(matrix.nrows()) for j in columns]
    if isinstance(matrix, nmod_mat):
        return nmod_mat(matrix.nrows(), len(columns), [int(x) for x in entries], matrix.modulus())
    return fmpq_mat(matrix.nrows(), len(columns), entries)
