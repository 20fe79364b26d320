"""Damaged checkpoints, forged ones and other things: all are told apart, and named."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtrainer.config.errors import CheckpointError
from dtrainer.training.checkpoint import (
    FORMAT_VERSION,
    latest_checkpoint,
    list_checkpoints,
    read_checkpoint,
    read_metadata,
)
from tests.training.checkpoints import assert_is, names, write

# ---- damage --------------------------------------------------------------------------


def edit_metadata(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    metadata = json.loads((path / "metadata.json").read_text())
    change(metadata)
    (path / "metadata.json").write_text(json.dumps(metadata))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def lead_outside(path: Path) -> None:
    (path.parent / "secret").write_text("x")
    entry = {"bytes": 1, "sha256": "0"}
    edit_metadata(path, lambda m: m["files"].update({"../secret": entry}))


def link_outside(path: Path) -> None:
    shutil.move(path / "arrays.npz", path.parent / "arrays.npz")
    (path / "arrays.npz").symlink_to(path.parent / "arrays.npz")


TENSORS = "policies/default_policy.safetensors"
DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "state missing": (lambda p: (p / "state.json").unlink(), "state.json is missing"),
    "arrays missing": (lambda p: (p / "arrays.npz").unlink(), "arrays.npz is missing"),
    "weights missing": (lambda p: (p / TENSORS).unlink(), f"{TENSORS} is missing"),
    "folder missing": (lambda p: shutil.rmtree(p / "policies"), "is missing"),
    "metadata missing": (lambda p: (p / "metadata.json").unlink(), "metadata.json is missing"),
    "state truncated": (lambda p: truncate(p / "state.json"), "state.json has"),
    "weights truncated": (lambda p: truncate(p / TENSORS), "bytes, expected"),
    "arrays empty": (lambda p: os.truncate(p / "arrays.npz", 0), "has 0 bytes, expected"),
    "state flipped": (lambda p: flip(p / "state.json"), "checksum of state.json"),
    "arrays flipped": (lambda p: flip(p / "arrays.npz"), "checksum of arrays.npz"),
    "weights flipped": (lambda p: flip(p / TENSORS), f"checksum of {TENSORS}"),
    "metadata cut": (lambda p: truncate_half(p / "metadata.json"), "it is no JSON"),
    "metadata empty": (lambda p: os.truncate(p / "metadata.json", 0), "it is no JSON"),
    "metadata binary": (lambda p: (p / "metadata.json").write_bytes(b"\xff\0"), "it is no JSON"),
    "metadata a list": (
        lambda p: (p / "metadata.json").write_text("[1]"),
        "not that of a dtrainer checkpoint",
    ),
    "another's metadata": (
        lambda p: (p / "metadata.json").write_text('{"format": "other"}'),
        "not that of a dtrainer checkpoint",
    ),
    "newer": (
        lambda p: edit_metadata(p, lambda m: m.update(format_version=FORMAT_VERSION + 1)),
        f"format {FORMAT_VERSION + 1}, this dtrainer reads up to {FORMAT_VERSION}",
    ),
    "newer, otherwise laid out": (
        lambda p: (p / "metadata.json").write_text(
            '{"format": "dtrainer-checkpoint", "format_version": 99}'
        ),
        "format 99",
    ),
    "no version": (lambda p: edit_metadata(p, lambda m: m.pop("format_version")), "format_version"),
    "no iteration": (lambda p: edit_metadata(p, lambda m: m.pop("iteration")), "iteration"),
    "no table": (lambda p: edit_metadata(p, lambda m: m.pop("files")), "files"),
    "table of lists": (lambda p: edit_metadata(p, lambda m: m.update(files=[])), "files"),
    "state not listed": (
        lambda p: edit_metadata(p, lambda m: m["files"].pop("state.json")),
        "does not list state.json",
    ),
    "entry without size": (
        lambda p: edit_metadata(p, lambda m: m["files"]["state.json"].pop("bytes")),
        "entry of state.json",
    ),
    "entry a number": (
        lambda p: edit_metadata(p, lambda m: m["files"].update({"state.json": 3})),
        "entry of state.json",
    ),
    "outside": (lead_outside, "names a file outside of itself: ../secret"),
    "outside, absolute": (
        lambda p: edit_metadata(p, lambda m: m["files"].update({"/etc/passwd": {}})),
        "/etc/passwd",
    ),
    "outside, by a link": (link_outside, "outside of itself"),
    "zero in a name": (
        lambda p: edit_metadata(
            p, lambda m: m["files"].update({"a\0": {"bytes": 1, "sha256": ""}})
        ),
        "is damaged",
    ),
}


def truncate_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("case", DAMAGES)
def test_damage_is_named_and_passed_over(
    case: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage, words = DAMAGES[case]
    intact, damaged = write(tmp_path, 1), write(tmp_path, 2)
    damage(damaged)
    with pytest.raises(CheckpointError) as caught:
        read_checkpoint(damaged)
    assert words in caught.value.message
    assert str(damaged) in caught.value.message
    with caplog.at_level(logging.WARNING):
        assert latest_checkpoint(tmp_path) == intact
    assert words in caplog.text or "metadata.json" in caplog.text
    assert "passing over" in caplog.text
    assert_is(tmp_path, 1)


FORGED = {
    "no text": '{"$float": [1]}',
    "too short": '{"$float": "00"}',
    "no entries": '{"$tuple": 3}',
    "no pairs": '{"$dict": [1]}',
    "a list as a key": '{"$dict": [[[1], 2]]}',
    "no base 64": '{"$bytes": 3}',
    "no such array": '{"$array": "9"}',
    "no such marker": '{"$pickle": "x"}',
    "very deep": "[" * 100_000,
}


@pytest.mark.parametrize("case", FORGED)
def test_files_of_another_s_making_with_right_checksums(case: str, tmp_path: Path) -> None:
    path, text = write(tmp_path, 1), FORGED[case]
    (path / "state.json").write_text(text)
    entry = {"bytes": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    edit_metadata(path, lambda m: m["files"].update({"state.json": entry}))
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_checkpoint(path)


def test_arrays_with_a_pickle_in_them_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    np.savez(path / "arrays.npz", **{"0": np.array([tmp_path], object)})
    data = (path / "arrays.npz").read_bytes()
    entry = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    edit_metadata(path, lambda m: m["files"].update({"arrays.npz": entry}))
    with pytest.raises(CheckpointError, match="allow_pickle=False"):
        read_checkpoint(path)


def test_weights_that_are_not_listed_are_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    shutil.copy(path / TENSORS, path / "policies" / "stranger.safetensors")
    assert_is(path, 1)


def test_all_damaged(tmp_path: Path) -> None:
    for number in (1, 2):
        flip(write(tmp_path, number) / "arrays.npz")
    assert latest_checkpoint(tmp_path) is None
    with pytest.raises(CheckpointError, match=r"every checkpoint in .* is damaged"):
        read_checkpoint(tmp_path)


# ---- something else than a checkpoint -------------------------------------------------


def test_a_run_and_its_folder_stand_for_the_newest_intact_one(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "checkpoints"
    write(directory, 1)
    newest = write(directory, 2)
    for path in (tmp_path / "run", directory, newest, str(newest)):
        assert read_checkpoint(path).path == newest
        assert read_metadata(path)["iteration"] == 2
    flip(newest / "state.json")
    assert_is(tmp_path / "run", 1)


def test_a_renamed_checkpoint_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, 2)
    assert_is(path.rename(tmp_path / "best"), 2)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.pt"
    path.write_text("x")
    with pytest.raises(CheckpointError, match="not a checkpoint: it is a file") as caught:
        read_checkpoint(path)
    assert "checkpoint_000010" in str(caught.value.hint)


def test_an_unrelated_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(CheckpointError, match=r"a folder without metadata\.json, with notes\.txt"):
        read_checkpoint(tmp_path)
    assert latest_checkpoint(tmp_path) is None
    assert names(tmp_path) == ["notes.txt"]


def test_a_run_without_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "nowhere/checkpoint_000001", "checkpoint_000001"])
def test_nothing_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match="does not exist"):
        read_checkpoint(tmp_path / name)
    assert latest_checkpoint(tmp_path / name) is None
    assert list_checkpoints(tmp_path / name) == []
