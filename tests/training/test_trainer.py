"""The trainer as a whole: the same run however often it is cut, errors that say what to do."""

import json
import math
import shutil

import gymnasium as gym
import numpy as np
import pytest

from dtrainer.algorithms.ppo import PPO
from dtrainer.config.errors import (
    ActorError,
    CheckpointError,
    ClusterError,
    ConfigError,
    DtrainerError,
    EnvError,
    ResultsError,
)
from dtrainer.reporting.runs import RunDirectory, find_runs
from dtrainer.training.checkpoint import read_checkpoint
from tests.envs_for_tests import Faulty, Forgetful, Walk

SMALL = {
    "num_envs_per_worker": 2,
    "rollout_fragment_length": 32,
    "train_batch_size": 128,
    "sgd_minibatch_size": 32,
    "num_sgd_iter": 2,
    "model": {"fcnet_hiddens": [16]},
    "seed": 3,
    "torch_num_threads": 1,
}
TIMES = {
    "time_breakdown_s",
    "timers",
    "time_this_iter_s",
    "time_total_s",
    "time_outside_s",
    "time_since_restore",
    "timesteps_since_restore",
    "iterations_since_restore",
    "sampler_perf",
    "perf",
    "date",
    "timestamp",
    "experiment_id",
    "pid",
    "transport",
    "config",
}
CASES = {
    "cartpole-alone": ({"num_workers": 0}, "CartPole-v1"),
    "cartpole-2-actors": ({"num_workers": 2}, "CartPole-v1"),
    "filter-2-actors": (
        {"num_workers": 2, "observation_filter": "MeanStdFilter", "kl_coeff": 0.2},
        "CartPole-v1",
    ),
    "self-vectorised": ({"num_workers": 0, "vectorize_mode": "self"}, "CartPole-v1"),
    "complete-2-actors": ({"num_workers": 2, "batch_mode": "complete_episodes"}, "CartPole-v1"),
    "pendulum-schedule": (
        {
            "num_workers": 0,
            "normalize_actions": True,
            "lr_schedule": [[0, 1e-3], [1000, 1e-4]],
            "observation_filter": "MeanStdFilter",
        },
        "Pendulum-v1",
    ),
    "lunarlander": ({"num_workers": 0}, "LunarLander-v3"),
}


def make(changes, env="CartPole-v1", *, log_results=False, **kwargs):
    return PPO({**SMALL, **changes}, env=env, log_results=log_results, **kwargs)


def essence(result):
    """A result without what the clock says; nan compares equal."""
    kept = {key: value for key, value in result.items() if key not in TIMES}
    return json.dumps(kept, sort_keys=True)


def assert_same_weights(one, other):
    for policy_id, named in one.items():
        for name, array in named.items():
            np.testing.assert_array_equal(array, other[policy_id][name], err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_stopping_and_resuming_changes_nothing(case, tmp_path):
    changes, env = CASES[case]
    with make(changes, env, logdir=tmp_path / "whole") as trainer:
        expected = [essence(trainer.train()) for _ in range(5)]
        weights = trainer.get_weights()
    with make(changes, env, logdir=tmp_path / "cut") as trainer:
        first = [essence(trainer.train()) for _ in range(2)]
        path = trainer.save()
    with PPO.from_checkpoint(path, logdir=tmp_path / "cut") as trainer:
        second = [essence(trainer.train()) for _ in range(3)]
        assert_same_weights(trainer.get_weights(), weights)
    assert first + second == expected


def test_saving_does_not_disturb_the_run(tmp_path):
    with make({"num_workers": 0}, logdir=tmp_path) as trainer:
        expected = [essence(trainer.train()) for _ in range(3)]
    with make({"num_workers": 0}, logdir=tmp_path) as trainer:
        got = []
        for _ in range(3):
            got.append(essence(trainer.train()))
            trainer.save()
            trainer.compute_action(np.zeros(4, np.float32))
    assert got == expected


def test_two_runs_of_one_seed_are_the_same_and_other_seeds_are_not(tmp_path):
    def run(seed):
        with make({"num_workers": 2, "seed": seed}, logdir=tmp_path) as trainer:
            results = [essence(trainer.train()) for _ in range(2)]
            return results, trainer.get_weights()

    (one, weights), (same, same_weights), (other, _) = run(1), run(1), run(2)
    assert one == same != other
    assert_same_weights(weights, same_weights)


def test_a_run_without_seed_is_resumed_as_exactly(tmp_path):
    with make({"num_workers": 0, "seed": None}, logdir=tmp_path) as trainer:
        trainer.train()
        path = trainer.save()
        expected = essence(trainer.train())
    with PPO.from_checkpoint(path, logdir=tmp_path) as trainer:
        assert essence(trainer.train()) == expected


def test_a_run_goes_on_with_another_number_of_actors(tmp_path):
    with make({"num_workers": 2}, logdir=tmp_path) as trainer:
        trainer.train()
        path = trainer.save()
    with PPO.from_checkpoint(path, {"num_workers": 1}, logdir=tmp_path) as trainer:
        result = trainer.train()
        assert result["training_iteration"] == 2 and result["timesteps_total"] == 256


def test_result_has_the_keys_that_people_know(tmp_path):
    with make({"num_workers": 0}, logdir=tmp_path) as trainer:
        result = trainer.train()
    expected = """
        episode_reward_mean episode_reward_min episode_reward_max episode_len_mean
        episodes_this_iter episodes_total timesteps_total timesteps_this_iter training_iteration
        num_healthy_workers custom_metrics hist_stats sampler_perf off_policy_estimator timers
        info done experiment_id date timestamp time_this_iter_s time_total_s pid hostname node_ip
        config time_since_restore timesteps_since_restore iterations_since_restore perf
    """
    for key in expected.split():
        assert key in result, key
    learner = result["info"]["learner"]["default_policy"]
    assert {
        "cur_kl_coeff",
        "cur_lr",
        "total_loss",
        "policy_loss",
        "vf_loss",
        "vf_explained_var",
        "kl",
        "entropy",
        "entropy_coeff",
    } <= set(learner)
    assert result["info"]["num_steps_sampled"] == result["info"]["num_steps_trained"] == 128
    assert sum(result["time_breakdown_s"].values()) == pytest.approx(
        result["time_this_iter_s"], rel=0.02
    )


def test_bytes_of_a_transition_are_counted(tmp_path):
    with make({"num_workers": 2}, logdir=tmp_path) as trainer:
        transport = trainer.train()["transport"]
    # obs 16, action 8, logp 4, inputs 8, reward 4, ends 2, eps_id 8, t 4, three of GAE 12 = 66
    assert 66 <= transport["bytes_per_transition"] < 66 * 1.5
    assert transport["bytes_sent"] > 0


def test_iterations_last_as_long_as_asked(tmp_path):
    with make({"num_workers": 0, "timesteps_per_iteration": 300}, logdir=tmp_path) as trainer:
        assert trainer.train()["timesteps_this_iter"] == 384
    with make({"num_workers": 0, "min_iter_time_s": 0.3}, logdir=tmp_path) as trainer:
        assert trainer.train()["time_this_iter_s"] >= 0.3


def test_smoothing_fills_up_with_earlier_episodes(tmp_path):
    changes = {"num_workers": 0, "metrics_smoothing_episodes": 5}
    with make(changes, logdir=tmp_path) as trainer:
        for _ in range(4):
            result = trainer.train()
            assert len(result["hist_stats"]["episode_reward"]) == max(
                5, result["episodes_this_iter"]
            )


def test_return_is_nan_until_an_episode_has_ended(tmp_path):
    with make({"num_workers": 0}, "Pendulum-v1", logdir=tmp_path) as trainer:
        assert math.isnan(trainer.train()["episode_reward_mean"])


def test_results_are_written_as_on_the_command_line(tmp_path):
    logdir = tmp_path / "run"
    with make({"num_workers": 0}, logdir=logdir, log_results=True) as trainer:
        results = [trainer.train() for _ in range(2)]
        path = trainer.save()
        trainer.train()
    run = RunDirectory.open(logdir)
    assert [r["training_iteration"] for r in run.results()] == [1, 2, 3]
    assert run.state()["status"] == "stopped" and (logdir / "progress.csv").is_file()
    with (
        make({"num_workers": 0}, logdir=logdir, log_results=True) as other,
        pytest.raises(ResultsError, match="another run"),
    ):
        other.train()
    with PPO.from_checkpoint(path, logdir=logdir) as trainer:
        trainer.train()
    written = list(run.results())
    assert [r["training_iteration"] for r in written] == [1, 2, 3]
    assert written[1]["info"] == json.loads(json.dumps(results[1]["info"]))


def test_runs_of_programs_go_where_other_runs_go(tmp_path, monkeypatch):
    monkeypatch.setenv("DTRAINER_RESULTS", str(tmp_path))
    with make({"num_workers": 0}, log_results=True) as trainer:
        trainer.train()
        assert trainer.logdir.parent == tmp_path
        assert trainer.logdir.name.startswith("PPO_CartPole-v1_")
    assert find_runs(tmp_path)[0].path == trainer.logdir


# ---- acting --------------------------------------------------------------------------


def test_compute_action_acts_as_sampling_does(tmp_path):
    changes = {
        "num_workers": 0,
        "observation_filter": "MeanStdFilter",
        "normalize_actions": True,
    }
    with make(changes, "Pendulum-v1", logdir=tmp_path) as trainer:
        trainer.train()
        count = trainer.workers.local_worker.filters["default_policy"].stats.count
        env = gym.make("Pendulum-v1")
        obs, _ = env.reset(seed=0)
        action = trainer.compute_action(obs, explore=False)
        assert env.action_space.contains(action)
        assert np.array_equal(action, trainer.compute_action(obs, explore=False))
        draws = {float(trainer.compute_action(obs)[0]) for _ in range(5)}
        assert len(draws) > 2
        assert trainer.workers.local_worker.filters["default_policy"].stats.count == count
        action, state, info = trainer.compute_action(obs, full_fetch=True, explore=False)
        assert state == [] and info["action_dist_inputs"].shape == (2,)
        many = trainer.compute_actions({"a": obs, "b": obs}, explore=False)
        np.testing.assert_allclose(many["a"], many["b"])
        with pytest.raises(ConfigError, match=r"shape \(2,\), expected \(3,\)"):
            trainer.compute_action(np.zeros(2))


def test_weights_go_out_and_in(tmp_path):
    with make({"num_workers": 0}, logdir=tmp_path) as trainer:
        weights = trainer.get_weights()
        weights["default_policy"]["value.head.bias"][:] = 7
        trainer.set_weights(weights)
        assert trainer.get_policy().get_weights()["value.head.bias"] == 7
        with pytest.raises(ConfigError, match="nonsense: unknown"):
            trainer.set_weights({"default_policy": {"nonsense": np.zeros(1)}})
        with pytest.raises(DtrainerError, match=r"no policy 'other'.*default_policy"):
            trainer.get_policy("other")


def test_exported_policy_runs_without_dtrainer(tmp_path):
    import torch
    from safetensors.numpy import load_file

    changes = {"num_workers": 0, "observation_filter": "MeanStdFilter"}
    with make(changes, logdir=tmp_path) as trainer:
        trainer.train()
        trainer.export_policy_model(tmp_path / "export")
        obs = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
        expected = [trainer.compute_action(row, full_fetch=True, explore=False) for row in obs]
        weights = trainer.get_weights()["default_policy"]
    module = torch.export.load(tmp_path / "export/policy.pt2").module()
    inputs, _ = module(torch.from_numpy(obs))
    for row, (action, _, info) in enumerate(expected):
        np.testing.assert_allclose(inputs[row], info["action_dist_inputs"], atol=1e-4)
        assert int(inputs[row].argmax()) == action
    stored = load_file(tmp_path / "export/policy.safetensors")
    assert all(np.array_equal(stored[name], array) for name, array in weights.items())
    assert json.loads((tmp_path / "export/policy.json").read_text())["env"] == "CartPole-v1"


def test_resources_in_numbers_and_words():
    request = PPO.default_resource_request({"num_workers": 4})
    assert request["total"] == {"cpus": 5.0, "gpus": 0.0}
    assert "num_workers" in PPO.resource_help({"num_workers": 4})
    merged = PPO.merge_trainer_configs({"model": {"fcnet_hiddens": [8]}}, {"lr": 0.1})
    assert merged["lr"] == 0.1 and merged["model"]["fcnet_hiddens"] == [8]


# ---- what goes wrong -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("CartPoll-v1", "CartPole-v1"),
        ("CartPole-v9", "CartPole-v1"),
        ("no.such.module.Env", "no environment"),
        (lambda context: Faulty("dict"), "observation space Dict.* not supported yet"),
        (lambda context: Faulty("reset"), "no licence left"),
        (lambda context: 3, "returned a int, expected a gymnasium.Env"),
        (lambda context: Faulty("shape", at=1), r"shape \(3,\)"),
    ],
)
def test_environments_that_cannot_be_used(env, message, tmp_path):
    with pytest.raises(EnvError, match=message):
        make({"num_workers": 0}, env, logdir=tmp_path)


def test_without_an_environment(tmp_path):
    with pytest.raises(ConfigError, match="no environment"):
        PPO({"num_workers": 0})


def test_an_environment_that_raises_in_an_actor_is_named_with_its_traceback(tmp_path):
    with (
        make({"num_workers": 2}, lambda context: Faulty("raise"), logdir=tmp_path) as trainer,
        pytest.raises(EnvError, match=r"the simulator crashed \(worker \d, environment 0") as error,
    ):
        trainer.train()
    log = next((tmp_path / "logs").glob("worker-*.log"))
    assert str(log) in str(error.value)
    assert "RuntimeError: the simulator crashed" in log.read_text()


def test_a_lost_actor_ends_the_run_and_leaves_the_checkpoint(tmp_path):
    def env(context):
        return Faulty("exit" if context.worker_index == 2 else "none", at=300, length=1000)

    with make({"num_workers": 2}, env, logdir=tmp_path) as trainer:
        trainer.train()
        path = trainer.save()
        with pytest.raises(ActorError, match=r"(?s)actor 2.*--resume"):
            for _ in range(10):
                trainer.train()
    assert read_checkpoint(path).iteration == 1


def test_an_environment_that_is_not_deterministic_is_counted_on_resuming(tmp_path):
    with make({"num_workers": 0}, lambda context: Forgetful(), logdir=tmp_path) as trainer:
        trainer.train()
        path = trainer.save()
    kwargs = {"env": lambda context: Forgetful(), "logdir": tmp_path}
    with PPO.from_checkpoint(path, **kwargs) as trainer:
        assert trainer.train()["episodes_abandoned"] == 2
    with PPO.from_checkpoint(path, {"exact_recovery": False}, **kwargs) as trainer:
        assert trainer.train()["episodes_abandoned"] == 2


def test_an_environment_whose_state_cannot_be_saved_is_told_what_can(tmp_path):
    class Odd(Walk):
        def get_state(self):
            return {"simulator": object()}

        def set_state(self, state):
            raise AssertionError

    with make({"num_workers": 0}, lambda context: Odd(), logdir=tmp_path) as trainer:
        trainer.train()
        with pytest.raises(CheckpointError, match=r"'simulator'.* is a object"):
            trainer.save()
        trainer.train()


def test_a_gpu_that_is_not_there(tmp_path):
    import torch

    if torch.cuda.is_available():
        changes = {"num_gpus": torch.cuda.device_count() + 1}
    else:
        changes = {"num_gpus": 1}
    with pytest.raises(ConfigError, match="num_gpus"):
        make({"num_workers": 0, **changes}, logdir=tmp_path)
    with pytest.raises(ConfigError, match="cuda:99"):
        make({"num_workers": 0, "device": "cuda:99"}, logdir=tmp_path)


def test_checkpoints_of_something_else(tmp_path):
    with make({"num_workers": 0}, logdir=tmp_path) as trainer:
        trainer.train()
        path = trainer.save()
    with (
        make({"num_workers": 0}, "Pendulum-v1", logdir=tmp_path) as other,
        pytest.raises(CheckpointError, match=r"observation space .*CartPole-v1"),
    ):
        other.restore(path)
    with (
        make({"num_workers": 0, "model": {"fcnet_hiddens": [8]}}, logdir=tmp_path) as other,
        pytest.raises(CheckpointError, match=r"policy\.0\.weight is \[16, 4\], here \[8, 4\]"),
    ):
        other.restore(path)
    damaged = tmp_path / "checkpoint_000001"
    shutil.copytree(path, damaged)
    with (damaged / "arrays.npz").open("r+b") as file:
        file.truncate(100)
    with (
        make({"num_workers": 0}, logdir=tmp_path) as other,
        pytest.raises(CheckpointError, match=r"arrays.npz has 100 bytes, expected \d+"),
    ):
        other.restore(damaged)


def test_a_port_that_is_taken(tmp_path):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=str(port)):
            make(
                {"num_workers": 1},
                cluster={"type": "local", "scheduler_port": port},
                logdir=tmp_path,
            )


def test_a_stopped_trainer_says_so(tmp_path):
    trainer = make({"num_workers": 0}, logdir=tmp_path)
    trainer.stop()
    trainer.stop()
    with pytest.raises(ConfigError, match="stopped"):
        trainer.train()


def test_uses_a_given_client_and_leaves_it_open(tmp_path):
    from dtrainer.cluster import open_cluster
    from dtrainer.config import ClusterSpec

    with open_cluster(ClusterSpec(), 2) as cluster:
        with make({"num_workers": 2}, client=cluster.client, logdir=tmp_path) as trainer:
            given = essence(trainer.train())
        assert cluster.client.submit(sum, [1, 2]).result(timeout=30) == 3
        with make({"num_workers": 2}, client=cluster.client, logdir=tmp_path) as trainer:
            again = essence(trainer.train())
    with make({"num_workers": 2}, logdir=tmp_path) as trainer:
        assert essence(trainer.train()) == given == again


def test_a_class_is_an_environment_too(tmp_path):
    with make({"num_workers": 2, "env_config": {"size": 2}}, Walk, logdir=tmp_path) as trainer:
        assert trainer.train()["timesteps_total"] == 128
