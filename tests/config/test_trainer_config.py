"""Making configurations in a program: values, mistakes, merging, fragments."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time
import warnings

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrainer.config import ConfigError, ConfigWarning, ModelConfig, TrainerConfig
from dtrainer.config.trainer import LONGEST_AUTO_FRAGMENT, fitting_fragment
from tests.config.algorithms import LittleConfig, ReplayConfig


def mistakes(keys, cls=LittleConfig) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        cls.from_dict(keys)
    head, *lines = str(raised.value).splitlines()
    many = "mistake" if len(lines) == 1 else "mistakes"
    assert head == f"{cls.__name__}: {len(lines)} {many}"
    return [line.removeprefix("  ") for line in lines]


def test_defaults_are_a_configuration_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = TrainerConfig()
        assert config == TrainerConfig.from_dict({})
        assert TrainerConfig.from_dict(config.to_dict()) == config
        assert config.changed() == {}


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"num_workrs": 2}, "config['num_workrs']: unknown key. Did you mean num_workers?"),
        ({"qqq": 2}, "config['qqq']: unknown key"),
        ({"n_epochs": 2}, "config['n_epochs']: unknown key"),
        ({"learning_rate": 1}, "config['learning_rate']: unknown key. Did you mean lr?"),
        ({"lambda_decay": 1}, "config['lambda_decay']: unknown key. Did you mean lambda?"),
        ({"lr": "fast"}, "config['lr']: expected a number > 0, found 'fast' (a string)"),
        (
            {"lr": "3e-4"},
            "config['lr']: expected a number > 0, found '3e-4' "
            "(a string; without the quotes it is a number)",
        ),
        ({"lr": True}, "config['lr']: expected a number > 0, found true"),
        ({"lr": None}, "config['lr']: expected a number > 0, found null"),
        ({"lr": 0}, "config['lr']: expected a number > 0, found 0"),
        ({"lr": float("nan")}, "config['lr']: expected a number > 0, found nan"),
        ({"lr": [1]}, "config['lr']: expected a number > 0, found [1] (a list)"),
        ({"gamma": 1.5}, "config['gamma']: expected a number >= 0 and <= 1, found 1.5"),
        ({"num_workers": 2.5}, "config['num_workers']: expected an integer >= 0, found 2.5"),
        ({"num_workers": True}, "config['num_workers']: expected an integer >= 0, found true"),
        ({"num_workers": -1}, "config['num_workers']: expected an integer >= 0, found -1"),
        ({"horizon": 0}, "config['horizon']: expected an integer >= 1 or null, found 0"),
        ({"explore": 1}, "config['explore']: expected true or false, found 1"),
        ({"explore": "yes"}, "config['explore']: expected true or false, found 'yes' (a string)"),
        (
            {"batch_mode": "truncate_episode"},
            "config['batch_mode']: expected one of truncate_episodes, complete_episodes, found "
            "'truncate_episode' (a string). Did you mean truncate_episodes?",
        ),
        (
            {"rollout_fragment_length": 0},
            "config['rollout_fragment_length']: expected an integer >= 1 or auto, found 0",
        ),
        (
            {"clip_rewards": -1},
            "config['clip_rewards']: expected true or false or a number > 0 or null, found -1",
        ),
        (
            {"device": "gpu"},
            "config['device']: expected auto, cpu, cuda or cuda:N, found 'gpu' (a string)",
        ),
        ({"env_config": 3}, "config['env_config']: expected a mapping, found 3"),
        ({"model": [64]}, "config['model']: expected a mapping, found [64] (a list)"),
        (
            {"model": {"fcnet_hidens": [64]}},
            "config['model']['fcnet_hidens']: unknown key. Did you mean fcnet_hiddens?",
        ),
        (
            {"model": {"fcnet_hiddens": 64}},
            "config['model']['fcnet_hiddens']: expected a list of integers >= 1, found 64",
        ),
        (
            {"model": {"fcnet_hiddens": [64, 0]}},
            "config['model']['fcnet_hiddens'][1]: expected an integer >= 1, found 0",
        ),
        (
            {"model": {"lr": 1}},
            "config['model']['lr']: unknown key here. It belongs one level higher, beside model",
        ),
        ({"use_lstm": 1}, "config['use_lstm']: unknown key here. It belongs under model"),
        (
            {"stop": {}},
            "config['stop']: unknown key here. It belongs to an experiment, beside run and env",
        ),
        (
            {"lr_schedule": [[0]]},
            "config['lr_schedule'][0][1]: is missing: expected a number",
        ),
        (
            {"sample_async": True},
            "config['sample_async']: true is not built yet; leave it at its default (false)",
        ),
        (
            {"exploration_config": {"type": "EpsilonGreedy", "epsilon": 0.1}},
            "config['exploration_config']: EpsilonGreedy is not built yet; leave it at its default "
            "({'type': 'StochasticSampling'} (a mapping))",
        ),
        (
            {"model": {"use_lstm": True}},
            "config['model']['use_lstm']: true is not built yet; leave it at its default (false)",
        ),
        ({"gpu": True}, "config['gpu']: no longer a key: use num_gpus: 1"),
        ({3: 4}, "config[3]: expected a name as key, found 3"),
    ],
)
def test_texts_of_mistakes(keys, text):
    assert mistakes(keys) == [text]


def test_all_mistakes_at_once():
    found = mistakes(
        {
            "num_wokers": 2,
            "lr": "fast",
            "monitor": True,
            "model": {"fcnet_activation": "tan", "use_lstm": True},
            "sgd_minibatch_size": 5000,
        }
    )
    assert [line.split(":")[0] for line in found] == [
        "config['model']['fcnet_activation']",
        "config['lr']",
        "config['num_wokers']",
        "config['monitor']",
        "config['sgd_minibatch_size']",
    ]


def test_a_wrong_key_does_not_blame_its_neighbours():
    """The default of what is wrong or misspelt says nothing about the others."""
    keys = {"rollout_fragment_length": 2000, "num_workers": 2, "train_batch_size": 2500}
    assert "cannot be reached" not in " ".join(mistakes({**keys, "num_workers": "two"}))
    keys = {"rollout_fragment_length": 8000, "num_workers": 1}
    assert mistakes({**keys, "train_batch_sise": 8000}) == [
        "config['train_batch_sise']: unknown key. Did you mean train_batch_size?"
    ]


@pytest.mark.parametrize("given_instead", [[1], "lr=3", 3, None])
def test_not_a_mapping(given_instead):
    [line] = mistakes(given_instead)
    assert line.startswith("config: expected a mapping of keys to values, found")


def test_every_way_of_making_one_speaks_the_same_words():
    for make in (
        lambda: LittleConfig(num_workrs=2),
        lambda: LittleConfig.model_validate({"num_workrs": 2}),
        lambda: LittleConfig().merge({"num_workrs": 2}),
    ):
        with pytest.raises(ConfigError, match="Did you mean num_workers"):
            make()


def test_same_values_in_other_types():
    config = LittleConfig.from_dict(
        {
            "num_workers": 3.0,
            "train_batch_size": np.int64(6000),
            "lr": np.float32(0.5),
            "gamma": 1,
            "lr_schedule": [[0, 1e-3], (1e5, 0)],
            "log_level": "warning",
            "model": {"fcnet_hiddens": (64.0, np.int32(32))},
        }
    )
    assert (config.num_workers, config.train_batch_size, config.lr) == (3, 6000, 0.5)
    assert type(config.train_batch_size) is int
    assert type(config.gamma) is float
    assert config.lr_schedule == [(0.0, 1e-3), (1e5, 0.0)]
    assert config.log_level == "WARN"
    assert config.model.fcnet_hiddens == [64, 32]


def test_lambda_goes_by_both_names():
    assert LittleConfig(lambda_=0.5) == LittleConfig.from_dict({"lambda": 0.5})
    assert LittleConfig(lambda_=0.5).to_dict()["lambda"] == 0.5


def test_frozen():
    with pytest.raises(ValueError, match="frozen"):
        TrainerConfig().num_workers = 3  # type: ignore[misc]


class Env(gym.Env):
    pass


def make_env(context):
    return Env()


@pytest.mark.parametrize(
    ("env", "name"),
    [
        (Env, f"{__name__}.Env"),
        (make_env, f"{__name__}.make_env"),
        ("CartPole-v1", "CartPole-v1"),
    ],
)
def test_environments_of_programs(env, name):
    config = TrainerConfig(env=env)
    assert config.env is env
    assert config.to_dict()["env"] == name
    assert config.merge({"lr": 1.0}).env is env


@pytest.mark.parametrize("env", [3, "", Env()])
def test_what_is_no_environment(env):
    [line] = mistakes({"env": env})
    assert line.startswith("config['env']: expected a Gymnasium id")


def test_plain_data_is_json_and_survives():
    config = LittleConfig.from_dict(
        {"env_config": {"sizes": np.arange(2), "kind": Env, "pair": (1, 2)}, "lr": 0.1}
    )
    data = json.loads(json.dumps(config.to_dict()))
    assert data["env_config"] == {"sizes": [0, 1], "kind": f"{__name__}.Env", "pair": [1, 2]}
    assert config.changed() == {"env_config": data["env_config"], "lr": 0.1}
    assert pickle.loads(pickle.dumps(LittleConfig(lr=0.5))) == LittleConfig(lr=0.5)


def test_changed_names_what_differs_in_the_model():
    assert TrainerConfig.from_dict({"model": {"free_log_std": True}}).changed() == {
        "model": {"free_log_std": True}
    }


def test_merge_goes_into_sections():
    config = LittleConfig.from_dict(
        {"model": {"fcnet_hiddens": [8]}, "env_config": {"a": {"b": 1, "c": 2}}, "lr": 0.5}
    )
    merged = config.merge(
        {"model": {"free_log_std": True}, "env_config": {"a": {"b": 3}}, "gamma": 0.5}
    )
    assert merged.model == ModelConfig(fcnet_hiddens=[8], free_log_std=True)
    assert merged.env_config == {"a": {"b": 3, "c": 2}}
    assert (merged.lr, merged.gamma) == (0.5, 0.5)
    assert config.gamma == 0.99


def test_merge_reads_old_spellings():
    config = LittleConfig(rollout_fragment_length=100)
    with pytest.warns(ConfigWarning, match="sample_batch_size"):
        assert config.merge({"sample_batch_size": 50}).rollout_fragment_length == 50


def test_exploration_of_another_type_replaces_the_whole():
    from dtrainer.config.compat import merged

    old = {"exploration_config": {"type": "EpsilonGreedy", "epsilon": 1}}
    new = {"exploration_config": {"type": "SoftQ"}}
    assert merged(old, new) == new
    same = merged(old, {"exploration_config": {"final": 0}})
    assert same["exploration_config"] == {"type": "EpsilonGreedy", "epsilon": 1, "final": 0}


# ---- RLlib's spellings ---------------------------------------------------------------------------


def read(keys):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        config = LittleConfig.from_dict(keys)
    return config, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("name", ["tf", "tfe", "tf2"])
def test_frameworks_mean_torch(name):
    config, [warning] = read({"framework": name})
    assert config.framework == "torch"
    assert "means torch here" in warning


def test_torch_is_no_news():
    assert read({"framework": "torch"})[1] == []
    assert mistakes({"framework": "jax"})[0].startswith("config['framework']: expected torch")


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"use_pytorch": True}, "always learns with PyTorch"),
        ({"eager": True}, "TensorFlow's"),
        ({"eager_tracing": True}, "torch_num_threads"),
        ({"tf_session_args": {"a": 1}}, "torch_num_threads"),
        ({"object_store_memory": 1}, "no object store"),
        ({"memory": 1}, "Ray's"),
    ],
)
def test_keys_without_effect_warn_once_and_say_what_does_the_job(keys, text):
    _, [warning] = read(keys)
    assert text in warning
    assert next(iter(keys)) in warning


def test_old_place_of_vf_share_layers():
    config, [warning] = read({"vf_share_layers": True, "model": {"fcnet_hiddens": [8]}})
    assert config.model == ModelConfig(fcnet_hiddens=[8], vf_share_layers=True)
    assert "model.vf_share_layers" in warning
    [line] = mistakes({"vf_share_layers": True, "model": {"vf_share_layers": False}})
    assert "remove one" in line


def test_old_and_new_name_together():
    config, _ = read({"sample_batch_size": 50, "rollout_fragment_length": 50})
    assert config.rollout_fragment_length == 50
    [line] = mistakes({"sample_batch_size": 5, "rollout_fragment_length": 50})
    assert line.endswith("is the old name of rollout_fragment_length, which is set too")


def test_multiagent_at_its_default_is_accepted_and_otherwise_not_built():
    assert read({"multiagent": {"policy_graphs": {}}})[1] == []
    [line] = mistakes({"multiagent": {"policies": {"a": None}}})
    assert "not built yet" in line


# ---- fragments -----------------------------------------------------------------------------------


@given(
    batch=st.integers(1, 200_000),
    workers=st.integers(0, 64),
    envs=st.integers(1, 64),
)
def test_auto_fits_rounds_to_the_batch(batch, workers, envs):
    config = TrainerConfig(train_batch_size=batch, num_workers=workers, num_envs_per_worker=envs)
    sampled = config.rounds_per_batch() * config.steps_per_round()
    environments = max(1, workers) * envs
    assert 1 <= config.resolved_fragment_length() <= LONGEST_AUTO_FRAGMENT
    assert batch <= sampled
    # At most one step of each environment too many in each round.
    assert sampled - batch < environments * config.rounds_per_batch()


@pytest.mark.parametrize(
    ("batch", "environments", "fragment"),
    [(4000, 2, 500), (200, 2, 100), (1010, 1, 202), (4000, 3, 445), (512, 8, 64), (1, 8, 1)],
)
def test_fragments_that_fit(batch, environments, fragment):
    assert fitting_fragment(batch, environments) == fragment


def test_a_batch_far_below_one_round_is_a_mistake_that_names_what_fits():
    [line] = mistakes({"num_workers": 4, "num_envs_per_worker": 2, "rollout_fragment_length": 1000})
    assert line == (
        "config['train_batch_size']: 4000 cannot be reached: one fragment of every worker has 8000 "
        "steps (num_workers 4 x num_envs_per_worker 2 x rollout_fragment_length 1000), so the "
        "smallest batch has 8000. rollout_fragment_length: 500 fits exactly"
    )


def test_a_batch_a_little_larger_than_asked_is_a_warning():
    keys = {"num_workers": 3, "rollout_fragment_length": 200}
    config, [warning] = read(keys)
    assert warning.startswith("train batches have 4200 steps, not train_batch_size: 4000")
    assert config.rounds_per_batch() == 7
    assert read({**keys, "batch_mode": "complete_episodes"})[1] == []


def test_replayed_batches_have_nothing_to_do_with_fragments():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ReplayConfig().resolved_fragment_length() == 400


# ---- speed ---------------------------------------------------------------------------------------


def test_reading_is_fast():
    keys = {"num_workers": 3, "model": {"fcnet_hiddens": [8]}, "lr": 0.1}
    LittleConfig.from_dict(keys)
    best = min(_seconds(lambda: LittleConfig.from_dict(keys)) for _ in range(5))
    assert best < 0.02


def _seconds(function) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def test_importing_loads_nothing_heavy():
    heavy = ("torch", "numpy", "distributed", "dask", "gymnasium", "matplotlib", "tensorboard")
    code = f"import sys, dtrainer.config; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("given_spec", "text"),
    [
        ("slurm", "the cluster type 'slurm' is not built yet"),
        ({"wokers": 3}, "config['cluster']['wokers']: unknown key. Did you mean workers?"),
        ({"workers": "many"}, "config['cluster']['workers']: expected an integer >= 1 or null"),
        (3, "config['cluster']: expected a mapping, found 3"),
    ],
)
def test_clusters_of_programs(given_spec, text):
    from dtrainer.config.checks import read_cluster

    with pytest.raises(ConfigError) as raised:
        read_cluster(given_spec)
    assert text in str(raised.value)
    assert read_cluster("tcp://a:1").address == "tcp://a:1"
