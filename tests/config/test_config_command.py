"""`dtrainer config`: what it prints, and the JSON schema."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from dtrainer.cli.config import app
from dtrainer.config import ConfigError, Experiment, load_experiments
from dtrainer.config.schema import commented_defaults, experiment_schema
from dtrainer.config.yaml_file import YamlFile
from tests.config.algorithms import LittleConfig, config_class

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))
SCHEMA = experiment_schema("PPO", LittleConfig)


@pytest.fixture(autouse=True)
def _little_algorithm(monkeypatch):
    import dtrainer.algorithms

    monkeypatch.setattr(dtrainer.algorithms, "get_config_class", config_class)


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_defaults_are_an_experiment_that_loads_without_warnings(tmp_path):
    path = tmp_path / "defaults.yaml"
    path.write_text(run("defaults"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [experiment] = load_experiments(path, config_class=config_class)
    usual = Experiment.from_dict({"run": "PPO", "env": "CartPole-v1"}, config_class=config_class)
    assert experiment == usual


def test_defaults_have_every_key_and_what_it_means():
    text = commented_defaults("PPO", LittleConfig)
    for name, field in LittleConfig.model_fields.items():
        assert f"\n  {field.alias or name}:" in text or name in ("env", "seed")
    assert "# Nonlinearity of vision networks. Not built yet.\n    conv_activation: relu" in text
    assert max(map(len, text.splitlines())) <= 100


def test_schema_is_one():
    Draft202012Validator.check_schema(json.loads(run("schema")))


def problems(data) -> list[str]:
    return [error.message for error in Draft202012Validator(SCHEMA).iter_errors(data)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_schema_accepts_the_examples(path):
    from dtrainer.algorithms.ppo import PPOConfig

    schema = experiment_schema("PPO", PPOConfig)
    assert list(Draft202012Validator(schema).iter_errors(YamlFile(path).data)) == []


@pytest.mark.parametrize(
    "data",
    [
        {"run": "PPO", "env": "A", "config": {"lambda": 0.5, "model": {"fcnet_hiddens": [8]}}},
        {"run": "PPO", "cluster": "tcp://a:1", "stop": {"info": {"x": 3}, "timesteps_total": 1}},
        {"a": {"run": "PPO", "local_dir": "x"}, "b": {"run": "PPO", "config": {"env": "A"}}},
        {"run": "PPO", "config": {"sample_batch_size": 3, "framework": "tf", "eager": True}},
        {"run": "PPO", "config": {"clip_rewards": 2.0, "rollout_fragment_length": "auto"}},
    ],
)
def test_schema_accepts(data):
    assert problems(data) == []


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"env": "A"}, "'run' is a required property"),
        ({"run": "PPO", "stopp": 3}, "'stopp' was unexpected"),
        ({"run": "PPO", "config": {"num_wokers": 3}}, "'num_wokers' was unexpected"),
        ({"run": "PPO", "config": {"lr": "fast"}}, "'fast' is not of type 'number'"),
        ({"run": "PPO", "config": {"lr": 0}}, "0 is less than or equal to the minimum of 0"),
        ({"run": "PPO", "config": {"model": {"dim": 0}}}, "0 is less than the minimum of 1"),
        ({"a": {"run": "PPO", "stopp": 3}}, "'stopp' was unexpected"),
        ([], "[] is not of type 'object'"),
    ],
)
def test_schema_refuses(data, problem):
    assert problem in "\n".join(problems(data))


def test_check_says_what_would_run(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("run: PPO\nenv: CartPole-v1\nname: first\nstop: {timesteps_total: 1e5}\n")
    text = run("check", path, "num_envs_per_worker=4", "model.fcnet_hiddens=[32]")
    assert "a.yaml: ok, 1 experiment" in text
    for words in (
        "PPO on CartPole-v1",
        "timesteps_total: 100000",
        "2 workers x 4 environments x 500 steps = 4000 a round",
        "4000 steps in 1 round",
        "every 10 iterations and at the end, 3 kept",
        'num_envs_per_worker: 4, model: {"fcnet_hiddens": [32]}',
    ):
        assert words in text.replace("\n", " ")


def test_check_raises_all_mistakes(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("run: PPO\nenv: CartPole-v1\nconfig: {lr: x, gama: 1}\n")
    with pytest.raises(ConfigError, match="2 mistakes") as raised:
        run("check", path)
    assert raised.value.exit_code == 2
