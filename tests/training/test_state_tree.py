"""What goes through JSON and arrays comes back bit for bit, of the same types."""

from __future__ import annotations

import io
import json
import math
import struct
from collections import OrderedDict
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dtrainer.training.state_tree import decode, encode


def through_disk(tree: Any) -> Any:
    """Encode, write, read and decode."""
    data, arrays = encode(tree)
    text = json.dumps(data, allow_nan=False)
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return decode(json.loads(text), {name: archive[name] for name in archive.files})


def assert_same(found: Any, expected: Any) -> None:
    """Same types, same order of keys, same bits."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray | np.generic):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, entry in expected.items():
            assert_same(found[key], entry)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, float):
        assert struct.pack("d", found) == struct.pack("d", expected)  # of a nan, too
    else:
        assert found == expected


MARKERS = ("$array", "$int", "$dict", "$float", "$bytes", "$tuple", "$scalar", "$unknown", "$", "")
text = st.one_of(st.sampled_from(MARKERS), st.text(max_size=6))
numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(2**130), max_value=2**130),
    st.floats(),
    st.sampled_from([-0.0, math.inf, -math.inf, math.nan, 5e-324]),
)
dtypes = st.one_of(
    hnp.scalar_dtypes(),  # float16 and both byte orders too
    hnp.unicode_string_dtypes(max_len=4),
    hnp.byte_string_dtypes(max_len=4),
    hnp.array_dtypes(max_size=2),
)
arrays = dtypes.flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    )
)
leaves = st.one_of(st.none(), st.booleans(), numbers, text, st.binary(max_size=8), arrays)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(text, st.integers()), inner, max_size=3),
        st.dictionaries(text, inner, max_size=1),
    ),
    max_leaves=8,
)


@pytest.mark.filterwarnings("ignore:Stored array in format:UserWarning")  # names beyond latin1
@given(trees)
@settings(max_examples=100, deadline=None)
def test_any_tree_comes_back(tree: Any) -> None:
    assert_same(through_disk(tree), tree)


GENERATOR = np.random.Generator(np.random.PCG64(7))
KINDS: dict[str, Any] = {
    "a generator's state, 128 bits": GENERATOR.bit_generator.state,
    "another generator's state": np.random.MT19937(3).state,
    "true and one": [True, 1, 1.0, False, 0],
    "whole numbers as keys": {0: "a", "0": "b", -3: "c", 2**70: "d"},
    "whole numbers of any size": [2**64, -(2**64), 2**20_000, {2**20_000: -(2**20_000)}],
    "another nan": struct.unpack(">d", bytes.fromhex("fff8000000000123"))[0],
    "empty": [(), [], {}, "", b""],
    "nested markers": {"$tuple": {"$dict": [["$array", "0"]]}},
    "marker beside others": {"$array": "0", "$tuple": 1},
    "half of a surrogate": "\ud800",
    "no dimension": np.array(1.5, np.float16),
    "no entries": np.zeros((3, 0, 2), np.int8),
    "scalars": (np.float32(0.1), np.float64(-0.0), np.int64(2**62), np.bool_(True)),
    "text scalars": (np.str_("ab"), np.bytes_(b"ab")),
    "times": np.array(["2024-02-29T12:00", "NaT"], "datetime64[ms]"),
    "a time": np.datetime64("NaT"),
    "spans": np.array([1, -1], "timedelta64[D]"),
    "complex": np.array([complex(math.nan, -0.0)], np.complex64),
    "big end first": np.arange(4, dtype=">i2"),
    "text": np.array(["", "ä\N{SNOWMAN}", "abc"]),
    "structured": np.array(
        [(1, 2.5, [3, 4])], np.dtype([("a", "u1"), ("b", "<f8"), ("c", "<i2", (2,))])
    ),
    "a structured scalar": np.zeros(1, [("a", "<i4")])[0],
    "columns first": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "every second": np.arange(10)[::-2],
    "broadcast": np.broadcast_to(np.float32(1), (2, 3)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_comes_back(kind: str) -> None:
    tree = {"here": [KINDS[kind]], "there": (KINDS[kind],)}
    assert_same(through_disk(tree), tree)


def test_fields_with_padding_come_back() -> None:
    array = np.array([(1, 2.5)], np.dtype([("a", "u1"), ("b", "<f8")], align=True))
    found = through_disk(array)
    assert found.dtype == array.dtype
    assert found.tolist() == array.tolist()


def test_a_restored_generator_goes_on() -> None:
    generator = np.random.default_rng(5)
    generator.random(3)
    restored = np.random.default_rng()
    restored.bit_generator.state = through_disk(generator.bit_generator.state)
    assert restored.random(5).tobytes() == generator.random(5).tobytes()


def test_the_tree_itself_is_left_alone() -> None:
    tree = {"a": [1, (2, {"$array": 3})], 4: np.arange(3)}
    encode(tree)
    assert tree["a"] == [1, (2, {"$array": 3})]
    assert list(tree) == ["a", 4]


class Pair(NamedTuple):
    one: int
    other: int


class Colour(IntEnum):
    RED = 1


REFUSED: dict[str, tuple[Any, str]] = {
    "objects": ({"a": [np.array([None])]}, "state['a'][0] is an array of objects"),
    "objects in a field": (
        {"a": np.zeros(1, [("x", "O")])},
        "state['a'] is an array of objects",
    ),
    "function": ({"a": ({"b": len},)}, "state['a'][0]['b'] is a builtin_function_or_method"),
    "set": ([1, {2}], "state[1] is a set"),
    "object": (object(), "state is a object"),
    "generator": ({3: np.random.default_rng(0)}, "state[3] is a Generator"),
    "masked": ([np.ma.masked_array([1, 2], [0, 1])], "state[0] is a MaskedArray"),
    "records": ([np.rec.array([(1, 2.0)])], "state[0] is a recarray"),
    "named tuple": ([Pair(1, 2)], "state[0] is a Pair"),
    "ordered": ([OrderedDict(a=1)], "state[0] is a OrderedDict"),
    "enumeration": ([Colour.RED], "state[0] is a Colour"),
    "enumeration as a key": ({Colour.RED: 1}, "state has the key <Colour.RED: 1>"),
    "text of variable width": (
        [np.array(["a"], np.dtypes.StringDType())],
        "state[0] is an array of objects",
    ),
    "key": ({"a": {(1, 2): 3}}, "state['a'] has the key (1, 2)"),
    "boolean key": ({True: 3}, "state has the key True"),
    "no key": ({None: 3}, "state has the key None"),
    "fraction as a key": ({"$x": {0.5: 3}}, "state['$x'] has the key 0.5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_saved_is_named_with_its_place(case: str) -> None:
    tree, words = REFUSED[case]
    with pytest.raises(TypeError) as caught:
        encode(tree)
    assert words in str(caught.value)
