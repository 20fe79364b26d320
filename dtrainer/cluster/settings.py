"""What dtrainer changes in Dask while a cluster is open, and puts back afterwards."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

SCHEDULER: dict[str, Any] = {
    # Longer than the longest time an environment may hold the interpreter lock.
    "distributed.scheduler.worker-ttl": "60s",
    "distributed.scheduler.no-workers-timeout": "30s",
    # An actor whose construction kills its process must not be built again silently.
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
}
"""Read by the scheduler when it is built."""

COMMUNICATION: dict[str, Any] = {
    "distributed.comm.timeouts.connect": "10s",
    "distributed.comm.timeouts.tcp": "30s",
    "distributed.diagnostics.nvml": False,
}
"""Read by scheduler, client and workers."""

WORKER: dict[str, Any] = {
    **COMMUNICATION,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.use-file-locking": False,
    "distributed.admin.system-monitor.interval": "2s",
}
"""Read by worker processes that dtrainer starts."""


class DaskSettings:
    """Dask's configuration and log levels for the time a cluster is open.

    Parameters
    ----------
    values
        Dask configuration keys to set.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        import dask

        self._config = dask.config.set(values)
        self._levels = {
            name: logging.getLogger(name).level for name in ("distributed", "distributed.client")
        }
        logging.getLogger("distributed").setLevel(logging.ERROR)

    def restore(self) -> None:
        """Put back what the user had."""
        self._config.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)


@contextlib.contextmanager
def quiet_shutdown() -> Iterator[None]:
    """Keep Dask from logging the connections that close because we close them."""
    names = ("distributed", "distributed.client", "distributed.core", "tornado.application")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
