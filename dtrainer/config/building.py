"""From plain data to an experiment, or to everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

from pydantic import ValidationError

from dtrainer.config.checks import check_config
from dtrainer.config.compat import warn
from dtrainer.config.errors import ConfigError
from dtrainer.config.experiment import ConfigClass, Experiment
from dtrainer.config.mistakes import Mistake, Path, from_pydantic, nearest
from dtrainer.config.stop import read_stop
from dtrainer.config.trainer import TrainerConfig
from dtrainer.config.wording import found, keys_of

_RAY_TAKES = "num_workers and num_gpus say what a run takes"
TUNE_KEYS = {
    "trial_resources": _RAY_TAKES,
    "resources_per_trial": _RAY_TAKES,
    "max_failures": "a run that has failed goes on with --resume",
    "checkpoint_score_attr": "the latest checkpoints are kept, keep_checkpoints_num of them",
    "sync_on_checkpoint": "checkpoints lie in the run's directory",
    "sync_config": "the run's directory is not copied elsewhere",
    "upload_dir": "the run's directory is not copied elsewhere",
    "loggers": "a run always writes result.jsonl, progress.csv and TensorBoard's events",
    "export_formats": "Trainer.export_policy_model exports a policy",
    "queue_trials": "a run starts at once, or says what it lacks",
    "reuse_actors": "a file's experiments run one after the other",
}
"""Keys of Ray Tune's experiments, and what does their job here."""

_SAMPLES = ("num_samples", "repeat")


def split_experiments(data: dict[str, Any]) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Tell one experiment from RLlib's mapping of names to experiments.

    Returns
    -------
    For each experiment its name (as a path; empty for the plain form) and its keys.
    """
    keys = set(Experiment.model_fields)
    values = list(data.values())
    named = (
        all(isinstance(value, dict) for value in values)
        and keys.isdisjoint(data)
        and any(keys & set(value) for value in values)
    )
    if named:
        return [((str(name),), value) for name, value in data.items()]
    return [((), data)]


def build_experiment(
    data: Mapping[str, Any], config_class: ConfigClass
) -> tuple[Experiment | None, list[Mistake]]:
    """Make an experiment of plain data, or find everything that is wrong with it."""
    keys, mistakes, notes = _read_old_keys(data)
    grids = list(_grids(keys, ()))
    cls, known = _resolve(keys, config_class, mistakes)
    inner = keys.pop("config", None)
    inner = {} if inner is None else dict(inner) if isinstance(inner, Mapping) else inner
    outside = _agree(keys, inner, mistakes) if isinstance(inner, dict) else set()
    config, wrong = check_config(cls, inner)
    if not known:
        wrong = [mistake for mistake in wrong if _is_surely_wrong(mistake)]
    mistakes += [
        mistake if mistake.path in outside else mistake.under("config") for mistake in wrong
    ]
    if keys.get("env") is None:
        mistakes.append(Mistake(("env",), "is missing: expected the name of an environment"))
    keys["stop"], wrong, stop_notes = read_stop(keys.get("stop"))
    mistakes += wrong
    try:
        run = keys.get("run") if isinstance(keys.get("run"), str) else "?"
        experiment = Experiment.model_validate(
            {**keys, "run": run, "config": config or TrainerConfig.model_construct()}
        )
    except ValidationError as error:
        mistakes += [_hinted(each, cls) for each in from_pydantic(error, Experiment, keys)]
    mistakes = grids + [each for each in mistakes if not _is_within(each, grids)]
    misspelt = {(mistake.meant,) for mistake in mistakes}
    mistakes = [each for each in mistakes if not (each.path in misspelt and _is_missing(each))]
    if mistakes:
        return None, mistakes
    for note in (*notes, *stop_notes):
        warn(note)
    return experiment, []


def _read_old_keys(data: Mapping[str, Any]) -> tuple[dict[str, Any], list[Mistake], list[str]]:
    """Read the keys of Ray Tune's experiments."""
    keys, mistakes, notes = dict(data), [], []
    if "local_dir" in keys:
        notes.append("local_dir is the old name of results")
        local_dir = keys.pop("local_dir")
        if keys.setdefault("results", local_dir) != local_dir:
            mistakes.append(Mistake(("local_dir",), "is the old name of results, which is set too"))
    for key in _SAMPLES:
        if keys.pop(key, 1) != 1:
            text = f"{found(data[key])}: more than one run of an experiment is not built yet"
            mistakes.append(Mistake((key,), f"{text}; train the file once for each seed"))
    if keys.pop("restore", None) is not None:
        text = "a run goes on with --resume; starting from another's checkpoint is not built yet"
        mistakes.append(Mistake(("restore",), text))
    notes += [
        f"{key} is Ray Tune's and has no effect: {instead}"
        for key, instead in TUNE_KEYS.items()
        if keys.pop(key, None) is not None
    ]
    odd = [key for key in keys if not isinstance(key, str)]
    for key in odd:
        mistakes.append(Mistake((key,), f"expected a name as key, found {found(key)}"))
        del keys[key]
    return keys, mistakes, notes


def _resolve(
    keys: dict[str, Any], config_class: ConfigClass, mistakes: list[Mistake]
) -> tuple[type[TrainerConfig], bool]:
    """Find the configuration class, and whether it is that of a known algorithm."""
    run = keys.get("run")
    if not isinstance(run, str):
        what = "is missing: expected" if run is None else f"found {found(run)}, expected"
        mistakes.append(Mistake(("run",), f"{what} the name of an algorithm, such as PPO"))
        return TrainerConfig, False
    try:
        return config_class(run), True
    except ConfigError as error:
        text = ". ".join(filter(None, (error.message, error.hint)))
        mistakes.append(Mistake(("run",), text))
        return TrainerConfig, False


def _agree(keys: dict[str, Any], config: dict[str, Any], mistakes: list[Mistake]) -> set[Path]:
    """Let `env` and `seed` stand in the experiment or in its config, but not differently in both.

    Returns
    -------
    Those that are written in the experiment alone.
    """
    outside: set[Path] = set()
    for name in ("env", "seed"):
        outer, inner = keys.get(name), config.get(name)
        if inner is None and outer is not None:
            config[name] = outer
            outside.add((name,))
        elif outer is None and inner is not None:
            keys[name] = inner
        elif outer != inner:
            text = f"is {found(inner)}, but {name} is {found(outer)}: remove one"
            mistakes.append(Mistake(("config", name), text))
            del config[name]
    return outside


def _grids(value: Any, path: Path) -> Iterator[Mistake]:
    if isinstance(value, Mapping):
        if list(value) == ["grid_search"]:
            yield Mistake(path, "grid_search is not built: train the file once for each value")
            return
        for key, entry in value.items():
            yield from _grids(entry, (*path, key))


def _is_surely_wrong(mistake: Mistake) -> bool:
    """Whether it is one for every algorithm: an unknown key may be one of an unknown algorithm."""
    key = str(mistake.path[-1]) if mistake.path else ""
    if len(mistake.path) != 1 or not mistake.message.startswith("unknown key"):
        return True
    return mistake.meant is not None and SequenceMatcher(None, key, mistake.meant).ratio() > 0.85


def _is_missing(mistake: Mistake) -> bool:
    return mistake.message.startswith("is missing")


def _is_within(mistake: Mistake, others: list[Mistake]) -> bool:
    return any(mistake.path[: len(other.path)] == other.path for other in others)


def _hinted(mistake: Mistake, cls: type[TrainerConfig]) -> Mistake:
    """Say of an experiment's unknown key that it belongs, or its neighbour does, under `config`."""
    if len(mistake.path) != 1 or not mistake.message.startswith("unknown key"):
        return mistake
    key, known = str(mistake.path[0]), keys_of(cls)
    if key in known:
        return replace(mistake, message="unknown key here. It belongs under config", meant=key)
    meant = nearest(key, known)
    if mistake.meant is None and meant is not None:
        return replace(mistake, message=f"unknown key. Did you mean config.{meant}?", meant=meant)
    return mistake
