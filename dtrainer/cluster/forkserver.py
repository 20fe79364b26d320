"""The process that local Dask workers are forked from; nothing here runs in the driver.

Importing Dask takes most of a second. This process does it once, while the driver does its own
imports, and then forks a worker in a few hundredths of a second each, at the start and when one has
to be replaced. It never runs the user's main script, so a script needs no `__main__` guard.

It speaks JSON lines over one socket. The driver sends `init` (once), `spawn` and `kill`; it is told
`ready`, `started`, `exited` and `failed`. When the socket closes, or the driver is no longer the
parent process, the workers are killed, and with them everything is gone.
"""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

POLL_S = 0.25
GRACE_S = 1.0
_PR_SET_PDEATHSIG = 1


def main(control_fd: int, parent: int) -> None:
    """Serve until the driver is gone.

    Parameters
    ----------
    control_fd
        File descriptor of the socket to the driver.
    parent
        Process id of the driver.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver to handle
    server = ForkServer(socket.socket(fileno=control_fd), parent)
    try:
        server.serve()
    finally:
        server.end()


class ForkServer:
    """Fork workers on request, and report how they end.

    Parameters
    ----------
    control
        Socket to the driver.
    parent
        Process id of the driver.
    """

    def __init__(self, control: socket.socket, parent: int) -> None:
        self.control = control
        self.parent = parent
        self.received = b""
        self.names: dict[int, str] = {}
        self.settings: dict[str, Any] = {}
        self.own_pid = os.getpid()
        self._executed: list[subprocess.Popen[bytes]] = []
        self.child_ended, waker = socket.socketpair()
        waker.setblocking(False)
        self._waker = waker
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)

    def serve(self) -> None:
        """Answer requests until the driver is gone."""
        while os.getppid() == self.parent:
            readable, _, _ = select.select([self.control, self.child_ended], [], [], POLL_S)
            if self.child_ended in readable:
                self.child_ended.recv(1 << 12)
            if self.control in readable:
                chunk = self.control.recv(1 << 16)
                if not chunk:
                    return
                self.received += chunk
                *lines, self.received = self.received.split(b"\n")
                for line in lines:
                    self.handle(json.loads(line))
            self.report_exits()

    def handle(self, request: dict[str, Any]) -> None:
        """Do what the driver asks for."""
        if request["op"] == "init":
            self.settings = request
            sys.path[:] = request["sys_path"]
            failed = _import_ahead(request["preload"], request["dask_config"])
            self.tell(event="ready", pid=self.own_pid, not_imported=failed)
        elif request["op"] == "spawn":
            self.spawn(request)
        elif request["op"] == "kill" and request["pid"] in self.names:
            os.kill(request["pid"], request["signal"])

    def spawn(self, request: dict[str, Any]) -> None:
        """Start one worker process."""
        order = {**self.settings, **request}
        try:
            pid = self._fork(order) if _may_fork() else self._execute(order)
        except OSError as error:
            self.tell(event="failed", name=request["name"], text=str(error))
            return
        self.names[pid] = request["name"]
        self.tell(event="started", name=request["name"], pid=pid)

    def _fork(self, order: dict[str, Any]) -> int:
        """Fork a worker; returns its process id. Never returns in the child."""
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for inherited in (self.control, self.child_ended, self._waker):
                inherited.close()
            run_worker(order, self.own_pid)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _execute(self, order: dict[str, Any]) -> int:
        """Start a worker from scratch, where forking is not safe; returns its process id."""
        program = (
            "import json, sys; order = json.loads(sys.argv[1]); sys.path[:] = order['sys_path']; "
            "from dtrainer.cluster.forkserver import execute_worker; "
            "execute_worker(order, int(sys.argv[2]))"
        )
        command = [sys.executable, "-c", program, json.dumps(order), str(self.own_pid)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self._executed.append(process)  # or it would be waited for when it is collected
        return process.pid

    def report_exits(self) -> None:
        """Tell the driver which workers have ended since the last look, and how."""
        while self.names:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            name = self.names.pop(pid, None)
            if name is not None:
                code = os.waitstatus_to_exitcode(status)
                self.tell(event="exited", name=name, pid=pid, code=code)

    def tell(self, **event: Any) -> None:
        """Send the driver an event; a driver that is gone is noticed by `serve`."""
        try:
            self.control.sendall(json.dumps(event).encode() + b"\n")
        except OSError:
            self.parent = -1

    def end(self) -> None:
        """Kill the workers that are left and remove their scratch folder."""
        if os.getpid() != self.own_pid:
            return
        for pid in self.names:
            _signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        while self.names and time.monotonic() < deadline:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid:
                self.names.pop(pid, None)
            else:
                time.sleep(0.01)
        for pid in self.names:
            _signal(pid, signal.SIGKILL)
        if scratch := self.settings.get("scratch"):
            shutil.rmtree(scratch, ignore_errors=True)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _import_ahead(preload: list[str], dask_config: dict[str, Any]) -> dict[str, str]:
    """Import Dask and what the actors will need; returns what could not be imported, and why."""
    import importlib

    import dask

    dask.config.set(dask_config)
    import distributed  # noqa: F401

    import dtrainer.cluster.actor  # noqa: F401

    failed = {}
    for name in preload:
        try:
            importlib.import_module(name)
        except Exception as error:  # the actor that needs it will say so where it matters
            failed[name] = f"{type(error).__name__}: {error}"
    gc.collect()
    gc.freeze()  # the forks share these objects: keep the collector from touching their pages
    return failed


def _may_fork() -> bool:
    """Whether forking is safe: no other thread, and a platform whose libraries bear it."""
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
    except FileNotFoundError:
        return False


def execute_worker(order: dict[str, Any], server: int) -> None:
    """Run a worker in a process that was started from scratch."""
    _import_ahead(order["preload"], order["dask_config"])
    run_worker(order, server)
    os._exit(0)


def run_worker(order: dict[str, Any], server: int) -> None:
    """Be one Dask worker with one thread, until its scheduler is gone.

    Parameters
    ----------
    order
        `scheduler` (address), `name`, `scratch` (folder), `sys_path`.
    server
        Process id of the fork server: the worker ends with it.
    """
    import asyncio
    import faulthandler

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _die_with_parent(server)
    faulthandler.enable()
    _reseed()
    os.dup2(2, 1)  # what environments print must not mix with the driver's own output
    asyncio.run(_serve_worker(order))


async def _serve_worker(order: dict[str, Any]) -> None:
    import logging

    from distributed import Worker

    logging.getLogger("distributed").setLevel(logging.ERROR)
    scratch = Path(order["scratch"]) / order["name"]
    async with Worker(
        order["scheduler"],
        nthreads=1,
        name=order["name"],
        host=order["host"],
        local_directory=str(scratch),
        memory_limit=0,
        dashboard=False,
        dashboard_address=f"{order['host']}:0",
        death_timeout=order["death_timeout"],
    ) as worker:
        await worker.finished()


def _die_with_parent(server: int) -> None:
    """Have the kernel kill this process when the fork server ends (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(0)


def _reseed() -> None:
    """Give this process its own numpy generator: a fork has its parent's."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
