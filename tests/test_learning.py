"""Learning the executor: constants, ranks and descent against float oracles, degenerate samples, bad input."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
import torch
from flint import fmpq, fmpq_mat
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput, Unsupported
from constructions.exact import RATIONALS
from constructions.layers import fixed
from constructions.temporal_difference import executor, identifiability, joint_training, krylov, learnability
from numerics import tasks
from numerics.temporal_difference import joint_training as joint_measured
from numerics.temporal_difference import learnability as measured
from numerics.temporal_difference import recovery, recovery_curvature, recovery_table
from numerics.temporal_difference.learnability import closed_moments
from numerics.torch_arithmetic import TorchArithmetic
from proofs_check.claim import Verdict
from proofs_check.jets import Jets
from proofs_check.temporal_difference import free_weights
from proofs_check.temporal_difference import identifiability as identifiability_proofs
from proofs_check.temporal_difference import learnability as learnability_proofs


def chains(n, count, seed=0):
    return [tasks.dirichlet_chain(n=n, transitions=5 * n, seed=seed + i) for i in range(count)]


def floats(matrix):
    return np.array([[float(Fraction(int(x.p), int(x.q))) for x in row] for row in matrix.tolist()])


@settings(max_examples=25)
@given(n=st.integers(1, 4), depth=st.integers(1, 6), seed=st.integers(0, 50))
def test_the_free_executor_at_minus_one_and_one_is_the_executor(n, depth, seed):
    (task,) = chains(n, 1, seed)
    built = learnability.construction(n, depth)
    assert built.outputs(task, RATIONALS) == executor.td_values(task, depth, RATIONALS)
    assert built.outputs(task, RATIONALS, faithful=True) == executor.td_values(task, depth, RATIONALS)


def loss_in_floats(chosen, weights):
    """J by its definition, with numpy, for C and W by rows."""
    n = chosen[0].n
    C, W = np.reshape(weights, (2, n, n))
    total = 0.0
    for task in chosen:
        A = floats(task.A)
        F = np.eye(n) + C.T + A @ W
        total += ((-C.T - np.eye(n)) ** 2).sum() + ((F - A) ** 2).sum()
    return total / (2 * len(chosen))


@settings(max_examples=25)
@given(n=st.integers(1, 3), seed=st.integers(0, 20))
def test_the_calibrated_loss_is_what_it_says(n, seed):
    chosen = chains(n, 2, seed)
    weights = [Fraction(int(x), 7) for x in np.random.default_rng(seed).integers(-9, 9, 2 * n * n)]
    exact = free_weights.calibrated_loss(free_weights.sample(chosen, 1))(
        *[fmpq(w.numerator, w.denominator) for w in weights]
    )
    expected = loss_in_floats(chosen, [float(w) for w in weights])
    assert float(Fraction(int(exact.p), int(exact.q))) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=25)
@given(n=st.integers(1, 5), count=st.integers(5, 9), seed=st.integers(0, 20))
def test_constants_agree_with_float_eigenvalues(n, count, seed):
    chosen = chains(n, count, seed)
    found = learnability_proofs.constants_of(chosen)
    square = sum(floats(t.A).T @ floats(t.A) for t in chosen) / count
    values = np.linalg.eigvalsh(square)
    assert float(found.least) == pytest.approx(values[0], abs=2e-6)
    assert float(found.most) == pytest.approx(values[-1], abs=2e-6)
    hessian = np.linalg.eigvalsh(floats(learnability_proofs.hessian_block(chosen)))
    k, b = values[0], values[-1]
    assert (2 + k - np.sqrt(k * k + 4)) / 2 <= hessian[0] + 1e-12
    assert hessian[-1] <= (2 + b + np.sqrt(b * b + 4)) / 2 + 1e-12
    assert learnability_proofs.prove_constants([found]).verdict is Verdict.PROVED or found.least == 0


def test_inertia_counts_zero_and_repeated_eigenvalues_rightly():
    diagonal = RATIONALS.matrix([[d if i == j else 0 for j in range(5)] for i, d in enumerate([-2, -2, 0, 0, 3])])
    T = RATIONALS.matrix([[int(i <= j) + 3 * int(i == j + 1) for j in range(5)] for i in range(5)])
    assert T.det() != 0
    assert free_weights.negative_eigenvalues(T.transpose() * diagonal * T) == 2


def test_the_jacobian_agrees_with_finite_differences():
    chosen = free_weights.sample(chains(2, 2), 3)
    point = free_weights.weights_at(2, -1, 1)
    J = floats(free_weights.jacobian(free_weights.trajectories(chosen), point))

    def values(weights):
        C, W = np.reshape(weights, (2, 2, 2))
        out = []
        for task in chosen.tasks:
            A, r = floats(task.A), floats(task.r)[:, 0]
            s, total = r, np.zeros(2)
            for _ in range(3):
                total = total + s
                s = s + C.T @ s + A @ (W @ s)
                out.append(-C.T @ total)
        return np.concatenate(out)

    base = np.array(point, dtype=float)
    for j in range(8):
        h = 1e-6 * np.eye(8)[j]
        assert np.allclose((values(base + h) - values(base - h)) / 2e-6, J[:, j], atol=1e-8)


def test_trajectories_identify_only_where_the_moment_is_positive():
    same = [replace(t, rewards=np.ones(t.transitions, dtype=np.int64)) for t in chains(2, 6)]
    ranked = identifiability_proofs.Ranked
    kernel = identifiability_proofs.constant_reward_kernel(2)
    assert (
        identifiability_proofs.prove_ranks([ranked(free_weights.sample(same, 4), 4, kernel)]).verdict is Verdict.PROVED
    )
    assert identifiability_proofs.prove_ranks([ranked(free_weights.sample(same, 4), 8)]).verdict is Verdict.REFUTED
    full = [ranked(free_weights.sample(chains(2, 3), 2), 8)]
    assert identifiability_proofs.prove_ranks(full).verdict is Verdict.PROVED


@settings(max_examples=10)
@given(a=st.fractions(Fraction(1, 2), 1, max_denominator=8), seed=st.integers(0, 10))
def test_the_family_tends_to_one_fixed_point(a, seed):
    (task,) = chains(3, 1, seed)
    found = identifiability.family(3, 30, a).outputs(task, TorchArithmetic("float64")).numpy()
    limit = np.linalg.solve(np.eye(3) - floats(task.A), floats(task.r))[:, 0]
    F = np.eye(3) - float(a) * (np.eye(3) - floats(task.A))
    assert np.allclose(found[-1], limit - np.linalg.matrix_power(F, 30) @ limit, atol=1e-10)


def test_descent_lies_within_its_certified_bound():
    for dtype in ("float32", "float64"):
        found = measured.measure_descent(chains(3, 8), TorchArithmetic(dtype), seed=3)
        assert found.sound
        assert found.error.absolute > 0


def test_bad_input_is_refused():
    with pytest.raises(BadInput, match="one number of states"):
        free_weights.sample([*chains(2, 1), *chains(3, 1)], 1)
    with pytest.raises(BadInput, match="no task"):
        free_weights.sample([], 1)
    for arguments in ((0, 1), (2, 0), (True, 1)):
        with pytest.raises(BadInput):
            learnability.construction(*arguments)


def test_jets_are_values_with_derivatives():
    jets = Jets({"x": Fraction(3, 2), "y": -2})
    x, y = (jets.matrix([[sp.Symbol(name)]]) for name in "xy")
    product = jets.matmul(jets.recip_0(x), jets.hadamard(y, y))
    assert product[0, 0].value == fmpq(8, 3)
    assert jets.jacobian(product).entries() == [fmpq(-16, 9), fmpq(-8, 3)]
    assert jets.nonzero(jets.matrix([[0, 1]])) == [False, True]
    with pytest.raises(Unsupported):
        jets.nonzero(jets.add(y, jets.matrix([[2]])))


@settings(max_examples=20)
@given(a=st.fractions(-2, 2, max_denominator=5), b=st.fractions(-2, 2, max_denominator=5), n=st.integers(1, 3))
def test_the_surface_is_exact(a, b, n):
    task = tasks.dirichlet_chain(n=n, transitions=4 * n, seed=n)
    if a == 0 or b == 0:
        with pytest.raises(BadInput, match="other than zero"):
            joint_training.surface(a, b)
    else:
        built = joint_training.construction(n, 4, joint_training.surface(a, b))
        assert built.outputs(task, RATIONALS) == executor.td_values(task, 4, RATIONALS)


def test_a_head_without_its_weight_is_missed():
    (layer,) = [x for x in krylov.encoder_program(2, 2).layers if getattr(x, "label", "") == "compile"]
    with pytest.raises(BadInput, match="expected heads for G"):
        joint_training.compile_with(replace(layer, heads=layer.heads[:3]), joint_training.surface())


SMALL = recovery.Setting(states=4, depth=5, tasks=40, starts=2, concentration=1.0, seed=1)


def test_recovery_trains_the_built_layer():
    """The values trained on are those of the free executor, at weights that float64 holds exactly."""
    sampled = recovery.sample_tasks(SMALL)
    weights = np.rint(64 * np.random.default_rng(0).standard_normal((1, 8, 4))) / 256
    C, W = (
        fixed(name, [[Fraction(x) for x in row] for row in part.tolist()])
        for name, part in (("C", weights[0, :4].T), ("W", weights[0, 4:]))
    )
    program = learnability.free_program(4, 5, C, W)
    arithmetic = TorchArithmetic("float64")
    found = recovery.estimated_values(*(torch.from_numpy(x) for x in (weights, sampled.A[:3], sampled.r[:3])), 5)
    for t in range(3):
        tokens = learnability.state_tokens(
            torch.from_numpy(sampled.A[t]), torch.from_numpy(sampled.r[t][:, None]), arithmetic
        )
        built = executor.VALUES.rows(program.steps(tokens, arithmetic), 4, arithmetic)[1:]
        assert torch.allclose(found[:, 0, :, t], built, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("end_point", [False, True])
def test_the_adjoint_gradient_is_that_of_automatic_differentiation(end_point):
    sampled = recovery.sample_tasks(SMALL)
    A, r, values = (torch.from_numpy(x) for x in (sampled.A, sampled.r, sampled.values))
    weights = torch.from_numpy(recovery.start_weights(SMALL) * 20).requires_grad_()
    gap = recovery.estimated_values(weights, A, r, 5) - values.permute(1, 2, 0).unsqueeze(1)
    gap = gap[-1:] if end_point else gap
    (0.5 * gap.square().mean(dim=(0, 2, 3)).sum()).backward()
    found = recovery.loss_gradient(weights.detach(), A, r, values, end_point=end_point)
    assert torch.allclose(found, weights.grad, rtol=1e-10, atol=1e-13)


def test_an_interrupted_run_ends_in_the_same_weights(tmp_path):
    sampled, training = recovery.sample_tasks(SMALL), recovery.Training("trajectory", 30, batch=8)
    told = []
    whole = recovery.train(SMALL, training, sampled, announce=lambda *what: told.append(what))
    assert told[-1] == ("trajectory loss, L=5, g=0.9, 30 steps", 30, 30)
    recovery.train(SMALL, training, sampled, folder=tmp_path, every=5, stop_after=18)
    (file,) = tmp_path.iterdir()
    assert int(np.load(file)["step"]) == 15
    assert np.array_equal(recovery.train(SMALL, training, sampled, folder=tmp_path, every=5), whole)
    assert np.array_equal(recovery.train(SMALL, training, sampled, folder=tmp_path), whole)
    file.write_bytes(b"not a checkpoint")
    with pytest.raises(BadInput, match="expected a checkpoint, found a damaged file"):
        recovery.train(SMALL, training, sampled, folder=tmp_path)
    other = recovery.Training("trajectory", 30, batch=9)
    assert not np.array_equal(recovery.train(SMALL, other, sampled, folder=tmp_path), whole)


def test_losses_are_ordered_on_a_small_sample():
    sampled, start = recovery.sample_tasks(SMALL), recovery.start_weights(SMALL)
    moments = closed_moments(sampled.A)
    quadratic = recovery.parameter_errors(recovery.descend_quadratic(moments, start, 2000))
    adam = recovery.parameter_errors(recovery.adam_quadratic(moments, start, 1500))
    constant = recovery.parameter_errors(recovery.adam_quadratic(moments, start, 200, decaying=False))
    assert max(quadratic + adam) < 5e-15
    assert min(constant) > 1e-10
    short, long, end = (
        recovery.parameter_errors(recovery.train(SMALL, recovery.Training(loss, steps, batch=16), sampled))
        for loss, steps in (("trajectory", 50), ("trajectory", 200), ("end point", 50))
    )
    assert all(a < b < c for a, b, c in zip(long, short, end, strict=True))
    shallow = replace(SMALL, depth=2)
    two = recovery.train(shallow, recovery.Training("trajectory", 200, batch=16), recovery.sample_tasks(shallow))
    assert 5 * max(recovery.parameter_errors(two)) < min(long)


def test_the_hessian_of_the_trajectory_loss_is_that_of_the_exact_jacobian():
    chosen = chains(2, 3)
    J = floats(
        free_weights.jacobian(
            free_weights.trajectories(free_weights.sample(chosen, 3)), free_weights.weights_at(2, -1, 1)
        )
    )
    values = np.stack([floats(executor.td_values(t, 3, RATIONALS))[1:] for t in chosen])
    sampled = recovery.Sampled(
        np.stack([floats(t.A) for t in chosen]), np.stack([floats(t.r)[:, 0] for t in chosen]), values
    )
    eigenvalues = np.linalg.eigvalsh(J.T @ J) / len(J)
    found = recovery_curvature.curvature(sampled)
    assert np.allclose(found.eigenvalues, eigenvalues, rtol=1e-9, atol=1e-15)
    assert found.condition == pytest.approx(eigenvalues[-1] / eigenvalues[0], rel=1e-6)


def test_normal_equations_hold_the_gradient_and_the_second_differences():
    sampled = recovery_curvature.first_tasks(recovery.sample_tasks(SMALL), 7)
    tensors = [torch.from_numpy(x) for x in (sampled.A, sampled.r, sampled.values)]
    weights = recovery.start_weights(SMALL)[0] * 20
    found = recovery_curvature.normal_equations(weights, sampled)
    expected = recovery.loss_gradient(torch.from_numpy(weights)[None], *tensors, end_point=False)[0].numpy()
    assert np.allclose(found.right, expected.ravel(), rtol=1e-10, atol=1e-13)
    assert found.loss == pytest.approx(recovery_curvature.trajectory_loss(weights, sampled), rel=1e-12)
    # Away from (-I, I), where an exact Jacobian has other columns: the derivative of v^ along one direction, squared.
    along = 1e-6 * np.random.default_rng(0).standard_normal(weights.shape)
    ahead, behind = (
        recovery.estimated_values(torch.from_numpy(weights + sign * along)[None], *tensors[:2], 5) for sign in (1, -1)
    )
    slope = float((((ahead - behind) / 2) ** 2).mean())
    assert along.ravel() @ found.matrix @ along.ravel() == pytest.approx(slope, rel=1e-6)


@settings(max_examples=15)
@given(n=st.integers(1, 3), depth=st.integers(1, 6), seed=st.integers(0, 50))
def test_every_pair_of_opposite_weights_has_the_same_limit(n, depth, seed):
    """(C', W) = (-T, T): v^_L = (I - (I - T (I - A))^L) (I - A)^-1 r, in Q, on the built layer."""
    (task,) = chains(n, 1, seed)
    T = fmpq_mat(n, n, [fmpq(int(x), 5) for x in np.random.default_rng(seed).integers(-9, 9, n * n)])
    C, W = (
        fixed(name, [[Fraction(int(x.p), int(x.q)) for x in row] for row in part.tolist()])
        for name, part in (("C", -T.transpose()), ("W", T))
    )
    program = learnability.free_program(n, depth, C, W)
    tokens = learnability.state_tokens(task.A, task.r, RATIONALS)
    built = executor.VALUES.rows(program.steps(tokens, RATIONALS), n, RATIONALS).tolist()[-1]
    unit = fmpq_mat(n, n, [fmpq(int(i == j)) for i in range(n) for j in range(n)])
    limit = (unit - task.A).solve(task.r)
    assert built == (limit - (unit - T * (unit - task.A)) ** depth * limit).entries()


def test_the_slow_directions_leave_the_limit_as_it_is():
    shares = [
        recovery_curvature.curvature(recovery.sample_tasks(replace(SMALL, depth=depth))).slow_share
        for depth in (2, 12, 30)
    ]
    assert shares[0] < 0.6 < 0.9 < shares[1] < shares[2] <= 1


def test_the_prediction_is_gradient_descent_on_the_quadratic_part():
    found = recovery_curvature.curvature(recovery.sample_tasks(SMALL))
    hessian = found.vectors @ np.diag(found.eigenvalues) @ found.vectors.T
    start = recovery.start_weights(SMALL)
    target, weights = recovery.target_of(4).ravel(), start[0].ravel()
    for _ in range(50):
        weights = weights - hessian @ (weights - target) / found.eigenvalues[-1]
    expected = recovery.parameter_errors(weights.reshape(1, 8, 4))
    assert [found.predicted(start[0], 50)] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("depth", [2, 30])
def test_second_order_descent_recovers_the_weights(depth):
    setting = replace(SMALL, depth=depth)
    sampled = recovery_curvature.first_tasks(recovery.sample_tasks(setting), 12)
    start, _ = recovery.start_weights(setting)
    weights, steps = recovery_curvature.levenberg_marquardt(start, sampled)
    assert recovery.parameter_errors(weights[None])[0] < 1e-14
    assert 2 < steps < 30
    fewer, steps = recovery_curvature.levenberg_marquardt(start, sampled, most_steps=2)
    assert steps == 2
    losses = [recovery_curvature.trajectory_loss(w, sampled) for w in (start, fewer, weights)]
    assert losses[0] > losses[1] > losses[2]


def test_descent_from_perturbed_weights_comes_back_to_the_surface():
    chosen = chains(2, 4)
    arithmetic = TorchArithmetic("float64")
    weights, losses, _ = joint_measured.descend(chosen, 3, 0.05, 0, arithmetic, 60)
    assert losses[1] < 1e-6 * losses[0]
    assert joint_measured.surface_distance(weights) < 0.02
    assert joint_measured.surface_distance(joint_measured.compiled_weights(2, arithmetic)) == 0


def test_rows_say_where_a_figure_is_not_reached():
    far = recovery_table._row("long", SMALL, 3.3e-3, [0.08, 0.07], "too slow")
    near = recovery_table._row("short", SMALL, 7.4e-2, [0.05, 0.03, 0.04], "too slow")
    assert (far["agrees"], near["agrees"]) == (False, True)
    assert far["reason"] == "too slow; smallest 7.00e-02, median 7.50e-02"
    assert near["reason"] == "smallest 3.00e-02, median 4.00e-02"
    exact = [recovery_table._exact_row(near | {"ours": ours}, "why")["agrees"] for ours in (1e-15, 1e-9)]
    assert exact == [True, False]
    errors = {"calibrated": [1e-15, 1e-15], "long": [0.01, 0.02], "short": [0.1, 0.1], "end": [1.0, 1.0]}
    assert recovery_table._order(SMALL, errors)["agrees"]
    for changed in ({"short": [0.1, 0.01]}, {"calibrated": [0.015, 0.015]}, {"end": [1.0, 0.09]}):
        assert not recovery_table._order(SMALL, errors | changed)["agrees"]
    decides = recovery_table._what_decides(replace(SMALL, depth=12))
    assert decides["agrees"]
    moments = closed_moments(recovery.sample_tasks(SMALL).A)
    assert decides["ours"].startswith(f"{moments.high / moments.low:.1f} / ")
    assert "lie to 94 % in (M, -M)" in decides["reason"]


@pytest.mark.slow
def test_the_quick_reproduction_shows_the_order(tmp_path):
    rows = recovery_table.reproduce_recovery(quick=True, folder=tmp_path)
    assert {"name", "quantity", "setting", "source", "ours", "agrees", "reason", "seed"} <= set(rows[0])
    assert all(row["ours"] <= 5e-15 for row in rows[:2])
    assert [row["agrees"] for row in rows if row["name"].startswith("order of the losses")] == [True]
    assert len(list(tmp_path.iterdir())) == 4
    assert not any(row["agrees"] for row in rows if "discount" in row["name"] and "order" not in row["name"])
