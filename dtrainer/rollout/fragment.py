"""What one `sample()` call returns, and how it is cut from the columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtrainer.data import Cuts, MultiAgentBatch, SampleBatch, columns
from dtrainer.policies import Policy
from dtrainer.rollout.postprocessing import Advantages
from dtrainer.rollout.trajectories import Trajectories

Array = NDArray[Any]


@dataclass
class SampleTimes:
    """Seconds that a worker spent on a fragment, by what it did.

    Attributes
    ----------
    environment, inference, postprocessing
        Stepping and resetting environments; choosing actions and filtering; advantages and
        packing.
    total
        All of the call, so that what is left over shows.
    """

    environment: float = 0.0
    inference: float = 0.0
    postprocessing: float = 0.0
    total: float = 0.0

    def add(self, other: SampleTimes) -> None:
        """Add the times of another fragment."""
        self.environment += other.environment
        self.inference += other.inference
        self.postprocessing += other.postprocessing
        self.total += other.total


@dataclass
class Fragment:
    """Experience of one worker, and what came with it.

    Attributes
    ----------
    batch
        The transitions.
    episode_returns
        Undiscounted sums of the environment's own rewards of the episodes that ended,
        float64 `[E]`.
    episode_lengths
        Their steps, int64 `[E]`.
    filter_deltas
        Policy id to what its observation filter counted.
    times
        Where the worker's time went.
    weights_versions
        Policy id to the version of the weights that acted.
    episodes_abandoned
        Episodes that were restarted because they could not be continued.
    """

    batch: MultiAgentBatch
    episode_returns: NDArray[np.float64]
    episode_lengths: NDArray[np.int64]
    filter_deltas: dict[str, dict[str, Any] | None]
    times: SampleTimes
    weights_versions: dict[str, int] = field(default_factory=dict)
    episodes_abandoned: int = 0


@dataclass(frozen=True)
class Segment:
    """Rows `start` to `stop` (exclusive) of one environment's column."""

    env: int
    start: int
    stop: int


class BatchBuilder:
    """Turns `[T, N]` columns into rows, environment by environment.

    Parameters
    ----------
    policy
        Whose critic values the states.
    postprocess
        What to compute from the trajectories; None for nothing.
    clip_rewards
        True for the sign, a number c for `[-c, c]`, False or None for no clipping.
    """

    def __init__(
        self, policy: Policy, postprocess: Advantages | None, clip_rewards: bool | float | None
    ) -> None:
        self._policy = policy
        self._postprocess = postprocess
        self._clip_rewards = clip_rewards

    def all_rows(self, trajectories: Trajectories) -> SampleBatch:
        """Take every transition; the last step of each environment is a cut."""
        size = trajectories.size
        ends = self._ends(trajectories)
        ends[-1] = True
        valid = trajectories.valid[:size]
        rows_env, rows_t = np.nonzero((ends & valid).T)
        cuts_obs = self._successors(trajectories, rows_t, rows_env)

        def flatten(column: Array) -> Array:
            # Always a copy: the columns are written over by the next fragment.
            return column[:size].swapaxes(0, 1).copy().reshape(-1, *column.shape[2:])

        cut_rows = rows_env * size + rows_t
        kept: Array | None = None
        if not valid.all():
            kept = flatten(valid)
            cut_rows = (np.cumsum(kept) - 1)[cut_rows]
        data = {}
        for name, column in self._columns(trajectories).items():
            flat = flatten(column)
            data[name] = flat if kept is None else flat[kept]
        return SampleBatch(data, Cuts(cut_rows, cuts_obs))

    def segments(self, trajectories: Trajectories, segments: list[Segment]) -> SampleBatch:
        """Take whole episodes, in the given order."""
        rows_t = np.concatenate([np.arange(s.start, s.stop) for s in segments])
        rows_env = np.repeat([s.env for s in segments], [s.stop - s.start for s in segments])
        ends = np.cumsum([s.stop - s.start for s in segments]) - 1
        cuts = Cuts(ends, self._successors(trajectories, rows_t[ends], rows_env[ends]))
        data = {
            name: column[rows_t, rows_env] for name, column in self._columns(trajectories).items()
        }
        return SampleBatch(data, cuts)

    def _columns(self, trajectories: Trajectories) -> dict[str, Array]:
        size = trajectories.size
        rewards = self._clipped(trajectories.rewards[:size])
        data = {
            columns.OBS: trajectories.obs[:size],
            columns.ACTIONS: trajectories.actions[:size],
            columns.REWARDS: rewards,
            columns.TERMINATEDS: trajectories.terminateds[:size],
            columns.TRUNCATEDS: trajectories.truncateds[:size],
            columns.ACTION_LOGP: trajectories.logp[:size],
            columns.ACTION_DIST_INPUTS: trajectories.dist_inputs[:size],
            columns.EPS_ID: trajectories.eps_id[:size],
            columns.T: trajectories.t[:size],
        }
        if self._postprocess is not None:
            values, next_values = self._values(trajectories)
            ends = self._ends(trajectories)
            terminateds = trajectories.terminateds[:size]
            data |= self._postprocess(rewards, values, next_values, terminateds, ends)
        return data

    def _values(self, trajectories: Trajectories) -> tuple[Array, Array]:
        """Values of the states and of their true successors, float32 `[T, N]` each."""
        size = trajectories.size
        obs = trajectories.obs[: size + 1]
        flat = obs.reshape(obs.shape[0] * obs.shape[1], -1)
        values = self._policy.compute_values(flat).reshape(obs.shape[:2])
        next_values = values[1:].copy()
        finals = trajectories.final_obs
        cut = [key for key in finals if not trajectories.terminateds[key]]
        if cut:
            rows = np.stack([finals[key] for key in cut]).reshape(len(cut), -1)
            next_values[tuple(np.transpose(cut))] = self._policy.compute_values(rows)
        return values[:-1], next_values

    def _clipped(self, rewards: Array) -> Array:
        clip = self._clip_rewards
        if clip is None or clip is False:
            return rewards
        return np.sign(rewards) if clip is True else np.clip(rewards, -clip, clip)

    @staticmethod
    def _ends(trajectories: Trajectories) -> Array:
        size = trajectories.size
        return trajectories.terminateds[:size] | trajectories.truncateds[:size]

    @staticmethod
    def _successors(trajectories: Trajectories, t: Array, env: Array) -> Array:
        obs: Array = trajectories.obs[t + 1, env]
        for row, key in enumerate(zip(t.tolist(), env.tolist(), strict=True)):
            if key in trajectories.final_obs:
                obs[row] = trajectories.final_obs[key]
        return obs
