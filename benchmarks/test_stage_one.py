"""Stage 1 of a large log, and exact Krylov dimensions: ``pytest benchmarks/test_stage_one.py --benchmark-only``.

The log has CONTEXTPROOF_ROWS transitions (10,000,000 if not set; the full run is 100,000,000) of 1,000 states with 8
successors each, in one Parquet file in a temporary folder, written in chunks.

Predicted before measuring: a streaming group-by reads and counts at once, so it should be no slower than reading the
whole file and counting with `np.bincount`, which sums rewards in float64 where the group-by is exact; and its memory is
that of a few morsels and the counts, below 512 MiB at any number of rows. The Krylov dimension of a sparse task
(n = 2,000, 8 successors a state, k = 64) should take less than 2 s; dense products modulo the same primes touch 250
times as many entries.
"""

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from flint import nmod_mat

from numerics.logs import CountedTask, read_log
from numerics.temporal_difference.dimension import krylov_dimension

ROWS = int(float(os.environ.get("CONTEXTPROOF_ROWS", "1e7")))
CHUNK, STATES, SUCCESSORS = 2**20, 1000, 8
MEMORY_LIMIT = 512 * 2**20
COLUMNS = ("state", "next_state", "reward", "0.99", "done")
KRYLOV_STATES, BLOCKS, DEPTH = 2000, 64, 100


@pytest.fixture(scope="module", params=["continuous", "few"])
def log(request, tmp_path_factory):
    """A log with continuous rewards, or with 64 values of them."""
    folder = tmp_path_factory.mktemp("log")
    draw = np.random.default_rng(0)
    successors = draw.integers(0, STATES, (STATES, SUCCESSORS))
    values = draw.standard_normal(64)
    for first in range(0, ROWS, CHUNK):
        rows = min(CHUNK, ROWS - first)
        states = draw.integers(0, STATES, rows)
        rewards = draw.standard_normal(rows) if request.param == "continuous" else values[draw.integers(0, 64, rows)]
        chunk = pl.DataFrame(
            {
                "state": states,
                "next_state": successors[states, draw.integers(0, SUCCESSORS, rows)],
                "reward": rewards,
                "done": draw.random(rows) < 0.01,
            }
        )
        chunk.write_parquet(folder / f"{first:012d}.part")
    path = folder / "log.parquet"
    pl.scan_parquet(folder / "*.part").sink_parquet(path)
    for part in folder.glob("*.part"):
        part.unlink()
    yield path
    path.unlink()


def count_whole(path):
    """The baseline: everything in memory, rewards summed in float64."""
    frame = pl.read_parquet(path)
    states, successors, done = (frame[c].to_numpy() for c in ("state", "next_state", "done"))
    going = ~done
    counts = np.bincount(states[going] * STATES + successors[going], minlength=STATES**2)
    visits = np.bincount(states, minlength=STATES)
    return counts, visits, np.bincount(states, weights=frame["reward"].to_numpy(), minlength=STATES)


@pytest.mark.benchmark(group="stage 1")
def test_streamed_exactly(benchmark, log):
    found = benchmark.pedantic(read_log, (log, *COLUMNS), rounds=3).task
    counts, visits, rewards = count_whole(log)
    assert found.counts.reshape(-1).tolist() == counts.tolist()
    assert found.visits.tolist() == visits.tolist()
    assert [float(x) for x in found.reward_sums] == pytest.approx(rewards.tolist(), rel=1e-6, abs=1e-6)
    benchmark.extra_info["rows"] = ROWS


@pytest.mark.benchmark(group="stage 1")
def test_read_whole_and_bincount(benchmark, log):
    benchmark.pedantic(count_whole, (log,), rounds=3)
    benchmark.extra_info["rows"] = ROWS


@pytest.mark.benchmark(group="stage 1, a new process")
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is read from /proc")
def test_resident_memory(benchmark, log):
    program = (
        "import sys; from numerics.logs import read_log; read_log(*sys.argv[1:]); "
        "print(next(x for x in open('/proc/self/status') if x.startswith('VmHWM')).split()[1])"
    )
    command = [sys.executable, "-c", program, str(log), *COLUMNS]
    result = benchmark.pedantic(
        subprocess.run, (command,), {"capture_output": True, "text": True, "check": True}, rounds=1
    )
    benchmark.extra_info["peak MiB"] = int(result.stdout) // 1024
    assert int(result.stdout) * 1024 < MEMORY_LIMIT


def block_task():
    """States in blocks that are alike: equal counts into the same blocks, equal rewards, so that k is at most 64."""
    draw = np.random.default_rng(1)
    members = [np.flatnonzero(np.arange(KRYLOV_STATES) % BLOCKS == b) for b in range(BLOCKS)]
    blocks = [draw.choice(BLOCKS, SUCCESSORS, replace=False) for _ in range(BLOCKS)]
    weights = draw.integers(1, 9, (BLOCKS, SUCCESSORS))
    table = {}
    for i in range(KRYLOV_STATES):
        b = i % BLOCKS
        for target, weight in zip(blocks[b], weights[b], strict=True):
            table[i, int(draw.choice(members[target]))] = int(weight)
    keys = sorted(table)
    pairs = np.array(keys).T
    times = np.array([table[key] for key in keys])
    visits = np.bincount(pairs[0], weights=times, minlength=KRYLOV_STATES).astype(np.int64)
    gains = draw.integers(-9, 9, BLOCKS)
    sums = [Fraction(int(gains[i % BLOCKS] * visits[i])) for i in range(KRYLOV_STATES)]
    name = f"blocks(n={KRYLOV_STATES}, blocks={BLOCKS}, seed=1)"
    return CountedTask(
        KRYLOV_STATES, Fraction(9, 10), name, int(visits.sum()), (pairs[0], pairs[1], times), visits, sums
    )


@pytest.fixture(scope="module")
def blocks():
    return block_task()


@pytest.mark.benchmark(group="Krylov dimension, n = 2,000, k = 64, L = 100")
def test_dimension(benchmark, blocks):
    found = benchmark.pedantic(krylov_dimension, (blocks, DEPTH), rounds=3, warmup_rounds=1)
    assert found.value == BLOCKS
    benchmark.extra_info["method"] = f"{found.method}: {found.evidence}"


@pytest.mark.benchmark(group="Krylov dimension, n = 2,000, k = 64, L = 100")
def test_dense_products_modulo_two_primes(benchmark, blocks):
    """The baseline: dense matrix-vector products and one rank for each prime, by FLINT."""

    def ranks():
        n = blocks.n
        for p in krylov_dimension(blocks, DEPTH).primes:
            dense = [0] * (n * n)
            for i, j, times in zip(*(x.tolist() for x in blocks.pairs), strict=True):
                dense[i * n + j] = times * 9 * pow(10 * int(blocks.visits[i]), -1, p) % p
            A = nmod_mat(n, n, dense, p)
            means = [int(x / v) % p for x, v in zip(blocks.reward_sums, blocks.visits.tolist(), strict=True)]
            vector = nmod_mat(n, 1, means, p)
            rows = []
            for _ in range(DEPTH):
                rows += vector.entries()
                vector = A * vector
            assert nmod_mat(DEPTH, n, rows, p).rank() == BLOCKS

    benchmark.pedantic(ranks, rounds=1)
