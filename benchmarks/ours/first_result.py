"""dtrainer: seconds from typing `dtrainer train` to the first line of result.jsonl."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import report
from dtrainer import __version__

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cartpole-ppo.yaml"
POLL_S = 0.01
DEADLINE_S = 120.0
STOPPING_S = 60.0


def wait_for_first_line(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Return as soon as the file holds one whole line."""
    deadline = time.perf_counter() + DEADLINE_S
    while time.perf_counter() < deadline:
        if path.exists() and b"\n" in path.read_bytes():
            return
        if process.poll() is not None:
            raise SystemExit(f"dtrainer train ended with {process.returncode} before a result")
        time.sleep(POLL_S)
    raise SystemExit(f"no result within {DEADLINE_S:g} s in {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    command = Path(sys.executable).with_name("dtrainer")
    with tempfile.TemporaryDirectory(prefix="dtrainer-first-result-") as folder:
        options = ["--results", folder, "--name", "first", f"seed={arguments.seed}"]
        with (Path(folder) / "output.txt").open("wb") as output:
            begin = time.perf_counter()
            process = subprocess.Popen(
                [command, "train", EXAMPLE, *options], stdout=output, stderr=subprocess.STDOUT
            )
            try:
                wait_for_first_line(Path(folder) / "first" / "result.jsonl", process)
                seconds = time.perf_counter() - begin
            except SystemExit:
                print((Path(folder) / "output.txt").read_text(), file=sys.stderr)
                raise
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    try:
                        process.wait(STOPPING_S)
                    except subprocess.TimeoutExpired:
                        process.kill()
                        process.wait()
    report(program="dtrainer", version=__version__, seed=arguments.seed, seconds=seconds)


if __name__ == "__main__":
    main()
