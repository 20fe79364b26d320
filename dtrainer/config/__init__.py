"""Configuration: trainer keys, experiment files, overrides, schema."""

from dtrainer.config.cluster import ClusterSpec
from dtrainer.config.errors import ConfigError, DtrainerError
from dtrainer.config.experiment import Experiment, load_experiments
from dtrainer.config.mistakes import ConfigWarning
from dtrainer.config.model import ModelConfig
from dtrainer.config.trainer import TrainerConfig

__all__ = [
    "ClusterSpec",
    "ConfigError",
    "ConfigWarning",
    "DtrainerError",
    "Experiment",
    "ModelConfig",
    "TrainerConfig",
    "load_experiments",
]
