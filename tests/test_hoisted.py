"""Scores taken out of a loop: the same steps as the program's, in Q and in floats, where that is allowed."""

from dataclasses import replace

import pytest
import torch

from constructions.exact import RATIONALS
from constructions.hoisted import hoistable, hoisted_steps
from constructions.layers import Head, LinearAttention, Repeat, full
from constructions.temporal_difference import executor, hessenberg, joint_training, learnability
from numerics import tasks
from numerics.torch_arithmetic import TorchArithmetic, batched


@pytest.mark.parametrize("build", [executor.construction, executor.from_context, joint_training.construction])
def test_same_steps_in_Q(build):
    task = tasks.dirichlet_chain(n=3, transitions=12)
    built = build(3, 4)
    tokens = built.encode(task, RATIONALS)
    plain, hoisted = (
        list(run) for run in (built.program.steps(tokens, RATIONALS), hoisted_steps(built.program, tokens, RATIONALS))
    )
    assert [label for label, _ in plain] == [label for label, _ in hoisted]
    assert all(a.blocks == b.blocks for (_, a), (_, b) in zip(plain, hoisted, strict=True))
    assert hoistable(built.program.layers[-1])


def test_a_batch_with_shared_queries():
    arithmetic = TorchArithmetic("float64")
    built = executor.from_context(4, 6)
    chains = [tasks.dirichlet_chain(n=4, transitions=20, seed=seed) for seed in range(3)]
    tokens = batched([built.encode(task, arithmetic) for task in chains])
    shared = tokens.replacing({("query", "x"): tokens.blocks["query", "x"][0]})
    answers = [built.decode(hoisted_steps(built.program, bank, arithmetic), arithmetic) for bank in (tokens, shared)]
    for task, one, other in zip(chains, *answers, strict=True):
        exact = arithmetic.matrix(executor.td_values(task, 6, RATIONALS).tolist())
        assert torch.allclose(one, exact, atol=1e-13)
        assert torch.equal(one, other)


def test_what_a_loop_changes_or_sees_in_part_stays_in_it():
    loop = learnability.construction(3, 4).program.layers[0]
    (layer,) = loop.layers
    assert hoistable(loop)
    assert not hoistable(layer)
    written = Head("r", "r", "r", "r", (full("source", "source"),))
    assert not hoistable(replace(loop, layers=(replace(layer, heads=(*layer.heads, written)),)))
    assert not hoistable(Repeat((LinearAttention((replace(layer.heads[0], mixing=layer.heads[0].weight),)),), 2))
    part = replace(layer.heads[0], routes=(full("source", replace(layer.heads[0].routes[0].source, start=1)),))
    assert not hoistable(Repeat((LinearAttention((part,)),), 2))
    assert not hoistable(hessenberg.from_context(3, 4).program.layers[-1])
