"""`dtrainer config`: every key, their JSON schema, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from dtrainer.config import Experiment

app = typer.Typer(
    help="Show what can be configured, and check experiment files.", no_args_is_help=True
)

Run = Annotated[str, typer.Argument(help="Algorithm.", metavar="[RUN]")]


@app.command()
def defaults(run: Run = "PPO") -> None:
    """Print an experiment file with every key, its default and what it means."""
    from dtrainer.algorithms import get_config_class
    from dtrainer.config.schema import commented_defaults

    typer.echo(commented_defaults(run, get_config_class(run)), nl=False)


@app.command()
def schema(run: Run = "PPO") -> None:
    """Print the JSON schema of experiment files, for editors that check as you type."""
    from dtrainer.algorithms import get_config_class
    from dtrainer.config.schema import experiment_schema

    typer.echo(json.dumps(experiment_schema(run, get_config_class(run)), indent=2))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="Changes: config.lr=3e-4 num_workers=4 stop.timesteps_total=1e5"),
    ] = None,
) -> None:
    """Name every mistake of a file at once; without any, say what it would run."""
    from dtrainer.algorithms import get_config_class
    from dtrainer.config import load_experiments

    experiments = load_experiments(file, overrides or [], config_class=get_config_class)
    console = Console(soft_wrap=True, highlight=False)
    many = f"{len(experiments)} experiments" if len(experiments) > 1 else "1 experiment"
    console.print(f"{file}: ok, {many}", markup=False)
    for experiment in experiments:
        console.print(_summary(experiment))


def _summary(experiment: Experiment) -> Table:
    config = experiment.config
    table = Table(title=experiment.name or "(named when it starts)", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("run", f"{experiment.run} on {experiment.to_dict()['env']}")
    table.add_row("stop", _listed(experiment.stop) or "when you stop it")
    length = config.resolved_fragment_length()
    table.add_row(
        "samples",
        f"{config.num_workers} workers x {config.num_envs_per_worker} environments x "
        f"{length} steps = {config.steps_per_round()} a round",
    )
    table.add_row("train batch", _batch(experiment))
    table.add_row(
        "learns on", config.device + (f", {config.num_gpus:g} GPUs" * bool(config.num_gpus))
    )
    kept = "all" if experiment.keep_checkpoints_num is None else experiment.keep_checkpoints_num
    times = [f"every {experiment.checkpoint_freq} iterations"] * bool(experiment.checkpoint_freq)
    times += ["at the end"] * experiment.checkpoint_at_end
    table.add_row("checkpoints", f"{' and '.join(times)}, {kept} kept" if times else "none")
    table.add_row("cluster", experiment.cluster.address or experiment.cluster.type)
    table.add_row("seed", "drawn when it starts" if config.seed is None else str(config.seed))
    changed = {key: value for key, value in config.changed().items() if key not in ("env", "seed")}
    table.add_row("not default", _listed(changed) or "nothing")
    return table


def _batch(experiment: Experiment) -> str:
    config = experiment.config
    if config.batch_mode == "complete_episodes":
        return f"whole episodes, at least {config.train_batch_size} steps"
    if not config.samples_train_batches:
        return f"{config.train_batch_size} rows"
    rounds = config.rounds_per_batch()
    return f"{rounds * config.steps_per_round()} steps in {rounds} round{'s' * (rounds > 1)}"


def _listed(entries: dict[str, Any]) -> str:
    return ", ".join(
        f"{key}: {value:.10g}" if isinstance(value, float) else f"{key}: {json.dumps(value)}"
        for key, value in entries.items()
    )
