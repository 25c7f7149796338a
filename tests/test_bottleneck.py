"""The learned bottleneck encoder: shapes, tasks as the generators draw them, seeds, resuming, learning, the table."""

import signal
import subprocess
import sys
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
BOTH = [replace(SMALL, executor=executor) for executor in EXECUTORS]


KILLED = f"""
import os, signal, sys
from pathlib import Path
from numerics.temporal_difference.bottleneck import Training, train

moved, move = [], os.replace
def replace(*paths):
    if moved:
        os.kill(os.getpid(), signal.SIGKILL)
    moved.append(move(*paths))
os.replace = replace
train({BOTH}, folder=Path(sys.argv[1]), every=3)
"""
"""Training that is killed while it writes its second checkpoint."""


def same_weights(one, other):
    return all(torch.equal(x, y) for x, y in zip(one.weights, other.weights, strict=True))


@pytest.mark.parametrize("m", [1, 24])
def test_shapes_and_number_of_parameters(m):
    runs = [Training(PANELS[0], executor, m, 1) for executor in EXECUTORS]
    model = bottleneck.new_model(runs)
    A, r, wanted = bottleneck.tasks_of_update(runs, 0)
    with torch.no_grad():
        values = model(A, r)
    assert values.shape == wanted.shape == (2, 16, 24, 30)
    assert torch.linalg.matrix_rank(values, rtol=1e-4).max() <= m
    for i in range(2):
        assert 0.75e5 < bottleneck_model.parameter_count(model.run(i)) < 0.9e5
        with torch.no_grad():
            alone = model.run(i)(A[i : i + 1], r[i : i + 1])
        assert torch.allclose(alone[0], values[i], atol=1e-4)


def test_the_layers_are_softmax_attention():
    """A block against torch's own attention, with Q for the product of keys and queries."""
    model = bottleneck.new_model(BOTH[:1])
    draw = torch.Generator().manual_seed(0)
    tokens, seen = (torch.randn(1, 3 * count, bottleneck_model.WIDTH, generator=draw) for count in (2, 4))
    w = dict(zip(model.names, model.weights, strict=True))
    with torch.no_grad():
        found = model._attend(w, "look", tokens, seen, 3).view(3, 2, -1)
        kept = seen.view(3, 4, -1)
        asked = tokens.view(3, 2, -1) @ w["look.Q"][0]
        wanted = torch.nn.functional.scaled_dot_product_attention(asked, kept, kept @ w["look.P"][0])
    assert torch.allclose(found, wanted, atol=1e-5)


def test_the_time_invariant_executor_iterates_one_matrix():
    model = bottleneck.new_model([replace(SMALL, executor=EXECUTORS[1], latents=3)])
    w = {name: weight.detach() for name, weight in zip(model.names, model.weights, strict=True)}
    w["start"] = torch.ones_like(w["start"])
    w["pairs"] = 20 * w["pairs"]
    latents = torch.randn(1, 2 * 3, bottleneck_model.WIDTH, generator=torch.Generator().manual_seed(0))
    H = model._step(w, latents)[0]
    z = latents.view(2, 3, -1)
    raw = z @ w["pairs"][0] @ z.mT / bottleneck_model.WIDTH + torch.diag(w["decay"][0, 0])
    sums = raw.abs().sum(-1, keepdim=True)
    assert torch.any(sums > 1.2)
    assert torch.allclose(H, torch.where(sums > 1, raw / sums, raw), atol=1e-6)
    found = model._states(w, latents)[0]
    s = z.sum(-1, keepdim=True) + 1
    total = torch.zeros_like(s)
    for l in range(5):
        total, s = total + s, H @ s
        assert torch.allclose(found[..., l : l + 1], total, atol=1e-4)


def test_tasks_are_those_of_the_generators():
    """Rows of P sum to one, every state is visited, |r| = 1 at most; cycles keep their blocks; values are iterates."""
    draw = np.random.default_rng(0)
    A, r = bottleneck.draw_tasks(Training(PANELS[0], EXECUTORS[0], 1, 1), draw, 200)
    assert np.allclose(A.sum(-1), 0.9)
    assert np.all(np.abs(r).max(-1) == 1)
    drawn = [tasks.reversible_chain(seed=i) for i in range(40)]
    assert A.std() == pytest.approx(bottleneck.arrays_of(drawn)[0].std(), rel=0.02)
    cycle, rewards = bottleneck.draw_tasks(Training(PANELS[1], EXECUTORS[0], 1, 1), draw, 5)
    assert np.array_equal(cycle[0] > 0, np.kron(np.roll(np.eye(12), 1, axis=1), np.ones((2, 2))) > 0)
    assert np.array_equal(rewards[:, ::2], rewards[:, 1::2])
    values = bottleneck.exact_values(A, r, 3)
    assert np.allclose(values[..., 2], r + (A @ (r + (A @ r[..., None])[..., 0])[..., None])[..., 0])


def test_a_killed_run_resumes_and_ends_in_the_same_weights(tmp_path):
    told = []
    whole, losses = bottleneck.train(BOTH, announce=lambda *what: told.append(what))
    assert told[-1] == ("reversible chain, m=2, 2 runs", 8, 8)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=120)
    assert killed.returncode == -signal.SIGKILL
    (file,) = (path for path in tmp_path.iterdir() if ".tmp" not in path.suffixes)
    assert int(np.load(file)["step"]) == 3
    resumed, all_losses = bottleneck.train(BOTH, folder=tmp_path, every=3)
    assert same_weights(resumed, whole)
    assert np.array_equal(all_losses, losses)
    again, _ = bottleneck.train(BOTH, folder=tmp_path)
    assert same_weights(again, whole)
    damaged = file.read_bytes()[:-40]
    file.write_bytes(damaged)
    with pytest.raises(BadInput, match="expected a checkpoint, found a damaged file"):
        bottleneck.train(BOTH, folder=tmp_path)
    np.savez(file, format=np.array(2), step=np.array(3), settings=np.array("[]"))
    with pytest.raises(BadInput, match="found format 2"):
        bottleneck.train(BOTH, folder=tmp_path)
    assert not same_weights(bottleneck.train([replace(run, seed=4) for run in BOTH])[0], whole)


def test_a_run_does_not_depend_on_those_beside_it():
    """Same seed, same losses and weights up to rounding, alone or among others; clipping is by each run's own norm."""
    elsewhere = [replace(run, panel=PANELS[1]) for run in BOTH]
    model, losses = bottleneck.train([elsewhere[0], replace(BOTH[0], seed=9), BOTH[0], elsewhere[1], BOTH[1]])
    for i, run in ((2, BOTH[0]), (4, BOTH[1])):
        alone, mine = bottleneck.train([run])
        assert losses[:, i] == pytest.approx(mine[:, 0], rel=1e-4)
        for x, y in zip(model.run(i).weights, alone.weights, strict=True):
            assert torch.allclose(x, y, atol=1e-4)


def test_gradients_are_clipped_run_by_run():
    model = bottleneck.new_model(BOTH)
    sizes = torch.tensor([10.0, 1e-3])
    for name, weight in zip(model.names, model.weights, strict=True):
        weight.grad = torch.ones_like(weight) * sizes[model.members(name)].view(-1, *[1] * (weight.ndim - 1))
    bottleneck.clip(model, 1.0)
    squares = torch.zeros(2)
    for name, weight in zip(model.names, model.weights, strict=True):
        squares[model.members(name)] += weight.grad.square().flatten(1).sum(1)
    counts = [bottleneck_model.parameter_count(model.run(i)) for i in range(2)]
    assert squares.sqrt().tolist() == pytest.approx([1.0, 1e-3 * counts[1] ** 0.5], rel=1e-3)


def test_training_lowers_the_loss():
    runs = [replace(run, latents=4, updates=80) for run in BOTH]
    model, losses = bottleneck.train(runs)
    assert np.all(losses[-20:].mean(0) < 0.5 * losses[:3].mean(0))
    held_out = [tasks.reversible_chain(n=4, transitions=40, seed=i) for i in range(5)]
    A, r = bottleneck.arrays_of(held_out)
    assert A[0].tolist() == [[float(x) for x in row] for row in held_out[0].A.tolist()]
    exact = bottleneck.exact_values(A, r, 5)
    inputs = [torch.from_numpy(x).float().expand(2, *x.shape) for x in (A, r)]
    with torch.no_grad():
        found = model(*inputs).double().numpy()
    errors = bottleneck.largest_errors(model, held_out, 5)
    assert errors == pytest.approx(np.abs(found - exact).max((2, 3)))
    zero = bottleneck_table.zero_errors(held_out, 5)
    assert zero == pytest.approx(np.abs(exact).max((1, 2)))
    assert np.all(errors.mean(1) < zero.mean())


def test_rates_rise_then_fall():
    found = bottleneck.rates(replace(SMALL, updates=100))
    assert len(found) == 100
    assert found.argmax() in (9, 10)
    assert found.max() == pytest.approx(3e-3)
    assert 0 < found[-1] < found[0] < 4e-4
    assert bottleneck.rates(replace(SMALL, updates=1)).tolist() == [3e-3]


def test_bad_settings():
    for change, text in (
        ({"panel": "grid"}, "expected one of the panels reversible chain, block cycle, found 'grid'"),
        ({"executor": "free"}, "expected one of the executors clocked, time-invariant, found 'free'"),
        ({"latents": 0}, "expected at least one latent and one update, found 0 and 8"),
    ):
        with pytest.raises(BadInput, match=text):
            replace(SMALL, **change)
    for runs, text in (
        ([], "expected at least one run, found none"),
        ([SMALL, replace(SMALL, latents=3)], "expected runs that differ in panel, executor and seed, found reversible"),
        (BOTH[::-1], "expected clocked runs before time-invariant ones"),
    ):
        with pytest.raises(BadInput, match=text):
            bottleneck.train(runs)


def test_table(monkeypatch, tmp_path):
    """The rows of a tiny reproduction; written contexts are those of the threshold panels, compiled exact at m = k."""
    monkeypatch.setattr(bottleneck_table, "QUICK_UPDATES", 1)
    monkeypatch.setattr(bottleneck_table, "HELD_OUT", 2)
    monkeypatch.setattr(bottleneck_table, "QUICK_SIZES", (8, 24))
    rows = bottleneck_table.reproduce_bottleneck(True, 0, "cpu", tmp_path)
    found = {(row["setting"].split(",")[0], row["quantity"]): row for row in rows}
    assert len(found) == len(rows)

    def error(panel, context):
        return found[panel, f"mean over tasks of the largest error, {context}"]["ours"]

    for panel in PANELS:
        assert error(panel, "compiled, m = 24") < 1e-12
        assert error(panel, "sample-and-hold, m = 8") > error(panel, "midpoint hold, m = 8")
        assert error(panel, "zero answers") > 1
        for executor in EXECUTORS:
            ratio = found[panel, f"error at m = 24 over error at m = 8, learned, {executor}"]
            at_8, at_24 = (error(panel, f"learned, {executor}, m = {m}") for m in (8, 24))
            assert ratio["ours"] == at_24 / at_8
            assert ratio["agrees"] == (at_24 >= 0.8 * at_8)
    figures = [row["figure"] for row in rows if "figure" in row]
    assert [figure["places"] for figure in figures] == [[8, 24], [8, 24]]
    assert all(len(figure["lines"]) == 7 for figure in figures)
    assert len(list(tmp_path.glob("*.npz"))) == 4


def test_figures_are_medians_over_seeds_of_means_over_tasks():
    errors = np.array([[1.0, 3.0], [4.0, 6.0], [0.0, 20.0]])
    assert bottleneck_table.figure_of(errors) == 5
    assert bottleneck_table.figure_of(errors[0]) == 2
    learned = {e: {8: errors, 24: errors * factor} for e, factor in zip(EXECUTORS, (0.9, 0.7), strict=True)}
    rows = bottleneck_table.panel_rows(PANELS[1], "here", learned, {}, 0, "few updates")
    assert rows[0]["ours"] == 5
    expected = "the source states neither panel nor statistic; few updates; seeds 2.000 .. 10.000; largest over tasks 6"
    assert rows[0]["reason"] == expected
    assert [row["agrees"] for row in rows[-2:]] == [True, False]
    assert [row["ours"] for row in rows[-2:]] == pytest.approx([0.9, 0.7])
