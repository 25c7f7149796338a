"""Logs with N_ij = N_ji: who is in the class, the generators, and what becomes of a log outside it."""

import numpy as np
import pytest

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.temporal_difference import lanczos
from constructions.temporal_difference.lanczos import COUNT_REVERSIBLE
from numerics import tasks
from numerics.reversible_tasks import birth_death_chain, symmetric_chain, with_endings


def test_paths_of_reversible_chains_are_not_count_reversible():
    objections = [COUNT_REVERSIBLE.objection(tasks.reversible_chain(6, 60, seed=seed)) for seed in range(20)]
    assert all(objections)


@pytest.mark.parametrize("lazy", [True, False])
def test_closed_birth_death_paths_are(lazy):
    for seed in range(20):
        task = birth_death_chain(5, 60, seed=seed, lazy=lazy)
        assert COUNT_REVERSIBLE.objection(task) is None
        assert (task.successors[:-1] == task.states[1:]).all()
        assert task.successors[-1] == task.states[0] == 0
        assert task.transitions >= 60
    assert COUNT_REVERSIBLE.objection(with_endings(task)) is None


def test_the_lazy_sweep_is_the_lazy_walk():
    task = birth_death_chain(5)
    P = task.counts / task.visits[:, None]
    assert P[0, 0] == P[0, 1] == P[4, 4] == P[4, 3] == 0.5
    assert (np.diag(P) == 0.5).all()
    assert (np.diag(P, 1)[1:] == 0.25).all()


def test_symmetric_chains_visit_every_state():
    task = symmetric_chain(7, 10, seed=3)
    assert (task.counts == task.counts.T).all()
    assert task.transitions == 20


def test_lanczos_refuses_other_logs_in_one_sentence():
    task = tasks.reversible_chain(4, 40)
    with pytest.raises(BadInput) as refusal:
        lanczos.construction(4, 3).outputs(task, RATIONALS)
    text = str(refusal.value)
    assert "expected a task of class count-reversible" in text
    assert "N_ij = N_ji" in text
    assert "\n" not in text


def test_outside_the_class_three_terms_do_not_suffice():
    """The very program, run without asking, misses TD: the hypothesis is needed."""
    task = tasks.reversible_chain(4, 40)
    built = lanczos.construction(4, 5)
    answer = built.decode(built.program.steps(built.encode(task, RATIONALS), RATIONALS), RATIONALS)
    assert answer != built.reference(task, RATIONALS)


def test_beta_is_a_quotient_of_norms():
    task = birth_death_chain(5)
    context = lanczos.encoder(5, 8).outputs(task, RATIONALS)
    B, beta = RATIONALS.rows(context, 0, 5), RATIONALS.rows(context, 6, 7).entries()
    weights = [int(x) for x in task.visits]
    norms = [sum(w * B[i, j] ** 2 for i, w in enumerate(weights)) for j in range(B.ncols())]
    assert beta == [norms[j + 1] / norms[j] for j in range(B.ncols() - 1)] + [0]


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (birth_death_chain, (0,), "positive number of states"),
        (birth_death_chain, (5, 3), "at least 16 transitions"),
        (birth_death_chain, (5, None, "9/10", -1), "non-negative int as seed"),
        (birth_death_chain, (5, None, "2"), "strictly between 0 and 1"),
        (symmetric_chain, (5, 3), "at least n = 5 edges"),
        (symmetric_chain, ("five",), "positive number of states"),
    ],
)
def test_bad_settings_are_refused(make, arguments, message):
    with pytest.raises(BadInput, match=message):
        make(*arguments)
