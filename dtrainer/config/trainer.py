"""The configuration of a trainer: one flat set of keys, with the seed's names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from dtrainer.config.checks import check_config, checked
from dtrainer.config.compat import EXPLORATION, MULTIAGENT, merged, translate, warn
from dtrainer.config.mistakes import raise_mistakes
from dtrainer.config.model import ModelConfig
from dtrainer.config.plain import plain
from dtrainer.config.section import Section
from dtrainer.config.types import Int, Number
from dtrainer.config.wording import found

Filter = Literal["NoFilter", "MeanStdFilter", "ConcurrentMeanStdFilter"]


EnvName = Annotated[Any, WithJsonSchema({"type": ["string", "null"]})]
"""What `env` may be: in a file a name; in a program also a class, a function or the like."""

LONGEST_AUTO_FRAGMENT = 500
"""Steps of the longest fragment that `auto` chooses.

With a simulator of one second a step, its workers still answer within `sample_timeout_s`.
"""


class TrainerConfig(Section):
    """The keys that all algorithms share; each algorithm extends them.

    Whichever way a configuration is made, all mistakes are reported at once, as a `ConfigError`.
    It does not change afterwards; `merge` gives a changed copy.

    An algorithm adds fields, gives common ones another default, and extends `cross_checks`.

    Attributes
    ----------
    samples_train_batches
        Whether `train_batch_size` is what is sampled for an update. False for algorithms that
        learn from a replay buffer: there it has nothing to do with fragments.
    """

    samples_train_batches: ClassVar[bool] = True

    # ---- rollout workers --------------------------------------------------------------
    num_workers: Int = Field(
        2, ge=0, description="Rollout actors; 0 samples in the driver, without Dask."
    )
    num_envs_per_worker: Int = Field(
        1, ge=1, description="Environments that a worker steps side by side."
    )
    rollout_fragment_length: Annotated[Int, Field(ge=1)] | Literal["auto"] = Field(
        "auto",
        description="Steps of each environment in a fragment; auto: as fits train_batch_size, "
        "at most 500.",
    )
    batch_mode: Literal["truncate_episodes", "complete_episodes"] = Field(
        "truncate_episodes",
        description="Whether fragments are cut at their length or wait for episodes to end.",
    )
    vectorize_mode: Literal["auto", "sync", "self"] = Field(
        "auto",
        description="Whether environments that can step many of themselves as one do so: auto from "
        "16 environments a worker on, sync never, self always.",
    )
    sample_timeout_s: Number = Field(
        600.0, gt=0, description="Seconds after which an actor's unanswered call is an error."
    )
    worker_start_timeout_s: Number = Field(
        120.0, gt=0, description="Seconds in which the actors must be there."
    )
    exact_recovery: bool = Field(
        True,
        description="Whether environments come back exactly from their episode's seed and actions; "
        "false for those that are not deterministic: they start their episodes anew.",
    )

    # ---- driver -----------------------------------------------------------------------
    num_gpus: Number = Field(0.0, ge=0, description="GPUs that the learner must have.")
    device: str = Field(
        "auto",
        description="Where to learn: auto (a GPU where there is one), cpu, cuda or cuda:N.",
    )
    torch_num_threads: Int | None = Field(
        None,
        ge=1,
        description="Threads of PyTorch in the driver; null: one for networks below 200,000 "
        "parameters, else its own choice.",
    )
    train_batch_size: Int = Field(
        200, ge=1, description="Environment steps of a train batch, at least."
    )
    model: ModelConfig = Field(default_factory=ModelConfig, description="The networks.")
    optimizer: dict[str, Any] = Field(
        default_factory=dict, description="Options of the optimizer of some algorithms."
    )

    # ---- environment ------------------------------------------------------------------
    env: EnvName = Field(
        None, description="Gymnasium id, registered name, dotted path, class or function."
    )
    env_config: dict[str, Any] = Field(
        default_factory=dict, description="What the environment is made with."
    )
    gamma: Number = Field(0.99, ge=0, le=1, description="Discount of a step.")
    horizon: Int | None = Field(
        None, ge=1, description="Steps after which an episode is truncated; null: as registered."
    )
    soft_horizon: bool = Field(
        False, description="Whether the environment goes on when the horizon is reached."
    )
    no_done_at_end: bool = Field(
        False, description="Whether the end of an episode is kept from the learner."
    )
    normalize_actions: bool = Field(
        False, description="Whether the policy acts in [-1, 1], mapped to the space's bounds."
    )
    clip_rewards: bool | Annotated[Number, Field(gt=0)] | None = Field(
        None, description="true: sign of the reward; a number c: clip to [-c, c]; false: neither."
    )
    clip_actions: bool = Field(
        True, description="Whether actions are clipped to the space before the environment."
    )
    preprocessor_pref: Literal["deepmind", "rllib"] = Field(
        "deepmind", description="Which preprocessing Atari environments get."
    )
    lr: Number = Field(1e-4, gt=0, description="Learning rate.")

    # ---- debugging --------------------------------------------------------------------
    monitor: bool = Field(False, description="Whether to record statistics and videos.")
    log_level: Literal["DEBUG", "INFO", "WARN", "ERROR"] = Field(
        "WARN", description="Level of dtrainer's loggers, in the driver and in actors."
    )
    callbacks: Any = Field(None, description="Class of callbacks.")
    ignore_worker_failures: bool = Field(
        False, description="Whether to go on with fewer workers when one is lost."
    )
    log_sys_usage: bool = Field(True, description="Whether results have the machine's load.")
    fake_sampler: bool = Field(
        False, description="Whether workers repeat their first fragment; to measure the rest."
    )

    # ---- framework: accepted for old files, without effect ----------------------------
    framework: Literal["torch"] = Field("torch", description="PyTorch, always.")
    eager_tracing: bool = Field(False, description="TensorFlow's; without effect.")
    no_eager_on_workers: bool = Field(False, description="TensorFlow's; without effect.")
    tf_session_args: dict[str, Any] = Field(
        default_factory=dict, description="TensorFlow's; without effect."
    )
    local_tf_session_args: dict[str, Any] = Field(
        default_factory=dict, description="TensorFlow's; without effect."
    )

    # ---- exploration ------------------------------------------------------------------
    explore: bool = Field(True, description="Whether actions are sampled or the most probable.")
    exploration_config: dict[str, Any] = Field(
        default_factory=lambda: dict(EXPLORATION),
        description="Kind of exploration and its options.",
    )

    # ---- evaluation -------------------------------------------------------------------
    evaluation_interval: Int | None = Field(
        None, ge=1, description="Iterations between evaluations; null for none."
    )
    evaluation_num_episodes: Int = Field(10, ge=1, description="Episodes of an evaluation.")
    in_evaluation: bool = Field(False, description="Set by dtrainer in evaluation workers.")
    evaluation_config: dict[str, Any] = Field(
        default_factory=dict, description="Keys that are different in evaluation."
    )
    evaluation_num_workers: Int = Field(0, ge=0, description="Actors for evaluation.")
    custom_eval_function: Any = Field(None, description="Function that evaluates instead.")

    # ---- advanced rollout options -----------------------------------------------------
    sample_async: bool = Field(False, description="Whether workers sample ahead in a thread.")
    observation_filter: Filter = Field(
        "NoFilter", description="MeanStdFilter normalises by what all workers have seen."
    )
    synchronize_filters: bool = Field(
        True, description="Whether the merged filter statistics go back to the workers."
    )
    compress_observations: bool | Literal["bulk"] = Field(
        False, description="Whether observations are compressed on the wire."
    )
    collect_metrics_timeout: Number = Field(
        180.0, gt=0, description="Seconds to wait for metrics; they come with the samples here."
    )
    metrics_smoothing_episodes: Int = Field(
        100, ge=0, description="Episodes over which returns and lengths are averaged."
    )
    remote_worker_envs: bool = Field(
        False, description="Whether each environment runs in a process of its own."
    )
    remote_env_batch_wait_ms: Number = Field(
        0.0, ge=0, description="Milliseconds to wait for more such environments."
    )
    min_iter_time_s: Number = Field(0.0, ge=0, description="Seconds of an iteration, at least.")
    timesteps_per_iteration: Int = Field(
        0, ge=0, description="Environment steps of an iteration, at least."
    )
    seed: Int | None = Field(
        None, ge=0, description="Seed of everything random; null draws one and records it."
    )
    extra_python_environs_for_driver: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of the driver."
    )
    extra_python_environs_for_worker: dict[str, str] = Field(
        default_factory=dict, description="Environment variables of the actors."
    )

    # ---- resources --------------------------------------------------------------------
    num_cpus_per_worker: Int = Field(1, ge=1, description="Cores of an actor.")
    num_gpus_per_worker: Number = Field(0.0, ge=0, description="GPUs of an actor.")
    custom_resources_per_worker: dict[str, Any] = Field(
        default_factory=dict, description="Dask resources that an actor needs."
    )
    num_cpus_for_driver: Int = Field(1, ge=1, description="Cores of the driver.")
    memory: Int = Field(0, ge=0, description="Ray's; without effect.")
    object_store_memory: Int = Field(0, ge=0, description="Ray's; without effect.")
    memory_per_worker: Int = Field(0, ge=0, description="Memory of an actor, bytes; 0: no limit.")
    object_store_memory_per_worker: Int = Field(0, ge=0, description="Ray's; without effect.")

    # ---- offline data -----------------------------------------------------------------
    input: Any = Field("sampler", description="Where experience comes from.")
    input_evaluation: list[str] = Field(
        default_factory=lambda: ["is", "wis"], description="Off-policy estimators."
    )
    postprocess_inputs: bool = Field(
        False, description="Whether offline trajectories are postprocessed."
    )
    shuffle_buffer_size: Int = Field(0, ge=0, description="Batches of the shuffling window.")
    output: Any = Field(None, description="Where experience is saved.")
    output_compress_columns: list[str] = Field(
        default_factory=lambda: ["obs", "new_obs"], description="Columns that are compressed."
    )
    output_max_file_size: Int = Field(
        64 * 1024 * 1024, ge=1, description="Largest part of a dataset, bytes."
    )

    # ---- several agents, replay -------------------------------------------------------
    multiagent: dict[str, Any] = Field(
        default_factory=lambda: deepcopy(MULTIAGENT),
        description="Policies and how agents map to them.",
    )
    replay_sequence_length: Int = Field(1, ge=1, description="Steps replayed in one piece.")

    # ---- making and changing ----------------------------------------------------------

    @model_validator(mode="wrap")
    @classmethod
    def _all_mistakes_at_once(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return data if isinstance(data, cls) else checked(cls, data, handler)

    @field_validator("device")
    @classmethod
    def _is_a_device(cls, value: str) -> str:
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", value):
            raise ValueError(f"expected auto, cpu, cuda or cuda:N, found {found(value)}")
        return value

    @field_validator("env")
    @classmethod
    def _is_an_env(cls, value: Any) -> Any:
        if value is None or callable(value) or (isinstance(value, str) and value):
            return value
        raise ValueError(
            "expected a Gymnasium id, a registered name, a dotted path, a class or a function, "
            f"found {found(value)}"
        )

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], *, where: str | None = None) -> Self:
        """Make a configuration of keys that differ from the defaults.

        Parameters
        ----------
        mapping
            The keys; RLlib's old spellings are understood.
        where
            What the mapping is, for messages; the class's name by default.

        Raises
        ------
        ConfigError
            With every mistake: the key, what was found and expected, the nearest key.
        """
        config, mistakes = check_config(cls, mapping)
        raise_mistakes(mistakes, where or cls.__name__)
        assert config is not None
        return config

    def merge(self, mapping: Mapping[str, Any]) -> Self:
        """Return a checked copy with changed keys.

        Sections (`model`, `env_config`, …) merge key by key; `exploration_config` is replaced when
        its type changes.

        Raises
        ------
        ConfigError
            With every mistake of the changes.
        """
        changes, mistakes, notes = translate(mapping)
        raise_mistakes(mistakes, type(self).__name__)
        for key, note in notes.items():
            if key not in changes:  # those that stay are named when the whole is checked
                warn(note)
        return self.from_dict(merged(self._set_keys(), changes))

    def to_dict(self) -> dict[str, Any]:
        """Return all keys as plain data; classes and functions by name."""
        return {
            field.alias or name: plain(getattr(self, name))
            for name, field in type(self).model_fields.items()
        }

    def changed(self) -> dict[str, Any]:
        """Return the keys that differ from the defaults, as plain data; of `model` those in it."""
        changed = {}
        for name, field in type(self).model_fields.items():
            value, default = getattr(self, name), field.get_default(call_default_factory=True)
            if value != default:
                changed[field.alias or name] = plain(value)
                if name == "model":
                    usual = plain(default)
                    changed[name] = {k: v for k, v in plain(value).items() if v != usual[k]}
        return changed

    def _set_keys(self) -> dict[str, Any]:
        """Return the keys that were given, with the values themselves."""
        keys: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            if name in self.model_fields_set:
                keys[field.alias or name] = getattr(self, name)
        if "model" in keys:
            keys["model"] = self.model.model_dump(exclude_unset=True)
        return keys

    # ---- fragment algebra -------------------------------------------------------------

    def resolved_fragment_length(self) -> int:
        """Steps of each environment in a fragment, with `auto` resolved.

        `auto` takes the fewest rounds that divide the train batch evenly into fragments of at most
        `LONGEST_AUTO_FRAGMENT` steps; where nothing does, the batch becomes a little larger.
        """
        if self.rollout_fragment_length != "auto":
            return self.rollout_fragment_length
        return fitting_fragment(self.train_batch_size, self._environments())

    def steps_per_round(self) -> int:
        """Environment steps in one fragment of every worker."""
        return self.resolved_fragment_length() * self._environments()

    def rounds_per_batch(self) -> int:
        """Fragments of every worker in a train batch, so that it has at least its size."""
        return math.ceil(self.train_batch_size / self.steps_per_round())

    def _environments(self) -> int:
        return max(1, self.num_workers) * self.num_envs_per_worker

    def cross_checks(self) -> list[tuple[str, str]]:
        """Check keys against each other; algorithms add their own to those of `super()`.

        Returns
        -------
        Key and what is wrong, for each mistake. The text names every other key that it depends
        on: where one of those is wrong itself, this mistake is left out.
        """
        batch, steps = self.train_batch_size, self.steps_per_round()
        if self.batch_mode != "truncate_episodes" or not self.samples_train_batches:
            return []
        if self.rollout_fragment_length == "auto" or self.rounds_per_batch() * steps < 2 * batch:
            return []
        return [
            (
                "train_batch_size",
                f"{batch} cannot be reached: one fragment of every worker has {steps} steps "
                f"(num_workers {max(1, self.num_workers)} x num_envs_per_worker "
                f"{self.num_envs_per_worker} x rollout_fragment_length "
                f"{self.resolved_fragment_length()}), so the smallest batch has "
                f"{self.rounds_per_batch() * steps}. {self._what_fits()}",
            )
        ]

    def _what_fits(self) -> str:
        fits, rest = divmod(self.train_batch_size, self._environments())
        if fits and not rest:
            return f"rollout_fragment_length: {fits} fits exactly"
        return f"Set train_batch_size to at least {self.steps_per_round()}, or sample with fewer"


def fitting_fragment(batch: int, environments: int) -> int:
    """Steps of each environment in a fragment, so that rounds of fragments make a train batch.

    Parameters
    ----------
    batch
        Steps of the train batch.
    environments
        That are stepped side by side, of all workers.
    """
    rounds = max(1, math.ceil(batch / (environments * LONGEST_AUTO_FRAGMENT)))
    for even in range(rounds, 2 * rounds + 1):
        if batch % (environments * even) == 0:
            return batch // (environments * even)
    return max(1, math.ceil(batch / (environments * rounds)))
