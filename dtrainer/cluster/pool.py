"""Supervised Dask actors: calls with deadlines, answered through one completion queue."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import threading
import time
import warnings
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from dtrainer.cluster.actor import CALL, CLOSE
from dtrainer.cluster.link import PING_TIMEOUT_S, ActorLink, Call, ExitOf
from dtrainer.cluster.outcome import ActorInfo, Outcome
from dtrainer.cluster.share import ClientShare
from dtrainer.cluster.starting import dump_build, free_workers, make_links
from dtrainer.cluster.wire import Packed, pack
from dtrainer.config.errors import ActorError, ClusterError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from distributed import Client

GRACE_S = 10.0
"""What the driver allows the supervision itself, over a call's own deadline."""

Results = queue.SimpleQueue[Outcome]


@dataclass(frozen=True, slots=True)
class _Pending:
    """A call whose outcome is still to come."""

    results: Results
    slot: int
    generation: int
    method: str
    start: float


class ActorPool:
    """A fixed number of actors, each alone in a Dask worker process.

    Slots are numbered from 1. The pool may be used from any thread, a notebook's too; calls of one
    slot run one after another in the order of their submission. Every call ends with exactly one
    `Outcome`, at the latest when its deadline has passed (and a ping has been waited for).

    A slot whose actor was lost gives outcomes of the kind `lost` from then on.

    Parameters
    ----------
    client
        A synchronous `distributed.Client`. With `direct_to_workers=True` results do not pass
        through the scheduler.
    build
        From the slot to the object whose methods are called. It is pickled (closures and classes
        of the main script by value) and runs on the actor, at its first call and in the thread of
        all later ones.
    num_slots
        How many actors.
    name
        For people: in Dask's keys and dashboard.
    start_timeout_s
        Seconds to wait for workers and for the actors on them.
    environ
        Environment variables to set in the actors' processes before `build` runs.
    exit_of
        From a process id to how that process ended, such as `Cluster.exit_of`; makes the texts of
        losses exact.

    Raises
    ------
    ClusterError
        The client is asynchronous.
    ActorError
        `build` cannot be pickled.
    """

    def __init__(
        self,
        client: Client,
        build: Callable[[int], Any],
        num_slots: int,
        *,
        name: str = "actor",
        start_timeout_s: float = 120.0,
        environ: Mapping[str, str] | None = None,
        exit_of: ExitOf | None = None,
    ) -> None:
        if client.asynchronous:
            raise ClusterError(
                "the pool needs a synchronous Dask client, and this one is asynchronous",
                "make it with Client(..., asynchronous=False)",
            )
        self.bytes_sent = 0
        self.bytes_received = 0
        self.dropped = 0
        self._client = client
        self._build = dump_build(build)
        self._slots = range(1, num_slots + 1)
        self._name = name
        self._start_timeout_s = start_timeout_s
        self._environ = dict(environ or {})
        self._exit_of = exit_of
        self._links: dict[int, ActorLink] = {}
        self._banned: set[str] = set()
        self._pending: dict[int, _Pending] = {}
        self._results: Results = queue.SimpleQueue()
        self._sequences = itertools.count(1)
        self._stashes = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        self._share = ClientShare.of(client)

    @property
    def actors(self) -> list[ActorInfo]:
        """The actors, by slot."""
        return [link.info() for _, link in sorted(self._links.items())]

    @property
    def in_flight(self) -> int:
        """Calls whose outcomes have not been produced yet."""
        return len(self._pending)

    def start(self) -> None:
        """Place one actor on each of `num_slots` workers.

        Raises
        ------
        ClusterError
            Too few workers within the time, or workers that cannot run the actors.
        """
        if self._links or self._is_closed:
            raise ActorError("the pool was started before; make a new one")
        if not self._client.direct_to_workers and not self._share.warned_of_proxy:
            self._share.warned_of_proxy = True
            warnings.warn(
                "this Dask client sends everything through the scheduler, which is slower; "
                "make it with Client(..., direct_to_workers=True) if it can reach the workers",
                UserWarning,
                stacklevel=2,
            )
        deadline = time.monotonic() + self._start_timeout_s
        self._share.listen(self._on_worker_removed)
        try:
            self._place(self._slots, generation=1, deadline=deadline)
        except BaseException:
            self._share.unlisten(self._on_worker_removed)
            raise

    def submit(self, slot: int, method: str, *args: Any, timeout: float, **kwargs: Any) -> int:
        """Ask an actor to run a method; does not wait.

        Parameters
        ----------
        slot
            Which actor.
        method
            Name of a method of what `build` returned.
        *args, **kwargs
            Its arguments. Do not change large arrays among them before the outcome is there:
            they are not copied.
        timeout
            Seconds until the outcome is `timeout`; calls that the slot runs before count.

        Returns
        -------
        int
            The sequence number that the outcome will carry.

        Raises
        ------
        ActorError
            No such slot, a closed pool, or arguments that cannot be pickled.
        """
        return self._submit(self._results, slot, CALL, method, args, kwargs, timeout)

    def next(self, timeout: float) -> Outcome:
        """Return the outcome that is ready first, whichever actor it is from.

        Parameters
        ----------
        timeout
            Seconds to wait.

        Raises
        ------
        ActorError
            Nothing is under way, or nothing came in time.
        """
        try:
            return self._results.get_nowait()
        except queue.Empty:
            if not any(p.results is self._results for p in tuple(self._pending.values())):
                try:
                    return self._results.get_nowait()  # it came between the two looks
                except queue.Empty:
                    raise ActorError(
                        "no call is under way, so there is no outcome to wait for"
                    ) from None
        return self._wait(self._results, timeout)

    def map(
        self,
        method: str,
        *args: Any,
        timeout: float,
        slots: Iterable[int] | None = None,
        **kwargs: Any,
    ) -> dict[int, Outcome]:
        """Run a method on all actors at once and wait for all outcomes.

        Parameters
        ----------
        method, *args, **kwargs
            As for `submit`.
        timeout
            Seconds, for each of the calls.
        slots
            Which actors; None for all.

        Returns
        -------
        dict[int, Outcome]
            By slot, in the order of `slots`.
        """
        results: Results = queue.SimpleQueue()
        chosen = list(self._slots if slots is None else slots)
        for slot in chosen:
            self._submit(results, slot, CALL, method, args, kwargs, timeout)
        deadline = time.monotonic() + timeout + PING_TIMEOUT_S + GRACE_S
        outcomes = [self._wait(results, deadline - time.monotonic()) for _ in chosen]
        by_slot = {outcome.slot: outcome for outcome in outcomes}
        return {slot: by_slot[slot] for slot in chosen}

    def stash(
        self,
        name: str,
        version: int,
        payload: Any,
        *,
        timeout: float,
        slots: Iterable[int] | None = None,
    ) -> dict[int, Outcome]:
        """Hand a payload to the actors, busy or not, for `target.receive` before the next call.

        Returns when all have it: a call that is submitted afterwards sees it, and one that was
        submitted before may, if it has not begun. Of several payloads with one name, an actor gets
        the newest.

        Parameters
        ----------
        name, version
            Handed on as they are.
        payload
            Anything that can be pickled. It is packed once for all actors, and large arrays in it
            are not copied.
        timeout
            Seconds.
        slots
            Which actors; None for all.

        Returns
        -------
        dict[int, Outcome]
            By slot: `ok`, `lost` or `timeout`.
        """
        packed = self._pack(payload, f"the payload {name!r}")
        order = next(self._stashes)
        links = [self._link(slot) for slot in (self._slots if slots is None else slots)]
        start = time.monotonic()
        calls = [Call(next(self._sequences), "receive", packed, timeout, start) for _ in links]
        self.bytes_sent += packed.nbytes * len(links)

        async def hand_over() -> list[Outcome]:
            return await asyncio.gather(
                *(
                    link.stash(call, order, name, version)
                    for link, call in zip(links, calls, strict=True)
                )
            )

        outcomes = self._on_loop(hand_over(), timeout + PING_TIMEOUT_S + GRACE_S)
        return {outcome.slot: outcome for outcome in outcomes}

    def ping(self, slot: int, timeout: float = PING_TIMEOUT_S) -> bool:
        """Ask an actor for a sign of life, while it runs a method too.

        Parameters
        ----------
        slot
            Which actor.
        timeout
            Seconds.
        """
        answered, _ = self._on_loop(self._link(slot).ping(timeout), timeout + GRACE_S)
        return bool(answered)

    def close(self, timeout: float = 10.0) -> None:
        """Close the targets and let the actors go.

        Idempotent, and never takes much longer than `timeout` seconds. Actors that are past a
        deadline, or still busy when the time is over, are left, and their workers are not used
        again: the cluster ends them.

        Parameters
        ----------
        timeout
            Seconds.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._share.unlisten(self._on_worker_removed)
        links = list(self._links.values())
        free: list[str] = []
        if links and self._client.status == "running":
            # where the loop is blocked or gone, Dask drops the actors with the client
            with contextlib.suppress(ActorError):
                free = self._on_loop(self._close_links(links, timeout), timeout + 1.0)
        self._share.taken.difference_update(free)
        self._pending.clear()

    def __enter__(self) -> Self:
        if not self._links:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _place(self, slots: Collection[int], *, generation: int, deadline: float) -> None:
        """Put a new actor into each of these slots."""
        addresses = free_workers(
            self._client,
            len(slots),
            frozenset(self._banned),
            max(0.0, deadline - time.monotonic()),
        )
        work = make_links(
            self._client,
            self._build,
            dict(zip(slots, addresses, strict=True)),
            generation=generation,
            name=self._name,
            environ=self._environ,
            exit_of=self._exit_of,
        )
        try:
            links = self._on_loop(work, max(1.0, deadline - time.monotonic()))
        except ActorError as error:
            self._share.taken.difference_update(addresses)
            raise ClusterError(
                f"the actors on {', '.join(addresses)} did not start within "
                f"{self._start_timeout_s:g} s",
                "raise `worker_start_timeout_s`, or look at the workers' logs",
            ) from error
        except BaseException:
            self._share.taken.difference_update(addresses)
            raise
        self._links.update(links)

    def _submit(
        self,
        results: Results,
        slot: int,
        kind: str,
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        timeout: float,
    ) -> int:
        link = self._link(slot)
        sequence = next(self._sequences)
        packed = self._pack((sequence, kind, method, args, kwargs), f"the arguments of {method}")
        self.bytes_sent += packed.nbytes
        call = Call(sequence, method, packed, timeout, time.monotonic())
        self._pending[sequence] = _Pending(results, slot, link.generation, method, call.start)
        try:
            self._loop().call_soon_threadsafe(self._launch, link, call)
        except RuntimeError as error:
            self._pending.pop(sequence, None)
            raise ActorError("the Dask client is closed, and its actors with it") from error
        return sequence

    def _launch(self, link: ActorLink, call: Call) -> None:
        task = asyncio.ensure_future(self._run(link, call))
        self._tasks.add(task)  # the loop itself keeps only weak references
        task.add_done_callback(self._tasks.discard)

    async def _run(self, link: ActorLink, call: Call) -> None:
        self._deliver(await link.call(call))

    def _deliver(self, outcome: Outcome) -> None:
        """Pass an outcome on, unless it is a duplicate or from an actor that was replaced."""
        with self._lock:
            pending = self._pending.get(outcome.sequence)
            if pending is None or (pending.slot, pending.generation) != (
                outcome.slot,
                outcome.generation,
            ):
                self.dropped += 1
                return
            del self._pending[outcome.sequence]
        self.bytes_received += outcome.bytes_received
        pending.results.put(outcome)

    def _wait(self, results: Results, timeout: float) -> Outcome:
        try:
            return results.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            now = time.monotonic()
            waiting = ", ".join(
                f"actor {p.slot}: {p.method} for {now - p.start:.1f} s"
                for p in tuple(self._pending.values())
            )
            raise ActorError(
                f"no actor answered within {timeout:g} s ({waiting or 'nothing is under way'})"
            ) from None

    def _on_worker_removed(self, address: str) -> None:
        """Note, on the client's loop, that a Dask worker is gone."""
        for link in self._links.values():
            if link.address == address:
                link.mark_gone("the scheduler has removed its worker")

    async def _close_links(self, links: list[ActorLink], timeout: float) -> list[str]:
        """Close what can be closed; returns the addresses of the workers that are free again."""
        closing: dict[str, asyncio.Task[Outcome]] = {}
        for link in links:
            if link.info().state in ("idle", "busy"):
                sequence = next(self._sequences)
                packed = pack((sequence, CLOSE, "close", (), {}))
                call = Call(sequence, "close", packed, timeout, time.monotonic())
                closing[link.address] = asyncio.ensure_future(link.call(call))
        if closing:
            await asyncio.wait(closing.values(), timeout=timeout)
        free = [
            address
            for address, task in closing.items()
            if task.done() and task.result().kind in ("ok", "raised")
        ]
        await asyncio.gather(*(link.release() for link in links))
        return free

    def _link(self, slot: int) -> ActorLink:
        if self._is_closed:
            raise ActorError("the pool is closed")
        if slot not in self._links:
            have = f"1 to {len(self._slots)}" if self._links else "none: the pool is not started"
            raise ActorError(f"there is no actor {slot}; the slots are {have}")
        return self._links[slot]

    def _pack(self, value: Any, what: str) -> Packed:
        try:
            return pack(value)
        except Exception as error:
            raise ActorError(
                f"{what} cannot be sent to an actor: {type(error).__name__}: {error}",
                "pass plain data: numbers, text, arrays, and containers of these",
            ) from error

    def _loop(self) -> asyncio.AbstractEventLoop:
        tornado_loop: Any = self._client.loop
        return cast(asyncio.AbstractEventLoop, tornado_loop.asyncio_loop)

    def _on_loop(self, work: Coroutine[Any, Any, Any], timeout: float) -> Any:
        """Run a coroutine on the client's loop, and wait for it here."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop())
        except RuntimeError as error:
            work.close()
            raise ActorError("the Dask client is closed, and its actors with it") from error
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise ActorError(
                f"the Dask client's event loop did not answer within {timeout:g} s"
            ) from None
