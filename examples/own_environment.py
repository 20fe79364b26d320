"""Train PPO in an environment of your own, with two actors on this machine.

    python examples/own_environment.py

The class travels to the actors by itself; nothing has to be registered or installed.
"""

import gymnasium as gym
import numpy as np

from dtrainer import PPO


class Thermostat(gym.Env):
    """Keep a room at 20 degrees with a heater of 0 to 3 kW while the weather changes."""

    observation_space = gym.spaces.Box(-2.0, 2.0, (2,), np.float32)
    action_space = gym.spaces.Box(0.0, 3.0, (1,), np.float32)

    def __init__(self, length=96):
        self.length = length  # quarters of an hour

    def _obs(self):
        return np.array([(self.room - 20) / 10, (self.outside - 10) / 10], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)  # self.np_random is the episode's own generator
        self.steps = 0
        self.room = self.np_random.uniform(16, 24)
        self.outside = self.np_random.uniform(0, 15)
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        self.outside = np.clip(self.outside + self.np_random.normal(0, 0.3), -5, 20)
        self.room += 0.1 * (self.outside - self.room) + float(action[0])
        reward = -abs(self.room - 20)
        # The day ends, the room does not: a time limit truncates, it does not terminate.
        return self._obs(), reward, False, self.steps >= self.length, {}


config = {
    "env_config": {"length": 96},  # what the class is made with
    "num_workers": 2,
    "num_envs_per_worker": 4,
    "train_batch_size": 1536,
    "sgd_minibatch_size": 256,
    "gamma": 0.9,
    "lr": 1e-3,
    "normalize_actions": True,
    "seed": 1,
}

with PPO(config, env=Thermostat) as trainer:
    for _ in range(15):
        result = trainer.train()
        print(
            f"{result['timesteps_total']:6d} steps: {result['episode_reward_mean']:7.1f} degrees "
            "of discomfort a day"
        )
    cold = np.array([-0.5, -1.0], np.float32)  # 15 degrees inside, 0 outside
    print("heating when it is cold:", trainer.compute_action(cold, explore=False), "kW")
    print("checkpoint:", trainer.save())
