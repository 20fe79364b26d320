"""From a mapping to a configuration, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from dtrainer.config.compat import translate, warn
from dtrainer.config.mistakes import Mistake, from_pydantic, show
from dtrainer.config.notyet import not_built_yet
from dtrainer.config.trainer import TrainerConfig

ConfigT = TypeVar("ConfigT", bound=TrainerConfig)


def check_config(
    cls: type[ConfigT], mapping: object
) -> tuple[ConfigT | None, list[Mistake]]:
    """Make a configuration.

    Returns
    -------
    config
        None if there are mistakes.
    mistakes
        All of them: wrong values do not hide keys that are not built yet.
    """
    if not isinstance(mapping, Mapping):
        return None, [Mistake((), f"expected a mapping of keys to values, found {show(mapping)}")]
    if odd := [key for key in mapping if not isinstance(key, str)]:
        return None, [Mistake((str(key),), "expected a name as key") for key in odd]
    keys, mistakes = translate(mapping)
    try:
        config = cls.model_validate(keys)
    except ValidationError as error:
        wrong = from_pydantic(error, cls)
        # Check the rest too, with defaults in place of what is wrong.
        top = {mistake.path[0] for mistake in wrong if mistake.path}
        rest = {key: value for key, value in keys.items() if key not in top}
        return None, mistakes + wrong + not_built_yet(cls.model_validate(rest))
    mistakes += not_built_yet(config)
    mistakes += [Mistake((key,), text) for key, text in config.cross_checks()]
    if mistakes:
        return None, mistakes
    _warn_of_larger_batch(config)
    return config, []


def _warn_of_larger_batch(config: TrainerConfig) -> None:
    size = config.rounds_per_batch() * config.steps_per_round()
    if config.batch_mode == "truncate_episodes" and size != config.train_batch_size:
        warn(
            f"train batches have {size} steps, not train_batch_size: {config.train_batch_size}: "
            f"that is the smallest multiple of one fragment of every worker "
            f"({config.steps_per_round()} steps)"
        )
