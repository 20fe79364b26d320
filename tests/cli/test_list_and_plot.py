"""`dtrainer list` and `dtrainer plot`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from dtrainer.cli import list_runs, plot
from dtrainer.config.errors import ResultsError
from dtrainer.reporting.runs import RunDirectory

app = typer.Typer()
app.command("list")(list_runs.command)
app.command("plot")(plot.command)


def invoke(*arguments: object) -> str:
    """Run a command; its errors come out as they are."""
    result = CliRunner().invoke(app, [str(word) for word in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def make_run(folder: Path, name: str, status: str, **changes: Any) -> RunDirectory:
    run = RunDirectory.create(folder, name)
    run.update_state(
        status=status,
        run="PPO",
        env="CartPole-v1",
        iteration=12,
        timesteps_total=49152,
        episode_reward_mean=212.44,
    )
    results = [{"timesteps_total": 4096 * i, "episode_reward_mean": 10.0 * i} for i in (1, 2, 3)]
    (run.path / "result.jsonl").write_text("".join(json.dumps(line) + "\n" for line in results))
    state = {**run.state(), **changes}
    (run.path / "state.json").write_text(json.dumps(state))
    return run


@pytest.fixture
def dead_pid() -> int:
    """Give the number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(timeout=30)
    return process.pid


# ---- list ----------------------------------------------------------------------------------------


def test_list_tells_runs_that_go_on_from_those_that_died(tmp_path: Path, dead_pid: int) -> None:
    make_run(tmp_path, "done", "finished")
    make_run(tmp_path, "going", "running", pid=os.getppid())
    make_run(tmp_path, "killed", "running", pid=dead_pid)
    rows = {line.split()[0]: line for line in invoke("list", "--results", tmp_path).splitlines()}
    assert rows["done"].split()[1:7] == ["PPO", "CartPole-v1", "finished", "12", "49,152", "212.4"]
    assert "running" in rows["going"]
    assert "died" in rows["killed"]


def test_list_as_json(tmp_path: Path, dead_pid: int) -> None:
    then = datetime.now(UTC) - timedelta(hours=3)
    make_run(tmp_path, "killed", "starting", pid=dead_pid, heartbeat=then.isoformat())
    (row,) = json.loads(invoke("list", "--results", tmp_path, "--json"))
    assert row["name"] == "killed"
    assert row["status"] == "died"
    assert row["pid"] == dead_pid
    assert row["episode_reward_mean"] == 212.44
    assert row["heartbeat_age_s"] == pytest.approx(3 * 3600, abs=60)
    assert "3 h ago" in invoke("list", "--results", tmp_path)


def test_list_survives_a_state_that_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "[red]odd").mkdir()
    (tmp_path / "[red]odd" / "state.json").write_text("{")
    line = invoke("list", "--results", tmp_path).splitlines()[1]
    assert line.split() == ["[red]odd", "-", "-", "unknown", "-", "-", "-", "-"]


def test_list_writes_whole_names_where_there_is_no_terminal(tmp_path: Path) -> None:
    make_run(tmp_path, "x" * 150, "finished")
    assert "x" * 150 in invoke("list", "--results", tmp_path)


def test_list_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"No runs in {tmp_path}.\n" in invoke("list", "--results", tmp_path)
    monkeypatch.setenv("DTRAINER_RESULTS", str(tmp_path / "none"))
    assert f"No runs in {tmp_path}/none, which does not exist." in invoke("list")
    assert json.loads(invoke("list", "--json")) == []


def test_list_shows_the_runs_that_may_be_read() -> None:
    """A results folder that a group shares has runs that are closed to some."""
    program = (
        "import os, sys; from pathlib import Path\n"
        "import rich.console, rich.table, dtrainer.reporting.words\n"
        "from dtrainer.cli.list_runs import command\n"
        "from dtrainer.reporting.runs import RunDirectory\n"
        "folder = Path(sys.argv[1])\n"
        "for name in ('closed', 'open'): RunDirectory.create(folder, name)\n"
        "folder.chmod(0o755); (folder / 'closed').chmod(0)\n"
        "if os.geteuid() == 0: os.seteuid(65534)\n"  # the superuser may read everything
        "command(folder)\n"
        "os.seteuid(os.getuid()); (folder / 'closed').chmod(0o700)\n"
    )
    with tempfile.TemporaryDirectory(prefix="dtrainer-shared-") as folder:
        done = subprocess.run(
            [sys.executable, "-c", program, folder],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["run", "open"]


# ---- plot ----------------------------------------------------------------------------------------


def test_plot_draws_into_the_run_directory(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", "finished")
    output = invoke("plot", "a", "--results", tmp_path)
    picture = run.path / "learning-curve.png"
    assert str(picture) in output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_plot_draws_several_into_the_results_folder(tmp_path: Path) -> None:
    make_run(tmp_path, "a", "finished")
    b = make_run(tmp_path, "b", "finished")
    output = invoke("plot", "a", b.path, "a", "--results", tmp_path, "--smooth", 2)
    assert output == f"Drew a, b: {tmp_path / 'learning-curve.png'}\n"


def test_plot_takes_paths_and_an_output(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", "finished")
    invoke("plot", run.path, "-o", tmp_path / "curve.svg", "-y", "timesteps_total")
    assert "<svg" in (tmp_path / "curve.svg").read_text()


def test_plot_of_a_run_that_is_not_there_names_near_ones(tmp_path: Path) -> None:
    make_run(tmp_path, "cartpole-ppo", "finished")
    make_run(tmp_path, "pendulum", "finished")
    with pytest.raises(ResultsError, match="no run 'cartpole-pp'") as caught:
        invoke("plot", "cartpole-pp", "--results", tmp_path)
    assert "Did you mean cartpole-ppo?" in str(caught.value)
    assert "pendulum" not in str(caught.value)


def test_plot_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=f"There is no folder: {tmp_path}/none"):
        invoke("plot", "a", "--results", tmp_path / "none")
    with pytest.raises(ResultsError, match=f"There are no runs: {tmp_path}"):
        invoke("plot", "a", "--results", tmp_path)
