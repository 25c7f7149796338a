"""Layers applied again and again: a step from any state to the next one, and what holds after any number of steps.

The step is a lemma about the layer as built, decided by the tactic `words`. What `verify.export_theorems` says follows
from it is an instance of a theorem of the fixed library (`coq/Iterates.v`, `Executor.v`, `Doubling.v`, ..).
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .coq_text import Section, lemma
from .export_blocks import Lines, Whole, assembled


@dataclass(frozen=True)
class Induction:
    """How the tokens of a record go on.

    Texts are Coq with names in braces: letters and sizes as recorded, inclusions as `in_field` and `at_kind`, and those
    of `new`, which are given here.

    Attributes:
        state: letter -> what one layer makes of it, in the letters and the terms.
        terms: names of further texts in the letters.
        into: the blocks that hold the state after the layer, in its letters, where they are not those before it.
        new: further names that `then` uses.
        then: what follows, statements with their proofs by the library.
        unfolded: definitions of the library in which `state` is written.
    """

    state: Mapping[str, str]
    terms: Mapping[str, str] = field(default_factory=dict)
    into: Mapping[str, Any] = field(default_factory=dict)
    new: tuple[str, ...] = ()
    then: str = ""
    unfolded: tuple[str, ...] = ()


def iterated(whole: Whole, induction: Induction) -> tuple[Lines, Lines]:
    """Lines on the layer of a record from any state, and the names of their lemmas."""
    s = whole.section
    fresh = {x: s.names.new(f"{s.letters[x]}_now") for x in induction.state}
    now = copy.copy(s)
    now.letters = {**s.letters, **fresh}
    names = {**s.sizes, **now.letters, **{f"in_{f}": x for f, x in whole.rows.names.items()}}
    names |= {f"at_{t}": x for t, x in whole.columns.names.items()}
    names |= {x: s.names.new(x) for x in ("tokens_at", "after_at", "step", *induction.new)}
    names["attend"] = whole.attend
    for x, text in induction.terms.items():
        names[x] = f"({text.format_map(names)})"
    following = " ".join(f"({text.format_map(names)})" for text in induction.state.values())
    binders = " ".join(f"({fresh[x]} : {s.matrix(s.record['letters'][x]['shape'])})" for x in fresh)
    arguments = " ".join(fresh.values())

    lines: Lines = [""]
    stated = []

    def tokens(name: str, blocks: Mapping[str, Any]) -> str:
        """A definition of tokens in the state's letters; the name of the lemma that takes it apart."""
        text = assembled(now, whole.rows, whole.columns, blocks)
        parts = s.names.new(f"{name}_parts")
        lines.append(f"Definition {name} {binders} : {whole.shape} :=\n  {text}.")
        lines.extend(lemma(f"{parts} {arguments}", f"{name} {arguments} =\n  {text}", "reflexivity."))
        return parts

    before = tokens(names["tokens_at"], s.record["before"])
    held = {x for x, words in s.record["before"].items() if any(y in fresh for _, word in words for y, _ in word)}
    still = {x: words for x, words in s.record["before"].items() if x not in held}
    after = tokens(names["after_at"], still | dict(induction.into)) if induction.into else before
    made = names["after_at"] if induction.into else names["tokens_at"]
    here = f"({names['tokens_at']} {arguments})"
    used = whole.used
    letters = ", ".join(["tt", *(x for x in used.letters if x not in {s.letters[y] for y in fresh})])
    names |= {
        "letters": letters,
        "parts": before,
        "after_parts": after,
        "sizes": "; ".join(dict.fromkeys(used.sizes)),
        "symmetric": f"({', '.join(['tt', *used.symmetric])})",
        # A hypothesis on the state holds of one state only.
        "rules": ", ".join(["tt", *(x for x in used.rules if not s.rules.get(x, set()) & fresh.keys())]),
    }
    words = "words ring [:: {sizes}] ({letters}, {fresh}, {here}) {symmetric} ({rules}, {parts} {arguments})."
    words = words.format_map({**names, "fresh": ", ".join(fresh.values()), "here": here, "arguments": arguments})
    unfolded = ", ".join([whole.attend, *induction.unfolded])
    proof = f"rewrite ({after} {following}); unfold {unfolded}. {words}"
    lines += lemma(f"{names['step']} {arguments}", f"{whole.attend} {here} = {made} {following}", proof)
    stated.append(names["step"])
    then = induction.then.strip().format_map(names)
    stated += re.findall(r"^Lemma (\w+)", then, re.M)
    return [*lines, *then.splitlines()], stated


def grown(s: Section, then: str) -> tuple[Lines, Lines]:
    """Recorded matrices by their blocks, and the lemmas about them; the names of these."""
    names = dict(s.letters)
    lines: Lines = [""]
    for name, rows in s.record["matrices"].items():
        names[name] = s.names.new(name)
        ((first, *others),) = rows
        text = f"({s.sum(first['sum'], first['shape'])})"
        for block in others:
            text = f"(row_mx {text} ({s.sum(block['sum'], block['shape'])}))"
        lines.append(f"Definition {names[name]} := {text}.")
    names |= {x["name"]: s.sides(x)[1] for x in s.record["identities"]}
    text = then.strip().format_map(names)
    return [*lines, *text.splitlines()], re.findall(r"^Lemma (\w+)", text, re.M)
