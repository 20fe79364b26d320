"""Where the driver's time goes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

WINDOW = 10


class Timers:
    """Named stop watches: this iteration's seconds, and means over the last ten uses."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._recent: dict[str, deque[tuple[float, int]]] = {}

    @contextmanager
    def section(self, name: str, units: int = 0) -> Iterator[None]:
        """Time what happens inside.

        Parameters
        ----------
        name
            Of the watch.
        units
            Steps or rows that were worked through, for the throughput.
        """
        started = perf_counter()
        try:
            yield
        finally:
            elapsed = perf_counter() - started
            self.seconds[name] += elapsed
            self._recent.setdefault(name, deque(maxlen=WINDOW)).append((elapsed, units))

    def take_seconds(self) -> dict[str, float]:
        """Hand out the seconds since the last call."""
        taken, self.seconds = dict(self.seconds), defaultdict(float)
        return taken

    def summary(self) -> dict[str, float]:
        """`<name>_time_ms` and, where units were given, `<name>_throughput` (units/s)."""
        result = {}
        for name, recent in self._recent.items():
            total = sum(elapsed for elapsed, _ in recent)
            units = sum(count for _, count in recent)
            result[f"{name}_time_ms"] = 1e3 * total / len(recent)
            if units and total > 0:
                result[f"{name}_throughput"] = units / total
        return result
