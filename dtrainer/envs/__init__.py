"""Environments: registry, vectorisation, checks."""

from dtrainer.envs.batch import EnvBatch, EnvFailure, SyncEnvs
from dtrainer.envs.context import EnvContext
from dtrainer.envs.factory import episode_limit, make_env_batch, probe_env
from dtrainer.envs.registry import EnvMaker, register_env, resolve_env
from dtrainer.envs.self_vectorized import SelfVectorizedEnvs

__all__ = [
    "EnvBatch",
    "EnvContext",
    "EnvFailure",
    "EnvMaker",
    "SelfVectorizedEnvs",
    "SyncEnvs",
    "episode_limit",
    "make_env_batch",
    "probe_env",
    "register_env",
    "resolve_env",
]
