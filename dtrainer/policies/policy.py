"""The acting side of an agent: observations in, actions out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from dtrainer.config import TrainerConfig
from dtrainer.models import action_distribution, actor_critic_spec
from dtrainer.models.acting import NumpyActorCritic
from dtrainer.policies.actions import ActionPipeline

Float = NDArray[np.float32]


@dataclass(frozen=True)
class PolicyOutput:
    """What a policy answers to N observations.

    Attributes
    ----------
    actions
        `[N]` integers or float32 `[N, k]`, as chosen: neither clipped nor unsquashed.
    logp
        Log-probability of each, float32 `[N]`.
    dist_inputs
        Parameters of the distribution that they come from, float32 `[N, P]`.
    """

    actions: NDArray[Any]
    logp: Float
    dist_inputs: Float


class Policy:
    """Model, action distribution and action pipeline; knows no optimiser and no torch.

    Parameters
    ----------
    observation_space, action_space
        Of one environment.
    config
        Reads `model`, `explore`, `normalize_actions` and `clip_actions`.

    Attributes
    ----------
    version
        Of the weights, counted up by the learner.
    to_env
        Turns chosen actions into the environment's.
    """

    def __init__(
        self,
        observation_space: gym.Space,  # type: ignore[type-arg]
        action_space: gym.Space,  # type: ignore[type-arg]
        config: TrainerConfig,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.explore = config.explore
        self.distribution = action_distribution(action_space)
        self.spec = actor_critic_spec(observation_space, self.distribution, config.model)
        self.to_env = ActionPipeline(
            action_space, normalize=config.normalize_actions, clip=config.clip_actions
        )
        self.version = 0
        self._network = NumpyActorCritic(self.spec)

    def compute_actions(
        self, obs: Float, rng: np.random.Generator, explore: bool | None = None
    ) -> PolicyOutput:
        """Choose an action for each of N observations.

        Parameters
        ----------
        obs
            Flat and filtered, float32 `[N, D]`.
        rng
            Where exploration takes its randomness from.
        explore
            Sample (True), take the mode (False), or as configured (None).
        """
        inputs = self._network.logits(obs)
        if self.explore if explore is None else explore:
            actions, logp = self.distribution.sample(inputs, rng)
        else:
            actions, logp = self.distribution.mode(inputs)
        return PolicyOutput(actions, logp, inputs)

    def compute_values(self, obs: Float) -> Float:
        """State values, float32 `[N]`, of observations float32 `[N, D]`."""
        return self._network.values(obs)

    @property
    def flat_weights(self) -> Float:
        """All weights as one vector, float32 `[P]`; do not write to it."""
        return self._network.flat

    def load_flat_weights(self, flat: Float, version: int) -> None:
        """Take over a vector of weights `[P]`, by copy."""
        self._network.load(flat)
        self.version = version

    def get_weights(self) -> dict[str, Float]:
        """Copy of the weights by parameter name."""
        return {name: view.copy() for name, view in self._network.weights.items()}
