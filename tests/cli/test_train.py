"""`dtrainer train`: runs that are cut and go on, and what mistakes are answered."""

import json
import os
import shutil
import signal
import socket

import pytest

from tests.cli.programs import (
    children,
    dtrainer,
    essence,
    gone,
    kill,
    results,
    start,
    wait_for_results,
    weights,
    write_experiment,
)

LONG = 60


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Results and weights of a run that nothing happens to, by number of actors."""
    known = {}

    def get(workers):
        if workers not in known:
            folder = tmp_path_factory.mktemp("whole")
            dtrainer(
                "train",
                write_experiment(folder, workers=workers, iterations=LONG),
                cwd=folder,
            )
            run = folder / "results/small"
            known[workers] = essence(run), weights(run)
        return known[workers]

    return get


def test_a_run_from_command_to_files(tmp_path):
    printed = dtrainer("train", write_experiment(tmp_path), cwd=tmp_path)
    run = tmp_path / "results/small"
    assert "iter 1 " in printed and "training_iteration = 8 reached 8" in printed
    assert [r["training_iteration"] for r in results(run)] == list(range(1, 9))
    assert json.loads((run / "state.json").read_text())["status"] == "finished"
    assert (run / "progress.csv").is_file() and list(run.glob("events.*"))
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [
        "checkpoint_000003",
        "checkpoint_000006",
        "checkpoint_000008",
    ]
    # The resolved experiment is an experiment.
    assert "ok" in dtrainer("config", "check", run / "config.yaml", cwd=tmp_path)
    assert "there is a run 'small' already" in dtrainer(
        "train", tmp_path / "experiment.yaml", cwd=tmp_path, code=1
    )
    # A finished run has nothing left to do, or goes on if it is asked for more.
    dtrainer("train", tmp_path / "experiment.yaml", "--resume", cwd=tmp_path)
    assert len(results(run)) == 8
    more = ["stop.training_iteration=9", "--resume"]
    dtrainer("train", tmp_path / "experiment.yaml", *more, cwd=tmp_path)
    assert [r["training_iteration"] for r in results(run)] == list(range(1, 10))


def test_a_dry_run_writes_nothing(tmp_path):
    printed = dtrainer("train", write_experiment(tmp_path), "--dry-run", cwd=tmp_path)
    assert "train_batch_size: 128" in printed and "The environment works" in printed
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed_is_the_same_run(workers, number, whole, tmp_path):
    file = write_experiment(tmp_path, workers=workers, iterations=LONG)
    run = tmp_path / "results/small"
    process = start("train", file, cwd=tmp_path)
    wait_for_results(run, 5, process)
    below = children(process.pid)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 75, printed
    assert "finishing this iteration" in printed and "--resume" in printed
    assert gone(below)
    done = len(results(run))
    assert 5 <= done < LONG
    assert json.loads((run / "state.json").read_text())["status"] == "interrupted"
    assert (run / f"checkpoints/checkpoint_{done:06d}").is_dir()
    dtrainer("train", file, "--resume", cwd=tmp_path)
    assert (essence(run), weights(run)) == whole(workers)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_killed_driver_loses_nothing(workers, whole, tmp_path):
    file = write_experiment(tmp_path, workers=workers, iterations=LONG)
    run = tmp_path / "results/small"
    process = start("train", file, cwd=tmp_path)
    for count in (1, 11, 20):  # before, right after and well after a checkpoint
        wait_for_results(run, count, process)
        below = children(process.pid)
        process.kill()
        process.communicate(timeout=30)
        assert gone(below)
        process = start("train", file, "--resume", cwd=tmp_path)
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0, printed
    assert (essence(run), weights(run)) == whole(workers)


def test_a_killed_actor_ends_the_run_with_a_checkpoint_to_go_on_from(whole, tmp_path):
    file = write_experiment(tmp_path, workers=2, iterations=LONG)
    run = tmp_path / "results/small"
    process = start("train", file, cwd=tmp_path)
    wait_for_results(run, 5, process)
    below = children(process.pid)
    kill(next(pid for pid in below if "dtrainer" in actor_title(pid) and not children(pid)))
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 1, printed
    assert "Error: " in printed and "SIGKILL" in printed and "--resume" in printed
    assert "Traceback" not in printed
    assert gone(below)
    dtrainer("train", file, "--resume", cwd=tmp_path)
    assert (essence(run), weights(run)) == whole(2)


def actor_title(pid):
    with open(f"/proc/{pid}/cmdline") as file:  # noqa: PTH123 - not a file on disk
        return file.read()


def test_two_experiments_in_a_file_are_run_one_after_the_other(tmp_path):
    one = write_experiment(tmp_path, iterations=2).read_text().replace("name: small\n", "")
    body = "".join(f"  {line}\n" for line in one.splitlines())
    file = tmp_path / "two.yaml"
    file.write_text(f"first:\n{body}second:\n{body}")
    dtrainer("train", file, cwd=tmp_path)
    assert essence(tmp_path / "results/first") == essence(tmp_path / "results/second") != []
    assert "2 experiments" in dtrainer("train", file, "--name", "x", cwd=tmp_path, code=2)


def test_the_results_folder_can_be_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("DTRAINER_RESULTS", str(tmp_path / "elsewhere"))
    dtrainer("train", write_experiment(tmp_path, iterations=1), "--name", "other", cwd=tmp_path)
    assert results(tmp_path / "elsewhere/other")
    assert "other" in dtrainer("list", cwd=tmp_path)


# ---- what mistakes are answered --------------------------------------------------------------

ENVIRONMENTS = """
from tests.envs_for_tests import Faulty


class Raises(Faulty):
    def __init__(self):
        super().__init__("raise", at=7, length=20)


class Nan(Faulty):
    def __init__(self):
        super().__init__("nan", at=7, length=20)


class Shape(Faulty):
    def __init__(self):
        super().__init__("shape", at=7, length=20)


class Reset(Faulty):
    def __init__(self):
        super().__init__("reset")


class Old(Faulty):
    def __init__(self):
        super().__init__("none")

    def step(self, action):
        return super().step(action)[:4]
"""


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Raises", "raised in step(): RuntimeError: the simulator crashed"),
        ("Nan", "returned the observation [ 7. nan]"),
        ("Shape", "returned an observation of shape (3,)"),
    ],
)
def test_an_environment_that_fails_while_training(name, message, workers, tmp_path):
    (tmp_path / "mine.py").write_text(ENVIRONMENTS)
    file = write_experiment(tmp_path, env=f"mine.{name}", workers=workers)
    printed = dtrainer("train", file, cwd=tmp_path, code=1)
    assert message in printed
    assert f"worker {1 if workers else 0}" in printed or "worker 2" in printed
    assert "seed" in printed and "at step 6, action" in printed
    if name == "Raises":
        (log,) = list((tmp_path / "results/small/logs").glob("*.log"))[:1]
        assert log.name in printed and "the simulator crashed" in log.read_text()
    state = json.loads((tmp_path / "results/small/state.json").read_text())
    assert state["status"] == "failed" and message in state["stop_reason"]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("CartPol-v1", "Did you mean CartPole-v1"),
        ("CartPole-v7", "CartPole-v1"),
        ("mine.Nothing", "mine.Nothing"),
        ("mine.Reset", "no licence left"),
        ("mine.Old", "a tuple of 4"),
    ],
)
def test_an_environment_that_cannot_be_used(env, message, tmp_path):
    (tmp_path / "mine.py").write_text(ENVIRONMENTS)
    assert message in dtrainer("train", write_experiment(tmp_path, env=env), cwd=tmp_path, code=1)


def test_mistakes_of_a_file_are_told_at_once_with_their_lines(tmp_path):
    file = write_experiment(tmp_path, extra="  num_wokers: 3\n  lr: fast\n")
    printed = dtrainer("train", file, "config.gama=1", cwd=tmp_path, code=2)
    lines = file.read_text().splitlines()
    assert f"line {lines.index('  num_wokers: 3') + 1}: config.num_wokers" in printed
    assert f"line {lines.index('  lr: fast') + 1}: config.lr" in printed
    assert "num_workers" in printed and "override 'config.gama=1'" in printed and "gamma" in printed
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("content", ["", "- a\n- b\n", "run: [PPO\n", None])
def test_a_file_that_is_no_experiment(content, tmp_path):
    file = tmp_path / "odd.yaml"
    if content is not None:
        file.write_text(content)
    assert "odd.yaml" in dtrainer("train", file, cwd=tmp_path, code=2)


def test_a_results_folder_that_cannot_be_written(tmp_path):
    file = write_experiment(tmp_path)
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder")
    printed = dtrainer("train", file, "--results", blocked, cwd=tmp_path, code=1)
    assert str(blocked) in printed and "--results" in printed


def test_resuming_what_is_not_there(tmp_path):
    file = write_experiment(tmp_path)
    printed = dtrainer("train", file, "--resume", cwd=tmp_path, code=1)
    assert "there is no run" in printed


def test_resuming_a_run_that_is_being_driven(tmp_path):
    file = write_experiment(tmp_path, iterations=100_000)
    process = start("train", file, cwd=tmp_path)
    try:
        wait_for_results(tmp_path / "results/small", 1, process)
        printed = dtrainer("train", file, "--resume", cwd=tmp_path, code=1)
        assert f"driven by process {process.pid}" in printed
    finally:
        process.kill()
        process.communicate(timeout=30)


def test_resuming_with_another_environment_or_a_damaged_checkpoint(tmp_path):
    file = write_experiment(tmp_path, iterations=4)
    dtrainer("train", file, cwd=tmp_path)
    run = tmp_path / "results/small"
    other = ["env=Pendulum-v1", "stop.training_iteration=6", "--resume"]
    assert "observation space" in dtrainer("train", file, *other, cwd=tmp_path, code=1)
    newest = run / "checkpoints/checkpoint_000004"
    os.truncate(newest / "arrays.npz", 10)
    # The one before is as good: the iteration after it is trained again.
    more = ["stop.training_iteration=6", "--resume"]
    printed = dtrainer("train", file, *more, cwd=tmp_path)
    assert "damaged" in printed and "1 results came after" in printed
    assert [r["training_iteration"] for r in results(run)] == list(range(1, 7))


def test_a_port_that_is_taken(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        cluster = f"cluster: {{type: local, scheduler_port: {port}}}\n"
        file = write_experiment(tmp_path, workers=1, extra=cluster)
        assert str(port) in dtrainer("train", file, cwd=tmp_path, code=1)


# ---- evaluate --------------------------------------------------------------------------------


def test_evaluate(tmp_path):
    dtrainer("train", write_experiment(tmp_path, iterations=3), cwd=tmp_path)
    run = tmp_path / "results/small"
    printed = json.loads(dtrainer("evaluate", run, "--episodes", 7, "--json", cwd=tmp_path))
    assert len(printed["returns"]) == 7 and printed["episode_len_mean"] > 5
    again = json.loads(dtrainer("evaluate", run, "--episodes", 7, "--json", cwd=tmp_path))
    assert again == printed
    assert "PPO on CartPole-v1" in dtrainer("evaluate", run / "checkpoints", cwd=tmp_path)
    videos = tmp_path / "videos"
    dtrainer("evaluate", run, "--episodes", 1, "--video", videos, cwd=tmp_path)
    assert [path.suffix for path in videos.glob("*.mp4")] == [".mp4"]
    mine = write_experiment(tmp_path, env="tests.envs_for_tests.Counter", iterations=1)
    dtrainer("train", mine, "--name", "mine", cwd=tmp_path)
    printed = dtrainer("evaluate", "results/mine", "--video", videos, cwd=tmp_path, code=1)
    assert "cannot be filmed" in printed
    assert "does not exist" in dtrainer("evaluate", run / "nothing", cwd=tmp_path, code=1)
    assert "not a checkpoint" in dtrainer("evaluate", tmp_path, cwd=tmp_path, code=1)
    shutil.rmtree(run / "checkpoints/checkpoint_000003/policies")
    printed = dtrainer("evaluate", run / "checkpoints/checkpoint_000003", cwd=tmp_path, code=1)
    assert "missing" in printed
