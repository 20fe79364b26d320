from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import distributed
import psutil
import pytest
from actor_targets import Target

from dtrainer.cluster import ActorPool, Cluster, open_cluster
from dtrainer.cluster.local import LocalCluster
from dtrainer.config.cluster import ClusterSpec
from dtrainer.config.errors import ActorError, ClusterError

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, sys, time
from dtrainer.cluster import ActorPool, open_cluster
from dtrainer.config.cluster import ClusterSpec

class Point:
    def __init__(self, x):
        self.x = x

class Counter:
    def __init__(self, slot):
        self.slot = slot
    def square(self):
        return self.slot ** 2
    def twice(self, point):
        return Point(2 * point.x)
    def sleep(self, seconds):
        time.sleep(seconds)

cluster = open_cluster(ClusterSpec(), 2)
pool = ActorPool(cluster.client, Counter, 2, exit_of=cluster.exit_of)
pool.start()
print([o.unwrap() for o in pool.map("square", timeout=20).values()], flush=True)
point = pool.map("twice", Point(3), timeout=20, slots=[1])[1].unwrap()
assert isinstance(point, Point) and point.x == 6
print(" ".join(str(actor.pid) for actor in pool.actors), flush=True)
"""


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files of this test go, and none may be left."""
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def gone(pids: list[int], within: float) -> bool:
    _, alive = psutil.wait_procs(
        [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=within
    )
    return not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("how", ["file", "stdin"])
def test_a_plain_script_without_a_main_guard(tmp_path: Path, scratch: Path, how: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, *(["train.py"] if how == "file" else [])],
        input=SCRIPT if how == "stdin" else None,
        cwd=tmp_path,
        env=environ(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    squares, pids = done.stdout.splitlines()
    assert squares == "[1, 4]"
    assert gone([int(pid) for pid in pids.split()], within=0)
    assert list(tmp_path.iterdir()) == [script]
    assert not list(scratch.iterdir())


def start_script(tmp_path: Path, rest: str) -> tuple[subprocess.Popen[str], list[int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT + rest],
        cwd=tmp_path,
        env=environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    children = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    assert {int(pid) for pid in process.stdout.readline().split()} < set(children)
    return process, children


def test_a_killed_driver_leaves_no_orphan(tmp_path: Path, scratch: Path) -> None:
    process, children = start_script(
        tmp_path, "pool.submit(1, 'sleep', 60, timeout=90); time.sleep(60)"
    )
    process.kill()
    process.wait()
    assert gone(children, within=3)
    assert not list(scratch.iterdir())


def test_a_killed_driver_whose_own_child_lives_on_leaves_no_orphan(tmp_path: Path) -> None:
    process, children = start_script(
        tmp_path, "sys.stdout.close(); child = os.fork(); time.sleep(3)"
    )
    process.kill()
    process.wait()
    assert gone(children, within=2.5)


def test_ctrl_c_is_the_drivers_alone(tmp_path: Path) -> None:
    rest = """
try:
    time.sleep(60)
except KeyboardInterrupt:
    print([o.unwrap() for o in pool.map("square", timeout=20).values()], flush=True)
    pool.close()
    cluster.close()
"""
    process, children = start_script(tmp_path, rest)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "[1, 4]\n", "")
    assert gone(children, within=0)


def test_open_in_a_thread_close_twice_and_everything_is_as_before(scratch: Path) -> None:
    key = "distributed.comm.timeouts.connect"
    levels = [logging.getLogger(n).level for n in ("distributed", "distributed.client")]
    config = dask.config.get(key)
    opened: list[Cluster] = []
    thread = threading.Thread(target=lambda: opened.append(open_cluster(ClusterSpec(), 1)))
    thread.start()
    thread.join(30)  # a worker must not die with the thread that opened the cluster
    cluster = opened[0]
    assert isinstance(cluster, LocalCluster)
    assert cluster.client.direct_to_workers
    pool = ActorPool(cluster.client, Target, 1, start_timeout_s=10)
    pool.start()
    assert pool.map("number", timeout=10)[1].ok
    assert not pool.map("folder", timeout=10)[1].value.startswith(str(Path.cwd()))
    pids = list(cluster.worker_pids().values())
    start = time.monotonic()
    cluster.close()
    cluster.close()
    pool.close()
    assert time.monotonic() - start < 5
    assert gone(pids, within=0)
    assert dask.config.get(key) == config
    assert [logging.getLogger(n).level for n in ("distributed", "distributed.client")] == levels
    assert not list(scratch.iterdir())
    with pytest.raises(ActorError):
        pool.submit(1, "number", timeout=1)


def test_close_after_workers_and_server_were_killed_or_stopped() -> None:
    cluster = LocalCluster(ClusterSpec(), 2)
    first, second = cluster.worker_pids().values()
    os.kill(first, signal.SIGKILL)
    os.kill(second, signal.SIGSTOP)
    server = cluster._processes._server.pid
    os.kill(server, signal.SIGSTOP)
    start = time.monotonic()
    cluster.close(timeout=1)
    assert time.monotonic() - start < 8
    assert gone([first, second, server], within=1)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=f"port {port} of 127.0.0.1 is taken") as caught:
            open_cluster(ClusterSpec(scheduler_port=port), 1)
        assert "cluster.scheduler_port" in str(caught.value)


def test_a_port_that_is_asked_for() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open_cluster(ClusterSpec(scheduler_port=port), 1) as cluster:
        assert cluster.client.scheduler.address == f"tcp://127.0.0.1:{port}"


def test_a_dashboard_without_bokeh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ClusterError, match="bokeh"):
        open_cluster(ClusterSpec(dashboard=":0"), 1)


def test_a_worker_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules["dtrainer.cluster.settings"].WORKER, "distributed.worker.preload", ["no_such"]
    )
    with pytest.raises(ClusterError, match="local-1"):
        open_cluster(ClusterSpec(), 1, start_timeout_s=20)


def test_where_forking_is_not_safe_workers_start_from_scratch() -> None:
    with (
        LocalCluster(ClusterSpec(), 1, preload=["starts_a_thread", "no_such_module"]) as cluster,
        ActorPool(cluster.client, Target, 1, exit_of=cluster.exit_of) as pool,
    ):
        outcomes = [pool.map(method, timeout=20)[1] for method in ("number", "crash")]
        assert [outcome.kind for outcome in outcomes] == ["ok", "lost"]
        assert "SIGSEGV" in outcomes[1].error_text


def test_nobody_answers_at_the_address() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spec = ClusterSpec(address=f"tcp://127.0.0.1:{port}", connect_timeout_s=0.5)
    start = time.monotonic()
    with pytest.raises(ClusterError, match=f"no Dask scheduler answers at tcp://127.0.0.1:{port}"):
        open_cluster(spec, 1)
    assert time.monotonic() - start < 5


@pytest.fixture(scope="module")
def outside() -> Iterator[str]:
    """Address of a scheduler that somebody else runs, with one worker."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    folder = tempfile.TemporaryDirectory()
    common = {"cwd": folder.name, "env": environ(), "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen(
        f"{sys.executable} -m distributed.cli.dask_scheduler --host {address} "
        "--no-dashboard".split(),
        **common,  # type: ignore[call-overload]
    )
    worker = subprocess.Popen(
        f"{sys.executable} -m distributed.cli.dask_worker {address} "
        "--no-nanny --nthreads 1 --no-dashboard".split(),
        **common,  # type: ignore[call-overload]
    )
    yield address
    for process in (worker, scheduler):
        process.kill()
        process.wait()
    folder.cleanup()


def test_an_address(outside: str) -> None:
    with open_cluster(ClusterSpec(address=outside, connect_timeout_s=30), 1) as cluster:
        for _ in range(2):  # a second run finds the worker free again
            with ActorPool(cluster.client, Target, 1, start_timeout_s=20) as pool:
                assert pool.map("number", timeout=20)[1].value == 1
    assert cluster.client.status == "closed"
    with pytest.raises(ClusterError, match=r"has 1 workers after 0\.1 s, and 3 are needed"):
        open_cluster(ClusterSpec(address=outside), 3, start_timeout_s=0.1)


def test_versions_that_differ(outside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_cluster(ClusterSpec(address=outside, connect_timeout_s=30), 1) as cluster:
        monkeypatch.setattr("dtrainer.__version__", "9.9.9")
        with pytest.raises(ClusterError, match=r"has dtrainer .*, this program has 9\.9\.9"):
            ActorPool(cluster.client, Target, 1, start_timeout_s=20).start()
        monkeypatch.undo()
        monkeypatch.setattr("platform.python_version", lambda: "3.99.1")
        with pytest.raises(ClusterError, match=r"this program runs 3\.99\.1"):
            ActorPool(cluster.client, Target, 1, start_timeout_s=20).start()


def test_a_client_that_goes_through_the_scheduler_works_and_is_told_once(outside: str) -> None:
    with (
        distributed.Client(outside, set_as_default=False) as client,
        pytest.warns(UserWarning, match="through the scheduler"),
        ActorPool(client, Target, 1, start_timeout_s=20) as pool,
    ):
        assert pool.map("echo", "x" * 10_000, timeout=20)[1].value == "x" * 10_000


def test_inside_a_running_event_loop_and_beside_another_default_client(outside: str) -> None:
    """As in a notebook, whose cells run in an event loop."""

    async def cell() -> None:
        with (
            distributed.Client(outside),
            open_cluster(ClusterSpec(), 1) as cluster,
            ActorPool(cluster.client, Target, 1, start_timeout_s=20) as pool,
        ):
            assert pool.map("number", timeout=20)[1].value == 1
            assert pool._links[1]._handle.client is cluster.client

    asyncio.run(cell())


def test_a_lost_scheduler_is_said(tmp_path: Path) -> None:
    cluster = LocalCluster(ClusterSpec(), 1)
    try:
        with distributed.Client(
            cluster.client.scheduler.address, direct_to_workers=True, set_as_default=False
        ) as client:
            pool = ActorPool(client, Target, 1, start_timeout_s=20)
            pool.start()
            pool.submit(1, "sleep", 30, timeout=60)
            cluster.close()
            outcome = pool.next(10)
            assert outcome.kind == "lost"
            start = time.monotonic()
            pool.close(timeout=1)
            assert time.monotonic() - start < 3
    finally:
        cluster.close()


def test_workers_in_threads_are_refused() -> None:
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as threads,
        distributed.Client(threads, set_as_default=False) as client,
        pytest.warns(UserWarning, match="through the scheduler"),
        pytest.raises(ClusterError, match="threads of this process"),
    ):
        ActorPool(client, Target, 1, start_timeout_s=5).start()


def test_a_cluster_type_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    class Theirs(Cluster):
        def close(self, timeout: float = 10.0) -> None:
            return

    class Point:
        name, value = "theirs", "their.package:open"

        def load(self) -> object:
            return lambda spec, workers, **kwargs: Theirs() if workers == 2 else "nothing"

    monkeypatch.setattr("importlib.metadata.entry_points", lambda **kwargs: [Point()])
    spec = ClusterSpec(type="theirs", options={"partition": "x"})
    assert isinstance(open_cluster(spec, 2), Theirs)
    with pytest.raises(ClusterError, match="gave a str"):
        open_cluster(spec, 1)


def test_importing_the_room_does_not_import_dask() -> None:
    program = (
        "import sys, dtrainer.cluster, dtrainer.cluster.backends, dtrainer.config.cluster; "
        "sys.exit(any(m in sys.modules for m in ('distributed', 'dask', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", program], env=environ()).returncode == 0
