"""Start Ray quietly on this machine."""

from __future__ import annotations

import logging
import os
import warnings

import ray


def start_ray() -> None:
    """Start a Ray of our own: without dashboard, without reports to anyone, no log on stdout."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    warnings.simplefilter("ignore")
    logging.getLogger("ray").setLevel(logging.ERROR)
    ray.init(
        address="local",
        num_cpus=3,  # two env runners and the driver; only what Ray counts, not a limit
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
