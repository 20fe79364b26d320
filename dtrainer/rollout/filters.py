"""Observation filters: normalise what the policy sees by what all workers have seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float32]


class RunningStats:
    r"""Mean and variance of a stream of vectors, mergeable without loss.

    Keeps :math:`n`, the mean and :math:`M_2 = \sum (x - \bar x)^2`; two of them merge by

    .. math::
        \delta = \bar x_b - \bar x_a, \quad
        \bar x = \bar x_a + \delta \frac{n_b}{n}, \quad
        M_2 = M_{2a} + M_{2b} + \delta^2 \frac{n_a n_b}{n}

    Parameters
    ----------
    shape
        Of one vector.

    References
    ----------
    Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
    Variances", 1979.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.count = 0
        self.mean = np.zeros(shape)
        self.m2 = np.zeros(shape)

    def add(self, x: NDArray[Any]) -> None:
        """Take in vectors `[N, ...]`."""
        rows = np.asarray(x, np.float64)
        mean = rows.mean(axis=0)
        self._merge(len(rows), mean, np.square(rows - mean).sum(axis=0))

    def merge(self, other: RunningStats) -> None:
        """Take in everything that another one has seen."""
        self._merge(other.count, other.mean, other.m2)

    def _merge(self, count: int, mean: NDArray[Any], m2: NDArray[Any]) -> None:
        if count == 0:
            return
        total = self.count + count
        delta = mean - self.mean
        self.mean = self.mean + delta * (count / total)
        self.m2 = self.m2 + m2 + np.square(delta) * (self.count * count / total)
        self.count = total

    @property
    def std(self) -> NDArray[np.float64]:
        """Sample standard deviation (divisor n-1); ones until there are two vectors."""
        if self.count < 2:
            return np.ones_like(self.mean)
        return np.sqrt(self.m2 / (self.count - 1))

    def get_state(self) -> dict[str, Any]:
        """Plain data for the wire and for checkpoints."""
        return {"count": self.count, "mean": self.mean, "m2": self.m2}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> RunningStats:
        """Rebuild what `get_state` gave; the arrays are copied."""
        stats = cls(np.shape(state["mean"]))
        stats.count = int(state["count"])
        stats.mean = np.array(state["mean"], np.float64)
        stats.m2 = np.array(state["m2"], np.float64)
        return stats


class NoFilter:
    """Leaves observations as they are."""

    def __call__(self, obs: Float) -> Float:
        """Return the observations `[N, ...]`."""
        return obs

    def apply(self, obs: Float) -> Float:
        """Return the observations `[N, ...]`."""
        return obs

    def take_delta(self) -> dict[str, Any] | None:
        """Nothing was counted."""
        return None

    def merge(self, delta: dict[str, Any]) -> None:
        """Nothing to count."""

    def load(self, stats: dict[str, Any] | None) -> None:
        """Nothing to take over."""

    def get_state(self) -> dict[str, Any] | None:
        """No state."""
        return None

    def set_state(self, state: dict[str, Any] | None) -> None:
        """No state."""


class MeanStdFilter(NoFilter):
    r"""Normalises to zero mean and unit deviation: :math:`(x - \bar x) / (s + 10^{-8})`.

    Every observation is counted once in the whole run: a worker keeps what it has seen since
    its last fragment apart (`take_delta`), the driver merges these in the order of the
    fragments, and the merged statistics come back with the next weights.

    Parameters
    ----------
    shape
        Of one observation.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.stats = RunningStats(shape)
        self._delta = RunningStats(shape)
        self._shape = shape

    def __call__(self, obs: Float) -> Float:
        """Count and normalise observations `[N, ...]`."""
        self.stats.add(obs)
        self._delta.add(obs)
        return self.apply(obs)

    def apply(self, obs: Float) -> Float:
        """Normalise observations `[N, ...]` without counting them."""
        if self.stats.count == 0:
            return obs
        return ((obs - self.stats.mean) / (self.stats.std + 1e-8)).astype(np.float32)

    def take_delta(self) -> dict[str, Any] | None:
        """Hand out what was counted since the last call."""
        delta, self._delta = self._delta, RunningStats(self._shape)
        return delta.get_state()

    def merge(self, delta: dict[str, Any]) -> None:
        """Count what another filter handed out."""
        self.stats.merge(RunningStats.from_state(delta))

    def load(self, stats: dict[str, Any] | None) -> None:
        """Take over the driver's statistics; what was not handed out yet stays counted."""
        if stats is not None:
            self.stats = RunningStats.from_state(stats)
            self.stats.merge(self._delta)

    def get_state(self) -> dict[str, Any] | None:
        """Statistics, without what was counted since `take_delta`."""
        return self.stats.get_state()

    def set_state(self, state: dict[str, Any] | None) -> None:
        """Continue from what `get_state` gave."""
        if state is not None:
            self.stats = RunningStats.from_state(state)


def make_filter(name: str, shape: tuple[int, ...]) -> NoFilter:
    """Filter for the `observation_filter` key; the concurrent one is the same here."""
    return NoFilter() if name == "NoFilter" else MeanStdFilter(shape)
