"""Advantage estimates over `[T, N]` columns: T steps of N environments side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]
Bool = NDArray[np.bool_]


def generalized_advantages(
    rewards: Float,
    values: Float,
    next_values: Float,
    terminateds: Bool,
    cuts: Bool,
    *,
    gamma: float,
    lambda_: float,
) -> Float:
    r"""Generalized advantage estimation.

    .. math::
        \delta_t = r_t + \gamma (1 - terminated_t) V(s_{t+1}) - V(s_t), \qquad
        A_t = \delta_t + \gamma \lambda (1 - cut_t) A_{t+1}

    A terminal state is worth nothing; a truncated or cut trajectory goes on and bootstraps
    from the value of its true successor.

    Parameters
    ----------
    rewards, values
        :math:`r_t` and :math:`V(s_t)`, float32 `[T, N]`.
    next_values
        :math:`V(s_{t+1})` of the true successor: the final observation where an episode
        ended, not the next episode's first. float32 `[T, N]`.
    terminateds
        Whether :math:`s_{t+1}` is terminal, bool `[T, N]`.
    cuts
        Whether the trajectory ends at this row for whatever reason, bool `[T, N]`. The last
        row needs no mark.
    gamma
        Discount in `[0, 1]`.
    lambda_
        Decay in `[0, 1]`: 0 is the one-step advantage, 1 the discounted return less the value.

    Returns
    -------
    float32 `[T, N]`.

    References
    ----------
    Schulman et al., "High-Dimensional Continuous Control Using Generalized Advantage
    Estimation", ICLR 2016, equations 11 to 16.
    """
    deltas = rewards + np.float32(gamma) * next_values * ~terminateds - values
    decay = np.where(cuts, np.float32(0), np.float32(gamma * lambda_))
    advantages = np.empty_like(deltas)
    running = np.zeros(deltas.shape[1:], np.float32)
    for t in range(len(deltas) - 1, -1, -1):
        running = deltas[t] + decay[t] * running
        advantages[t] = running
    return advantages
