"""Changes from the command line: `config.lr=3e-4 num_workers=4 stop.timesteps_total=1e5`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dtrainer.config.errors import ConfigError
from dtrainer.config.yaml_file import parse_value


@dataclass(frozen=True)
class Override:
    """One change.

    Attributes
    ----------
    path
        Keys from the experiment's on.
    value
        As YAML reads it.
    text
        As it was written.
    """

    path: tuple[str, ...]
    value: Any
    text: str


def parse_overrides(texts: Iterable[str], experiment_keys: Iterable[str]) -> list[Override]:
    """Read changes; a first key that is not an experiment's is one of its `config`.

    Raises
    ------
    ConfigError
        If a change has no `=` or no key.
    """
    known = set(experiment_keys)
    overrides = []
    for text in texts:
        key, equals, value = text.partition("=")
        parts = tuple(part.strip() for part in key.split("."))
        if not equals or not all(parts):
            raise ConfigError(
                f"{text!r} is not a change of the configuration",
                hint="Write key=value, such as config.lr=3e-4 or stop.timesteps_total=1e5.",
            )
        if parts[0] not in known:
            parts = ("config", *parts)
        overrides.append(Override(parts, parse_value(value), text))
    return overrides


def apply_override(data: dict[str, Any], override: Override) -> None:
    """Change plain data in place, making sections that are missing."""
    node = data
    for part in override.path[:-1]:
        if not isinstance(node.get(part), dict):
            node[part] = {}
        node = node[part]
    node[override.path[-1]] = override.value
