"""How fast a run goes, and when it will be done."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dtrainer.reporting.files import numbers

WINDOW = 10
COUNTERS = frozenset(
    {
        "training_iteration",
        "timesteps_total",
        "episodes_total",
        "time_total_s",
        "iterations_since_restore",
        "timesteps_since_restore",
        "time_since_restore",
        "num_steps_sampled",
        "num_steps_trained",
    }
)
"""Last parts of the result keys that grow evenly, so that they can be extrapolated."""


@dataclass(frozen=True)
class Goal:
    """The stop criterion that will be met first, as far as can be told.

    Attributes
    ----------
    key
        Result key.
    value, target
        Where it is and where the run stops.
    eta_s
        Seconds until then at the pace of the latest iterations; None if it does not grow.
    """

    key: str
    value: float
    target: float
    eta_s: float | None

    @property
    def fraction(self) -> float:
        """Share of the way, between 0 and 1."""
        if self.target <= 0:
            return 1.0
        return min(max(self.value / self.target, 0.0), 1.0)


class Pace:
    """Steps per second and time left, from the latest iterations.

    Parameters
    ----------
    stop
        Result key, nested by `/` or `.`, to the value at which the run stops.
    resumed
        Whether the run goes on from a checkpoint; else every counter was 0 before its first result.
    window
        Iterations that count.
    """

    def __init__(
        self, stop: Mapping[str, float], *, resumed: bool = False, window: int = WINDOW
    ) -> None:
        self._stop = {key.replace(".", "/"): float(value) for key, value in stop.items()}
        self._resumed = resumed
        self._samples: deque[dict[str, float]] = deque(maxlen=window + 1)

    def add(self, result: Mapping[str, Any]) -> None:
        """Take in the result of an iteration."""
        wanted = {"timesteps_total", "time_total_s", *self._stop}
        sample = {key: value for key, value in numbers(result).items() if key in wanted}
        if not self._samples:
            self._samples.append(self._before(sample, result))
        self._samples.append(sample)

    def _before(self, first: Mapping[str, float], result: Mapping[str, Any]) -> dict[str, float]:
        """Counters before the first result, as far as they are known."""
        if not self._resumed:
            return dict.fromkeys(first, 0.0)
        steps = {
            "training_iteration": 1.0,
            "timesteps_total": float(result.get("timesteps_this_iter", math.nan)),
            "time_total_s": float(result.get("time_this_iter_s", math.nan)),
        }
        known = {key: first[key] - step for key, step in steps.items() if key in first}
        fresh = {key: 0.0 for key in first if key.endswith("_since_restore")}
        return {**known, **fresh}

    def rate(self, key: str) -> float | None:
        """Growth of a counter per second of training; None where it is unknown."""
        known = [sample for sample in self._samples if key in sample and "time_total_s" in sample]
        if len(known) < 2:
            return None
        seconds = known[-1]["time_total_s"] - known[0]["time_total_s"]
        rate = (known[-1][key] - known[0][key]) / seconds if seconds > 0 else math.nan
        return rate if math.isfinite(rate) else None

    @property
    def steps_per_s(self) -> float | None:
        """Environment steps per second over the latest iterations."""
        return self.rate("timesteps_total")

    def goal(self) -> Goal | None:
        """The criterion with the least time left; None if none can be extrapolated."""
        goals = [self._goal(key, target) for key, target in self._stop.items() if _grows(key)]
        found = [goal for goal in goals if goal is not None]
        return min(
            found,
            key=lambda goal: (math.inf if goal.eta_s is None else goal.eta_s, -goal.fraction),
            default=None,
        )

    def _goal(self, key: str, target: float) -> Goal | None:
        value = self._samples[-1].get(key) if self._samples else None
        if value is None:
            return None
        if value >= target:
            return Goal(key, value, target, 0.0)
        rate = self.rate(key)
        return Goal(key, value, target, (target - value) / rate if rate and rate > 0 else None)


def _grows(key: str) -> bool:
    return key.rsplit("/", 1)[-1] in COUNTERS
