"""Changes from the command line: `config.lr=3e-4 num_workers=4 stop.timesteps_total=1e5`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dtrainer.config.errors import ConfigError
from dtrainer.config.mistakes import Mistake
from dtrainer.config.wording import found
from dtrainer.config.yaml_file import parse_value

_TWINS = {
    ("env",): ("config", "env"),
    ("seed",): ("config", "seed"),
    ("config", "env"): ("env",),
    ("config", "seed"): ("seed",),
    ("config", "rollout_fragment_length"): ("config", "sample_batch_size"),
    ("config", "sample_batch_size"): ("config", "rollout_fragment_length"),
    ("results",): ("local_dir",),
}
"""Two places for one thing: a change of one undoes what the file says in the other."""


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
        If a change has no `=` or no key; names all such.
    """
    known = set(experiment_keys)
    overrides, odd = [], []
    for text in texts:
        key, equals, value = text.partition("=")
        parts = tuple(part.strip() for part in key.split("."))
        if not equals or not all(parts):
            odd.append(repr(text))
            continue
        if parts[0] not in known:
            parts = ("config", *parts)
        overrides.append(Override(parts, parse_value(value), text))
    if odd:
        raise ConfigError(
            f"not a change of the configuration: {', '.join(odd)}",
            hint="Write key=value, such as config.lr=3e-4 or stop.timesteps_total=1e5.",
        )
    return overrides


def apply_override(data: dict[str, Any], override: Override) -> list[Mistake]:
    """Change plain data in place, making sections that are missing.

    Returns
    -------
    A mistake if the change leads into something that has no keys.
    """
    *sections, last = override.path
    node = data
    for depth, part in enumerate(sections, start=1):
        inner = node.setdefault(part, {})
        if inner is None:
            inner = node[part] = {}
        if not isinstance(inner, dict):
            path = override.path[:depth]
            return [
                Mistake(override.path, f"{'.'.join(path)} is {found(inner)}, which has no keys")
            ]
        node = inner
    node[last] = override.value
    _forget(data, _TWINS.get(override.path))
    return []


def _forget(data: dict[str, Any], path: tuple[str, ...] | None) -> None:
    if path is None:
        return
    node: Any = data
    for part in path[:-1]:
        node = node.get(part)
    if isinstance(node, dict):
        node.pop(path[-1], None)
