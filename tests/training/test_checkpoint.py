"""Checkpoints: there whole or not at all, and every damage is noticed and named."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import multiprocessing
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from safetensors.numpy import load_file

from dtrainer.config.errors import CheckpointError
from dtrainer.training.checkpoint import (
    FORMAT_VERSION,
    latest_checkpoint,
    list_checkpoints,
    read_checkpoint,
    read_metadata,
    write_checkpoint,
)

HOST = socket.gethostname()
GONE = 2**22 + 1
"""No process has this id: it is above the limit of Linux."""


def weights_of(number: int) -> dict[str, dict[str, np.ndarray]]:
    rng = np.random.default_rng(number)
    return {
        "default_policy": {
            "fc.weight": rng.normal(size=(4, 3)).astype(np.float32),
            "log_alpha": np.array(number, np.float32),
            "half": rng.normal(size=5).astype(np.float16),
            "columns": np.asfortranarray(rng.normal(size=(2, 3))),
            "none": np.zeros((0, 3), np.float32),
        },
        "red/team ü.1": {"b": np.arange(number, dtype=np.int64)},
    }


def state_of(number: int) -> dict[str, Any]:
    return {"iteration": number, "rng": np.random.PCG64(number).state, "a": np.arange(number)}


def write(directory: Path, number: int, *, keep: int | None = None, state: Any = None) -> Path:
    return write_checkpoint(
        directory,
        number,
        state_of(number) if state is None else state,
        weights=weights_of(number),
        metadata={"algorithm": "PPO", "config": {"lr": 0.1}},
        keep=keep,
    )


def assert_is(path: Path, number: int) -> None:
    """Whether everything that was written for an iteration is read from a path."""
    found = read_checkpoint(path)
    assert found.iteration == number
    assert found.state["rng"] == state_of(number)["rng"]
    assert np.array_equal(found.state["a"], np.arange(number))
    expected = weights_of(number)
    assert found.weights.keys() == expected.keys()
    for policy_id, named in expected.items():
        assert found.weights[policy_id].keys() == named.keys()
        for name, array in named.items():
            read = found.weights[policy_id][name]
            assert (read.dtype, read.shape) == (array.dtype, array.shape), name
            assert read.tobytes() == array.tobytes(), name


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# ---- writing and reading -------------------------------------------------------------


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "run" / "checkpoints", 3)
    assert path.name == "checkpoint_000003"
    assert_is(path, 3)
    metadata = read_metadata(path)
    assert metadata["algorithm"] == "PPO"
    assert metadata["config"] == {"lr": 0.1}
    assert metadata["format_version"] == FORMAT_VERSION
    assert metadata["versions"]["numpy"] == np.__version__
    assert set(metadata["versions"]) == {"python", "dtrainer", "torch", "numpy", "gymnasium"}
    assert metadata["created"].endswith("+00:00")
    assert read_checkpoint(path).metadata == metadata


def test_without_weights(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 1, None, weights={}, metadata={})
    assert read_checkpoint(path).weights == {}
    assert read_checkpoint(path).state is None


def test_only_the_latest_are_kept(tmp_path: Path) -> None:
    for number in range(1, 6):
        write(tmp_path, number, keep=2)
    assert names(tmp_path) == ["checkpoint_000004", "checkpoint_000005"]


def test_the_newest_stays_even_when_none_are_to_be_kept(tmp_path: Path) -> None:
    for number in (1, 2):
        write(tmp_path, number, keep=0)
    assert names(tmp_path) == ["checkpoint_000002"]


def test_all_are_kept_unless_told(tmp_path: Path) -> None:
    for number in (10, 9, 1_000_000):
        write(tmp_path, number)
    assert [path.name for path in list_checkpoints(tmp_path)] == [
        "checkpoint_000009",
        "checkpoint_000010",
        "checkpoint_1000000",
    ]
    assert_is(tmp_path, 1_000_000)


def test_the_one_just_written_is_never_pruned(tmp_path: Path) -> None:
    for number in (10, 20, 30):
        write(tmp_path, number)
    written = write(tmp_path, 5, keep=1)  # a run that was taken back
    assert_is(written, 5)


def test_the_same_iteration_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, 4, state={"first": True})
    path = write(tmp_path, 4, state={"first": False})
    assert read_checkpoint(path).state == {"first": False}
    assert names(tmp_path) == ["checkpoint_000004"]


def test_a_failed_replacement_leaves_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 4)
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if ".tmp-" in self.name:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(CheckpointError, match="Input/output error"):
        write(tmp_path, 4)
    assert names(tmp_path) == ["checkpoint_000004"]
    assert_is(tmp_path, 4)


def test_a_state_that_cannot_be_saved_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with pytest.raises(TypeError, match=r"state\['f'\]"):
        write(tmp_path, 2, state={"f": print})
    assert names(tmp_path) == ["checkpoint_000001"]


@pytest.mark.parametrize("policy_id", ["", ".", "..", "a.b", "../up", ".safetensors", "%2F"])
def test_any_policy_id_comes_back(tmp_path: Path, policy_id: str) -> None:
    weights = {policy_id: {"w": np.ones(2)}}
    path = write_checkpoint(tmp_path, 1, None, weights=weights, metadata={})
    assert read_checkpoint(path).weights.keys() == {policy_id}
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("dtype", [np.complex128, "U3", np.longdouble, object])
def test_weights_that_safetensors_does_not_know_are_named(tmp_path: Path, dtype: Any) -> None:
    weights = {"red": {"w": np.zeros(2, dtype)}}
    with pytest.raises(TypeError, match=r"weights\['red'\]\['w'\] is of dtype"):
        write_checkpoint(tmp_path, 1, None, weights=weights, metadata={})
    assert names(tmp_path) == []


def test_metadata_cannot_pass_for_the_format_s_own(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\['format', 'iteration'\]"):
        write_checkpoint(
            tmp_path, 1, None, weights={}, metadata={"format": "x", "iteration": 9, "env": "y"}
        )
    assert names(tmp_path) == []


def test_every_file_opens_without_pickle(tmp_path: Path) -> None:
    path = write(tmp_path, 2)
    files = [file for file in path.rglob("*") if file.is_file()]
    assert len(files) == 5
    for file in files:
        if file.suffix == ".json":
            json.loads(file.read_text())
        elif file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as archive:
                assert all(not archive[name].dtype.hasobject for name in archive.files)
        else:
            assert file.suffix == ".safetensors"
            with safetensors.safe_open(file, "numpy") as opened:
                assert list(opened.keys())


def test_weights_open_with_safetensors_alone(tmp_path: Path) -> None:
    path = write(tmp_path, 2)
    loaded = load_file(path / "policies" / "default_policy.safetensors")
    expected = weights_of(2)["default_policy"]
    assert loaded.keys() == expected.keys()
    assert np.array_equal(loaded["fc.weight"], expected["fc.weight"])


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


# ---- writers that were ended ---------------------------------------------------------


@pytest.mark.parametrize("owner", [f"{GONE}", f"{GONE}-ab@{HOST}", f"{GONE}-ab@another-host"])
@pytest.mark.parametrize("repair", [latest_checkpoint, read_checkpoint, "by name", "writer"])
def test_a_crash_between_the_two_renames_is_repaired(
    tmp_path: Path, owner: str, repair: Any
) -> None:
    path = write(tmp_path, 3)
    path.rename(tmp_path / f".{path.name}.old-{owner}")
    assert list_checkpoints(tmp_path) == []
    if repair == "by name":
        read_checkpoint(path)
    elif repair == "writer":
        write(tmp_path, 4)
    else:
        repair(tmp_path)
    assert_is(path, 3)
    assert not [name for name in names(tmp_path) if name.startswith(".")]


def test_what_a_killed_writer_replaced_goes_once_the_new_one_is_there(tmp_path: Path) -> None:
    path = write(tmp_path, 3)
    shutil.copytree(path, tmp_path / f".{path.name}.old-{GONE}-ab@{HOST}")
    latest_checkpoint(tmp_path)
    assert names(tmp_path) == [path.name]


def test_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    aside = [
        tmp_path / f".checkpoint_000009.tmp-{os.getppid()}-ab@{HOST}",
        tmp_path / ".checkpoint_000009.tmp-7-ab@another-host",
    ]
    for path in aside:
        path.mkdir()
    write(tmp_path, 1)
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint_000001"
    assert all(path.is_dir() for path in aside)


def test_reading_leaves_what_a_thread_of_ours_writes_alone(tmp_path: Path) -> None:
    write(tmp_path, 1)
    done = threading.Event()
    failures: list[CheckpointError] = []

    def write_on() -> None:
        try:
            for number in range(2, 20):
                write(tmp_path, number, keep=None, state={"a": np.zeros(20_000)})
        except CheckpointError as error:
            failures.append(error)
        finally:
            done.set()

    writer = threading.Thread(target=write_on)
    writer.start()
    while not done.is_set():
        assert latest_checkpoint(tmp_path) is not None
    writer.join(30)
    assert not failures
    assert len(names(tmp_path)) == 19


def test_what_an_earlier_process_with_our_id_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / f".checkpoint_000009.tmp-{os.getpid()}-00-ab@{HOST}").mkdir()
    write(tmp_path, 1)
    assert names(tmp_path) == ["checkpoint_000001"]


def test_an_interrupt_between_the_two_renames_is_repaired_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 4)
    rename = Path.rename

    def interrupt(self: Path, target: Path) -> Path:
        moved = rename(self, target)
        if ".old-" in target.name:
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(Path, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, 4)
    assert names(tmp_path) == ["checkpoint_000004"]
    assert_is(tmp_path, 4)


def test_what_another_host_left_long_ago_is_removed(tmp_path: Path) -> None:
    aside = tmp_path / ".checkpoint_000009.tmp-7-ab@another-host"
    aside.mkdir()
    os.utime(aside, (time.time() - 7200,) * 2)
    write(tmp_path, 1)
    assert names(tmp_path) == ["checkpoint_000001"]


def test_other_hidden_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".checkpoint_notes").mkdir()
    write(tmp_path, 1)
    assert latest_checkpoint(tmp_path) is not None
    assert (tmp_path / ".checkpoint_notes").is_dir()


def _write_on_and_on(directory: Path, first: int, done: Connection) -> None:
    """Write each iteration twice, and tell of each checkpoint that is committed."""
    for number in range(first, first + 100_000):
        for attempt in (0, 1):
            state = {**state_of(number), "attempt": attempt, "zeros": np.zeros(20_000)}
            write(directory, number, keep=2, state=state)
            done.send((number, attempt))


@pytest.mark.parametrize("seed", range(15))
def test_a_writer_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    writer = context.Process(target=_write_on_and_on, args=(tmp_path, 1, sending))
    writer.start()
    sending.close()
    assert receiving.poll(30)
    time.sleep(random.Random(seed).uniform(0, 0.08))
    writer.kill()
    writer.join(30)
    last = (0, 0)
    with contextlib.suppress(EOFError):
        while receiving.poll(0):
            last = receiving.recv()

    found = latest_checkpoint(tmp_path)
    assert found is not None
    read = read_checkpoint(found)
    number, attempt = last
    following = (number, 1) if attempt == 0 else (number + 1, 0)
    assert (read.iteration, read.state["attempt"]) in (last, following)
    assert_is(found, read.iteration)
    assert not [name for name in names(tmp_path) if name.startswith(".")]
    write(tmp_path, read.iteration + 1, keep=2)
    assert_is(tmp_path, read.iteration + 1)


# ---- full disks ----------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[bool]:
    """A disk of one megabyte at a place; False where this user may not mount one."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    mounted = os.geteuid() == 0 and not subprocess.run(mount, check=False).returncode
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("where", ["weights", "state", "text"])
def test_a_full_disk(tmp_path: Path, where: str) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk) as mounted:
        if not mounted:
            return  # the limit on file sizes, below, stands for it
        write(disk, 1)
        large = np.zeros(250_000)
        with pytest.raises(CheckpointError) as caught:
            write_checkpoint(
                disk,
                2,
                {"a": large if where == "state" else "x" * (2_000_000 * (where == "text"))},
                weights={"p": {"w": large if where == "weights" else large[:3]}},
                metadata={},
            )
        assert f"{disk / 'checkpoint_000002'}: No space left on device" in caught.value.message
        assert "(1.0 MB are free there)" in caught.value.message
        assert "Earlier checkpoints are intact. Free some space" in str(caught.value.hint)
        assert names(disk) == ["checkpoint_000001"]
        assert_is(disk, 1)
        write(disk, 2)
        assert_is(disk, 2)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="cannot write the checkpoint") as caught:
        write(tmp_path / "file", 1)
    assert "can be written to" in str(caught.value.hint)


FAILS_TO_WRITE = """
import resource, sys
from pathlib import Path
import numpy as np
from dtrainer.config.errors import CheckpointError
from dtrainer.training.checkpoint import write_checkpoint

directory, in_weights = Path(sys.argv[1]), sys.argv[2] == "weights"
write_checkpoint(directory, 1, {"a": 1}, weights={"p": {"w": np.zeros(3)}}, metadata={})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
large = np.zeros(100_000)
try:
    write_checkpoint(
        directory,
        2,
        {"a": np.zeros(3) if in_weights else large},
        weights={"p": {"w": large if in_weights else np.zeros(3)}},
        metadata={},
    )
except CheckpointError as error:
    print(error)
else:
    sys.exit("it was written")
"""


@pytest.mark.parametrize("where", ["weights", "state"])
def test_a_limit_on_file_sizes(tmp_path: Path, where: str) -> None:
    command = [sys.executable, "-c", FAILS_TO_WRITE, str(tmp_path), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert str(tmp_path / "checkpoint_000002") in done.stdout
    assert "MB are free there" in done.stdout
    assert names(tmp_path) == ["checkpoint_000001"]
    assert read_checkpoint(tmp_path).iteration == 1
