"""Types of configuration values that YAML and people write in more than one way."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


def _integral(value: Any) -> Any:
    """Let 1e5 and 4.0 through where a whole number is expected."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _as_float(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _points(value: Any) -> Any:
    """Turn the lists of YAML into the pairs of a schedule."""
    if isinstance(value, list | tuple):
        return [
            tuple(_as_float(number) for number in pair) if isinstance(pair, list | tuple) else pair
            for pair in value
        ]
    return value


Int = Annotated[int, BeforeValidator(_integral)]
"""A whole number; an integral float is one."""

Number = Annotated[float, BeforeValidator(_as_float)]
"""A number; a whole one too."""

Schedule = Annotated[list[tuple[float, float]], BeforeValidator(_points)]
"""`[timestep, value]` points of a piecewise linear schedule."""
