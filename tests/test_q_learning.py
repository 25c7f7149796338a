"""Q-learning in the latent context: against plain loops, in chambers, at points, in floats and in environments."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as F

import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.dense import apply_heads, assemble, split
from constructions.errors import BadInput
from constructions.exact import RATIONALS, Balls
from constructions.normalised_attention import Score
from constructions.online_learning import double_q, expected_sarsa, linear_q, q_learning, sarsa
from constructions.online_learning.action_values import rates_for
from constructions.online_learning.experts import cayley_basis, householder_basis, one_hot_basis
from constructions.online_learning.rounds import hidden
from constructions.online_learning.softmax_gap import accumulated_bound, gap_bound
from constructions.online_learning.transitions import TERMINAL, ControlTask, Transition
from numerics.control_tasks import doubled, random_control
from numerics.online_learning.q_learning import built_for, measure_tables, residual_bound, scalar_tables, softmax_gap
from numerics.torch_arithmetic import TorchArithmetic
from proofs_check.claim import Verdict
from proofs_check.instances import Instance, prove_instances
from proofs_check.mutants import program_mutants
from proofs_check.mutation import mutants_of, sampled
from proofs_check.online_learning import chambers as rooms
from proofs_check.online_learning import control
from proofs_check.online_learning import q_table as table_room
from proofs_check.online_learning.chambers import (
    ALPHA,
    BOUND,
    DISCOUNT,
    GATE,
    chambers,
    top_sets,
    uncovered,
    weak_orders,
)
from proofs_check.online_learning.q_round import AtPoint, QCase, check_round, matrices_of, round_mutants
from proofs_check.online_learning.q_table import QTableCase, prove_case, symbolic_rates
from verify.catalogue import CATALOGUE
from verify.command_line import main
from verify.reproductions import REPRODUCTIONS
from verify.row import Options

STEP, G = F(1, 8), F(7, 8)


def columns(answer, rows: int) -> list[list[F]]:
    """The first rows of an exact answer as fractions."""
    return [[F(int(x.p), int(x.q)) for x in line] for line in answer.tolist()[:rows]]


def run_plainly(task: ControlTask, worth, column=lambda x: x.action, width=None) -> list[list[list[F]]]:
    """Tables after every round by a dictionary, independent of the references of the constructions."""
    A = width or task.actions
    Q = {(s, b): task.table[s][b] if task.table else F(0) for s in range(task.states) for b in range(A)}
    out = []
    for x in task.transitions:
        target = x.reward + (task.discount * worth(Q, x) if x.successor != TERMINAL else 0)
        Q[x.state, column(x)] += task.alpha * (target - Q[x.state, column(x)])
        out.append([[Q[s, b] for b in range(A)] for s in range(task.states)])
    return out


def side_by_side(tables: list[list[list[F]]]) -> list[list[F]]:
    return [[value for table in tables for value in table[s]] for s in range(len(tables[0]))]


def largest(Q, x) -> F:
    return max(value for (s, _), value in Q.items() if s == x.successor)


@st.composite
def control_tasks(draw) -> ControlTask:
    n, A = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    sixteenths = st.integers(-16, 16)
    step = st.builds(
        Transition,
        st.integers(0, n - 1),
        st.integers(0, A - 1),
        sixteenths.map(lambda x: F(x, 16)),
        st.integers(TERMINAL, n - 1),
    )
    steps = tuple(draw(st.lists(step, min_size=1, max_size=4)))
    # Few values, so that ties are common.
    table = tuple(tuple(F(draw(st.sampled_from([-8, -1, 0, 2]))) for _ in range(A)) for _ in range(n))
    return ControlTask(steps, n, A, draw(st.sampled_from([F(1), F(1, 3)])), G, F(1), table)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(control_tasks(), st.sampled_from(q_learning.EXACT))
def test_program_is_q_learning(task, variant):
    built = built_for(variant, task)
    answer = built.outputs(task, RATIONALS)
    assert columns(answer, task.states) == side_by_side(run_plainly(task, largest))
    assert not any(x for row in columns(answer, answer.nrows())[task.states + 1 :] for x in row)


@pytest.mark.parametrize("variant", q_learning.EXACT)
def test_rotated_bases_and_whole_matrices(variant):
    task = random_control(2, 3, 2, seed=3)
    rates = rates_for(2, 3, STEP, G, 2, basis=householder_basis([1, 2, 2], 2), names=cayley_basis([[1, 2], [3]]))
    built = q_learning.construction(variant, rates, 2)
    answer = built.outputs(task, RATIONALS)
    assert answer == built.reference(task, RATIONALS)
    assert answer == built.outputs(task, RATIONALS, faithful=True)
    U = RATIONALS.matrix(rates.U)
    table = columns(U.transpose() * RATIONALS.rows(answer, 0, rates.width), 2)
    assert table == side_by_side(run_plainly(task, largest))


def test_feedback_is_the_whole_hidden_vector_and_the_name():
    task = random_control(2, 2, 2, seed=1)
    built = built_for("four_layer", task)
    first, second = built.runs(task, RATIONALS)
    after = hidden(first[-1][1], "out", built.program.layout, RATIONALS)
    assert not any(x for field, block in after.items() if field != "row" for x in block.entries())
    again = built.fed_back(first[-1][1], RATIONALS)
    assert again["idC"] == RATIONALS.one_hot(range(2), 2)
    rows = second[0][1].read("context", "row", 2, RATIONALS)
    assert rows == after["row"]


def test_relatives_against_plain_loops():
    task = random_control(3, 3, 10, seed=5)
    rates = rates_for(3, 3, task.alpha, task.discount, 2)
    answer = sarsa.construction(rates, 2).outputs(task, RATIONALS)
    assert columns(answer, 3) == side_by_side(run_plainly(task, lambda Q, x: Q[x.successor, x.then]))

    def mixed(Q, x):
        values = [Q[x.successor, b] for b in range(3)]
        return F(9, 10) * max(values) + F(1, 30) * sum(values)

    answer = expected_sarsa.construction("eps_greedy", rates, 2, "1/10").outputs(task, RATIONALS)
    assert columns(answer, 3) == side_by_side(run_plainly(task, mixed))


def test_double_q_averages_over_ties():
    task = doubled(random_control(2, 2, 8, seed=2), 4)
    tied = replace(task, table=((F(1), F(1), F(3), F(5)), (F(2), F(0), F(-1), F(1))))

    def worth(Q, x):
        own = {b: Q[x.successor, 2 * x.side + b] for b in range(2)}
        best = [b for b, value in own.items() if value == max(own.values())]
        return sum((Q[x.successor, 2 * (1 - x.side) + b] for b in best), F(0)) / len(best)

    for given_task in (task, tied):
        answer = double_q.construction(rates_for(2, 4, task.alpha, task.discount, 2), 2).outputs(given_task, RATIONALS)
        plain = run_plainly(given_task, worth, lambda x: 2 * x.side + x.action, 4)
        assert columns(answer, 2) == side_by_side(plain)
    first = ControlTask((Transition(1, 0, F(0), 0),), 2, 2, F(1), F(1, 2), F(8), tied.table)
    built = double_q.construction(rates_for(2, 4, 1, F(1, 2), 8), 8)
    assert columns(built.outputs(first, RATIONALS), 2)[1][0] == F(1, 2) * F(3 + 5, 2)


def test_where_a_run_leaves_q_balls_refute_or_nothing_is_said():
    """e/(1 + e)/2 is not 1/2; with beta = 10^6 the difference is lost in a ball of 256 bits."""
    task = ControlTask((Transition(0, 1, F(0), 0),), 1, 2, F(1), F(1, 2), F(4), ((F(0), F(1)),))
    verdicts = {}
    for beta in (1, 10**6):
        built = q_learning.construction("softmax", rates_for(1, 2, 1, F(1, 2), 4, beta=beta), 4)
        verdicts[beta] = prove_instances([Instance(built, task)])
    refuted, open_ = verdicts[1], verdicts[10**6]
    assert refuted.verdict is Verdict.REFUTED
    assert [refuted.evidence[key] for key in ("block", "row", "column", "expected")] == ["table", 0, 1, "1/2"]
    assert float(arb(refuted.evidence["found"])) == pytest.approx(math.e / (1 + math.e) / 2)
    assert open_.verdict is Verdict.UNDECIDED
    assert "is not rational" in open_.evidence["missing"]


def test_double_q_table_is_read_in_the_table_that_is_asked(monkeypatch):
    """Words alone: the swap, the bias of the table that is asked and the sign of the sink's score are needed."""
    monkeypatch.setattr(table_room, "refuted_when_small", lambda case: None)
    (case,) = control.double_q_cases()
    assert prove_case(case).verdict is Verdict.PROVED
    look, values, *rest = case.program.layers
    target, value = values.heads
    unswapped = replace(values, heads=(replace(target, scores=(Score("pick", "vs"),)), value))
    endings = ("without +<2B I idC, side>", "with +<1'V'' tB, idU> negated")
    biases = [mutant.subject for mutant in program_mutants(case.program, lambda kind, text: text.endswith(endings))]
    assert len(biases) == 2
    for changed in (case.program.with_layers((look, unswapped, *rest)), *biases):
        assert prove_case(replace(case, program=changed)).verdict is Verdict.UNDECIDED


def test_linear_features_are_the_same_matrices():
    features = [[1, 2], [0, 1], [F(1, 2), -1]]
    task = random_control(3, 2, 8, seed=6)
    rates = linear_q.featured_rates(features, 2, task.alpha, task.discount, 64)
    for variant in linear_q.VARIANTS:
        answer = linear_q.construction(variant, rates, 2).outputs(task, RATIONALS)
        w = [[F(0), F(0)], [F(0), F(0)]]
        for t, x in enumerate(task.transitions):
            value = [[sum(f * w[i][b] for i, f in enumerate(phi)) for b in range(2)] for phi in features]
            best = max(value[x.successor]) if x.successor >= 0 else 0
            error = x.reward + task.discount * best - value[x.state][x.action]
            for i, f in enumerate(features[x.state]):
                w[i][x.action] += task.alpha * error * f
            assert [row[2 * t : 2 * t + 2] for row in columns(answer, 2)] == w


@pytest.mark.parametrize("actions", [1, 2, 3, 4, 5, 8, 9])
def test_tree_takes_the_maximum_in_as_many_blocks_as_stated(actions):
    levels = max(1, (actions - 1).bit_length())
    values = tuple(F((5 * b) % 7 - 3) for b in range(actions))
    task = ControlTask((Transition(0, actions - 1, F(1), 0),), 1, actions, F(1), F(1, 2), F(8), (values,))
    built = built_for("relu_tree", task)
    assert columns(built.outputs(task, RATIONALS), 1)[0][-1] == 1 + F(1, 2) * max(values)
    blocks = [layer.label for layer in built.program.layers]
    assert max(2, levels) + 1 == 1 + max(2, sum(label.startswith("level") for label in blocks))
    assert built.program.attention_layers == 3


def test_heads_and_layers_are_those_of_the_theory():
    rates = rates_for(2, 2, STEP, G, 2)
    counts = {v: q_learning.program(v, rates) for v in q_learning.EXACT}
    assert [len(layer.heads) for layer in counts["four_layer"].layers[1:]] == [2, 1, 2]
    assert {v: (p.attention_layers, len(p.heads)) for v, p in counts.items()} == {
        "four_layer": (4, 9),
        "three_layer": (3, 8),
        "relu_gated": (2, 7),
        "relu_tree": (3, 7),
    }


def test_chambers_are_all_orders_once():
    assert [len(list(weak_orders(tuple(range(A))))) for A in (1, 2, 3, 4)] == [1, 3, 13, 75]
    assert [len(list(top_sets(A))) for A in (1, 2, 3, 4)] == [1, 3, 7, 15]
    assert all(uncovered(A, coarse=coarse) is None for A in (1, 2, 3, 4) for coarse in (True, False))
    found = list(chambers(3, 3, coarse=True))
    assert len(found) == len(set(found)) == 27 * 7 + 9


def survives_a_run(case: QCase, task: ControlTask) -> bool:
    """Whether the weights of a case are right in every round of a run with strict feedback."""
    rates = rates_for(task.states, task.actions, task.alpha, task.discount, task.bound)
    values = {ALPHA: rates.alpha, DISCOUNT: rates.discount, BOUND: rates.bound, GATE: rates.gate}
    arithmetic = AtPoint({symbol: RATIONALS.scalar(x) for symbol, x in values.items()})
    built = built_for(case.variant, task)
    context, answers = built.round.begin(task, arithmetic), []
    for t in range(task.rounds):
        tokens = built.round.enter(task, t, context, arithmetic)
        counts = dict(tokens.counts)
        U = assemble(tokens, built.program.layout, arithmetic)
        for parts in case.matrices:
            U = apply_heads(U, parts, arithmetic)
        after = split(U, counts, built.program.layout, arithmetic)
        answers.append(built.decode([("", after)], arithmetic))
        context = built.fed_back(after, arithmetic)
    return arithmetic.stack([answers]) == built.reference(task, RATIONALS)


def test_a_missing_chamber_is_noticed(monkeypatch):
    everything = list(top_sets(3))
    monkeypatch.setattr(rooms, "top_sets", lambda actions: everything[1:])
    assert uncovered(3, coarse=True) == "the values (0, 0, 0) lie in 0 chambers"
    monkeypatch.setattr(rooms, "top_sets", lambda actions: [*everything, everything[0]])
    assert uncovered(3, coarse=True) == "the values (0, 0, 0) lie in 2 chambers"


def test_symbols_decide_what_a_random_run_does_not():
    """Without the bias of one action or with a score doubled, runs whose tables stay far from -B are right."""
    case = QCase("four_layer", one_hot_basis(2), one_hot_basis(2))
    task = random_control(2, 2, 10, seed=0, start=False)
    (mutant,) = [m for m in round_mutants([case]) if m.text.endswith("part 4: Q[row.0, nxt.0] doubled")]
    (changed,) = mutant.subject
    assert survives_a_run(changed, task)
    finding = check_round(changed)
    assert finding.verdict is Verdict.REFUTED
    assert finding.evidence["block"] == "table"
    (worse,) = [m for m in round_mutants([case]) if m.text.endswith("part 4: Q[row.0, nxt.0] negated")]
    assert not survives_a_run(worse.subject[0], task)


def test_equivalent_weights_are_proved_so():
    """BOS needs any positive score at the output tokens."""
    case = QCase("three_layer", one_hot_basis(2), one_hot_basis(2))
    (mutant,) = [m for m in round_mutants([case]) if m.text.endswith("Q[tB.0, idU.1] doubled")]
    assert check_round(mutant.subject[0]).verdict is Verdict.PROVED


def test_token_table_notices_dropped_layers():
    table = QTableCase("relu_gated", q_learning.program("relu_gated", symbolic_rates()))
    assert prove_case(table).verdict is Verdict.PROVED
    without = replace(table, program=table.program.with_layers(table.program.layers[:2]))
    assert prove_case(without).verdict is Verdict.REFUTED


def test_words_alone_do_not_prove_a_changed_program(monkeypatch):
    monkeypatch.setattr(table_room, "refuted_when_small", lambda case: None)
    for case in table_room.table_cases()[:4]:
        assert prove_case(case).verdict is Verdict.PROVED
        for place in range(len(case.program.layers)):
            layers = case.program.layers[:place] + case.program.layers[place + 1 :]
            found = prove_case(replace(case, program=case.program.with_layers(layers)))
            assert found.verdict is Verdict.UNDECIDED
            assert found.evidence["missing"]


@pytest.mark.parametrize("variant", q_learning.EXACT)
def test_sampled_weight_mutants_are_refuted(variant):
    case = QCase(variant, one_hot_basis(2), one_hot_basis(2))
    for mutant in sampled(round_mutants([case]), 10, 1):
        if "Q[tB.0, idU" not in mutant.text:
            assert check_round(mutant.subject[0]).verdict is Verdict.REFUTED, mutant.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "total"), [("four_layer", 123), ("three_layer", 117), ("relu_gated", 294), ("relu_tree", 117)]
)
def test_every_weight_mutant_is_refuted_or_proved_equivalent(variant, total):
    mutants = list(round_mutants([QCase(variant, one_hot_basis(2), one_hot_basis(2))]))
    assert len(mutants) == total
    verdicts = {mutant.text: check_round(mutant.subject[0]).verdict for mutant in mutants}
    alive = [text for text, verdict in verdicts.items() if verdict is not Verdict.REFUTED]
    assert all(verdicts[text] is Verdict.PROVED for text in alive)
    sinks = [text for text in alive if "Q[tB.0, idU" in text and text.endswith("doubled")]
    assert alive == sinks
    assert len(alive) == (0 if variant == "relu_tree" else 2)


def test_matrices_hold_the_weights_of_one_token_pair_each():
    case = QCase("four_layer", one_hot_basis(2), one_hot_basis(2))
    entries = sum(len(getattr(part, m).todok()) for parts in matrices_of(case) for part in parts for m in ("P", "Q"))
    assert 3 * entries == 123


def test_domain_counterexamples_and_their_mutants():
    (claim,) = [c for c in CATALOGUE["online.q-learning"].claims(Options(quick=True)) if c.name == "domain"]
    certificate = claim.certify()
    assert certificate.verdict is Verdict.PROVED
    assert len(certificate.evidence["counterexamples"]) == 6
    assert all(claim.certify(mutant.subject).verdict is Verdict.REFUTED for mutant in mutants_of(claim))


def test_softmax_is_within_its_bound_and_not_exact():
    task = random_control(3, 3, 12, "1/2", "3/4", 2, 4, start=False)
    with Balls(128).working():
        limits = {beta: float(accumulated_bound(3, F(beta), task.discount)) for beta in (1, 8)}
        assert float(gap_bound(100, F(1))) == pytest.approx(4.605170, abs=1e-6)
        assert float(gap_bound(2, F(2))) == pytest.approx(0.183940, abs=1e-6)
    gaps = {beta: softmax_gap(task, beta) for beta in limits}
    assert all(0 < gaps[beta] <= limits[beta] for beta in limits)
    assert gaps[8] < gaps[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_are_those_of_the_scalar_recursion(dtype):
    task = random_control(4, 3, 25, "1/10", "9/10", 2, 7)
    arithmetic = TorchArithmetic(dtype)
    found = built_for("four_layer", task).outputs(task, arithmetic)
    assert (found[:4] == scalar_tables(task, arithmetic)).all()
    measured = measure_tables("four_layer", task, arithmetic, 7)
    assert measured.sound
    assert measured.error.absolute > 0
    assert "bit-identical to the scalar recursion" in measured.flags


def test_residual_bound_sees_a_wrong_entry():
    task = random_control(2, 2, 5, seed=1)
    tables = built_for("four_layer", task).reference(task, RATIONALS)
    exact = RATIONALS.rows(tables, 0, 2)
    assert residual_bound(exact, task) == 0.0
    exact[0, 3] += F(1, 4).numerator * RATIONALS.scalar(F(1, 4))
    assert residual_bound(exact, task) >= 0.25


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: rates_for(2, 2, 0, G, 1), "alpha: expected a number above 0 and at most 1, found 0"),
        (lambda: rates_for(2, 2, "9/8", G, 1), "alpha: expected a number above 0 and at most 1, found 9/8"),
        (lambda: rates_for(2, 2, STEP, 1, 1), "discount: expected a number strictly between 0 and 1, found 1"),
        (lambda: rates_for(2, 0, STEP, G, 1), "expected at least one action, found 0"),
        (lambda: rates_for(2, 2, STEP, G, 1, basis=[[1, 0], [1, 1]]), "expected <u_0, u_1> = 0, found 1"),
        (lambda: rates_for(2, 2, STEP, G, 1, names=[[1, 0]]), "a basis of 2 vectors for the actions, found 1"),
        (lambda: rates_for(2, 2, STEP, G, 1, beta=0), "a positive inverse temperature beta, found 0"),
        (
            lambda: ControlTask((Transition(0, 0, F(3), 0),), 1, 1, STEP, G, F(2)),
            "control task, round 0: expected a reward within 2, found 3",
        ),
        (lambda: ControlTask((), 1, 1, STEP, G, F(2)), "expected at least one transition, found none"),
        (
            lambda: ControlTask((Transition(0, 1, F(0), 0),), 1, 1, STEP, G, F(2)),
            "round 0, action: expected a number from 0 to 0, found 1",
        ),
        (
            lambda: built_for("four_layer", random_control(2, 2, 1)).outputs(random_control(3, 2, 1), RATIONALS),
            "expected a task with n = 2",
        ),
        (
            lambda: built_for("four_layer", random_control(2, 2, 1, bound=1)).outputs(
                random_control(2, 2, 1), RATIONALS
            ),
            "expected rewards within 1, found a task with rewards up to 2",
        ),
        (lambda: q_learning.program("five_layer", symbolic_rates()), "expected one of four_layer"),
        (lambda: linear_q.featured_rates([[1], [1, 2]], 2, STEP, G, 1), "as many features of every state"),
    ],
)
def test_bad_input_is_one_sentence(make, text):
    with pytest.raises(BadInput) as caught:
        make()
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_show_has_actions(capsys):
    with pytest.raises(SystemExit) as done:
        main(["show", "online.q-learning", "--states", "2", "--actions", "3"])
    assert done.value.code == 0
    out = capsys.readouterr().out
    assert "(row:2; idC:3;" in out
    assert out.count("heads linear") + out.count("heads hardmax") == 9
    with pytest.raises(SystemExit) as done:
        main(["show", "td.executor", "--actions", "2"])
    assert done.value.code == 2
    assert "expected no --actions" in capsys.readouterr().err


@pytest.mark.parametrize("exact", [False, True])
def test_learner_in_an_environment_is_the_table(exact):
    pytest.importorskip("gymnasium")
    from numerics.online_learning.environments import walk

    arithmetic = RATIONALS if exact else TorchArithmetic("float64")
    found = walk("FrozenLake-v1", 30, 1, arithmetic)
    assert found.policies == found.tables == found.steps == 30
    assert found.decisions[0] == found.decisions[1] > 0
    assert found.changed > 5


def test_a_wrong_learner_is_noticed():
    pytest.importorskip("gymnasium")
    from numerics.online_learning.environments import Learner, walk

    learner = Learner(16, 4, 1, 1, RATIONALS)
    layers = learner.built.program.layers
    learner.built = replace(learner.built, program=learner.built.program.with_layers((*layers[:2], layers[3])))
    assert walk("FrozenLake-v1", 10, 1, RATIONALS, learner).tables < 10
    learner = Learner(16, 4, 1, 1, RATIONALS)
    unclean = replace(layers[3], heads=layers[3].heads[:1])
    learner.built = replace(learner.built, program=learner.built.program.with_layers((*layers[:3], unclean)))
    with pytest.raises(BadInput, match="context field idU: expected zeros, found others"):
        walk("FrozenLake-v1", 10, 1, RATIONALS, learner)


def test_reproductions_agree():
    rows = REPRODUCTIONS["softmax-temperature"](True, 0, "cpu")
    assert all(row["agrees"] for row in rows)
    assert all(0 <= row["ours"] <= row["source"] for row in rows)
