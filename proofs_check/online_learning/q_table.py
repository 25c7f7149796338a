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
from typing import Any

import sympy as sp

from constructions.errors import Unsupported
from constructions.normalised_attention import Part
from constructions.online_learning.action_values import Rates
from constructions.online_learning.experts import one_hot_basis
from constructions.online_learning.maximum import levels, width_after
from constructions.online_learning.q_learning import EXACT, program, round_tokens
from constructions.online_learning.transitions import ControlTask
from constructions.program import Program
from constructions.tokens import Tokens

from ..claim import Finding, Verdict
from ..instances import Instance
from ..mutants import Mutant, program_mutants
from ..mutation import instance_mutants
from ..words import Rule, Words, identity, is_ones, letter, ones_row, rule, zero
from .chambers import ALPHA, BOUND, DISCOUNT, GATE
from .q_round import QCase, refuted_at_points
from .round_words import ONE, RoundWords, ones, prove_in_words
from .sizes import at_sizes

S, A, D, E = sp.symbols("S A d d_a", integer=True, positive=True)
BETA, EPS = sp.symbols("beta eps", positive=True)
TREES = (1, 2, 3, 4, 5, 6)
"""The numbers of actions at which the tree of pairs is read."""


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
    """

    variant: str
    program: Program
    actions: Any = A
    worth: Callable[[Words, QWords], Words] | None = None
    following: Callable[[QWords], dict[str, Words]] = lambda words: {}
    scores: Callable[[Words, QWords], Words] = lambda values, words: biased(values, words)
    instance: tuple[Callable[[], Instance], Callable[[Sequence[Instance]], Finding]] | None = None

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


class QWords(RoundWords):
    """Words in which the names of the actions are orthonormal and the public matrices are spelt out.

    Attributes:
        leading: scores of which the largest is positive, by |Q| < B.
    """

    leading: Words

    def __init__(self, actions: Any) -> None:
        self.actions = actions
        self.V, self.U = letter("V", E, actions), letter("U", D, S)
        self.rules: list[Rule] = [*rule(self.V.T @ self.V, identity(actions)), *rule(self.U.T @ self.U, identity(S))]
        self.any_action = ones_row(actions) @ self.V.T if actions != 1 else self.V.T

    def matrix(self, rows: Any, shape: Any = None) -> Words:
        """The number one, the only matrix that a round has besides its letters."""
        if rows != [[1]]:
            raise Unsupported(f"{self.name}: no word for the matrix {rows}")
        return ONE

    def symbol(self, name: str, rows: Any, columns: Any) -> Words:
        """A public matrix in these letters."""
        spelt = {
            "1'V'": self.any_action,
            "B 1'V'": self.times(self.any_action, BOUND),
            "V'": self.V.T,
            "U'": self.U.T,
            "Pi": self.V @ swapped(self.actions) @ self.V.T,
        }
        spelt |= {f"{-2 * GATE} 1'V'": self.times(ones(S) @ self.any_action, -2 * GATE)}
        if name in spelt:
            return spelt[name]
        factors = {"g I": DISCOUNT, "beta I": BETA, "2B I": 2 * BOUND}
        if name in factors:
            return self.times(identity(rows), factors[name])
        if name == "ones":
            return ones(rows) @ ones(columns).T
        if name.endswith(" V'"):
            return letter(name.removesuffix(" V'"), rows, self.actions) @ self.V.T
        return letter(name, rows, columns)

    def matmul(self, a: Words, b: Words) -> Words:
        return self.normal(a @ b)

    def masked(self, part: Part) -> Words:
        """A multiple of the identity is diagonal, and a causal mask leaves it."""
        scores = self.normal(part.scores or zero(part.sources, part.targets))
        if all(word == () for word in scores.terms):
            return scores
        raise Unsupported(f"{self.name}: the words {scores} under the mask of {part.route}")

    def distribution(self, kind: str, parts: Sequence[Part]) -> list[Words]:
        """A letter a part; under hardmax nothing for scores of zero where some score is sure to be positive."""
        scores = [self.normal(part.scores or zero(part.sources, part.targets)) for part in parts]
        live = [i for i, score in enumerate(scores) if score.terms]
        masks = [_relation(part) for part in parts]
        if kind == "hardmax" and live and not any(masks[i] for i in live):
            winning = self._winning([scores[i] for i in live], parts[0].targets)
            if winning is not None:
                weights = dict(zip(live, winning, strict=True))
                return [weights.get(i, zero(part.sources, part.targets)) for i, part in enumerate(parts)]
        return [share(kind, scores, i, part.targets, masks) for i, part in enumerate(parts)]

    def _winning(self, scores: Sequence[Words], targets: Any) -> list[Words] | None:
        """The hardmax weights of some parts, if one of their scores is positive for each target; None if unknown."""
        if list(scores) == [self.leading]:
            return [picked(self)]
        if any(score.rows != 1 or not _positive_ones(score) for score in scores):
            return None
        if len(scores) == 1:
            return [ones(targets).T]
        return [share("hardmax", scores, i, targets) for i in range(len(scores))]

    def relu(self, a: Words) -> Words:
        a = self.normal(a)
        if all(_sign(c) > 0 and all(x.name in BITS or is_ones(x) for x, _ in word) for word, c in a.terms.items()):
            return a
        gated = {word: c for word, c in a.terms.items() if sp.sympify(c).has(GATE)}
        if gated:
            return self._gate(a, Words(a.rows, a.columns, gated))
        return self.times(a + self.absolute(a, "|{}|"), sp.Rational(1, 2))

    def _gate(self, a: Words, gated: Words) -> Words:
        """(c g x + s)/2, where s is the same for x and -x: the lemma."""
        c, g = letter("e", S, 1), letter("a", self.actions, 1)
        wanted = c @ ones(self.actions).T + ones(S) @ g.T + self.times(ones(S) @ ones(self.actions).T, -2)
        x = self.normal(a - gated)
        if self.normal(gated - self.times(wanted, GATE)).terms or not all(self._constant(word) for word in x.terms):
            raise Unsupported(f"{self.name}: no lemma for relu({a})")
        start, stop = len(next(iter(ones(S).terms))), len(next(iter(ones(self.actions).terms)))
        inside = Words(1, 1, {word[start : len(word) - stop]: k for word, k in x.terms.items()})
        return self.times(c @ inside @ g.T + self.absolute(x, "gate({})"), sp.Rational(1, 2))

    def _constant(self, word: Any) -> bool:
        """Whether a word is 1 x 1', the same number in every entry."""
        (first,), (last,) = ones(S).terms, ones(self.actions).T.terms
        return word[: len(first)] == first and word[len(word) - len(last) :] == last


def swapped(actions: Any) -> Words:
    """The permutation that swaps two tables of which each has half of the actions."""
    return letter("sigma", actions, actions, symmetric=True)


BITS = ("e", "e+", "a")
"""One-hot letters."""


def _sign(c: Any) -> int:
    """1 for a coefficient that is positive whatever its symbols are, else 0."""
    return int(sp.sympify(c).is_positive is True)


def share(kind: str, scores: Sequence[Words], place: int, targets: Any, masks: Sequence[str] = ()) -> Words:
    """The weights of one part of a distribution: a letter named after all scores, with their masks."""
    texts = [f"{score}{mask}" for score, mask in zip(scores, masks or [""] * len(scores), strict=True)]
    return letter(f"{kind}({'; '.join(texts)})[{place + 1}]", scores[place].rows, targets)


def _relation(part: Part) -> str:
    """The mask of a part of which some targets do not see all."""
    if (part.sources, part.targets) == (1, 1) or not (part.route.same or part.route.causal):
        return ""
    return " ->" if part.route.same else " >>"


def _positive_ones(score: Words) -> bool:
    (word, c), *others = score.terms.items()
    return not others and _sign(c) > 0 and word in (next(iter(ones(score.columns).T.terms)), ())


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


def largest(values: Words, words: QWords) -> Words:
    """h'W'f+, h the hardmax distribution of N over the context."""
    return picked(words).T @ values


def picked(words: QWords) -> Words:
    """The hardmax distribution of N over the context."""
    return share("hardmax", [words.leading], 0, 1)


def biased(values: Words, words: QWords) -> Words:
    """W'f+ + B 1, all positive."""
    return values + words.times(ones(words.actions), BOUND)


def soft_mean(values: Words, words: QWords) -> Words:
    """The mean of W'f+ under softmax(beta W'f+)."""
    return share("softmax", [words.times(values, BETA)], 0, 1).T @ values


def tree_of_pairs(values: Words, actions: int, words: QWords) -> Words:
    """max by pairs, y + relu(x - y), in the letters of the built levels."""
    for level in range(1, levels(actions) + 1):
        count, left = width_after(actions, level - 1), width_after(actions, level)
        kept = words.symbol(f"second of pairs {level}", left, count) @ values
        if count > 1:
            gaps = words.symbol(f"gaps {level}", count // 2, count) @ values
            kept = kept + words.symbol(f"to pairs {level}", left, count // 2) @ words.relu(gaps)
        values = words.normal(kept)
    return values


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
    return prove_in_words(case.name, case.program, tokens_of(case, words), targets, words, shown)


def refuted_when_small(case: QTableCase) -> Finding | None:
    """The same layers at small sizes: a point of a chamber there, or a run, may refute a change."""
    if case.instance is not None:
        make, decide = case.instance
        instance = make()
        built = instance.construction
        changed = at_sizes(case.program, built.program, run_values(instance))
        finding = decide([Instance(replace(built, program=changed), instance.task)])
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
