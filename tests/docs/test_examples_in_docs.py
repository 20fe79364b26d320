"""What README.md and docs/ tell people to write is right."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


def blocks(language: str) -> list[ParameterSet]:
    return [
        pytest.param(text, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (found, text) in enumerate(FENCE.findall(page.read_text()), start=1)
        if found == language
    ]


@pytest.mark.parametrize("text", blocks("yaml"))
def test_experiments_load(text: str, tmp_path: Path) -> None:
    from dtrainer.algorithms import get_config_class
    from dtrainer.config import load_experiments

    if "run:" not in text:  # a section alone: complete it
        text = "run: PPO\nenv: CartPole-v1\n" + text
    path = tmp_path / "experiment.yaml"
    path.write_text(text)
    [experiment] = load_experiments(path, config_class=get_config_class)
    assert experiment.run == "PPO"


@pytest.mark.parametrize("text", blocks("python"))
def test_python_compiles_and_imports_what_exists(text: str) -> None:
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), "documentation", "exec"), {})


@pytest.mark.parametrize("text", blocks("bash"))
def test_commands_exist(text: str) -> None:
    from typer.main import get_command

    from dtrainer.cli.app import app

    commands = get_command(app).commands  # type: ignore[attr-defined]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["make"]:
            assert set(words[1:]) <= targets
        if words[:1] == ["dtrainer"]:
            command = commands[words[1]]
            if hasattr(command, "commands"):
                command = command.commands[words[2]]
            options = {option for each in command.params for option in each.opts}
            assert {word for word in words[2:] if word.startswith("-")} <= options


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, _ in LINK.findall(page.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


def test_constraints_name_released_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    assert "torch==2.13.0" in pins
