"""A built layer as matrices: U + P U E_s (U' Q U) E_t on the whole token matrix, for Coq.

U has one row for each coordinate and one column for each token. `in_f` puts a block into the rows of field f, `at_t`
into the columns of the tokens of kind t: U is the sum of in_f X at_t' over its blocks X. A head writes
P = in_out in_value', scores with Q = in_key in_query', and attends from all tokens of one kind, E_s = at_s at_s', to
all of another, E_t. A one-to-one head between rows of ones has scores 1 where its mask is I: it adds P U at_s at_t'.
What a layer forgets is taken away by the sum of in_f in_f' over the fields it keeps, from the left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .coq_text import Section, Used, lemma

Lines = list[str]


@dataclass(frozen=True)
class Whole:
    """The layer of a record on the whole token matrix.

    Attributes:
        section: the record with its names.
        lines: definitions of the layer and of the tokens before it, and the lemma of what is after it.
        layer: the name of that lemma.
        attend: the name of the layer.
        shape: the type of token matrices.
        rows, columns: the inclusions of fields and kinds.
        used: what a proof about them may use.
    """

    section: Section
    lines: Lines
    layer: str
    attend: str
    shape: str
    rows: Inclusions
    columns: Inclusions
    used: Used


def whole_layer(s: Section, used: Used) -> Whole | None:
    """The layer of a record on the whole token matrix; None where it has no such form."""
    record = s.record
    if record["kind"] != "layer" or not _plain(record):
        return None
    shapes = {x["name"]: x["shape"] for x in record["identities"]}
    fields = {f: next(shape[0] for name, shape in shapes.items() if name.split(".")[1] == f) for f in record["widths"]}
    kinds = {t: next(shape[1] for name, shape in shapes.items() if name.split(".")[0] == t) for t in record["counts"]}
    present = {name for name in shapes if record["before"].get(name)}
    present |= {x["name"] for x in record["identities"] if x["right"]}
    met = {name.split(".")[1] for name in present}
    met |= {head[part] for head in record["program"][0]["heads"] for part in ("value", "key", "query", "out")}
    met |= {f for layer in record["program"][1:] for f in layer["keep"]}
    rows, columns = Inclusions(s, "in", "fields", fields, met), Inclusions(s, "at", "kinds", kinds, set(kinds))
    whole = f"'M[ring]_({rows.total}, {columns.total})"
    attend, tokens = s.names.new("attend"), s.names.new("tokens")
    U = s.names.new("U")
    body = U + "".join(_head(s, heads, rows, columns, U) for heads in _merged(record))
    for layer in record["program"][1:]:
        kept = " + ".join(f"{rows.names[f]} *m {rows.names[f]}^T" for f in layer["keep"])
        body = f"({kept}) *m ({body})"
    lines = ["", *rows.lines, *columns.lines, f"Definition {attend} ({U} : {whole}) : {whole} :=", f"  {body}."]
    lines += [f"Definition {tokens} : {whole} :=", f"  {assembled(s, rows, columns, record['before'])}."]
    facts = [*rows.pairs.values(), *columns.pairs.values()]
    letters = [*used.letters, *rows.names.values(), *columns.names.values()]
    inside = Used([*used.sizes, rows.total, columns.total], letters, used.symmetric, facts)
    for name, words in record["before"].items():
        kind, field = name.split(".")
        left = f"{rows.names[field]}^T *m {tokens} *m {columns.names[kind]}"
        statement = f"{left} = {s.sum(words, shapes[name])}"
        near = replace(inside, rules=[*rows.about(field), *columns.about(kind)])
        lines += lemma(s.names.new(f"{tokens}_{kind}_{field}"), statement, f"unfold {tokens}. {near.words()}.")
    parts, layer = s.names.new(f"{tokens}_parts"), s.names.new("layer")
    lines += lemma(parts, f"{tokens} = {assembled(s, rows, columns, record['before'])}", "reflexivity.")
    # From here on the tokens are a letter, which its own rule takes apart.
    by_blocks = replace(inside, letters=[*letters, tokens], rules=[*facts, parts, *used.rules])
    lines.append(by_blocks.tactic("by_blocks"))
    after = assembled(s, rows, columns, {x["name"]: x["right"] for x in record["identities"]})
    lines += lemma(layer, f"{attend} {tokens} =\n  {after}", f"unfold {attend}. by_blocks.")
    return Whole(s, lines, layer, attend, whole, rows, columns, replace(inside, rules=[*facts, *used.rules]))


def assembled(s: Section, rows: Inclusions, columns: Inclusions, blocks: Mapping[str, Any]) -> str:
    """The token matrix of blocks, as an expression; blocks in the order of the layout."""
    terms = []
    for x in s.record["identities"]:
        kind, field = x["name"].split(".")
        words, shape = blocks.get(x["name"]), x["shape"]
        if words:
            terms.append(f"{rows.names[field]} *m ({s.sum(words, shape)}) *m {columns.names[kind]}^T")
    return "\n  + ".join(terms) or "0"


def _plain(record: Mapping[str, Any]) -> bool:
    """One attention layer, and what is forgotten after it; full routes, or one-to-one between ones; known letters."""
    (layer, *others) = record["program"]
    if "heads" not in layer or any("keep" not in other for other in others):
        return False
    for head in layer["heads"]:
        if any(head[part][0] not in record["letters"] for part in PUBLIC if part in head):
            return False
        for source, target, relation in head["routes"]:
            whole = source[1:] == target[1:] == [0, None]
            if not whole or not (relation == "full" or (relation == "same" and _between_ones(record, head))):
                return False
    return True


def _between_ones(record: Mapping[str, Any], head: Mapping[str, Any]) -> bool:
    """Whether a head's keys and queries are rows of ones, without a weight."""
    blocks = [(s[0], head["key"]) for s, _, _ in head["routes"]] + [(t[0], head["query"]) for _, t, _ in head["routes"]]

    def ones(kind: str, field: str) -> bool:
        columns = next(x["shape"][1] for x in record["identities"] if x["name"] == f"{kind}.{field}")
        return record["before"].get(f"{kind}.{field}") == [["1", [[f"1_{columns}'", 0]]]]

    return "weight letter" not in head and all(ones(*block) for block in blocks)


PUBLIC = ("weight letter", "mixing letter")


def _merged(record: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    """Heads with equal value, output, routes and mixing are one head: their scores add up to one Q."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for head in record["program"][0]["heads"]:
        key = [head["value"], head["out"], head["routes"], head.get("mixing letter")]
        groups.setdefault(str(key), []).append(head)
    return list(groups.values())


def _head(s: Section, heads: Sequence[Mapping[str, Any]], rows: Inclusions, columns: Inclusions, U: str) -> str:
    """+ P U E_s (U' Q U) E_t, for each kind of source s with the sum of its targets E_t.

    With a weight W, Q = in_key W' in_query'; with a mixing T, E_s = at_s T at_s'.
    """
    first = heads[0]
    P = f"({rows.names[first['out']]} *m {rows.names[first['value']]}^T)"
    Q = ""
    for head in heads:
        middle = _public(s, head, "weight letter", flip=True)
        product = f"{rows.names[head['key']]}{middle} *m {rows.names[head['query']]}^T"
        Q += (" - " if head["sign"] < 0 else " + ") + product if Q else ("-" if head["sign"] < 0 else "") + product
    if first["routes"][0][2] == "same":
        steps = [
            f"{columns.names[source[0]]}{_public(s, first, 'mixing letter')} *m {columns.names[target[0]]}^T"
            for source, target, _ in first["routes"]
        ]
        return "".join(f"\n  {'-' if head['sign'] < 0 else '+'} {P} *m {U} *m ({x})" for head in heads for x in steps)
    targets: dict[str, list[str]] = {}
    for source, target, _ in first["routes"]:
        targets.setdefault(source[0], []).append(columns.names[target[0]])
    text = ""
    for source, names in targets.items():
        E_s = f"({columns.names[source]}{_public(s, first, 'mixing letter')} *m {columns.names[source]}^T)"
        E_t = " + ".join(f"{name} *m {name}^T" for name in names)
        text += f"\n  + {P} *m {U} *m {E_s} *m ({U}^T *m ({Q}) *m {U}) *m ({E_t})"
    return text


def _public(s: Section, head: Mapping[str, Any], part: str, flip: bool = False) -> str:
    """A public matrix as the next factor, nothing where there is none."""
    if part not in head:
        return ""
    name, transposed = head[part]
    return f" *m {s.letters[name]}{'^T' if bool(transposed) != flip else ''}"


class Inclusions:
    """Where each part stands in a whole, parts one after the other: the library's `part`.

    Attributes:
        total: the size of the whole, as written in Coq.
        names: part -> the constant that includes it, of those that are met.
        lines: their definitions, and in_f' in_g = I or 0.
        pairs: the names of these, by f and g.
    """

    def __init__(self, s: Section, prefix: str, whole: str, parts: Mapping[str, str], met: set[str]) -> None:
        known = s.names.new(whole)
        self.total = f"(sumn {known})"
        self.lines = [f"Definition {known} : seq nat := [:: {'; '.join(s.sizes[size] for size in parts.values())}]."]
        self.names: dict[str, str] = {}
        self.pairs: dict[tuple[str, str], str] = {}
        places = [(i, part, s.sizes[size]) for i, (part, size) in enumerate(parts.items()) if part in met]
        for i, part, size in places:
            self.names[part] = s.names.new(f"{prefix}_{part}")
            shape = f"'M[ring]_({self.total}, {size})"
            self.lines.append(f"Definition {self.names[part]} : {shape} := part ring {known} {i}%N.")
        for at, (i, f, rows) in enumerate(places):
            for j, g, columns in places[at:]:
                value = "1%:M" if i == j else f"(0 : 'M[ring]_({rows}, {columns}))"
                fact = f"@part_itself ring {known} {i}%N" if i == j else f"@part_other ring {known} {i}%N {j}%N"
                self.pairs[f, g] = s.names.new(f"{self.names[f]}_{self.names[g]}")
                statement = f"{self.names[f]}^T *m {self.names[g]} = {value}"
                self.lines += lemma(self.pairs[f, g], statement, f"exact ({fact} isT).")

    def about(self, part: str) -> Lines:
        """The names of those of its facts in which one part is."""
        return [name for pair, name in self.pairs.items() if part in pair]
