"""Several environments stepped side by side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class EnvFailure(Exception):  # noqa: N818 - no error for people, that is EnvError
    """One environment of a batch raised or broke its declared spaces.

    The sampler knows the episode's seed and step and turns this into an `EnvError`.

    Parameters
    ----------
    index
        Which environment of the batch, from 0; None where they step as one.
    what
        One sentence without subject: "raised ValueError: …", "returned …".
    """

    def __init__(self, index: int | None, what: str) -> None:
        super().__init__(what)
        self.index = index
        self.what = what


class EnvBatch(ABC):
    """N environments of the same spaces.

    Observations are written as float32 into rows that the caller owns.

    Attributes
    ----------
    num_envs
        N.
    observation_space, action_space
        Of one environment.
    resets_itself
        Whether an environment that is done starts its next episode within the following step,
        which is then no transition (Gymnasium's next-step autoreset). Otherwise the caller
        resets it by `reset_one`.
    """

    num_envs: int
    observation_space: gym.spaces.Box
    action_space: gym.Space  # type: ignore[type-arg]
    resets_itself: bool = False

    @abstractmethod
    def reset(self, seeds: list[int], obs: Array) -> None:
        """Start an episode in every environment.

        Parameters
        ----------
        seeds
            One for each environment.
        obs
            Where the first observations go, float32 `[N, ...]`.
        """

    @abstractmethod
    def step(
        self, actions: Array, obs: Array, rewards: Array, terminateds: Array, truncateds: Array
    ) -> None:
        """Step every environment once and write what comes back, `[N, ...]`.

        Raises
        ------
        EnvFailure
            If an environment raises or its observation is not of its space.
        """

    def reset_one(self, index: int, seed: int, obs: Array) -> None:
        """Start the next episode of one environment; `obs` is its row."""
        raise TypeError(f"{type(self).__name__} resets itself")

    def step_one(self, index: int, action: Any, obs: Array) -> None:
        """Step one environment alone, as a replay does; `obs` is its row."""
        raise TypeError(f"{type(self).__name__} steps as one")

    @abstractmethod
    def snapshot(self, index: int | None) -> Any:
        """State of one environment (None: of all as one) as plain data, or None if it has none."""

    @abstractmethod
    def restore(self, index: int | None, snapshot: Any) -> None:
        """Continue from what `snapshot` gave."""

    @abstractmethod
    def close(self) -> None:
        """Close all environments."""


class SyncEnvs(EnvBatch):
    """Ordinary environments, stepped one after the other in this thread.

    Parameters
    ----------
    envs
        At least one; all of the same spaces.
    """

    def __init__(self, envs: list[gym.Env]) -> None:
        space = envs[0].observation_space
        assert isinstance(space, gym.spaces.Box)
        self.envs = envs
        self.num_envs = len(envs)
        self.observation_space = space
        self.action_space = envs[0].action_space
        self._steps = [env.step for env in envs]

    def reset(self, seeds: list[int], obs: Array) -> None:
        """See the base class."""
        for index, seed in enumerate(seeds):
            self.reset_one(index, seed, obs[index])

    def reset_one(self, index: int, seed: int, obs: Array) -> None:
        """See the base class."""
        try:
            first, _ = self.envs[index].reset(seed=seed)
        except Exception as error:
            raise EnvFailure(
                index, f"raised in reset(): {type(error).__name__}: {error}"
            ) from error
        self._check(index, first)
        obs[...] = first

    def step(
        self, actions: Array, obs: Array, rewards: Array, terminateds: Array, truncateds: Array
    ) -> None:
        """See the base class."""
        shape, dtype = self.observation_space.shape, self.observation_space.dtype
        index = 0
        try:
            for index, (step, action) in enumerate(zip(self._steps, actions, strict=True)):
                row, rewards[index], terminateds[index], truncateds[index], _ = step(action)
                if type(row) is not np.ndarray or row.shape != shape or row.dtype != dtype:
                    self._check(index, row)
                obs[index] = row
        except EnvFailure:
            raise
        except Exception as error:
            what = f"raised in step(): {type(error).__name__}: {error}"
            raise EnvFailure(index, what) from error

    def step_one(self, index: int, action: Any, obs: Array) -> None:
        """See the base class."""
        try:
            obs[...] = self._steps[index](action)[0]
        except Exception as error:
            what = f"raised in step(): {type(error).__name__}: {error}"
            raise EnvFailure(index, what) from error

    def _check(self, index: int, obs: Any) -> None:
        check_observation(self.observation_space, obs, index)

    def snapshot(self, index: int | None) -> Any:
        """Ask the environment itself, if it has `get_state` and `set_state`."""
        assert index is not None
        env = self.envs[index].unwrapped
        if hasattr(env, "get_state") and hasattr(env, "set_state"):
            return env.get_state()
        return None

    def restore(self, index: int | None, snapshot: Any) -> None:
        """Give the environment what its `get_state` gave."""
        assert index is not None
        self.envs[index].unwrapped.set_state(snapshot)  # type: ignore[attr-defined]

    def close(self) -> None:
        """See the base class."""
        for env in self.envs:
            env.close()


def check_observation(space: gym.spaces.Box, obs: Any, index: int | None) -> None:
    """Refuse an observation whose kind, shape or type is not the space's.

    A number type that casts within its kind (float64 for float32) is let through.

    Raises
    ------
    EnvFailure
        With what was found and what the space declares.
    """
    expected = f"its observation space is {space}"
    try:
        array = np.asarray(obs)
    except ValueError as error:
        raise EnvFailure(index, f"returned an observation that is no array; {expected}") from error
    if isinstance(obs, dict | tuple | str) or array.dtype == object:
        kind = type(obs).__name__
        raise EnvFailure(index, f"returned an observation of type {kind}; {expected}")
    if array.shape != space.shape:
        raise EnvFailure(index, f"returned an observation of shape {array.shape}; {expected}")
    if not np.can_cast(array.dtype, space.dtype, "same_kind"):
        raise EnvFailure(index, f"returned an observation of dtype {array.dtype}; {expected}")
