"""Learning curves of runs, as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dtrainer.config.errors import ResultsError
from dtrainer.reporting.files import numbers
from dtrainer.reporting.runs import RunDirectory
from dtrainer.reporting.words import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RETURN = "episode_reward_mean"
RANGE = ("episode_reward_min", "episode_reward_max")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Told apart by colour-blind people too (Okabe and Ito, https://jfly.uni-koeln.de/color/)."""
LINE_STYLES = ("-", "--", ":")
MOST_SHADED = 3
"""Runs in one picture whose ranges are still told apart."""


@dataclass(frozen=True)
class Curve:
    """What is drawn of a run.

    Attributes
    ----------
    run
        The run.
    x, y
        Float64 of shape (points,), in the order of the results that have both.
    low, high
        Lowest and highest return at the same points; None if `y` is not the mean return.
    """

    run: RunDirectory
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64] | None = None
    high: npt.NDArray[np.float64] | None = None


def learning_curve(
    runs: Sequence[RunDirectory],
    output: Path,
    *,
    x: str = "timesteps_total",
    y: str = RETURN,
    smooth: int = 0,
) -> Path:
    """Draw runs in one picture.

    Parameters
    ----------
    runs
        At least one.
    output
        The picture; its suffix says the format (`.png`, `.pdf`, `.svg`). It is replaced.
    x, y
        Result keys, nested by `/` or `.`.
    smooth
        Results that are averaged, each with those before it; 0 and 1 draw what was measured.

    Returns
    -------
    The picture's path.

    Raises
    ------
    ResultsError
        If a run has no results or no numbers under a key, or the picture cannot be written.
    """
    if not runs:
        raise ResultsError("there is no run to draw", hint="Name one or more runs.")
    if smooth < 0:
        raise ResultsError(f"smooth: expected 0 or more results to average, found {smooth}")
    figure = draw([read_curve(run, x, y) for run in runs], x=x, y=y, smooth=smooth)
    known = sorted(figure.canvas.get_supported_filetypes())
    suffix = output.suffix.lstrip(".").lower()
    if suffix not in known:
        raise ResultsError(
            f"cannot draw into {output}: {suffix or 'a name without suffix'} is no picture format",
            hint=f"Formats: {', '.join(known)}.",
        )
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(output, dpi=150)
    except OSError as error:
        raise ResultsError(
            f"cannot write {output}: {error.strerror or error}",
            hint="Choose another place by --output.",
        ) from error
    return output


def read_curve(run: RunDirectory, x: str, y: str) -> Curve:
    """Read two keys of a run's results.

    Raises
    ------
    ResultsError
        If there are no results, or none that has numbers under both keys; names the keys there are.
    """
    x, y = x.replace(".", "/"), y.replace(".", "/")
    raw = list(run.results())
    if not raw:
        raise ResultsError(
            f"run {run.path.name!r} has no results yet",
            hint=f"Its first iteration has not ended, or did not get that far: see {run.path}.",
        )
    records = [numbers(result) for result in raw]
    for key in (x, y):
        if not any(key in record for record in records):
            raise _no_numbers(run, key, raw, records)
    both = [record for record in records if x in record and y in record]
    if not both:
        raise ResultsError(f"run {run.path.name!r} has no result with both {x!r} and {y!r}")
    low = high = None
    if y == RETURN and all(key in record for record in both for key in RANGE):
        low, high = (np.array([record[key] for record in both], np.float64) for key in RANGE)
    along, up = (np.array([record[key] for record in both], np.float64) for key in (x, y))
    return Curve(run, along, up, low, high)


def _no_numbers(
    run: RunDirectory,
    key: str,
    raw: Sequence[Mapping[str, Any]],
    records: Sequence[Mapping[str, float]],
) -> ResultsError:
    from dtrainer.config.mistakes import nearest

    count = f"{len(raw)} result{'s' if len(raw) > 1 else ''}"
    if key in raw[-1] and raw[-1][key] is None:
        why = ": no episode has finished yet" if key.startswith("episode_") else ""
        return ResultsError(f"run {run.path.name!r} has no number under {key!r} in {count}{why}")
    keys = sorted(set().union(*records))
    meant = nearest(key, keys)
    question = f"Did you mean {meant!r}? " if meant else ""
    return ResultsError(
        f"run {run.path.name!r} has no key {key!r} with numbers in {count}",
        hint=f"{question}There are: {', '.join(keys)}.",
    )


def running_mean(values: npt.NDArray[np.float64], window: int) -> npt.NDArray[np.float64]:
    """Mean of each value and those before it, `window` at most."""
    if window <= 1:
        return values
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    means: npt.NDArray[np.float64] = (sums[ends] - sums[starts]) / (ends - starts)
    return means


def draw(curves: Sequence[Curve], *, x: str, y: str, smooth: int = 0) -> Figure:
    """Draw curves into a figure that belongs to no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shaded = len(curves) <= MOST_SHADED and any(curve.low is not None for curve in curves)
    for number, (curve, name) in enumerate(zip(curves, _names(curves), strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        if shaded:
            _shade(axes, curve, colour, alone=len(curves) == 1)
        if smooth > 1 and len(curves) == 1:  # a label that begins with _ stays out of the legend
            axes.plot(curve.x, curve.y, color=colour, alpha=0.35, linewidth=0.9, label=f"_{name}")
        _draw_line(axes, curve, name, number, smooth)
    _dress(axes, x, y)
    axes.set_title(_title(curves), loc="left", fontsize=12, fontweight="bold", pad=10)
    notes = [f"mean of {smooth} results"] if smooth > 1 else []
    notes += ["shaded: lowest to highest return"] if shaded else []
    if notes:
        figure.supxlabel(", ".join(notes), x=0.99, ha="right", fontsize=8.5, color="#777777")
    if len(curves) > 1:
        axes.legend(framealpha=0.8, edgecolor="none", fontsize=9, ncols=1 + len(curves) // 9)
    return figure


def _shade(axes: Axes, curve: Curve, colour: str, *, alone: bool) -> None:
    """Shade between the lowest and the highest return."""
    if curve.low is not None and curve.high is not None:
        alpha = 0.14 if alone else 0.06
        axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=alpha, linewidth=0)


def _draw_line(axes: Axes, curve: Curve, name: str, number: int, smooth: int) -> None:
    axes.plot(
        curve.x,
        running_mean(curve.y, smooth),
        color=COLOURS[number % len(COLOURS)],
        linestyle=LINE_STYLES[number // len(COLOURS) % len(LINE_STYLES)],
        linewidth=1.8,
        marker="o" if len(curve.x) == 1 else None,
        label=name,
        solid_capstyle="round",
    )


def _dress(axes: Axes, x: str, y: str) -> None:
    """Give axes names, thousands separators and a grid that stays in the background."""
    from matplotlib.ticker import FuncFormatter

    axes.set_xlabel(_capital(label(x)))
    axes.set_ylabel(_capital(label(y)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_tick))
    axes.grid(True, color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
    if axes.dataLim.x0 >= 0:
        axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    axes.tick_params(color="#999999", labelcolor="#333333")


def _tick(value: float, position: int | None = None) -> str:
    """Write a tick with thousands separators; small ones in six significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def _capital(text: str) -> str:
    return text if "/" in text or "_" in text else text[:1].upper() + text[1:]


def _names(curves: Sequence[Curve]) -> list[str]:
    """Names of the runs; paths where two have the same."""
    names = [curve.run.path.name for curve in curves]
    return [
        name if names.count(name) == 1 else str(curve.run.path)
        for name, curve in zip(names, curves, strict=True)
    ]


def _title(curves: Sequence[Curve]) -> str:
    states = [curve.run.state() for curve in curves]
    algorithms = {state.get("run") for state in states}
    envs = {state.get("env") for state in states}
    if len(curves) == 1 and None in algorithms | envs:
        return curves[0].run.path.name
    if len(algorithms) == len(envs) == 1 and None not in algorithms | envs:
        text = f"{algorithms.pop()} on {envs.pop()}"
        return f"{text}: {curves[0].run.path.name}" if len(curves) == 1 else text
    return str(envs.pop()) if len(envs) == 1 and None not in envs else "Learning curves"
