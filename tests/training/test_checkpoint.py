"""Checkpoints: there whole or not at all, and every damage is noticed and named."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
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
from tests.training.checkpoints import assert_is, names, state_of, weights_of, write

HOST = socket.gethostname()
GONE = 2**22 + 1
"""No process has this id: it is above the limit of Linux."""


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
