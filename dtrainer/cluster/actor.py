"""The host: what Dask sees as the actor, around the object that does the work."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dtrainer.cluster.wire import Packed, pack, unpack

CALL, CLOSE = "call", "close"
REMEMBERED_CALLS = 256


class ActorHost:
    """Runs a target object in a Dask worker, and never raises through Dask.

    The target is built at the first call, in the thread that runs all its methods. A method's
    result, or its error as text, comes back as one packed record.

    Parameters
    ----------
    build
        Cloudpickled function from the slot to the target.
    slot
        Number of this actor.
    generation
        Which actor of this slot it is.
    environ
        Environment variables to set in this process.
    sys_path
        Where the driver finds modules; what exists here and is missing is added at the end.
    """

    def __init__(
        self,
        build: bytes,
        slot: int,
        generation: int,
        environ: Mapping[str, str],
        sys_path: list[str],
    ) -> None:
        self._build = build
        self._slot = slot
        self._generation = generation
        self._target: Any = None
        self._is_built = False
        self._stashed: dict[str, tuple[int, Packed]] = {}
        self._newest: dict[str, int] = {}
        self._seen: deque[int] = deque(maxlen=REMEMBERED_CALLS)
        self._doing: tuple[str, float] | None = None
        os.environ.update(environ)
        sys.path.extend(p for p in sys_path if p not in sys.path and Path(p).exists())

    async def hello(self) -> dict[str, Any]:
        """Say where this actor lives and on which versions; runs on the worker's event loop."""
        from importlib.metadata import version

        from distributed import get_worker

        import dtrainer

        worker = get_worker()
        return {
            "slot": self._slot,
            "generation": self._generation,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "actors": len(worker.state.actors),
            "python": platform.python_version(),
            "dtrainer": dtrainer.__version__,
            "distributed": version("distributed"),
            "numpy": version("numpy"),
        }

    async def ping(self) -> tuple[str, float] | None:
        """Answer from the event loop, while a method runs: which one, and since how many seconds.

        Returns
        -------
        tuple[str, float] or None
            None if the actor is idle.
        """
        doing = self._doing
        return None if doing is None else (doing[0], time.monotonic() - doing[1])

    async def stash(self, packed: Packed, order: int, name: str, version: int) -> bool:
        """Keep a payload until the next call; of one name, the newest wins.

        Runs on the event loop while a method may be running, so it only keeps.

        Parameters
        ----------
        packed, name, version
            Given to `target.receive(name, version, payload)` before the next call.
        order
            Rises with every stash of the pool: a late one does not replace a newer one.

        Returns
        -------
        bool
            Whether it was kept.
        """
        is_newest = order > self._newest.get(name, -1)
        if is_newest:
            self._newest[name] = order
            self._stashed[name] = (version, packed)
        return is_newest

    def call(self, packed: Packed) -> Packed:
        """Run one method of the target.

        Parameters
        ----------
        packed
            `(sequence, kind, method, args, kwargs)`; kind is `call` or `close`.

        Returns
        -------
        Packed
            `(sequence, busy seconds, None, value)`, or
            `(sequence, busy seconds, (error type, text, traceback), None)`.
        """
        start = time.perf_counter()
        sequence = -1
        try:
            sequence, kind, method, args, kwargs = unpack(packed)
            if sequence in self._seen:
                raise RuntimeError(f"call {sequence} was delivered twice; it ran once")
            self._seen.append(sequence)
            self._doing = (method, time.monotonic())
            run = self._close if kind == CLOSE else self._run
            value = run(method, *args, **kwargs)
            return pack((sequence, time.perf_counter() - start, None, value))
        except BaseException as error:
            # SystemExit and KeyboardInterrupt too: Dask would end the worker, or never answer.
            described = describe_error(error)
            return pack((sequence, time.perf_counter() - start, described, None))
        finally:
            self._doing = None

    def _run(self, method: str, /, *args: Any, **kwargs: Any) -> Any:
        if not self._is_built:
            build: Callable[[int], Any] = unpack(Packed([self._build]))
            self._target = build(self._slot)
            self._is_built = True
        while self._stashed:
            name, (version, packed) = self._stashed.popitem()
            self._target.receive(name, version, unpack(packed))
        return getattr(self._target, method)(*args, **kwargs)

    def _close(self, method: str, /) -> None:
        """Close the target, if it was built and can be closed."""
        target, self._target, self._is_built = self._target, None, False
        close = getattr(target, method, None)
        if close is not None:
            close()


def describe_error(error: BaseException) -> tuple[str, str, str]:
    """Turn an exception into text, whatever its own methods do.

    Parameters
    ----------
    error
        Any exception.

    Returns
    -------
    tuple[str, str, str]
        Name of its class (with the module, unless built in), its text, its traceback.
    """
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else _dotted(kind)
    try:
        text = str(error)
    except Exception as second:
        text = f"<its text cannot be had: {type(second).__name__}>"
    try:
        trace = "".join(traceback.format_exception(error))
    except Exception:
        trace = "".join(traceback.format_tb(error.__traceback__))
    return name, text, trace


def _dotted(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
