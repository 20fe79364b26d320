"""The directory of a run: who drives it, and results that are cut off or taken back."""

from __future__ import annotations

import csv
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from dtrainer.config.errors import ResultsError
from dtrainer.reporting.runs import HEARTBEAT_LIMIT_S, RunDirectory, find_runs, results_folder

GONE = 2**22 + 1
"""No process has this id: it is above the limit of Linux."""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "results", "cartpole")


@pytest.fixture
def another_process() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.kill()
    process.communicate()


def edit_state(run: RunDirectory, **fields: Any) -> None:
    """Write fields as another driver would have."""
    state = {**run.state(), **fields}
    (run.path / "state.json").write_text(json.dumps(state))


# ---- making and finding --------------------------------------------------------------


def test_a_new_run(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "deep" / "results", "a")
    assert run.path == tmp_path / "deep" / "results" / "a"
    assert (run.path / "logs").is_dir()
    assert run.checkpoints == run.path / "checkpoints"
    assert run.state()["status"] == "starting"
    assert RunDirectory.open(run.path).state() == run.state()
    run.write_config("run: PPO\n")
    assert (run.path / "config.yaml").read_text() == "run: PPO\n"


def test_a_run_that_exists_is_not_overwritten(run: RunDirectory) -> None:
    (run.path / "result.jsonl").write_text('{"training_iteration": 1}\n')
    with pytest.raises(ResultsError, match="there is a run 'cartpole' already") as caught:
        RunDirectory.create(run.path.parent, "cartpole")
    assert str(run.path) in caught.value.message
    assert "--resume" in str(caught.value.hint)
    assert len(list(run.results())) == 1


def test_results_alone_make_a_run(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert not RunDirectory.exists(tmp_path / "a")
    (tmp_path / "a" / "result.jsonl").touch()
    assert RunDirectory.exists(tmp_path / "a")
    with pytest.raises(ResultsError, match="already"):
        RunDirectory.create(tmp_path, "a")


def test_an_empty_folder_becomes_a_run(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert RunDirectory.create(tmp_path, "a").state()["status"] == "starting"


def test_a_missing_run_names_those_beside_it(run: RunDirectory) -> None:
    RunDirectory.create(run.path.parent, "pong")
    (run.path.parent / "no-run").mkdir()
    with pytest.raises(ResultsError, match="there is no run") as caught:
        RunDirectory.open(run.path.parent / "cartpol")
    assert caught.value.hint == f"In {run.path.parent} there are: cartpole, pong."


def test_a_missing_folder_of_runs(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="there is no run") as caught:
        RunDirectory.open(tmp_path / "nowhere" / "a")
    assert caught.value.hint is None
    assert find_runs(tmp_path / "nowhere") == []


@pytest.mark.parametrize("folder", ["file", "file/below", "/proc/results"])
def test_a_folder_that_cannot_be_written(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ResultsError, match="cannot write") as caught:
        RunDirectory.create(tmp_path / folder, "a")
    assert str(tmp_path / folder / "a") in caught.value.message
    assert "--results" in str(caught.value.hint)


def test_runs_are_found_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        RunDirectory.create(tmp_path, name)
    (tmp_path / "notes.txt").write_text("x")
    assert [run.path.name for run in find_runs(tmp_path)] == ["a", "b"]


def test_the_folder_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert results_folder(None) == Path("results")
    monkeypatch.setenv("DTRAINER_RESULTS", "there")
    assert results_folder(None) == Path("there")
    assert results_folder("here") == Path("here")


# ---- who drives it -------------------------------------------------------------------


def test_the_state_keeps_its_fields_and_names_its_driver(run: RunDirectory) -> None:
    started = run.state()["started"]
    run.update_state(status="running", iteration=3)
    state = run.state()
    assert (state["status"], state["iteration"], state["started"]) == ("running", 3, started)
    assert (state["host"], state["pid"]) == (socket.gethostname(), os.getpid())
    assert datetime.now(UTC) - datetime.fromisoformat(state["heartbeat"]) < timedelta(minutes=1)


def test_the_state_is_there_whole_or_as_it_was(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run.state()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultsError, match=r"cannot write .*state\.json: No space left on device"):
        run.update_state(status="running")
    assert run.state() == before
    assert sorted(path.name for path in run.path.iterdir()) == ["logs", "state.json"]


def test_the_state_is_never_seen_half_written(run: RunDirectory) -> None:
    """A reader that looks as fast as it can, while another process writes."""
    program = (
        "import sys; from pathlib import Path; from dtrainer.reporting.runs import RunDirectory\n"
        "run = RunDirectory(Path(sys.argv[1]))\n"
        "for i in range(100): run.update_state(status='running', padding='x' * 20_000)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, str(run.path)])
    while writer.poll() is None:
        assert run.state()["status"] in ("starting", "running")
    assert writer.returncode == 0


def test_others_may_read_the_state_as_far_as_the_umask_says(run: RunDirectory) -> None:
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((run.path / "state.json").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_a_state_that_is_no_state(run: RunDirectory, text: str) -> None:
    (run.path / "state.json").write_text(text)
    assert run.state() == {}
    assert not run.is_alive()
    run.update_state(status="running")
    assert run.state()["status"] == "running"


def test_this_process_is_not_another(run: RunDirectory) -> None:
    run.update_state(status="running")
    assert not run.is_alive()


def test_another_process_that_lives(run: RunDirectory, another_process: int) -> None:
    edit_state(run, status="running", pid=another_process)
    assert run.is_alive()
    for status in ("finished", "interrupted", "failed"):
        edit_state(run, status=status)
        assert not run.is_alive()


@pytest.mark.parametrize("pid", [GONE, 2**70, 0, -1, None, "12", 1.5])
def test_a_process_that_is_gone(run: RunDirectory, pid: Any) -> None:
    edit_state(run, status="running", pid=pid)
    assert not run.is_alive()


@pytest.mark.parametrize(("age", "alive"), [(0.5, True), (2.0, False)])
def test_another_host_counts_by_its_heartbeat(run: RunDirectory, age: float, alive: bool) -> None:
    beat = datetime.now(UTC) - timedelta(seconds=age * HEARTBEAT_LIMIT_S)
    edit_state(run, status="running", host="another", pid=1, heartbeat=beat.isoformat())
    assert run.is_alive() == alive


@pytest.mark.parametrize("beat", [None, 3, "yesterday", "2024-01-01T00:00:00"])
def test_another_host_without_a_heartbeat(run: RunDirectory, beat: Any) -> None:
    edit_state(run, status="running", host="another", heartbeat=beat)
    assert not run.is_alive()


# ---- results -------------------------------------------------------------------------


def write_results(run: RunDirectory, count: int, torn: str | bytes = "") -> None:
    lines = "".join(f'{{"training_iteration": {i}, "x": null}}\n' for i in range(1, count + 1))
    end = torn if isinstance(torn, bytes) else torn.encode()
    (run.path / "result.jsonl").write_bytes(lines.encode() + end)


def iterations(run: RunDirectory) -> list[int]:
    return [result["training_iteration"] for result in run.results()]


def test_no_results(run: RunDirectory) -> None:
    assert iterations(run) == []
    assert run.truncate_results(0) == 0
    assert iterations(run) == []


@pytest.mark.parametrize("torn", ["", "{", '{"training_iteration": 4, "x"', "3", "\0\0", b"\xff{"])
def test_a_line_that_was_cut_off_is_left_out(run: RunDirectory, torn: str | bytes) -> None:
    write_results(run, 3, torn)
    assert iterations(run) == [1, 2, 3]
    assert run.truncate_results(3) == 0
    with (run.path / "result.jsonl").open("a") as file:
        file.write('{"training_iteration": 4}\n')
    assert iterations(run) == [1, 2, 3, 4]


@pytest.mark.parametrize("after", range(6))
def test_results_are_taken_back(run: RunDirectory, after: int) -> None:
    write_results(run, 4)
    assert run.truncate_results(after) == max(4 - after, 0)
    assert iterations(run) == list(range(1, min(after, 4) + 1))
    assert not [path for path in run.path.iterdir() if path.name.startswith(".")]


TABLE = "a,training_iteration,b,c\n1.5,1,,\n2.5,2,x,\n3.5,12,y,0.25\n"


def rows(run: RunDirectory) -> list[list[str]]:
    return list(csv.reader((run.path / "progress.csv").read_text().splitlines()))


@pytest.mark.parametrize(("after", "kept"), [(0, 0), (1, 1), (2, 2), (11, 2), (12, 3), (99, 3)])
def test_the_table_is_taken_back(run: RunDirectory, after: int, kept: int) -> None:
    (run.path / "progress.csv").write_text(TABLE)
    run.truncate_results(after)
    assert (run.path / "progress.csv").read_text() == "".join(
        TABLE.splitlines(keepends=True)[: kept + 1]
    )


@pytest.mark.parametrize("torn", ["3.5,1", "3.5,1,x,", "3.5,12,y,0.2", "3", '3.5,"1'])
def test_a_row_that_was_cut_off_is_left_out(run: RunDirectory, torn: str) -> None:
    (run.path / "progress.csv").write_text("\n".join([*TABLE.splitlines()[:3], torn]))
    run.truncate_results(2)
    assert (run.path / "progress.csv").read_text() == "\n".join(TABLE.splitlines()[:3]) + "\n"


def test_a_row_too_long_is_left_out(run: RunDirectory) -> None:
    (run.path / "progress.csv").write_text("a,training_iteration\n1,1,9\n2,2\n")
    run.truncate_results(5)
    assert rows(run) == [["a", "training_iteration"], ["2", "2"]]


@pytest.mark.parametrize("text", ["", "a,b", "a,training_it"])
def test_a_table_that_is_none_is_emptied(run: RunDirectory, text: str) -> None:
    (run.path / "progress.csv").write_text(text)
    run.truncate_results(5)
    assert (run.path / "progress.csv").read_text() == ""


# ---- what the first tests did not see ------------------------------------------------


def test_of_drivers_that_start_at_once_one_gets_the_run(tmp_path: Path) -> None:
    """They all find that there is no run yet, before any of them writes."""
    drivers = 4
    barrier = threading.Barrier(drivers)
    real = RunDirectory.exists
    got: list[RunDirectory] = []
    refused: list[str] = []

    class Late(RunDirectory):
        @staticmethod
        def exists(path: Path) -> bool:
            there = real(path)
            with suppress(threading.BrokenBarrierError):
                barrier.wait(timeout=0.5)
            return there

    def start() -> None:
        try:
            got.append(Late.create(tmp_path, "a"))
        except ResultsError as error:
            refused.append(error.message)

    threads = [threading.Thread(target=start) for _ in range(drivers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(got) == 1
    assert len(refused) == drivers - 1
    assert all("there is a run 'a' already" in message for message in refused)


def test_a_full_disk_does_not_take_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ResultsError, match="No space left on device"):
            RunDirectory.create(tmp_path, "a")
    assert RunDirectory.create(tmp_path, "a").state()["status"] == "starting"


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"cannot write .*: File name too long"):
        RunDirectory.create(tmp_path, "x" * 300)
    with pytest.raises(ResultsError, match="there is no run"):
        RunDirectory.open(tmp_path / ("x" * 300))


def test_home_may_be_written_as_a_tilde(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert results_folder("~/runs") == tmp_path / "runs"
    monkeypatch.setenv("DTRAINER_RESULTS", "~/others")
    assert results_folder(None) == tmp_path / "others"
    assert results_folder("~no-such-user/x") == Path("~no-such-user/x")


@contextmanager
def unprivileged() -> Iterator[None]:
    """Be nobody for a while: the superuser may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def shared() -> Iterator[Path]:
    """Give a folder that others may read, in a place that they can reach."""
    with tempfile.TemporaryDirectory(prefix="dtrainer-shared-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_runs_of_others_that_may_not_be_read(shared: Path) -> None:
    for name in ("a", "b", "c"):
        RunDirectory.create(shared, name)
    (shared / "b" / "result.jsonl").write_text("{}\n")
    (shared / "a").chmod(0o000)
    (shared / "b" / "result.jsonl").chmod(0o000)
    (shared / "c" / "state.json").chmod(0o000)
    (shared / "closed").mkdir(mode=0o000)
    try:
        with unprivileged():
            assert [run.path.name for run in find_runs(shared)] == ["b", "c"]
            assert not RunDirectory.exists(shared / "a")
            assert RunDirectory(shared / "c").state() == {}
            with pytest.raises(ResultsError, match=r"cannot read .*result\.jsonl: Permission"):
                list(RunDirectory(shared / "b").results())
            with pytest.raises(ResultsError, match=r"cannot read .*closed: Permission"):
                find_runs(shared / "closed")
            with pytest.raises(ResultsError, match=r"cannot write .*closed/new: Permission"):
                RunDirectory.create(shared / "closed", "new")
    finally:
        for name in ("a", "closed"):
            (shared / name).chmod(0o755)


def test_results_after_a_bad_line_are_not_lost(run: RunDirectory) -> None:
    lines = ['{"training_iteration": 1}', '{"train{"training_iteration": 2}', "\0\0\0"]
    lines += ['{"training_iteration": 3}', '{"training_iteration": 4}']
    (run.path / "result.jsonl").write_text("\n".join(lines) + "\n")
    assert iterations(run) == [1, 3, 4]
    assert run.truncate_results(3) == 1
    assert iterations(run) == [1, 3]


def test_a_result_without_a_number_does_not_stop_a_resume(run: RunDirectory) -> None:
    lines = ['{"training_iteration": null}', '{"training_iteration": 1}', "{}"]
    (run.path / "result.jsonl").write_text("\n".join(lines) + "\n")
    assert run.truncate_results(0) == 1


def test_the_number_of_a_process_that_was_given_again(
    run: RunDirectory, another_process: int
) -> None:
    """Another process has the number now: it is not the driver, once its heartbeat is old."""
    old = (datetime.now(UTC) - timedelta(seconds=2 * HEARTBEAT_LIMIT_S)).isoformat()
    edit_state(run, status="running", pid=another_process, heartbeat=old, process_started=1.0)
    assert not run.is_alive()
    started = round(psutil.Process(another_process).create_time(), 2)
    edit_state(run, process_started=started)  # stopped by Ctrl-Z, say: it does not beat
    assert run.is_alive()


def test_a_heartbeat_is_only_for_the_driver(run: RunDirectory) -> None:
    edit_state(run, status="running", heartbeat="2024-01-01T00:00:00+00:00")
    run.beat()
    assert run.state()["heartbeat"] > "2025"
    taken = {"host": "another", "pid": 7, "heartbeat": "2024-01-01T00:00:00+00:00"}
    edit_state(run, **taken)  # it was thought dead, and someone else goes on with the run
    run.beat()
    assert {key: run.state()[key] for key in taken} == taken


def test_text_is_utf8_whatever_the_locale_says(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from dtrainer.reporting.files import CsvReporter, JsonlReporter\n"
        "from dtrainer.reporting.runs import RunDirectory\n"
        "run = RunDirectory.create(Path(sys.argv[1]), 'a')\n"
        "run.write_config('env: Schl\\u00fcssel-v0\\n')\n"
        "for reporter in (CsvReporter(run), JsonlReporter(run)):\n"
        "    reporter.result({'training_iteration': 1, 'h\\u00f6he': 2.0})\n"
        "    reporter.end('finished', '')\n"
        "assert run.truncate_results(1) == 0\n"
    )
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, **ascii_only},
        check=True,
        timeout=60,
    )
    assert (tmp_path / "a" / "config.yaml").read_text("utf-8") == "env: Schlüssel-v0\n"
    header = (tmp_path / "a" / "progress.csv").read_text("utf-8").splitlines()[0]
    assert header == "training_iteration,höhe"
