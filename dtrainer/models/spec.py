"""What an actor-critic network is, apart from who computes it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dtrainer.models.layout import ParameterLayout


@dataclass(frozen=True)
class ActorCriticSpec:
    """A fully connected actor-critic.

    Acting (numpy, `dtrainer.models.acting`) and learning (torch, `dtrainer.models.networks`)
    are built from the same description and share the same flat vector of parameters.

    Attributes
    ----------
    obs_size
        Length of the flattened observation.
    num_outputs
        Parameters of the action distribution.
    hiddens
        Sizes of the hidden layers.
    activation
        One of `dtrainer.models.acting.ACTIVATIONS`.
    vf_share_layers
        Whether the value head sits on the policy's hidden layers or has its own.
    free_log_std
        Whether the second half of the outputs is a parameter, not a function of the observation.
    """

    obs_size: int
    num_outputs: int
    hiddens: tuple[int, ...]
    activation: str
    vf_share_layers: bool
    free_log_std: bool = False

    @cached_property
    def layout(self) -> ParameterLayout:
        """Names and shapes of all parameters; weights are `[out, in]`."""
        shapes: dict[str, tuple[int, ...]] = {}

        def add_linear(name: str, fan_in: int, fan_out: int) -> None:
            shapes[f"{name}.weight"] = (fan_out, fan_in)
            shapes[f"{name}.bias"] = (fan_out,)

        sizes = (self.obs_size, *self.hiddens)
        for trunk in ("policy",) if self.vf_share_layers else ("policy", "value"):
            for i in range(len(self.hiddens)):
                add_linear(f"{trunk}.{i}", sizes[i], sizes[i + 1])
        outputs = self.num_outputs // 2 if self.free_log_std else self.num_outputs
        add_linear("policy.head", sizes[-1], outputs)
        if self.free_log_std:
            shapes["policy.log_std"] = (outputs,)
        add_linear("value.head", sizes[-1], 1)
        return ParameterLayout(shapes)

    def trunk_names(self, trunk: str) -> list[str]:
        """Names of the hidden linear layers that lead to the head of `policy` or `value`."""
        owner = "policy" if self.vf_share_layers else trunk
        return [f"{owner}.{i}" for i in range(len(self.hiddens))]

    def initial_weights(self, rng: np.random.Generator) -> NDArray[np.float32]:
        r"""Draw the first weights: orthogonal rows, zero biases.

        Gains are :math:`\sqrt 2` for hidden layers, 0.01 for the policy's head, so that the
        first policy is close to uniform, and 1 for the value head.

        References
        ----------
        Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear
        neural networks", ICLR 2014; gains: Andrychowicz et al., "What Matters In On-Policy
        Reinforcement Learning?", ICLR 2021, section 3.2.
        """
        flat = np.zeros(self.layout.size, np.float32)
        for name, view in self.layout.views(flat).items():
            if name.endswith(".weight"):
                gain = {"policy.head.weight": 0.01, "value.head.weight": 1.0}.get(name, 2.0**0.5)
                view[...] = gain * _orthogonal(view.shape, rng)
        return flat


def _orthogonal(shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw a matrix with orthonormal rows or columns, uniform over all such."""
    rows, cols = shape
    q, r = np.linalg.qr(rng.standard_normal((max(rows, cols), min(rows, cols))))
    q *= np.sign(np.diag(r))
    return q if rows >= cols else q.T
