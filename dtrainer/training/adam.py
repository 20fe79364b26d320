"""Adam over one flat vector of parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Adam:
    r"""Adam for a single tensor.

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad
        v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        \theta \leftarrow \theta - \alpha \frac{m / (1 - \beta_1^t)}
            {\sqrt{v / (1 - \beta_2^t)} + \epsilon}

    Our models keep their parameters in one vector, so a step is five tensor operations. PyTorch's
    own gives the same numbers; making it costs the import of PyTorch's compiler, which is longer
    than everything else that a run does before its first step.

    Parameters
    ----------
    parameters
        Tensor `[P]`, moved in place.
    eps
        :math:`\epsilon`.
    betas
        :math:`\beta_1, \beta_2`.

    References
    ----------
    Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, algorithm 1.
    """

    def __init__(
        self, parameters: Tensor, eps: float = 1e-8, betas: tuple[float, float] = (0.9, 0.999)
    ) -> None:
        self._parameters = parameters
        self._eps = eps
        self._beta1, self._beta2 = betas
        self._mean = torch.zeros_like(self._parameters)
        self._square = torch.zeros_like(self._parameters)
        self._steps = 0

    def step(self, gradient: Tensor, lr: float) -> None:
        r"""Move the parameters along a gradient.

        Parameters
        ----------
        gradient
            `[P]`.
        lr
            Learning rate :math:`\alpha`.
        """
        self._steps += 1
        self._mean.lerp_(gradient, 1 - self._beta1)
        self._square.mul_(self._beta2).addcmul_(gradient, gradient, value=1 - self._beta2)
        unbias = math.sqrt(1 - self._beta2**self._steps)
        scale = (self._square.sqrt() / unbias).add_(self._eps)
        self._parameters.addcdiv_(self._mean, scale, value=-lr / (1 - self._beta1**self._steps))

    def get_state(self) -> dict[str, Any]:
        """Moments and count of steps, as plain data."""
        return {
            "steps": self._steps,
            "mean": self._mean.cpu().numpy().copy(),
            "square": self._square.cpu().numpy().copy(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what `get_state` gave."""
        self._steps = int(state["steps"])
        self._mean.copy_(torch.from_numpy(np.array(state["mean"])))
        self._square.copy_(torch.from_numpy(np.array(state["square"])))
