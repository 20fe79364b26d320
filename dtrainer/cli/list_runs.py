"""`dtrainer list`: the runs in a results folder."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from dtrainer.reporting.runs import RunDirectory

STYLES = {"finished": "green", "running": "cyan", "interrupted": "yellow"}
FAILURES = ("failed", "died")
WIDEST = 10_000
COLUMNS: tuple[tuple[str, Literal["left", "right"]], ...] = (
    ("run", "left"),
    ("algorithm", "left"),
    ("env", "left"),
    ("status", "left"),
    ("iter", "right"),
    ("steps", "right"),
    ("return", "right"),
    ("heartbeat", "right"),
)


def command(
    results: Annotated[
        Path | None,
        typer.Option(help="Folder of the runs [default: $DTRAINER_RESULTS or ./results]."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the runs of a results folder, how far they are and whether they still go on."""
    from dtrainer.reporting.runs import find_runs, results_folder

    folder = results_folder(results)
    rows = [describe(run) for run in find_runs(folder)]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    console = Console(highlight=False)
    if not rows:
        missing = "" if folder.is_dir() else ", which does not exist"
        text = f"No runs in {folder.absolute()}{missing}."
        console.print(escape(text), soft_wrap=True)
        console.print("Look elsewhere with --results or DTRAINER_RESULTS.", soft_wrap=True)
        return
    table = _table(rows)
    if not console.is_terminal:  # whoever reads it further wants whole names
        wide = console.options.update(max_width=WIDEST)
        console.width = max(console.width, console.measure(table, options=wide).maximum)
    console.print(table)


def describe(run: RunDirectory) -> dict[str, Any]:
    """Say where a run stands.

    Returns
    -------
    name, directory, algorithm, env, status (`died` for a run that says it is going on while its
    process is gone), iteration, timesteps_total, episode_reward_mean, heartbeat (ISO 8601),
    heartbeat_age_s, host, pid, started, stop_reason; None where the run does not say.
    """
    state = run.state()
    status = state.get("status")
    if status in ("starting", "running") and not run.is_alive():
        status = "died"
    same = ("iteration", "timesteps_total", "episode_reward_mean", "heartbeat")
    return {
        "name": run.path.name,
        "directory": str(run.path),
        "algorithm": state.get("run"),
        "env": state.get("env"),
        "status": status,
        **{key: state.get(key) for key in same},
        "heartbeat_age_s": _age_s(state.get("heartbeat")),
        **{key: state.get(key) for key in ("host", "pid", "started", "stop_reason")},
    }


def _age_s(stamp: Any) -> float | None:
    try:
        then = datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max((datetime.now(UTC) - then).total_seconds(), 0.0)


def _table(rows: list[dict[str, Any]]) -> Table:
    from dtrainer.reporting.words import figure

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in COLUMNS:
        table.add_column(
            name,
            justify=justify,
            overflow="fold",
            no_wrap=name not in ("run", "env"),
        )
    for row in rows:
        status = str(row["status"] or "unknown")
        style = "red" if status in FAILURES else STYLES.get(status, "default")
        table.add_row(
            escape(row["name"]),
            escape(str(row["algorithm"] or "-")),
            escape(str(row["env"] or "-")),
            f"[{style}]{escape(status)}[/]",
            figure(row["iteration"]),
            figure(row["timesteps_total"]),
            figure(row["episode_reward_mean"]),
            _ago(row["heartbeat_age_s"]),
        )
    return table


def _ago(seconds: float | None) -> str:
    """Say how long ago, in the largest unit that fits."""
    if seconds is None:
        return "-"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds)} s ago"
