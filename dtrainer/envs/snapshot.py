"""The state of an environment that keeps it in plain attributes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

_GENERATOR = "__numpy_generator__"
_STATIC = (gym.Space, gym.envs.registration.EnvSpec)
_PLAIN = (bool, int, float, str, bytes, type(None), np.generic)


def take_snapshot(env: Any) -> dict[str, Any] | None:
    """Copy the attributes of an environment as plain data.

    Works for environments whose whole state is numbers, arrays and numpy generators, as
    that of most environments that vectorise themselves is. `get_state` is preferred where
    the environment has it.

    Parameters
    ----------
    env
        Unwrapped.

    Returns
    -------
    None if an attribute is of another kind: then a copy would not be the whole state.
    """
    if hasattr(env, "get_state") and hasattr(env, "set_state"):
        return {"own": env.get_state()}
    try:
        state = {
            name: _copy(value)
            for name, value in vars(env).items()
            if not isinstance(value, _STATIC)
        }
    except TypeError:
        return None
    return {"attributes": state}


def restore_snapshot(env: Any, snapshot: dict[str, Any]) -> None:
    """Write back what `take_snapshot` copied."""
    if "own" in snapshot:
        env.set_state(snapshot["own"])
        return
    for name, value in snapshot["attributes"].items():
        setattr(env, name, _rebuild(value))


def _copy(value: Any) -> Any:
    if isinstance(value, np.random.Generator):
        return {_GENERATOR: value.bit_generator.state}
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.copy()
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _copy(entry) for key, entry in value.items() if not _is_enum(entry)}
    if isinstance(value, list | tuple):
        return type(value)(_copy(entry) for entry in value)
    if isinstance(value, _PLAIN):
        return value
    raise TypeError(type(value).__name__)


def _is_enum(value: Any) -> bool:
    # Metadata hold the autoreset mode, which never changes.
    return isinstance(value, gym.vector.AutoresetMode)


def _rebuild(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {_GENERATOR}:
        state = value[_GENERATOR]
        bit_generator = getattr(np.random, state["bit_generator"])()
        bit_generator.state = state
        return np.random.Generator(bit_generator)
    if isinstance(value, dict):
        return {key: _rebuild(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_rebuild(entry) for entry in value)
    return value.copy() if isinstance(value, np.ndarray) else value
