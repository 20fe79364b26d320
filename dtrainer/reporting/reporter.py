"""Who is told what a run does."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from dtrainer.config.errors import ResultsError
from dtrainer.reporting.runs import RunDirectory

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunInfo:
    """What reporters are told when a run starts.

    Attributes
    ----------
    name, run, env
        Of the run, its algorithm, its environment.
    directory
        Where it writes.
    stop
        Result key to the value at which it stops.
    num_workers
        Actors asked for.
    device
        Where it learns.
    seed
        Of the run.
    resumed_from
        Iteration that it goes on after; None for a new run.
    """

    name: str
    run: str
    env: str
    directory: RunDirectory
    stop: dict[str, float]
    num_workers: int
    device: str
    seed: int
    resumed_from: int | None = None


class Reporter:
    """Is told of a run; every method may be left as it is.

    Attributes
    ----------
    essential
        Whether a run must not go on without it.
    """

    essential: ClassVar[bool] = False

    def start(self, info: RunInfo) -> None:
        """Be told that the run starts or goes on."""

    def result(self, result: dict[str, Any]) -> None:
        """Be told of an iteration."""

    def checkpoint(self, path: Path) -> None:
        """Be told of a checkpoint."""

    def end(self, status: str, reason: str) -> None:
        """Be told that the run is `finished`, `interrupted` or `failed`, and why."""


class Reporters(Reporter):
    """Tells several reporters.

    One that fails is left out from then on, with a line in the log; but a run ends when one that is
    essential fails, in whatever way: its results would be lost.

    Parameters
    ----------
    reporters
        In the order in which they are told.
    """

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = list(reporters)

    def start(self, info: RunInfo) -> None:
        """See the base class."""
        self._tell("start", info)

    def result(self, result: dict[str, Any]) -> None:
        """See the base class."""
        self._tell("result", result)

    def checkpoint(self, path: Path) -> None:
        """See the base class."""
        self._tell("checkpoint", path)

    def end(self, status: str, reason: str) -> None:
        """See the base class."""
        self._tell("end", status, reason)

    def _tell(self, method: str, *args: Any) -> None:
        failed: ResultsError | None = None
        for reporter in list(self._reporters):
            try:
                getattr(reporter, method)(*args)
            except ResultsError as error:
                failed = failed or error
            except Exception as error:
                name = type(reporter).__name__
                if reporter.essential:
                    failed = failed or _lost(name, method, error)
                    continue
                unexpected = not isinstance(error, OSError)  # a full disk explains itself
                log.error("%s is left out from now on: %s", name, error, exc_info=unexpected)
                self._reporters.remove(reporter)
        if failed is not None:
            raise failed


def _lost(name: str, method: str, error: Exception) -> ResultsError:
    lost = ResultsError(
        f"what the run does cannot be written: {name}.{method}: {type(error).__name__}: {error}",
        hint="The last checkpoint is intact. Look for a value in the results, such as a custom "
        "metric, that is neither a number nor text.",
    )
    lost.__cause__ = error
    return lost


def run_reporters(directory: RunDirectory) -> Reporters:
    """Make the reporters of a run on the command line: files, TensorBoard, progress."""
    from dtrainer.reporting.files import CsvReporter, JsonlReporter, StateReporter
    from dtrainer.reporting.progress import ProgressReporter
    from dtrainer.reporting.tensorboard import TensorBoardReporter

    return Reporters(
        [
            JsonlReporter(directory),
            CsvReporter(directory),
            StateReporter(directory),
            TensorBoardReporter(directory),
            ProgressReporter(),
        ]
    )
