"""RLlib, new API stack: seconds until PPO solves CartPole-v1, with its tuned example's settings."""

from __future__ import annotations

import time

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from benchmarks.measure import SOLVED_EPISODES, SOLVED_RETURN, learning_arguments, report
from benchmarks.peers.rllib_start import start_ray

TUNED_STEPS = 200_000


def main() -> None:
    arguments = learning_arguments(__doc__).parse_args()
    start_ray()
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2)
        .training(gamma=0.99, lr=0.0003, num_epochs=6, vf_loss_coeff=0.01, use_kl_loss=True)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True
            )
        )
        .reporting(metrics_num_episodes_for_smoothing=SOLVED_EPISODES)
        .debugging(seed=arguments.seed, log_level="ERROR")
    )
    algorithm = config.build_algo()
    mean_return, steps, solved = float("nan"), 0, False
    begin = time.perf_counter()
    while steps < (arguments.max_steps or TUNED_STEPS) and not solved:
        result = algorithm.train()
        mean_return = float(result["env_runners"]["episode_return_mean"])
        steps = int(result["num_env_steps_sampled_lifetime"])
        solved = mean_return >= SOLVED_RETURN
    seconds = time.perf_counter() - begin
    algorithm.stop()
    ray.shutdown()
    report(
        program="RLlib",
        version=ray.__version__,
        seed=arguments.seed,
        solved=solved,
        seconds=seconds,
        environment_steps=steps,
        episode_reward_mean=mean_return,
    )


if __name__ == "__main__":
    main()
