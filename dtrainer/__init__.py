"""dtrainer: a reinforcement-learning trainer on Dask for Slurm, PBS and one machine.

The names are imported when they are first used, so that the command line starts at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtrainer.algorithms.ppo import PPO, PPOConfig
    from dtrainer.config import (
        ClusterSpec,
        DtrainerError,
        Experiment,
        ModelConfig,
        TrainerConfig,
        load_experiments,
    )
    from dtrainer.envs import EnvContext, register_env
    from dtrainer.training.evaluation import evaluate
    from dtrainer.training.trainer import Trainer

__version__ = "0.1.0"

__all__ = [
    "PPO",
    "ClusterSpec",
    "DtrainerError",
    "EnvContext",
    "Experiment",
    "ModelConfig",
    "PPOConfig",
    "Trainer",
    "TrainerConfig",
    "evaluate",
    "load_experiments",
    "register_env",
]

_HOMES = {
    "PPO": "algorithms.ppo",
    "PPOConfig": "algorithms.ppo",
    "EnvContext": "envs",
    "register_env": "envs",
    "evaluate": "training.evaluation",
    "Trainer": "training.trainer",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'config')}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
