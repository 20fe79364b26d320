"""Checkpoints on disk: all or nothing, checked when read, without pickle.

A checkpoint is a folder `checkpoint_000010` with

- `metadata.json`: what it is of, and size and SHA-256 of every other file,
- `policies/<id>.safetensors`: the weights by parameter name,
- `state.json` and `arrays.npz`: everything else that training depends on.

It is written aside, synced and renamed, so it is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import platform
import re
import secrets
import shutil
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from dtrainer.config.errors import CheckpointError
from dtrainer.training.state_tree import decode, encode

Weights = dict[str, dict[str, NDArray[Any]]]

FORMAT = "dtrainer-checkpoint"
FORMAT_VERSION = 1
METADATA = "metadata.json"
_TENSORS = ".safetensors"
_NAME = re.compile(r"checkpoint_(\d{6,})")
_REQUIRED = ("state.json", "arrays.npz")
_LEFTOVER_AGE_S = 3600.0
"""Age, seconds, after which what a writer on another host left aside counts as left for good."""
_PACKAGES = ("dtrainer", "torch", "numpy", "gymnasium")
_OURS = ("format", "format_version", "created", "iteration", "versions", "files")
_THIS_PROCESS = secrets.token_hex(4)
"""Tells what lies aside of threads of this process from that of an earlier one with its id."""
_SHOWN = 5
"""Names of a folder's entries that an error lists."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as it was read.

    Attributes
    ----------
    path
        Its folder.
    iteration
        Iterations trained.
    metadata
        What it is of.
    state
        The tree that was saved.
    weights
        Policy id to parameter name to array.
    """

    path: Path
    iteration: int
    metadata: dict[str, Any]
    state: Any
    weights: Weights


# ---- writing -------------------------------------------------------------------------


def write_checkpoint(
    directory: Path,
    iteration: int,
    state: Any,
    *,
    weights: Mapping[str, Mapping[str, NDArray[Any]]],
    metadata: Mapping[str, Any],
    keep: int | None = None,
) -> Path:
    """Write a checkpoint, then remove the oldest beyond `keep`.

    Parameters
    ----------
    directory
        The folder of checkpoints, made if missing.
    iteration
        Names the checkpoint; one of the same iteration is replaced.
    state
        A tree as `state_tree` writes it.
    weights
        Policy id to parameter name to array.
    metadata
        JSON data that says what it is of.
    keep
        How many of the latest to keep; None for all. The one just written always stays.

    Returns
    -------
    The checkpoint's folder.

    Raises
    ------
    CheckpointError
        If it cannot be written. Earlier checkpoints stay as they were.
    TypeError
        If the state, the weights or the metadata hold something that is not saved; names its place.
    ValueError
        If the metadata has a key that is the format's own.
    """
    taken = sorted(set(_OURS).intersection(metadata))
    if taken:
        raise ValueError(f"metadata must not have the keys {taken}: they are the format's own")
    final = directory / f"checkpoint_{iteration:06d}"
    aside = _aside(final, "tmp")
    try:
        if not directory.is_dir():
            directory.mkdir(parents=True, exist_ok=True)
            _sync(directory.parent)
        _remove_leftovers(directory)
        _write_files(aside, iteration, state, weights, metadata)
        _commit(aside, final)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise _cannot_write(final, error) from error
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    if keep is not None:
        for old in list_checkpoints(directory)[: -max(keep, 1)]:
            if old != final:
                shutil.rmtree(old, ignore_errors=True)
    return final


def _write_files(
    folder: Path,
    iteration: int,
    state: Any,
    weights: Mapping[str, Mapping[str, NDArray[Any]]],
    metadata: Mapping[str, Any],
) -> None:
    data, arrays = encode(state)
    policies = folder / "policies"
    policies.mkdir(parents=True)
    for policy_id, named in weights.items():
        for name, array in named.items():
            if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
                raise TypeError(f"weights[{policy_id!r}][{name!r}] is of dtype {array.dtype}")
        contiguous = {name: np.asarray(array, order="C") for name, array in named.items()}
        _save_tensors(contiguous, policies / f"{quote(policy_id, safe='')}{_TENSORS}")
    (folder / "state.json").write_text(json.dumps(data, allow_nan=False))
    with (folder / "arrays.npz").open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": _digest(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    written = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "iteration": iteration,
        "versions": {
            "python": platform.python_version(),
            **{package: _version(package) for package in _PACKAGES},
        },
        **metadata,
        "files": files,
    }
    (folder / METADATA).write_text(json.dumps(written, indent=1) + "\n")
    for path in [*folder.rglob("*"), folder]:
        _sync(path)


def _save_tensors(tensors: dict[str, NDArray[Any]], path: Path) -> None:
    try:
        save_file(tensors, path)
    except SafetensorError as error:  # its own error for a full disk, too
        if shutil.disk_usage(path.parent).free < sum(t.nbytes for t in tensors.values()) + 65536:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
        raise OSError(errno.EIO, str(error), str(path)) from error


def _commit(aside: Path, final: Path) -> None:
    """Put the new folder in its place.

    A checkpoint of the same iteration is moved aside first; should the process end between the two
    renames, the next writer or reader moves it back.
    """
    replaced = _aside(final, "old") if final.exists() else None
    try:
        if replaced is not None:
            final.rename(replaced)
        aside.rename(final)
    except BaseException:  # Ctrl-C, too
        if replaced is not None and replaced.exists() and not final.exists():
            replaced.rename(final)
        raise
    _sync(final.parent)
    if replaced is not None:
        shutil.rmtree(replaced, ignore_errors=True)


def _aside(final: Path, kind: str) -> Path:
    """Name beside a checkpoint that says which process on which host it belongs to."""
    owner = f"{os.getpid()}-{_THIS_PROCESS}-{secrets.token_hex(4)}@{socket.gethostname()}"
    return final.with_name(f".{final.name}.{kind}-{owner}")


def _remove_leftovers(directory: Path) -> None:
    """Clear what writers left that were ended while they wrote."""
    for path in list(directory.glob(".checkpoint_*")):  # none where there is no folder
        name, _, rest = path.name[1:].partition(".")
        kind, _, owner = rest.partition("-")
        final = directory / name
        if kind not in ("tmp", "old") or _is_in_use(path, kind, owner):
            continue
        if kind == "old" and not final.exists():
            with contextlib.suppress(OSError):  # a folder that may only be read, another repairer
                path.rename(final)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _is_in_use(path: Path, kind: str, owner: str) -> bool:
    """Whether a writer may still be busy with what lies aside."""
    process, _, host = owner.partition("@")
    if host in ("", socket.gethostname()):
        pid, _, token = process.partition("-")
        if pid == str(os.getpid()):
            return token.partition("-")[0] == _THIS_PROCESS  # a thread of ours may be writing it
        return _is_alive(pid)
    if kind == "old":  # it is renamed and removed in a moment: rather repaired than missed
        return False
    try:
        return time.time() - path.stat().st_mtime < _LEFTOVER_AGE_S
    except OSError:
        return False


def _is_alive(pid: str) -> bool:
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cannot_write(path: Path, error: OSError) -> CheckpointError:
    free = ""
    with contextlib.suppress(OSError):
        existing = next(parent for parent in path.parents if parent.exists())
        free = f" ({shutil.disk_usage(existing).free / 1e6:,.1f} MB are free there)"
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "Free some space" if full else "See to it that the folder can be written to"
    return CheckpointError(
        f"cannot write the checkpoint {path}: {error.strerror or error}{free}",
        hint=f"Earlier checkpoints are intact. {remedy}, or choose another --results folder.",
    )


# ---- reading -------------------------------------------------------------------------


def list_checkpoints(directory: Path) -> list[Path]:
    """Checkpoints in a folder, oldest first; damaged ones too."""
    if not directory.is_dir():
        return []
    found = [path for path in directory.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name.partition("_")[2]))


def latest_checkpoint(directory: Path) -> Path | None:
    """Newest intact checkpoint in a folder; damaged ones are passed over with a warning."""
    _remove_leftovers(directory)
    for path in reversed(list_checkpoints(directory)):
        try:
            _verified_metadata(path)
        except CheckpointError as error:
            log.warning("passing over a damaged checkpoint: %s", error.message)
        else:
            return path
    return None


def read_metadata(path: str | Path) -> dict[str, Any]:
    """What a checkpoint is of; `path` as in `read_checkpoint`."""
    return _metadata(_resolve(Path(path)))


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint whole, after checking size and checksum of every file.

    Parameters
    ----------
    path
        A checkpoint's folder; a folder of checkpoints or a run stands for its newest intact one.

    Raises
    ------
    CheckpointError
        If it is no checkpoint, of a newer format, or damaged; says which file and how.
    """
    folder = _resolve(Path(path))
    metadata = _verified_metadata(folder)
    try:
        data = json.loads((folder / "state.json").read_text())
        with np.load(folder / "arrays.npz", allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        weights = {
            unquote(file.name.removesuffix(_TENSORS)): load_file(file)
            for file in map(folder.joinpath, sorted(metadata["files"]))
            if file.name.endswith(_TENSORS)
        }
        state = decode(data, arrays)
    except Exception as error:  # checksums that agree do not say who wrote the files
        raise CheckpointError(
            f"{folder} cannot be read: {type(error).__name__}: {error}",
            hint="Its files are as they were written, but dtrainer does not write such ones.",
        ) from error
    return Checkpoint(folder, int(metadata["iteration"]), metadata, state, weights)


def _resolve(path: Path) -> Path:
    if (path / METADATA).is_file():
        return path
    if _NAME.fullmatch(path.name) and not path.exists():
        _remove_leftovers(path.parent)  # it may lie aside: see `_commit`
        if path.exists():
            return path
    if _NAME.fullmatch(path.name) and path.is_dir():
        raise CheckpointError(f"{path} is damaged: {METADATA} is missing")
    for folder in (path / "checkpoints", path):
        _remove_leftovers(folder)
        if list_checkpoints(folder):
            found = latest_checkpoint(folder)
            if found is None:
                raise CheckpointError(f"every checkpoint in {folder} is damaged")
            return found
    if not path.exists():
        raise CheckpointError(f"there is no checkpoint {path}: it does not exist")
    what = "a file" if path.is_file() else f"a folder without {METADATA}, with {_entries(path)}"
    raise CheckpointError(
        f"{path} is not a checkpoint: it is {what}",
        hint="Expected a folder such as <run>/checkpoints/checkpoint_000010, or a run.",
    )


def _entries(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir())
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more if names else "nothing in it"


def _metadata(folder: Path) -> dict[str, Any]:
    path = folder / METADATA
    try:
        metadata = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: it is no JSON ({error})") from error
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not that of a dtrainer checkpoint")
    written = metadata.get("format_version")
    if isinstance(written, int) and written > FORMAT_VERSION:
        raise CheckpointError(
            f"{folder} has checkpoint format {written}, this dtrainer reads up to {FORMAT_VERSION}",
            hint=f"It was written by dtrainer {_writer(metadata)}.",
        )
    for key, kind in (("format_version", int), ("iteration", int), ("files", dict)):
        if not isinstance(metadata.get(key), kind):
            raise CheckpointError(f"{path} is damaged: it has no {key}")
    for name in _REQUIRED:
        if name not in metadata["files"]:
            raise CheckpointError(f"{path} is damaged: it does not list {name}")
    return metadata


def _writer(metadata: Mapping[str, Any]) -> str:
    versions = metadata.get("versions")
    return str(versions.get("dtrainer")) if isinstance(versions, dict) else "of unknown version"


def _verified_metadata(folder: Path) -> dict[str, Any]:
    metadata = _metadata(folder)
    for name, expected in metadata["files"].items():
        try:
            _verify(folder, name, expected["bytes"], expected["sha256"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{folder} is damaged: its entry of {name} is no good") from error
        except OSError as error:
            raise CheckpointError(f"{folder / name} cannot be read: {error.strerror}") from error
    return metadata


def _verify(folder: Path, name: str, size: int, digest: str) -> None:
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise CheckpointError(f"{folder} names a file outside of itself: {name}")
    if not path.is_file():
        raise CheckpointError(f"{folder} is damaged: {name} is missing")
    found = path.stat().st_size
    if found != size:
        raise CheckpointError(f"{folder} is damaged: {name} has {found} bytes, expected {size}")
    if _digest(path) != digest:
        raise CheckpointError(f"{folder} is damaged: the checksum of {name} does not agree")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
