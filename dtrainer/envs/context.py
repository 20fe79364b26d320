"""What an environment's creator is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class EnvContext(dict[str, Any]):
    """The `env_config` of an environment, and where the environment lives.

    Parameters
    ----------
    env_config
        The configuration's `env_config`.
    worker_index
        0 in the driver, 1 to `num_workers` in actors.
    vector_index
        Number of the environment in its worker, from 0.
    num_workers
        How many actors the run has.
    """

    def __init__(
        self,
        env_config: Mapping[str, Any],
        worker_index: int = 0,
        vector_index: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(env_config)
        self.worker_index = worker_index
        self.vector_index = vector_index
        self.num_workers = num_workers
