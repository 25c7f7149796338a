"""Re-scanning: the model answers exactly, one pass collides, sweeps converge as certified; `verify collide`."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import arb, fmpq, fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput, Unsupported
from constructions.exact import RATIONALS
from constructions.recurrent import rescan
from constructions.recurrent.blocks import BlockTask, random_block_task
from constructions.recurrent.collision import find_collision, left_null
from numerics.recurrent.kernel import recurrent
from numerics.recurrent.rescan import measure
from numerics.torch_arithmetic import TorchArithmetic
from proofs_check.recurrent.memory import random_encoder
from proofs_check.recurrent.two_keys import Angle, angles
from verify.collide import collide, read_encoder
from verify.command_line import main
from verify.row import Options
from verify.rows.recurrent import rescan_instances


def answers(task, program, arithmetic=RATIONALS):
    built = rescan.construction(task)
    tokens = program.run(built.encode(task, arithmetic), arithmetic)
    return tokens.read("query", "out", task.size[2], arithmetic)


def test_before_the_re_scan_only_the_last_block_is_known():
    """`work` then holds A_K: 60 tasks are answered exactly where the target is the last block, and only there."""
    right = 0
    for instance in rescan_instances(Options(), "sketch", 60)():
        task = instance.task
        layers = [x for x in instance.construction.program.layers if x.label not in ("controller", "re-scan")]
        found = answers(task, instance.construction.program.with_layers(layers))
        exact = instance.construction.reference(task, RATIONALS)
        same = found == RATIONALS.rows(exact, 0, task.size[2])
        assert same == (task.target == task.size[0] - 1)
        right += same
        assert instance.construction.outputs(task, RATIONALS) == exact
    assert 10 < right < 35


def test_reference_by_hand():
    task = BlockTask([[[1, 0]], [[0, 2]]], [[[1, 0], [0, 1]]] * 2, 1, [[1, 1]], [[3, 4]])
    # A_2 q = 8; (A_2 - A_1) x = 2 - 1 = 1, squared, and 0 for the target.
    assert rescan.construction(task, w=[1]).outputs(task, RATIONALS) == fmpq_mat(3, 1, [8, 1, 0])
    assert rescan.construction(task, "replay").outputs(task, RATIONALS) == fmpq_mat(3, 1, [8, 1, 0])
    assert rescan.construction(task, w=[3]).outputs(task, RATIONALS) == fmpq_mat(3, 1, [8, 9, 0])


def test_a_row_that_is_not_generic_fails():
    """w'(A_t - A_j) = 0 hides the difference from the sketch, not from the replay."""
    task = BlockTask([[[1], [2]], [[2], [1]]], [[[1]]] * 2, 1, [[1]], [[1]])
    exact = [2, 1]
    blind = rescan.construction(task, w=[1, 1]).outputs(task, RATIONALS)
    assert blind.tolist()[:2] != [[x] for x in exact]
    replayed = rescan.construction(task, "replay").outputs(task, RATIONALS)
    assert replayed.tolist()[:2] == [[x] for x in exact]


def test_model_runs_in_floats():
    for seed in range(5):
        task = random_block_task(3, 3, 2, 2, seed)
        found = rescan.construction(task).outputs(task, TorchArithmetic("float64"))
        exact = TorchArithmetic("float64").matrix(rescan.construction(task).reference(task, RATIONALS).tolist())
        assert torch.allclose(found, exact, atol=1e-9)


def test_measured_in_every_format():
    """Residuals are far enough apart for every format to pick the right block here; balls hold the exact answers."""
    measured = measure(quick=True)
    assert all(m.sound and "picks the right block" in m.flags for m in measured)
    balls = [m for m in measured if "balls" in m.arithmetic]
    assert balls
    assert all(m.error.contained and m.bound < 1e-25 for m in balls)
    assert all(m.error.absolute < 1e-10 for m in measured if "float64" in m.arithmetic)


def test_controller_decides_nothing_that_overlaps():
    assert rescan.smallest([arb(2), arb(1), arb(3)]) == 1
    assert rescan.smallest([fmpq(1), fmpq(1)]) == 0
    with pytest.raises(Unsupported, match="found none of 2"):
        rescan.smallest([arb(1, 0.5), arb(1, 0.25)])


def test_inputs_that_are_not_orthogonal_are_refused():
    task = random_block_task(2, 2, 1)
    skewed = replace(task, inputs=[[[1, 0], [1, 1]], *task.inputs[1:]])
    with pytest.raises(BadInput, match="input 1 of block 0 is not orthogonal"):
        rescan.construction(skewed).outputs(skewed, RATIONALS)
    with pytest.raises(BadInput, match="expected a target between 0 and 1"):
        replace(task, target=2)
    with pytest.raises(BadInput, match="expected w of length 1"):
        rescan.construction(task, w=[1, 2])


@settings(max_examples=15)
@given(K=st.integers(1, 4), d=st.integers(1, 3), d_k=st.integers(1, 8), seed=st.integers(0, 50))
def test_collisions_exist_exactly_below_full_rank(K, d, d_k, seed):
    """Phi, by products from the end, is the state that the layer reaches from A = I; it reads the witnesses too."""
    encoder = random_encoder(K, d, d_k, seed)
    assert encoder.state(RATIONALS.one_hot(range(K * d), K * d)) == encoder.encoding
    assert encoder.rank == encoder.encoding.rank() <= min(d_k, K * d)
    found = find_collision(encoder)
    assert (found is None) == (encoder.rank == K * d)
    if found is not None:
        assert encoder.state(found.first) == encoder.state(found.second)
        assert found.answer(found.first) != found.answer(found.second)


def test_left_null_of_a_matrix_by_hand():
    assert left_null(fmpq_mat(2, 1, [2, 3])) in (fmpq_mat(1, 2, [3, -2]), fmpq_mat(1, 2, [-3, 2]))
    assert left_null(fmpq_mat(1, 2, [0, 1])) is None
    assert left_null(fmpq_mat(1, 1, [0])) == fmpq_mat(1, 1, [1])


def test_sweeps_with_the_least_number_are_exact_in_floats():
    """tan(th/2) = 1/2 needs two sweeps: B G = 1/sin^2 th = 25/16 erases every error; b = 1 leaves c^3."""
    (angle,) = [x for x in angles() if x.t == fmpq(1, 2)]
    assert angle.sweeps == 2
    c, s = (float(Fraction(str(x))) for x in (angle.cosine, angle.sine))
    keys = torch.tensor([[1, 0], [c, s]] * 2, dtype=torch.float64)
    nothing, start = torch.zeros(4, 2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    for rates, left in (([1, 1.25, 1.25, 1], 0.0), ([1, 1, 1, 1], abs(c) ** 3)):
        rates = torch.tensor(rates, dtype=torch.float64)
        _, error, _ = recurrent(keys, nothing, nothing, rates, torch.zeros(4, dtype=torch.float64), start)
        assert float(torch.linalg.matrix_norm(error, 2)) == pytest.approx(left, abs=1e-15)


def test_law_at_an_angle_of_many_sweeps():
    assert Angle(RATIONALS.scalar(Fraction(1, 1000)), 1).law() == 394


def write(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_collide_finds_worlds_or_proves_none(tmp_path, capsys):
    rng = np.random.default_rng(0)
    given = {"keys": rng.normal(size=(6, 4)), "rates": np.ones(6), "gates": np.full(6, 0.9)}
    short = write(tmp_path / "short.npz", **given, inputs=np.tile(np.eye(2), (3, 1)), blocks=np.repeat([0, 1, 2], 2))
    with pytest.raises(SystemExit) as done:
        main(["collide", str(short), "--json"])
    assert not done.value.code
    document = json.loads(capsys.readouterr().out)
    assert (document["rank"], document["reals_of_a_row"]) == (4, 6)
    # Once more with the recurrence in plain fractions, from the numbers printed.
    world = [Fraction(x) for x in document["collision"]["worlds"][1]]
    state = [Fraction(0)] * 4
    for t in range(6):
        key = [Fraction(x) for x in given["keys"][t].tolist()]
        a, value = Fraction(0.9), world[t]
        recalled = sum(a * s * k for s, k in zip(state, key, strict=True))
        state = [a * s + (value - recalled) * k for s, k in zip(state, key, strict=True)]
    assert not any(state)
    assert document["collision"]["answers"][0] == "0" != document["collision"]["answers"][1]
    wide = collide(read_encoder(write(tmp_path / "wide.npz", keys=np.eye(3), rates=np.ones(3), gates=np.ones(3))))
    assert wide["verdict"] == "no two worlds collide"
    with pytest.raises(SystemExit):
        main(["collide", str(short)])
    assert "two worlds collide" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arrays", "part"),
    [
        ({"keys": np.eye(2), "rates": np.ones(2)}, "expected arrays keys, rates, gates"),
        ({"keys": np.eye(2), "rates": np.ones(3), "gates": np.ones(2)}, "rates: expected shape"),
        ({"keys": np.eye(2) * np.nan, "rates": np.ones(2), "gates": np.ones(2)}, "keys: expected finite numbers"),
        ({"keys": np.eye(2), "rates": np.ones(2), "gates": np.ones(2), "blocks": np.arange(2)}, "expected inputs"),
        ({"keys": np.eye(2), "rates": np.array(["a", "b"]), "gates": np.ones(2)}, "rates: expected numbers"),
        (
            {
                "keys": np.eye(1),
                "rates": np.ones(1),
                "gates": np.ones(1),
                "inputs": np.eye(1),
                "blocks": np.array([-1]),
            },
            "expected block numbers from 0 on",
        ),
    ],
)
def test_collide_refuses_in_one_sentence(tmp_path, capsys, arrays, part):
    with pytest.raises(SystemExit) as done:
        main(["collide", str(write(tmp_path / "bad.npz", **arrays))])
    assert done.value.code == 2
    error = capsys.readouterr().err
    assert part in error
    assert error.count("\n") == 1


def test_collide_refuses_a_file_that_is_none(tmp_path, capsys):
    (tmp_path / "text.npz").write_text("not a file of arrays")
    for path in (tmp_path / "text.npz", tmp_path / "absent.npz"):
        with pytest.raises(SystemExit) as done:
            main(["collide", str(path)])
        assert done.value.code == 2
        assert "expected an npz file" in capsys.readouterr().err
