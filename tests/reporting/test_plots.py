"""What learning curves are drawn from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtrainer.config.errors import ResultsError
from dtrainer.reporting.plots import Curve, draw, learning_curve, read_curve, running_mean
from dtrainer.reporting.runs import RunDirectory


def make_run(folder: Path, name: str, returns: list[float | None], **state: Any) -> RunDirectory:
    run = RunDirectory.create(folder, name)
    run.update_state(**{"run": "PPO", "env": "CartPole-v1", **state})
    lines = [
        {
            "training_iteration": iteration,
            "timesteps_total": 1000 * iteration,
            "episode_reward_mean": value,
            "episode_reward_min": None if value is None else value - 5.0,
            "episode_reward_max": None if value is None else value + 5.0,
            "info": {"learner": {"default_policy": {"kl": 0.01 * iteration}}},
        }
        for iteration, value in enumerate(returns, start=1)
    ]
    (run.path / "result.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def curves_of(*runs: RunDirectory) -> list[Curve]:
    return [read_curve(run, "timesteps_total", "episode_reward_mean") for run in runs]


def test_the_line_is_what_was_measured(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [None, 10.0, 30.0, 20.0])
    figure = draw(curves_of(run), x="timesteps_total", y="episode_reward_mean")
    (axes,) = figure.axes
    (line,) = axes.lines
    assert line.get_xydata().tolist() == [[2000, 10], [3000, 30], [4000, 20]]
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    assert corners[:, 1].min() == 5.0
    assert corners[:, 1].max() == 35.0
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Environment steps", "Mean return")
    assert axes.get_title(loc="left") == "PPO on CartPole-v1: a"
    assert axes.get_legend() is None
    assert axes.xaxis.get_major_formatter()(123456, None) == "123,456"


def test_several_runs_have_a_legend(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / folder, "same", [1.0, 2.0]) for folder in ("one", "two")]
    other = make_run(tmp_path, "other", [3.0], env="Pendulum-v1")
    figure = draw(curves_of(*runs, other), x="timesteps_total", y="episode_reward_mean")
    (axes,) = figure.axes
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [str(runs[0].path), str(runs[1].path), "other"]
    assert axes.get_title(loc="left") == "Learning curves"


def test_smoothing_keeps_what_was_measured_in_sight(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [2.0, 4.0, 9.0])
    figure = draw(curves_of(run), x="timesteps_total", y="episode_reward_mean", smooth=2)
    raw, smooth = figure.axes[0].lines
    assert raw.get_ydata().tolist() == [2.0, 4.0, 9.0]
    assert smooth.get_ydata().tolist() == [2.0, 3.0, 6.5]


@pytest.mark.parametrize("window", [0, 1, 2, 3, 50])
def test_running_mean(window: int) -> None:
    values = np.random.default_rng(window).normal(size=20)
    expected = [values[max(0, i + 1 - max(window, 1)) : i + 1].mean() for i in range(20)]
    np.testing.assert_allclose(running_mean(values, window), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "key", ["info/learner/default_policy/kl", "info.learner.default_policy.kl"]
)
def test_nested_keys_are_drawn_without_a_band(tmp_path: Path, key: str) -> None:
    curve = read_curve(make_run(tmp_path, "a", [1.0, 2.0]), "training_iteration", key)
    assert curve.x.tolist() == [1.0, 2.0]
    assert curve.y.tolist() == [0.01, 0.02]
    assert curve.low is None
    assert not draw([curve], x="training_iteration", y=key).axes[0].collections


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_pictures_are_written(tmp_path: Path, suffix: str) -> None:
    run = make_run(tmp_path, "a", [1.0, 2.0])
    output = tmp_path / "new folder" / f"curve{suffix}"
    assert learning_curve([run], output) == output
    assert output.stat().st_size > 1000


def test_an_unknown_key_names_those_there_are(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [1.0])
    with pytest.raises(ResultsError, match="no key 'episode_reward_men'") as caught:
        read_curve(run, "timesteps_total", "episode_reward_men")
    assert "Did you mean 'episode_reward_mean'?" in str(caught.value)
    assert "info/learner/default_policy/kl" in str(caught.value)


def test_a_run_without_results_or_episodes_says_so(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no results yet"):
        curves_of(RunDirectory.create(tmp_path, "empty"))
    with pytest.raises(ResultsError, match="no episode has finished yet"):
        curves_of(make_run(tmp_path, "short", [None, None]))


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", [1.0])
    with pytest.raises(ResultsError, match="no picture format"):
        learning_curve([run], tmp_path / "curve.foo")
    with pytest.raises(ResultsError, match="name without suffix"):
        learning_curve([run], tmp_path / "curve")
    with pytest.raises(ResultsError, match="smooth"):
        learning_curve([run], tmp_path / "curve.png", smooth=-1)
    with pytest.raises(ResultsError, match="no run to draw"):
        learning_curve([], tmp_path / "curve.png")
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match="cannot write"):
        learning_curve([run], tmp_path / "file" / "curve.png")


def test_importing_what_reports_loads_no_heavy_library() -> None:
    code = (
        "import sys, dtrainer.reporting.plots, dtrainer.reporting.progress\n"
        "import dtrainer.cli.plot, dtrainer.cli.list_runs\n"
        "print({'matplotlib', 'torch', 'distributed', 'tensorboard'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"
