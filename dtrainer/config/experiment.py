"""Experiments: what a YAML file says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dtrainer.config.checks import check_config
from dtrainer.config.cluster import ClusterSpec
from dtrainer.config.compat import warn
from dtrainer.config.errors import ConfigError
from dtrainer.config.mistakes import (
    Mistake,
    from_pydantic,
    nearest,
    raise_mistakes,
    show,
    unknown_key,
)
from dtrainer.config.overrides import Override, apply_override, parse_overrides
from dtrainer.config.trainer import TrainerConfig
from dtrainer.config.types import Int
from dtrainer.config.yaml_file import YamlFile, dump

ConfigClass = Callable[[str], type[TrainerConfig]]

RESULT_KEYS = (
    "episode_reward_mean",
    "episode_reward_max",
    "episode_reward_min",
    "episode_len_mean",
    "episodes_total",
    "episodes_this_iter",
    "timesteps_total",
    "timesteps_this_iter",
    "training_iteration",
    "time_total_s",
    "time_this_iter_s",
)
_NESTED_RESULTS = ("info", "evaluation", "custom_metrics", "timers", "perf", "sampler_perf")
_IGNORED = {
    "num_samples": "one run is trained",
    "trial_resources": "num_workers and num_gpus say what a run takes",
    "resources_per_trial": "num_workers and num_gpus say what a run takes",
    "max_failures": "dtrainer resumes with --resume",
    "sync_on_checkpoint": "checkpoints lie where the run lies",
}


class Experiment(BaseModel):
    """One run: an algorithm, an environment, a configuration, and when to stop."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True
    )

    name: str | None = Field(None, description="Name of the run, and of its directory.")
    run: str = Field(description="Algorithm, such as PPO.")
    env: Any = Field(None, description="Environment; may be in config too.")
    stop: dict[str, float] = Field(
        default_factory=dict,
        description="Result keys and the values at which to stop, whichever comes first.",
    )
    checkpoint_freq: Int = Field(
        10, ge=0, description="Iterations between checkpoints; 0 for none on the way."
    )
    checkpoint_at_end: bool = Field(True, description="Whether the end of a run is saved.")
    keep_checkpoints_num: Int | None = Field(
        3, ge=1, description="How many of the latest checkpoints stay; null for all."
    )
    config: TrainerConfig = Field(description="The trainer's keys.")
    cluster: ClusterSpec = Field(
        default_factory=ClusterSpec, description="Where Dask workers come from."
    )
    seed: Int | None = Field(None, ge=0, description="Seed of the run, as config.seed.")
    results: str | None = Field(None, description="Folder for runs.")

    def default_name(self) -> str:
        """Name for a run that was given none: algorithm, environment and time."""
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        return re.sub(r"[^\w.-]+", "-", f"{self.run}_{self.env}_{stamp}")

    def to_dict(self) -> dict[str, Any]:
        """Return the experiment as plain data, every key of the configuration included."""
        plain = self.model_dump(exclude={"config", "cluster", "env"})
        cluster = self.cluster.model_dump(exclude_defaults=True)
        env = self.config.to_dict()["env"]
        config = self.config.to_dict()
        del config["env"]
        return {**plain, "env": env, "cluster": cluster or {"type": "local"}, "config": config}

    def to_yaml(self) -> str:
        """Return the experiment as YAML; loading it gives an equal one."""
        return dump(self.to_dict())


def load_experiments(
    path: str | Path, overrides: Iterable[str] = (), *, config_class: ConfigClass
) -> list[Experiment]:
    """Read the experiments of a file.

    Parameters
    ----------
    path
        A YAML file: one experiment's keys, or, as RLlib's files, names of experiments and their
        keys under each.
    overrides
        Changes such as `config.lr=3e-4`, for every experiment of the file.
    config_class
        From an algorithm's name to its configuration class.

    Raises
    ------
    ConfigError
        With every mistake of the file: line, key, what was found and what was expected.
    """
    file = YamlFile(Path(path))
    changes = parse_overrides(overrides, Experiment.model_fields)
    sources = _sources(file.data)
    experiments, mistakes = [], []
    for prefix, data in sources:
        for change in changes:
            apply_override(data, change)
        experiment, found = build_experiment(data, config_class)
        if experiment is not None:
            if prefix and experiment.name is None:
                experiment = experiment.model_copy(update={"name": prefix[0]})
            experiments.append(experiment)
        mistakes += [mistake.under(*prefix) for mistake in found]
    depth = len(sources[0][0])
    raise_mistakes(mistakes, str(path), lambda where: _locate(file, changes, where, depth))
    return experiments


def build_experiment(
    data: Mapping[str, Any], config_class: ConfigClass
) -> tuple[Experiment | None, list[Mistake]]:
    """Make an experiment of plain data, or find everything that is wrong with it."""
    keys, mistakes = _old_keys(dict(data))
    config_data = keys.pop("config", {}) or {}
    mistakes += _refuse_grids(data)
    cls = _resolve(keys, config_class, mistakes)
    if isinstance(config_data, Mapping):
        config_data = dict(config_data)
        _agree(keys, config_data, "env", mistakes)
        _agree(keys, config_data, "seed", mistakes)
    config, wrong = check_config(cls, config_data)
    mistakes += [mistake.under("config") for mistake in wrong]
    mistakes += _check_stop(keys)
    if keys.get("env") is None:
        mistakes.append(Mistake(("env",), "is missing: expected the name of an environment"))
    checked = {**keys, "run": keys.get("run") or "", "config": config or cls()}
    try:
        experiment = Experiment.model_validate(checked)
    except ValidationError as error:
        return None, mistakes + _hints(from_pydantic(error, Experiment), cls)
    return (experiment, []) if not mistakes else (None, mistakes)


def _sources(data: dict[str, Any]) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Tell one experiment from RLlib's mapping of names to experiments."""
    values = list(data.values())
    named = values and all(isinstance(value, dict) and "run" in value for value in values)
    if named:
        return [((str(name),), value) for name, value in data.items()]
    return [((), data)]


def _resolve(
    keys: dict[str, Any], config_class: ConfigClass, mistakes: list[Mistake]
) -> type[TrainerConfig]:
    run = keys.get("run")
    if not isinstance(run, str):
        found = "is missing" if run is None else f"found {show(run)}"
        mistakes.append(Mistake(("run",), f"{found}: expected the name of an algorithm"))
        return TrainerConfig
    try:
        return config_class(run)
    except ConfigError as error:
        mistakes.append(Mistake(("run",), " ".join(filter(None, (error.message, error.hint)))))
        return TrainerConfig


def _old_keys(keys: dict[str, Any]) -> tuple[dict[str, Any], list[Mistake]]:
    if "local_dir" in keys:
        warn("local_dir is the old name of results")
        keys.setdefault("results", keys.pop("local_dir"))
    for key in [key for key in keys if key in _IGNORED]:
        value = keys.pop(key)
        if value not in (None, 1, {}, 0):
            warn(f"{key} has no effect: {_IGNORED[key]}")
    return keys, []


def _agree(
    keys: dict[str, Any], config: dict[str, Any], name: str, mistakes: list[Mistake]
) -> None:
    """Let a key stand in the experiment or in its config, but not differently in both."""
    outer, inner = keys.get(name), config.get(name)
    if outer is not None and inner is not None and outer != inner:
        mistakes.append(
            Mistake(("config", name), f"is {show(inner)}, but {name} is {show(outer)}: remove one")
        )
        return
    value = outer if outer is not None else inner
    if value is not None:
        keys[name] = config[name] = value


def _check_stop(keys: dict[str, Any]) -> list[Mistake]:
    stop = keys.get("stop")
    if stop is None:
        keys["stop"] = {}
        return []
    if not isinstance(stop, Mapping):
        return []
    mistakes, numbers = [], {}
    for key, value in stop.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            mistakes.append(Mistake(("stop", key), f"expected a number, found {show(value)}"))
        else:
            numbers[str(key)] = float(value)
        first = re.split(r"[./]", str(key))[0]
        if first not in (*RESULT_KEYS, *_NESTED_RESULTS):
            meant = nearest(str(key), RESULT_KEYS)
            asked = f". Did you mean {meant}?" if meant else ""
            warn(f"stop.{key} is no key of a result, so it will never stop the run{asked}")
    keys["stop"] = numbers
    return mistakes


def _refuse_grids(data: Any, path: tuple[str | int, ...] = ()) -> list[Mistake]:
    if isinstance(data, Mapping):
        if "grid_search" in data:
            return [Mistake(path, "grid_search is not built: run the file once for each value")]
        return [m for key, value in data.items() for m in _refuse_grids(value, (*path, key))]
    return []


def _hints(mistakes: list[Mistake], cls: type[TrainerConfig]) -> list[Mistake]:
    """Say where a key belongs that stands one level too high."""
    config_keys = [field.alias or name for name, field in cls.model_fields.items()]
    hinted = []
    for mistake in mistakes:
        key = str(mistake.path[-1]) if mistake.path else ""
        if len(mistake.path) == 1 and mistake.message.startswith("unknown key"):
            if key in config_keys:
                mistake = Mistake(mistake.path, f"unknown key here. It belongs under config: {key}")
            elif "Did you mean" not in mistake.message and nearest(key, config_keys):
                meant = nearest(key, config_keys)
                mistake = Mistake(mistake.path, f"unknown key. Did you mean config.{meant}?")
        hinted.append(mistake)
    return hinted


def _locate(
    file: YamlFile, changes: list[Override], path: tuple[str | int, ...], depth: int
) -> str | None:
    """Where a key was written: by an override, or on a line of the file."""
    for change in changes:
        if path[depth : depth + len(change.path)] == change.path:
            return f"override {change.text!r}"
    line = file.line(path)
    return None if line is None else f"line {line}"


__all__ = ["Experiment", "build_experiment", "load_experiments", "unknown_key"]
