"""The bound: steps/s of CartPole-v1 alone in one process, with no policy and nothing stored."""

from __future__ import annotations

import argparse

import gymnasium
import numpy as np

from benchmarks.measure import STEPS_PER_ENV, measure_rate, report, sampling_arguments


def step_one(arguments: argparse.Namespace) -> dict[str, int | float]:
    """Step one ordinary environment."""
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=arguments.seed)
    calls = STEPS_PER_ENV * arguments.envs
    actions = np.random.default_rng(arguments.seed).integers(2, size=calls).tolist()

    def sample() -> int:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return calls

    return measure_rate(sample, arguments.seconds, arguments.warm_up)


def step_self_vectorized(arguments: argparse.Namespace) -> dict[str, int | float]:
    """Step CartPole's own vector environment, which computes all environments at once."""
    envs = gymnasium.make_vec(
        "CartPole-v1", num_envs=arguments.envs, vectorization_mode="vector_entry_point"
    )
    envs.reset(seed=arguments.seed)
    rng = np.random.default_rng(arguments.seed)
    actions = rng.integers(2, size=(STEPS_PER_ENV, arguments.envs))

    def sample() -> int:
        for row in actions:
            envs.step(row)
        return int(actions.size)

    return measure_rate(sample, arguments.seconds, arguments.warm_up)


def main() -> None:
    parser = sampling_arguments(__doc__)
    parser.add_argument("--vectorize-mode", choices=["sync", "self"], default="sync")
    arguments = parser.parse_args()
    step = step_one if arguments.vectorize_mode == "sync" else step_self_vectorized
    report(program="gymnasium", version=gymnasium.__version__, **step(arguments))


if __name__ == "__main__":
    main()
