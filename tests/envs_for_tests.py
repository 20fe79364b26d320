"""Small environments whose every step is known."""

import gymnasium as gym
import numpy as np


class Counter(gym.Env):
    """Counts its steps; ends after `length` of them; reward is the step's number from 1.

    The observation is `[steps, seed of the episode modulo 1000]`.
    """

    def __init__(self, length=5, kind="terminate"):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self.length = length
        self.kind = kind

    def _obs(self):
        return np.array([self.steps, self.seed_seen % 1000], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.seed_seen = seed
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        end = self.steps >= self.length
        terminated = end and self.kind == "terminate"
        return self._obs(), float(self.steps), terminated, end and not terminated, {}


class Faulty(Counter):
    """Does one wrong thing at step `at`."""

    def __init__(self, fault="raise", at=3, length=10):
        super().__init__(length)
        self.fault = fault
        self.at = at
        if fault == "dict":
            self.observation_space = gym.spaces.Dict({"a": self.observation_space})

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        if self.fault == "reset":
            raise RuntimeError("no licence left")
        return obs, info

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if self.steps == self.at:
            if self.fault == "raise":
                raise RuntimeError("the simulator crashed")
            if self.fault == "nan":
                obs[1] = np.nan
            if self.fault == "nan_reward":
                reward = float("nan")
            if self.fault == "shape":
                obs = np.zeros(3, np.float32)
            if self.fault == "dtype":
                obs = np.array(["a", "b"])
            if self.fault == "exit":
                import os

                os._exit(3)
        return obs, reward, terminated, truncated, info


class Walk(gym.Env):
    """A random walk that the action pushes: observation and reward depend on generator and past."""

    def __init__(self, size=3, drift=0.1):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (size,), np.float32)
        self.drift = drift

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.normal(size=self.observation_space.shape)
        return self.position.copy(), {}

    def step(self, action):
        noise = self.np_random.normal(size=self.position.shape)
        self.position = self.position + 0.1 * np.asarray(action) + self.drift * noise
        reward = -float(np.abs(self.position).sum())
        return self.position.copy(), reward, bool(self.np_random.random() < 0.03), False, {}


class Forgetful(Walk):
    """Claims to be seeded and is not."""

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        self.np_random = np.random.default_rng()
        return obs, info
