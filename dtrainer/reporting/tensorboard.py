"""Results for TensorBoard."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import socket
import time
from typing import Any, BinaryIO

from dtrainer.reporting.files import LEFT_OUT, numbers
from dtrainer.reporting.reporter import Reporter, RunInfo
from dtrainer.reporting.runs import RunDirectory

_NO_CURVES = frozenset({*LEFT_OUT, "done", "pid", "timestamp"})
"""Keys of a result that make no curve worth looking at."""
_numbers = itertools.count()


class TensorBoardReporter(Reporter):
    """Writes event files into the run directory, steps on the x axis.

    The records are TensorBoard's own, written into a plain file. PyTorch's wrapper takes seconds to
    import, and TensorBoard's writer imports TensorFlow where that is installed and writes from a
    thread, whose errors (a full disk) reach nobody but the terminal.

    Parameters
    ----------
    directory
        Of the run.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._file: BinaryIO | None = None
        self._records: Any = None
        self._resumed = False

    def start(self, info: RunInfo) -> None:
        """Note whether earlier events of later steps have to go."""
        self._resumed = info.resumed_from is not None

    def result(self, result: dict[str, Any]) -> None:
        """Write the numbers of a result.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        from tensorboard.compat.proto.summary_pb2 import Summary

        step = int(result["timesteps_total"])
        at = float(result.get("timestamp", time.time()))
        if self._file is None:
            self._open(at)
            if self._resumed:
                self._take_back(step - int(result.get("timesteps_this_iter", 1)) + 1, at)
        kept = {key: value for key, value in result.items() if key not in _NO_CURVES}
        values = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in numbers(kept).items()
            if math.isfinite(value)
        ]
        self._write(summary=Summary(value=values), step=step, wall_time=at)
        self._flush()

    def end(self, status: str, reason: str) -> None:
        """Close the event file."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _open(self, at: float) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        # TensorBoard reads the files of a folder in the order of their names.
        number = f"{next(_numbers):06d}"
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
        path = self._directory.path / f"{name}.{os.getpid()}.{number}"
        self._file = path.open("xb")
        self._records = RecordWriter(self._file)
        self._write(file_version="brain.Event:2", wall_time=at)

    def _take_back(self, first_step: int, at: float) -> None:
        """Have TensorBoard forget events from a step on: they are trained again."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        restart = SessionLog(status=SessionLog.START)
        self._write(session_log=restart, step=first_step, wall_time=at)

    def _write(self, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(**fields).SerializeToString())

    def _flush(self) -> None:
        if self._file is None:
            return
        try:
            self._file.flush()
        except OSError:
            with contextlib.suppress(OSError):  # it tries to write the rest once more
                self.end("", "")
            raise
