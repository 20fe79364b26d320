"""How every side of a benchmark is timed: the same few lines for dtrainer and for the peers.

Only the standard library is imported here, because the peers' Python runs it too.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

HIDDEN_LAYERS = [64, 64]
"""Tanh layers of the acting network in the sampling benchmark, the same for everyone."""

STEPS_PER_ENV = 64
"""Steps of each environment in one sampling call, the same for everyone."""

SOLVED_RETURN = 475.0
"""CartPole-v1 is solved when the last `SOLVED_EPISODES` training episodes reach this mean."""

SOLVED_EPISODES = 100


def sampling_arguments(description: str | None) -> argparse.ArgumentParser:
    """Make the arguments that each sampling program takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds to measure")
    parser.add_argument("--warm-up", type=float, default=2.0, help="seconds before that")
    parser.add_argument("--envs", type=int, default=32, help="environments in each process")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def learning_arguments(description: str | None) -> argparse.ArgumentParser:
    """Make the arguments that each learning program takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-steps", type=int, default=0, help="0: what its settings say")
    return parser


def measure_rate(
    sample: Callable[[], int], seconds: float, warm_up: float
) -> dict[str, int | float]:
    """Call `sample` for a while and count the environment steps that it returns.

    Parameters
    ----------
    sample
        Samples once and returns how many environment steps that were.
    seconds
        Least wall-clock time to measure; the call that crosses it is finished and counted.
    warm_up
        Wall-clock seconds of calls that are not counted.
    """
    begin = time.perf_counter()
    while time.perf_counter() - begin < warm_up:
        sample()
    steps = 0
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        steps += sample()
    elapsed = time.perf_counter() - begin
    return {
        "environment_steps": steps,
        "seconds": elapsed,
        "steps_per_second": steps / elapsed,
    }


def report(**values: object) -> None:
    """Print the measurement as the program's one line of JSON."""
    print(json.dumps(values), flush=True)
