"""The `stop` section: result keys and the values that end a run."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dtrainer.config.mistakes import Mistake, Path, nearest
from dtrainer.config.wording import found

RESULT_KEYS = (
    "episode_reward_mean",
    "episode_reward_max",
    "episode_reward_min",
    "episode_len_mean",
    "episodes_total",
    "episodes_this_iter",
    "timesteps_total",
    "timesteps_this_iter",
    "timesteps_since_restore",
    "training_iteration",
    "iterations_since_restore",
    "time_total_s",
    "time_this_iter_s",
    "time_since_restore",
    "num_healthy_workers",
)
"""Numbers in every result."""

RESULT_SECTIONS = (
    "info",
    "evaluation",
    "custom_metrics",
    "timers",
    "perf",
    "sampler_perf",
    "time_breakdown_s",
    "transport",
    "policy_reward_mean",
    "policy_reward_min",
    "policy_reward_max",
)
"""Results that have keys of their own: `info/learner/default_policy/kl`."""


def read_stop(stop: Any) -> tuple[Any, list[Mistake], list[str]]:
    """Check stop criteria.

    Parameters
    ----------
    stop
        Result keys to numbers; nested ones as sections, or with `/` or `.` between.

    Returns
    -------
    criteria
        Flat, nested keys with `/` between.
    mistakes
        What is no number.
    notes
        Keys that no result has.
    """
    if stop is None:
        return {}, [], []
    if not isinstance(stop, Mapping):
        text = f"expected a mapping of result keys to numbers, found {found(stop)}"
        return {}, [Mistake(("stop",), text)], []
    criteria: dict[str, float] = {}
    mistakes: list[Mistake] = []
    notes: list[str] = []
    for path, value in _leaves(stop, ()):
        key = "/".join(str(part) for part in path)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            mistakes.append(Mistake(("stop", *path), f"expected a number, found {found(value)}"))
        else:
            criteria[key] = float(value)
        if not _is_known(key):
            meant = nearest(key, RESULT_KEYS)
            asked = f". Did you mean {meant}?" if meant else ""
            notes.append(f"stop.{key} is no key of a result: it will never end the run{asked}")
    return criteria, mistakes, notes


def _leaves(section: Mapping[Any, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    for key, value in section.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _is_known(key: str) -> bool:
    first, *rest = re.split(r"[./]", key)
    return first in RESULT_SECTIONS if rest else first in RESULT_KEYS
