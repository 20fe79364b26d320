"""Experiments: what a YAML file says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import Field, SerializeAsAny, field_validator

from dtrainer.config.cluster import ClusterSpec
from dtrainer.config.mistakes import Place, raise_mistakes
from dtrainer.config.overrides import Override, apply_override, parse_overrides
from dtrainer.config.plain import plain
from dtrainer.config.section import Section
from dtrainer.config.trainer import EnvName, TrainerConfig
from dtrainer.config.types import Int
from dtrainer.config.wording import found
from dtrainer.config.yaml_file import YamlFile, dump

ConfigClass = Callable[[str], type[TrainerConfig]]


class Experiment(Section):
    """One run: an algorithm, an environment, a configuration, and when to stop."""

    name: str | None = Field(None, description="Name of the run, and of its directory.")
    run: str = Field(description="Algorithm, such as PPO.")
    env: EnvName = Field(None, description="Environment; may be in config too.")
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
    config: SerializeAsAny[TrainerConfig] = Field(description="The trainer's keys.")
    cluster: ClusterSpec = Field(
        default_factory=ClusterSpec, description="Where Dask workers come from."
    )
    seed: Int | None = Field(None, ge=0, description="Seed of the run; may be in config too.")
    results: str | None = Field(
        None, description="Folder for runs; null: $DTRAINER_RESULTS or ./results."
    )

    @field_validator("name")
    @classmethod
    def _names_a_directory(cls, value: str | None) -> str | None:
        if value is not None and (
            not value.strip() or value[0] == "." or re.search(r"[/\\\0]", value)
        ):
            raise ValueError(
                "expected the name of a directory (not a path, no dot at its beginning), "
                f"found {found(value)}"
            )
        return value

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], *, config_class: ConfigClass) -> Experiment:
        """Make an experiment of the keys that a file would have.

        Parameters
        ----------
        mapping
            The keys; here the environment may also be a class or a function.
        config_class
            From an algorithm's name to its configuration class.

        Raises
        ------
        ConfigError
            With every mistake.
        """
        from dtrainer.config.building import build_experiment

        experiment, mistakes = build_experiment(mapping, config_class)
        raise_mistakes(mistakes, cls.__name__)
        assert experiment is not None
        return experiment

    def default_name(self) -> str:
        """Name for a run that was given none: algorithm, environment and time."""
        env = plain(self.env if self.env is not None else self.config.env)
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        return re.sub(r"[^\w.-]+", "-", f"{self.run}_{env}_{stamp}")

    def to_dict(self) -> dict[str, Any]:
        """Return the experiment as plain data, every key of the configuration included.

        What may stand in `config` as well, `env` and `seed`, stands outside it alone.
        """
        data: dict[str, Any] = {
            name: plain(getattr(self, name)) for name in type(self).model_fields
        }
        data["stop"] = {key: _shortest(value) for key, value in self.stop.items()}
        data["cluster"] = self.cluster.model_dump(exclude_defaults=True) or {"type": "local"}
        config = data["config"]
        for name in ("env", "seed"):
            inner = config.pop(name)
            data[name] = inner if data[name] is None else data[name]
        return data

    def to_yaml(self) -> str:
        """Return the experiment as YAML; loading it gives an equal one."""
        return dump(self.to_dict())


def _shortest(value: float) -> float:
    return int(value) if value.is_integer() else value


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
        From an algorithm's name to its configuration class; raises ConfigError for another name.

    Raises
    ------
    ConfigError
        With every mistake of the file: line, key, what was found and what was expected.
    """
    from dtrainer.config.building import build_experiment, split_experiments

    file = YamlFile(Path(path))
    changes = parse_overrides(overrides, Experiment.model_fields)
    experiments: list[Experiment] = []
    mistakes = list(file.mistakes)
    sources = split_experiments(file.data)
    for prefix, data in sources:
        found_here = [each for change in changes for each in apply_override(data, change)]
        if prefix:
            data.setdefault("name", prefix[0])
        experiment, wrong = build_experiment(data, config_class)
        mistakes += [mistake.under(*prefix) for mistake in (*found_here, *wrong)]
        if experiment is not None:
            experiments.append(experiment)
    depth = len(sources[0][0])
    raise_mistakes(mistakes, str(path), lambda where: _locate(file, changes, where, depth))
    return experiments


def _locate(
    file: YamlFile, changes: list[Override], path: tuple[str | int, ...], depth: int
) -> Place | None:
    """Where a key was written: by an override, or on a line of the file."""
    for change in reversed(changes):
        if path[depth : depth + len(change.path)] == change.path:
            return Place(f"override {change.text!r}")
    line = file.line(path)
    return None if line is None else Place(f"line {line}", line)
