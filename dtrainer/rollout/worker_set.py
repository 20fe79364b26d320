"""The workers of a run: the local one, the remote ones, and what goes between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dtrainer.config.errors import DtrainerError, EnvError
from dtrainer.data import MultiAgentBatch
from dtrainer.policies import Policy
from dtrainer.rollout.failures import describe_failure, log_traceback
from dtrainer.rollout.fragment import Fragment, SampleTimes
from dtrainer.rollout.worker import RolloutWorker, SyncUpdate, WorkerSpec

if TYPE_CHECKING:
    from distributed import Client

    from dtrainer.cluster import ActorPool, Outcome

Float = NDArray[np.float32]


@dataclass
class SamplingReport:
    """What sampling brought and cost since the last report.

    Attributes
    ----------
    wall
        Seconds that the driver spent sampling.
    work
        Seconds of all workers together, by what they did.
    transfer
        Seconds of all workers' calls that were not spent in the worker: both ways, packing,
        and waiting for the driver to take the answer.
    env_steps
        Environment steps sampled.
    bytes_received, bytes_sent
        Sizes of the answers and of what went to the workers, bytes.
    returns, lengths
        Of the episodes that ended.
    episodes_abandoned
        Episodes that were restarted because they could not be continued.
    """

    wall: float = 0.0
    work: SampleTimes = field(default_factory=SampleTimes)
    transfer: float = 0.0
    env_steps: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    episodes_abandoned: int = 0

    def add(self, fragment: Fragment) -> None:
        """Count a fragment in."""
        self.work.add(fragment.times)
        self.env_steps += fragment.batch.count
        self.returns.extend(fragment.episode_returns.tolist())
        self.lengths.extend(fragment.episode_lengths.tolist())
        self.episodes_abandoned += fragment.episodes_abandoned


class WorkerSet:
    """The local worker, and `num_workers` remote ones in actors.

    The local worker holds the policies and filters that the driver itself acts with; without
    remote workers it also samples.

    Parameters
    ----------
    spec
        What every worker is built from.
    client
        Where the remote workers live; None with `num_workers: 0`.
    log_dir
        Where tracebacks of actors go; None to leave them out.
    exit_of
        From a process id to how that process ended, where the cluster can tell.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        client: Client | None = None,
        log_dir: Path | None = None,
        exit_of: Callable[[int], str | None] | None = None,
    ) -> None:
        self.spec = spec
        self.local_worker = RolloutWorker(spec, 0)
        self.log_dir = log_dir
        self.report = SamplingReport()
        self._update: SyncUpdate | None = None
        self._update_number = 0
        self._updated: dict[int, int] = {}
        self._pool: ActorPool | None = None
        if spec.config.num_workers > 0:
            assert client is not None
            self._pool = self._make_pool(client, exit_of)

    def _make_pool(self, client: Client, exit_of: Callable[[int], str | None] | None) -> ActorPool:
        from dtrainer.cluster import ActorPool

        config = self.spec.config
        pool = ActorPool(
            client,
            partial(RolloutWorker, self.spec),
            config.num_workers,
            name="rollout",
            start_timeout_s=config.worker_start_timeout_s,
            exit_of=exit_of,
        )
        pool.start()
        return pool

    # ---- sampling ---------------------------------------------------------------------

    def sample(self, num_steps: int) -> MultiAgentBatch:
        """Sample until there are `num_steps` environment steps, synchronously.

        The batch holds the fragments in the order of rounds and workers, whichever came first.
        With `truncate_episodes` the number of rounds is known ahead, so no worker waits for
        another between rounds.

        Raises
        ------
        EnvError
            If an environment failed.
        ActorError
            If an actor was lost, hangs or failed.
        """
        started = perf_counter()
        config = self.spec.config
        per_round = (
            config.resolved_fragment_length()
            * config.num_envs_per_worker
            * max(1, config.num_workers)
        )
        fragments: list[Fragment] = []
        if config.batch_mode == "truncate_episodes":
            fragments = self._collect(math.ceil(num_steps / per_round))
        else:
            while sum(fragment.batch.count for fragment in fragments) < num_steps:
                fragments += self._collect(1)
        for fragment in fragments:
            self.report.add(fragment)
            self._merge_filters(fragment)
        batch = MultiAgentBatch.concat([fragment.batch for fragment in fragments])
        self.report.wall += perf_counter() - started
        return batch

    def _collect(self, rounds: int) -> list[Fragment]:
        if self._pool is None:
            try:
                return [self.local_worker.sample() for _ in range(rounds)]
            except EnvError as error:
                log_traceback(error, self.log_dir, "worker-0")
                raise
        return self._collect_remote(self._pool, rounds)

    def _collect_remote(self, pool: ActorPool, rounds: int) -> list[Fragment]:
        timeout = self.spec.config.sample_timeout_s
        slots = range(1, self.spec.config.num_workers + 1)
        gathered: dict[int, list[Fragment]] = {slot: [] for slot in slots}
        for slot in slots:
            self._ask(pool, slot, timeout)
        missing = rounds * len(slots)
        while missing:
            outcome = pool.next(timeout + 30)
            fragment: Fragment = self._value(outcome)
            self.report.transfer += outcome.seconds - outcome.busy_seconds
            self.report.bytes_received += outcome.bytes_received
            gathered[outcome.slot].append(fragment)
            missing -= 1
            if len(gathered[outcome.slot]) < rounds:
                self._ask(pool, outcome.slot, timeout)
        return [gathered[slot][number] for number in range(rounds) for slot in slots]

    def _ask(self, pool: ActorPool, slot: int, timeout: float) -> None:
        update = None
        if self._updated.get(slot) != self._update_number:
            update = self._update
            self._updated[slot] = self._update_number
        self.report.bytes_sent += 0 if update is None else update.nbytes
        pool.submit(slot, "sample", update, timeout=timeout)

    def _value(self, outcome: Outcome) -> Any:
        """Return what an actor returned, or raise what happened to it, for people."""
        if outcome.ok:
            return outcome.value
        raise describe_failure(outcome, self.log_dir)

    def _call_all(self, method: str, *args: Any) -> dict[int, Any]:
        assert self._pool is not None
        timeout = self.spec.config.sample_timeout_s
        outcomes = self._pool.map(method, *args, timeout=timeout)
        return {slot: self._value(outcome) for slot, outcome in sorted(outcomes.items())}

    # ---- weights and filters ----------------------------------------------------------

    def _merge_filters(self, fragment: Fragment) -> None:
        if self._pool is None:
            return  # the local worker's own filter has counted already
        for policy_id, delta in fragment.filter_deltas.items():
            if delta is not None:
                self.local_worker.filters[policy_id].merge(delta)

    def sync_weights(self, weights: Mapping[str, tuple[int, Float]]) -> None:
        """Give all workers new weights, and merged filters if `synchronize_filters`.

        Remote workers get them with their next call.

        Parameters
        ----------
        weights
            Policy id to version and flat vector, float32 `[P]`.
        """
        local = self.local_worker
        local.take_over(SyncUpdate(weights, {}))
        filters = {}
        if self.spec.config.synchronize_filters:
            filters = {pid: filter_.get_state() for pid, filter_ in local.filters.items()}
        self._update = SyncUpdate(dict(weights), filters)
        self._update_number += 1

    def get_policy(self, policy_id: str) -> Policy:
        """Policy of that id, with the weights of the last synchronisation.

        Raises
        ------
        DtrainerError
            If there is none; names those that there are.
        """
        policies = self.local_worker.policies
        if policy_id not in policies:
            raise DtrainerError(f"there is no policy {policy_id!r}; there are {sorted(policies)}")
        return policies[policy_id]

    @property
    def num_healthy_workers(self) -> int:
        """Remote workers that are not known to be lost."""
        if self._pool is None:
            return 0
        return sum(actor.state not in ("lost", "closed") for actor in self._pool.actors)

    # ---- state ------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Journals of all workers and the driver's filters, as plain data."""
        state: dict[str, Any] = {"local": self.local_worker.get_state(), "remote": {}}
        if self._pool is not None:
            state["remote"] = self._call_all("get_state")
        return state

    def set_state(self, state: Mapping[str, Any], entropy: int) -> None:
        """Continue where `get_state` was called, with the seed of that run.

        With another number of workers than then, those that were there continue, new ones start
        afresh.
        """
        self.local_worker.set_state(state["local"], entropy)
        if self._pool is None:
            return
        timeout = self.spec.config.sample_timeout_s
        slots = range(1, self.spec.config.num_workers + 1)
        for slot in slots:
            journal = state["remote"].get(slot)
            self._pool.submit(slot, "set_state", journal, entropy, timeout=timeout)
        for _ in slots:
            self._value(self._pool.next(timeout + 30))

    def take_report(self) -> SamplingReport:
        """Hand out the report and start a new one."""
        report, self.report = self.report, SamplingReport()
        return report

    def stop(self) -> None:
        """Close environments and actors; never hangs, may be called twice."""
        self.local_worker.close()
        if self._pool is not None:
            self._pool.close(timeout=10)
            self._pool = None
