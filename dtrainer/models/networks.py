"""The torch side of the networks: what learners learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from dtrainer.models.spec import ActorCriticSpec

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": functional.relu,
    "silu": functional.silu,
    "swish": functional.silu,
    "elu": functional.elu,
    "linear": lambda x: x,
}


class ActorCritic:
    """An `ActorCriticSpec` in torch, with all parameters in one flat vector.

    The layers' weights are views of that vector, so the optimiser's step, the norm of the gradient
    and the copy to the actors are each one operation.

    Parameters
    ----------
    spec
        The network.
    device
        Where it computes.

    Attributes
    ----------
    flat
        All parameters, float32 `[P]`.
    """

    def __init__(self, spec: ActorCriticSpec, device: torch.device) -> None:
        self.spec = spec
        self.flat = torch.zeros(spec.layout.size, device=device)
        self._views = spec.layout.views(self.flat)
        for view in self._views.values():
            view.requires_grad_()
        self._activate = ACTIVATIONS[spec.activation]

    def load(self, flat: NDArray[np.float32]) -> None:
        """Take over a vector of weights `[P]` by copy."""
        self.flat.copy_(torch.from_numpy(np.ascontiguousarray(flat)))

    def numpy(self) -> NDArray[np.float32]:
        """Copy of all parameters, float32 `[P]`."""
        return self.flat.cpu().numpy().copy()

    def gradient(self, loss: Tensor) -> Tensor:
        """Gradient of a 0-d loss with respect to all parameters, `[P]`; 0 for unused ones."""
        parts = torch.autograd.grad(loss, list(self._views.values()), materialize_grads=True)
        return torch.cat([part.reshape(-1) for part in parts])

    def __call__(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Action distribution and value.

        Parameters
        ----------
        obs
            float32 `[B, D]`.

        Returns
        -------
        logits
            float32 `[B, P]`.
        values
            float32 `[B]`.
        """
        spec = self.spec
        hidden = self._trunk("policy", obs)
        logits = self._linear("policy.head", hidden)
        if spec.free_log_std:
            log_std = self._views["policy.log_std"].expand_as(logits)
            logits = torch.cat([logits, log_std], dim=1)
        if not spec.vf_share_layers:
            hidden = self._trunk("value", obs)
        return logits, self._linear("value.head", hidden).squeeze(1)

    def _trunk(self, trunk: str, x: Tensor) -> Tensor:
        for name in self.spec.trunk_names(trunk):
            x = self._activate(self._linear(name, x))
        return x

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return functional.linear(x, self._views[f"{name}.weight"], self._views[f"{name}.bias"])
