"""Every key of the seed's common configuration is a key here, with its default or a reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dtrainer.config import ConfigError, ModelConfig, TrainerConfig
from dtrainer.config.compat import OLD_NAMES, WITHOUT_EFFECT
from dtrainer.config.notyet import KEYS, MODEL_KEYS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "differences.md"

COMMON = {
    "num_workers": 2,
    "num_envs_per_worker": 1,
    "rollout_fragment_length": 200,
    "batch_mode": "truncate_episodes",
    "num_gpus": 0,
    "train_batch_size": 200,
    "optimizer": {},
    "gamma": 0.99,
    "horizon": None,
    "soft_horizon": False,
    "no_done_at_end": False,
    "env_config": {},
    "env": None,
    "normalize_actions": False,
    "clip_rewards": None,
    "clip_actions": True,
    "preprocessor_pref": "deepmind",
    "lr": 0.0001,
    "monitor": False,
    "log_level": "WARN",
    "callbacks": "DefaultCallbacks",
    "ignore_worker_failures": False,
    "log_sys_usage": True,
    "fake_sampler": False,
    "framework": "tf",
    "eager_tracing": False,
    "no_eager_on_workers": False,
    "explore": True,
    "exploration_config": {"type": "StochasticSampling"},
    "evaluation_interval": None,
    "evaluation_num_episodes": 10,
    "in_evaluation": False,
    "evaluation_config": {},
    "evaluation_num_workers": 0,
    "custom_eval_function": None,
    "sample_async": False,
    "observation_filter": "NoFilter",
    "synchronize_filters": True,
    "tf_session_args": {"intra_op_parallelism_threads": 2},
    "local_tf_session_args": {"intra_op_parallelism_threads": 8},
    "compress_observations": False,
    "collect_metrics_timeout": 180,
    "metrics_smoothing_episodes": 100,
    "remote_worker_envs": False,
    "remote_env_batch_wait_ms": 0,
    "min_iter_time_s": 0,
    "timesteps_per_iteration": 0,
    "seed": None,
    "extra_python_environs_for_driver": {},
    "extra_python_environs_for_worker": {},
    "num_cpus_per_worker": 1,
    "num_gpus_per_worker": 0,
    "custom_resources_per_worker": {},
    "num_cpus_for_driver": 1,
    "memory": 0,
    "object_store_memory": 0,
    "memory_per_worker": 0,
    "object_store_memory_per_worker": 0,
    "input": "sampler",
    "input_evaluation": ["is", "wis"],
    "postprocess_inputs": False,
    "shuffle_buffer_size": 0,
    "output": None,
    "output_compress_columns": ["obs", "new_obs"],
    "output_max_file_size": 64 * 1024 * 1024,
    "multiagent": {
        "policies": {},
        "policy_mapping_fn": None,
        "policies_to_train": None,
        "observation_fn": None,
        "replay_mode": "independent",
    },
    "replay_sequence_length": 1,
}
SPELLINGS = ("sample_batch_size", "use_pytorch", "eager")
MODEL = {
    "conv_filters": None,
    "conv_activation": "relu",
    "fcnet_activation": "tanh",
    "fcnet_hiddens": [256, 256],
    "free_log_std": False,
    "no_final_linear": False,
    "vf_share_layers": True,
    "use_lstm": False,
    "max_seq_len": 20,
    "lstm_cell_size": 256,
    "lstm_use_prev_action_reward": False,
    "state_shape": None,
    "framestack": True,
    "dim": 84,
    "grayscale": False,
    "zero_mean": True,
    "custom_model": None,
    "custom_model_config": {},
    "custom_action_dist": None,
    "custom_preprocessor": None,
}

BUILT = {
    "num_workers": 3,
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 50,
    "batch_mode": "complete_episodes",
    "num_gpus": 0.5,
    "train_batch_size": 2000,
    "gamma": 0.9,
    "horizon": 50,
    "env_config": {"a": 1},
    "env": "CartPole-v1",
    "normalize_actions": True,
    "clip_rewards": True,
    "clip_actions": False,
    "lr": 0.1,
    "log_level": "DEBUG",
    "log_sys_usage": False,
    "fake_sampler": True,
    "explore": False,
    "observation_filter": "ConcurrentMeanStdFilter",
    "synchronize_filters": False,
    "collect_metrics_timeout": 10,
    "metrics_smoothing_episodes": 10,
    "min_iter_time_s": 1,
    "timesteps_per_iteration": 1000,
    "seed": 3,
}
NOT_BUILT = {
    "optimizer": {"a": 1},
    "soft_horizon": True,
    "no_done_at_end": True,
    "preprocessor_pref": "rllib",
    "monitor": True,
    "callbacks": {"on_episode_end": print},
    "ignore_worker_failures": True,
    "exploration_config": {"type": "SoftQ"},
    "evaluation_interval": 1,
    "evaluation_num_episodes": 20,
    "evaluation_config": {"explore": False},
    "evaluation_num_workers": 1,
    "custom_eval_function": print,
    "sample_async": True,
    "compress_observations": True,
    "remote_worker_envs": True,
    "remote_env_batch_wait_ms": 10,
    "extra_python_environs_for_driver": {"A": "1"},
    "extra_python_environs_for_worker": {"A": "1"},
    "num_cpus_per_worker": 2,
    "num_gpus_per_worker": 1,
    "custom_resources_per_worker": {"A": 1},
    "num_cpus_for_driver": 2,
    "memory_per_worker": 1000,
    "input": "somewhere",
    "input_evaluation": ["is"],
    "postprocess_inputs": True,
    "shuffle_buffer_size": 10,
    "output": "logdir",
    "output_compress_columns": [],
    "output_max_file_size": 1000,
    "multiagent": {"policies": {"a": None}},
    "replay_sequence_length": 2,
}


def page_rows() -> dict[str, str]:
    rows = re.findall(r"^\| `([\w.]+)`.*? \| (.*?) \|$", PAGE.read_text(), re.MULTILINE)
    return dict(rows)


def test_every_key_is_there_with_its_default_or_a_listed_difference():
    here = TrainerConfig().to_dict()
    assert set(COMMON) <= set(here)
    different = {key for key, default in COMMON.items() if here[key] != default}
    different |= {f"model.{key}" for key in MODEL if here["model"][key] != MODEL[key]}
    assert different == {
        "rollout_fragment_length",
        "callbacks",
        "framework",
        "tf_session_args",
        "local_tf_session_args",
        "model.fcnet_hiddens",
        "model.vf_share_layers",
    }
    assert different <= set(page_rows())
    assert set(MODEL) == set(ModelConfig.model_fields)


def test_keys_that_the_seed_does_not_have_are_listed():
    assert set(TrainerConfig.model_fields) - {*COMMON, "model"} <= set(page_rows())


def test_old_spellings_are_known():
    assert all(key in OLD_NAMES or key in WITHOUT_EFFECT for key in SPELLINGS)


def test_every_key_is_built_or_not_built_or_without_effect():
    listed = {*BUILT, *NOT_BUILT, *WITHOUT_EFFECT, "model", "framework", "in_evaluation"}
    assert set(COMMON) <= listed
    assert set(NOT_BUILT) | {"in_evaluation"} == KEYS


@pytest.mark.parametrize("key", BUILT)
def test_what_is_built_is_accepted(key):
    assert TrainerConfig.from_dict({key: BUILT[key]}).to_dict()[key] == BUILT[key]


@pytest.mark.parametrize("key", [*NOT_BUILT, "in_evaluation"])
def test_what_is_not_built_is_never_ignored(key):
    with pytest.raises(ConfigError, match=rf"config\['{key}'\]: .*(not built yet|leave it out)"):
        TrainerConfig.from_dict({key: NOT_BUILT.get(key, True)})


@pytest.mark.parametrize("key", sorted(MODEL_KEYS))
def test_what_is_not_built_in_model_is_never_ignored(key):
    other = {bool: lambda old: not old, int: lambda old: old + 1, dict: lambda old: {"a": 1}}
    value = other.get(type(MODEL[key]), lambda old: ["x"] if key == "conv_filters" else "tanh")
    with pytest.raises(ConfigError, match=rf"\['{key}'\]: .*not built yet"):
        TrainerConfig.from_dict({"model": {key: value(MODEL[key])}})


def test_every_key_has_a_description():
    for section in (TrainerConfig, ModelConfig):
        for name, field in section.model_fields.items():
            assert field.description, name
            assert field.description.endswith("."), name
