"""The command line: one file a command."""

from __future__ import annotations


def main() -> None:
    """Run the command line: the entry point `dtrainer`."""
    from dtrainer.cli.app import run

    run()
