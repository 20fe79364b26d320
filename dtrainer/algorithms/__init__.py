"""One file an algorithm, and their registry."""

from dtrainer.algorithms.registry import get_config_class, get_trainer_class

__all__ = ["get_config_class", "get_trainer_class"]
