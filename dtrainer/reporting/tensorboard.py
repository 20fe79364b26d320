"""Results for TensorBoard."""

from __future__ import annotations

import math
from typing import Any

from dtrainer.reporting.files import LEFT_OUT, numbers
from dtrainer.reporting.reporter import Reporter, RunInfo
from dtrainer.reporting.runs import RunDirectory

_SHOWN = ("episode_", "episodes_", "info/", "time_breakdown_s/", "timers/", "transport/", "perf/")


class TensorBoardReporter(Reporter):
    """Writes event files into the run directory, steps on the x axis.

    TensorBoard's own writer is used, which is there at once; PyTorch's wrapper around it takes
    seconds to import.
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._writer: Any = None
        self._resumed = False

    def start(self, info: RunInfo) -> None:
        """Note whether earlier events of later steps have to go."""
        self._resumed = info.resumed_from is not None

    def result(self, result: dict[str, Any]) -> None:
        """Write the numbers of a result."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        step = int(result["timesteps_total"])
        now = float(result.get("timestamp", 0))
        if self._writer is None:
            self._writer = EventFileWriter(str(self._directory.path))
            if self._resumed:
                first = step - int(result.get("timesteps_this_iter", 1)) + 1
                restart = SessionLog(status=SessionLog.START)  # events from this step on go
                self._writer.add_event(Event(session_log=restart, step=first, wall_time=now))
        kept = {key: value for key, value in result.items() if key not in LEFT_OUT}
        values = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in numbers(kept).items()
            if name.startswith(_SHOWN) and math.isfinite(value)
        ]
        self._writer.add_event(Event(summary=Summary(value=values), step=step, wall_time=now))
        self._writer.flush()

    def end(self, status: str, reason: str) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
