"""Record a real log: gymnasium's FrozenLake-v1 (4x4, slippery) under a uniformly random policy.

    python examples/record_frozen_lake.py --transitions 100000 --seed 0

writes ``examples/frozen_lake.parquet`` with the columns state, next_state, reward and done. `done` is gymnasium's
`terminated`: the goal or a hole was reached, and the successor's value is 0. A truncation (the time limit of 100 steps)
is not terminal: the successor is an ordinary state whose value goes on, so such a row has done = false and the
environment is merely reset. A reset leaves no row of its own: rows are steps.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import gymnasium
import numpy as np
import polars as pl


def record(transitions: int, seed: int) -> pl.DataFrame:
    """Play `transitions` steps; the same seed gives the same rows.

    Returns:
        state and next_state as UInt8, reward as Float32 (0 or 1, hence exact), done as Boolean; one row per step.
    """
    env = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True)
    actions = np.random.default_rng(seed).integers(0, env.action_space.n, transitions)
    states = np.empty(transitions, dtype=np.uint8)
    successors = np.empty(transitions, dtype=np.uint8)
    rewards = np.empty(transitions, dtype=np.float32)
    done = np.empty(transitions, dtype=np.bool_)
    observation, _ = env.reset(seed=seed)
    for t in range(transitions):
        states[t] = observation
        observation, rewards[t], done[t], truncated, _ = env.step(int(actions[t]))
        successors[t] = observation
        if done[t] or truncated:
            observation, _ = env.reset()
    env.close()
    return pl.DataFrame({"state": states, "next_state": successors, "reward": rewards, "done": done})


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write Parquet beside `path` first and rename, so that a reader never meets half a file."""
    handle, partial = tempfile.mkstemp(suffix=".parquet", dir=path.parent)
    os.close(handle)
    try:
        frame.write_parquet(partial, compression="zstd", compression_level=19)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def main() -> None:
    """Parse the command line, record and write."""
    parser = argparse.ArgumentParser(description="Record a FrozenLake-v1 log of a uniformly random policy.")
    parser.add_argument("--transitions", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("frozen_lake.parquet"))
    options = parser.parse_args()
    frame = record(options.transitions, options.seed)
    write(frame, options.output)
    size = options.output.stat().st_size
    print(f"{options.output}: {frame.height} transitions, {int(frame['done'].sum())} terminal, {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
