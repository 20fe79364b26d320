"""When a run is done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


class StopCriteria:
    """Stops when any result key has reached its value.

    Parameters
    ----------
    criteria
        Result key to number; nested keys with `/` or `.` between. Empty: never.
    """

    def __init__(self, criteria: Mapping[str, float]) -> None:
        self.criteria = dict(criteria)

    def reached(self, result: Mapping[str, Any]) -> str | None:
        """First criterion that a result fulfils, in words; None to go on."""
        for key, value in self.criteria.items():
            found = lookup(result, key)
            if found is not None and not math.isnan(found) and found >= value:
                return f"{key} = {found:g} reached {value:g}"
        return None


def lookup(result: Mapping[str, Any], key: str) -> float | None:
    """Number under a key of a result, nested by `/` or `.`; None if there is none."""
    value: Any = result
    for part in key.replace("/", ".").split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return float(value) if isinstance(value, int | float) else None
