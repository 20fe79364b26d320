"""The algorithms by name: ours, and those that other packages bring."""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from dtrainer.config import ConfigError

if TYPE_CHECKING:
    from dtrainer.config import TrainerConfig
    from dtrainer.training.trainer import Trainer

BUILT_IN = {"PPO": "dtrainer.algorithms.ppo:PPO"}
ENTRY_POINT_GROUP = "dtrainer.algorithms"


def get_trainer_class(name: str) -> type[Trainer[Any]]:
    """Trainer class of an algorithm.

    Parameters
    ----------
    name
        As in the `run` key: `PPO`, or the name of an entry point `dtrainer.algorithms`.

    Raises
    ------
    ConfigError
        If there is none; names the nearest.
    """
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        trainer: type[Trainer[Any]] = getattr(importlib.import_module(module), attribute)
        return trainer
    plugins = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name in plugins:
        loaded: type[Trainer[Any]] = plugins[name].load()
        return loaded
    known = sorted({*BUILT_IN, *plugins})
    folded = {other.casefold(): other for other in known}
    nearest = difflib.get_close_matches(name.casefold(), folded, n=1)
    hint = f"Did you mean {folded[nearest[0]]}?" if nearest else f"There are: {', '.join(known)}."
    raise ConfigError(f"there is no algorithm {name!r}", hint=hint)


def get_config_class(name: str) -> type[TrainerConfig]:
    """Configuration class of an algorithm; raises as `get_trainer_class`."""
    return get_trainer_class(name).config_class
