"""RLlib's old spellings, keys without effect, and how configurations merge."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from dtrainer.config.mistakes import ConfigWarning, Mistake

OLD_NAMES = {"sample_batch_size": "rollout_fragment_length"}
"""Old names of keys, to their names now."""

_RENAMED = {**OLD_NAMES, "lambda_": "lambda"}

_REPLACED = {
    "gpu": "num_gpus: 1",
    "gpu_fraction": "num_gpus",
    "use_gpu_for_workers": "num_gpus_per_worker: 1",
}

_TENSORFLOW = "is TensorFlow's and has no effect: dtrainer learns with PyTorch"

WITHOUT_EFFECT = {
    "eager": _TENSORFLOW + " (always eager)",
    "eager_tracing": _TENSORFLOW + " (torch_num_threads sets its threads)",
    "no_eager_on_workers": _TENSORFLOW + ", and actors act with numpy",
    "tf_session_args": _TENSORFLOW + " (torch_num_threads sets its threads)",
    "local_tf_session_args": _TENSORFLOW + " (torch_num_threads sets its threads)",
    "use_pytorch": "has no effect: dtrainer always learns with PyTorch",
    "memory": "is Ray's and has no effect: the driver's memory is its batch job's",
    "object_store_memory": "is Ray's and has no effect: there is no object store, batches go "
    "straight from the actors to the driver",
    "object_store_memory_per_worker": "is Ray's and has no effect: there is no object store, "
    "batches go straight from the actors to the driver",
}
"""Keys that are Ray's or TensorFlow's alone, and what does their job here."""

_DROPPED = ("eager", "use_pytorch")
_FRAMEWORKS = ("tf", "tf1", "tf2", "tfe")
_MERGED_SECTIONS = (
    "model",
    "env_config",
    "evaluation_config",
    "exploration_config",
    "optimizer",
    "multiagent",
    "custom_resources_per_worker",
    "extra_python_environs_for_driver",
    "extra_python_environs_for_worker",
)
EXPLORATION: dict[str, Any] = {"type": "StochasticSampling"}
MULTIAGENT: dict[str, Any] = {
    "policies": {},
    "policy_mapping_fn": None,
    "policies_to_train": None,
    "observation_fn": None,
    "replay_mode": "independent",
}


def translate(
    mapping: Mapping[str, Any],
) -> tuple[dict[str, Any], list[Mistake], dict[str, str]]:
    """Read old spellings.

    Returns
    -------
    keys
        In today's spelling.
    mistakes
        Found on the way.
    notes
        For each key that has no effect or an old name: a warning.
    """
    result: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    notes: dict[str, str] = {}
    for key, value in mapping.items():
        if key in _REPLACED:
            mistakes.append(Mistake((key,), f"no longer a key: use {_REPLACED[key]}"))
        elif key in _RENAMED:
            new = _RENAMED[key]
            if new in mapping and mapping[new] != value:
                mistakes.append(Mistake((key,), f"is the old name of {new}, which is set too"))
            elif key == "sample_batch_size":
                notes[key] = f"{key} is the old name of {new}"
            result[new] = mapping.get(new, value)
        else:
            if key in WITHOUT_EFFECT and value not in (None, False, 0, {}):
                notes[key] = f"{key} {WITHOUT_EFFECT[key]}"
            if key not in _DROPPED:
                result.setdefault(key, value)
    _read_framework(result, notes)
    _read_model(result, mistakes, notes)
    _complete(result, "exploration_config", EXPLORATION)
    _complete(result, "multiagent", MULTIAGENT)
    if str(result.get("log_level")).upper() in ("WARNING", "DEBUG", "INFO", "WARN", "ERROR"):
        result["log_level"] = result["log_level"].upper().removesuffix("ING")
    return result, mistakes, notes


def _read_framework(keys: dict[str, Any], notes: dict[str, str]) -> None:
    framework = keys.get("framework")
    if framework in _FRAMEWORKS:
        notes["framework"] = (
            f"framework: {framework} means torch here: dtrainer learns with PyTorch"
        )
        keys["framework"] = "torch"


def _read_model(keys: dict[str, Any], mistakes: list[Mistake], notes: dict[str, str]) -> None:
    """Read the old names in `model`, and what used to stand beside it."""
    model = keys.get("model")
    if model is None and "vf_share_layers" in keys:
        model = {}
    if not isinstance(model, Mapping):
        return
    model = dict(model)
    if "vf_share_layers" in keys:
        share = keys.pop("vf_share_layers")
        notes["vf_share_layers"] = "vf_share_layers is the old place of model.vf_share_layers"
        if model.setdefault("vf_share_layers", share) != share:
            mistakes.append(
                Mistake(("vf_share_layers",), "differs from model.vf_share_layers: remove one")
            )
    if "custom_options" in model:
        options = model.pop("custom_options")
        model.setdefault("custom_model_config", options)
        notes["custom_options"] = "model.custom_options is the old name of custom_model_config"
    if "vf_share_layers" in model or "model" in keys:
        keys["model"] = model


def _complete(keys: dict[str, Any], section: str, default: Mapping[str, Any]) -> None:
    """Fill in what a section leaves out, as its default is not empty."""
    given = keys.get(section)
    if isinstance(given, Mapping):
        given = {"policies" if key == "policy_graphs" else key: given[key] for key in given}
        keys[section] = {**default, **given}


def warn(text: str) -> None:
    """Warn of something that is not as it was asked for."""
    warnings.warn(text, ConfigWarning, stacklevel=2)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge configurations: sections key by key, everything else by replacement.

    `exploration_config` is replaced when its type changes: one kind of exploration has no use for
    the options of another.
    """
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if key == "exploration_config" and isinstance(old, Mapping) and isinstance(value, Mapping):
            same = value.get("type", old.get("type")) == old.get("type")
            result[key] = {**old, **value} if same else value
        elif key in _MERGED_SECTIONS:
            result[key] = _merge_section(old, value)
        else:
            result[key] = value
    return result


def _merge_section(old: Any, new: Any) -> Any:
    if not isinstance(old, Mapping) or not isinstance(new, Mapping):
        return new
    return {**old, **{key: _merge_section(old.get(key), value) for key, value in new.items()}}
