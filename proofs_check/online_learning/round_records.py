"""Records of whole runs: the tokens of the first rounds, and what each round has to leave, as trees over its blocks.

With the names of `proofs_check.facts`, W = context.row, V = context.idC, f = state.cur, a = V' action.act:

    control    W + alpha (r + g m - f'W a) f a',    logits V W'f,    m what the successor's values W'f+ are worth
    experts    S + U (e l),  l the losses,    O = P softmax(U'S; log of the leak)
    shares     U ((1 - a) v + (a/n) 1 1'v),  v = w - eps w o l,  w = U'S,    O = P w

and every other field of the tokens that are fed back is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import sympy as sp

from constructions.construction import Construction, last
from constructions.exact import RATIONALS
from constructions.logarithms import Logarithms
from constructions.normalised_attention import HardmaxAttention
from constructions.online_learning.rounds import OnlineConstruction
from constructions.online_learning.weighted_majority import ASKS, FOREIGN
from constructions.parallel import Parallel
from constructions.program import Program
from constructions.tokens import Tokens

from ..claim import Finding, Verdict
from ..instances import Instance
from ..program_documents import Record, Unrecorded, formal, numbers, program_document
from .sizes import publics_in

ROUNDS = 6
"""Rounds recorded of one run."""

Tree = Any
VALUES: Tree = ["*", ["'", "context.row"], "next.nxt"]
"""W'f+."""
DONE: Tree = ["*", ["'", "context.idC"], "action.act"]
"""a."""


@dataclass(frozen=True)
class Stated:
    """What a round has to leave.

    Attributes:
        values: public constants by name, matrices of numbers or expressions.
        after: kind.field -> tree; every other field of the kind that is fed back is zero.
        facts: relations of `proofs_check.facts` between blocks and constants.
    """

    values: Mapping[str, Sequence[Sequence[Any]]]
    after: Mapping[str, Tree]
    facts: Sequence[Record]

    def document(self) -> Record:
        """The fields of a record."""
        values = {name: [[formal(x) for x in row] for row in rows] for name, rows in self.values.items()}
        return {"values": values, "after": dict(self.after), "facts": list(self.facts)}


def orthonormal(block: str, count: int) -> Record:
    """X'X = I."""
    return {
        "name": f"{block}, orthonormal",
        "left": ["*", ["'", block], block],
        "relation": "=",
        "right": ["unit", count],
    }


def control(alpha: Any, discount: Any, actions: int, worth: Tree, **values: Any) -> Stated:
    """One of Q-learning and its relatives; constants of `worth` by name."""
    now: Tree = ["*", ["'", "context.row"], "state.cur"]
    gain = ["-", ["+", "reward.rew", ["*", "g", worth]], ["*", ["'", now], DONE]]
    after = {
        "out.row": ["+", "context.row", ["*", ["*", "alpha", gain], ["*", "state.cur", ["'", DONE]]]],
        "state.qs": ["*", "context.idC", now],
    }
    constants = {"alpha": [[alpha]], "g": [[discount]], **values}
    return Stated(constants, after, [orthonormal("context.idC", actions)])


def greedy(built: Construction, task: Any) -> Stated:
    """Q-learning: the largest value."""
    return control(task.alpha, task.discount, task.actions, ["max", VALUES])


def following(built: Construction, task: Any) -> Stated:
    """SARSA: the value of the action that follows."""
    worth = ["*", ["'", VALUES], ["*", ["'", "context.idC"], "next.then"]]
    return control(task.alpha, task.discount, task.actions, worth)


def mixed(built: Construction, task: Any) -> Stated:
    """Expected SARSA: 1 - eps of the largest value and eps of the mean, eps as built."""
    (first, *_) = built.program.layers
    assert isinstance(first, Parallel)
    scales = [m.scale for x in first.layers if isinstance(x, HardmaxAttention) for h in x.heads for m in h.moves]
    if len(scales) != 1:
        raise Unrecorded
    eps = 1 - sp.sympify(scales[0])
    mean = ["*", ["fill", "1", 1, task.actions], VALUES]
    worth = ["+", ["*", "greedy", ["max", VALUES]], ["*", "each", mean]]
    shares = {"greedy": [[1 - eps]], "each": [[eps / task.actions]]}
    return control(task.alpha, task.discount, task.actions, worth, **shares)


def doubled(built: Construction, task: Any) -> Stated:
    """Double Q-learning: the other table's mean over the largest of the table that is changed."""
    A = task.actions
    asked = ["*", ["'", "context.idC"], "next.side"]
    swapped = [[int(j == (i + A) % (2 * A)) for j in range(2 * A)] for i in range(2 * A)]
    picked = ["hardmax", ["+", VALUES, ["*", "apart", asked]]]
    worth = ["*", ["'", picked], ["*", "swapped", VALUES]]
    # More than any two values of a table are apart.
    apart = [[2 * task.largest + 1]]
    return control(task.alpha, task.discount, 2 * A, worth, swapped=swapped, apart=apart)


def majority(built: Construction, task: Any) -> Stated:
    """Weighted majority."""
    return experts(built.program, task.n, 1 - task.eps)


def hedging(built: Construction, task: Any) -> Stated:
    """Hedge."""
    return experts(built.program, task.n, task.root**task.parts, losses=True)


def experts(program: Program, n: int, factor: Any, *, losses: bool = False) -> Stated:
    """Weighted majority; with `losses` Hedge, where the label token tells the losses of the labels."""
    variant = program.name.rpartition(" ")[2]
    logs: Tree = ["*", ["'", "expert.I"], "context.S"]
    told: Tree = ["*", ["'", "expert.P"], "label.Y"]
    lost = told if losses else ["-", ["fill", "1", n, 1], told]
    values = {"e": [[sp.log(sp.sympify(factor))]]}
    share: Tree = ["softmax", logs]
    if FOREIGN[variant]:
        values["leak"] = [[sp.log(FOREIGN[variant]) + _public(program, "log d")]]
        share = ["part", ["softmax", ["rows", logs, "leak"]], 0, n, 0, 1]
    after = {
        "label.S": ["+", "context.S", ["*", "expert.I", ["*", "e", lost]]],
        f"{ASKS[variant]}.O": ["*", "expert.P", share],
    }
    return Stated(values, after, [orthonormal("expert.I", n)])


def _public(program: Program, name: str) -> Any:
    """The one entry of a public matrix."""
    entries = [x.rows(1, 1)[0][0] for layer in program.layers for x in publics_in(layer) if x.name == name]
    if not entries:
        raise Unrecorded
    return entries[0]


def sharing(built: Construction, task: Any) -> Stated:
    """Fixed-Share."""
    n, share = task.n, -_public(built.program, "-a")
    w: Tree = ["*", ["'", "expert.I"], "context.S"]
    lost = ["-", ["fill", "1", n, 1], ["*", ["'", "expert.P"], "label.Y"]]
    v = ["-", w, ["*", "eps", ["o", w, lost]]]
    total = ["*", ["fill", "1", n, n], v]
    state = ["*", "expert.I", ["+", ["*", "kept", v], ["*", "each", total]]]
    values = {"eps": [[task.eps]], "kept": [[1 - share]], "each": [[share / n]]}
    return Stated(values, {"label.S": state, "query.O": ["*", "expert.P", w]}, [orthonormal("expert.I", n)])


State = Callable[[Construction, Any], Stated]
"""(construction, task) -> what its rounds have to leave."""


def with_rounds(prove: Callable[[Sequence[Instance]], Finding], stated: State) -> Callable[[Any], Finding]:
    """The same decision; where it is proved, with the records of one run of each program, that of most tokens."""

    def decide(instances: Sequence[Instance]) -> Finding:
        finding = prove(instances)
        if finding.verdict is not Verdict.PROVED:
            return finding
        ordered = sorted(instances, key=lambda x: (_tokens(x), x.construction.sizes["d"]))
        largest = {x.construction.program.name: x for x in ordered}
        for x in largest.values():
            finding = with_record(finding, partial(_stated_rounds, x, stated))
        return finding

    return decide


def _stated_rounds(instance: Instance, stated: State) -> Record:
    return rounds_record(instance, stated(instance.construction, instance.task))


def with_record(finding: Finding, make: Callable[[], Record]) -> Finding:
    """A finding with one record more, if it is proved and there is one: a changed program may have none."""
    if finding.verdict is not Verdict.PROVED:
        return finding
    try:
        return replace(finding, records=(*finding.records, make()))
    except Unrecorded:
        return finding


def _tokens(instance: Instance) -> int:
    return sum(instance.construction.encode(instance.task, Logarithms()).counts.values())


def rounds_record(instance: Instance, stated: Stated, rounds: int = ROUNDS) -> Record:
    """The first rounds of a run.

    Raises:
        Unrecorded: the program has no document.
    """
    built, task = instance.construction, instance.task
    assert isinstance(built, OnlineConstruction)
    assert built.round is not None
    arithmetic = Logarithms()
    context = built.round.begin(task, arithmetic)
    total = built.round.count(task)
    tokens = [built.round.enter(task, t, context, arithmetic) for t in range(min(rounds, total))]
    embedding = [[1] * tokens[0].counts["context"]]
    if built.round.embedding is not None:
        embedding = built.round.embedding(arithmetic).tolist()
    feedback = built.round.fed, built.round.flag, embedding
    return {
        **tokens_record(built.program, tokens, feedback, stated),
        "part": f"{built.program.name}, {task.name}, {len(tokens)} of {total} rounds",
    }


def outside_record(instance: Instance, difference: Mapping[str, Any]) -> Record:
    """The first round of a run that is not Q-learning: what it leaves, and the entry of the table where it differs."""
    built, task = instance.construction, instance.task
    learned, after = greedy(built, task), last(built.program.steps(built.encode(task, RATIONALS), RATIONALS))
    fields = built.program.layout.widths
    left = {f"out.{field}": after.read("out", field, width, RATIONALS) for field, width in fields.items()}
    row, column = difference["row"], difference["column"]
    place = row, row + 1, column, column + 1
    sides = {"left": ["part", "out.row left", *place], "right": ["part", learned.after["out.row"], *place]}
    values = {**learned.values, **{f"{name} left": matrix.tolist() for name, matrix in left.items()}}
    facts = [*learned.facts, {"name": "not Q-learning", "relation": "!=", **sides}]
    return rounds_record(instance, Stated(values, {name: f"{name} left" for name in left}, facts), 1)


def tokens_record(program: Program, rounds: Sequence[Tokens], feedback: tuple[str, str, Any], stated: Stated) -> Record:
    """Rounds on these tokens; the context of the first one is given, later ones are fed.

    Args:
        program: with numbers for public constants.
        rounds: the tokens of each, in formal logarithms.
        feedback: the kind that is fed back, the field of its embedding, and that, shape (width, tokens).
        stated: what each has to leave.

    Raises:
        Unrecorded: the program has no document.
    """
    kind, flag, embedding = feedback
    widths, counts = dict(program.layout.widths), dict(rounds[0].counts)
    return {
        "kind": "rounds",
        "widths": widths,
        "counts": counts,
        "program": program_document(program.layers, widths, counts),
        "rounds": [_blocks(x, fed=t > 0) for t, x in enumerate(rounds)],
        "feedback": [kind, "context", flag, [[formal(x) for x in row] for row in embedding]],
        **plain(kind),
        **stated.document(),
    }


def plain(kind: str) -> Record:
    """What records of rounds share: nothing is read but blocks, of which those of one kind are zero unless named."""
    return {"kinds": [kind], "read": None, "algorithm": "", "counted": False}


def _blocks(tokens: Tokens, *, fed: bool) -> Record:
    """The blocks of a round that are not zero; without the context where it is fed."""
    blocks = {
        f"{kind}.{field}": numbers(array)
        for (kind, field), array in sorted(tokens.blocks.items())
        if not (fed and kind == "context")
    }
    return {name: rows for name, rows in blocks.items() if any(x != "0" for row in rows for x in row)}
