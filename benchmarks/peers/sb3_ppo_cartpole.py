"""Stable-Baselines3: seconds until PPO solves CartPole-v1, with the RL Zoo's tuned settings."""

from __future__ import annotations

import time

import stable_baselines3
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule

from benchmarks.measure import SOLVED_EPISODES, SOLVED_RETURN, learning_arguments, report

TUNED_STEPS = 100_000


class _UntilSolved(BaseCallback):
    """Stop at the first step after which the last 100 episodes reach the threshold."""

    def __init__(self) -> None:
        super().__init__()
        self.mean_return = float("nan")
        self.solved = False

    def _on_step(self) -> bool:
        if not self.locals["dones"].any():
            return True
        # SB3 adds this step's episodes to its buffer after the callback: add them here too.
        ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        returns = [episode["r"] for episode in self.model.ep_info_buffer] + ended
        last = returns[-SOLVED_EPISODES:]
        self.mean_return = float(sum(last) / len(last))
        self.solved = len(last) == SOLVED_EPISODES and self.mean_return >= SOLVED_RETURN
        return not self.solved


def main() -> None:
    arguments = learning_arguments(__doc__).parse_args()
    torch.set_num_threads(1)  # faster than two for networks of this size
    algorithm = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=arguments.seed),
        n_steps=32,
        batch_size=256,
        gae_lambda=0.8,
        gamma=0.98,
        n_epochs=20,
        ent_coef=0.0,
        learning_rate=LinearSchedule(0.001, 0.0, 1.0),
        clip_range=LinearSchedule(0.2, 0.0, 1.0),
        device="cpu",
        seed=arguments.seed,
        stats_window_size=SOLVED_EPISODES,
    )
    until_solved = _UntilSolved()
    begin = time.perf_counter()
    algorithm.learn(arguments.max_steps or TUNED_STEPS, callback=until_solved, log_interval=None)
    seconds = time.perf_counter() - begin
    report(
        program="Stable-Baselines3",
        version=stable_baselines3.__version__,
        seed=arguments.seed,
        solved=until_solved.solved,
        seconds=seconds,
        environment_steps=algorithm.num_timesteps,
        episode_reward_mean=until_solved.mean_return,
    )


if __name__ == "__main__":
    main()
