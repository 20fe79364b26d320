"""Environments as they were: replayed from seeds and actions, or copied.

An episode of most environments follows from its seed and its actions, so a journal holds
these, or what the environment itself gives (`get_state`, or a copy of its attributes if it
vectorises itself).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dtrainer.config.errors import EnvError
from dtrainer.envs import EnvFailure

if TYPE_CHECKING:
    from dtrainer.rollout.sampler import Sampler

log = logging.getLogger(__name__)


def env_state(sampler: Sampler) -> list[Any]:
    """What the environments of a sampler are rebuilt from, as plain data."""
    if not sampler.exact_recovery:
        return []
    if sampler.envs.resets_itself:
        return [{"snapshot": sampler.envs.snapshot(None)}]
    entries: list[Any] = []
    for env in range(sampler.envs.num_envs):
        snapshot = sampler.envs.snapshot(env)
        entry = {"last_obs": last_raw_obs(sampler, env), "snapshot": snapshot}
        # The history is needed with a snapshot too: the next journal is built on it.
        entry["actions"] = sampler.actions_since_reset(env)
        entries.append(entry)
    return entries


def last_raw_obs(sampler: Sampler, env: int) -> NDArray[np.float32]:
    """Observation that an environment returned last, unfiltered."""
    source = sampler.raw if sampler.filtering else sampler.columns.obs[sampler.columns.size]
    last: NDArray[np.float32] = source[env].copy()
    return last


def restore_envs(sampler: Sampler, entries: list[Any]) -> None:
    """Bring the environments of a sampler to where `env_state` saw them.

    An environment that cannot be brought there (it is not deterministic, has no copy, or
    `exact_recovery` is off) starts its episode anew, which is counted in `episodes_abandoned`.
    """
    if sampler.envs.resets_itself:
        _restore_as_one(sampler, entries[0]["snapshot"] if entries else None)
        return
    if not entries:
        for env in range(sampler.envs.num_envs):
            _abandon(sampler, env)
        return
    differing = 0
    for env, entry in enumerate(entries):
        actions = np.asarray(entry["actions"])
        open_rows = sampler.columns.size - sampler.starts[env]
        past = actions[: len(actions) - max(open_rows, 0)]
        sampler.history[env] = [past] if len(past) else []
        if entry["snapshot"] is not None:
            sampler.envs.restore(env, entry["snapshot"])
            sampler.raw[env] = entry["last_obs"]
        elif not _replay(sampler, env, actions, entry["last_obs"]):
            differing += 1
            _abandon(sampler, env)
    if differing:
        log.warning(
            "%d of %d environments %r did not come back the same from seed and actions; their "
            "episodes start anew. Set exact_recovery: false if it is not deterministic.",
            differing,
            len(entries),
            sampler.env_name,
        )


def _restore_as_one(sampler: Sampler, snapshot: Any) -> None:
    if snapshot is not None:
        sampler.envs.restore(None, snapshot)
        return
    sampler.episodes += 1
    seeds = [sampler.episode_seed(env) for env in range(sampler.envs.num_envs)]
    sampler.envs.reset(seeds, sampler.raw)
    sampler.episodes_abandoned += sampler.envs.num_envs
    sampler.columns.obs[sampler.columns.size] = sampler.filter.apply(sampler.raw)
    sampler.lengths[...] = 0
    sampler.returns[...] = 0.0
    sampler.resetting[...] = False


def _replay(
    sampler: Sampler, env: int, actions: NDArray[Any], last_obs: NDArray[np.float32]
) -> bool:
    """Play the open episode again; whether it ends in the same observation."""
    obs = sampler.raw[env]
    try:
        sampler.envs.reset_one(env, sampler.episode_seed(env), obs)
        if len(actions):
            for action in sampler.policy.to_env(actions):
                sampler.envs.step_one(env, action, obs)
    except EnvFailure as failure:
        raise EnvError(
            f"environment {sampler.env_name!r} {failure.what} while its episode was replayed "
            f"(worker {sampler.seeds.worker_index}, environment {env}, seed "
            f"{sampler.episode_seed(env)})"
        ) from failure
    return np.array_equal(obs, last_obs)


def _abandon(sampler: Sampler, env: int) -> None:
    sampler.episodes_abandoned += 1
    sampler.episodes[env] += 1
    sampler.begin_episode(env, sampler.raw[env])
    sampler.starts[env] = sampler.columns.size
    first = sampler.filter.apply(sampler.raw[env : env + 1])[0]
    sampler.columns.obs[sampler.columns.size, env] = first
