"""Results in files and in TensorBoard, full disks, and reporters that fail."""

from __future__ import annotations

import csv
import gc
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtrainer.config.errors import ResultsError
from dtrainer.reporting.files import CsvReporter, JsonlReporter, StateReporter, numbers, to_json
from dtrainer.reporting.reporter import Reporter, Reporters, RunInfo, run_reporters
from dtrainer.reporting.runs import RunDirectory
from dtrainer.reporting.tensorboard import TensorBoardReporter


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path, "run")


def info_of(run: RunDirectory, resumed_from: int | None = None) -> RunInfo:
    return RunInfo(
        name="run",
        run="PPO",
        env="CartPole-v1",
        directory=run,
        stop={"training_iteration": 9},
        num_workers=2,
        device="cpu",
        seed=0,
        resumed_from=resumed_from,
    )


def result_of(iteration: int, **more: Any) -> dict[str, Any]:
    return {
        "training_iteration": iteration,
        "timesteps_total": 100 * iteration,
        "timesteps_this_iter": 100,
        "timestamp": 1_700_000_000 + iteration,
        "episode_reward_mean": 10.5 * iteration,
        "done": False,
        "info": {"learner": {"default_policy": {"kl": 0.25}}},
        "config": {"lr": 0.1},
        **more,
    }


def table(run: RunDirectory) -> list[dict[str, str]]:
    with (run.path / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# ---- result.jsonl --------------------------------------------------------------------


def test_one_line_an_iteration(run: RunDirectory) -> None:
    reporter = JsonlReporter(run)
    reporter.start(info_of(run))
    for iteration in (1, 2):
        reporter.result(result_of(iteration, text="two\nlines ü", custom_metrics={}))
        assert len(list(run.results())) == iteration  # there at once, not when the file is closed
    reporter.end("finished", "")
    first = next(run.results())
    expected = result_of(1, text="two\nlines ü", custom_metrics={})
    del expected["config"]
    assert first == expected
    assert len((run.path / "result.jsonl").read_text().splitlines()) == 2


def test_what_is_not_finite_becomes_null(run: RunDirectory) -> None:
    values = {"a": math.nan, "b": [math.inf, {"c": -math.inf}], "d": np.float32("nan")}
    JsonlReporter(run).result({"training_iteration": 1, **values})
    text = (run.path / "result.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text
    assert json.loads(text) == {
        "training_iteration": 1,
        "a": None,
        "b": [None, {"c": None}],
        "d": None,
    }


def test_json_of_anything() -> None:
    tree = {1: (np.int64(3), np.arange(2.0)), "path": Path("a"), "t": np.bool_(True), "none": None}
    found = to_json(tree)
    assert found == {"1": [3, [0.0, 1.0]], "path": "a", "t": True, "none": None}
    assert json.loads(json.dumps(found)) == found


class NeverEnding:
    """Its `tolist` gives it back, as that of numpy's complex long double does."""

    def tolist(self) -> NeverEnding:
        return self

    def __str__(self) -> str:
        return "never-ending"


def test_json_of_numbers_that_python_has_no_words_for() -> None:
    tree = [np.longdouble(1.5), np.array([np.longdouble("inf")]), Fraction(1, 2), 2**70]
    assert to_json(tree) == [1.5, [None], 0.5, 2**70]
    assert to_json([NeverEnding(), 1j]) == ["never-ending", "1j"]
    assert numbers({"a": np.longdouble(2), "b": np.array([3]), "c": np.bool_(True)}) == {
        "a": 2.0,
        "b": 3,
        "c": 1,
    }


def test_a_resumed_run_appends(run: RunDirectory) -> None:
    for iteration in (1, 2):
        reporter = Reporters([JsonlReporter(run), CsvReporter(run)])
        reporter.start(info_of(run, iteration - 1 or None))
        reporter.result(result_of(iteration))
        reporter.end("interrupted", "")
    assert [result["training_iteration"] for result in run.results()] == [1, 2]
    assert [row["training_iteration"] for row in table(run)] == ["1", "2"]


# ---- progress.csv --------------------------------------------------------------------


def test_the_table_has_the_numbers(run: RunDirectory) -> None:
    reporter = CsvReporter(run)
    reporter.start(info_of(run))
    reporter.result(result_of(1, text="x", episode_len_mean=math.nan))
    assert table(run) == [
        {
            "training_iteration": "1",
            "timesteps_total": "100",
            "timesteps_this_iter": "100",
            "timestamp": "1700000001",
            "episode_reward_mean": "10.5",
            "done": "0",
            "info/learner/default_policy/kl": "0.25",
            "episode_len_mean": "nan",
        }
    ]


def test_new_columns_are_added_on_the_right(run: RunDirectory) -> None:
    reporter = CsvReporter(run)
    reporter.start(info_of(run))
    reporter.result({"training_iteration": 1, "b": 1.0})
    reporter.result({"training_iteration": 2, "evaluation": {"a": 2.0}})
    reporter.result({"training_iteration": 3, "b": 3.0})
    assert list(table(run)[0]) == ["training_iteration", "b", "evaluation/a"]
    assert [list(row.values()) for row in table(run)] == [
        ["1", "1.0", ""],
        ["2", "", "2.0"],
        ["3", "3.0", ""],
    ]
    assert not (run.path / "progress.csv.new").exists()


def test_a_resumed_table_keeps_its_columns(run: RunDirectory) -> None:
    first = CsvReporter(run)
    first.start(info_of(run))
    first.result({"b": 1.0, "training_iteration": 1})
    first.end("interrupted", "")
    run.truncate_results(1)
    second = CsvReporter(run)
    second.start(info_of(run, 1))
    second.result({"training_iteration": 2, "b": 2.0, "new": 5})
    assert [list(row.values()) for row in table(run)] == [["1.0", "1", ""], ["2.0", "2", "5"]]


def test_a_table_that_was_emptied_starts_anew(run: RunDirectory) -> None:
    (run.path / "progress.csv").touch()
    reporter = CsvReporter(run)
    reporter.start(info_of(run))
    reporter.result({"training_iteration": 1})
    assert table(run) == [{"training_iteration": "1"}]


def test_numbers_are_flat() -> None:
    result = {"a": True, "b": {"c": 1, "d": {"e": 2.5}}, "f": "x", "g": None, "h": [1], "i": {}}
    assert numbers(result) == {"a": 1, "b/c": 1, "b/d/e": 2.5}


# ---- state.json ----------------------------------------------------------------------


def test_the_state_of_a_run(run: RunDirectory) -> None:
    reporter = StateReporter(run)
    reporter.start(info_of(run))
    state = run.state()
    assert (state["status"], state["run"], state["env"]) == ("running", "PPO", "CartPole-v1")
    assert state["stop_reason"] is None
    reporter.result(result_of(3))
    reporter.checkpoint(run.checkpoints / "checkpoint_000003")
    state = run.state()
    assert (state["iteration"], state["timesteps_total"]) == (3, 300)
    assert state["episode_reward_mean"] == 31.5
    assert state["checkpoint"] == "checkpoint_000003"
    reporter.result(result_of(4, episode_reward_mean=math.nan))
    assert run.state()["episode_reward_mean"] is None
    reporter.end("failed", "the disk is full")
    state = run.state()
    assert (state["status"], state["stop_reason"]) == ("failed", "the disk is full")
    assert state["iteration"] == 4


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def age(run: RunDirectory) -> None:
    """Make the heartbeat an old one."""
    state = {**run.state(), "heartbeat": "2024-01-01T00:00:00+00:00"}
    (run.path / "state.json").write_text(json.dumps(state))


def beats() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "dtrainer-heartbeat"]


def test_the_heart_beats_between_results_until_the_end(run: RunDirectory) -> None:
    reporter = StateReporter(run, beat_every_s=0.02)
    reporter.start(info_of(run))
    reporter.result(result_of(1))
    for _ in range(2):
        age(run)
        until(lambda: run.state().get("heartbeat", "") > "2025")
    assert (run.state()["status"], run.state()["iteration"]) == ("running", 1)
    reporter.end("finished", "done")
    assert not beats()
    assert run.state()["status"] == "finished"


def test_beats_take_nothing_back(run: RunDirectory) -> None:
    reporter = StateReporter(run, beat_every_s=0.0001)
    reporter.start(info_of(run))
    for iteration in range(1, 60):
        reporter.result(result_of(iteration))
        assert run.state()["iteration"] == iteration
    reporter.end("finished", "done")
    assert run.state()["status"] == "finished"
    assert not [path for path in run.path.iterdir() if path.name.startswith(".")]


def test_a_run_that_a_program_drops_does_not_beat_for_ever(run: RunDirectory) -> None:
    reporter = StateReporter(run, beat_every_s=0.02)
    reporter.start(info_of(run))
    del reporter
    gc.collect()
    until(lambda: not beats())


def test_the_heart_survives_a_disk_that_is_full_for_a_while(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise ResultsError("the disk is full")

    reporter = StateReporter(run, beat_every_s=0.02)
    reporter.start(info_of(run))
    with monkeypatch.context() as patch:
        patch.setattr(run, "beat", full)
        age(run)
        time.sleep(0.1)
        assert run.state()["heartbeat"] < "2025"
    until(lambda: run.state().get("heartbeat", "") > "2025")
    reporter.end("finished", "")


# ---- full disks ----------------------------------------------------------------------


@contextmanager
def small_disk(place: Path) -> Iterator[bool]:
    """A disk of 256 kB at a place; False where this user may not mount one."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    mounted = os.geteuid() == 0 and not subprocess.run(mount, check=False).returncode
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> None:
    """Write until nothing more fits."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


@pytest.mark.parametrize("kind", [JsonlReporter, CsvReporter, StateReporter])
def test_a_full_disk(tmp_path: Path, kind: Callable[[RunDirectory], Reporter]) -> None:
    with small_disk(tmp_path / "disk") as mounted:
        if not mounted:
            pytest.skip("may not mount a small disk; the limit on file sizes stands for it")
        run = RunDirectory.create(tmp_path / "disk", "run")
        reporter = kind(run)
        reporter.start(info_of(run))
        reporter.result(result_of(1))
        before = run.state()
        fill(tmp_path / "disk")
        with pytest.raises(ResultsError, match="No space left on device") as caught:
            for iteration in range(2, 200):
                reporter.result(result_of(iteration))
        assert str(run.path) in caught.value.message
        assert caught.value.hint
        if kind is StateReporter:
            assert run.state() == before
        else:
            reporter.end("failed", "the disk is full")  # closes without another error
        (tmp_path / "disk" / "filler").unlink()
        run.truncate_results(1)
        assert all(int(row["training_iteration"]) == 1 for row in run.results())


def test_new_columns_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as mounted:
        if not mounted:
            pytest.skip("may not mount a small disk")
        run = RunDirectory.create(tmp_path / "disk", "run")
        reporter = CsvReporter(run)
        reporter.start(info_of(run))
        reporter.result({"training_iteration": 1})
        fill(tmp_path / "disk")
        with pytest.raises(ResultsError, match=r"progress\.csv: No space left on device"):
            reporter.result({"training_iteration": 2, "new": 1})
        assert table(run) == [{"training_iteration": "1"}]
        assert not (run.path / "progress.csv.new").exists()


FILLS = """
import resource, sys
from pathlib import Path
from dtrainer.config.errors import ResultsError
from dtrainer.reporting.files import CsvReporter, JsonlReporter
from dtrainer.reporting.runs import RunDirectory

run = RunDirectory.create(Path(sys.argv[1]), "run")
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
for reporter in (JsonlReporter(run), CsvReporter(run)):
    try:
        for iteration in range(10_000):
            reporter.result({"training_iteration": iteration})
    except ResultsError as error:
        print(error)
    reporter.end("failed", "")
"""


def test_tensorboard_on_a_full_disk_is_left_out_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk") as mounted:
        if not mounted:
            pytest.skip("may not mount a small disk")
        run = RunDirectory.create(tmp_path / "disk", "run")
        reporters = Reporters([TensorBoardReporter(run)])
        reporters.start(info_of(run))
        reporters.result(result_of(1))
        fill(tmp_path / "disk")
        for iteration in range(2, 200):
            reporters.result(result_of(iteration))
        reporters.end("failed", "the disk is full")
        (record,) = caplog.records
        assert "left out from now on: [Errno 28] No space left" in record.getMessage()
        assert not record.exc_info
        assert "Traceback" not in capfd.readouterr().err
        steps = [step for step, _ in scalars(run)["episode_reward_mean"]]
        assert steps == list(range(100, 100 * len(steps) + 1, 100))


def test_a_limit_on_file_sizes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FILLS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("result.jsonl", "progress.csv"):
        assert f"cannot write {tmp_path / 'run' / name}: File too large" in done.stdout
    run = RunDirectory(tmp_path / "run")
    whole = [result["training_iteration"] for result in run.results()]
    assert whole == list(range(len(whole)))
    assert len(whole) > 100


def test_a_folder_that_is_gone(run: RunDirectory) -> None:
    (run.path / "logs").rmdir()
    (run.path / "state.json").unlink()
    run.path.rmdir()
    for reporter in (JsonlReporter(run), CsvReporter(run), StateReporter(run)):
        with pytest.raises(ResultsError, match="No such file or directory"):
            reporter.result(result_of(1))


# ---- several reporters ---------------------------------------------------------------


class Notes(Reporter):
    """Notes what it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.told: list[Any] = []
        self.error = error

    def _note(self, what: Any) -> None:
        self.told.append(what)
        if self.error is not None:
            raise self.error

    def start(self, info: RunInfo) -> None:
        self._note(info)

    def result(self, result: dict[str, Any]) -> None:
        self._note(result)

    def checkpoint(self, path: Path) -> None:
        self._note(path)

    def end(self, status: str, reason: str) -> None:
        self._note((status, reason))


def tell(reporter: Reporter, run: RunDirectory) -> list[Any]:
    info, result, path = info_of(run), result_of(1), Path("c")
    reporter.start(info)
    reporter.result(result)
    reporter.checkpoint(path)
    reporter.end("finished", "why")
    return [info, result, path, ("finished", "why")]


def test_one_that_fails_is_left_out(run: RunDirectory, caplog: pytest.LogCaptureFixture) -> None:
    before, failing, after = Notes(), Notes(ValueError("no")), Notes()
    told = tell(Reporters([before, failing, after]), run)
    assert before.told == after.told == told
    assert failing.told == told[:1]
    assert caplog.text.count("Notes is left out from now on") == 1
    assert "ValueError: no" in caplog.text


def test_results_that_cannot_be_written_end_the_run(run: RunDirectory) -> None:
    full, after = Notes(ResultsError("the disk is full")), Notes()
    reporters = Reporters([full, after])
    with pytest.raises(ResultsError, match="the disk is full"):
        reporters.result({})
    with pytest.raises(ResultsError, match="the disk is full"):
        reporters.end("failed", "full")
    assert after.told == [{}, ("failed", "full")]  # it still gets to close what it has open


class NoText:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("kind", [JsonlReporter, CsvReporter, StateReporter])
def test_a_run_does_not_go_on_without_its_files(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, kind: Callable[[RunDirectory], Reporter]
) -> None:
    """Whatever the reason: hours of results must not be lost for a line in the log."""
    reporter = kind(run)
    reporters = Reporters([reporter])
    monkeypatch.setattr(reporter, "result", lambda result: str(NoText()))
    with pytest.raises(ResultsError, match=r"cannot be written: .*\.result: RuntimeError: no text"):
        reporters.result(result_of(1))
    monkeypatch.undo()
    reporters.result(result_of(2))  # it is not left out
    reporters.end("failed", "")
    assert run.state()["host"]


def test_a_value_that_cannot_be_written_is_named(run: RunDirectory) -> None:
    reporters = Reporters([JsonlReporter(run)])
    with pytest.raises(ResultsError, match="JsonlReporter") as caught:
        reporters.result(result_of(1, custom_metrics={"a": NoText()}))
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "custom metric" in str(caught.value.hint)


def test_a_reporter_may_leave_everything_as_it_is(run: RunDirectory) -> None:
    tell(Reporter(), run)


def test_the_reporters_of_a_run(run: RunDirectory) -> None:
    tell(run_reporters(run), run)
    assert {"result.jsonl", "progress.csv", "state.json"} < {p.name for p in run.path.iterdir()}
    assert run.state()["status"] == "finished"
    assert scalars(run)["episode_reward_mean"] == [(100, 10.5)]


# ---- TensorBoard ---------------------------------------------------------------------


def scalars(run: RunDirectory) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by tag, as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.path), size_guidance={"scalars": 0})
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def write_events(
    run: RunDirectory, iterations: range, resumed_from: int | None = None, **more: Any
) -> None:
    reporter = TensorBoardReporter(run)
    reporter.start(info_of(run, resumed_from))
    for iteration in iterations:
        reporter.result(result_of(iteration, **more))
    reporter.end("finished", "")


def test_events_are_read_by_tensorboard(run: RunDirectory) -> None:
    write_events(run, range(1, 4), episode_len_mean=math.nan, perf={"cpu": 0.5, "name": "x"})
    found = scalars(run)
    assert found["episode_reward_mean"] == [(100, 10.5), (200, 21.0), (300, 31.5)]
    assert found["info/learner/default_policy/kl"] == [(100, 0.25), (200, 0.25), (300, 0.25)]
    assert found["perf/cpu"][0] == (100, 0.5)
    assert not {"episode_len_mean", "perf/name", "config/lr", "done", "timestamp"} & set(found)


def test_what_users_add_is_shown_too(run: RunDirectory) -> None:
    more = {"custom_metrics": {"height_mean": 2.0}, "evaluation": {"episode_reward_mean": 3.0}}
    write_events(run, range(1, 2), num_healthy_workers=2, mine=4.0, **more)
    found = scalars(run)
    assert found["custom_metrics/height_mean"] == [(100, 2.0)]
    assert found["evaluation/episode_reward_mean"] == [(100, 3.0)]
    assert found["num_healthy_workers"] == [(100, 2.0)]
    assert found["mine"] == [(100, 4.0)]


def test_writing_events_imports_no_framework_and_starts_no_thread(run: RunDirectory) -> None:
    program = (
        "import sys, threading; from pathlib import Path\n"
        "from tests.reporting.test_files import RunDirectory, write_events\n"
        "write_events(RunDirectory(Path(sys.argv[1])), range(1, 3))\n"
        "print({'torch', 'tensorflow'} & set(sys.modules), threading.active_count())"
    )
    command = [sys.executable, "-c", program, str(run.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set() 1"


def test_events_are_there_at_once(run: RunDirectory) -> None:
    reporter = TensorBoardReporter(run)
    reporter.start(info_of(run))
    reporter.result(result_of(1))
    assert scalars(run)["episode_reward_mean"] == [(100, 10.5)]
    reporter.end("finished", "")


def test_a_resumed_run_takes_later_events_back(run: RunDirectory) -> None:
    write_events(run, range(1, 6))
    write_events(run, range(4, 6), resumed_from=3, episode_reward_mean=-1.0)
    assert scalars(run)["episode_reward_mean"] == [
        (100, 10.5),
        (200, 21.0),
        (300, 31.5),
        (400, -1.0),
        (500, -1.0),
    ]


def test_events_between_the_resumed_steps_go_too(run: RunDirectory) -> None:
    """A run that goes on with larger batches leaves no events of the smaller ones behind."""
    write_events(run, range(1, 6))
    write_events(
        run, range(5, 6), resumed_from=3, episode_reward_mean=-1.0, timesteps_this_iter=200
    )
    assert [step for step, _ in scalars(run)["episode_reward_mean"]] == [100, 200, 300, 500]


def test_a_run_without_results_leaves_no_events(run: RunDirectory) -> None:
    write_events(run, range(0))
    assert not list(run.path.glob("events.*"))
