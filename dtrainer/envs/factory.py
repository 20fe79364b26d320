"""Build and check the environments of one worker."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtrainer.config import TrainerConfig
from dtrainer.config.errors import EnvError
from dtrainer.envs.batch import EnvBatch, EnvFailure, SyncEnvs, check_observation
from dtrainer.envs.context import EnvContext
from dtrainer.envs.registry import EnvMaker
from dtrainer.envs.self_vectorized import SelfVectorizedEnvs
from dtrainer.models.catalog import check_observation_space

SELF_VECTORIZE_FROM = 16
"""Environments a worker from which `vectorize_mode: auto` steps them as one where they can be.

Array operations on fewer cost more than they save: CartPole breaks even at about ten.
"""


def make_env_batch(maker: EnvMaker, config: TrainerConfig, worker_index: int) -> EnvBatch:
    """Make the `num_envs_per_worker` environments of a worker.

    Environments that vectorise themselves are stepped as one if `steps_as_one` says so.
    """
    num_envs = config.num_envs_per_worker
    contexts = [
        EnvContext(config.env_config, worker_index, index, config.num_workers)
        for index in range(num_envs)
    ]
    if steps_as_one(maker, config):
        return SelfVectorizedEnvs(maker.make_vector(num_envs, contexts[0]))
    return SyncEnvs([maker.make(context) for context in contexts])


def steps_as_one(maker: EnvMaker, config: TrainerConfig) -> bool:
    """Whether this configuration steps the environments of a worker as one.

    Raises
    ------
    EnvError
        If `vectorize_mode: self` is asked for and the environment has no such form.
    """
    mode = config.vectorize_mode
    if mode == "self" and maker.vector_spec is None:
        raise EnvError(
            f"vectorize_mode: self, but environment {maker.name!r} does not vectorise itself",
            hint="Set vectorize_mode: auto or sync.",
        )
    return maker.vector_spec is not None and (
        mode == "self" or (mode == "auto" and config.num_envs_per_worker >= SELF_VECTORIZE_FROM)
    )


def episode_limit(maker: EnvMaker, config: TrainerConfig) -> int | None:
    """Steps after which the sampler truncates an episode; None where nothing limits it.

    Raises
    ------
    EnvError
        If `horizon` is above the limit that the environment is registered with, or cannot be
        kept.
    """
    horizon = config.horizon
    if horizon is None:
        return maker.max_episode_steps
    if maker.max_episode_steps is not None and horizon > maker.max_episode_steps:
        raise EnvError(
            f"horizon: {horizon} is above the {maker.max_episode_steps} steps that "
            f"{maker.name!r} is registered with",
            hint="Lower horizon, or register the environment with a longer limit.",
        )
    if steps_as_one(maker, config) and horizon != maker.max_episode_steps:
        raise EnvError(
            f"horizon: {horizon} cannot be kept by {maker.name!r}, which vectorises itself",
            hint="Set vectorize_mode: sync.",
        )
    return horizon


def probe_env(maker: EnvMaker, config: TrainerConfig) -> tuple[Any, Any]:
    """Make one environment, reset it and step it once; return its spaces.

    Catches before any actor starts what would otherwise fail on every one of them.

    Returns
    -------
    observation_space, action_space

    Raises
    ------
    EnvError
        If it cannot be made, is of unsupported spaces, raises, or breaks its spaces.
    """
    env = maker.make(EnvContext(config.env_config, 0, 0, config.num_workers))
    try:
        space = check_observation_space(env.observation_space)
        try:
            obs, _ = env.reset(seed=0)
            where = "reset()"
            check_observation(space, obs, 0)
            env.action_space.seed(0)
            answer = env.step(env.action_space.sample())
            where = "step()"
            if not isinstance(answer, tuple) or len(answer) != 5:
                raise EnvFailure(
                    0, f"returned {_describe(answer)}; expected the five values of Gymnasium's "
                    "API: obs, reward, terminated, truncated, info"
                )  # fmt: skip
            check_observation(space, answer[0], 0)
            reward: Any = answer[1]
            if np.ndim(reward) != 0:
                raise EnvFailure(0, f"returned the reward {reward!r}; expected one number")
        except EnvFailure as failure:
            raise EnvError(f"environment {maker.name!r}, {where}: it {failure.what}") from failure
        except EnvError:
            raise
        except Exception as error:
            raise EnvError(
                f"environment {maker.name!r} raised when tried with reset(seed=0) and one step: "
                f"{type(error).__name__}: {error}"
            ) from error
        return env.observation_space, env.action_space
    finally:
        env.close()


def _describe(answer: object) -> str:
    if isinstance(answer, tuple):
        return f"a tuple of {len(answer)}"
    return f"a {type(answer).__name__}"
