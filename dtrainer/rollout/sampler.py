"""The hot loop: steps environments with a policy and fills columns."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dtrainer.config.errors import EnvError
from dtrainer.data import SampleBatch
from dtrainer.envs import EnvBatch, EnvFailure
from dtrainer.policies import Policy
from dtrainer.rollout.filters import NoFilter
from dtrainer.rollout.fragment import BatchBuilder, SampleTimes, Segment
from dtrainer.rollout.journal import env_state, restore_envs
from dtrainer.rollout.seeding import WorkerSeeds, generator_state, load_generator
from dtrainer.rollout.trajectories import Trajectories

Array = NDArray[Any]
log = logging.getLogger(__name__)


class EpisodeLog:
    """Returns and lengths of the episodes that ended since they were last taken."""

    def __init__(self) -> None:
        self.envs: list[int] = []
        self.returns: list[float] = []
        self.lengths: list[int] = []

    def add(self, env: int, episode_return: float, length: int) -> None:
        """Note an episode of environment `env`."""
        self.envs.append(env)
        self.returns.append(episode_return)
        self.lengths.append(length)

    def take(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Hand out returns `[E]` and lengths `[E]` and forget them."""
        taken = np.array(self.returns, np.float64), np.array(self.lengths, np.int64)
        self.envs, self.returns, self.lengths = [], [], []
        return taken


class Sampler:
    """Steps one batch of environments with one policy.

    Parameters
    ----------
    envs
        The environments.
    policy
        Who acts in them.
    obs_filter
        Normalises observations.
    builder
        Makes batches of what was sampled.
    seeds
        Of this worker.
    limit
        Steps after which an episode is truncated; None if the environment does it.
    env_name
        For messages.
    learn_filter
        Whether the filter counts what it sees (not in evaluation).
    explore
        As in `Policy.compute_actions`.
    exact_recovery
        Whether the journal has what the environments are rebuilt from.
    """

    def __init__(
        self,
        envs: EnvBatch,
        policy: Policy,
        obs_filter: NoFilter,
        builder: BatchBuilder,
        seeds: WorkerSeeds,
        *,
        limit: int | None,
        env_name: str,
        learn_filter: bool = True,
        explore: bool | None = None,
        exact_recovery: bool = True,
    ) -> None:
        n = envs.num_envs
        self.envs = envs
        self.policy = policy
        self.filter = obs_filter
        self.seeds = seeds
        self.env_name = env_name
        self.exact_recovery = exact_recovery
        self.times = SampleTimes()
        self.episode_log = EpisodeLog()
        self.episodes_abandoned = 0
        self.rng = seeds.action_generator()
        self.episodes = np.zeros(n, np.int64)
        self.lengths = np.zeros(n, np.int64)
        self.returns = np.zeros(n)
        self.history: list[list[Array]] = [[] for _ in range(n)]
        self.starts = [0] * n
        self.resetting = np.zeros(n, np.bool_)
        self.raw = np.zeros((n, *envs.observation_space.shape), np.float32)
        self.columns = self._make_columns()
        self._builder = builder
        self._limit = None if envs.resets_itself else limit
        self.filtering = type(obs_filter) is not NoFilter
        self._learn_filter = learn_filter
        self._explore = explore
        self._started = False
        self._finished: list[Segment] = []
        self._eps_base = (seeds.worker_index << 48) + (np.arange(n, dtype=np.int64) << 32)

    def _make_columns(self) -> Trajectories:
        policy, space = self.policy, self.envs.observation_space
        inputs = np.zeros((self.envs.num_envs, policy.distribution.num_inputs), np.float32)
        example, _ = policy.distribution.mode(inputs)
        return Trajectories(64, self.envs.num_envs, space.shape, example, inputs.shape[1])

    # ---- fragments --------------------------------------------------------------------

    def sample_steps(self, num_steps: int) -> SampleBatch:
        """Step every environment `num_steps` times and cut there (`truncate_episodes`)."""
        self._start()
        for _ in range(num_steps):
            self.step()
        started = perf_counter()
        self._check_finite(0)
        batch = self._builder.all_rows(self.columns)
        self._remember_actions()
        self.columns.drop(self.columns.size)
        self._finished.clear()
        self.times.postprocessing += perf_counter() - started
        return batch

    def sample_episodes(self, min_steps: int) -> SampleBatch:
        """Step until episodes of `min_steps` steps in all have ended (`complete_episodes`).

        Open episodes stay in the columns for the next call.
        """
        self._start()
        checked = self.columns.size
        while sum(s.stop - s.start for s in self._finished) < min_steps:
            self.step()
        started = perf_counter()
        self._check_finite(checked)
        batch = self._builder.segments(self.columns, self._finished)
        self._finished.clear()
        unused = min(self.starts)
        self.columns.drop(min(unused, self.columns.size))
        self.starts = [start - unused for start in self.starts]
        self.times.postprocessing += perf_counter() - started
        return batch

    def run_episodes(self, num_episodes: int) -> tuple[Array, Array]:
        """Play exactly so many episodes and keep no transitions.

        Every environment plays its share, so that short episodes are not preferred.

        Returns
        -------
        returns, lengths
            float64 and int64 `[num_episodes]`.
        """
        self._start()
        n = self.envs.num_envs
        quota = [num_episodes // n + (env < num_episodes % n) for env in range(n)]
        done = [0] * n
        returns: list[float] = []
        lengths: list[int] = []
        while any(d < q for d, q in zip(done, quota, strict=True)):
            self.step()
            self._check_finite(0)
            for env, value, length in zip(
                self.episode_log.envs,
                self.episode_log.returns,
                self.episode_log.lengths,
                strict=True,
            ):
                if done[env] < quota[env]:
                    done[env] += 1
                    returns.append(value)
                    lengths.append(length)
            self.episode_log.take()
            self.columns.drop(self.columns.size)
            self.starts = [0] * n
            self._finished.clear()
        return np.array(returns), np.array(lengths)

    # ---- one step ---------------------------------------------------------------------

    def step(self) -> None:
        """Step every environment once."""
        columns = self.columns
        if columns.size == columns.capacity:
            columns.grow()
        t = columns.size
        begin = perf_counter()
        obs = columns.obs[t].reshape(self.envs.num_envs, -1)
        output = self.policy.compute_actions(obs, self.rng, self._explore)
        columns.actions[t] = output.actions
        columns.logp[t] = output.logp
        columns.dist_inputs[t] = output.dist_inputs
        env_actions = self.policy.to_env(output.actions)
        acted = perf_counter()
        raw = self.raw if self.filtering else columns.obs[t + 1]
        rewards, terminateds = columns.rewards[t], columns.terminateds[t]
        truncateds = columns.truncateds[t]
        try:
            self.envs.step(env_actions, raw, rewards, terminateds, truncateds)
        except EnvFailure as failure:
            raise self._env_error(failure, env_actions) from failure
        columns.t[t] = self.lengths
        columns.eps_id[t] = self._eps_base + self.episodes
        columns.size = t + 1
        self.lengths += 1
        self.returns += rewards
        if self._limit is not None:
            truncateds |= self.lengths >= self._limit
        if self.envs.resets_itself:
            self._leave_own_resets(t)
        done = terminateds | truncateds
        if done.any():
            self._end_episodes(t, np.flatnonzero(done).tolist(), raw)
        stepped = perf_counter()
        if self.filtering:
            columns.obs[t + 1] = self._filter(raw)
        self.times.environment += stepped - acted
        self.times.inference += acted - begin + (perf_counter() - stepped)

    def _filter(self, raw: Array) -> Array:
        return self.filter(raw) if self._learn_filter else self.filter.apply(raw)

    def _leave_own_resets(self, t: int) -> None:
        """Mark the steps in which environments reset themselves as no transitions."""
        if self.resetting.any():
            envs = self.resetting
            self.columns.valid[t, envs] = False
            self.episodes[envs] += 1
            self.lengths[envs] = 0
            self.returns[envs] = 0.0
            self.resetting = np.zeros_like(envs)

    def _end_episodes(self, t: int, done: list[int], raw: Array) -> None:
        for env in done:
            self.episode_log.add(env, float(self.returns[env]), int(self.lengths[env]))
            self._finished.append(Segment(env, self.starts[env], t + 1))
            if self.envs.resets_itself:
                self.resetting[env] = True
                self.starts[env] = t + 2
                continue
            self.columns.final_obs[t, env] = self.filter.apply(raw[env : env + 1])[0].copy()
            self.episodes[env] += 1
            self.begin_episode(env, raw[env])
            self.starts[env] = t + 1

    def begin_episode(self, env: int, raw: Array) -> None:
        """Reset one environment with its next episode's seed; `raw` takes the observation."""
        self.lengths[env] = 0
        self.returns[env] = 0.0
        self.history[env] = []
        try:
            self.envs.reset_one(env, self.episode_seed(env), raw)
        except EnvFailure as failure:
            raise self._env_error(failure, None) from failure

    def episode_seed(self, env: int) -> int:
        """Seed of the open episode of an environment."""
        return self.seeds.episode_seed(env, int(self.episodes[env]))

    def _start(self) -> None:
        if self._started:
            return
        begin = perf_counter()
        try:
            seeds = [self.episode_seed(env) for env in range(self.envs.num_envs)]
            self.envs.reset(seeds, self.raw)
        except EnvFailure as failure:
            raise self._env_error(failure, None) from failure
        self.columns.obs[self.columns.size] = self._filter(self.raw)
        self._started = True
        self.times.environment += perf_counter() - begin

    # ---- what went wrong --------------------------------------------------------------

    def _check_finite(self, start: int) -> None:
        columns = self.columns
        obs, rewards = columns.obs[start : columns.size + 1], columns.rewards[start : columns.size]
        finals = columns.final_obs
        if (
            np.isfinite(obs).all()
            and np.isfinite(rewards).all()
            and all(np.isfinite(final).all() for final in finals.values())
        ):
            return
        for t in range(start, columns.size):
            for env in range(self.envs.num_envs):
                seen = finals.get((t, env), columns.obs[t + 1, env])
                for what, value in (("observation", seen), ("reward", columns.rewards[t, env])):
                    if not np.isfinite(value).all():
                        self._raise_not_finite(t, env, what, value)
        raise EnvError(
            f"environment {self.env_name!r} returned a first observation that is not finite"
        )

    def _raise_not_finite(self, t: int, env: int, what: str, value: Any) -> None:
        columns = self.columns
        episode = int(columns.eps_id[t, env] - self._eps_base[env])
        action = self.policy.to_env(columns.actions[t, env : env + 1])[0]
        where = self._where(env, episode, int(columns.t[t, env]), action)
        raise EnvError(f"environment {self.env_name!r} returned the {what} {value} {where}")

    def _env_error(self, failure: EnvFailure, actions: Array | None) -> EnvError:
        env = failure.index
        if env is None:
            where = f"(worker {self.seeds.worker_index}, {self.envs.num_envs} stepped as one)"
        else:
            action = None if actions is None else actions[env]
            where = self._where(env, int(self.episodes[env]), int(self.lengths[env]), action)
        return EnvError(f"environment {self.env_name!r} {failure.what} {where}")

    def _where(self, env: int, episode: int, step: int, action: Any) -> str:
        seed = self.seeds.episode_seed(env, episode)
        seed_text = "" if self.envs.resets_itself else f", seed {seed}"
        what = "at its reset" if action is None else f"at step {step}, action {action}"
        return (
            f"(worker {self.seeds.worker_index}, environment {env}, episode {episode}{seed_text}, "
            f"{what})"
        )

    # ---- the journal ------------------------------------------------------------------

    def _remember_actions(self) -> None:
        """Keep the actions of open episodes, from which they are replayed."""
        size = self.columns.size
        if self.exact_recovery and not self.envs.resets_itself:
            for env, start in enumerate(self.starts):
                if start < size:
                    self.history[env].append(self.columns.actions[start:size, env].copy())
        # A self-vectorised environment may have its own reset ahead: then it starts at row 1.
        self.starts = [max(0, start - size) for start in self.starts]

    def actions_since_reset(self, env: int) -> Array:
        """Actions of the open episode as the policy chose them, `[t, ...]`."""
        columns = self.columns
        open_part = columns.actions[self.starts[env] : columns.size, env]
        return np.concatenate([*self.history[env], open_part])

    def get_state(self) -> dict[str, Any]:
        """Journal of this sampler: everything that its next fragment depends on."""
        return {
            "started": self._started,
            "rng": generator_state(self.rng),
            "episodes": self.episodes.copy(),
            "lengths": self.lengths.copy(),
            "returns": self.returns.copy(),
            "starts": list(self.starts),
            "resetting": self.resetting.copy(),
            "columns": self.columns.get_state(),
            "envs": env_state(self) if self._started else None,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue exactly where `get_state` was called."""
        load_generator(self.rng, state["rng"])
        self._started = state["started"]
        self.episodes[...] = state["episodes"]
        self.lengths[...] = state["lengths"]
        self.returns[...] = state["returns"]
        self.starts = [int(start) for start in state["starts"]]
        self.resetting = np.array(state["resetting"])
        self.columns.set_state(state["columns"])
        if self._started:
            restore_envs(self, state["envs"])
