"""Keys whose machinery is not built yet: their default is all that they may be."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from dtrainer.config.mistakes import Mistake
from dtrainer.config.wording import found

KEYS = frozenset(
    {
        "optimizer",
        "soft_horizon",
        "no_done_at_end",
        "preprocessor_pref",
        "monitor",
        "callbacks",
        "ignore_worker_failures",
        "exploration_config",
        "evaluation_interval",
        "evaluation_num_episodes",
        "in_evaluation",
        "evaluation_config",
        "evaluation_num_workers",
        "custom_eval_function",
        "sample_async",
        "compress_observations",
        "remote_worker_envs",
        "remote_env_batch_wait_ms",
        "extra_python_environs_for_driver",
        "extra_python_environs_for_worker",
        "num_cpus_per_worker",
        "num_gpus_per_worker",
        "custom_resources_per_worker",
        "num_cpus_for_driver",
        "memory_per_worker",
        "input",
        "input_evaluation",
        "postprocess_inputs",
        "shuffle_buffer_size",
        "output",
        "output_compress_columns",
        "output_max_file_size",
        "multiagent",
        "replay_sequence_length",
    }
)
MODEL_KEYS = frozenset(
    {
        "no_final_linear",
        "conv_filters",
        "conv_activation",
        "use_lstm",
        "max_seq_len",
        "lstm_cell_size",
        "lstm_use_prev_action_reward",
        "state_shape",
        "framestack",
        "dim",
        "grayscale",
        "zero_mean",
        "custom_model",
        "custom_model_config",
        "custom_action_dist",
        "custom_preprocessor",
    }
)


_REASONS = {
    "in_evaluation": "is set by dtrainer itself: leave it out",
    "ignore_worker_failures": "going on with fewer workers is not built yet: a lost worker ends "
    "the run, and --resume goes on from its last checkpoint. Leave it at its default (false)",
}


def not_built_yet(config: BaseModel) -> list[Mistake]:
    """Find keys that are set and would have no effect."""
    mistakes = _changed(config, KEYS)
    model = getattr(config, "model", None)
    if isinstance(model, BaseModel):
        mistakes += [mistake.under("model") for mistake in _changed(model, MODEL_KEYS)]
    return mistakes


def _changed(section: BaseModel, keys: frozenset[str]) -> list[Mistake]:
    mistakes = []
    for name, field in type(section).model_fields.items():
        if name not in keys:
            continue
        value: Any = getattr(section, name)
        default = field.get_default(call_default_factory=True)
        if value != default:
            text = f"{_short(value)} is not built yet; leave it at its default ({found(default)})"
            key = field.alias or name
            mistakes.append(Mistake((key,), _REASONS.get(key, text)))
    return mistakes


def _short(value: Any) -> str:
    """Name what is asked for: the type of an exploration, else the value."""
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        return str(value["type"])
    return found(value)
