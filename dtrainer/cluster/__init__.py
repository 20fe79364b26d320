"""Where Dask workers come from, and the supervised actors on them.

The names are imported when they are first used: Dask itself takes most of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtrainer.cluster.backends import Cluster, open_cluster
    from dtrainer.cluster.outcome import ActorInfo, Outcome
    from dtrainer.cluster.pool import ActorPool

__all__ = ["ActorInfo", "ActorPool", "Cluster", "Outcome", "open_cluster"]

_WHERE = {
    "ActorInfo": "outcome",
    "ActorPool": "pool",
    "Cluster": "backends",
    "Outcome": "outcome",
    "open_cluster": "backends",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
