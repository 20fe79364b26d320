"""Nested plain data on disk: JSON with the arrays beside it, without pickle.

A tree of dicts (keys strings or whole numbers), lists, tuples, None, booleans, whole numbers of
any size, floats (also nan and infinities), strings, bytes and numpy arrays comes back bit for
bit. What JSON has no word for is written as a mapping with the single key `$<kind>`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def encode(tree: Any) -> tuple[Any, Arrays]:
    """Take a tree apart into JSON data and arrays by number.

    Raises
    ------
    TypeError
        If something in it is of another kind; names its place.
    """
    arrays: Arrays = {}
    return _encode(tree, "state", arrays), arrays


def decode(data: Any, arrays: Arrays) -> Any:
    """Put together what `encode` took apart."""
    if isinstance(data, list):
        return [decode(entry, arrays) for entry in data]
    if not isinstance(data, dict):
        return data
    if len(data) == 1:
        (key, value), *_ = data.items()
        if key.startswith("$"):
            return _DECODERS[key](value, arrays)
    return {key: decode(value, arrays) for key, value in data.items()}


def _encode(node: Any, place: str, arrays: Arrays) -> Any:
    if isinstance(
        node, np.ndarray | np.generic
    ):  # first: numpy's text and floats are Python's, too
        return _encode_array(node, place, arrays)
    if node is None or isinstance(node, bool | str):
        return node
    if isinstance(node, int):
        return int(node)
    if isinstance(node, float):
        return node if math.isfinite(node) else {"$float": repr(node)}
    if isinstance(node, bytes):
        return {"$bytes": base64.b64encode(node).decode("ascii")}
    if isinstance(node, list):
        return [_encode(entry, f"{place}[{i}]", arrays) for i, entry in enumerate(node)]
    if isinstance(node, tuple):
        return {"$tuple": [_encode(entry, f"{place}[{i}]", arrays) for i, entry in enumerate(node)]}
    if isinstance(node, dict):
        return _encode_dict(node, place, arrays)
    raise TypeError(f"{place} is a {type(node).__name__}: it cannot be saved without pickle")


def _encode_array(node: Any, place: str, arrays: Arrays) -> dict[str, str]:
    if isinstance(node, np.ma.MaskedArray):
        raise TypeError(f"{place} is a {type(node).__name__}: its mask would be lost")
    array = np.asarray(node)
    if array.dtype.hasobject:
        raise TypeError(f"{place} is an array of objects: it cannot be saved without pickle")
    name = str(len(arrays))
    arrays[name] = array
    return {"$scalar" if isinstance(node, np.generic) else "$array": name}


def _encode_dict(node: dict[Any, Any], place: str, arrays: Arrays) -> dict[str, Any]:
    plain = all(isinstance(key, str) for key in node)
    if plain and not (len(node) == 1 and next(iter(node)).startswith("$")):
        return {key: _encode(node[key], f"{place}[{key!r}]", arrays) for key in node}
    pairs = []
    for key, value in node.items():
        if not isinstance(key, str | int) or isinstance(key, bool):
            raise TypeError(f"{place} has the key {key!r}: expected a string or a whole number")
        pairs.append([key, _encode(value, f"{place}[{key!r}]", arrays)])
    return {"$dict": pairs}


_DECODERS: dict[str, Callable[[Any, Arrays], Any]] = {
    "$float": lambda value, arrays: float(value),
    "$bytes": lambda value, arrays: base64.b64decode(value),
    "$tuple": lambda value, arrays: tuple(decode(entry, arrays) for entry in value),
    "$dict": lambda value, arrays: {key: decode(entry, arrays) for key, entry in value},
    "$array": lambda value, arrays: arrays[value],
    "$scalar": lambda value, arrays: arrays[value][()],
}
