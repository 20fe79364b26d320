"""`dtrainer train`: run the experiments of a file in the foreground."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from dtrainer.config import ConfigError, DtrainerError, Experiment

if TYPE_CHECKING:
    from dtrainer.reporting.reporter import Reporter
    from dtrainer.reporting.runs import RunDirectory
    from dtrainer.training.run import RunEnd
    from dtrainer.training.trainer import Trainer

EXIT_INTERRUPTED = 75
"""Exit code of a run that was interrupted and can be resumed (EX_TEMPFAIL of sysexits.h)."""

console = Console(stderr=True, soft_wrap=True, highlight=False)


def command(
    file: Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Changes: config.lr=3e-4 num_workers=4 stop.timesteps_total=1e5"),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Folder for runs [default: $DTRAINER_RESULTS or ./results]."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the run, instead of the file's.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the run's last checkpoint.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the configuration, stop.")
    ] = False,
) -> None:
    """Train as an experiment file says, until its stop criteria are met."""
    from dtrainer.algorithms import get_config_class
    from dtrainer.config import load_experiments

    if not dry_run:
        _start_ahead(file, overrides or [])
    changes = [*(overrides or []), *([] if name is None else [f"name={json.dumps(name)}"])]
    experiments = load_experiments(file, changes, config_class=get_config_class)
    if name is not None and len(experiments) > 1:
        raise ConfigError(
            f"--name {name}: {file} has {len(experiments)} experiments with names of their own"
        )
    for experiment in experiments:
        if dry_run:
            _dry_run(experiment)
        else:
            run_experiment(experiment, results, resume=resume)


def _start_ahead(file: Path, overrides: list[str]) -> None:
    """Let a local cluster's processes import beside this one, which imports PyTorch first.

    A glance at the file says whether there will be such a cluster; its mistakes are for the proper
    reading to tell.
    """
    from dtrainer.cluster.local import prestart
    from dtrainer.config.yaml_file import YamlFile
    from dtrainer.rollout import ACTOR_MODULES

    data = YamlFile(file).data
    config = data.get("config")
    workers = config.get("num_workers") if isinstance(config, dict) else None
    alone = any(text.split(".")[-1] == "num_workers=0" for text in overrides)
    if "cluster" not in data and workers != 0 and not alone and "run" in data:
        prestart(ACTOR_MODULES)


def _dry_run(experiment: Experiment) -> None:
    from dtrainer.envs import episode_limit, probe_env, resolve_env

    maker = resolve_env(experiment.env)
    spaces = probe_env(maker, experiment.config)
    episode_limit(maker, experiment.config)
    typer.echo(experiment.to_yaml())
    console.print(f"The environment works: observations {spaces[0]}, actions {spaces[1]}.")
    console.print("Nothing was run. Leave out --dry-run to train.")


def run_experiment(experiment: Experiment, results: Path | None, *, resume: bool) -> None:
    """Train one experiment into its run directory.

    Raises
    ------
    typer.Exit
        With `EXIT_INTERRUPTED` after an interrupt.
    DtrainerError
        If the run cannot be started or fails; its state says so too.
    """
    from dtrainer.algorithms import get_trainer_class

    directory = _open_directory(experiment, results, resume=resume)
    with _interrupts() as interrupted:
        directory.update_state(status="starting", run=experiment.run, env=str(experiment.env))
        try:
            trainer_class = get_trainer_class(experiment.run)
            with trainer_class(
                experiment.config,
                experiment.env,
                cluster=experiment.cluster,
                logdir=directory.path,
                log_results=False,
            ) as trainer:
                end = _drive(experiment, trainer, directory, interrupted, resume=resume)
        except BaseException as error:
            status = "failed" if isinstance(error, Exception) else "interrupted"
            reason = str(error) or type(error).__name__
            with contextlib.suppress(DtrainerError):
                directory.update_state(status=status, stop_reason=reason)
            raise
    if end.status == "interrupted":
        raise typer.Exit(EXIT_INTERRUPTED)


def _open_directory(experiment: Experiment, results: Path | None, *, resume: bool) -> RunDirectory:
    from dtrainer.reporting.runs import RunDirectory, results_folder

    folder = results_folder(results or experiment.results)
    name = experiment.name or experiment.default_name()
    if not resume:
        directory = RunDirectory.create(folder, name)
    else:
        directory = RunDirectory.open(folder / name)
        if directory.is_alive():
            raise DtrainerError(
                f"run {name!r} is being driven by process {directory.state().get('pid')}",
                hint="Stop that process first, or choose another --name.",
            )
    directory.write_config(experiment.to_yaml())
    return directory


def _drive(
    experiment: Experiment,
    trainer: Trainer[Any],
    directory: RunDirectory,
    interrupted: Interrupts,
    *,
    resume: bool,
) -> RunEnd:
    """Restore if asked for, then loop."""
    from dtrainer.reporting.reporter import RunInfo, run_reporters
    from dtrainer.training.run import CheckpointPlan, run_loop
    from dtrainer.training.stopping import StopCriteria

    last = _restore(trainer, directory) if resume else None
    info = RunInfo(
        name=directory.path.name,
        run=experiment.run,
        env=str(experiment.env),
        directory=directory,
        stop=dict(experiment.stop),
        num_workers=experiment.config.num_workers,
        device=str(trainer.device),
        seed=trainer.entropy,
        resumed_from=trainer.iteration if resume else None,
    )
    reporter: Reporter = run_reporters(directory)
    reporter.start(info)
    plan = CheckpointPlan(
        experiment.checkpoint_freq, experiment.checkpoint_at_end, experiment.keep_checkpoints_num
    )
    try:
        end = run_loop(trainer, StopCriteria(experiment.stop), reporter, plan, interrupted, last)
    except BaseException as error:
        with contextlib.suppress(DtrainerError):  # what ended the run matters more
            if isinstance(error, KeyboardInterrupt):
                reporter.end("interrupted", "stopped at once, with the last checkpoint")
            else:
                reporter.end("failed", str(error) or type(error).__name__)
        raise
    reporter.end(end.status, end.reason)
    return end


def _restore(trainer: Trainer[Any], directory: RunDirectory) -> dict[str, Any] | None:
    """Restore the newest intact checkpoint and drop the results that came after it."""
    from dtrainer.training.checkpoint import latest_checkpoint

    checkpoint = latest_checkpoint(directory.path / "checkpoints")
    if checkpoint is None:
        console.print("There is no checkpoint yet: starting from the beginning.")
        directory.truncate_results(0)
        return None
    trainer.restore(checkpoint)
    dropped = directory.truncate_results(trainer.iteration)
    if dropped:
        console.print(f"{dropped} results came after the checkpoint: they are trained again.")
    results = list(directory.results())
    return results[-1] if results else None


class Interrupts:
    """Whether the user, or the batch system, has asked to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """Whether it was asked for."""
        return self.asked

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Remember the first signal; the second ends the process at once."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        console.print(
            f"\n{signal.Signals(number).name}: finishing this iteration, then saving. "
            "Again to stop at once, with the last checkpoint."
        )


@contextmanager
def _interrupts() -> Iterator[Interrupts]:
    """Turn SIGINT and SIGTERM into a question that the loop asks."""
    interrupts = Interrupts()
    before = {
        number: signal.signal(number, interrupts.handle)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
