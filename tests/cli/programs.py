"""The command line in processes of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "from dtrainer.cli import main; main()"]

EXPERIMENT = """\
name: small
run: PPO
env: {env}
seed: 4
stop: {{training_iteration: {iterations}}}
checkpoint_freq: 3
config:
  num_workers: {workers}
  num_envs_per_worker: 2
  train_batch_size: 128
  sgd_minibatch_size: 32
  num_sgd_iter: 2
  model: {{fcnet_hiddens: [16]}}
"""


def write_experiment(folder, *, env="CartPole-v1", workers=0, iterations=8, extra=""):
    file = folder / "experiment.yaml"
    text = EXPERIMENT.format(env=env, workers=workers, iterations=iterations)
    file.write_text(text + extra)
    return file


def environment(folder):
    paths = [str(ROOT), str(folder), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"}


def dtrainer(*args, cwd, code=0, timeout=120):
    """Run a command to its end; returns what it printed, both streams together."""
    done = subprocess.run(
        [*COMMAND, *map(str, args)],
        cwd=cwd,
        env=environment(cwd),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert "Traceback" not in done.stdout
    return done.stdout


def start(*args, cwd):
    return subprocess.Popen(
        [*COMMAND, *map(str, args)],
        cwd=cwd,
        env=environment(cwd),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_results(run, count, process, timeout=60):
    """Wait until a run has so many results."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if len(results(run)) >= count:
            return
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.02)
    raise AssertionError(f"no {count} results within {timeout} s")


def results(run):
    path = run / "result.jsonl"
    if not path.is_file():
        return []
    records = []
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


def essence(run):
    """What of a run's results does not depend on the clock."""
    keys = ("training_iteration", "timesteps_total", "episodes_total", "hist_stats", "info")
    return [{key: record[key] for key in keys} for record in results(run)]


def weights(run):
    from dtrainer.training.checkpoint import latest_checkpoint, read_checkpoint

    checkpoint = latest_checkpoint(run / "checkpoints")
    named = read_checkpoint(checkpoint).weights["default_policy"]
    return {name: array.tobytes() for name, array in named.items()}


def children(pid):
    """Process ids below a process, from /proc."""
    found, frontier = [], [pid]
    while frontier:
        parent = frontier.pop()
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            below = [int(child) for child in task.read_text().split()]
            found += below
            frontier += below
    return found


def gone(pids, timeout=10):
    """Whether all processes end in time."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{pid}").exists() and not zombie(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def kill(pid, number=signal.SIGKILL):
    os.kill(pid, number)
