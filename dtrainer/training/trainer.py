"""The trainer: coordinates one run."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

import numpy as np
from numpy.typing import NDArray

from dtrainer.config import ClusterSpec, ConfigError, TrainerConfig
from dtrainer.config.checks import read_cluster
from dtrainer.data import DEFAULT_POLICY_ID, MultiAgentBatch
from dtrainer.envs import episode_limit, probe_env, resolve_env
from dtrainer.policies import Policy
from dtrainer.reporting.runs import results_folder
from dtrainer.rollout import ACTOR_MODULES
from dtrainer.rollout.postprocessing import Advantages
from dtrainer.rollout.seeding import Role, draw_entropy, generator
from dtrainer.rollout.worker import WorkerSpec, set_log_level
from dtrainer.rollout.worker_set import WorkerSet
from dtrainer.training import metrics
from dtrainer.training.device import choose_device, set_threads
from dtrainer.training.learner import ConfigT, Learner
from dtrainer.training.logbook import Logbook
from dtrainer.training.persistence import Persistence
from dtrainer.training.resources import Resources
from dtrainer.training.timers import Timers

if TYPE_CHECKING:
    from distributed import Client

    from dtrainer.cluster import Cluster

log = logging.getLogger(__name__)


class Trainer(Persistence, Resources, ABC, Generic[ConfigT]):
    """Coordinates one run: workers, policies and their learners, counters, checkpoints.

    An algorithm subclasses it with a configuration, a learner and a `training_step`.

    Parameters
    ----------
    config
        Keys that differ from the defaults, or a whole configuration.
    env
        The environment, if it is not in `config`: a Gymnasium id, a name given to
        `register_env`, a class, or a function that takes an `EnvContext`.
    client
        A Dask client whose workers to use; it is left open.
    cluster
        Where to take Dask workers from without a client: `local` (the default), the address of
        a scheduler, or a whole specification.
    logdir
        Where the run writes; made at the first need. Default:
        `<algorithm>_<environment>_<time>` in the folder for runs (`DTRAINER_RESULTS` or `results`).
    log_results
        Whether `train` writes each result to the logdir, as runs on the command line do.

    Raises
    ------
    ConfigError
        If the configuration has mistakes; names all of them.
    EnvError
        If the environment does not exist or does not work.
    ClusterError
        If there are no workers.

    Examples
    --------
    >>> with PPO({"num_workers": 0}, env="CartPole-v1") as trainer:  # doctest: +SKIP
    ...     result = trainer.train()
    """

    name: ClassVar[str]
    config_class: ClassVar[type[TrainerConfig]]
    learner_class: ClassVar[type[Learner[Any]]]

    def __init__(
        self,
        config: Mapping[str, Any] | TrainerConfig | None = None,
        env: Any = None,
        *,
        client: Client | None = None,
        cluster: ClusterSpec | Mapping[str, Any] | str | None = None,
        logdir: str | Path | None = None,
        log_results: bool = True,
    ) -> None:
        self.config: ConfigT = self._resolve_config(config, env)
        set_log_level(self.config.log_level)
        self._env = resolve_env(self.config.env)
        episode_limit(self._env, self.config)
        self._logdir = None if logdir is None else Path(logdir)
        self._log_results = log_results
        self._logbook: Logbook | None = None
        self._client = client
        self._cluster: Cluster | None = None
        self._stopped = False
        opening = self._open_cluster_beside(cluster)
        try:
            self._build_policies(*probe_env(self._env, self.config))
            self._join(opening)
            self._build_workers()
        except BaseException:
            self._join(opening, raise_error=False)
            self.stop()
            raise

    def _resolve_config(self, config: Mapping[str, Any] | TrainerConfig | None, env: Any) -> Any:
        if not isinstance(config, TrainerConfig):
            config = self.config_class.from_dict(config or {})
        if env is not None:
            config = config.model_copy(update={"env": env})
        if config.env is None:
            raise ConfigError("no environment is given", hint='Pass env="CartPole-v1", or set env.')
        return config

    def _open_cluster_beside(self, cluster: Any) -> threading.Thread | None:
        """Open the cluster in a thread, while this one imports torch and tries the environment."""
        self._opening_error: Exception | None = None
        if self.config.num_workers == 0 or self._client is not None:
            return None
        spec = read_cluster("local" if cluster is None else cluster)

        def open_it() -> None:
            from dtrainer.cluster import open_cluster

            try:
                self._cluster = open_cluster(
                    spec,
                    self.config.num_workers,
                    start_timeout_s=self.config.worker_start_timeout_s,
                    preload=ACTOR_MODULES,
                )
                self._client = self._cluster.client
            except Exception as error:
                self._opening_error = error

        thread = threading.Thread(target=open_it, name="open-cluster", daemon=True)
        thread.start()
        return thread

    def _join(self, opening: threading.Thread | None, *, raise_error: bool = True) -> None:
        if opening is not None:
            opening.join()
        if raise_error and self._opening_error is not None:
            raise self._opening_error

    def _build_policies(self, observation_space: Any, action_space: Any) -> None:
        config = self.config
        self.device = choose_device(config.device, config.num_gpus)
        self.entropy = draw_entropy() if config.seed is None else config.seed
        # Actors get the common keys alone: an algorithm's own would make them import torch.
        common = {name: getattr(config, name) for name in TrainerConfig.model_fields}
        self._spec = WorkerSpec(
            self._env,
            TrainerConfig.model_construct(**{**common, "env": self._env.name}),
            observation_space,
            action_space,
            self.entropy,
            self.postprocessing(),
        )
        self.learners: dict[str, Learner[Any]] = {
            policy_id: self.learner_class(policy, config, self.device, self.entropy, number)
            for number, (policy_id, policy) in enumerate(self._spec.policies().items())
        }
        size = sum(learner.spec.layout.size for learner in self.learners.values())
        set_threads(config.torch_num_threads, size)

    def _build_workers(self) -> None:
        exit_of = None if self._cluster is None else self._cluster.exit_of
        self.workers = WorkerSet(self._spec, self._client, self._log_dir(), exit_of)
        self.timers = Timers()
        self.history = metrics.EpisodeHistory(self.config.metrics_smoothing_episodes)
        self.iteration = 0
        self.timesteps_total = 0
        self.steps_trained = 0
        self.time_total_s = 0.0
        self.experiment_id = uuid.uuid4().hex
        self._restored_at = (0, 0, 0.0)  # iteration, timesteps, seconds
        self._learner_stats: dict[str, dict[str, float]] = {}
        self._acting_rng = generator(self.entropy, Role.ACTING)
        self._left = time.perf_counter()
        metrics.system_usage(self.config.log_sys_usage)
        self.sync_weights()

    def _log_dir(self) -> Path:
        return self.logdir / "logs"

    @property
    def logdir(self) -> Path:
        """The run directory; it may not exist yet."""
        if self._logdir is None:
            stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
            name = f"{self.name}_{self._env.name}_{stamp}".replace("/", "-")
            self._logdir = results_folder(None) / name
        return self._logdir

    # ---- what an algorithm says -------------------------------------------------------

    @abstractmethod
    def training_step(self) -> None:
        """Sample, learn, send the new weights out: one round of the algorithm."""

    def postprocessing(self) -> Advantages | None:
        """What workers compute from their trajectories; nothing by default."""
        return None

    # ---- what an algorithm's training step is made of ---------------------------------

    def sample(self, num_steps: int) -> MultiAgentBatch:
        """Sample at least so many environment steps from all workers."""
        with self.timers.section("sample", num_steps):
            batch = self.workers.sample(num_steps)
        self.timesteps_total += batch.count
        return batch

    def learn(self, batch: MultiAgentBatch) -> None:
        """Update every policy that has rows in the batch."""
        with self.timers.section("learn", batch.count):
            for policy_id, rows in batch.policy_batches.items():
                stats = self.learners[policy_id].update(rows, self.timesteps_total)
                self._learner_stats[policy_id] = stats
        self.steps_trained += batch.count

    def sync_weights(self) -> None:
        """Send the learners' weights to all workers."""
        with self.timers.section("update"):
            self.workers.sync_weights(
                {policy_id: learner.weights() for policy_id, learner in self.learners.items()}
            )

    # ---- training ---------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """Train for one iteration.

        An iteration is one `training_step`, or as many as `timesteps_per_iteration` and
        `min_iter_time_s` take.

        Returns
        -------
        The result: episodes, counters, learner statistics by policy id, timers, where the time
        went. `docs/results.md` lists its keys.

        Raises
        ------
        EnvError, ActorError
            If an environment or an actor failed.
        """
        self._check_running()
        if self._log_results and self._logbook is None:
            self._logbook = Logbook(self)
        started = time.perf_counter()
        outside = started - self._left
        steps_before = self.timesteps_total
        while True:
            self.training_step()
            elapsed = time.perf_counter() - started
            steps = self.timesteps_total - steps_before
            if (
                elapsed >= self.config.min_iter_time_s
                and steps >= self.config.timesteps_per_iteration
            ):
                break
        self.iteration += 1
        elapsed = time.perf_counter() - started
        self.time_total_s += elapsed
        self._left = time.perf_counter()
        result = {**self._result(elapsed, steps), "time_outside_s": outside}
        if self._logbook is not None:
            self._logbook.write(result)
        return result

    def _result(self, elapsed: float, steps: int) -> dict[str, Any]:
        report = self.workers.take_report()
        config = self.config
        num_workers = config.num_workers
        now = datetime.now()
        restored_iteration, restored_steps, restored_time = self._restored_at
        return {
            **self.history.summarize(report.returns, report.lengths),
            "timesteps_total": self.timesteps_total,
            "timesteps_this_iter": steps,
            "training_iteration": self.iteration,
            "done": False,
            "info": {
                "num_steps_sampled": self.timesteps_total,
                "num_steps_trained": self.steps_trained,
                "learner": dict(self._learner_stats),
            },
            "num_healthy_workers": self.workers.num_healthy_workers,
            "episodes_abandoned": report.episodes_abandoned,
            "off_policy_estimator": {},
            "sampler_perf": metrics.sampler_perf(report, config.num_envs_per_worker),
            "time_breakdown_s": metrics.time_breakdown(
                self.timers.take_seconds(), report, num_workers, elapsed
            ),
            "timers": self.timers.summary(),
            "transport": metrics.transport(report),
            "perf": metrics.system_usage(config.log_sys_usage),
            "time_this_iter_s": elapsed,
            "time_total_s": self.time_total_s,
            "time_since_restore": self.time_total_s - restored_time,
            "timesteps_since_restore": self.timesteps_total - restored_steps,
            "iterations_since_restore": self.iteration - restored_iteration,
            "experiment_id": self.experiment_id,
            "date": now.strftime("%Y-%m-%d_%H-%M-%S"),
            "timestamp": int(now.timestamp()),
            **metrics.whereabouts(),
            "config": config.to_dict(),
        }

    @property
    def training_iteration(self) -> int:
        """Iterations trained, as `iteration`."""
        return self.iteration

    def get_config(self) -> dict[str, Any]:
        """Configuration as plain data."""
        return self.config.to_dict()

    # ---- acting -----------------------------------------------------------------------

    def compute_action(
        self,
        observation: Any,
        state: list[Any] | None = None,
        prev_action: Any = None,
        prev_reward: float | None = None,
        info: Mapping[str, Any] | None = None,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
    ) -> Any:
        """Choose an action for one observation, as the environment takes it.

        Goes through filter, policy and action pipeline as sampling does, and changes nothing of
        the training: no filter, no schedule, no generator of it.

        Parameters
        ----------
        observation
            As the environment returns it.
        state, prev_action, prev_reward, info
            For policies with memory; this one has none.
        policy_id
            Who acts.
        full_fetch
            Return `(action, state, info)`.
        explore
            Sample or take the mode; None: as configured.

        Returns
        -------
        The action, or with `full_fetch` or a given state `(action, state, info)`, where info
        has `action_logp` and `action_dist_inputs`.
        """
        answer = self.compute_actions(
            {0: observation}, None, policy_id=policy_id, full_fetch=True, explore=explore
        )
        actions, _, infos = answer
        if full_fetch or state:
            return actions[0], state or [], infos[0]
        return actions[0]

    def compute_actions(
        self,
        observations: Mapping[Any, Any],
        state: Mapping[Any, list[Any]] | None = None,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
    ) -> Any:
        """Choose actions for several agents of one policy in one forward pass.

        Parameters
        ----------
        observations
            Agent id to observation. The rest is as in `compute_action`.

        Returns
        -------
        Agent id to action; with `full_fetch` or a given state `(actions, states, infos)`.
        """
        self._check_running()
        policy = self.get_policy(policy_id)
        agents = list(observations)
        raw = np.stack([np.asarray(observations[agent], np.float32) for agent in agents])
        space = policy.observation_space
        if raw.shape[1:] != space.shape:
            raise ConfigError(f"an observation has shape {raw.shape[1:]}, expected {space.shape}")
        filtered = self.workers.local_worker.filters[policy_id].apply(raw)
        output = policy.compute_actions(
            filtered.reshape(len(agents), -1), self._acting_rng, explore
        )
        env_actions = policy.to_env(output.actions)
        actions = dict(zip(agents, env_actions, strict=True))
        if not full_fetch and state is None:
            return actions
        infos = {
            agent: {
                "action_logp": float(output.logp[row]),
                "action_dist_inputs": output.dist_inputs[row],
            }
            for row, agent in enumerate(agents)
        }
        return actions, {agent: (state or {}).get(agent, []) for agent in agents}, infos

    def get_policy(self, policy_id: str = DEFAULT_POLICY_ID) -> Policy:
        """Acting side of a policy, with its latest weights."""
        return self.workers.get_policy(policy_id)

    def get_weights(
        self, policies: list[str] | None = None
    ) -> dict[str, dict[str, NDArray[np.float32]]]:
        """Weights by policy id and parameter name; all policies if None."""
        ids = list(self.learners) if policies is None else policies
        return {policy_id: self.get_policy(policy_id).get_weights() for policy_id in ids}

    def set_weights(self, weights: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
        """Set weights by policy id and parameter name, in learners and workers.

        Raises
        ------
        ConfigError
            If a name is unknown or missing or a shape differs.
        """
        for policy_id, named in weights.items():
            layout = self.get_policy(policy_id).spec.layout
            try:
                flat = layout.pack(named)
            except ValueError as error:
                raise ConfigError(f"policy {policy_id!r}: {error}") from error
            self.learners[policy_id].load_weights(flat)
        self.sync_weights()

    # ---- the end ----------------------------------------------------------------------

    def stop(self) -> None:
        """Close environments, actors and an own cluster. May be called twice; never hangs."""
        if self._stopped:
            return
        self._stopped = True
        if self._logbook is not None:
            self._logbook.close("stopped", "the program stopped it")
        if hasattr(self, "workers"):
            self.workers.stop()
        if self._cluster is not None:
            self._cluster.close()

    def _check_running(self) -> None:
        if self._stopped:
            raise ConfigError("this trainer is stopped", hint="Make a new one, or restore into it.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
