"""The rollout worker: environments, policies and filters behind a few methods.

The same class runs in the driver, in a thread and in an actor.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from dtrainer.config import TrainerConfig
from dtrainer.data import DEFAULT_POLICY_ID, MultiAgentBatch
from dtrainer.envs import EnvMaker, episode_limit, make_env_batch
from dtrainer.policies import Policy
from dtrainer.rollout.filters import NoFilter, make_filter
from dtrainer.rollout.fragment import BatchBuilder, Fragment, SampleTimes
from dtrainer.rollout.postprocessing import Advantages
from dtrainer.rollout.sampler import Sampler
from dtrainer.rollout.seeding import Role, WorkerSeeds

Float = NDArray[np.float32]


def set_log_level(level: str) -> None:
    """Set the level of dtrainer's loggers in this process."""
    logging.getLogger("dtrainer").setLevel({"WARN": "WARNING"}.get(level, level))


@dataclass(frozen=True)
class WorkerSpec:
    """All that a rollout worker is built from; travels to the actors.

    Attributes
    ----------
    env
        Makes the environments.
    config
        The trainer's configuration.
    observation_space, action_space
        Of one environment, as the driver found them.
    entropy
        The run's seed.
    postprocess
        What to compute from trajectories.
    role
        Sampling for training, or evaluation.
    explore
        As in `Policy.compute_actions`.
    """

    env: EnvMaker
    config: TrainerConfig
    observation_space: gym.Space  # type: ignore[type-arg]
    action_space: gym.Space  # type: ignore[type-arg]
    entropy: int
    postprocess: Advantages | None = None
    role: Role = Role.SAMPLING
    explore: bool | None = None

    def policies(self) -> dict[str, Policy]:
        """Make the policies, without weights."""
        policy = Policy(self.observation_space, self.action_space, self.config)
        return {DEFAULT_POLICY_ID: policy}

    def filters(self) -> dict[str, NoFilter]:
        """Make the observation filters, one a policy."""
        shape = self.observation_space.shape or ()
        return {DEFAULT_POLICY_ID: make_filter(self.config.observation_filter, shape)}


@dataclass(frozen=True)
class SyncUpdate:
    """What a worker needs before it samples on: new weights, merged filters.

    Attributes
    ----------
    weights
        Policy id to version and flat vector float32 `[P]`.
    filters
        Policy id to the driver's filter statistics.
    """

    weights: Mapping[str, tuple[int, Float]]
    filters: Mapping[str, dict[str, Any] | None]

    @property
    def nbytes(self) -> int:
        """Size of the weights, bytes."""
        return sum(flat.nbytes for _, flat in self.weights.values())


class RolloutWorker:
    """Samples fragments.

    Environments are made at the first use, in the thread that uses them.

    Parameters
    ----------
    spec
        What to build.
    worker_index
        0 in the driver, from 1 in actors.
    """

    def __init__(self, spec: WorkerSpec, worker_index: int) -> None:
        set_log_level(spec.config.log_level)
        self.spec = spec
        self.worker_index = worker_index
        self.policies = spec.policies()
        self.filters = spec.filters()
        self._sampler: Sampler | None = None
        self._fake: Fragment | None = None

    # ---- sampling ---------------------------------------------------------------------

    @property
    def sampler(self) -> Sampler:
        """The sampler, made with its environments at the first use."""
        if self._sampler is None:
            spec, config = self.spec, self.spec.config
            policy = self.policies[DEFAULT_POLICY_ID]
            self._sampler = Sampler(
                make_env_batch(spec.env, config, self.worker_index),
                policy,
                self.filters[DEFAULT_POLICY_ID],
                BatchBuilder(policy, spec.postprocess, config.clip_rewards),
                WorkerSeeds(spec.entropy, spec.role, self.worker_index),
                limit=episode_limit(spec.env, config),
                env_name=spec.env.name,
                learn_filter=spec.role == Role.SAMPLING,
                explore=spec.explore,
                exact_recovery=config.exact_recovery,
            )
        return self._sampler

    def sample(self, update: SyncUpdate | None = None) -> Fragment:
        """Sample one fragment, `rollout_fragment_length` and `batch_mode` as configured.

        Parameters
        ----------
        update
            Weights and filters to take over before.

        Raises
        ------
        EnvError
            If an environment raises, breaks its spaces or returns what is not finite.
        """
        started = perf_counter()
        if update is not None:
            self.take_over(update)
        if self._fake is not None:
            return self._fake
        config, sampler = self.spec.config, self.sampler
        sampler.times = SampleTimes()
        length = config.resolved_fragment_length()
        if config.batch_mode == "complete_episodes":
            batch = sampler.sample_episodes(length * config.num_envs_per_worker)
        else:
            batch = sampler.sample_steps(length)
        returns, lengths = sampler.episode_log.take()
        fragment = Fragment(
            batch=MultiAgentBatch({DEFAULT_POLICY_ID: batch}, batch.count),
            episode_returns=returns,
            episode_lengths=lengths,
            filter_deltas={pid: filter_.take_delta() for pid, filter_ in self.filters.items()},
            times=sampler.times,
            weights_versions={pid: policy.version for pid, policy in self.policies.items()},
            episodes_abandoned=sampler.episodes_abandoned,
        )
        sampler.episodes_abandoned = 0
        fragment.times.total = perf_counter() - started
        if config.fake_sampler:
            self._fake = fragment
        return fragment

    def run_episodes(self, num_episodes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Play exactly so many episodes; their returns and lengths, `[num_episodes]` each."""
        return self.sampler.run_episodes(num_episodes)

    # ---- weights, filters, state ------------------------------------------------------

    def take_over(self, update: SyncUpdate) -> None:
        """Take over weights and filter statistics."""
        for policy_id, (version, flat) in update.weights.items():
            self.policies[policy_id].load_flat_weights(flat, version)
        for policy_id, stats in update.filters.items():
            self.filters[policy_id].load(stats)

    def get_state(self) -> dict[str, Any]:
        """Journal of this worker: what it needs to sample on exactly where it is.

        Returns
        -------
        Plain data without the weights, which come with the next call.
        """
        return {
            "worker_index": self.worker_index,
            "sampler": None if self._sampler is None else self._sampler.get_state(),
            "filters": {pid: filter_.get_state() for pid, filter_ in self.filters.items()},
        }

    def set_state(self, state: Mapping[str, Any] | None, entropy: int) -> None:
        """Continue where `get_state` was called.

        Parameters
        ----------
        state
            The journal; None to start afresh.
        entropy
            Seed of the run that it is of.

        Raises
        ------
        EnvError
            If an environment raises while its episode is replayed.
        """
        self.close()
        self.spec = replace(self.spec, entropy=entropy)
        self.filters = self.spec.filters()
        if state is None:
            return
        for policy_id, filter_state in state["filters"].items():
            self.filters[policy_id].set_state(filter_state)
        if state["sampler"] is not None:
            self.sampler.set_state(state["sampler"])

    def get_host(self) -> dict[str, Any]:
        """Host name and process id."""
        return {"host": socket.gethostname(), "pid": os.getpid()}

    def close(self) -> None:
        """Close the environments."""
        if self._sampler is not None:
            self._sampler.envs.close()
            self._sampler = None
