"""The learning side of an agent: batches in, new weights out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dtrainer.config import TrainerConfig
from dtrainer.data import SampleBatch
from dtrainer.models.networks import ActorCritic
from dtrainer.policies import Policy
from dtrainer.rollout.seeding import Role, generator, generator_state, load_generator
from dtrainer.training.adam import Adam
from dtrainer.training.schedules import PiecewiseSchedule

Float = NDArray[np.float32]
Tensors = dict[str, Tensor]
ConfigT = TypeVar("ConfigT", bound=TrainerConfig)


class Learner(ABC, Generic[ConfigT]):
    """Model, optimiser and schedules of one policy.

    Parameters
    ----------
    policy
        The acting side: gives the network's description and the action distribution.
    config
        The trainer's configuration.
    device
        Where to learn.
    entropy
        The run's seed; first weights and minibatches come from it.
    number
        Of the policy in the run, from 0.

    Attributes
    ----------
    version
        Of the weights: counted up by each `update`.
    """

    def __init__(
        self, policy: Policy, config: ConfigT, device: torch.device, entropy: int, number: int = 0
    ) -> None:
        self.config = config
        self.device = device
        self.distribution = policy.distribution
        self.spec = policy.spec
        self.model = ActorCritic(policy.spec, device)
        self.model.load(policy.spec.initial_weights(generator(entropy, Role.MODEL, number)))
        self.rng = generator(entropy, Role.LEARNER, number)
        self.version = 1
        self.lr = PiecewiseSchedule(getattr(config, "lr_schedule", None), config.lr)
        self.optimizer = Adam(self.model.flat)

    @abstractmethod
    def update(self, batch: SampleBatch, timestep: int) -> dict[str, float]:
        """Learn from a batch.

        Parameters
        ----------
        batch
            As the algorithm's workers make it.
        timestep
            Environment steps sampled so far; schedules follow it.

        Returns
        -------
        Statistics by name.
        """

    def descend(self, loss: Tensor, lr: float, max_norm: float | None) -> Tensor:
        """One step of gradient descent.

        Parameters
        ----------
        loss
            0-d.
        lr
            Learning rate.
        max_norm
            The gradient is scaled down to this norm if it is longer; None for never.

        Returns
        -------
        Norm of the gradient before clipping, 0-d.
        """
        gradient = self.model.gradient(loss)
        norm: Tensor = gradient.norm()
        if max_norm is not None:
            gradient.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        self.optimizer.step(gradient, lr)
        return norm

    def to_device(self, batch: SampleBatch, names: Iterable[str]) -> Tensors:
        """Copy columns to the learner's device; observations are flattened to `[B, D]`."""
        tensors = {}
        for name in names:
            tensor = torch.from_numpy(np.ascontiguousarray(batch[name]))
            if name == "obs":
                tensor = tensor.reshape(len(tensor), -1)
            if self.device.type == "cuda":
                tensor = tensor.pin_memory()
            tensors[name] = tensor.to(self.device, non_blocking=True)
        return tensors

    def minibatches(self, tensors: Tensors, size: int, *, shuffle: bool) -> Iterator[Tensors]:
        """Yield slices of `size` rows, shuffled; a rest below half a slice is left out."""
        count = len(next(iter(tensors.values())))
        if shuffle:
            order = torch.from_numpy(self.rng.permutation(count)).to(self.device)
            tensors = {name: tensor[order] for name, tensor in tensors.items()}
        for start in range(0, count, size):
            if start > 0 and count - start < size / 2:
                return
            yield {name: tensor[start : start + size] for name, tensor in tensors.items()}

    # ---- weights and state ------------------------------------------------------------

    def weights(self) -> tuple[int, Float]:
        """Version and copy of all weights, float32 `[P]`."""
        return self.version, self.model.numpy()

    def load_weights(self, flat: Float) -> None:
        """Replace all weights `[P]`; counts as a new version."""
        self.model.load(flat)
        self.version += 1

    def get_state(self) -> dict[str, Any]:
        """All that learning depends on but the weights, as plain data."""
        return {
            "version": self.version,
            "rng": generator_state(self.rng),
            "optimizer": self.optimizer.get_state(),
        }

    def set_state(self, state: Mapping[str, Any], flat: Float) -> None:
        """Continue from what `get_state` gave, with the weights `[P]` of then."""
        self.model.load(flat)
        self.version = int(state["version"])
        load_generator(self.rng, state["rng"])
        self.optimizer.set_state(state["optimizer"])


def explained_variance(targets: NDArray[Any], predictions: NDArray[Any]) -> float:
    """Share of the targets' variance that predictions explain: 1 perfect, 0 none.

    Returns
    -------
    1 - Var[targets - predictions] / Var[targets]; nan where the targets do not vary.
    """
    variance = float(np.var(targets))
    return float("nan") if variance == 0 else 1 - float(np.var(targets - predictions)) / variance
