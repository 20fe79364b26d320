"""The driver's end of the fork server: local worker processes, started, watched and ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dtrainer.config.errors import ClusterError

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}
"""Environment of the workers: one process an actor, one thread a process."""


class WorkerProcesses:
    """Worker processes of one local cluster, all forked from one server process.

    The server starts importing at once, without waiting for the driver's own imports. It runs in a
    session of its own, so Ctrl-C in the terminal reaches the driver alone.

    Parameters
    ----------
    environ
        Variables for the workers, over the driver's own and `ONE_THREAD`.
    preload
        Modules that the workers will need; imported once, before the first fork. One that cannot
        be imported is no error here.
    dask_config
        Dask configuration for the workers.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str],
        preload: Sequence[str] = (),
        dask_config: Mapping[str, Any] | None = None,
    ) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="dtrainer-workers-"))
        self.changed = threading.Condition()
        self.pids: dict[str, int] = {}
        self.exit_codes: dict[int, int] = {}
        self.failures: dict[str, str] = {}
        self.server_is_gone = False
        self._closed = False
        self._control, theirs = socket.socketpair()
        program = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); "
            "from dtrainer.cluster.forkserver import main; "
            f"main({theirs.fileno()}, {os.getpid()})"
        )
        self._server = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={**os.environ, **ONE_THREAD, **environ},
            start_new_session=True,
        )
        theirs.close()
        self._send(
            op="init",
            sys_path=[entry or str(Path.cwd()) for entry in sys.path],
            preload=list(preload),
            dask_config=dict(dask_config or {}),
            scratch=str(self.scratch),
        )
        threading.Thread(target=self._listen, name="dtrainer-workers", daemon=True).start()

    def spawn(self, name: str, scheduler: str, *, host: str, death_timeout: float) -> None:
        """Ask for one more worker process; does not wait for it.

        Parameters
        ----------
        name
            The Dask worker's name, unique in this cluster.
        scheduler
            Address of the scheduler that it connects to.
        host
            Address that it listens on.
        death_timeout
            Seconds after which it gives up when it cannot reach the scheduler.
        """
        self._send(
            op="spawn", name=name, scheduler=scheduler, host=host, death_timeout=death_timeout
        )

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to one of the workers; nothing happens if it has ended already."""
        self._send(op="kill", pid=pid, signal=int(number))

    def living(self) -> dict[str, int]:
        """Names and process ids of the workers that have started and not ended."""
        with self.changed:
            return {n: p for n, p in self.pids.items() if p not in self.exit_codes}

    def exit_of(self, pid: int, timeout: float = 0.0) -> str | None:
        """Say how a worker ended.

        Parameters
        ----------
        pid
            Its process id.
        timeout
            Seconds to wait for it to end.

        Returns
        -------
        str or None
            Such as `killed by SIGKILL`; None while it runs, or if it is not one of these workers.
        """
        deadline = time.monotonic() + timeout
        with self.changed:
            while pid not in self.exit_codes:
                left = deadline - time.monotonic()
                if left <= 0 or pid not in self.pids.values() or self.server_is_gone:
                    return None
                self.changed.wait(left)
            return describe_exit(self.exit_codes[pid])

    def check(self) -> None:
        """Raise if a worker could not start, or ended, or the server did.

        Raises
        ------
        ClusterError
            With the name of the worker and how it ended.
        """
        with self.changed:
            if self.server_is_gone and not self._closed:
                code = self._server.poll()
                how = "it closed its socket" if code is None else describe_exit(code)
                raise ClusterError(
                    f"the process that local workers are started from has ended ({how})",
                    "its own messages are above, on the standard error of this program",
                )
            for name, text in self.failures.items():
                raise ClusterError(f"the local worker {name} could not be started: {text}")
            for name, pid in self.pids.items():
                if pid in self.exit_codes:
                    raise ClusterError(
                        f"the local worker {name} (pid {pid}) ended while it started: "
                        f"{describe_exit(self.exit_codes[pid])}",
                        "its own messages are above, on the standard error of this program",
                    )

    def close(self, timeout: float = 5.0) -> None:
        """End the server and the workers; idempotent, and done within `timeout` seconds."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):  # the server is gone already
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._server.wait(timeout)
        except subprocess.TimeoutExpired:
            for pid in self.living().values():
                self._kill_own(pid)
            self._server.kill()
            self._server.wait()
        self._control.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _kill_own(self, pid: int) -> None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _send(self, **request: Any) -> None:
        try:
            self._control.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            if self._closed:
                return
            raise ClusterError(
                "the process that local workers are started from has ended",
                "its own messages are above, on the standard error of this program",
            ) from error

    def _listen(self) -> None:
        """Note what the server reports, until it ends."""
        received = b""
        while True:
            try:
                chunk = self._control.recv(1 << 16)
            except OSError:
                chunk = b""
            if not chunk:
                break
            *lines, received = (received + chunk).split(b"\n")
            for line in lines:
                self._note(json.loads(line))
        with self.changed:
            self.server_is_gone = True
            self.changed.notify_all()

    def _note(self, event: dict[str, Any]) -> None:
        with self.changed:
            if event["event"] == "started":
                self.pids[event["name"]] = event["pid"]
            elif event["event"] == "exited":
                self.exit_codes[event["pid"]] = event["code"]
            elif event["event"] == "failed":
                self.failures[event["name"]] = event["text"]
            self.changed.notify_all()


def describe_exit(code: int) -> str:
    """Say what a process's exit code means.

    Parameters
    ----------
    code
        As `subprocess` gives it: negative for a signal.
    """
    if code >= 0:
        return f"it exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if -code == signal.SIGKILL:
        return f"killed by {name}: by somebody, or by the system because memory ran out"
    return f"killed by {name}"
