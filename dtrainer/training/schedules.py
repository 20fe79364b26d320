"""Values that change with the steps sampled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class PiecewiseSchedule:
    """Linear between given points, flat outside.

    Parameters
    ----------
    points
        `[timestep, value]` pairs with rising timesteps; None or empty for a constant.
    constant
        The value where there are no points.
    """

    def __init__(self, points: Sequence[Sequence[float]] | None, constant: float) -> None:
        self._points = points or [[0, constant]]

    def __call__(self, timestep: int) -> float:
        """Value at a number of environment steps."""
        steps, values = zip(*self._points, strict=True)
        return float(np.interp(timestep, steps, values))
