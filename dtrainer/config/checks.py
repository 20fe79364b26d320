"""From a mapping to a configuration, or to everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from dtrainer.config.cluster import ClusterSpec
from dtrainer.config.compat import translate, warn
from dtrainer.config.mistakes import Mistake, MistakesError, from_pydantic, raise_mistakes
from dtrainer.config.model import ModelConfig
from dtrainer.config.notyet import not_built_yet
from dtrainer.config.wording import found, keys_of

if TYPE_CHECKING:
    from dtrainer.config.trainer import TrainerConfig

ConfigT = TypeVar("ConfigT", bound="TrainerConfig")

EXPERIMENT_ONLY = (
    "name",
    "run",
    "stop",
    "checkpoint_freq",
    "checkpoint_at_end",
    "keep_checkpoints_num",
    "cluster",
    "results",
)
"""Keys that stand beside `config` and not in it."""


def check_config(cls: type[ConfigT], mapping: object) -> tuple[ConfigT | None, list[Mistake]]:
    """Make a configuration.

    Returns
    -------
    config
        None if there are mistakes.
    mistakes
        All of them.
    """
    try:
        return cls.model_validate(mapping), []
    except MistakesError as error:
        return None, list(error.mistakes)


def read_cluster(given: Any) -> ClusterSpec:
    """Make a cluster's specification of what a program passes: a mapping, a word or an address.

    Raises
    ------
    ConfigError
        With every mistake.
    """
    try:
        return ClusterSpec.model_validate(given)
    except ValidationError as error:
        mistakes = from_pydantic(error, ClusterSpec, given)
        raise_mistakes([each.under("cluster") for each in mistakes], ClusterSpec.__name__)
        raise


def checked(cls: type[ConfigT], data: Any, validate: Callable[[Any], ConfigT]) -> ConfigT:
    """Make a configuration with pydantic's validator; what every way of making one goes through.

    Raises
    ------
    MistakesError
        With all mistakes: wrong values do not hide keys that are not built yet.
    """
    keys, mistakes, notes = _keys(data)
    try:
        config = validate(keys)
        wrong: list[Mistake] = []
    except ValidationError as error:
        wrong = [_placed(mistake, cls) for mistake in from_pydantic(error, cls, keys)]
        # Check the rest too, with defaults in place of what is wrong.
        top = {mistake.path[0] for mistake in wrong}
        config = validate({key: value for key, value in keys.items() if key not in top})
    mistakes += wrong + not_built_yet(config) + _across(config, wrong)
    raise_mistakes(mistakes, cls.__name__)
    for note in notes:
        warn(note)
    _warn_of_larger_batch(config)
    return config


def _keys(data: Any) -> tuple[dict[str, Any], list[Mistake], list[str]]:
    if not isinstance(data, Mapping):
        return {}, [Mistake((), f"expected a mapping of keys to values, found {found(data)}")], []
    odd = [
        Mistake(
            (key if isinstance(key, int) else str(key),),
            f"expected a name as key, found {found(key)}",
        )
        for key in data
        if not isinstance(key, str)
    ]
    keys, mistakes, notes = translate({key: data[key] for key in data if isinstance(key, str)})
    return keys, odd + mistakes, list(notes.values())


def _across(config: TrainerConfig, wrong: list[Mistake]) -> list[Mistake]:
    """Check keys against each other, but not against defaults that stand in for wrong values."""
    unsure = {str(mistake.path[0]) for mistake in wrong}
    unsure |= {mistake.meant for mistake in wrong if mistake.meant is not None}
    return [
        Mistake((key,), text)
        for key, text in config.cross_checks()
        if unsure.isdisjoint(re.findall(r"\w+", f"{key} {text}"))
    ]


def _placed(mistake: Mistake, cls: type[TrainerConfig]) -> Mistake:
    """Say of an unknown key on which level it belongs, if it is known on another."""
    if not mistake.message.startswith("unknown key"):
        return mistake
    key = str(mistake.path[-1])
    if len(mistake.path) == 1 and key in keys_of(ModelConfig):
        where = "It belongs under model"
    elif len(mistake.path) == 1 and key in EXPERIMENT_ONLY:
        where = "It belongs to an experiment, beside run and env"
    elif mistake.path[0] == "model" and key in keys_of(cls):
        where = "It belongs one level higher, beside model"
    else:
        return mistake
    return replace(mistake, message=f"unknown key here. {where}", meant=key)


def _warn_of_larger_batch(config: TrainerConfig) -> None:
    size = config.rounds_per_batch() * config.steps_per_round()
    if (
        config.batch_mode == "truncate_episodes"
        and config.rollout_fragment_length != "auto"
        and config.samples_train_batches
        and size != config.train_batch_size
    ):
        warn(
            f"train batches have {size} steps, not train_batch_size: {config.train_batch_size}: "
            f"that is the smallest multiple of one fragment of every worker "
            f"({config.steps_per_round()} steps). rollout_fragment_length: auto fits"
        )
