"""Stable-Baselines3: steps/s of PPO's rollout collection in one process."""

from __future__ import annotations

import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv

from benchmarks.measure import (
    HIDDEN_LAYERS,
    STEPS_PER_ENV,
    measure_rate,
    report,
    sampling_arguments,
)


class _Nothing(BaseCallback):
    def _on_step(self) -> bool:
        return True


def main() -> None:
    arguments = sampling_arguments(__doc__).parse_args()
    torch.set_num_threads(1)  # faster than two for networks of this size
    envs = make_vec_env(
        "CartPole-v1", n_envs=arguments.envs, seed=arguments.seed, vec_env_cls=DummyVecEnv
    )
    algorithm = PPO(
        "MlpPolicy",
        envs,
        n_steps=STEPS_PER_ENV,
        batch_size=STEPS_PER_ENV * arguments.envs,
        policy_kwargs={"net_arch": HIDDEN_LAYERS},
        device="cpu",
        seed=arguments.seed,
    )
    _, callback = algorithm._setup_learn(1_000_000_000, _Nothing())

    def sample() -> int:
        algorithm.collect_rollouts(envs, callback, algorithm.rollout_buffer, STEPS_PER_ENV)
        return STEPS_PER_ENV * arguments.envs

    measured = measure_rate(sample, arguments.seconds, arguments.warm_up)
    report(program="Stable-Baselines3", version=stable_baselines3.__version__, **measured)


if __name__ == "__main__":
    main()
