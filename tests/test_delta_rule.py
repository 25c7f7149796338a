"""The gated delta rule: the kernel against recurrence, exact layer and an independent library; certified errors."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from constructions.errors import BadInput
from constructions.exact import RATIONALS
from constructions.recurrent import delta_rule
from constructions.recurrent.streams import Stream, random_stream
from constructions.tokens import Tokens
from numerics.errors import error_against
from numerics.recurrent import delta_rule as numeric
from numerics.recurrent.certified_error import certify_states, enclosed_state, exact_stream
from numerics.recurrent.kernel import chunked, expansion, recurrent
from numerics.torch_arithmetic import TorchArithmetic

FORMATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def draw(T, d_k, d_v, *, batch=(), gate=1.0, rate=None, seed=0, dtype=torch.float64, unit=True):
    """Keys, values, queries, rates, log gates, state; b |k|^2 is drawn among 0, 0.7, 1, 2 if not given."""
    rng = torch.Generator().manual_seed(seed)
    k, q = torch.randn(2, *batch, T, d_k, generator=rng, dtype=torch.float64)
    v = torch.randn(*batch, T, d_v, generator=rng, dtype=torch.float64)
    state = torch.randn(*batch, d_v, d_k, generator=rng, dtype=torch.float64)
    norm = k.norm(dim=-1)
    if unit:
        k, norm = k / norm[..., None], torch.ones_like(norm)
    kinds = torch.tensor([0.0, 1.0, 2.0, 0.7], dtype=torch.float64)
    drawn = kinds[torch.randint(4, (*batch, T), generator=rng)]
    b = (drawn if rate is None else torch.full_like(drawn, rate)) / norm**2
    logs = torch.full((*batch, T), gate, dtype=torch.float64).log()
    return [x.to(dtype) for x in (k, v, q, b)] + [logs, state]


def relative(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_kernel_is_the_exact_layer(chunk):
    stream = random_stream(10, 4, 3, seed=5, gates=[0, 1, Fraction(1, 2)])
    exact = delta_rule.construction(4, 3, 4).outputs(stream, RATIONALS)
    arithmetic = TorchArithmetic("float64")
    k, v, q, s = (arithmetic.matrix(x) for x in (stream.keys, stream.values, stream.queries, stream.initial))
    b, a = (arithmetic.matrix([x])[0] for x in (stream.rates, stream.gates))
    out, state = chunked(k, v, q, b, a.log(), s, chunk=chunk)
    assert error_against(torch.cat([out.mT, state], -1), exact).relative < 1e-13


def test_layer_runs_in_torch_and_resumes():
    stream = random_stream(9, 3, 2, seed=1)
    arithmetic = TorchArithmetic("float64")
    exact = delta_rule.reference(stream, RATIONALS)
    assert error_against(delta_rule.construction(3, 2, 4).outputs(stream, arithmetic), exact).relative < 1e-14
    head = replace(stream, **{x: getattr(stream, x)[:4] for x in ("keys", "values", "queries", "rates", "gates")})
    middle = RATIONALS.columns(delta_rule.reference(head, RATIONALS), 4, 7).tolist()
    tail = {x: getattr(stream, x)[4:] for x in ("keys", "values", "queries", "rates", "gates")}
    resumed = delta_rule.construction(3, 2, 2).outputs(replace(stream, **tail, initial=middle), RATIONALS)
    assert resumed == RATIONALS.columns(exact, 4, 12)


@settings(max_examples=25)
@given(
    T=st.integers(1, 40),
    chunk=st.integers(1, 48),
    d_k=st.integers(1, 5),
    d_v=st.integers(1, 5),
    gate=st.sampled_from([1.0, 0.9, 1e-30, 0.0]),
    rate=st.sampled_from([None, 0.0, 1.0, 2.0]),
    seed=st.integers(0, 99),
)
def test_chunked_is_recurrent(T, chunk, d_k, d_v, gate, rate, seed):
    inputs = draw(T, d_k, d_v, batch=(2,), gate=gate, rate=rate, seed=seed)
    out, state = chunked(*inputs, chunk=chunk)
    expected, last, _ = recurrent(*inputs)
    assert torch.allclose(out, expected, rtol=0, atol=1e-12 * float(1 + expected.abs().max()))
    assert torch.allclose(state, last, rtol=0, atol=1e-12 * float(1 + last.abs().max()))


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-13), (torch.float32, 2e-5)])
def test_long_runs_of_reflections(dtype, limit):
    inputs = draw(10_000, 16, 16, rate=2.0, dtype=dtype)[:5]
    out, state = chunked(*inputs)
    expected, last, _ = recurrent(*inputs)
    assert relative(state, last) < limit
    assert relative(out, expected) < limit


@pytest.mark.parametrize("gate", ["one", "mixed", "zero", "tiny"])
@pytest.mark.parametrize("T", [1, 63, 130, 512])
def test_equals_an_independent_library(T, gate):
    gdn = pytest.importorskip("attn_gym.linear.gdn")
    inputs = draw(T, 6, 5, batch=(3,), seed=T, unit=False)
    rng = torch.Generator().manual_seed(T)
    mixed = -torch.rand(3, T, generator=rng, dtype=torch.float64)
    inputs[4] = {"one": 0 * mixed, "mixed": mixed, "zero": 300 * mixed.round(), "tiny": 60 * mixed.round()}[gate]
    k, v, q, b, logs = (x.unsqueeze(2) for x in inputs[:5])  # one head, tokens first
    for run in (gdn.recurrent_gdn, gdn.chunk_gdn):
        given = {"initial_state": inputs[5][:, None], "scale": 1.0, "output_final_state": True, "impl": "reference"}
        theirs, last = run(q, k, v, logs, b, **given)
        out, state = chunked(*inputs)
        assert relative(out, theirs[:, :, 0]) < 1e-13
        assert relative(state, last[:, 0]) < 1e-13


def test_where_errors_grow_both_lie_within_their_certified_bounds():
    """b |k|^2 = 3 doubles errors along a key at every token; the libraries part, but not beyond what was certified."""
    gdn = pytest.importorskip("attn_gym.linear.gdn")
    T = 96
    k, v, q, b, logs, _ = draw(T, 4, 4, rate=3.0)
    stream = exact_stream(k, v, q, b, [1] * T)
    ours, theirs, at = [], [], range(32, T + 1, 32)
    for stop in at:
        part = [x[stop - 32 : stop] for x in (k, v, q, b, logs)]
        ours.append(chunked(*part, ours[-1] if ours else None)[1])
        keys, values, queries, rates, gates = (x[None, :, None] for x in part)
        given = {"initial_state": theirs[-1][None, None] if theirs else None, "scale": 1.0, "impl": "reference"}
        last = gdn.chunk_gdn(queries, keys, values, gates, rates, output_final_state=True, **given)[1]
        theirs.append(last[0, 0])
    bounds = [certify_states(stream, states, list(at)).last for states in (ours, theirs)]
    exact = enclosed_state(stream)
    for state, bound in zip((ours[-1], theirs[-1]), bounds, strict=True):
        assert error_against(state, exact).absolute <= bound
    assert float((ours[-1] - theirs[-1]).norm()) <= sum(bounds)
    assert certify_states(stream, ours, list(at)).growth > 1e9


def test_gates_behind_a_very_negative_one_keep_their_digits():
    """A difference of running sums in float32 would lose the 0.5 behind -30000."""
    inputs = draw(8, 3, 3, dtype=torch.float32)
    logs = torch.full((8,), math.log(0.5))
    logs[2] = -30000.0
    inputs[4] = logs
    exact = enclosed_state(exact_stream(*inputs[:4], [*[Fraction(1, 2)] * 2, 0, *[Fraction(1, 2)] * 5], inputs[5]))
    _, state = chunked(*inputs)
    assert error_against(state, exact).relative < 1e-6


@pytest.mark.parametrize("dtype", FORMATS)
def test_state_and_inverse_are_wide(dtype):
    inputs = draw(70, 8, 4, batch=(2,), gate=0.9, rate=1.0, dtype=dtype)[:5]
    out, state = chunked(*inputs)
    assert out.dtype == dtype
    assert state.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    wide, _ = chunked(*(x.double() for x in inputs))
    assert relative(out, wide) < {torch.float64: 1e-14, torch.float32: 1e-6}.get(dtype, 4 * torch.finfo(dtype).eps)


def test_backward_is_the_derivative():
    inputs = [x.requires_grad_() for x in draw(7, 3, 2, batch=(2,), gate=0.8, unit=False)]
    assert torch.autograd.gradcheck(lambda *x: chunked(*x, chunk=3), inputs)
    rule = [torch.autograd.grad(sum(y.square().sum() for y in f(*inputs)[:2]), inputs) for f in (chunked, recurrent)]
    for ours, theirs in zip(*rule, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)


def test_backward_at_vanishing_gates_is_finite():
    inputs = [x.requires_grad_() for x in draw(6, 3, 2, gate=0.0)]
    for gradient in torch.autograd.grad(chunked(*inputs, chunk=4)[1].sum(), inputs[:4], allow_unused=True):
        assert gradient is None or gradient.isfinite().all()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", FORMATS)
def test_devices_agree(dtype):
    inputs = draw(300, 64, 64, batch=(2, 2), gate=0.99, rate=1.0, dtype=dtype)
    inputs[5] = inputs[5].to(torch.float64 if dtype == torch.float64 else torch.float32)
    out, state = chunked(*(x.cuda() for x in inputs))
    here, last = chunked(*inputs)
    limit = {torch.float64: 1e-12, torch.float32: 1e-4}.get(dtype, 8 * torch.finfo(dtype).eps)
    assert relative(out.cpu(), here) < limit
    assert relative(state.cpu(), last) < max(1e-12, 1e-4 * (dtype != torch.float64))


def test_guard_reports_expansion():
    keys = torch.tensor([[1.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
    found = expansion(keys, torch.tensor([2.0, 1.0, 1.0]))
    assert (found.largest, found.tokens, found.first) == (4.0, 1, (2,))
    assert expansion(keys[:2], torch.tensor([2.0, 1.0])).first is None


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"values": torch.zeros(3, 2)}, "values of shape"),
        ({"rates": torch.zeros(4, 1)}, "rates of shape"),
        ({"state": torch.zeros(3, 2)}, "state of shape"),
        ({"chunk": 0}, "a chunk of at least one token"),
    ],
)
def test_bad_shapes_are_said(change, part):
    given = {
        "keys": torch.zeros(4, 3),
        "values": torch.zeros(4, 2),
        "queries": torch.zeros(4, 3),
        "rates": torch.zeros(4),
        "log_gates": torch.zeros(4),
    }
    with pytest.raises(BadInput, match=part):
        chunked(**{**given, **change})


MATRIX = [(s, f, model) for s in numeric.settings(0, quick=False) for f in FORMATS for model in numeric.RUNS]


def check_certified(setting, dtype, model):
    measured = numeric.measure_run(setting, model, dtype)
    assert measured.sound, measured
    assert measured.error.absolute > 0 or setting.gate < 1
    assert math.isfinite(measured.bound)


@pytest.mark.parametrize(("setting", "dtype", "model"), [x for x in MATRIX if x[0].tokens == 100][::7])
def test_certified_bound_holds(setting, dtype, model):
    check_certified(setting, dtype, model)


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "dtype", "model"), MATRIX)
def test_certified_bound_holds_in_the_whole_matrix(setting, dtype, model):
    check_certified(setting, dtype, model)


def test_certified_bound_sees_every_change():
    """A state that is off by x has a bound of at least x, at whichever token it went wrong; also when b |k|^2 > 2."""
    k, v, q, b, logs, _ = draw(20, 4, 4, rate=2.5)
    stream = exact_stream(k, v, q, b, [1] * 20)
    _, _, states = recurrent(k, v, q, b, logs, every=1)
    exact = enclosed_state(stream)
    for t in (0, 10, 19):
        wrong = [*states]
        wrong[t] = states[t] + 1e-3
        assert certify_states(stream, wrong).last > 1e-3
    later = recurrent(k[10:], v[10:], q[10:], b[10:], logs[10:], states[9] + 1e-3, every=1)[2]
    certified = certify_states(stream, states[:10] + later)
    observed = error_against(later[-1], exact).absolute
    assert 1e-3 < observed <= certified.last
    assert certified.growth > 1


def test_certified_error_of_one_exact_step():
    """By hand: S = 0, k = (1, 0), v = 1, b = 1 gives (1, 0); (3/4, 0) is off by 1/4, and a = 1/2, b = 0 halves it."""
    stream = Stream([[1, 0], [0, 1]], [[1], [0]], [[0, 0]] * 2, [1, 0], [1, Fraction(1, 2)], [[0, 0]])
    states = [torch.tensor([[0.75, 0.0]]), torch.tensor([[0.375, 0.0]])]
    certified = certify_states(stream, states)
    assert certified.bounds == (0.25, 0.125)
    assert certified.residuals == (0.25, 0.0)
    assert certified.growth == 0.5


def test_states_that_overflow_have_no_bound():
    stream = random_stream(2, 2, 2, rates=[1], gates=[1])
    bad = torch.full((2, 2), math.nan)
    assert certify_states(stream, [bad, torch.zeros(2, 2)]).bounds == (math.inf, math.inf)
    with pytest.raises(BadInput, match="increasing numbers of tokens"):
        certify_states(stream, [bad, bad], [2, 1])


def test_figures_about_precision():
    rows = numeric.reproduce_delta_rule(quick=True)
    keys = {"name", "quantity", "setting", "source", "ours", "agrees", "reason", "seed"}
    assert all(set(row) == keys and row["agrees"] != bool(row["reason"]) for row in rows)
    assert all(row["agrees"] for row in rows if row["quantity"].startswith(("relative error", "share", "largest")))
    beside = [row for row in rows if row["quantity"].startswith("ours")]
    assert beside[-1]["source"] > 1e100
    assert beside[-1]["ours"] < 1e-11


def test_balls_enclose_the_exact_state():
    stream = random_stream(12, 3, 2, seed=3)
    exact = RATIONALS.columns(delta_rule.reference(stream, RATIONALS), 12, 15)
    with ctx.workprec(2048):
        for ball, x in zip(enclosed_state(stream).entries(), exact.entries(), strict=True):
            assert ball.contains(arb(x))


def test_a_layer_without_a_state_is_refused():
    built = delta_rule.construction(2, 2, 2)
    tokens = delta_rule.encode(random_stream(2, 2, 2), RATIONALS)
    without = Tokens(tokens.counts, {key: x for key, x in tokens.blocks.items() if key[0] != "state"})
    with pytest.raises(BadInput, match="expected a state in field memory"):
        built.program.run(without, RATIONALS)


def test_streams_must_fit_together():
    with pytest.raises(BadInput, match="expected 1 rates"):
        Stream([[1]], [[1]], [[1]], [], [1], [[0]])
    with pytest.raises(BadInput, match="expected queries of width 1"):
        Stream([[1]], [[1]], [[1, 2]], [1], [1], [[0]])


def test_no_token_changes_nothing():
    inputs = draw(0, 3, 2, batch=(2,))
    out, state = chunked(*inputs)
    assert out.shape == (2, 0, 2)
    assert torch.equal(state, inputs[5])
