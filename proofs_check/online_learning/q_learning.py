"""online.q-learning: rounds in all chambers, all sizes by token types, long runs, the domain, the temperature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from constructions.online_learning.experts import Basis, householder_basis, one_hot_basis
from constructions.online_learning.q_learning import ASSUMPTIONS, CAUSAL, DOMAIN, EXACT, FEEDBACK, GATE, THEOREM
from constructions.online_learning.transitions import ControlTask

from ..claim import Assurance, Claim, Finding, Verdict
from ..instances import NAMED, Instance, InstanceSource, differ, prove_instances
from ..mutants import Mutant
from .chambers import Chamber
from .q_round import QCase, prove_rounds, round_mutants
from .q_table import prove_table, run_mutants, table_cases, table_mutants
from .round_records import greedy, outside_record, with_rounds
from .temperature import Temperature, prove_gap, prove_within, temperature_mutants

MAXIMUM = "the uniform average of the largest values is the largest; max(x, y) = y + relu(x - y)"
LEMMAS = "x exp(-x) <= 1/e; an entropy of A outcomes is at most ln A; max and softmax means are monotone in the shift"


def _cases(bases: Sequence[tuple[Basis, Basis]], variants: Sequence[str] = EXACT) -> Callable[[], list[QCase]]:
    return lambda: [QCase(variant, *pair) for variant in variants for pair in bases]


def _unit(states: int, actions: int) -> tuple[Basis, Basis]:
    return one_hot_basis(states), one_hot_basis(actions)


ROTATED = (householder_basis([1, 2, 3], 2), householder_basis([2, 1, 1], 2))


def _corner(chamber: Chamber) -> bool:
    """First state; any successor but those that only rename states; first and last action."""
    return chamber.state == 0 and chamber.successor in (-1, 0, 1) and chamber.action in (0, 3)


def prove_outside(instances: Sequence[Instance]) -> Finding:
    """Outside of the domain: every instance is a counterexample to "the program is Q-learning"."""
    lines, records = [], {}
    for instance in instances:
        difference = differ(instance)
        where = {"program": instance.construction.program.name, "task": instance.task.name}
        if difference is None:
            return Finding(Verdict.REFUTED, {**where, "found": "Q-learning", "expected": "a difference"})
        lines.append({**where, **{key: difference[key] for key in ("block", "found", "expected")}})
        if difference["block"] == "table":
            records[instance.construction.program.name] = outside_record(instance, difference)
    return Finding(Verdict.PROVED, {"counterexamples": lines}, tuple(records.values()))


def inside(instances: Sequence[Instance], within: Callable[[str, ControlTask], Instance]) -> Iterator[Mutant]:
    """The same runs with B = R/(1 - g) + 1."""
    for i, instance in enumerate(instances):
        assert isinstance(instance.task, ControlTask)
        name = instance.construction.program.name
        changed = within(name.rpartition(" ")[2], instance.task)
        yield Mutant("constant", f"{name}, run {i + 1}: B = R/(1 - g) + 1", [changed])


def claims(
    runs: InstanceSource,
    long_runs: InstanceSource,
    outside: InstanceSource,
    within: Callable[[str, ControlTask], Instance],
    soft_runs: InstanceSource,
) -> list[Claim]:
    """The claims of online.q-learning.

    Args:
        runs: whole runs of every realisation.
        long_runs: 1,000 rounds.
        outside: runs in which B is too small.
        within: the run of a realisation on a task with B as stated.
        soft_runs: runs of `softmax`.
    """
    assumptions = (*ASSUMPTIONS, DOMAIN, GATE, MAXIMUM)
    claim = partial(Claim, THEOREM, assumptions=assumptions)
    rounds = partial(
        claim,
        statement="from any table with |Q| < B: Q(s, a) grows by alpha delta, logits Q(s, .), every other field zero",
        assurance=Assurance.EXACT,
        prove=prove_rounds,
        mutants=round_mutants,
    )
    whole = partial(
        claim,
        statement="tables, greedy logits and clean fields equal Q-learning in every round, exactly",
        assurance=Assurance.EXACT,
        prove=with_rounds(prove_instances, greedy),
        mutants=run_mutants,
    )
    soft = (CAUSAL, FEEDBACK, ASSUMPTIONS[2], LEMMAS, "N sees the context alone in the softmax head")
    every = "every table, alpha, g, r, B, D; all tie chambers"
    return [
        claim(
            name="token-table",
            statement="a round: W + alpha f (r + g h'W'f+ - f'W a) a', logits V W'f, else 0; h largest of W'f+",
            scope="all |S|, |A|, widths, f, f+ and W (table: f = U e, W = U Q); relu_tree at |A| = 1..6",
            assurance=Assurance.INDUCTIVE,
            build=table_cases,
            prove=prove_table,
            mutants=table_mutants,
        ),
        rounds(
            name="chambers",
            scope=f"(|S|, |A|) = (2, 2) in unit and rotated bases, (2, 3); {every}",
            build=_cases([_unit(2, 2), ROTATED, _unit(2, 3)]),
        ),
        rounds(name="chambers-3", scope=f"(3, 3); {every}", build=_cases([_unit(3, 3)]), quick=False),
        rounds(
            name="chambers-4",
            scope=f"(4, 4), of relu_tree where s = 0, s' = 0, 1 or terminal, a = 0, 3; {every}",
            build=lambda: [
                *(QCase(variant, *_unit(4, 4)) for variant in EXACT if variant != "relu_tree"),
                QCase("relu_tree", *_unit(4, 4), places=_corner),
            ],
            quick=False,
        ),
        whole(name="runs", scope=NAMED, build=runs),
        whole(name="runs-1000", scope=f"{NAMED}: 1,000 rounds at alpha = 1/8, g = 7/8", build=long_runs, quick=False),
        claim(
            name="domain",
            statement="with B = 0 and Q(s', .) < 0, or with Q(s', .) = -B, the hardmax realisations are not Q-learning",
            scope=NAMED,
            assurance=Assurance.EXACT,
            build=outside,
            prove=prove_outside,
            mutants=partial(inside, within=within),
        ),
        Claim(
            THEOREM,
            "temperature",
            "0 <= max - sum softmax(beta Q) Q <= e = min(ln A, (A - 1)/e)/beta; tables within g e/(1 - g)",
            "all A, beta, alpha, g and tables; the identity with the entropy at A = 1..4",
            Assurance.BOUNDED,
            soft,
            Temperature,
            prove_gap,
            mutants=temperature_mutants,
        ),
        Claim(
            THEOREM,
            "softmax-runs",
            "in balls, the table of softmax is below Q-learning's by at most the accumulated bound; clean holds 0",
            NAMED,
            Assurance.ENCLOSED,
            soft,
            soft_runs,
            prove_within,
            mutants=run_mutants,
        ),
    ]
