"""Where random numbers come from: one tree of seeds, no global generator."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np


class Role(IntEnum):
    """Who draws. The numbers are part of what a seed means: never reuse one."""

    SAMPLING = 1
    EVALUATION = 2
    LEARNER = 3
    MODEL = 4
    ACTING = 5


class _Stream(IntEnum):
    ACTIONS = 0
    EPISODES = 1


def draw_entropy() -> int:
    """Draw a seed for a run that was given none; it is recorded with the run."""
    return secrets.randbits(63)


def generator(entropy: int, role: Role, *key: int) -> np.random.Generator:
    """Make the generator of a role, independent of all others of the run."""
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=(role, *key)))
    )


@dataclass(frozen=True)
class WorkerSeeds:
    """The seeds of one worker.

    Attributes
    ----------
    entropy
        The run's seed.
    role
        Sampling or evaluation: never the same episodes.
    worker_index
        0 in the driver, from 1 in actors.
    """

    entropy: int
    role: Role
    worker_index: int

    def action_generator(self) -> np.random.Generator:
        """Generator that exploration draws from."""
        return generator(self.entropy, self.role, self.worker_index, _Stream.ACTIONS)

    def episode_seed(self, env_index: int, episode: int) -> int:
        """Seed for `env.reset` of an environment's n-th episode, below 2**31."""
        key = (self.role, self.worker_index, _Stream.EPISODES, env_index, episode)
        sequence = np.random.SeedSequence(self.entropy, spawn_key=key)
        return int(sequence.generate_state(1)[0] >> 1)


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """State of a PCG64 generator as plain data."""
    return dict(rng.bit_generator.state)


def load_generator(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Continue from what `generator_state` gave."""
    rng.bit_generator.state = state
