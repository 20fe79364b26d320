"""Checkpoints that tests write, damage and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dtrainer.training.checkpoint import read_checkpoint, write_checkpoint


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
