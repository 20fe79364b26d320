"""Open a cluster: the scheduler's client, whatever the workers come from."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtrainer.config.cluster import ClusterSpec
from dtrainer.config.errors import ClusterError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from distributed import Client

ENTRY_POINT_GROUP = "dtrainer.clusters"
"""Other packages add cluster types here: `name = package.module:function`.

The function takes `(spec, workers, *, start_timeout_s, preload)` and returns a `Cluster`.
"""


class Cluster(abc.ABC):
    """Dask workers and a client to them.

    A backend sets `client` and implements `close`. A backend that can replace workers also
    overrides `add_worker` and `kill_worker`, and one that can see how processes end `exit_of`.
    """

    client: Client

    @abc.abstractmethod
    def close(self, timeout: float = 10.0) -> None:
        """Give everything back. Idempotent; never takes much longer than `timeout` seconds."""

    def exit_of(self, pid: int) -> str | None:
        """Say how the worker process `pid` ended, if this backend can know."""
        return None

    def add_worker(self) -> bool:
        """Start one more worker; False where the backend cannot."""
        return False

    def kill_worker(self, pid: int) -> bool:
        """End a worker process at once; False where the backend cannot."""
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_cluster(
    spec: ClusterSpec,
    workers: int,
    *,
    start_timeout_s: float = 120.0,
    preload: Sequence[str] = (),
) -> Cluster:
    """Open the cluster that a specification describes.

    It may run in a background thread while the driver imports what it needs itself: a local
    cluster's processes are started before Dask is imported here.

    Parameters
    ----------
    spec
        Where the workers come from.
    workers
        How many are needed; `spec.workers` wins where it is larger.
    start_timeout_s
        Seconds to wait for the workers.
    preload
        Modules that the actors will import; a local cluster imports them once for all workers.

    Returns
    -------
    Cluster
        With `client`, a `distributed.Client` that talks to workers directly. A context manager.

    Raises
    ------
    ClusterError
        A port that is taken, a scheduler that does not answer, too few workers.
    """
    wanted = max(workers, spec.workers or 0)
    if spec.type == "local":
        from dtrainer.cluster.local import LocalCluster

        return LocalCluster(spec, wanted, start_timeout_s=start_timeout_s, preload=preload)
    if spec.type == "address":
        from dtrainer.cluster.address import AddressCluster

        return AddressCluster(spec, wanted, start_timeout_s=start_timeout_s)
    opened = _third_party(spec.type)(
        spec, wanted, start_timeout_s=start_timeout_s, preload=tuple(preload)
    )
    if not isinstance(opened, Cluster):
        raise ClusterError(
            f"the cluster type {spec.type!r} gave a {type(opened).__name__}, "
            "expected a dtrainer.cluster.Cluster",
            f"this is a mistake of the package behind the entry point group {ENTRY_POINT_GROUP}",
        )
    return opened


def _third_party(name: str) -> Any:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        try:
            return point.load()
        except Exception as error:
            raise ClusterError(
                f"the cluster type {name!r} ({point.value}) cannot be loaded: "
                f"{type(error).__name__}: {error}"
            ) from error
    raise ClusterError(f"no installed package brings the cluster type {name!r}")
