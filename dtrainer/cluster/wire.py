"""Arguments and results on their way: any picklable object, its arrays beside it, not copied.

Dask never resolves a call whose result cannot be pickled, or whose exception cannot be unpickled.
So both ends pack and unpack by themselves, where an error can be caught and told.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
from distributed.protocol.serialize import dask_deserialize, dask_serialize

INLINE_BYTES = 4096
"""Arrays smaller than this travel inside the pickle: a frame of their own costs more."""


class Packed:
    """An object as bytes: a pickle, and the buffers of its large arrays.

    Parameters
    ----------
    frames
        The pickle, then the buffers.
    """

    __slots__ = ("frames",)

    def __init__(self, frames: Sequence[Any]) -> None:
        self.frames = list(frames)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return sum(memoryview(frame).nbytes for frame in self.frames)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel also where Dask's own way is not taken (copies)."""
        return Packed, ([bytes(frame) for frame in self.frames],)


def pack(value: Any) -> Packed:
    """Turn an object into bytes; the memory of large contiguous arrays is shared, not copied.

    Parameters
    ----------
    value
        Anything that pickle or cloudpickle can write.

    Raises
    ------
    Exception
        Whatever the object's own pickling raises.
    """
    try:
        packed = _dump(value, pickle.dumps)
    except Exception:  # local functions and classes: cloudpickle writes more
        return _dump(value, cloudpickle.dumps)
    if b"__main__" in packed.frames[0]:  # another main script runs there: send it by value
        return _dump(value, cloudpickle.dumps)
    return packed


def _dump(value: Any, dumps: Any) -> Packed:
    buffers: list[pickle.PickleBuffer] = []

    def keep(buffer: pickle.PickleBuffer) -> bool:
        """Whether the pickle shall hold the buffer itself."""
        with memoryview(buffer) as view:
            if view.nbytes < INLINE_BYTES:
                return True
        buffers.append(buffer)
        return False

    head = dumps(value, protocol=5, buffer_callback=keep)
    return Packed([head, *(buffer.raw() for buffer in buffers)])


def unpack(packed: Packed) -> Any:
    """Rebuild the object; its large arrays live in the packed buffers.

    Arrays are writeable where the buffers are: what comes from a socket is.

    Raises
    ------
    Exception
        Whatever the object's own unpickling raises.
    """
    head, *buffers = packed.frames
    return pickle.loads(head, buffers=buffers)  # noqa: S301 - an answer of our own actor


@dask_serialize.register(Packed)  # type: ignore[no-untyped-call, untyped-decorator]
def _to_frames(packed: Packed) -> tuple[dict[str, Any], list[Any]]:
    return {}, packed.frames


@dask_deserialize.register(Packed)  # type: ignore[no-untyped-call, untyped-decorator]
def _from_frames(header: dict[str, Any], frames: list[Any]) -> Packed:
    return Packed(frames)
