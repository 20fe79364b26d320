"""The run directory: everything on disk of one run."""

from __future__ import annotations

import json
import os
import socket
import threading
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
"""Age of a heartbeat, seconds, after which a driver that cannot be looked at counts as gone."""


def results_folder(given: str | Path | None) -> Path:
    """Folder for runs: the given one, else `DTRAINER_RESULTS`, else `results` here; `~` is home."""
    path = Path(given or os.environ.get("DTRAINER_RESULTS") or "results")
    try:
        return path.expanduser()
    except RuntimeError:  # there is no such user: a folder whose name begins with ~
        return path


def find_runs(folder: Path) -> list[RunDirectory]:
    """Runs in a folder, by name; those of others that may not be looked into are left out.

    Raises
    ------
    ResultsError
        If the folder is there and cannot be read.
    """
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _cannot_read(folder, error) from error
    return [RunDirectory(path) for path in paths if RunDirectory.exists(path)]


class RunDirectory:
    """Files of a run.

    Parameters
    ----------
    path
        Its directory; see `create` and `open`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()  # the heartbeat has a thread of its own

    @classmethod
    def create(cls, folder: Path, name: str) -> RunDirectory:
        """Make the directory of a new run.

        Raises
        ------
        ResultsError
            If a run of that name exists, or the folder cannot be written.
        """
        run = cls(folder / name)
        there = ResultsError(
            f"there is a run {name!r} already: {run.path}",
            hint="Go on with it by --resume, or choose another --name.",
        )
        if cls.exists(run.path):
            raise there
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            (run.path / "logs").mkdir(exist_ok=True)
            (run.path / STATE).open("x").close()  # of two that start at once, one gets it
        except FileExistsError as error:
            raise (there if cls.exists(run.path) else _cannot_write(run.path, error)) from error
        except OSError as error:
            raise _cannot_write(run.path, error) from error
        try:
            run.update_state(status="starting", started=_now())
        except ResultsError:
            (run.path / STATE).unlink(missing_ok=True)  # it may be tried again
            raise
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
        """Whether a run lies there, as far as this user can see."""
        try:
            return (path / STATE).is_file() or (path / RESULTS).is_file()
        except OSError:  # a folder of someone else's, or a name that is too long
            return False

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
            state = json.loads((self.path / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def update_state(self, **fields: Any) -> None:
        """Change fields of the state; notes this process as the driver and the time."""
        driver = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "process_started": _process_started(os.getpid()),
            "heartbeat": _now(),
        }
        with self._lock:
            state = {**self.state(), **fields, **driver}
            self._replace(STATE, json.dumps(state, indent=1, default=str) + "\n")

    def beat(self) -> None:
        """Renew the heartbeat, if the run is still this process's."""
        state = self.state()
        if (state.get("host"), state.get("pid")) == (socket.gethostname(), os.getpid()):
            self.update_state()

    def is_alive(self) -> bool:
        """Whether another process drives the run.

        On this host the process is looked for; a heartbeat decides about other hosts, and about a
        process that has the right number and started at another time.
        """
        state = self.state()
        if state.get("status") not in ("starting", "running"):
            return False
        fresh = _age_s(state.get("heartbeat")) < HEARTBEAT_LIMIT_S
        if state.get("host") != socket.gethostname():
            return fresh
        pid = state.get("pid")
        if not isinstance(pid, int) or pid <= 0 or pid == os.getpid():
            return False
        try:
            os.kill(pid, 0)
        except PermissionError:
            pass  # it is there, and someone else's
        except (OSError, OverflowError):
            return False
        return fresh or _process_started(pid) == state.get("process_started")

    # ---- results ----------------------------------------------------------------------

    def results(self) -> Iterator[dict[str, Any]]:
        """Results in order; lines that were cut off are left out.

        Raises
        ------
        ResultsError
            If there are results that cannot be read.
        """
        path = self.path / RESULTS
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                for line in file:
                    record = _record(line)
                    if record is not None:
                        yield record
        except FileNotFoundError:
            return
        except OSError as error:
            raise _cannot_read(path, error) from error

    def truncate_results(self, after_iteration: int) -> int:
        """Drop results after an iteration, for a run that goes on from there.

        Returns
        -------
        How many were dropped.
        """
        records = list(self.results())
        kept = [record for record in records if _iteration(record) <= after_iteration]
        self._replace(RESULTS, "".join(json.dumps(record) + "\n" for record in kept))
        self._truncate_progress(after_iteration)
        return len(records) - len(kept)

    def _truncate_progress(self, after_iteration: int) -> None:
        import csv
        import io

        path = self.path / PROGRESS
        if not path.is_file():
            return
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise _cannot_read(path, error) from error
        whole = text.rpartition("\n")[0]  # a row may be cut off
        fields, *rows = list(csv.reader(io.StringIO(whole))) or [[]]
        table = io.StringIO()
        writer = csv.writer(table, lineterminator="\n")
        if "training_iteration" in fields:
            column = fields.index("training_iteration")
            writer.writerow(fields)
            for row in rows:
                number = row[column] if len(row) == len(fields) else ""
                if number.isdecimal() and int(number) <= after_iteration:
                    writer.writerow(row)
        self._replace(PROGRESS, table.getvalue())

    def _replace(self, name: str, text: str) -> None:
        """Write a file aside and rename it, so that it is there whole or as it was."""
        try:
            aside = self.path / f".{name}.{os.getpid()}"
            try:
                with aside.open("w", encoding="utf-8", newline="") as file:
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


def _age_s(stamp: Any) -> float:
    """Seconds since a moment in ISO 8601; infinite if it is none."""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds()
    except (TypeError, ValueError):
        return float("inf")


def _process_started(pid: int) -> float | None:
    """When a process of this host started, seconds since 1970; None if that cannot be told."""
    import psutil

    try:
        return round(psutil.Process(pid).create_time(), 2)
    except (psutil.Error, OSError):
        return None


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _iteration(record: dict[str, Any]) -> float:
    number = record.get("training_iteration", 0)
    return number if isinstance(number, int | float) else 0


def _cannot_read(path: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"cannot read {path}: {error.strerror or error}",
        hint="Ask its owner for leave, or look elsewhere with --results or DTRAINER_RESULTS.",
    )


def _cannot_write(path: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"cannot write {path}: {error.strerror or error}",
        hint="Choose a folder with space that you may write to by --results or DTRAINER_RESULTS.",
    )
