"""Put actors onto Dask workers: find free ones, make the hosts, check that they fit."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import cloudpickle  # type: ignore[import-untyped]

from dtrainer.cluster.actor import ActorHost
from dtrainer.cluster.link import ActorLink, ExitOf
from dtrainer.cluster.share import ClientShare
from dtrainer.config.errors import ActorError, ClusterError

if TYPE_CHECKING:
    from distributed import Client

WORKER_POLL_S = 0.1


def dump_build(build: Callable[[int], Any]) -> bytes:
    """Pickle the builder of the actors' targets.

    Raises
    ------
    ActorError
        It cannot be pickled.
    """
    try:
        dumped: bytes = cloudpickle.dumps(build)
    except Exception as error:
        raise ActorError(
            f"the builder {build!r} of the actors cannot be pickled: "
            f"{type(error).__name__}: {error}",
            "it must not hold open files, locks, threads, environments or generators: "
            "make these inside it",
        ) from error
    return dumped


def free_workers(client: Client, wanted: int, banned: frozenset[str], timeout: float) -> list[str]:
    """Wait for Dask workers that no pool of this client uses, and take them.

    Parameters
    ----------
    client
        A synchronous client.
    wanted
        How many.
    banned
        Addresses not to use.
    timeout
        Seconds to wait.

    Returns
    -------
    list[str]
        Their addresses; they are taken until they are discarded from `ClientShare.taken`.

    Raises
    ------
    ClusterError
        Too few workers came; or they live in this very process.
    """
    share = ClientShare.of(client)
    deadline = time.monotonic() + timeout
    while True:
        here = list(client.scheduler_info(n_workers=-1)["workers"])
        if any(address.startswith("inproc://") for address in here):
            raise ClusterError(
                "this Dask cluster runs its workers as threads of this process "
                "(processes=False); an actor needs a process of its own",
                "make it with LocalCluster(processes=True, threads_per_worker=1)",
            )
        free = [a for a in here if a not in share.taken and a not in banned]
        if len(free) >= wanted:
            share.taken.update(free[:wanted])
            return free[:wanted]
        if time.monotonic() > deadline:
            raise too_few(client, wanted, len(here), len(free), timeout)
        time.sleep(WORKER_POLL_S)


def scheduler_address(client: Client) -> str:
    """Name the scheduler of a client."""
    return str(getattr(client.scheduler, "address", "an unknown address"))


def too_few(client: Client, wanted: int, here: int, free: int, timeout: float) -> ClusterError:
    """Make the error for too few workers."""
    in_use = "" if here == free else f", {here - free} of them in use by other actors"
    return ClusterError(
        f"{wanted} actors need {wanted} Dask workers, and after {timeout:g} s there are {here} "
        f"at {scheduler_address(client)}{in_use}",
        "one worker process an actor: start more workers, or lower `num_workers`; if they are "
        "still in a queue, raise `worker_start_timeout_s`",
    )


async def make_links(
    client: Client,
    build: bytes,
    places: Mapping[int, str],
    *,
    generation: int,
    name: str,
    environ: Mapping[str, str],
    exit_of: ExitOf | None,
) -> dict[int, ActorLink]:
    """Make one host on each worker; runs on the client's loop.

    Parameters
    ----------
    client
        The client.
    build
        Cloudpickled builder of the targets.
    places
        Slot to address of a worker.
    generation
        Which actors of their slots they are.
    name
        Of the pool; part of the keys.
    environ
        Environment variables for the actors.
    exit_of
        Passed on to the links.

    Raises
    ------
    ClusterError
        A worker cannot import dtrainer, died, runs another version, or hosts two actors.
    """
    driver_path = [entry for entry in sys.path if entry]
    futures = {
        slot: client.submit(
            ActorHost,
            build,
            slot,
            generation,
            dict(environ),
            driver_path,
            actor=True,
            workers=[address],
            allow_other_workers=False,
            key=f"{name}-{slot}-g{generation}-{uuid.uuid4().hex}",
            pure=False,
        )
        for slot, address in places.items()
    }
    try:
        with client.as_current():  # or the handles would belong to the process's default client
            gathering = client.gather(  # type: ignore[no-untyped-call]
                list(futures.values()), asynchronous=True
            )
            handles = await gathering
        hellos = await asyncio.gather(*(handle.hello() for handle in handles))
    except Exception as error:
        raise _creation_error(client, error, places) from error
    _check_fit(hellos, places)
    return {
        slot: ActorLink(
            client,
            slot=slot,
            generation=generation,
            address=places[slot],
            future=futures[slot],
            handle=handle,
            hello=hello,
            exit_of=exit_of,
        )
        for slot, handle, hello in zip(places, handles, hellos, strict=True)
    }


def _creation_error(client: Client, error: Exception, places: Mapping[int, str]) -> ClusterError:
    kind = type(error).__name__
    hint = None
    if isinstance(error, ImportError):
        hint = (
            "the workers run in another environment than this program: start them with the same "
            f"Python ({sys.executable}) and the same packages, dtrainer among them"
        )
    return ClusterError(
        f"the Dask workers at {scheduler_address(client)} cannot make the actors "
        f"({', '.join(places.values())}): {kind}: {error}",
        hint,
    )


def _check_fit(hellos: list[dict[str, Any]], places: Mapping[int, str]) -> None:
    """Refuse what cannot work, warn of what may not."""
    from importlib.metadata import version

    import dtrainer

    own = {
        "dtrainer": dtrainer.__version__,
        "distributed": version("distributed"),
        "numpy": version("numpy"),
    }
    seen: dict[tuple[str, int], str] = {(socket.gethostname(), os.getpid()): "this program"}
    for hello, address in zip(hellos, places.values(), strict=True):
        process = (hello["host"], hello["pid"])
        if process in seen:
            raise ClusterError(
                f"the Dask worker {address} shares its process with {seen[process]}; "
                "an actor needs a process of its own",
                "start the workers as processes with one worker each",
            )
        seen[process] = f"the worker {address}"
        if _minor(hello["python"]) != _minor(platform.python_version()):
            raise ClusterError(
                f"the Dask worker {address} runs Python {hello['python']}, this program runs "
                f"{platform.python_version()}: code cannot be sent between them",
                "start the workers in the environment of this program",
            )
        if hello["dtrainer"] != own["dtrainer"]:
            raise ClusterError(
                f"the Dask worker {address} has dtrainer {hello['dtrainer']}, this program has "
                f"{own['dtrainer']}",
                "install the same version in both environments",
            )
        if hello["actors"] > 1:
            warnings.warn(
                f"the Dask worker {address} hosts {hello['actors'] - 1} other Dask actor(s), "
                "perhaps another run's: they share one thread and wait for each other",
                UserWarning,
                stacklevel=2,
            )
    _warn_of_versions(hellos, own)


def _warn_of_versions(hellos: list[dict[str, Any]], own: dict[str, str]) -> None:
    for package in ("distributed", "numpy"):
        others = sorted({hello[package] for hello in hellos} - {own[package]})
        if others:
            warnings.warn(
                f"the Dask workers have {package} {', '.join(others)}, this program has "
                f"{own[package]}; install the same version if calls fail in strange ways",
                UserWarning,
                stacklevel=2,
            )


def _minor(version: str) -> tuple[str, ...]:
    return tuple(version.split(".")[:2])
