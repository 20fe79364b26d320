"""`dtrainer plot`: learning curves of runs."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dtrainer.config.errors import ResultsError

if TYPE_CHECKING:
    from dtrainer.reporting.runs import RunDirectory

FILE_NAME = "learning-curve.png"


def command(
    runs: Annotated[
        list[str],
        typer.Argument(help="Names of runs, or their directories.", show_default=False),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=f"The picture (.png, .pdf, .svg) [default: {FILE_NAME} in the run's directory, "
            "or in the results folder for several runs].",
        ),
    ] = None,
    x: Annotated[str, typer.Option("--x", "-x", help="Result key along.")] = "timesteps_total",
    y: Annotated[str, typer.Option("--y", "-y", help="Result key up.")] = "episode_reward_mean",
    smooth: Annotated[
        int, typer.Option(min=0, help="Average each result with those before it, this many.")
    ] = 0,
    results: Annotated[
        Path | None,
        typer.Option(help="Folder of the runs [default: $DTRAINER_RESULTS or ./results]."),
    ] = None,
) -> None:
    """Draw the learning curves of one or more runs in one picture."""
    from dtrainer.reporting.plots import learning_curve
    from dtrainer.reporting.runs import results_folder

    folder = results_folder(results)
    found = list(
        {run.path.resolve(): run for run in (find(name, folder) for name in runs)}.values()
    )
    path = learning_curve(found, output or _default_output(found, folder), x=x, y=y, smooth=smooth)
    typer.echo(f"Drew {', '.join(run.path.name for run in found)}: {path}")


def find(name: str, folder: Path) -> RunDirectory:
    """Find a run by its name in the results folder, or by its directory.

    Raises
    ------
    ResultsError
        If there is none; names the runs that may have been meant.
    """
    from dtrainer.reporting.runs import RunDirectory, find_runs

    for path in (folder / name, Path(name)):
        if RunDirectory.exists(path):
            return RunDirectory(path)
    names = [run.path.name for run in find_runs(folder)]
    place = folder.absolute()
    if not names:
        missing = "There are no runs" if folder.is_dir() else "There is no folder"
        hint = f"{missing}: {place}. Look elsewhere with --results or DTRAINER_RESULTS."
    else:
        meant = difflib.get_close_matches(Path(name).name, names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(meant)}? " if meant else ""
        hint += f"`dtrainer list` shows the {len(names)} in {place}."
    raise ResultsError(f"there is no run {name!r}", hint=hint)


def _default_output(runs: list[RunDirectory], folder: Path) -> Path:
    if len(runs) == 1:
        return runs[0].path / FILE_NAME
    return (folder if folder.is_dir() else runs[0].path.parent) / FILE_NAME
