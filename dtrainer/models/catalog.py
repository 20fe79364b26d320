"""From spaces and the `model` section to a network and an action distribution."""

from __future__ import annotations

import math

import gymnasium as gym

from dtrainer.config import ModelConfig
from dtrainer.config.errors import EnvError
from dtrainer.models.distributions import ActionDistribution, Categorical, DiagGaussian
from dtrainer.models.spec import ActorCriticSpec


def action_distribution(space: gym.Space) -> ActionDistribution:  # type: ignore[type-arg]
    """Distribution for an action space: Discrete categorical, Box Gaussian.

    Raises
    ------
    EnvError
        If the kind of space is not supported.
    """
    if isinstance(space, gym.spaces.Discrete):
        return Categorical(int(space.n))
    if isinstance(space, gym.spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f":
        return DiagGaussian(space.shape[0])
    raise EnvError(
        f"the action space {space} is not supported yet",
        hint="Supported are Discrete(n) and one-dimensional Box spaces of floats.",
    )


def check_observation_space(space: gym.Space) -> gym.spaces.Box:  # type: ignore[type-arg]
    """Return the space if a fully connected network can take it.

    Raises
    ------
    EnvError
        If it cannot: not a Box, or an image.
    """
    if isinstance(space, gym.spaces.Box) and len(space.shape) <= 2:
        return space
    hint = "Supported are Box spaces of rank 0 to 2."
    if isinstance(space, gym.spaces.Box):
        hint += " Images need a vision network, which is not built yet."
    elif isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        hint += " gymnasium.wrappers.FlattenObservation turns a Dict or Tuple into a Box."
    raise EnvError(f"the observation space {space} is not supported yet", hint=hint)


def actor_critic_spec(
    observation_space: gym.Space,  # type: ignore[type-arg]
    distribution: ActionDistribution,
    model: ModelConfig,
) -> ActorCriticSpec:
    """Describe the network that a policy over these spaces uses."""
    space = check_observation_space(observation_space)
    return ActorCriticSpec(
        obs_size=math.prod(space.shape),
        num_outputs=distribution.num_inputs,
        hiddens=tuple(model.fcnet_hiddens),
        activation=model.fcnet_activation,
        vf_share_layers=model.vf_share_layers,
        free_log_std=model.free_log_std and isinstance(distribution, DiagGaussian),
    )
