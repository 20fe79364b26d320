"""Results in files: one JSON line an iteration, a table, the run's state."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from dtrainer.config.errors import ResultsError
from dtrainer.reporting.reporter import Reporter, RunInfo
from dtrainer.reporting.runs import PROGRESS, RESULTS, RunDirectory

LEFT_OUT = ("config",)
"""Keys of a result that do not change and lie in config.yaml."""


class _Appending(Reporter):
    """A reporter that appends to a file of the run."""

    file_name: str

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
                self._file = self.path.open("a", newline="")
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
        if self.path.is_file():
            with self.path.open(newline="") as file:
                self._fields = next(csv.reader(file), [])

    def result(self, result: dict[str, Any]) -> None:
        """Append a row; new columns are added on the right."""
        row = numbers({key: value for key, value in result.items() if key not in LEFT_OUT})
        new = [name for name in row if name not in self._fields]
        if new:
            self._add_columns(new)
        self.append(_csv_line([row.get(name, "") for name in self._fields]))

    def _add_columns(self, names: list[str]) -> None:
        rows: list[list[str]] = []
        if self.path.is_file():
            with self.path.open(newline="") as file:
                rows = list(csv.reader(file))[1:]
        self._close()
        self._fields += names
        padded = [row + [""] * (len(self._fields) - len(row)) for row in rows]
        aside = self.path.with_suffix(".csv.new")
        text = "".join(_csv_line(row) for row in [self._fields, *padded])
        try:
            aside.write_text(text)
            aside.replace(self.path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise _cannot_append(self.path, error) from error


class StateReporter(Reporter):
    """Keeps the run's `state.json` up to date."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory

    def start(self, info: RunInfo) -> None:
        """Note that the run is driven by this process."""
        self._directory.update_state(status="running", run=info.run, env=info.env, stop_reason=None)

    def result(self, result: dict[str, Any]) -> None:
        """Note how far the run is."""
        self._directory.update_state(
            iteration=result["training_iteration"],
            timesteps_total=result["timesteps_total"],
            episode_reward_mean=to_json(result["episode_reward_mean"]),
        )

    def checkpoint(self, path: Path) -> None:
        """Note the latest checkpoint."""
        self._directory.update_state(checkpoint=path.name)

    def end(self, status: str, reason: str) -> None:
        """Note how the run ended."""
        self._directory.update_state(status=status, stop_reason=reason)


def to_json(value: Any) -> Any:
    """Turn a result into what JSON has words for; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    if hasattr(value, "tolist"):  # numpy
        return to_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
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
            if isinstance(number, bool | int | float):
                flat[name] = number if isinstance(number, float) else int(number)
    return flat


def _cannot_append(path: Path, error: OSError) -> ResultsError:
    return ResultsError(
        f"cannot write {path}: {error.strerror or error}",
        hint="The last checkpoint is intact. Free some space and go on with --resume.",
    )


def _csv_line(values: list[Any]) -> str:
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
