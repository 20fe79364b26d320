"""What a run shows on a terminal and where there is none."""

from __future__ import annotations

import io
import math
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dtrainer.reporting.pace import Pace
from dtrainer.reporting.progress import ProgressReporter, crop_left, time_shares
from dtrainer.reporting.reporter import RunInfo
from dtrainer.reporting.runs import RunDirectory
from dtrainer.reporting.words import duration, figure


def make_result(iteration: int, **changes: Any) -> dict[str, Any]:
    """Return 1,000 steps and two seconds an iteration."""
    return {
        "training_iteration": iteration,
        "timesteps_total": 1000 * iteration,
        "timesteps_this_iter": 1000,
        "time_this_iter_s": 2.0,
        "time_total_s": 2.0 * iteration,
        "episode_reward_mean": 212.4,
        "episode_reward_min": 40.0,
        "episode_reward_max": 500.0,
        "episode_len_mean": 212.4,
        "num_healthy_workers": 2,
        "time_breakdown_s": {
            "environment": 0.8,
            "inference": 0.6,
            "postprocessing": 0.02,
            "transfer": 0.1,
            "learning": 0.4,
            "waiting": 0.06,
            "other": 0.02,
        },
        **changes,
    }


def make_info(folder: Path, name: str = "run", **changes: Any) -> RunInfo:
    path = folder / name
    directory = RunDirectory(path) if path.exists() else RunDirectory.create(folder, name)
    fields: dict[str, Any] = {
        "name": name,
        "run": "PPO",
        "env": "CartPole-v1",
        "directory": directory,
        "stop": {"timesteps_total": 10_000},
        "num_workers": 2,
        "device": "cpu",
        "seed": 7,
        "resumed_from": None,
    }
    return RunInfo(**{**fields, **changes})


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def plain(clock: Clock | None = None, width: int = 80) -> tuple[ProgressReporter, io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, force_terminal=False, width=width)
    return ProgressReporter(console, clock=clock or time.monotonic), file


def terminal() -> tuple[ProgressReporter, Console]:
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        record=True,
        width=100,
        height=40,
        _environ={"TERM": "xterm-256color"},
    )
    return ProgressReporter(console), console


# ---- plain lines ---------------------------------------------------------------------------------


def test_a_plain_line_tells_everything(tmp_path: Path) -> None:
    clock = Clock()
    reporter, file = plain(clock)
    reporter.start(make_info(tmp_path))
    clock.now += 2.5
    reporter.result(make_result(1))
    assert file.getvalue().splitlines()[-1] == (
        "iter 1  steps 1,000  500/s  return 212.4 (min 40, max 500)  len 212.4  actors 2/2  2.5 s"
        "  10%, 18.0 s left"
    )


def test_plain_lines_come_every_few_seconds_and_the_last_one_at_the_end(tmp_path: Path) -> None:
    clock = Clock()
    reporter, file = plain(clock)
    reporter.start(make_info(tmp_path))
    for iteration in range(1, 13):
        clock.now += 1.0
        reporter.result(make_result(iteration))
    reporter.end("finished", "timesteps_total = 12000 reached 10000")
    lines = [line for line in file.getvalue().splitlines() if line.startswith("iter ")]
    assert [int(line.split()[1]) for line in lines] == [1, 6, 11, 12]


@pytest.mark.parametrize("missing", [math.nan, None])
def test_no_return_reads_as_words(tmp_path: Path, missing: float | None) -> None:
    reporter, file = plain()
    reporter.start(make_info(tmp_path))
    reporter.result(make_result(1, episode_reward_mean=missing, episode_len_mean=missing))
    reporter.end("interrupted", "interrupted by a signal")
    text = file.getvalue()
    assert "no episode has finished yet" in text
    assert "nan" not in text
    assert "None" not in text


def test_start_says_what_runs_and_where(tmp_path: Path) -> None:
    reporter, file = plain()
    stop = {"timesteps_total": 1e5, "episode_reward_mean": 475.0}
    reporter.start(make_info(tmp_path, stop=stop, resumed_from=12))
    text = file.getvalue()
    assert "PPO on CartPole-v1: run run, learning on cpu, 2 actors, seed 7" in text
    assert "Resumed after iteration 12." in text
    assert "timesteps_total ≥ 100,000 or episode_reward_mean ≥ 475" in text


def test_long_paths_stay_in_one_piece_and_brackets_are_no_markup(tmp_path: Path) -> None:
    name = "a-[bold]-name-" + "x" * 100
    reporter, file = plain(width=40)
    info = make_info(tmp_path, name)
    reporter.start(info)
    reporter.checkpoint(info.directory.path / "checkpoints" / "checkpoint_000001")
    reporter.end("failed", "[red]the environment failed\nsecond line")
    lines = file.getvalue().splitlines()
    assert f"Results: {info.directory.path}" in lines
    assert f"Checkpoint: {info.directory.path}/checkpoints/checkpoint_000001" in lines
    assert "Failed: [red]the environment failed" in lines


# ---- the end -------------------------------------------------------------------------------------


def test_the_end_says_what_can_be_done_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DTRAINER_RESULTS", str(tmp_path))
    reporter, file = plain()
    info = make_info(tmp_path)
    reporter.start(info)
    reporter.result(make_result(1, episode_reward_mean=300.0))
    reporter.result(make_result(2))
    reporter.checkpoint(info.directory.path / "checkpoints" / "checkpoint_000002")
    reporter.end("interrupted", "interrupted by a signal")
    text = file.getvalue()
    assert "Interrupted: interrupted by a signal" in text
    assert "Return: best 300 (iteration 1), last 212.4" in text
    assert "dtrainer plot run\n" in text
    assert f"dtrainer evaluate {info.directory.path}\n" in text
    assert "--resume goes on" in text


def test_without_a_checkpoint_there_is_nothing_to_evaluate(tmp_path: Path) -> None:
    reporter, file = plain()
    info = make_info(tmp_path)
    reporter.start(info)
    reporter.end("failed", "")
    text = file.getvalue()
    assert "Failed: no reason is known" in text
    assert "none has been written" in text
    assert "evaluate" not in text
    assert "--resume" not in text
    assert f"dtrainer plot {info.directory.path}\n" in text  # not in the default folder


def test_a_finished_run_is_not_told_to_resume(tmp_path: Path) -> None:
    reporter, file = plain()
    reporter.start(make_info(tmp_path))
    reporter.checkpoint(tmp_path / "checkpoint_000001")
    reporter.end("finished", "done")
    assert "--resume" not in file.getvalue()


def test_a_resumed_run_remembers_its_best_return_and_its_checkpoint(tmp_path: Path) -> None:
    info = make_info(tmp_path, resumed_from=1)
    line = '{"training_iteration": 1, "episode_reward_mean": 400.0}\n'
    (info.directory.path / "result.jsonl").write_text(line)
    info.directory.update_state(checkpoint="checkpoint_000001")
    reporter, file = plain()
    reporter.start(info)
    reporter.result(make_result(2))
    reporter.end("finished", "done")
    assert "best 400 (iteration 1), last 212.4" in file.getvalue()
    assert "checkpoints/checkpoint_000001" in file.getvalue()


# ---- the display ---------------------------------------------------------------------------------


def test_the_display_shows_a_run_and_gives_the_terminal_back(tmp_path: Path) -> None:
    reporter, console = terminal()
    info = make_info(tmp_path)
    reporter.start(info)
    reporter.result(make_result(5, num_healthy_workers=1))
    reporter.checkpoint(info.directory.path / "checkpoints" / "checkpoint_000005")
    reporter.end("finished", "done")
    raw = console.file.getvalue()  # type: ignore[attr-defined]
    assert raw.rindex("\x1b[?25h") > raw.rindex("\x1b[?25l")  # the cursor is back
    text = console.export_text()
    for words in (
        "5,000 of 10,000 environment steps",
        "212.4 (min 40, max 500)",
        "1 of 2",
        "env 40%  inference 30%  transfer 5%  learning 20%  waiting 3%",
        "checkpoint_000005",
        "Finished: done",
    ):
        assert words in text


def test_the_display_closes_after_a_failure_without_results(tmp_path: Path) -> None:
    reporter, console = terminal()
    reporter.start(make_info(tmp_path, stop={}))
    reporter.end("failed", "the environment failed")
    assert "Failed: the environment failed" in console.export_text()
    reporter.end("failed", "again")  # closing twice is harmless


def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, _environ={"TERM": "dumb"}, width=200)
    reporter = ProgressReporter(console)
    reporter.start(make_info(tmp_path))
    reporter.result(make_result(1))
    assert "iter 1  steps 1,000" in file.getvalue()
    assert "\x1b[?25l" not in file.getvalue()


# ---- arithmetic ----------------------------------------------------------------------------------


def test_the_criterion_with_the_least_time_left_binds() -> None:
    pace = Pace({"timesteps_total": 10_000, "training_iteration": 6, "episode_reward_mean": 475})
    for iteration in (1, 2, 3):
        pace.add(make_result(iteration))
    goal = pace.goal()
    assert goal is not None
    assert (goal.key, goal.value, goal.target) == ("training_iteration", 3.0, 6.0)
    assert goal.fraction == pytest.approx(0.5)
    assert goal.eta_s == pytest.approx(6.0)  # 3 iterations of 2 s
    assert pace.steps_per_s == pytest.approx(500.0)


def test_only_the_latest_iterations_count() -> None:
    pace = Pace({"timesteps_total": 10_000}, window=2)
    for iteration, seconds in enumerate((100.0, 101.0, 102.0), start=1):
        pace.add(make_result(iteration, time_total_s=seconds))
    assert pace.steps_per_s == pytest.approx(1000.0)
    goal = pace.goal()
    assert goal is not None
    assert goal.eta_s == pytest.approx(7.0)


def test_a_resumed_run_does_not_count_earlier_steps_as_its_own() -> None:
    pace = Pace({"timesteps_total": 60_000, "episodes_total": 1000}, resumed=True)
    pace.add(make_result(50, time_total_s=400.0, episodes_total=500))
    assert pace.steps_per_s == pytest.approx(500.0)
    goal = pace.goal()
    assert goal is not None
    assert goal.key == "timesteps_total"
    assert goal.eta_s == pytest.approx(20.0)


def test_nested_keys_with_dots_can_be_criteria() -> None:
    pace = Pace({"info.num_steps_sampled": 4000})
    pace.add(make_result(1, info={"num_steps_sampled": 1000}))
    goal = pace.goal()
    assert goal is not None
    assert goal.eta_s == pytest.approx(6.0)


def test_what_does_not_grow_evenly_is_not_extrapolated() -> None:
    pace = Pace({"episode_reward_mean": 475})
    pace.add(make_result(1))
    assert pace.goal() is None
    assert Pace({}).steps_per_s is None


def test_time_shares_sum_to_what_is_shown() -> None:
    shares = time_shares(make_result(1))
    assert shares["environment"] == pytest.approx(0.4)
    assert "other" not in shares  # 2 % are not worth their place
    assert time_shares({}) == {}
    parts = {"environment": 1.0, "postprocessing": 1.0, "learning": math.nan}
    assert time_shares({"time_breakdown_s": parts})["other"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (12.34, "12.3 s"),
        (59.97, "1 min 00 s"),
        (245.2, "4 min 05 s"),
        (3599.6, "1 h 00 min"),
        (12_000, "3 h 20 min"),
        (187_200, "2 d 4 h"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(49152, "49,152"), (212.44, "212.4"), (-200.0, "-200"), (0.0123, "0.0123"), (None, "-")],
)
def test_figures(value: float | None, words: str) -> None:
    assert figure(value) == words


def test_paths_are_cropped_at_their_beginning() -> None:
    assert crop_left("/a/long/path/run", 8) == "…ath/run"
    assert crop_left("/short", 8) == "/short"
