"""Action distributions: sampled in numpy where one acts, differentiated in torch where one learns.

The torch methods use tensor methods only, so that actors can import this module without torch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Float = NDArray[np.float32]
_LOG_2PI = math.log(2 * math.pi)


class ActionDistribution(ABC):
    """A family of distributions over actions; its parameters come row by row from a network.

    Parameters
    ----------
    size
        Number of actions (categorical) or of action dimensions (Gaussian).
    """

    def __init__(self, size: int) -> None:
        self.size = size

    @property
    @abstractmethod
    def num_inputs(self) -> int:
        """How many parameters a row has."""

    @abstractmethod
    def sample(self, inputs: Float, rng: np.random.Generator) -> tuple[NDArray[Any], Float]:
        """Draw one action a row.

        Parameters
        ----------
        inputs
            float32 `[N, num_inputs]`.
        rng
            Where the randomness comes from.

        Returns
        -------
        actions
            `[N]` or `[N, size]`.
        logp
            Their log-probabilities, float32 `[N]`.
        """

    @abstractmethod
    def mode(self, inputs: Float) -> tuple[NDArray[Any], Float]:
        """Most probable action of each row and its log-probability; shapes as in `sample`."""

    @abstractmethod
    def log_prob(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """Log-probability of actions under inputs, `[B]`."""

    @abstractmethod
    def entropy(self, inputs: Tensor) -> Tensor:
        """Entropy in nats, `[B]`."""

    @abstractmethod
    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        """Kullback-Leibler divergence of `other` from `inputs`, KL(inputs || other), `[B]`."""


class Categorical(ActionDistribution):
    """Actions 0 to size-1, parameterised by unnormalised log-probabilities."""

    @property
    def num_inputs(self) -> int:
        """One logit an action."""
        return self.size

    def sample(self, inputs: Float, rng: np.random.Generator) -> tuple[NDArray[np.int64], Float]:
        """Draw by inverting the cumulative distribution; see the base class."""
        logits = inputs.T  # actions first: numpy reduces over a short last axis slowly
        shifted = logits - np.maximum.reduce(logits, axis=0)
        cumulative = np.add.accumulate(np.exp(shifted), axis=0)
        total = cumulative[-1]
        threshold = rng.random(len(inputs), dtype=np.float32) * total
        actions = np.add.reduce(cumulative[:-1] <= threshold, axis=0, dtype=np.int64)
        return actions, shifted[actions, np.arange(len(inputs))] - np.log(total)

    def mode(self, inputs: Float) -> tuple[NDArray[np.int64], Float]:
        """First action with the greatest logit; see the base class."""
        actions = inputs.argmax(axis=1)
        shifted = inputs - inputs.max(axis=1, keepdims=True)
        return actions, -np.log(np.exp(shifted).sum(axis=1))

    def log_prob(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """See the base class."""
        return inputs.log_softmax(1).gather(1, actions.unsqueeze(1)).squeeze(1)

    def entropy(self, inputs: Tensor) -> Tensor:
        """See the base class."""
        logp = inputs.log_softmax(1)
        return -(logp.exp() * logp).sum(1)

    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        """See the base class."""
        logp = inputs.log_softmax(1)
        return (logp.exp() * (logp - other.log_softmax(1))).sum(1)


class DiagGaussian(ActionDistribution):
    """Independent normal components, parameterised by means and log standard deviations."""

    @property
    def num_inputs(self) -> int:
        """A mean and a log standard deviation a dimension."""
        return 2 * self.size

    def sample(self, inputs: Float, rng: np.random.Generator) -> tuple[Float, Float]:
        """See the base class."""
        mean, log_std = inputs[:, : self.size], inputs[:, self.size :]
        noise = rng.standard_normal(mean.shape, dtype=np.float32)
        logp = -0.5 * (noise * noise + _LOG_2PI).sum(axis=1) - log_std.sum(axis=1)
        actions = (mean + np.exp(log_std) * noise).astype(np.float32, copy=False)
        return actions, logp.astype(np.float32, copy=False)

    def mode(self, inputs: Float) -> tuple[Float, Float]:
        """Return the means; see the base class."""
        logp = -inputs[:, self.size :].sum(axis=1) - np.float32(0.5 * _LOG_2PI * self.size)
        return inputs[:, : self.size].copy(), logp

    def log_prob(self, inputs: Tensor, actions: Tensor) -> Tensor:
        """See the base class."""
        mean, log_std = inputs.chunk(2, dim=1)
        z = (actions - mean) * (-log_std).exp()
        return -0.5 * z.square().sum(1) - log_std.sum(1) - 0.5 * _LOG_2PI * self.size

    def entropy(self, inputs: Tensor) -> Tensor:
        """See the base class."""
        return inputs[:, self.size :].sum(1) + 0.5 * (1 + _LOG_2PI) * self.size

    def kl(self, inputs: Tensor, other: Tensor) -> Tensor:
        """See the base class."""
        mean, log_std = inputs.chunk(2, dim=1)
        other_mean, other_log_std = other.chunk(2, dim=1)
        ratio = (2 * (log_std - other_log_std)).exp()
        distance = ((mean - other_mean) * (-other_log_std).exp()).square()
        return (other_log_std - log_std + 0.5 * (ratio + distance - 1)).sum(1)
