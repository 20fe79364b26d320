from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from actor_targets import Target

from dtrainer.cluster.local import LocalCluster
from dtrainer.cluster.pool import ActorPool
from dtrainer.cluster.share import ClientShare
from dtrainer.config.cluster import ClusterSpec


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(ClusterSpec(extra_environ={"DTRAINER_TEST": "seen"}), 3) as opened:
        yield opened


@pytest.fixture
def make_pool(cluster: LocalCluster) -> Iterator[Callable[..., ActorPool]]:
    """Make started pools; workers that earlier tests killed are replaced first."""
    pools: list[ActorPool] = []

    def make(slots: int = 2, build: Callable[[int], Any] = Target, **kwargs: Any) -> ActorPool:
        deadline = time.monotonic() + 20
        share = ClientShare.of(cluster.client)
        free = [a for a in cluster.client.scheduler_info()["workers"] if a not in share.taken]
        for _ in range(slots - len(free)):
            cluster.add_worker()
        pool = ActorPool(
            cluster.client,
            build,
            slots,
            start_timeout_s=deadline - time.monotonic(),
            exit_of=cluster.exit_of,
            **kwargs,
        )
        pools.append(pool)
        pool.start()
        return pool

    yield make
    for pool in pools:
        for actor in pool.actors:
            if actor.state in ("busy", "slow", "hung"):
                cluster.kill_worker(actor.pid)
                cluster.exit_of(actor.pid)
        pool.close(timeout=2)


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
