"""What people are told when a worker fails, and where the traceback is."""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from dtrainer.config.errors import ActorError, DtrainerError, EnvError

if TYPE_CHECKING:
    from dtrainer.cluster import Outcome


def describe_failure(outcome: Outcome, log_dir: Path | None) -> DtrainerError:
    """Error for an actor's call that did not return.

    Parameters
    ----------
    outcome
        How the call ended.
    log_dir
        Where the remote traceback is written.
    """
    if outcome.kind != "raised":
        return ActorError(
            outcome.error_text,
            hint="The last checkpoint is intact: start again with --resume to go on from it.",
        )
    hint = None
    path = _write(log_dir, f"worker-{outcome.slot}", outcome.traceback)
    if path is not None:
        hint = f"The actor's traceback is in {path}"
    if outcome.error_type.rpartition(".")[2] == "EnvError":
        return EnvError(outcome.error_text, hint=hint)
    return ActorError(outcome.describe(), hint=hint)


def log_traceback(error: DtrainerError, log_dir: Path | None, who: str) -> None:
    """Write the traceback of an error of this process, and point to it in the error's hint."""
    text = "".join(traceback.format_exception(error))
    path = _write(log_dir, who, text)
    if path is not None:
        error.hint = f"The traceback is in {path}"


def _write(log_dir: Path | None, who: str, text: str) -> Path | None:
    if log_dir is None or not text:
        return None
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
        path = log_dir / f"{who}-{time.strftime('%Y%m%d-%H%M%S')}.log"
        path.write_text(text)
    except OSError:
        return None  # the error itself matters more than where its traceback lies
    return path
