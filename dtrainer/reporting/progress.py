"""How a run goes, on the terminal."""

from __future__ import annotations

import atexit
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dtrainer.reporting.pace import Goal, Pace
from dtrainer.reporting.reporter import Reporter, RunInfo
from dtrainer.reporting.runs import results_folder
from dtrainer.reporting.words import duration, figure, is_number, label

if TYPE_CHECKING:
    from rich.live import Live

NO_EPISODE = "no episode has finished yet"
PARTS = ("environment", "inference", "transfer", "learning", "waiting")
"""Parts of the time that are shown; the rest is summed up as `other`."""
LEAST_OTHER = 0.05
"""Share from which `other` is worth its place on the line."""
REFRESH_PER_S = 2.0
STYLES = {"finished": "bold green", "interrupted": "bold yellow", "failed": "bold red"}


@dataclass(frozen=True)
class Snapshot:
    """The latest result with what was worked out from it; made once, read by the display's thread.

    Attributes
    ----------
    result
        As `train()` returned it.
    steps_per_s
        Over the latest iterations, if known.
    goal
        Nearest stop criterion, if any can be extrapolated.
    at
        When it came, on the reporter's clock.
    """

    result: Mapping[str, Any]
    steps_per_s: float | None
    goal: Goal | None
    at: float


class ProgressReporter(Reporter):
    """Shows a run: a display that renews itself on a terminal, plain lines elsewhere.

    Parameters
    ----------
    console
        Where to; standard error by default.
    every_s
        Seconds between two plain lines, at least.
    clock
        Seconds that only go forward.
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        every_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or Console(stderr=True)
        self._every_s = every_s
        self._clock = clock
        self._live: Live | None = None
        self._info: RunInfo | None = None
        self._pace = Pace({})
        self._started = clock()
        self._last: Snapshot | None = None
        self._printed: Snapshot | None = None
        self._best: tuple[float, int] | None = None
        self._checkpoint: Path | None = None

    # ---- what it is told --------------------------------------------------------------

    def start(self, info: RunInfo) -> None:
        """Say what runs, where and on what; open the display if there is a terminal."""
        self._info = info
        self._started = self._clock()
        self._pace = Pace(info.stop, resumed=info.resumed_from is not None)
        if info.resumed_from is not None:
            self._remember(info)
        for line in introduction(info):
            self._print(line)
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._open_display()

    def result(self, result: dict[str, Any]) -> None:
        """Show an iteration."""
        self._pace.add(result)
        self._keep_best(result)
        self._last = Snapshot(result, self._pace.steps_per_s, self._pace.goal(), self._clock())
        if self._live is None:
            since = None if self._printed is None else self._last.at - self._printed.at
            if since is None or since >= self._every_s:
                self._print_line(self._last)

    def checkpoint(self, path: Path) -> None:
        """Remember the latest checkpoint."""
        self._checkpoint = path

    def end(self, status: str, reason: str) -> None:
        """Close the display; say how the run ended, where everything is, what can be done next."""
        if self._live is None and self._last is not self._printed and self._last is not None:
            self._print_line(self._last)
        self._close_display()
        first = reason.strip().splitlines()[0] if reason.strip() else "no reason is known"
        head = Text(status.capitalize(), STYLES.get(status, "bold"))
        self._print(head.append(f": {first}", "not bold"))
        self._print(f"Return: {self._returns()}")
        if self._info is not None:
            self._print(f"Results: {self._info.directory.path}")
            self._print(f"Checkpoint: {self._checkpoint or 'none has been written'}")
            for line in next_commands(self._info, status, self._checkpoint):
                self._print(f"  {line}")

    # ---- how it goes ------------------------------------------------------------------

    def _remember(self, info: RunInfo) -> None:
        """Take over the best return and the checkpoint of the run's earlier processes."""
        for result in info.directory.results():
            self._keep_best(result)
        name = info.directory.state().get("checkpoint")
        if isinstance(name, str):
            self._checkpoint = info.directory.path / "checkpoints" / name

    def _keep_best(self, result: Mapping[str, Any]) -> None:
        value = result.get("episode_reward_mean")
        if is_number(value) and (self._best is None or value > self._best[0]):
            self._best = (float(value), int(result.get("training_iteration", 0)))

    def _returns(self) -> str:
        if self._best is None:
            return NO_EPISODE
        best = f"best {figure(self._best[0])} (iteration {self._best[1]:,})"
        if self._last is None:
            return best
        last = self._last.result.get("episode_reward_mean")
        return f"{best}, last {figure(last) if is_number(last) else NO_EPISODE}"

    def _elapsed(self) -> float:
        return self._clock() - self._started

    def _print(self, text: str | Text) -> None:
        """Print a line as it is: no markup, no colours of its own, long paths in one piece."""
        whole = Text(text) if isinstance(text, str) else text
        self._console.print(whole, soft_wrap=True, highlight=False)

    def _print_line(self, snapshot: Snapshot) -> None:
        self._printed = snapshot
        asked = 0 if self._info is None else self._info.num_workers
        self._print(plain_line(snapshot, asked, snapshot.at - self._started))

    # ---- the display ------------------------------------------------------------------

    def _open_display(self) -> None:
        from rich.live import Live

        self._live = Live(
            get_renderable=self._render,
            console=self._console,
            refresh_per_second=REFRESH_PER_S,
            vertical_overflow="ellipsis",
        )
        # Another reporter that fails while the run ends must not leave a terminal without cursor.
        atexit.register(self._close_display)
        self._live.start(refresh=True)

    def _close_display(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()
            atexit.unregister(self._close_display)

    def _render(self) -> RenderableType:
        info, snapshot = self._info, self._last
        if info is None:
            return Text("")
        if snapshot is None:
            return Text(f"The first iteration has been running for {duration(self._elapsed())}.")
        width = min(self._console.width, 100)
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True)
        rows.add_column(no_wrap=True, overflow="ellipsis")
        for name, value in figures(snapshot, info.num_workers, self._elapsed()):
            rows.add_row(name, value)
        if self._checkpoint is not None:
            rows.add_row("checkpoint", self._checkpoint.name)
        rows.add_row("directory", crop_left(str(info.directory.path), max(width - 13, 10)))
        if snapshot.goal is None:
            return Group(rows)
        return Group(goal_bar(snapshot, self._clock() - snapshot.at, width), rows)


def introduction(info: RunInfo) -> list[str]:
    """Say what runs, where, on what, from where, until when."""
    actors = {0: "sampling in this process", 1: "1 actor"}.get(
        info.num_workers, f"{info.num_workers} actors"
    )
    lines = [
        f"{info.run} on {info.env}: run {info.name}, learning on {info.device}, {actors}, "
        f"seed {info.seed}"
    ]
    if info.resumed_from is not None:
        lines.append(f"Resumed after iteration {info.resumed_from:,}.")
    lines.append(f"Results: {info.directory.path}")
    criteria = " or ".join(f"{key} ≥ {figure(value)}" for key, value in info.stop.items())
    lines.append(f"Stops when {criteria}." if criteria else "Never stops by itself: press Ctrl-C.")
    return lines


def next_commands(info: RunInfo, status: str, checkpoint: Path | None) -> list[str]:
    """Commands that make sense once a run has ended."""
    path = info.directory.path
    found_by_name = path.parent.resolve() == results_folder(None).resolve()
    lines = [f"dtrainer plot {shlex.quote(info.name if found_by_name else str(path))}"]
    if checkpoint is not None:
        lines.append(f"dtrainer evaluate {shlex.quote(str(path))}")
        if status != "finished":
            lines.append("the same dtrainer train command with --resume goes on")
    return lines


def plain_line(snapshot: Snapshot, actors_asked: int, elapsed_s: float) -> str:
    """Say how an iteration went, in one line."""
    result = snapshot.result
    parts = [
        f"iter {figure(result.get('training_iteration'))}",
        f"steps {figure(result.get('timesteps_total'))}",
    ]
    if snapshot.steps_per_s is not None:
        parts.append(f"{figure(snapshot.steps_per_s, 0)}/s")
    if is_number(result.get("episode_reward_mean")):
        parts.append(f"return {returns(result)}")
        parts.append(f"len {figure(result.get('episode_len_mean'))}")
    else:
        parts.append(NO_EPISODE)
    if actors_asked:
        parts.append(f"actors {result.get('num_healthy_workers', '?')}/{actors_asked}")
    parts.append(duration(elapsed_s))
    goal = snapshot.goal
    if goal is not None and goal.eta_s:
        parts.append(f"{goal.fraction:.0%}, {duration(goal.eta_s)} left")
    return "  ".join(parts)


def figures(
    snapshot: Snapshot, actors_asked: int, elapsed_s: float
) -> list[tuple[str, str | Text]]:
    """Names and values of the display's rows."""
    result = snapshot.result
    steps = figure(result.get("timesteps_total"))
    if snapshot.steps_per_s is not None:
        steps += f"  ({figure(snapshot.steps_per_s, 0)}/s)"
    rows: list[tuple[str, str | Text]] = [
        ("iteration", figure(result.get("training_iteration"))),
        ("steps", steps),
    ]
    if is_number(result.get("episode_reward_mean")):
        rows.append(("return", Text(returns(result), "bold")))
        rows.append(("length", figure(result.get("episode_len_mean"))))
    else:
        rows.append(("return", NO_EPISODE))
    if actors_asked:
        healthy = int(result.get("num_healthy_workers", 0))
        style = "bold red" if healthy < actors_asked else ""
        rows.append(("actors", Text(f"{healthy} of {actors_asked}", style)))
    shares = time_shares(result)
    if shares:
        words = "  ".join(f"{name} {share:.0%}" for name, share in shares.items())
        rows.append(("time", words.replace("environment", "env")))  # fits 80 columns
    rows.append(("elapsed", duration(elapsed_s)))
    return rows


def returns(result: Mapping[str, Any]) -> str:
    """Mean return with its range."""
    low, high = (figure(result.get(f"episode_reward_{end}")) for end in ("min", "max"))
    return f"{figure(result['episode_reward_mean'])} (min {low}, max {high})"


def time_shares(result: Mapping[str, Any]) -> dict[str, float]:
    """Share of each part of an iteration's time, between 0 and 1; empty if it is not known."""
    seconds = {
        name: float(value)
        for name, value in (result.get("time_breakdown_s") or {}).items()
        if is_number(value)
    }
    total = sum(seconds.values())
    if total <= 0:
        return {}
    shares = {name: seconds.get(name, 0.0) / total for name in PARTS}
    other = 1.0 - sum(shares.values())
    return {**shares, "other": other} if other >= LEAST_OTHER else shares


def goal_bar(snapshot: Snapshot, age_s: float, width: int) -> RenderableType:
    """Draw the way to the nearest stop criterion; the time left counts down between results."""
    goal = snapshot.goal
    if goal is None:
        return Text("")
    words = f"{figure(goal.value)} of {figure(goal.target)} {label(goal.key)}"
    if goal.eta_s is not None:
        words += f", {duration(max(goal.eta_s - age_s, 0.0))} left"
    row = Table.grid(padding=(0, 1))
    row.add_column(no_wrap=True)
    row.add_column(no_wrap=True, justify="right")
    row.add_column(no_wrap=True, overflow="ellipsis")
    bar = ProgressBar(total=1.0, completed=goal.fraction, width=max(10, width - len(words) - 7))
    row.add_row(bar, f"{goal.fraction:.0%}", words)
    return row


def crop_left(text: str, width: int) -> str:
    """Shorten a path that is too wide at its beginning: its end tells more."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]
