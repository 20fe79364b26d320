"""The commands together, and what is printed when something goes wrong."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import TextIO

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape

from dtrainer import __version__
from dtrainer.cli import config as config_command
from dtrainer.cli import evaluate, list_runs, plot, train
from dtrainer.config import DtrainerError

app = typer.Typer(
    name="dtrainer",
    help="Reinforcement learning on Dask, for Slurm, PBS and one machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("train")(train.command)
app.command("evaluate")(evaluate.command)
app.command("list")(list_runs.command)
app.command("plot")(plot.command)
app.add_typer(config_command.app, name="config")


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"dtrainer {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Take options that belong to no command."""


def run() -> None:
    """Run a command; every error ends in words and an exit code, never in a traceback."""
    warnings.showwarning = _show_warning
    logging.basicConfig(
        format="%(message)s", handlers=[RichHandler(console=Console(stderr=True), show_path=False)]
    )
    try:
        app()
    except DtrainerError as error:
        _fail(error.message, error.hint, error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", None, 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        hint = f"This is a mistake in dtrainer. The traceback is in {_write_traceback(error)}"
        _fail(f"{type(error).__name__}: {error}", hint, 70)


def _fail(message: str, hint: str | None, code: int) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"[bold red]Error:[/] {escape(message)}")
    if hint:
        console.print(escape(hint))
    sys.exit(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print warnings for people as one line; others', such as deprecations, not at all."""
    if category.__module__.startswith("dtrainer.") or issubclass(category, UserWarning):
        Console(stderr=True, soft_wrap=True, highlight=False).print(
            f"[yellow]Warning:[/] {escape(str(message))}"
        )


def _write_traceback(error: Exception) -> Path:
    with tempfile.NamedTemporaryFile(
        "w", prefix="dtrainer-error-", suffix=".log", delete=False
    ) as file:
        file.write("".join(traceback.format_exception(error)))
    return Path(file.name)
