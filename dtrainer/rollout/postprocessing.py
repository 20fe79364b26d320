"""What is computed from a trajectory where it was sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtrainer.data import columns, generalized_advantages


@dataclass(frozen=True)
class Advantages:
    """Generalized advantages and value targets.

    Attributes
    ----------
    gamma
        Discount.
    lambda_
        Decay; 1 gives the discounted return less the value.
    use_critic
        Without it values count as 0: the advantage is the discounted return.
    """

    gamma: float
    lambda_: float
    use_critic: bool = True

    def __call__(
        self,
        rewards: NDArray[np.float32],
        values: NDArray[np.float32],
        next_values: NDArray[np.float32],
        terminateds: NDArray[np.bool_],
        cuts: NDArray[np.bool_],
    ) -> dict[str, NDArray[Any]]:
        """Compute columns `[T, N]`; arguments as in `generalized_advantages`."""
        if not self.use_critic:
            values, next_values = np.zeros_like(values), np.zeros_like(next_values)
        advantages = generalized_advantages(
            rewards,
            values,
            next_values,
            terminateds,
            cuts,
            gamma=self.gamma,
            lambda_=self.lambda_,
        )
        return {
            columns.VF_PREDS: values,
            columns.ADVANTAGES: advantages,
            columns.VALUE_TARGETS: advantages + values,
        }
