"""RLlib's old spellings, keys without effect, and how configurations merge."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from dtrainer.config.mistakes import ConfigWarning, Mistake

_RENAMED = {
    "sample_batch_size": "rollout_fragment_length",
    "lambda_": "lambda",
}

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


def translate(mapping: Mapping[str, Any]) -> tuple[dict[str, Any], list[Mistake]]:
    """Read old spellings.

    Returns
    -------
    The keys in today's spelling, and the mistakes found on the way. What has no effect gets one
    warning a key.
    """
    result: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for key, value in mapping.items():
        if key in _REPLACED:
            mistakes.append(Mistake((key,), f"no longer a key: use {_REPLACED[key]}"))
        elif key in _RENAMED:
            new = _RENAMED[key]
            if new in mapping:
                mistakes.append(Mistake((key,), f"is the old name of {new}, which is set too"))
            elif key == "sample_batch_size":
                warn(f"{key} is the old name of {new}")
            result[new] = value
        else:
            if key in WITHOUT_EFFECT and value not in (None, False, 0, {}):
                warn(f"{key} {WITHOUT_EFFECT[key]}")
            if key not in _DROPPED:
                result[key] = value
    if "vf_share_layers" in result:
        warn("vf_share_layers is the old place of model.vf_share_layers")
        section = result.get("model")
        if section is None or isinstance(section, Mapping):
            share = result.pop("vf_share_layers")
            result["model"] = {"vf_share_layers": share, **(section or {})}
    if result.get("framework") in ("tf", "tf2", "tfe"):
        warn(f"framework: {result['framework']} means torch here: dtrainer learns with PyTorch")
        result["framework"] = "torch"
    return result, mistakes


def warn(text: str) -> None:
    """Warn of something that is not as it was asked for."""
    warnings.warn(text, ConfigWarning, stacklevel=2)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge configurations: sections key by key, everything else by replacement."""
    result = dict(base)
    for key, value in changes.items():
        key = "lambda" if key == "lambda_" else key
        old = result.get(key)
        new_type = key == "exploration_config" and isinstance(value, Mapping) and "type" in value
        if (
            key in _MERGED_SECTIONS
            and isinstance(old, Mapping)
            and isinstance(value, Mapping)
            and not (new_type and isinstance(old, Mapping) and old.get("type") != value["type"])
        ):
            result[key] = {**old, **value}
        else:
            result[key] = value
    return result
