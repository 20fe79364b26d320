"""Experiment files: both forms, every mistake with its line, overrides, and back to YAML."""

from __future__ import annotations

import textwrap
import warnings

import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtrainer.config import ConfigError, ConfigWarning, Experiment, load_experiments
from tests.config.algorithms import LittleConfig, config_class


@pytest.fixture
def load(tmp_path):
    """Load text as a file; `load.errors` gives its mistakes instead, without the file's name."""
    path = tmp_path / "experiment.yaml"

    def load(text, *overrides):
        path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        return load_experiments(path, overrides, config_class=config_class)

    def errors(text, *overrides):
        with pytest.raises(ConfigError) as raised:
            load(text, *overrides)
        return str(raised.value).replace(str(path), "FILE")

    load.errors = errors
    return load


MINIMAL = "run: PPO\nenv: CartPole-v1\n"


def test_plain_form(load):
    [experiment] = load(
        """
        name: first
        run: PPO
        env: CartPole-v1
        seed: 3
        stop: {episode_reward_mean: 475, timesteps_total: 1e5}
        checkpoint_freq: 5
        checkpoint_at_end: false
        keep_checkpoints_num: null
        results: elsewhere
        cluster: tcp://node17:8786
        config:
          num_workers: 4
          lr: 3e-4
          train_batch_size: 1e4
          lambda: .9
          lr_schedule: [[0, 1e-3], [1_000_000, 0]]
        """
    )
    assert experiment.name == "first"
    assert experiment.stop == {"episode_reward_mean": 475, "timesteps_total": 100_000}
    assert (experiment.checkpoint_freq, experiment.checkpoint_at_end) == (5, False)
    assert experiment.keep_checkpoints_num is None
    assert experiment.results == "elsewhere"
    assert experiment.cluster.address == "tcp://node17:8786"
    config = experiment.config
    assert isinstance(config, LittleConfig)
    assert (config.num_workers, config.lr, config.train_batch_size) == (4, 3e-4, 10_000)
    assert (config.lambda_, config.lr_schedule) == (0.9, [(0, 1e-3), (1e6, 0)])
    assert (config.env, config.seed, experiment.seed) == ("CartPole-v1", 3, 3)


def test_form_of_rllib(load):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        one, two = load(
            """
            cartpole-ppo:
                env: CartPole-v0
                run: PPO
                local_dir: out
                num_samples: 1
                trial_resources: {cpu: 2}
                stop:
                    episode_reward_mean: 150
                    timesteps_total: 100000
                config: &base
                    framework: tf
                    gamma: 0.99
                    lr: 0.0003
                    observation_filter: MeanStdFilter
                    sample_batch_size: 50
                    model:
                        fcnet_hiddens: [32]
                        fcnet_activation: linear
            second:
                run: PPO
                config:
                    <<: *base
                    env: Pendulum-v0
                    gamma: 0.5
            """
        )
    assert (one.name, one.env, one.results) == ("cartpole-ppo", "CartPole-v0", "out")
    assert (two.name, two.env, two.config.gamma, two.config.lr) == (
        "second",
        "Pendulum-v0",
        0.5,
        0.0003,
    )
    assert two.config.rollout_fragment_length == one.config.rollout_fragment_length == 50
    texts = "\n".join(str(warning.message) for warning in caught)
    for word in ("local_dir", "trial_resources", "sample_batch_size", "framework: tf"):
        assert word in texts


def test_defaults(load):
    [experiment] = load(MINIMAL)
    assert (experiment.checkpoint_freq, experiment.checkpoint_at_end) == (10, True)
    assert experiment.keep_checkpoints_num == 3
    assert experiment.cluster.type == "local"
    assert experiment.name is None
    assert experiment.default_name().startswith("PPO_CartPole-v1_20")


def test_names_of_runs_are_names_of_directories(load):
    [experiment] = load("run: PPO\nenv: ALE/Pong-v5\n")
    assert experiment.default_name().startswith("PPO_ALE-Pong-v5_20")
    for name in ("a/b", "..", '""', ".hidden"):
        text = f"{MINIMAL}name: {name}\n"
        assert "line 3: name: expected the name of a directory" in load.errors(text)


# ---- mistakes ------------------------------------------------------------------------------------


def test_every_mistake_with_its_line(load):
    text = load.errors(
        """\
        # what a tired person writes
        run: PPO
        name: a/b
        env: CartPole-v1
        stop: {episode_reward_mean: high, timesteps_total: 1000}
        checkpoint_freq: -1
        num_workers: 3
        config:
          num_wokers: 8
          lr: fast
          gamma: 0.99
          gamma: 0.98
          model:
            fcnet_hidens: [64]
            fcnet_hiddens: [64, 0]
          sample_async: true
          sgd_minibatch_size: {grid_search: [1, 2]}
          env: Pendulum-v1
          stop: {}
        cluster: slurm
        stopp: 3
        """
    )
    assert text.splitlines() == [
        "FILE: 15 mistakes",
        "  line 3: name: expected the name of a directory (not a path, no dot at its beginning), "
        "found 'a/b' (a string)",
        "  line 5: stop.episode_reward_mean: expected a number, found 'high' (a string)",
        "  line 6: checkpoint_freq: expected an integer >= 0, found -1",
        "  line 7: num_workers: unknown key here. It belongs under config",
        "  line 9: config.num_wokers: unknown key. Did you mean num_workers?",
        "  line 10: config.lr: expected a number > 0, found 'fast' (a string)",
        "  line 12: config.gamma: stands twice: on line 11 too",
        "  line 14: config.model.fcnet_hidens: unknown key. Did you mean fcnet_hiddens?",
        "  line 15: config.model.fcnet_hiddens[1]: expected an integer >= 1, found 0",
        "  line 16: config.sample_async: true is not built yet; leave it at its default (false)",
        "  line 17: config.sgd_minibatch_size: grid_search is not built: train the file once for "
        "each value",
        "  line 18: config.env: is 'Pendulum-v1' (a string), but env is 'CartPole-v1' (a string): "
        "remove one",
        "  line 19: config.stop: unknown key here. It belongs to an experiment, beside run and env",
        "  line 20: cluster: the cluster type 'slurm' is not built yet; what works now: local, "
        "address",
        "  line 21: stopp: unknown key. Did you mean stop?",
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("env: CartPole-v1\n", "run: is missing: expected the name of an algorithm, such as PPO"),
        (
            "run: PP0\nenv: CartPole-v1\n",
            "line 1: run: there is no algorithm 'PP0'. Did you mean PPO?",
        ),
        ("run: 3\nenv: A-v0\n", "line 1: run: found 3, expected the name of an algorithm"),
        ("rum: PPO\nenv: A-v0\n", "FILE: 1 mistake\n  line 1: rum: unknown key. Did you mean run?"),
        ("run: PPO\n", "env: is missing: expected the name of an environment"),
        ("run: PPO\nenv: [A]\n", "line 2: env: expected a Gymnasium id"),
        (MINIMAL + "config: [1]\n", "line 3: config: expected a mapping of keys to values, found"),
        (MINIMAL + "config: lr=3\n", "line 3: config: expected a mapping of keys to values, found"),
        (MINIMAL + "stop: 100\n", "line 3: stop: expected a mapping of result keys to numbers"),
        (MINIMAL + "stop: {a: true}\n", "line 3: stop.a: expected a number, found true"),
        (MINIMAL + "stop: {a: .nan}\n", "line 3: stop.a: expected a number, found nan"),
        (MINIMAL + "num_samples: 4\n", "line 3: num_samples: 4: more than one run"),
        (MINIMAL + "restore: a/b\n", "line 3: restore: a run goes on with --resume"),
        (MINIMAL + "num_wrkers: 2\n", "line 3: num_wrkers: unknown key. Did you mean config.num_w"),
        (MINIMAL + "checkpoint_freq: 1.5\n", "line 3: checkpoint_freq: expected an integer >= 0"),
        (MINIMAL + "checkpoint_at_end: 1\n", "line 3: checkpoint_at_end: expected true or false"),
        (MINIMAL + "seed: 1\nconfig: {seed: 2}\n", "line 4: config.seed: is 2, but seed is 1"),
        (MINIMAL + "cluster: {type: addres}\n", "line 3: cluster.type: 'addres' is not a cluster"),
        (MINIMAL + "cluster: {wokers: 3}\n", "cluster.wokers: unknown key. Did you mean workers?"),
        (MINIMAL + "cluster: {workers: 0}\n", "cluster.workers: expected an integer >= 1 or null"),
        (MINIMAL + "3: 4\n", "line 3: [3]: expected a name as key, found 3"),
        (MINIMAL + "config:\n  3: 4\n", "line 4: config[3]: expected a name as key, found 3"),
        (MINIMAL + "seed: -1\n", "1 mistake\n  line 3: seed: expected an integer >= 0 or null"),
        (MINIMAL + "config: {lr: !x 3}\n", "line 3: config.lr: the tag !x means nothing here"),
        (MINIMAL + "config: !!python/object:os.system {}\n", "means nothing here"),
        (MINIMAL + "[a, b]: 3\n", "line 3: ?: a list or a mapping is no key"),
        ("a: {run: PPO, env: A}\nb: {rum: PPO, env: A}\n", "line 2: b.rum: unknown key. Did you"),
    ],
)
def test_mistakes_one_by_one(load, text, error):
    assert error in load.errors(text)


def test_an_unknown_algorithm_hides_no_mistake_that_all_have(load):
    text = load.errors(
        "run: NEW\nenv: A-v0\nconfig: {num_wokers: 1, its_own: 2, lr: fast, model: {dimm: 3}}\n"
    )
    assert "its_own" not in text
    for key in ("run", "config.num_wokers", "config.lr", "config.model.dimm"):
        assert f" {key}: " in text


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "FILE is empty: expected an experiment with at least run: and env:"),
        ("# only a comment\n", "FILE is empty"),
        ("{}", "FILE is empty"),
        (
            "- run: PPO\n",
            "FILE: expected a mapping of keys such as run:, env: and config:, found [",
        ),
        ("just text", "found 'just text' (a string)"),
        ("run: PPO\n\tenv: A\n", "The line is indented with a tab. YAML takes spaces only."),
        ("run: PPO\nenv: A: B\n", "FILE, line 2: not YAML: mapping values are not allowed here"),
        ("run: [PPO\n", "FILE, line 2: not YAML"),
        ("run: PPO\n---\nrun: PPO\n", "Write one document"),
        ("run: *base\n", "FILE, line 1: not YAML: found undefined alias"),
        ("run: PPO\nenv: &a [*a]\n", "line 2: this alias makes the document endless"),
        (b"run: \xff\xfe\n", "cannot read FILE: it is not UTF-8 text"),
        (b"run: \x00\n", "not YAML"),
    ],
)
def test_what_is_no_experiment_file(load, text, error):
    assert error in load.errors(text)


def test_aliases_that_multiply_are_stopped(load):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "endless" in load.errors("\n".join(lines))


def test_files_that_are_not_there(tmp_path):
    (tmp_path / "cartpole.yaml").write_text(MINIMAL)
    with pytest.raises(ConfigError, match=r"there is no file .*cartpol\.yaml") as raised:
        load_experiments(tmp_path / "cartpol.yaml", config_class=config_class)
    assert raised.value.hint == f"Did you mean {tmp_path / 'cartpole.yaml'}?"
    with pytest.raises(ConfigError, match="cannot read"):
        load_experiments(tmp_path, config_class=config_class)


def test_scalars_are_those_of_yaml_1_2(load):
    [experiment] = load(
        MINIMAL
        + """
config:
  env_config:
    numbers: [1e5, 1E-3, .5, 5., 010, 0o17, 0x1F, 1_000, +3, -.inf]
    texts: ['1e5', "3", yes, off, 2020-01-01, 1.2.3, 12e, 1:30]
    others: [true, False, null, ~, ]
"""
    )
    section = experiment.config.env_config
    assert section["numbers"] == [1e5, 1e-3, 0.5, 5.0, 10, 15, 31, 1000, 3, float("-inf")]
    assert section["texts"] == ["1e5", "3", "yes", "off", "2020-01-01", "1.2.3", "12e", "1:30"]
    assert section["others"] == [True, False, None, None]


def test_windows_files(load):
    [experiment] = load(b"\xef\xbb\xbfrun: PPO\r\nenv: A-v0\r\nconfig:\r\n  lr: 0.5\r\n")
    assert experiment.config.lr == 0.5


def test_stop_takes_nested_results_and_warns_of_others(load):
    with pytest.warns(ConfigWarning, match="Did you mean episode_reward_mean") as caught:
        [experiment] = load(
            MINIMAL
            + """
stop:
  episode_reward_maen: 3
  evaluation/episode_reward_mean: 4
  info: {learner: {default_policy: {kl: 0.5}}}
"""
        )
    assert len(caught) == 1
    assert experiment.stop == {
        "episode_reward_maen": 3,
        "evaluation/episode_reward_mean": 4,
        "info/learner/default_policy/kl": 0.5,
    }


# ---- overrides -----------------------------------------------------------------------------------


def test_overrides(load):
    [experiment] = load(
        MINIMAL + "config: {lr: 0.5, seed: 4}\n",
        "config.lr=3e-4",
        "num_workers=4",
        "stop.timesteps_total=1e5",
        "stop.info.learner.default_policy.kl=2",
        "model.fcnet_hiddens=[64, 32]",
        "env=Pendulum-v1",
        "seed=7",
        "env_config.deep.key=text=1",
        "checkpoint_freq=0",
        "train_batch_size=1e4",
        "keep_checkpoints_num=",
    )
    config = experiment.config
    assert (config.lr, config.num_workers, config.train_batch_size) == (3e-4, 4, 10_000)
    assert experiment.stop == {"timesteps_total": 1e5, "info/learner/default_policy/kl": 2}
    assert config.model.fcnet_hiddens == [64, 32]
    assert (experiment.env, config.env) == ("Pendulum-v1", "Pendulum-v1")
    assert (experiment.seed, config.seed) == (7, 7)
    assert config.env_config == {"deep": {"key": "text=1"}}
    assert (experiment.checkpoint_freq, experiment.keep_checkpoints_num) == (0, None)


def test_overrides_hold_for_every_experiment_of_a_file(load):
    text = "a: {run: PPO, env: A}\nb: {run: PPO, env: B}\n"
    assert [one.config.lr for one in load(text, "lr=0.5")] == [0.5, 0.5]


def test_an_override_of_one_name_wins_over_the_other_in_the_file(load):
    [experiment] = load(
        MINIMAL + "config: {sample_batch_size: 50}\n", "rollout_fragment_length=100"
    )
    assert experiment.config.rollout_fragment_length == 100


def test_mistakes_of_overrides_name_them(load):
    text = load.errors(
        MINIMAL + "config: {lr: slow, gamma: 0.9}\n",
        "config.lr=fast",
        "num_wokers=3",
        "gamma.x=1",
        "model.fcnet_hiddens=[64",
        "run=PP0",
    )
    assert text.splitlines()[1:] == [
        "  override 'gamma.x=1': config.gamma.x: config.gamma is 0.9, which has no keys",
        "  override 'run=PP0': run: there is no algorithm 'PP0'. Did you mean PPO?",
        "  override 'model.fcnet_hiddens=[64': config.model.fcnet_hiddens: expected a list of "
        "integers >= 1, found '[64' (a string)",
        "  override 'config.lr=fast': config.lr: expected a number > 0, found 'fast' (a string)",
        "  override 'num_wokers=3': config.num_wokers: unknown key. Did you mean num_workers?",
    ]


@pytest.mark.parametrize("change", ["lr", "=3", "config.=3", ".lr=3", ""])
def test_what_is_no_override(load, change):
    assert f"not a change of the configuration: {change!r}" in load.errors(MINIMAL, change)


# ---- programs, and back to YAML ------------------------------------------------------------------


class Env(gym.Env):
    pass


def test_experiments_of_programs():
    experiment = Experiment.from_dict(
        {"run": "PPO", "env": Env, "config": {"lr": 0.5}}, config_class=config_class
    )
    assert experiment.env is experiment.config.env is Env
    assert f"env: {__name__}.Env" in experiment.to_yaml()
    with pytest.raises(ConfigError, match=r"config\['config'\]\['lr'\]: expected a number"):
        Experiment.from_dict(
            {"run": "PPO", "env": Env, "config": {"lr": "x"}}, config_class=config_class
        )


keys = st.text().filter(lambda text: text != "grid_search")
numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(
    env_config=st.dictionaries(keys, values, max_size=4),
    lr=st.floats(1e-12, 1e12),
    stop=st.dictionaries(
        st.sampled_from(["timesteps_total", "episode_reward_mean", "info/learner/x"]),
        st.floats(-1e9, 1e9) | st.integers(-(10**9), 10**9),
    ),
    seed=st.none() | st.integers(0, 2**64),
    name=st.none() | st.from_regex(r"[A-Za-z0-9_ :#\-][A-Za-z0-9_ :#.\-]*", fullmatch=True),
    schedule=st.none() | st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1)), max_size=3),
)
@settings(deadline=None, max_examples=60)
def test_yaml_of_an_experiment_gives_an_equal_one(
    tmp_path_factory, env_config, lr, stop, seed, name, schedule
):
    experiment = Experiment.from_dict(
        {
            "name": name if name is None or name.strip() else None,
            "run": "PPO",
            "env": "CartPole-v1",
            "stop": stop,
            "seed": seed,
            "cluster": {"address": "tcp://node17:8786"},
            "config": {"env_config": env_config, "lr": lr, "lr_schedule": schedule},
        },
        config_class=config_class,
    )
    path = tmp_path_factory.mktemp("yaml") / "config.yaml"
    path.write_text(experiment.to_yaml(), encoding="utf-8")
    assert load_experiments(path, config_class=config_class) == [experiment]
