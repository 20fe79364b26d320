"""Columns under construction: `[T, N]` arrays that the sampler writes into."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_STATE_COLUMNS = (
    "actions",
    "logp",
    "dist_inputs",
    "rewards",
    "terminateds",
    "truncateds",
    "valid",
    "t",
    "eps_id",
)


class Trajectories:
    """The steps of N environments since the last fragment, time first.

    Parameters
    ----------
    capacity
        Steps to make room for; grows by doubling.
    num_envs
        N.
    obs_shape
        Of one observation.
    actions
        An example of a policy's actions `[N, ...]`: gives shape and dtype.
    num_inputs
        Parameters of the action distribution.

    Attributes
    ----------
    size
        Steps written, T.
    obs
        float32 `[capacity + 1, N, ...]`; row T is what comes next.
    valid
        False where a step was no transition but an environment's own reset.
    final_obs
        `(t, env) -> observation`: the true successor of steps that ended an episode.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        obs_shape: tuple[int, ...],
        actions: Array,
        num_inputs: int,
    ) -> None:
        n = (capacity, num_envs)
        self.size = 0
        self.obs = np.zeros((capacity + 1, num_envs, *obs_shape), np.float32)
        self.actions = np.zeros((*n, *actions.shape[1:]), actions.dtype)
        self.logp = np.zeros(n, np.float32)
        self.dist_inputs = np.zeros((*n, num_inputs), np.float32)
        self.rewards = np.zeros(n, np.float32)
        self.terminateds = np.zeros(n, np.bool_)
        self.truncateds = np.zeros(n, np.bool_)
        self.valid = np.ones(n, np.bool_)
        self.t = np.zeros(n, np.int32)
        self.eps_id = np.zeros(n, np.int64)
        self.final_obs: dict[tuple[int, int], Array] = {}

    @property
    def capacity(self) -> int:
        """Steps that there is room for."""
        return len(self.rewards)

    def grow(self) -> None:
        """Double the room."""
        for name in _STATE_COLUMNS:
            column = getattr(self, name)
            fill = np.ones_like(column) if name == "valid" else np.zeros_like(column)
            setattr(self, name, np.concatenate([column, fill]))
        self.obs = np.concatenate([self.obs, np.zeros_like(self.obs[1:])])

    def drop(self, steps: int) -> None:
        """Forget the first steps and move the rest to the front."""
        kept = self.size - steps
        for name in _STATE_COLUMNS:
            column = getattr(self, name)
            column[:kept] = column[steps : self.size].copy()
        self.valid[kept:] = True
        self.obs[: kept + 1] = self.obs[steps : self.size + 1].copy()
        self.final_obs = {
            (t - steps, env): obs for (t, env), obs in self.final_obs.items() if t >= steps
        }
        self.size = kept

    def get_state(self) -> dict[str, Any]:
        """Copy what was written, as plain data."""
        state = {name: getattr(self, name)[: self.size].copy() for name in _STATE_COLUMNS}
        state["obs"] = self.obs[: self.size + 1].copy()
        state["final_obs"] = [[t, env, obs] for (t, env), obs in self.final_obs.items()]
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what `get_state` gave."""
        self.size = len(state["rewards"])
        while self.capacity < self.size:
            self.grow()
        for name in _STATE_COLUMNS:
            getattr(self, name)[: self.size] = state[name]
        self.obs[: self.size + 1] = state["obs"]
        self.final_obs = {(int(t), int(env)): obs for t, env, obs in state["final_obs"]}
