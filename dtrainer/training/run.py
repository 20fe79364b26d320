"""The loop that runs an experiment: train, report, checkpoint, stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtrainer.reporting.reporter import Reporter
from dtrainer.training.stopping import StopCriteria
from dtrainer.training.trainer import Trainer


@dataclass(frozen=True)
class CheckpointPlan:
    """When to write checkpoints.

    Attributes
    ----------
    every
        Iterations between two; 0 for none on the way.
    at_end
        Whether to write one when the run stops.
    keep
        How many of the latest stay; None for all.
    """

    every: int = 0
    at_end: bool = True
    keep: int | None = None


@dataclass(frozen=True)
class RunEnd:
    """How a run ended.

    Attributes
    ----------
    status
        `finished` (a stop criterion) or `interrupted`.
    reason
        In words.
    checkpoint
        The latest one that this process wrote.
    """

    status: str
    reason: str
    checkpoint: Path | None


def run_loop(
    trainer: Trainer[Any],
    stop: StopCriteria,
    reporter: Reporter,
    plan: CheckpointPlan,
    interrupted: Callable[[], bool],
    last_result: dict[str, Any] | None = None,
) -> RunEnd:
    """Train until a criterion is met or an interrupt is asked for.

    An interrupt always writes a checkpoint, whatever the plan says. A result is reported before
    its checkpoint is written: resuming drops the results that come after its checkpoint, so none
    is missing and none is there twice.

    Parameters
    ----------
    trainer
        The run.
    stop
        When it is done.
    reporter
        Gets every result and checkpoint.
    plan
        When to write checkpoints.
    interrupted
        Asked after each iteration.
    last_result
        On resuming, the result at the checkpoint: the run may be done already.
    """
    checkpoint: Path | None = None
    reason = None if last_result is None else stop.reached(last_result)
    while reason is None:
        result = trainer.train()
        reason = stop.reached(result)
        result["done"] = reason is not None
        reporter.result(result)
        interrupt = interrupted()
        due = plan.every > 0 and trainer.iteration % plan.every == 0
        if due or interrupt or (reason is not None and plan.at_end):
            checkpoint = Path(trainer.save(keep=plan.keep))
            reporter.checkpoint(checkpoint)
        if interrupt and reason is None:
            return RunEnd("interrupted", "a signal asked it to stop", checkpoint)
    return RunEnd("finished", reason, checkpoint)
