"""Run the benchmarks' programs as processes, interleaved, and sum up what they measured."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"

PEERS_MISSING = (
    "The peers are not installed, so dtrainer is measured alone. "
    "Type `make bench-peers` to install ray[rllib] and stable-baselines3 into .venv-peers (2 GB)."
)

Measurement = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """One side of a benchmark.

    Parameters
    ----------
    key
        Short name, for the JSON output.
    label
        What the table's first column says.
    module
        Module to run with `python -m`; it prints one line of JSON.
    arguments
        Command-line arguments besides the common ones.
    """

    key: str
    label: str
    module: str
    arguments: tuple[str, ...] = field(default=())

    @property
    def is_peer(self) -> bool:
        return self.module.startswith("benchmarks.peers.")

    def run(self, arguments: Sequence[str], timeout: float) -> Measurement:
        """Run the program once in its own process and read its measurement."""
        python = str(PEERS_PYTHON) if self.is_peer else sys.executable
        command = [python, "-m", self.module, *self.arguments, *arguments]
        environ = {**os.environ, "PYTHONWARNINGS": "ignore"}
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environ,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SystemExit(
                f"{self.label} did not end within {timeout:g} s: {' '.join(command)}"
            ) from error
        lines = done.stdout.strip().splitlines()
        if done.returncode != 0 or not lines:
            tail = "\n".join(done.stderr.strip().splitlines()[-25:])
            raise SystemExit(
                f"{self.label} failed with exit code {done.returncode}: {' '.join(command)}\n{tail}"
            )
        measurement: Measurement = json.loads(lines[-1])
        return measurement


def common_arguments(description: str | None) -> argparse.ArgumentParser:
    """Make the arguments that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--repetitions",
        type=int,
        default=3,
        help="runs of each program, seeds 0, 1, … (%(default)s)",
    )
    parser.add_argument(
        "--seeds", type=int, nargs="+", help="these seeds, one run each, instead of --repetitions"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def seeds_of(arguments: argparse.Namespace) -> list[int]:
    """Say which seeds to run, one run of every program for each."""
    if arguments.seeds:
        return list(arguments.seeds)
    if arguments.repetitions < 1:
        raise SystemExit("--repetitions must be 1 or more")
    return list(range(arguments.repetitions))


def available(programs: Iterable[Program]) -> list[Program]:
    """Leave out the peers where they are not installed, and say how to get them."""
    chosen = list(programs)
    if PEERS_PYTHON.exists():
        return chosen
    say(PEERS_MISSING)
    return [program for program in chosen if not program.is_peer]


def run_interleaved(
    programs: Sequence[Program], seeds: Sequence[int], arguments: Sequence[str], timeout: float
) -> dict[str, list[Measurement]]:
    """Run every program once for each seed, all programs of one seed after another.

    Interleaving spreads a machine that gets slower or busier over all programs alike.
    """
    found: dict[str, list[Measurement]] = {program.key: [] for program in programs}
    for number, seed in enumerate(seeds, start=1):
        for program in programs:
            say(f"[{number}/{len(seeds)}] {program.label} …")
            found[program.key].append(program.run([*arguments, "--seed", str(seed)], timeout))
    return found


def median_ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """Median of the ratios of runs that were made side by side."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def say(text: str) -> None:
    """Write progress where it does not mix with the table or the JSON."""
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(text)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the columns after the first are right-aligned."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number > 0)
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    console.print(table)


def verdict(met: bool, wanted: str) -> str:
    """Say what was wanted and whether it is so."""
    return f"{wanted}: {'met' if met else 'missed'}"
