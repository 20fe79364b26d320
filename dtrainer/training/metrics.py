"""What `train()` returns: episodes, counters, where the time went."""

from __future__ import annotations

import math
import os
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psutil

from dtrainer.rollout.worker_set import SamplingReport


class EpisodeHistory:
    """The latest episodes, so that metrics do not jump when few ended in an iteration.

    Parameters
    ----------
    smoothing
        `metrics_smoothing_episodes`: with fewer new episodes than this, earlier ones fill up;
        with more, all new ones count.
    """

    def __init__(self, smoothing: int) -> None:
        self._smoothing = smoothing
        self._past: deque[tuple[float, int]] = deque(maxlen=max(1, smoothing))
        self.total = 0

    def summarize(self, returns: Sequence[float], lengths: Sequence[int]) -> dict[str, Any]:
        """Take in new episodes and summarize.

        Returns
        -------
        The episode keys of a result; reward and length are nan before the first episode ended.
        """
        new = list(zip(returns, lengths, strict=True))
        kept = list(self._past)[-max(0, self._smoothing - len(new)) :]
        episodes = (kept if len(new) < self._smoothing else []) + new
        self._past.extend(new)
        self.total += len(new)
        rewards = [float(value) for value, _ in episodes]
        steps = [int(length) for _, length in episodes]
        nan = math.nan
        return {
            "episode_reward_max": max(rewards, default=nan),
            "episode_reward_min": min(rewards, default=nan),
            "episode_reward_mean": float(np.mean(rewards)) if rewards else nan,
            "episode_len_mean": float(np.mean(steps)) if steps else nan,
            "episodes_this_iter": len(new),
            "episodes_total": self.total,
            "policy_reward_min": {},
            "policy_reward_max": {},
            "policy_reward_mean": {},
            "custom_metrics": {},
            "hist_stats": {"episode_reward": rewards, "episode_lengths": steps},
        }

    def get_state(self) -> dict[str, Any]:
        """Plain data for the checkpoint."""
        past = list(self._past)
        return {
            "total": self.total,
            "returns": np.array([value for value, _ in past], np.float64),
            "lengths": np.array([length for _, length in past], np.int64),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what `get_state` gave."""
        self.total = int(state["total"])
        self._past.clear()
        pairs = zip(state["returns"].tolist(), state["lengths"].tolist(), strict=True)
        self._past.extend(pairs)


def time_breakdown(
    seconds: Mapping[str, float], report: SamplingReport, num_workers: int, total: float
) -> dict[str, float]:
    """Account for every second of an iteration, as the driver sees it.

    The time in which the driver sampled is split as its workers spent it on average; what they
    spent neither working nor in transfer they, or the driver, waited.

    Parameters
    ----------
    seconds
        Of the driver's sections: `learn`, `update` (sending weights).
    report
        What sampling cost.
    num_workers
        Remote workers.
    total
        Seconds of the iteration.

    Returns
    -------
    Seconds by name; they sum up to `total`.
    """
    n = max(1, num_workers)
    work = report.work
    parts = {
        "environment": work.environment / n,
        "inference": work.inference / n,
        "postprocessing": work.postprocessing / n,
        "transfer": report.transfer / n,
    }
    # Overlapping calls may add up to more than the wall time: scale down, never below zero.
    busy = sum(parts.values())
    if busy > report.wall > 0:
        parts = {name: value * report.wall / busy for name, value in parts.items()}
    parts["waiting"] = max(0.0, report.wall - sum(parts.values()))
    parts["transfer"] += seconds.get("update", 0.0)
    parts["learning"] = seconds.get("learn", 0.0)
    parts["other"] = max(0.0, total - sum(parts.values()))
    return parts


def sampler_perf(report: SamplingReport, num_envs: int) -> dict[str, float]:
    """Milliseconds of a vector step, by what the sampler did."""
    steps = max(1, report.env_steps / num_envs)
    work = report.work
    return {
        "mean_env_wait_ms": 1e3 * work.environment / steps,
        "mean_inference_ms": 1e3 * work.inference / steps,
        "mean_processing_ms": 1e3 * work.postprocessing / steps,
    }


def transport(report: SamplingReport) -> dict[str, float]:
    """Bytes moved, and bytes received for a transition."""
    return {
        "bytes_received": report.bytes_received,
        "bytes_sent": report.bytes_sent,
        "bytes_per_transition": report.bytes_received / max(1, report.env_steps),
    }


def system_usage(enabled: bool) -> dict[str, float]:
    """Utilisation of this machine since the last call, percent."""
    if not enabled:
        return {}
    return {
        "cpu_util_percent": psutil.cpu_percent(),
        "ram_util_percent": psutil.virtual_memory().percent,
    }


def whereabouts() -> dict[str, Any]:
    """Process and machine of the driver."""
    host = socket.gethostname()
    try:
        address = socket.gethostbyname(host)
    except OSError:
        address = "127.0.0.1"
    return {"pid": os.getpid(), "hostname": host, "node_ip": address}
