"""The result files of a trainer that a program drives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtrainer.config.errors import ResultsError
from dtrainer.reporting.files import CsvReporter, JsonlReporter, StateReporter
from dtrainer.reporting.reporter import Reporters, RunInfo
from dtrainer.reporting.runs import RunDirectory
from dtrainer.reporting.tensorboard import TensorBoardReporter

if TYPE_CHECKING:
    from dtrainer.training.trainer import Trainer


class Logbook:
    """Writes what a run on the command line writes, so that `dtrainer list` and `plot` know it.

    Parameters
    ----------
    trainer
        Before its first iteration here: new, or restored.

    Raises
    ------
    ResultsError
        If the trainer is new and its logdir holds another run's results, or cannot be written.
    """

    def __init__(self, trainer: Trainer[Any]) -> None:
        path = trainer.logdir
        self._directory = self._open(path, trainer.iteration)
        self._reporters = Reporters(
            [
                JsonlReporter(self._directory),
                CsvReporter(self._directory),
                StateReporter(self._directory),
                TensorBoardReporter(self._directory),
            ]
        )
        self._reporters.start(
            RunInfo(
                name=path.name,
                run=trainer.name,
                env=trainer.config.to_dict()["env"],
                directory=self._directory,
                stop={},
                num_workers=trainer.config.num_workers,
                device=str(trainer.device),
                seed=trainer.entropy,
                resumed_from=trainer.iteration or None,
            )
        )

    @staticmethod
    def _open(path: Path, iteration: int) -> RunDirectory:
        if not RunDirectory.exists(path):
            return RunDirectory.create(path.parent, path.name)
        directory = RunDirectory.open(path)
        if iteration == 0 and next(directory.results(), None) is not None:
            raise ResultsError(
                f"{path} holds the results of another run",
                hint="Choose another logdir, or restore that run's checkpoint to go on with it.",
            )
        directory.truncate_results(iteration)
        return directory

    def write(self, result: dict[str, Any]) -> None:
        """Write the result of an iteration."""
        self._reporters.result(result)

    def close(self, status: str, reason: str) -> None:
        """Note how the run ended and close the files."""
        self._reporters.end(status, reason)
