"""Rules that hold for every test."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")  # no test opens a window
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

IN_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}


@pytest.fixture(autouse=True)
def _results_stay_in_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a developer's own results folder out of the tests."""
    monkeypatch.delenv("DTRAINER_RESULTS", raising=False)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None:
        return
    import torch  # not needed by the tests that have no such mark

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not IN_CI or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = (
        f"{reason}\nIn continuous integration a skipped test is a failure: install what it "
        "needs, or mark it `gpu` if it needs one."
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.get_closest_marker("gpu") is None:
        _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_if_skipped(report)
    return report
