"""Parameters as one flat vector: one array to send, one tensor to optimise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ParameterLayout:
    """Names and shapes of parameters, in the order in which they lie in the vector.

    Attributes
    ----------
    shapes
        Parameter name to shape, ordered.
    """

    shapes: Mapping[str, tuple[int, ...]]

    @property
    def size(self) -> int:
        """Number of parameters in all."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    def views(self, flat: Any) -> dict[str, Any]:
        """Cut a vector into named views that share its memory.

        Parameters
        ----------
        flat
            numpy array or torch tensor `[size]`.
        """
        views, start = {}, 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            views[name] = flat[start:stop].reshape(shape)
            start = stop
        return views

    def pack(self, weights: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Put named arrays into one vector.

        Raises
        ------
        ValueError
            If a name is missing or unknown or a shape differs; names all of them.
        """
        wrong = [f"{name}: unknown" for name in weights if name not in self.shapes]
        for name, shape in self.shapes.items():
            if name not in weights:
                wrong.append(f"{name}: missing")
            elif tuple(np.shape(weights[name])) != shape:
                wrong.append(f"{name}: shape {np.shape(weights[name])}, expected {shape}")
        if wrong:
            raise ValueError("weights do not fit the model: " + "; ".join(wrong))
        flat = np.empty(self.size, np.float32)
        for name, view in self.views(flat).items():
            view[...] = weights[name]
        return flat
