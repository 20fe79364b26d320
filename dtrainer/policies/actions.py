"""From what a policy chooses to what an environment is given: one pipeline for all uses."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from dtrainer.config.errors import EnvError


class ActionPipeline:
    """Unsquash, clip and shift actions for the environment.

    Sampling, evaluation and `compute_action` all send actions through here; sample batches
    keep the action as the policy chose it.

    Parameters
    ----------
    space
        The environment's action space, Discrete or Box.
    normalize
        Whether the policy acts in `[-1, 1]`, mapped linearly to `[low, high]`.
    clip
        Whether actions are clipped to the space.

    Raises
    ------
    EnvError
        If `normalize` is asked for and the space is unbounded.
    """

    def __init__(
        self,
        space: gym.Space,  # type: ignore[type-arg]
        *,
        normalize: bool,
        clip: bool,
    ) -> None:
        self._start = int(space.start) if isinstance(space, gym.spaces.Discrete) else 0
        self._box = space if isinstance(space, gym.spaces.Box) else None
        self._normalize = normalize and self._box is not None
        self._clip = (clip or normalize) and self._box is not None
        if self._normalize and not (self._box and self._box.is_bounded()):
            raise EnvError(
                f"normalize_actions: true needs a bounded action space, this one is {space}",
                hint="Set normalize_actions: false, or give the environment finite bounds.",
            )

    def __call__(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Turn chosen actions into the environment's, `[N]` or `[N, k]`."""
        if self._box is None:
            return actions + self._start if self._start else actions
        low, high = self._box.low, self._box.high
        if self._normalize:
            actions = low + (actions + 1) * (high - low) / 2
        if self._clip:
            actions = np.clip(actions, low, high)
        return actions.astype(self._box.dtype, copy=False)
