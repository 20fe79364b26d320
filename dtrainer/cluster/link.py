"""One actor as the driver sees it: calls with deadlines, on the client's event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dtrainer.cluster.actor import describe_error
from dtrainer.cluster.outcome import ActorInfo, ActorState, Outcome
from dtrainer.cluster.wire import Packed, unpack

if TYPE_CHECKING:
    from distributed import Client, Future

PING_TIMEOUT_S = 2.0
"""How long an actor past its deadline has to answer a ping."""

ExitOf = Callable[[int], str | None]
"""From a process id to how that process ended, if that can be known."""


class ActorGone(Exception):  # noqa: N818 - a message between these modules, shown to nobody
    """The actor's process or its connection is gone; the text says how that was noticed."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call under way.

    Parameters
    ----------
    sequence, method
        Its number and the method's name.
    packed
        What the actor's host is given.
    timeout
        Seconds from submission.
    start
        Submission, on the monotonic clock.
    """

    sequence: int
    method: str
    packed: Packed
    timeout: float
    start: float


class ActorLink:
    """One generation of a slot.

    Everything here runs on the client's event loop; `info` may be called from any thread.

    Parameters
    ----------
    client
        The client that the actor was made with.
    slot, generation
        Number of the actor, and which actor of that number it is.
    address
        Of its Dask worker.
    future, handle
        The future that keeps it alive, and Dask's handle to it.
    hello
        What `ActorHost.hello` said.
    exit_of
        How the process ended, if the cluster can know.
    """

    def __init__(
        self,
        client: Client,
        *,
        slot: int,
        generation: int,
        address: str,
        future: Future[Any],
        handle: Any,
        hello: dict[str, Any],
        exit_of: ExitOf | None,
    ) -> None:
        self.client = client
        self.slot = slot
        self.generation = generation
        self.address = address
        self.hello = hello
        self.late_answers = 0
        self._future = future
        self._handle = handle
        self._exit_of = exit_of
        self._under_way: dict[int, Call] = {}
        self._overdue: set[int] = set()
        self._answers_pings = True
        self._answered: asyncio.Event | None = None
        self._is_closed = False
        self._lost_text: str | None = None
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def info(self) -> ActorInfo:
        """Describe the actor as it is now."""
        return ActorInfo(
            slot=self.slot,
            generation=self.generation,
            address=self.address,
            host=self.hello["host"],
            pid=self.hello["pid"],
            state=self._state(),
        )

    def mark_gone(self, how: str) -> None:
        """Note that the worker is gone; calls under way end at once."""
        if not self._gone.done():
            self._gone.set_result(how)

    async def call(self, call: Call) -> Outcome:
        """Run a call to its end: an answer, a loss or its deadline."""
        self._under_way[call.sequence] = call
        before, self._answered = self._answered, asyncio.Event()
        answered = self._answered
        try:
            answer = await self._ask(
                lambda: self._in_turn(before, call, answered),
                call.timeout - (time.monotonic() - call.start),
                late=lambda came: self._late(call, came),
            )
            return self._read(call, answer)
        except ActorGone as error:
            return self._outcome(call, "lost", await self._describe_loss(call, str(error)))
        except TimeoutError:
            self._overdue.add(call.sequence)
            return self._outcome(call, "timeout", await self._describe_delay(call))
        except Exception as error:
            kind, text, trace = describe_error(error)
            return self._outcome(call, "raised", text, error_type=kind, traceback=trace)
        finally:
            if call.sequence not in self._overdue:
                self._under_way.pop(call.sequence, None)

    async def _in_turn(
        self, before: asyncio.Event | None, call: Call, answered: asyncio.Event
    ) -> Packed:
        """Send a call when the one before it has been answered.

        Dask uses several connections to a worker, so calls that are sent together may overtake
        each other.
        """
        try:
            if before is not None:
                await before.wait()
            if self._is_closed:
                raise ActorGone("the pool was closed")
            if call.sequence in self._overdue:
                raise TimeoutError  # its outcome is out: it must not run any more
            packed: Packed = await self._handle.call(call.packed)
            return packed
        finally:
            answered.set()

    async def stash(self, call: Call, order: int, name: str, version: int) -> Outcome:
        """Hand over a payload for the next call; returns when the actor has it."""
        try:
            await self._ask(
                lambda: self._handle.stash(call.packed, order, name, version), call.timeout
            )
            return self._outcome(call, "ok", "")
        except ActorGone as error:
            return self._outcome(call, "lost", await self._describe_loss(call, str(error)))
        except TimeoutError:
            return self._outcome(call, "timeout", await self._describe_delay(call))
        except Exception as error:
            kind, text, trace = describe_error(error)
            return self._outcome(call, "raised", text, error_type=kind, traceback=trace)

    async def ping(self, timeout: float = PING_TIMEOUT_S) -> tuple[bool, tuple[str, float] | None]:
        """Ask for a sign of life.

        Returns
        -------
        tuple[bool, tuple[str, float] or None]
            Whether it answered, and what it does since how many seconds.
        """
        try:
            doing = await self._ask(self._handle.ping, timeout)
        except (TimeoutError, ActorGone):
            return False, None
        return True, doing

    async def release(self) -> None:
        """Have Dask drop the actor; no call is possible any more."""
        self._is_closed = True
        self.mark_gone("the pool was closed")
        self._handle = None
        if self.client.status == "running":
            # releasing the future is not enough: Dask's handles live in reference cycles
            await self.client.cancel(  # type: ignore[no-untyped-call]
                [self._future], asynchronous=True, force=True
            )

    async def _ask(
        self,
        ask: Callable[[], Awaitable[Any]],
        timeout: float,
        late: Callable[[bool], None] | None = None,
    ) -> Any:
        """Await an answer, the loss of the actor, or the deadline, whichever comes first."""
        if self._gone.done():
            raise ActorGone(self._gone.result())
        if self._is_closed:
            raise ActorGone("the pool was closed")
        answer = asyncio.ensure_future(_result(ask))
        await asyncio.wait(
            (answer, self._gone), timeout=max(timeout, 0.0), return_when=asyncio.FIRST_COMPLETED
        )
        if not answer.done():
            answer.add_done_callback(lambda done: _swallow(done, late))
            if self._gone.done():
                answer.cancel()
                raise ActorGone(self._gone.result())
            raise TimeoutError
        try:
            return answer.result()
        except TimeoutError:
            raise
        except (OSError, RuntimeError) as error:  # of the connection, or of Dask's handle
            self.mark_gone(str(error))
            raise ActorGone(str(error)) from error

    def _read(self, call: Call, answer: Packed) -> Outcome:
        """Unpack what the host sent."""
        sequence, busy, error, value = unpack(answer)
        if sequence not in (call.sequence, -1):
            raise RuntimeError(f"answer {sequence} came for call {call.sequence}")
        kind, text, trace = error or ("", "", "")
        return Outcome(
            slot=self.slot,
            generation=self.generation,
            sequence=call.sequence,
            method=call.method,
            kind="ok" if error is None else "raised",
            value=value,
            error_type=kind,
            error_text=text,
            traceback=trace,
            seconds=time.monotonic() - call.start,
            busy_seconds=busy,
            bytes_received=answer.nbytes,
        )

    def _outcome(self, call: Call, kind: Any, text: str, **more: Any) -> Outcome:
        if kind in ("lost", "timeout"):
            more["error_type"] = "ActorLost" if kind == "lost" else "ActorTimeout"
        return Outcome(
            slot=self.slot,
            generation=self.generation,
            sequence=call.sequence,
            method=call.method,
            kind=kind,
            error_text=text,
            seconds=time.monotonic() - call.start,
            **more,
        )

    def _late(self, call: Call, came: bool) -> None:
        """Drop an answer that came after its deadline; the actor is free again."""
        self.late_answers += came
        self._overdue.discard(call.sequence)
        self._under_way.pop(call.sequence, None)

    def _state(self) -> ActorState:
        if self._is_closed:
            return "closed"
        if self._gone.done():
            return "lost"
        if self._overdue:
            return "slow" if self._answers_pings else "hung"
        return "busy" if self._under_way else "idle"

    def _where(self) -> str:
        return (
            f"actor {self.slot} (generation {self.generation}, {self.hello['host']}, "
            f"process {self.hello['pid']}, worker {self.address})"
        )

    async def _describe_loss(self, call: Call, noticed: str) -> str:
        if self._is_closed:
            return f"{self._where()}: {noticed} before {call.method} ended"
        if self._lost_text is None:
            self._lost_text = await self._probable_cause(noticed)
        spent = time.monotonic() - call.start
        return (
            f"{self._where()} was lost, {spent:.1f} s after {call.method} was asked of it. "
            f"{self._lost_text}"
        )

    async def _probable_cause(self, noticed: str) -> str:
        if self.client.status != "running":
            return "The connection to the Dask scheduler is gone, and with it all actors."
        if self._exit_of is not None:
            loop = asyncio.get_running_loop()
            how = await loop.run_in_executor(None, self._exit_of, self.hello["pid"])
            if how is not None:
                return f"Its process has ended: {how}."
        return (
            f"Dask says: {noticed}. Either its process has ended (memory ran out, a crash in "
            "native code, killed by hand or by the batch system, an environment that exits the "
            "interpreter) or the connection to its machine broke."
        )

    async def _describe_delay(self, call: Call) -> str:
        alive, doing = await self.ping()
        self._answers_pings = alive
        text = f"{self._where()} did not finish {call.method} within {call.timeout:g} s. "
        if self._gone.done():
            return text + "It was lost in the meantime."
        if not alive:
            return text + (
                f"It did not answer a ping within {PING_TIMEOUT_S:g} s either: it is stopped, "
                "unreachable, or native code holds the interpreter lock."
            )
        if doing is None:
            return text + "It answers pings and is idle now: the answer is late, or on its way."
        return text + (
            f"It answers pings, so it is slow, not dead: it has been in {doing[0]} "
            f"for {doing[1]:.1f} s."
        )


async def _result(ask: Callable[[], Awaitable[Any]]) -> Any:
    return await ask()


def _swallow(done: asyncio.Future[Any], late: Callable[[bool], None] | None) -> None:
    """Take note of an answer that nobody waits for any more."""
    answered = not done.cancelled() and done.exception() is None
    if late is not None:
        late(answered)
