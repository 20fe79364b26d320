"""Nested plain data on disk: JSON with the arrays beside it, without pickle.

A tree of dicts (keys strings or whole numbers), lists, tuples, None, booleans, whole numbers of
any size, floats (also nan and infinities), strings, bytes and numpy arrays comes back bit for
bit. What JSON has no word for is written as a mapping with the single key `$<kind>`. Subclasses
(named tuples, ordered dicts, masked arrays) are refused: they would come back as another type.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

_LONG = 64
"""Bits from which a whole number is written in base 16: Python limits the digits in base 10."""


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
    kind = type(node)
    if kind is np.ndarray or isinstance(node, np.generic):
        return _encode_array(node, place, arrays)
    if node is None or kind in (bool, str):
        return node
    if kind is int:
        return node if node.bit_length() <= _LONG else {"$int": hex(node)}
    if kind is float:  # the bits: there is more than one nan
        return node if math.isfinite(node) else {"$float": struct.pack(">d", node).hex()}
    if kind is bytes:
        return {"$bytes": base64.b64encode(node).decode("ascii")}
    if kind in (list, tuple):
        entries = [_encode(entry, f"{place}[{i}]", arrays) for i, entry in enumerate(node)]
        return entries if kind is list else {"$tuple": entries}
    if kind is dict:
        return _encode_dict(node, place, arrays)
    raise TypeError(f"{place} is a {kind.__name__}: it cannot be saved without pickle")


def _encode_array(node: Any, place: str, arrays: Arrays) -> dict[str, str]:
    array = np.asarray(node)
    if array.dtype.hasobject:
        raise TypeError(f"{place} is an array of objects: it cannot be saved without pickle")
    name = str(len(arrays))
    arrays[name] = array
    return {"$scalar" if isinstance(node, np.generic) else "$array": name}


def _encode_dict(node: dict[Any, Any], place: str, arrays: Arrays) -> dict[str, Any]:
    plain = all(type(key) is str for key in node)
    if plain and not (len(node) == 1 and next(iter(node)).startswith("$")):
        return {key: _encode(node[key], f"{place}[{key!r}]", arrays) for key in node}
    pairs = []
    for key, value in node.items():
        if type(key) not in (str, int):
            raise TypeError(f"{place} has the key {key!r}: expected a string or a whole number")
        written = _encode(key, place, arrays)  # a long number is no JSON number
        pairs.append([written, _encode(value, f"{place}[{written!r}]", arrays)])
    return {"$dict": pairs}


_DECODERS: dict[str, Callable[[Any, Arrays], Any]] = {
    "$int": lambda value, arrays: int(value, 16),
    "$float": lambda value, arrays: struct.unpack(">d", bytes.fromhex(value))[0],
    "$bytes": lambda value, arrays: base64.b64decode(value),
    "$tuple": lambda value, arrays: tuple(decode(entry, arrays) for entry in value),
    "$dict": lambda value, arrays: {decode(k, arrays): decode(entry, arrays) for k, entry in value},
    "$array": lambda value, arrays: arrays[value],
    "$scalar": lambda value, arrays: arrays[value][()],
}
