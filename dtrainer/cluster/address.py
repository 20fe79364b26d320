"""A Dask cluster that somebody else started: all that is known is its scheduler's address."""

from __future__ import annotations

import time

from dtrainer.cluster.backends import Cluster
from dtrainer.cluster.settings import COMMUNICATION, DaskSettings, quiet_shutdown
from dtrainer.config.cluster import ClusterSpec
from dtrainer.config.errors import ClusterError

WORKER_POLL_S = 0.1


class AddressCluster(Cluster):
    """A client to a running scheduler; closing it leaves scheduler and workers as they are.

    Parameters
    ----------
    spec
        Of type `address`.
    workers
        How many workers are needed.
    start_timeout_s
        Seconds to wait for them.

    Raises
    ------
    ClusterError
        The scheduler does not answer within `spec.connect_timeout_s`, runs a Dask that this one
        cannot talk to, or has too few workers.
    """

    def __init__(self, spec: ClusterSpec, workers: int, *, start_timeout_s: float = 120.0) -> None:
        assert spec.address is not None
        self._address = spec.address
        self._settings: DaskSettings | None = DaskSettings(COMMUNICATION)
        try:
            self._connect(spec.connect_timeout_s)
            self._await_workers(workers, start_timeout_s)
        except BaseException:
            self.close()
            raise

    def close(self, timeout: float = 10.0) -> None:
        """Disconnect. Idempotent."""
        settings, self._settings = self._settings, None
        if settings is None:
            return
        client = getattr(self, "client", None)
        if client is not None:
            with quiet_shutdown():
                client.close(timeout=min(2.0, timeout))
        settings.restore()

    def _connect(self, timeout: float) -> None:
        from distributed import Client

        try:
            with quiet_shutdown():
                self.client = Client(  # type: ignore[no-untyped-call]
                    self._address, direct_to_workers=True, set_as_default=False, timeout=timeout
                )
        except (OSError, ValueError) as error:  # TimeoutError and unknown hosts are OSErrors
            raise ClusterError(
                f"no Dask scheduler answers at {self._address} within {timeout:g} s: "
                f"{str(error).splitlines()[0] if str(error) else type(error).__name__}",
                "check that it runs (`dask scheduler`), that the address is the one it printed, "
                "and that this machine may reach it; `cluster.connect_timeout_s` is the time",
            ) from error
        except ImportError as error:  # Dask's own word for versions that do not fit
            raise ClusterError(
                f"the Dask scheduler at {self._address} cannot work with this program: {error}",
                "run both in the same environment",
            ) from error

    def _await_workers(self, workers: int, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            here = len(self.client.scheduler_info(n_workers=-1)["workers"])
            if here >= workers:
                return
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the Dask scheduler at {self._address} has {here} workers after "
                    f"{timeout:g} s, and {workers} are needed: one worker process an actor",
                    f"start more (`dask worker {self._address} --nthreads 1`), or lower "
                    "`num_workers`",
                )
            time.sleep(WORKER_POLL_S)
