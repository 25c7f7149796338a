"""A round of Q-learning for every |S|, |A| and width at once: scores and values per pair of token types.

The layers are read at symbolic sizes. The context's rows are any W, the action's names V with V'V = I; s and s' have
any vectors f and f+ (linear features; tabular where f = U e_s, W = U Q). Scores are then words in inner products:
W'f+ + B 1 at N for the context, 1' for BOS and 0 for all else at the output tokens, V'V = I between names. It gives

    W + alpha f (r + g h'W'f+ - f'W a) a',        logits V W'f, and zero in every other field,

h being the distribution of N's scores over the context. It is uniform over the actions of largest value where
Q(s', .) + B > 0, and then h'W'f+ = max_b Q(s', b). In `relu_tree` max is the tree of pairs, letter by letter, for
each A; `relu_gated` needs bits, so f = U e, and the lemma

    relu(x - D(2 - c - g)) - relu(-x - D(2 - c - g)) = c g x     for bits c, g and |x| <= D:

both vanish unless c = g = 1, where the difference is x. A ReLU of unknown sign is (x + |x|)/2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import sympy as sp

from constructions.online_learning import linear_q
from constructions.online_learning.action_values import Rates
from constructions.online_learning.experts import one_hot_basis
from constructions.online_learning.q_learning import EXACT, program, round_tokens
from constructions.online_learning.transitions import ControlTask, Transition
from constructions.program import Program
from constructions.tokens import Tokens

from ..claim import Finding, Verdict
from ..instances import Instance
from ..mutants import Mutant, program_mutants
from ..mutation import instance_mutants
from ..records import Record, Unrecorded, word_blocks, words_record
from ..words import Words, letter, normal_form, rule, zero
from .chambers import ALPHA, BOUND, DISCOUNT, GATE
from .q_round import QCase, refuted_at_points
from .q_words import BETA, EPS, A, D, E, QWords, S, biased, largest, soft_mean, tree_of_pairs
from .round_records import State, greedy, rounds_record, with_record
from .round_words import ONE, prove_in_words, spelt
from .sizes import at_sizes

TREES = (1, 2, 3, 4, 5, 6)
"""The numbers of actions at which the tree of pairs is read."""


RATES = Fraction(1, 8), Fraction(7, 8), Fraction(2)
"""alpha, g, R of a recorded run."""
POINTS = 36
"""Points at two states where a changed program is run before words are compared."""


@dataclass(frozen=True)
class QTableCase:
    """A realisation at symbolic sizes.

    Attributes:
        actions: |A|, a number where the program depends on it.
        scores: (W'f+, words) -> the context's scores at N under hardmax; the largest is positive where |Q| < B.
        worth: (W'f+, words) -> what s' is worth, of the algorithms other than Q-learning.
        following: the fields of N besides nxt.
        instance: a small run of it, on which a change is tried first, and how that is decided.
        stated: what the rounds of a run have to leave; None where that is not rational.
    """

    variant: str
    program: Program
    actions: Any = A
    worth: Callable[[Words, QWords], Words] | None = None
    following: Callable[[QWords], dict[str, Words]] = lambda words: {}
    scores: Callable[[Words, QWords], Words] = lambda values, words: biased(values, words)
    instance: tuple[Callable[[], Instance], Callable[[Sequence[Instance]], Finding]] | None = None
    stated: State | None = greedy

    @property
    def name(self) -> str:
        """For evidence."""
        return self.variant + ("" if self.actions is A else f", |A| = {self.actions}")


def symbolic_rates(actions: Any = A) -> Rates:
    """The public constants, none with entries."""
    return Rates(actions, D, E, ALPHA, DISCOUNT, BOUND, GATE, BETA, count=S)


def table_cases() -> list[QTableCase]:
    """Every realisation."""
    generic = [QTableCase(v, program(v, symbolic_rates())) for v in ("four_layer", "three_layer", "softmax")]
    gated = QTableCase("relu_gated", program("relu_gated", symbolic_rates()))
    return [*generic, gated, *(QTableCase("relu_tree", program("relu_tree", symbolic_rates(n)), n) for n in TREES)]


def features(case: QTableCase, words: QWords) -> tuple[Words, Words, Words]:
    """W, f, f+: any, or (where bits are needed) those of a table."""
    if case.variant != "relu_gated":
        return letter("W", D, case.actions), letter("f", D, 1), letter("f+", D, 1)
    return words.U @ letter("Q", S, case.actions), words.U @ letter("e", S, 1), words.U @ letter("e+", S, 1)


def expected(case: QTableCase, words: QWords) -> tuple[Words, Words]:
    """The rows after the round, and the logits in the basis of the actions."""
    W, f, following = features(case, words)
    a, r = letter("a", case.actions, 1), letter("r", 1, 1)
    values = words.normal(W.T @ following)
    if case.worth is not None:
        best = case.worth(values, words)
    elif case.variant == "relu_tree":
        best = tree_of_pairs(values, case.actions, words)
    elif case.variant == "softmax":
        best = soft_mean(values, words)
    else:
        best = largest(values, words)
    delta = r + words.times(best, DISCOUNT) - f.T @ W @ a
    return words.normal(W + words.times(f @ delta @ a.T, ALPHA)), words.normal(words.V @ W.T @ f)


def tokens_of(case: QTableCase, words: QWords) -> Tokens:
    """A round on generic tokens."""
    W, f, following = features(case, words)
    act, rew = words.V @ letter("a", case.actions, 1), letter("r", 1, 1)
    context = {"row": W, "idC": words.V}
    return round_tokens(words.V, f, act, rew, context, words, nxt=following, **case.following(words))


def prove_table(cases: Sequence[QTableCase]) -> Finding:
    """Rows, logits and clean fields for every size."""
    return Finding.all_of({case.name: prove_case(case) for case in cases})


def prove_case(case: QTableCase) -> Finding:
    """One realisation: refuted at small sizes, or proved in words."""
    small = refuted_when_small(case)
    if small is not None:
        return small
    words = QWords(case.actions)
    W, _, following = features(case, words)
    words.leading = words.normal(case.scores(words.normal(W.T @ following), words))
    rows, logits = expected(case, words)
    targets = {("out", field): zero(width, case.actions) for field, width in case.program.layout.widths.items()}
    targets |= {("out", "row"): rows, ("state", "qs"): logits}
    shown = case.variant != "relu_tree"
    recorded = partial(update, case, words)
    finding = prove_in_words(case.name, case.program, tokens_of(case, words), targets, words, shown, recorded)
    return with_record(finding, lambda: at_features(case))


def at_features(case: QTableCase) -> Record:
    """The record of the layers on a small run; of the realisations of Q-learning with features that are no basis.

    Raises:
        Unrecorded: exponentials of the values are no rational numbers, or bits are needed (`chambers` has these).
    """
    if case.instance is not None:
        instance = case.instance[0]()
    elif case.variant in linear_q.VARIANTS:
        actions = 3 if case.actions is A else case.actions
        moves = ((0, 0, 1, 1), (1, actions - 1, -2, 0), (0, actions // 2, 3, 0), (1, 0, 1, -1))
        transitions = tuple(Transition(s, a, Fraction(r, 2), then) for s, a, r, then in moves)
        task = replace(ControlTask(transitions, 2, actions, *RATES), name="four transitions")
        rates = linear_q.featured_rates(((1, 2, 0), (0, 1, -1)), actions, task.alpha, task.discount, 64)
        instance = Instance(linear_q.construction(case.variant, rates, task.bound), task)
    else:
        raise Unrecorded
    if case.stated is None:
        raise Unrecorded
    changed = on_instance(case, instance)
    return rounds_record(changed, case.stated(changed.construction, changed.task))


def on_instance(case: QTableCase, instance: Instance) -> Instance:
    """A run of the layers of the case at the sizes and constants of an instance."""
    built = instance.construction
    program = at_sizes(case.program, built.program, run_values(instance))
    return replace(instance, construction=replace(built, program=program))


def update(case: QTableCase, words: QWords, tokens: Tokens) -> tuple[Record, ...]:
    """Identities of the rows that the layers leave, W+: what is expected, and for f'f = a'a = 1 what becomes of f'W a.

    A column b with a'b = 0 and a row h with f'h = 0 stay. Nothing is recorded for sizes that are numbers, tables by
    bits, and coefficients that are no integers.
    """
    W, f, _ = features(case, words)
    found, stated = spelt(tokens.blocks["out", "row"]), spelt(expected(case, words)[0])
    if case.actions is not A or case.variant == "relu_gated" or found is None or stated is None:
        return ()
    a, b, h = letter("a", A, 1), letter("b", A, 1), letter("h", D, 1)
    rules = [*rule(f.T @ f, ONE), *rule(a.T @ a, ONE), *rule(a.T @ b, zero(1, 1)), *rule(f.T @ h, zero(1, 1))]
    identities = {
        "W+": (found, stated),
        "f'W+ a": (f.T @ found @ a, normal_form(f.T @ stated @ a, rules)),
        "W+ b": (found @ b, W @ b),
        "h'W+": (h.T @ found, h.T @ W),
    }
    return ({**words_record(identities, rules), "matrices": {"next": [word_blocks([found])]}},)


def refuted_when_small(case: QTableCase) -> Finding | None:
    """The same layers at small sizes: a point of a chamber there, or a run, may refute a change."""
    if case.instance is not None:
        make, decide = case.instance
        finding = decide([on_instance(case, make())])
    else:
        actions = 2 if case.actions is A else case.actions
        if case.variant not in EXACT or actions > 3:
            return None
        concrete = QCase(case.variant, one_hot_basis(2), one_hot_basis(actions))
        changed = at_sizes(case.program, concrete.built, {S: 2, A: actions, D: 2, E: actions})
        return refuted_at_points(concrete, changed, concrete.chambers(), POINTS)
    return finding if finding.verdict is Verdict.REFUTED else None


def run_values(instance: Instance) -> dict[Any, Any]:
    """Sizes, step size and discount of a run, by their symbols."""
    task, built = instance.task, instance.construction
    assert isinstance(task, ControlTask)
    # Over unit vectors a name has as many coordinates as there are names.
    names = built.program.layout.widths["idC"]
    numbers = {ALPHA: sp.Rational(str(task.alpha)), DISCOUNT: sp.Rational(str(task.discount))}
    return {S: built.sizes["n"], A: names, D: built.sizes["d"], E: names, EPS: sp.Rational(1, 10), **numbers}


def decisive(kind: str, text: str) -> bool:
    """No change that adds a route to a causal mask or bends one: most reach tokens that have nothing to say."""
    return kind != "route" or " without " in text


def run_mutants(instances: Sequence[Instance]) -> Iterator[Mutant]:
    """The decisive changes of the programs of whole runs, each program (and temperature) on its smallest task."""
    smallest: dict[Any, Instance] = {}
    for one in sorted(instances, key=lambda x: (x.task.size, x.construction.sizes["d"])):
        smallest.setdefault((one.construction.program.name, one.construction.sizes.get("beta")), one)
    return instance_mutants(list(smallest.values()), decisive)


def table_mutants(cases: Sequence[QTableCase]) -> Iterator[Mutant]:
    """Every single change of the layers of every realisation; of the trees, the one for two actions."""
    for case in cases:
        if case.actions in (A, 2) and case.variant != "softmax":
            for mutant in program_mutants(case.program, decisive):
                yield Mutant(mutant.kind, f"{case.name}: {mutant.text}", [replace(case, program=mutant.subject)])
