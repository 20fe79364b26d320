"""What the pools of one client share: which workers are taken, and the news of lost ones."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from distributed import Client

TOPIC = "all"


class ClientShare:
    """State of a client that is not Dask's own.

    Parameters
    ----------
    client
        Its events are subscribed to; a handler that somebody has set before is kept.
    """

    _of: ClassVar[weakref.WeakKeyDictionary[Client, ClientShare]] = weakref.WeakKeyDictionary()
    _lock = threading.Lock()

    def __init__(self, client: Client) -> None:
        self.taken: set[str] = set()
        self.warned_of_proxy = False
        self._listeners: list[Callable[[str], None]] = []
        self._before = getattr(client, "_event_handlers", {}).get(TOPIC)
        client.subscribe_topic(TOPIC, self._on_event)  # type: ignore[no-untyped-call]

    @classmethod
    def of(cls, client: Client) -> ClientShare:
        """Return the share of a client, made at the first request."""
        with cls._lock:
            share = cls._of.get(client)
            if share is None:
                share = cls._of[client] = cls(client)
            return share

    def listen(self, on_removed: Callable[[str], None]) -> None:
        """Have `on_removed(address)` called, on the client's loop, when a worker is gone."""
        self._listeners.append(on_removed)

    def unlisten(self, on_removed: Callable[[str], None]) -> None:
        """End what `listen` began."""
        if on_removed in self._listeners:
            self._listeners.remove(on_removed)

    def _on_event(self, event: tuple[float, Any]) -> Any:
        message = event[1]
        if isinstance(message, dict) and message.get("action") == "remove-worker":
            for listener in tuple(self._listeners):
                listener(str(message.get("worker")))
        return None if self._before is None else self._before(event)
