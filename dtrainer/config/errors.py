"""The errors that dtrainer shows to people: one sentence what, one what to do."""

from __future__ import annotations


class DtrainerError(Exception):
    """Base of every error that is the user's to read.

    The command line prints its message without a traceback and exits with `exit_code`.

    Parameters
    ----------
    message
        What is wrong: which key, file, host or actor, what was expected, what was found.
    hint
        What to do about it, if that is known.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n{self.hint}"


class ConfigError(DtrainerError):
    """A configuration, a file or an argument that cannot be used as it is."""

    exit_code = 2


class EnvError(DtrainerError):
    """An environment that does not exist, fails, or breaks its own declared spaces."""


class ClusterError(DtrainerError):
    """Dask workers that cannot be had, or a scheduler that is gone."""


class ActorError(DtrainerError):
    """An actor that was lost, hangs, or whose method raised."""


class CheckpointError(DtrainerError):
    """A checkpoint that is missing, damaged, or of something else."""


class ResultsError(DtrainerError):
    """A results folder that cannot be written or read."""
