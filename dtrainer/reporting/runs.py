"""The run directory: everything on disk of one run."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dtrainer.config.errors import ResultsError

CONFIG = "config.yaml"
STATE = "state.json"
RESULTS = "result.jsonl"
PROGRESS = "progress.csv"
HEARTBEAT_LIMIT_S = 600.0
"""Age of a heartbeat, seconds, after which a driver on another host counts as gone."""


def results_folder(given: str | Path | None) -> Path:
    """Folder for runs: the given one, else `DTRAINER_RESULTS`, else `results` here."""
    return Path(given or os.environ.get("DTRAINER_RESULTS") or "results")


def find_runs(folder: Path) -> list[RunDirectory]:
    """Runs in a folder, by name."""
    if not folder.is_dir():
        return []
    return [RunDirectory(path) for path in sorted(folder.iterdir()) if (path / STATE).is_file()]


class RunDirectory:
    """Files of a run.

    Parameters
    ----------
    path
        Its directory; see `create` and `open`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, folder: Path, name: str) -> RunDirectory:
        """Make the directory of a new run.

        Raises
        ------
        ResultsError
            If a run of that name exists, or the folder cannot be written.
        """
        run = cls(folder / name)
        if cls.exists(run.path):
            raise ResultsError(
                f"there is a run {name!r} already: {run.path}",
                hint="Go on with it by --resume, or choose another --name.",
            )
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            (run.path / "logs").mkdir(exist_ok=True)
        except OSError as error:
            raise _cannot_write(run.path, error) from error
        run.update_state(status="starting", started=_now())
        return run

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Open the directory of a run that exists.

        Raises
        ------
        ResultsError
            If there is none; names the runs beside it.
        """
        if not cls.exists(path):
            beside = ", ".join(run.path.name for run in find_runs(path.parent)[:8])
            hint = f"In {path.parent} there are: {beside}." if beside else None
            raise ResultsError(f"there is no run {path}", hint=hint)
        return cls(path)

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether a run lies there."""
        return (path / STATE).is_file() or (path / RESULTS).is_file()

    @property
    def checkpoints(self) -> Path:
        """Folder of its checkpoints."""
        return self.path / "checkpoints"

    def write_config(self, text: str) -> None:
        """Write the resolved experiment."""
        self._replace(CONFIG, text)

    # ---- who drives it ----------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Status, driver, heartbeat and latest figures; empty where none was written."""
        try:
            state = json.loads((self.path / STATE).read_text())
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def update_state(self, **fields: Any) -> None:
        """Change fields of the state; notes this process as the driver and the time."""
        driver = {"host": socket.gethostname(), "pid": os.getpid(), "heartbeat": _now()}
        state = {**self.state(), **fields, **driver}
        self._replace(STATE, json.dumps(state, indent=1, default=str) + "\n")

    def is_alive(self) -> bool:
        """Whether the process that drives the run is there."""
        state = self.state()
        if state.get("status") not in ("starting", "running"):
            return False
        if state.get("host") != socket.gethostname():
            return self._heartbeat_age() < HEARTBEAT_LIMIT_S
        pid = state.get("pid")
        if not isinstance(pid, int) or pid <= 0:  # those stand for groups of processes
            return False
        try:
            os.kill(pid, 0)
        except PermissionError:
            return True
        except (OSError, OverflowError):
            return False
        return pid != os.getpid()

    def _heartbeat_age(self) -> float:
        try:
            beat = datetime.fromisoformat(self.state()["heartbeat"])
            return (datetime.now(UTC) - beat).total_seconds()
        except (KeyError, TypeError, ValueError):
            return float("inf")

    # ---- results ----------------------------------------------------------------------

    def results(self) -> Iterator[dict[str, Any]]:
        """Results in order; a last line that was cut off is left out."""
        path = self.path / RESULTS
        if not path.is_file():
            return
        with path.open(errors="replace") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    return
                if not isinstance(record, dict):
                    return
                yield record

    def truncate_results(self, after_iteration: int) -> int:
        """Drop results after an iteration, for a run that goes on from there.

        Returns
        -------
        How many were dropped.
        """
        records = list(self.results())
        kept = [r for r in records if r.get("training_iteration", 0) <= after_iteration]
        self._replace(RESULTS, "".join(json.dumps(record) + "\n" for record in kept))
        self._truncate_progress(after_iteration)
        return len(records) - len(kept)

    def _truncate_progress(self, after_iteration: int) -> None:
        import csv
        import io

        path = self.path / PROGRESS
        if not path.is_file():
            return
        whole = path.read_text(errors="replace").rpartition("\n")[0]  # a row may be cut off
        fields, *rows = list(csv.reader(io.StringIO(whole))) or [[]]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if "training_iteration" in fields:
            column = fields.index("training_iteration")
            writer.writerow(fields)
            for row in rows:
                number = row[column] if len(row) == len(fields) else ""
                if number.isdecimal() and int(number) <= after_iteration:
                    writer.writerow(row)
        self._replace(PROGRESS, text.getvalue())

    def _replace(self, name: str, text: str) -> None:
        """Write a file aside and rename it, so that it is there whole or as it was."""
        try:
            aside = self.path / f".{name}.{os.getpid()}"
            try:
                with aside.open("w") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                aside.replace(self.path / name)
            except BaseException:
                aside.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise _cannot_write(self.path / name, error) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _cannot_write(path: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"cannot write {path}: {error.strerror or error}",
        hint="Choose a folder with space that you may write to by --results or DTRAINER_RESULTS.",
    )
