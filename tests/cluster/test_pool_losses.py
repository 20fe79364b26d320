from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest
from actor_targets import Target

from dtrainer.cluster.local import LocalCluster
from dtrainer.cluster.pool import ActorPool
from dtrainer.config.errors import ClusterError

MakePool = Callable[..., ActorPool]

pytestmark = pytest.mark.cluster


def test_killed_during_a_call(make_pool: MakePool) -> None:
    pool = make_pool(2)
    pool.map("number", timeout=20)
    pool.submit(1, "sleep", 30, timeout=60)
    pool.submit(1, "number", timeout=60)  # waits behind it
    time.sleep(0.1)
    actor = pool.actors[0]
    start = time.monotonic()
    os.kill(actor.pid, signal.SIGKILL)
    outcomes = [pool.next(10), pool.next(10)]
    assert time.monotonic() - start < 1
    assert [o.kind for o in outcomes] == ["lost", "lost"]
    for part in ("actor 1", actor.address, str(actor.pid), actor.host, "sleep", "SIGKILL"):
        assert part in next(o for o in outcomes if o.method == "sleep").error_text
    assert [a.state for a in pool.actors] == ["lost", "idle"]
    assert pool.map("number", timeout=5, slots=[2])[2].ok


def test_killed_while_idle(make_pool: MakePool) -> None:
    pool = make_pool(2)
    pool.map("number", timeout=20)
    os.kill(pool.actors[0].pid, signal.SIGKILL)
    start = time.monotonic()
    outcomes = pool.map("number", timeout=60)  # before anybody has noticed
    assert time.monotonic() - start < 1
    assert (outcomes[1].kind, outcomes[2].kind) == ("lost", "ok")
    again = pool.map("number", timeout=60)  # long after
    assert again[1].kind == "lost"
    assert pool.stash("weights", 1, 2, timeout=5)[1].kind == "lost"
    assert time.monotonic() - start < 1.5


def test_killed_while_idle_is_seen_without_a_call(make_pool: MakePool) -> None:
    pool = make_pool(1)
    os.kill(pool.actors[0].pid, signal.SIGKILL)
    deadline = time.monotonic() + 2
    while pool.actors[0].state != "lost":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_crash_in_native_code(make_pool: MakePool) -> None:
    pool = make_pool(1)
    outcome = pool.map("crash", timeout=20)[1]
    assert outcome.kind == "lost"
    assert "SIGSEGV" in outcome.error_text


def test_stopped_processes_are_told_from_slow_ones(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dtrainer.cluster.link.PING_TIMEOUT_S", 0.5)
    monkeypatch.setattr("dtrainer.cluster.link.ActorLink.ping.__defaults__", (0.5,))
    pool = make_pool(1)
    pool.map("number", timeout=20)
    os.kill(pool.actors[0].pid, signal.SIGSTOP)
    try:
        outcome = pool.map("number", timeout=0.3)[1]
        assert outcome.kind == "timeout"
        assert "did not answer a ping" in outcome.error_text
        assert pool.actors[0].state == "hung"
        assert not pool.ping(1, timeout=0.2)
    finally:
        os.kill(pool.actors[0].pid, signal.SIGCONT)
    deadline = time.monotonic() + 5
    while pool.actors[0].state != "idle":  # the late answer is dropped, the actor is free again
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert pool._results.empty()
    assert pool._links[1].late_answers == 1


def test_too_few_workers_says_how_many(cluster: LocalCluster) -> None:
    pool = ActorPool(cluster.client, Target, 40, start_timeout_s=0.2)
    with pytest.raises(ClusterError, match=r"40 actors need 40 Dask workers.* are \d+ at"):
        pool.start()
    assert pool.actors == []


def test_a_worker_is_replaced_fast(cluster: LocalCluster, make_pool: MakePool) -> None:
    """What respawning will rest on: a fork, not a new interpreter."""
    before = len(cluster.client.scheduler_info()["workers"])
    start = time.monotonic()
    cluster.add_worker()
    while len(cluster.client.scheduler_info()["workers"]) <= before:
        assert time.monotonic() - start < 5
        time.sleep(0.005)
    assert time.monotonic() - start < 1
