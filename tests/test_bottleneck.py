"""The learned bottleneck encoder: shapes, tasks as the generators draw them, seeds, resuming, learning, the table."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from constructions.errors import BadInput
from numerics import tasks
from numerics.temporal_difference import bottleneck, bottleneck_model, bottleneck_table
from numerics.temporal_difference.bottleneck import EXECUTORS, PANELS, Training

SMALL = Training(
    PANELS[0], EXECUTORS[0], 2, updates=8, rate=3e-3, batch=8, states=4, depth=5, transitions=40, blocks=2, seed=3
)


def same_weights(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_shapes_and_number_of_parameters(executor):
    for m in (1, 24):
        model = bottleneck.new_model(Training(PANELS[0], executor, m, 1))
        assert 1.0e5 < bottleneck_model.parameter_count(model) < 1.2e5
        A, r = bottleneck.draw_tasks(Training(PANELS[0], executor, m, 1), np.random.default_rng(0), 3)
        with torch.no_grad():
            values = model(torch.from_numpy(A).float(), torch.from_numpy(r).float())
        assert values.shape == (3, 24, 30)
        assert torch.linalg.matrix_rank(values, rtol=1e-4).max() <= m


def test_the_time_invariant_executor_iterates_one_matrix():
    model = bottleneck.new_model(replace(SMALL, executor=EXECUTORS[1], latents=3))
    latents = torch.randn(2, 3, bottleneck_model.WIDTH, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        states = model._states(latents)
        H = model.key(latents) @ model.query(latents).mT / bottleneck_model.WIDTH
        H = H / H.abs().sum(-1).amax(-1).clamp(min=1.0)[:, None, None]
        s = model.start(latents)
        for l in range(5):
            assert torch.allclose(states[..., l : l + 1], s, atol=1e-6)
            s = H @ s


def test_tasks_are_those_of_the_generators():
    """Rows of P sum to one, every state is visited, |r| = 1 at most; cycles keep their blocks; values are iterates."""
    draw = np.random.default_rng(0)
    A, r = bottleneck.draw_tasks(Training(PANELS[0], EXECUTORS[0], 1, 1), draw, 200)
    assert np.allclose(A.sum(-1), 0.9)
    assert np.all(np.abs(r).max(-1) == 1)
    drawn = [tasks.reversible_chain(seed=i) for i in range(40)]
    theirs = np.array([[[float(x) for x in row] for row in task.A.tolist()] for task in drawn])
    assert A.std() == pytest.approx(theirs.std(), rel=0.02)
    cycle, rewards = bottleneck.draw_tasks(Training(PANELS[1], EXECUTORS[0], 1, 1), draw, 5)
    assert np.array_equal(cycle[0] > 0, np.kron(np.roll(np.eye(12), 1, axis=1), np.ones((2, 2))) > 0)
    assert np.array_equal(rewards[:, ::2], rewards[:, 1::2])
    values = bottleneck.exact_values(A, r, 3)
    assert np.allclose(values[..., 2], r + (A @ (r + (A @ r[..., None])[..., 0])[..., None])[..., 0])


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_interrupted_run_ends_in_the_same_weights(tmp_path, executor):
    training = replace(SMALL, executor=executor)
    told = []
    whole, losses = bottleneck.train(training, announce=lambda *what: told.append(what))
    assert told[-1] == (str(training), 8, 8)
    bottleneck.train(training, folder=tmp_path, every=4, stop_after=6)
    (file,) = tmp_path.iterdir()
    assert int(np.load(file)["step"]) == 4
    resumed, all_losses = bottleneck.train(training, folder=tmp_path, every=4)
    assert same_weights(resumed, whole)
    assert all_losses == losses
    again, _ = bottleneck.train(training, folder=tmp_path)
    assert same_weights(again, whole)
    damaged = file.read_bytes()[:-40]
    file.write_bytes(damaged)
    with pytest.raises(BadInput, match="expected a checkpoint, found a damaged file"):
        bottleneck.train(training, folder=tmp_path)
    np.savez(file, format=np.array(2), step=np.array(3), settings=np.array("[]"))
    with pytest.raises(BadInput, match="found format 2"):
        bottleneck.train(training, folder=tmp_path)
    assert not same_weights(bottleneck.train(replace(training, seed=4))[0], whole)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_training_lowers_the_loss(executor):
    training = replace(SMALL, executor=executor, latents=4, updates=100)
    model, losses = bottleneck.train(training)
    assert np.mean(losses[-20:]) < 0.5 * np.mean(losses[:3])
    held_out = [tasks.reversible_chain(n=4, transitions=40, seed=i) for i in range(5)]
    A, r = (
        np.array([[[float(x) for x in row] for row in m.tolist()] for m in parts])
        for parts in ([t.A for t in held_out], [t.r for t in held_out])
    )
    exact = bottleneck.exact_values(A, r[..., 0], 5)
    with torch.no_grad():
        found = model(torch.from_numpy(A).float(), torch.from_numpy(r[..., 0]).float()).double().numpy()
    errors = bottleneck.largest_errors(model, held_out, 5)
    assert errors == pytest.approx(np.abs(found - exact).max((1, 2)).tolist())
    assert np.median(errors) < np.median(np.abs(exact).max((1, 2)))


def test_rates_follow_one_cycle():
    found = bottleneck.rates(replace(SMALL, updates=100))
    assert len(found) == 100
    assert max(found) == pytest.approx(3e-3)
    assert 25 < int(np.argmax(found)) < 35
    assert found[-1] < found[0] < 2e-4
    assert len(bottleneck.rates(replace(SMALL, updates=1))) == 1


def test_bad_settings():
    for change, text in (
        ({"panel": "grid"}, "expected one of the panels reversible chain, block cycle, found 'grid'"),
        ({"executor": "free"}, "expected one of the executors clocked, time-invariant, found 'free'"),
        ({"latents": 0}, "expected at least one latent and one update, found 0 and 8"),
    ):
        with pytest.raises(BadInput, match=text):
            replace(SMALL, **change)


def test_table(monkeypatch, tmp_path):
    """The rows of a tiny reproduction; written contexts are those of the threshold panels, compiled exact at m = k."""
    monkeypatch.setattr(bottleneck_table, "QUICK_UPDATES", 1)
    monkeypatch.setattr(bottleneck_table, "QUICK_HELD_OUT", 2)
    monkeypatch.setattr(bottleneck_table, "QUICK_SIZES", dict.fromkeys(PANELS, (8, 24)))
    rows = bottleneck_table.reproduce_bottleneck(True, 0, "cpu", tmp_path)
    found = {(row["setting"].split(",")[0], row["quantity"]): row for row in rows}
    assert len(found) == len(rows)
    for panel in PANELS:
        assert found[panel, "largest error, compiled, m = 24"]["ours"] < 1e-12
        held = found[panel, "largest error, sample-and-hold, m = 8"]["ours"]
        assert held > found[panel, "largest error, midpoint hold, m = 8"]["ours"]
        ratio = found[panel, "error at m = 24 over error at m = 8, learned, clocked"]
        at_8, at_24 = (found[panel, f"largest error, learned, clocked, m = {m}"]["ours"] for m in (8, 24))
        assert ratio["ours"] == at_24 / at_8
        assert ratio["agrees"] == (at_24 >= 0.8 * at_8)
    figures = [row["figure"] for row in rows if "figure" in row]
    assert [figure["places"] for figure in figures] == [[8, 24], [8, 24]]
    assert all(len(figure["lines"]) == 7 for figure in figures)
    assert len(list(tmp_path.glob("*.npz"))) == 8
