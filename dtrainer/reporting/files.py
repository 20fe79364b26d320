"""Results in files: one JSON line an iteration, a table, the run's state."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import math
import os
import threading
import weakref
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, TextIO

from dtrainer.config.errors import ResultsError
from dtrainer.reporting.reporter import Reporter, RunInfo
from dtrainer.reporting.runs import PROGRESS, RESULTS, RunDirectory

log = logging.getLogger(__name__)

LEFT_OUT = ("config",)
"""Keys of a result that do not change and lie in config.yaml."""
BEAT_EVERY_S = 30.0
"""Seconds between two heartbeats of a run, however long its iterations are."""


class _Appending(Reporter):
    """A reporter that appends to a file of the run."""

    essential = True
    file_name: ClassVar[str]

    def __init__(self, directory: RunDirectory) -> None:
        self.path = directory.path / self.file_name
        self._file: TextIO | None = None

    def append(self, text: str) -> None:
        """Append text and hand it to the system.

        Raises
        ------
        ResultsError
            If it cannot be written.
        """
        try:
            if self._file is None:
                self._file = self.path.open(
                    "a", encoding="utf-8", errors="backslashreplace", newline=""
                )
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            with contextlib.suppress(OSError):  # it tries to write the rest once more
                self._close()
            raise _cannot_append(self.path, error) from error

    def checkpoint(self, path: Path) -> None:
        """Have the results on disk as surely as the checkpoint that they led to."""
        if self._file is not None:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise _cannot_append(self.path, error) from error

    def end(self, status: str, reason: str) -> None:
        """Close the file."""
        try:
            self._close()
        except OSError as error:
            raise _cannot_append(self.path, error) from error

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


class JsonlReporter(_Appending):
    """Writes `result.jsonl`: one result a line; what is not finite becomes null."""

    file_name = RESULTS

    def result(self, result: dict[str, Any]) -> None:
        """Append a result."""
        kept = {key: value for key, value in result.items() if key not in LEFT_OUT}
        self.append(json.dumps(to_json(kept), allow_nan=False) + "\n")


class CsvReporter(_Appending):
    """Writes `progress.csv`: the numbers of each result, nested keys joined by `/`."""

    file_name = PROGRESS

    def __init__(self, directory: RunDirectory) -> None:
        super().__init__(directory)
        self._fields: list[str] = []

    def start(self, info: RunInfo) -> None:
        """Go on with the columns of a table that exists."""
        self._fields = next(iter(self._rows()), [])

    def result(self, result: dict[str, Any]) -> None:
        """Append a row; new columns are added on the right."""
        row = numbers({key: value for key, value in result.items() if key not in LEFT_OUT})
        new = [name for name in row if name not in self._fields]
        if new:
            self._add_columns(new)
        self.append(_csv_line([row.get(name, "") for name in self._fields]))

    def _add_columns(self, names: list[str]) -> None:
        rows = self._rows()[1:]
        fields = [*self._fields, *names]
        padded = [row + [""] * (len(fields) - len(row)) for row in rows]
        text = "".join(_csv_line(row) for row in [fields, *padded])
        aside = self.path.with_suffix(".csv.new")
        try:
            self._close()
            with aside.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)
            raise _cannot_append(self.path, error) from error
        self._fields = fields

    def _rows(self) -> list[list[str]]:
        try:
            with self.path.open(encoding="utf-8", errors="replace", newline="") as file:
                return list(csv.reader(file))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _cannot_append(self.path, error) from error


class StateReporter(Reporter):
    """Keeps the run's `state.json` up to date, with a heartbeat between the results.

    Parameters
    ----------
    directory
        Of the run.
    beat_every_s
        Seconds between two heartbeats.
    """

    essential = True

    def __init__(self, directory: RunDirectory, *, beat_every_s: float = BEAT_EVERY_S) -> None:
        self._directory = directory
        self._beat_every_s = beat_every_s
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None

    def start(self, info: RunInfo) -> None:
        """Note that the run is driven by this process, and keep on saying so."""
        self._directory.update_state(status="running", run=info.run, env=info.env, stop_reason=None)
        weakref.finalize(self, self._ended.set)  # a program may drop a run without ending it
        self._heart = threading.Thread(
            target=_beat,
            args=(self._directory, self._ended, self._beat_every_s),
            name="dtrainer-heartbeat",
            daemon=True,
        )
        self._heart.start()

    def result(self, result: dict[str, Any]) -> None:
        """Note how far the run is."""
        self._directory.update_state(
            iteration=result.get("training_iteration"),
            timesteps_total=result.get("timesteps_total"),
            episode_reward_mean=to_json(result.get("episode_reward_mean")),
        )

    def checkpoint(self, path: Path) -> None:
        """Note the latest checkpoint."""
        self._directory.update_state(checkpoint=path.name)

    def end(self, status: str, reason: str) -> None:
        """Note how the run ended."""
        self._ended.set()
        if self._heart is not None:
            self._heart.join(timeout=5.0)  # a file system that hangs must not hold up the end
        self._directory.update_state(status=status, stop_reason=reason)


def _beat(directory: RunDirectory, ended: threading.Event, every_s: float) -> None:
    """Renew a run's heartbeat until it ends; knows its reporter not, so that it can be dropped."""
    while not ended.wait(every_s):
        try:
            directory.beat()
        except ResultsError as error:
            log.debug("no heartbeat: %s", error)  # the next result tells, if it goes on


def to_json(value: Any) -> Any:
    """Turn a result into what JSON has words for; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if hasattr(value, "tolist"):  # numpy's and PyTorch's
        plain = value.tolist()
        return str(value) if type(plain) is type(value) else to_json(plain)
    return str(value)


def numbers(result: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Flatten a result to its numbers, nested keys joined by `/`."""
    flat: dict[str, float] = {}
    for key, value in result.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= numbers(value, f"{name}/")
        else:
            number = value.item() if getattr(value, "size", 0) == 1 else value  # numpy's
            if isinstance(number, Real):
                flat[name] = int(number) if isinstance(number, Integral) else float(number)
    return flat


def _cannot_append(path: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"cannot write {path}: {error.strerror or error}",
        hint="The last checkpoint is intact. Free some space and go on with --resume.",
    )


def _csv_line(values: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
