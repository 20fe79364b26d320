"""Numbers and keys of results as people read them."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

LABELS = {
    "timesteps_total": "environment steps",
    "training_iteration": "iterations",
    "episodes_total": "episodes",
    "time_total_s": "training time (s)",
    "time_since_restore": "training time since the resume (s)",
    "timesteps_since_restore": "environment steps since the resume",
    "iterations_since_restore": "iterations since the resume",
    "time_this_iter_s": "time of an iteration (s)",
    "timesteps_this_iter": "environment steps of an iteration",
    "episode_reward_mean": "mean return",
    "episode_reward_min": "lowest return",
    "episode_reward_max": "highest return",
    "episode_len_mean": "mean episode length (steps)",
    "episodes_this_iter": "episodes of an iteration",
    "num_healthy_workers": "healthy actors",
    "info/num_steps_sampled": "environment steps",
    "info/num_steps_trained": "steps trained on",
}
"""Result key to what it is called on axes and bars."""


def label(key: str) -> str:
    """Name a result key in words; one without words is spelt as it is."""
    return LABELS.get(key.replace(".", "/"), key)


def duration(seconds: float) -> str:
    """Say a time span: `12.3 s`, `4 min 05 s`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 59.95 else "1 min 00 s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = whole // 60
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def figure(value: Any, digits: int = 1) -> str:
    """Write a number with thousands separators; whole ones without decimals, none as `-`.

    Numbers too small for the digits are written with three significant ones.
    """
    if not is_number(value):
        return "-"
    number = float(value)
    if number == int(number):
        return f"{int(number):,}"
    if abs(number) < 10**-digits:
        return f"{number:.3g}"
    return f"{number:,.{digits}f}"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a result holds a finite number there."""
    return isinstance(value, int | float) and math.isfinite(value)
