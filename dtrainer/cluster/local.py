"""A Dask cluster on this machine: one worker process an actor, loopback only."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import time
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from dtrainer.cluster.backends import Cluster
from dtrainer.cluster.processes import WorkerProcesses
from dtrainer.cluster.settings import (
    COMMUNICATION,
    SCHEDULER,
    WORKER,
    DaskSettings,
    quiet_shutdown,
)
from dtrainer.config.cluster import ClusterSpec
from dtrainer.config.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Scheduler

LOOPBACK = "127.0.0.1"
CLIENT_TIMEOUT_S = 10.0


class LocalCluster(Cluster):
    """Scheduler and client in this process, workers in processes of their own.

    Parameters
    ----------
    spec
        Of type `local`.
    workers
        How many worker processes.
    start_timeout_s
        Seconds to wait until all of them have connected.
    preload
        Modules that are imported once, before the workers are forked.

    Raises
    ------
    ClusterError
        The port is taken, the dashboard needs bokeh, a worker ended, or the time is over.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        workers: int,
        *,
        start_timeout_s: float = 120.0,
        preload: Sequence[str] = (),
    ) -> None:
        self._spec = spec
        self._started = 0
        self._closed = False
        self._scheduler: Scheduler | None = None
        self._settings: DaskSettings | None = None
        self._runner: Any = None
        if spec.dashboard is not None:
            _require_bokeh()
        deadline = time.monotonic() + start_timeout_s
        self._processes = _take_prestarted(spec, preload) or _start(spec, preload)
        try:
            self._open(workers, deadline)
        except BaseException:
            self.close()
            raise
        atexit.register(self.close)

    def add_worker(self) -> bool:
        """Start one more worker process; does not wait for it."""
        self._started += 1
        assert self._scheduler is not None
        self._processes.spawn(
            f"local-{self._started}",
            self._scheduler.address,
            host=LOOPBACK,
            death_timeout=self._spec.connect_timeout_s,
        )
        return True

    def kill_worker(self, pid: int) -> bool:
        """Kill a worker process, hung or not, at once."""
        self._processes.kill(pid)
        return True

    def exit_of(self, pid: int) -> str | None:
        """Say how a worker process ended; waits half a second for it to have done so."""
        return self._processes.exit_of(pid, timeout=0.5)

    def worker_pids(self) -> dict[str, int]:
        """Names and process ids of the worker processes that run."""
        return self._processes.living()

    def close(self, timeout: float = 10.0) -> None:
        """End client, workers and scheduler, in this order; leaves no process and no file."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        deadline = time.monotonic() + timeout
        with quiet_shutdown():
            client = getattr(self, "client", None)
            if client is not None:
                client.close(timeout=max(0.5, min(2.0, timeout)))
            self._processes.close(max(0.5, deadline - time.monotonic()))
            if self._scheduler is not None:
                with contextlib.suppress(TimeoutError, OSError):
                    self._on_loop(self._scheduler.close(reason="dtrainer-close"), 3.0)
            if self._runner is not None:
                self._runner.stop(timeout=2)
        if self._settings is not None:
            self._settings.restore()

    def _open(self, workers: int, deadline: float) -> None:
        from distributed import Client
        from distributed.utils import LoopRunner

        self._settings = DaskSettings({**SCHEDULER, **COMMUNICATION})
        self._runner = LoopRunner(asynchronous=False)
        self._runner.start()
        self._scheduler = self._on_loop(self._start_scheduler(), self._spec.connect_timeout_s)
        for _ in range(workers):
            self.add_worker()
        self.client = Client(  # type: ignore[no-untyped-call]
            self._scheduler.address,
            loop=self._runner.loop,
            direct_to_workers=True,
            set_as_default=False,
            timeout=CLIENT_TIMEOUT_S,
        )
        self._await_workers(workers, deadline)

    async def _start_scheduler(self) -> Scheduler:
        from distributed import Scheduler

        dashboard = self._spec.dashboard
        if dashboard is not None and dashboard.startswith(":"):
            dashboard = f"{LOOPBACK}{dashboard}"
        try:
            scheduler: Scheduler = await Scheduler(
                host=LOOPBACK,
                port=self._spec.scheduler_port,
                local_directory=str(self._processes.scratch),
                dashboard=dashboard is not None,
                dashboard_address=dashboard or f"{LOOPBACK}:0",
            )
            return scheduler
        except (OSError, RuntimeError) as error:
            raise _port_error(error, self._spec.scheduler_port) from error

    def _await_workers(self, workers: int, deadline: float) -> None:
        """Wait until all workers have connected; the scheduler runs in this process."""
        assert self._scheduler is not None
        while len(self._scheduler.workers) < workers:
            self._processes.check()
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{len(self._scheduler.workers)} of {workers} local workers have connected "
                    f"in the time that they were given",
                    "a slow file system makes imports slow: raise `worker_start_timeout_s`",
                )
            time.sleep(0.005)

    def _on_loop(self, work: Coroutine[Any, Any, Any], timeout: float) -> Any:
        loop = self._runner.loop.asyncio_loop
        return asyncio.run_coroutine_threadsafe(work, loop).result(timeout)


def _start(spec: ClusterSpec, preload: Sequence[str]) -> WorkerProcesses:
    return WorkerProcesses(environ=spec.extra_environ, preload=preload, dask_config=WORKER)


_prestarted: dict[tuple[str, ...], WorkerProcesses] = {}


def prestart(preload: Sequence[str]) -> None:
    """Start the server that workers are forked from, before it is known whether it is needed.

    Its imports then go on beside the driver's own. The next local cluster with the same `preload`
    and without variables of its own takes it over; if none does, it ends with this process.
    """
    key = tuple(preload)
    if key not in _prestarted:
        _prestarted[key] = processes = _start(ClusterSpec(), preload)
        atexit.register(processes.close)


def _take_prestarted(spec: ClusterSpec, preload: Sequence[str]) -> WorkerProcesses | None:
    if spec.extra_environ:
        return None
    return _prestarted.pop(tuple(preload), None)


def _require_bokeh() -> None:
    from importlib.util import find_spec

    if find_spec("bokeh") is None:
        raise ClusterError(
            "`cluster.dashboard` is set, and Dask's dashboard needs the package bokeh, "
            "which is not installed",
            "install dtrainer[jupyter], or leave `dashboard` out",
        )


def _port_error(error: Exception, port: int) -> ClusterError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.EADDRINUSE, errno.EACCES):
            what = "is taken" if cause.errno == errno.EADDRINUSE else "may not be used"
            return ClusterError(
                f"port {port} of {LOOPBACK} {what}, so no Dask scheduler can listen there",
                "set `cluster.scheduler_port` to another port, or to 0 for a free one",
            )
        cause = cause.__cause__ or cause.__context__
    return ClusterError(f"the Dask scheduler could not be started: {error}")
