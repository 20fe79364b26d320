"""RLlib, new API stack: steps/s of PPO's sampling from two env runners."""

from __future__ import annotations

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample

from benchmarks.measure import (
    HIDDEN_LAYERS,
    STEPS_PER_ENV,
    measure_rate,
    report,
    sampling_arguments,
)
from benchmarks.peers.rllib_start import start_ray

RUNNERS = 2


def main() -> None:
    arguments = sampling_arguments(__doc__).parse_args()
    start_ray()
    batch = STEPS_PER_ENV * arguments.envs * RUNNERS
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=RUNNERS, num_envs_per_env_runner=arguments.envs)
        .training(train_batch_size_per_learner=batch, minibatch_size=batch)
        .rl_module(
            model_config=DefaultModelConfig(fcnet_hiddens=HIDDEN_LAYERS, fcnet_activation="tanh")
        )
        .debugging(seed=arguments.seed, log_level="ERROR")
    )
    algorithm = config.build_algo()

    def sample() -> int:
        episodes, _ = synchronous_parallel_sample(
            worker_set=algorithm.env_runner_group,
            max_env_steps=batch,
            sample_timeout_s=60.0,
            _uses_new_env_runners=True,
            _return_metrics=True,
        )
        return sum(map(len, episodes))

    measured = measure_rate(sample, arguments.seconds, arguments.warm_up)
    algorithm.stop()
    ray.shutdown()
    report(program="RLlib", version=ray.__version__, **measured)


if __name__ == "__main__":
    main()
