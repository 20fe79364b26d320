"""In continuous integration a test that is skipped counts as failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"

TESTS = """
import pytest

def test_passes():
    pass

def test_is_skipped():
    pytest.skip("the moon is full")

@pytest.mark.xfail(reason="known")
def test_is_expected_to_fail():
    assert False

@pytest.mark.gpu
def test_needs_a_gpu():
    pass
"""

MODULE_THAT_SKIPS_ITSELF = """
import pytest
pytest.importorskip("a_package_that_nobody_has")
"""


def run_pytest(folder: Path, ci: str) -> str:
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    gpu: needs a GPU\n")
    environ = {**os.environ, "CI": ci, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", str(folder)]
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    return done.stdout


@pytest.mark.parametrize(
    ("ci", "expected"),
    [
        ("true", "1 failed, 1 passed, 1 skipped, 1 xfailed"),
        ("", "1 passed, 2 skipped, 1 xfailed"),
    ],
)
def test_a_skip_fails_only_in_ci(tmp_path: Path, ci: str, expected: str) -> None:
    (tmp_path / "test_four.py").write_text(TESTS)
    output = run_pytest(tmp_path, ci)
    assert expected in output
    assert ("the moon is full\nIn continuous integration" in output) == bool(ci)


def test_a_module_that_skips_itself_fails_in_ci(tmp_path: Path) -> None:
    (tmp_path / "test_module.py").write_text(MODULE_THAT_SKIPS_ITSELF)
    assert "1 error" in run_pytest(tmp_path, "true")
    assert "1 skipped" in run_pytest(tmp_path, "")
