"""Catalogue rows on control in the latent context: Q-learning and its relatives."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from constructions.online_learning import double_q, expected_sarsa, linear_q, q_learning, sarsa
from constructions.online_learning.action_values import Rates, rates_for
from constructions.online_learning.experts import cayley_basis, householder_basis
from constructions.online_learning.transitions import ControlTask
from numerics import control_tasks
from numerics.control_tasks import random_control
from proofs_check.claim import Claim
from proofs_check.instances import Instance
from proofs_check.online_learning import control
from proofs_check.online_learning import q_learning as q_learning_proofs

from ..row import Options, Row, Shown, measured_by

R = 2
"""The bound on the rewards of the tasks drawn here."""
FEATURES = ((1, 2), (0, 1), (Fraction(1, 2), -1), (1, 0))


def rotated(task: ControlTask, actions: int | None = None) -> Rates:
    """The constants of a task over rotated bases: a reflection for the states, a Cayley transform for the actions."""
    A = actions or task.actions
    upper = [[(3 * i + 5 * j) % 7 - 3 for j in range(i + 1, A)] for i in range(A - 1)]
    states = householder_basis(range(1, task.states + 2), task.states)
    names = cayley_basis(upper)
    return rates_for(task.states, A, task.alpha, task.discount, task.bound, basis=states, names=names)


def plain(task: ControlTask, actions: int | None = None, **options: Any) -> Rates:
    """The constants of a task over unit vectors."""
    return rates_for(task.states, actions or task.actions, task.alpha, task.discount, task.bound, **options)


def _run(variant: str, task: ControlTask) -> Instance:
    return Instance(q_learning.construction(variant, plain(task), R), task)


def _outside(seed: int) -> list[Instance]:
    """B = 0 with all values negative; and B = R/(1 - g) with all values -B."""
    negative = random_control(2, 2, 1, seed=seed, start=False, terminal=False)
    table = tuple((-Fraction(b + 1, 2), -Fraction(b + 2, 3)) for b in range(2))
    low = tuple((-negative.largest,) * 2 for _ in range(2))
    cases = [(table, Fraction(0)), (low, negative.largest)]
    out = []
    for start, B in cases:
        task = ControlTask(
            negative.transitions, 2, 2, negative.alpha, negative.discount, negative.bound, start, negative.name
        )
        for variant in ("four_layer", "three_layer", "relu_gated"):
            out.append(Instance(q_learning.construction(variant, plain(task, B=B), R), task))
    return out


def _q_learning_claims(options: Options) -> list[Claim]:
    seed = options.seed
    small = control_tasks.cases([(2, 2, 6), (3, 3, 12), (4, 1, 5), (3, 5, 12)], seed)
    long = [random_control(3, 2, 1000, seed=seed)]
    soft = control_tasks.cases([(2, 2, 10), (3, 4, 30)], seed, start=False)
    return q_learning_proofs.claims(
        lambda: [
            Instance(q_learning.construction(variant, rates(task), R), task)
            for task in small
            for variant in q_learning.EXACT
            for rates in (plain, rotated)
        ],
        lambda: [_run("four_layer", task) for task in long],
        lambda: _outside(seed),
        _run,
        lambda: [
            Instance(q_learning.construction("softmax", plain(task, beta=beta), R), task)
            for task in soft
            for beta in (1, 8, 64)
        ],
    )


def _sized(n: int, actions: int) -> Rates:
    return rates_for(n, actions, "1/8", "7/8", R)


def _counts(actions: int) -> dict[str, int]:
    return {kind: actions if kind in ("context", "out") else 1 for kind in q_learning.KINDS}


def _sarsa_claims(options: Options) -> list[Claim]:
    tasks = control_tasks.cases([(2, 2, 6), (3, 3, 12)], options.seed)
    return control.sarsa_claims(
        lambda: [Instance(sarsa.construction(rates(task), R), task) for task in tasks for rates in (plain, rotated)]
    )


def _expected_sarsa_claims(options: Options) -> list[Claim]:
    tasks = control_tasks.cases([(2, 2, 6), (3, 3, 12)], options.seed)
    build = expected_sarsa.construction
    return control.expected_sarsa_claims(
        lambda: [Instance(build("eps_greedy", rates(t), R, "1/10"), t) for t in tasks for rates in (plain, rotated)],
        lambda: [Instance(build("boltzmann", plain(t, beta=beta), R), t) for t in tasks for beta in (1, 8)],
    )


def _double_q_claims(options: Options) -> list[Claim]:
    tasks = [control_tasks.doubled(task, options.seed) for task in control_tasks.cases([(2, 2, 8), (3, 3, 16)], 1)]
    return control.double_q_claims(
        lambda: [
            Instance(double_q.construction(rates, R), task)
            for task in tasks
            for rates in (rotated(task, 2 * task.actions), plain(task, 2 * task.actions))
        ]
    )


def _linear_q_claims(options: Options) -> list[Claim]:
    tasks = [random_control(4, A, T, seed=options.seed) for A, T in ((2, 8), (3, 20))]
    return control.linear_q_claims(
        lambda: [
            Instance(
                linear_q.construction(v, linear_q.featured_rates(FEATURES, t.actions, t.alpha, t.discount, 64), R), t
            )
            for t in tasks
            for v in linear_q.VARIANTS
        ]
    )


def _show_q_learning(n: int, actions: int) -> Shown:
    return Shown(q_learning.construction("four_layer", _sized(n, actions), R), _counts(actions))


def _show_sarsa(n: int, actions: int) -> Shown:
    return Shown(sarsa.construction(_sized(n, actions), R), _counts(actions))


def _show_expected_sarsa(n: int, actions: int) -> Shown:
    return Shown(expected_sarsa.construction("eps_greedy", _sized(n, actions), R), _counts(actions))


def _show_double_q(n: int, actions: int) -> Shown:
    return Shown(double_q.construction(_sized(n, 2 * actions), R), _counts(2 * actions))


def _show_linear_q(n: int, actions: int) -> Shown:
    features: Sequence[Sequence[int]] = [[1, s] for s in range(n)]
    rates = linear_q.featured_rates(features, actions, "1/8", "7/8", 64)
    return Shown(linear_q.construction("four_layer", rates, R), _counts(actions))


def _row(theorem: str, source: str, title: str, docs: str, **given: Any) -> Row:
    """A row whose construction is shown for n states and two actions, or as many as asked for."""
    shown = given["show_actions"]
    return Row(theorem, title, source, docs, lambda n, depth: shown(n, 2), **given)


ROWS = [
    _row(
        q_learning.THEOREM,
        q_learning.SOURCE,
        "Q-learning with its whole table in |A| latent context tokens, in four exact realisations and a softmax one",
        "row_a = sum_s Q(s, a) u_s over any orthonormal bases. Attention alone in four layers (9 heads) or three (8"
        " heads); two blocks whose ReLU units multiply by bits; a tree of pairwise maxima without hard attention. All"
        " branches of a round are decided in polynomials, one chamber of ties after another; all sizes by types of"
        " tokens; 1,000 exact rounds. Hardmax needs |Q| < B: B = 0 is refuted by a counterexample. softmax(beta) in"
        " place of hardmax is off by at most min(ln A, (A - 1)/e)/beta a round, g/(1 - g) times that in all rounds."
        " verify reproduce softmax-temperature, online-environments.",
        claims=_q_learning_claims,
        measure=measured_by("online_learning.q_learning"),
        show_actions=_show_q_learning,
    ),
    _row(
        sarsa.THEOREM,
        sarsa.SOURCE,
        "SARSA in the latent context: row selection in place of hardmax",
        "The four layers of online.q-learning; the head that looks for the largest value selects the row of the next"
        " action. No bound on Q is needed.",
        claims=_sarsa_claims,
        show_actions=_show_sarsa,
    ),
    _row(
        expected_sarsa.THEOREM,
        expected_sarsa.SOURCE,
        "Expected SARSA in the latent context: eps-greedy exact, Boltzmann enclosed",
        "eps-greedy: hardmax moves 1 - eps of the row, a linear head eps/A of every row. Boltzmann: the softmax head of"
        " online.q-learning, which is here no approximation; runs are enclosed in balls.",
        claims=_expected_sarsa_claims,
        show_actions=_show_expected_sarsa,
    ),
    _row(
        double_q.THEOREM,
        double_q.SOURCE,
        "Double Q-learning in the latent context, ties averaged",
        "Two tables are one with 2A actions. Hardmax among the actions of the table that is changed picks their names,"
        " the swapped pick scores the values of the other: the mean over the actions of largest value is the tie rule."
        " All sizes by types of tokens.",
        claims=_double_q_claims,
        show_actions=_show_double_q,
    ),
    _row(
        linear_q.THEOREM,
        linear_q.SOURCE,
        "Q-learning with linear features in the latent context: the same matrices",
        "Features take the place of the orthonormal vectors of the states, weights that of the table; the layers of"
        " online.q-learning are unchanged (four_layer, three_layer, relu_tree).",
        claims=_linear_q_claims,
        show_actions=_show_linear_q,
    ),
]
"""In catalogue order."""
