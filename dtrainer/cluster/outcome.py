"""What comes back from an actor: records, never exceptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dtrainer.config.errors import ActorError

OutcomeKind = Literal["ok", "raised", "lost", "timeout"]

ActorState = Literal["idle", "busy", "slow", "hung", "lost", "closed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one call of an actor's method ended.

    Parameters
    ----------
    slot
        Number of the actor, from 1.
    generation
        Which actor of this slot it was: 1 for the first, one more for each replacement.
    sequence
        The number that `ActorPool.submit` gave for the call; unique in the pool.
    method
        Name of the method.
    kind
        `ok`; `raised`: the method, the actor's construction or its answer's pickling raised;
        `lost`: the actor's process or its connection is gone; `timeout`: the deadline passed.
    value
        What the method returned, for `ok`; else None. Arrays are writeable. Those from 4 KiB up
        are views of the one buffer that was received: who keeps one for long keeps all of it, so
        copy what outlives the rest.
    error_type, error_text
        Class and text of the error; for `lost` and `timeout` the text says which slot, host,
        process and worker, what it was doing and what probably happened.
    traceback
        The remote traceback of `raised`, as text; else empty.
    seconds
        Wall time of the call as the driver saw it, s.
    busy_seconds
        Wall time inside the actor, s; 0 where nothing came back.
    bytes_received
        Size of the answer, bytes.
    """

    slot: int
    generation: int
    sequence: int
    method: str
    kind: OutcomeKind
    value: Any = None
    error_type: str = ""
    error_text: str = ""
    traceback: str = ""
    seconds: float = 0.0
    busy_seconds: float = 0.0
    bytes_received: int = 0

    @property
    def ok(self) -> bool:
        """Whether the method returned."""
        return self.kind == "ok"

    def unwrap(self) -> Any:
        """Return the value.

        Raises
        ------
        ActorError
            If the call did not end with `ok`; the remote traceback is in its notes.
        """
        if self.ok:
            return self.value
        error = ActorError(self.describe())
        if self.traceback:
            error.add_note(f"traceback in the actor:\n{self.traceback}")
        raise error

    def describe(self) -> str:
        """Say in a sentence what happened, for people."""
        if self.kind == "ok":
            return f"actor {self.slot}: {self.method} returned after {self.seconds:.3g} s"
        if self.kind == "raised":
            return f"actor {self.slot}: {self.method} raised {self.error_type}: {self.error_text}"
        return self.error_text


@dataclass(frozen=True, slots=True)
class ActorInfo:
    """One actor of a pool.

    Parameters
    ----------
    slot, generation
        Number, and which actor of that number.
    address
        Address of its Dask worker.
    host
        Name of the machine.
    pid
        Its process there.
    state
        `idle`, `busy`; `slow`: past a deadline and answering pings; `hung`: past a deadline and
        silent; `lost`; `closed`.
    """

    slot: int
    generation: int
    address: str
    host: str
    pid: int
    state: ActorState
