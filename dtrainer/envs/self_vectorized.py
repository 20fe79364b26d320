"""Environments that step many of themselves as one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from dtrainer.config.errors import EnvError
from dtrainer.envs.batch import EnvBatch, EnvFailure, check_observation
from dtrainer.envs.snapshot import restore_snapshot, take_snapshot

Array = NDArray[Any]


class SelfVectorizedEnvs(EnvBatch):
    """A `gymnasium.vector.VectorEnv` with next-step autoreset.

    Its episodes share one generator, seeded at the first reset; exact recovery rests on
    `dtrainer.envs.snapshot`.

    Parameters
    ----------
    env
        The vector environment.

    Raises
    ------
    EnvError
        If it resets in another way.
    """

    resets_itself = True

    def __init__(self, env: gym.vector.VectorEnv) -> None:
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        if mode != AutoresetMode.NEXT_STEP:
            raise EnvError(
                f"the vector environment {env} resets in mode {mode}, expected NextStep",
                hint="Set vectorize_mode: sync to step its single environments instead.",
            )
        space = env.single_observation_space
        assert isinstance(space, gym.spaces.Box)
        self.env = env
        self.num_envs = env.num_envs
        self.observation_space = space
        self.action_space = env.single_action_space

    def reset(self, seeds: list[int], obs: Array) -> None:
        """Start all episodes from the first seed."""
        try:
            first, _ = self.env.reset(seed=seeds[0])
        except Exception as error:
            raise EnvFailure(None, f"raised in reset(): {type(error).__name__}: {error}") from error
        for index in range(self.num_envs):
            check_observation(self.observation_space, first[index], index)
        obs[...] = first

    def step(
        self, actions: Array, obs: Array, rewards: Array, terminateds: Array, truncateds: Array
    ) -> None:
        """See the base class."""
        try:
            rows, rewards[...], terminateds[...], truncateds[...], _ = self.env.step(actions)
            if rows.shape != obs.shape:
                check_observation(self.observation_space, rows[0], None)
            obs[...] = rows
        except EnvFailure:
            raise
        except Exception as error:
            raise EnvFailure(None, f"raised in step(): {type(error).__name__}: {error}") from error

    def snapshot(self, index: int | None) -> Any:
        """Copy the whole vector environment's state; None if it cannot be copied."""
        return take_snapshot(self.env.unwrapped)

    def restore(self, index: int | None, snapshot: Any) -> None:
        """Continue from a copy."""
        restore_snapshot(self.env.unwrapped, snapshot)

    def close(self) -> None:
        """See the base class."""
        self.env.close()
