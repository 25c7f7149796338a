"""The relatives of Q-learning: SARSA, Expected SARSA, double Q-learning, linear features.

Each is its token table, for all sizes, with another word for what s' is worth, and whole runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from flint import arb, arb_mat, fmpq

from constructions.exact import Balls
from constructions.online_learning import double_q, expected_sarsa, linear_q, sarsa
from constructions.online_learning.action_values import Rates, rates_for
from constructions.online_learning.q_learning import DOMAIN, program
from constructions.online_learning.transitions import ControlTask, Transition

from ..claim import Assurance, Claim, Finding, Verdict
from ..instances import BITS, NAMED, Instance, InstanceSource, prove_instances, separated
from ..mutants import Mutant, program_mutants
from ..words import Words, letter
from . import round_records
from .chambers import BOUND
from .q_table import QTableCase, decisive, prove_table, run_mutants, symbolic_rates
from .q_words import EPS, A, QWords, largest, picked, soft_mean, swapped
from .round_words import ones

CLOSE = fmpq(1, 2**128)
"""Balls that hold a difference are narrower than this."""


SMALL = ControlTask(
    tuple(
        Transition(s, a, Fraction(r, 4), successor, then)
        for s, a, r, successor, then in ((0, 1, 3, 1, 0), (1, 0, -2, 0, 1), (0, 0, 1, -1, 0), (1, 1, 4, 1, 1))
    ),
    2,
    2,
    Fraction(1, 8),
    Fraction(7, 8),
    Fraction(1),
    ((Fraction(3), Fraction(-5, 2)), (Fraction(-1, 3), Fraction(-2))),
    "four transitions from a table without ties, negative in one state",
)
"""What a changed program is run on before words are compared."""


def _small() -> Rates:
    return rates_for(2, 2, SMALL.alpha, SMALL.discount, SMALL.bound)


def _name(words: QWords) -> Words:
    return letter("a+", words.actions, 1)


def sarsa_cases() -> list[QTableCase]:
    """N holds the name of the next action: s' is worth (W'f+)'a+."""
    built = sarsa.program(symbolic_rates())

    def following(words: QWords) -> dict[str, Words]:
        return {"then": words.V @ _name(words)}

    def run() -> Instance:
        return Instance(sarsa.construction(_small(), SMALL.bound), SMALL)

    def worth(values: Words, words: QWords) -> Words:
        return values.T @ _name(words)

    case = QTableCase("four_layer", built, A, worth, following, instance=(run, prove_instances))
    return [replace(case, stated=round_records.following)]


def expected_sarsa_cases() -> list[QTableCase]:
    """(1 - eps) of the largest value and eps of the mean; or the mean under softmax."""

    def mixed(values: Words, words: QWords) -> Words:
        mean = words.times(ones(A).T @ values, EPS / A)
        return words.times(largest(values, words), 1 - EPS) + mean

    greedy = expected_sarsa.program("eps_greedy", symbolic_rates(), EPS)
    boltzmann = expected_sarsa.program("boltzmann", symbolic_rates())

    def run(policy: str) -> Instance:
        return Instance(expected_sarsa.construction(policy, _small(), SMALL.bound, "1/10"), SMALL)

    return [
        QTableCase(
            "eps_greedy",
            greedy,
            A,
            mixed,
            instance=(lambda: run("eps_greedy"), prove_instances),
            stated=round_records.mixed,
        ),
        QTableCase(
            "boltzmann", boltzmann, A, soft_mean, instance=(lambda: run("boltzmann"), prove_overlap), stated=None
        ),
    ]


def double_q_cases() -> list[QTableCase]:
    """N holds the table that is asked, of which c has the places: s' is worth (W'f+)'sigma h."""
    built = double_q.program(symbolic_rates())

    def asked(words: QWords) -> Words:
        return letter("c", words.actions, 1)

    def scores(values: Words, words: QWords) -> Words:
        return values + words.times(asked(words), 2 * BOUND)

    def worth(values: Words, words: QWords) -> Words:
        return values.T @ swapped(words.actions) @ picked(words)

    def following(words: QWords) -> dict[str, Words]:
        return {"side": words.V @ asked(words)}

    def run() -> Instance:
        rates = rates_for(2, 4, SMALL.alpha, SMALL.discount, SMALL.bound)
        sides = tuple(replace(x, side=t % 2) for t, x in enumerate(SMALL.transitions))
        other = (Fraction(-2), Fraction(1)), (Fraction(-4), Fraction(5))
        table = tuple((*one, *two) for one, two in zip(SMALL.table, other, strict=True))
        return Instance(double_q.construction(rates, SMALL.bound), replace(SMALL, transitions=sides, table=table))

    instance = run, prove_instances
    return [QTableCase("four_layer", built, A, worth, following, scores, instance, round_records.doubled)]


def linear_q_cases() -> list[QTableCase]:
    """The layers of online.q-learning, on any features."""
    rates = symbolic_rates()
    generic = [QTableCase(variant, program(variant, rates)) for variant in ("four_layer", "three_layer")]
    return [*generic, QTableCase("relu_tree", program("relu_tree", symbolic_rates(3)), 3)]


def decisive_mutants(cases: Sequence[QTableCase]) -> Iterator[Mutant]:
    """Every single change of the layers."""
    for case in cases:
        for mutant in program_mutants(case.program, decisive):
            yield Mutant(mutant.kind, f"{case.name}: {mutant.text}", [replace(case, program=mutant.subject)])


def prove_overlap(instances: Sequence[Instance]) -> Finding:
    """In balls program and reference differ by less than 2^-128 everywhere; a ball that excludes 0 refutes."""
    lines = []
    for instance in instances:
        built, task = instance.construction, instance.task
        where = {"task": task.name, "program": built.program.name}
        with Balls(BITS).working() as balls:
            found, wanted = built.outputs(task, balls), built.reference(task, balls)
            apart = separated(found, wanted)
            place = apart or _wide(found - wanted)
            if place is not None:
                block, row = built.block_of(place[0])
                evidence = {**where, "block": block, "row": row}
                evidence |= {"found": str(found[place]), "expected": str(wanted[place])}
                missing = {} if apart else {"missing": "balls too wide"}
                return Finding(Verdict.REFUTED if apart else Verdict.UNDECIDED, evidence | missing)
        lines.append(where)
    return Finding(Verdict.PROVED, {"runs": lines, "differences": "less than 2^-128"})


def _wide(gaps: arb_mat) -> tuple[int, int] | None:
    """The first entry that may be as large as 2^-128."""
    for place, gap in enumerate(gaps.entries()):
        if not abs(gap) < arb(CLOSE):
            return divmod(place, gaps.ncols())
    return None


def _table(theorem: str, assumptions: tuple[str, ...], worth: str, build: object) -> Claim:
    return Claim(
        theorem,
        "token-table",
        f"a round: W + alpha f (r + g m - f'W a) a', logits V W'f, else zero; m = {worth}",
        "all |S|, |A|, widths, vectors f, f+ and weights W",
        Assurance.INDUCTIVE,
        assumptions,
        build,  # type: ignore[arg-type]
        prove_table,
        mutants=decisive_mutants,
    )


def _runs(
    theorem: str, assumptions: tuple[str, ...], build: InstanceSource, what: str, stated: round_records.State
) -> Claim:
    statement = f"tables, logits and clean fields equal {what} in every round, exactly"
    given = (statement, NAMED, Assurance.EXACT, assumptions, build, round_records.with_rounds(prove_instances, stated))
    return Claim(theorem, "runs", *given, mutants=run_mutants)


def sarsa_claims(runs: InstanceSource) -> list[Claim]:
    """The claims of online.sarsa."""
    claim = partial(_table, sarsa.THEOREM, sarsa.ASSUMPTIONS)
    return [
        claim("(W'f+)'a+", sarsa_cases),
        _runs(sarsa.THEOREM, sarsa.ASSUMPTIONS, runs, "SARSA", round_records.following),
    ]


def expected_sarsa_claims(runs: InstanceSource, boltzmann: InstanceSource) -> list[Claim]:
    """The claims of online.expected-sarsa."""
    theorem, assumptions = expected_sarsa.THEOREM, (*expected_sarsa.ASSUMPTIONS, DOMAIN)
    worth = "(1 - eps) max W'f+ + eps/A 1'W'f+, or the mean under softmax(beta W'f+)"
    return [
        _table(theorem, assumptions, worth, expected_sarsa_cases),
        _runs(theorem, assumptions, runs, "Expected SARSA under an eps-greedy policy", round_records.mixed),
        Claim(
            theorem,
            "boltzmann",
            "in balls, tables, logits and clean fields differ from Expected SARSA under softmax by less than 2^-128",
            NAMED,
            Assurance.ENCLOSED,
            expected_sarsa.ASSUMPTIONS,
            boltzmann,
            prove_overlap,
            mutants=run_mutants,
        ),
    ]


def double_q_claims(runs: InstanceSource) -> list[Claim]:
    """The claims of online.double-q."""
    theorem, assumptions = double_q.THEOREM, double_q.ASSUMPTIONS
    worth = "h' sigma W'f+, h the largest of W'f+ + 2B c, sigma the swap of the tables, c the one that is changed"
    return [
        _table(theorem, assumptions, worth, double_q_cases),
        _runs(theorem, assumptions, runs, "double Q-learning with its tie rule", round_records.doubled),
    ]


def linear_q_claims(runs: InstanceSource) -> list[Claim]:
    """The claims of online.linear-q."""
    theorem, assumptions = linear_q.THEOREM, (linear_q.CAUSAL, linear_q.FEEDBACK, linear_q.NAMES, linear_q.DOMAIN)
    return [
        _table(theorem, assumptions, "max W'f+", linear_q_cases),
        _runs(theorem, assumptions, runs, "Q-learning with linear features", round_records.greedy),
    ]
