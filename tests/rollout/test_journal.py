"""A worker rebuilt from its journal samples on, bit for bit."""

import copy

import numpy as np
import pytest

from dtrainer.config.errors import EnvError
from dtrainer.rollout.worker import RolloutWorker
from tests.envs_for_tests import Forgetful, Walk
from tests.rollout.helpers import ADVANTAGES, assert_same, give_weights, make_worker, rows

SETTINGS = [
    {"env": "CartPole-v1", "num_envs_per_worker": 3},
    {"env": "CartPole-v1", "num_envs_per_worker": 3, "observation_filter": "MeanStdFilter"},
    {"env": "CartPole-v1", "num_envs_per_worker": 6, "vectorize_mode": "self"},
    {"env": "CartPole-v1", "num_envs_per_worker": 3, "batch_mode": "complete_episodes"},
    {"env": "Pendulum-v1", "num_envs_per_worker": 2, "normalize_actions": True},
    {"env": "LunarLander-v3", "num_envs_per_worker": 2, "rollout_fragment_length": 60},
    {"env": lambda context: Walk(), "num_envs_per_worker": 2, "horizon": 11},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(map(str, s.values())))
@pytest.mark.parametrize("cut_after", [0, 1, 4])
def test_replacement_samples_the_same_fragments(settings, cut_after):
    settings = dict(settings)
    env = settings.pop("env")
    worker = make_worker(env, postprocess=ADVANTAGES, **settings)
    for number in range(cut_after):
        give_weights(worker, seed=number)
        worker.sample()
    journal = copy.deepcopy(worker.get_state())
    expected = []
    for number in range(3):
        give_weights(worker, seed=100 + number)
        expected.append(worker.sample())
    replacement = RolloutWorker(worker.spec, worker.worker_index)
    replacement.set_state(journal, worker.spec.entropy)
    for number, fragment in enumerate(expected):
        give_weights(replacement, seed=100 + number)
        assert_same(replacement.sample(), fragment)


def test_a_journal_of_a_replacement_is_as_good_as_the_first():
    worker = make_worker("Pendulum-v1", num_envs_per_worker=2)
    worker.sample()
    chain = worker
    for _ in range(3):  # lost again and again
        replacement = RolloutWorker(chain.spec, 1)
        replacement.set_state(copy.deepcopy(chain.get_state()), 17)
        give_weights(replacement)
        chain = replacement
    give_weights(worker)
    assert_same(chain.sample(), worker.sample())


def test_filter_keeps_its_statistics():
    worker = make_worker("CartPole-v1", observation_filter="MeanStdFilter")
    worker.sample()
    replacement = RolloutWorker(worker.spec, 1)
    replacement.set_state(worker.get_state(), 17)
    stats = replacement.filters["default_policy"].stats
    assert stats.count == 9  # 8 steps and the first observation
    np.testing.assert_array_equal(stats.mean, worker.filters["default_policy"].stats.mean)


def test_an_environment_that_does_not_come_back_starts_anew_and_is_counted(caplog):
    worker = make_worker(lambda context: Forgetful(), num_envs_per_worker=2)
    worker.sample()
    replacement = RolloutWorker(worker.spec, 1)
    replacement.set_state(worker.get_state(), 17)
    give_weights(replacement)
    assert replacement.sample().episodes_abandoned == 2
    assert "did not come back the same" in caplog.text


@pytest.mark.parametrize("mode", ["sync", "self"])
def test_without_exact_recovery_nothing_is_replayed(mode):
    worker = make_worker(
        "CartPole-v1", num_envs_per_worker=4, vectorize_mode=mode, exact_recovery=False
    )
    worker.sample()
    journal = worker.get_state()
    assert journal["sampler"]["envs"] == []
    replacement = RolloutWorker(worker.spec, 1)
    replacement.set_state(journal, 17)
    give_weights(replacement)
    fragment = replacement.sample()
    assert fragment.episodes_abandoned == 4
    assert np.all(rows(fragment)["t"][::8] == 0)
    assert not set(rows(fragment)["eps_id"]) & set(rows(worker.sample())["eps_id"])


@pytest.mark.parametrize("journal", ["none", "of a worker that had not begun"])
def test_a_worker_that_has_sampled_can_start_from_the_beginning(journal):
    settings = {"observation_filter": "MeanStdFilter", "num_envs_per_worker": 2}
    worker, fresh = (make_worker("CartPole-v1", **settings) for _ in range(2))
    state = None if journal == "none" else worker.get_state()
    worker.sample()
    worker.set_state(state, 17)
    give_weights(worker)
    give_weights(fresh)
    assert_same(worker.sample(), fresh.sample())


def test_another_seed_is_another_run():
    worker = make_worker("CartPole-v1", entropy=1)
    other = make_worker("CartPole-v1", entropy=2)
    other.set_state(None, 1)
    assert_same(worker.sample(), other.sample())


def test_an_environment_that_fails_on_replay_says_so():
    class Once(Walk):
        resets = 0

        def reset(self, *, seed=None, options=None):
            type(self).resets += 1
            if type(self).resets > 2:
                raise RuntimeError("only once")
            return super().reset(seed=seed, options=options)

    worker = make_worker(lambda context: Once(drift=0.0), rollout_fragment_length=2)
    worker.sample()
    replacement = RolloutWorker(worker.spec, 1)
    with pytest.raises(EnvError, match="only once while its episode was replayed"):
        replacement.set_state(worker.get_state(), 17)
