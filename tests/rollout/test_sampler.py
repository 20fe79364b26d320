"""Fragments: every row where it belongs."""

import gymnasium as gym
import numpy as np
import pytest

from dtrainer.config.errors import EnvError
from dtrainer.rollout.seeding import Role, WorkerSeeds
from tests.envs_for_tests import Counter, Faulty, Walk
from tests.rollout.helpers import ADVANTAGES, make_worker, rows


def counter(**kwargs):
    return lambda context: Counter(**kwargs)


def test_truncated_fragments_go_on_where_the_last_one_was_cut():
    worker = make_worker(counter(length=5), num_envs_per_worker=2)
    first, second = rows(worker.sample()), rows(worker.sample())
    steps = [0, 1, 2, 3, 4, 0, 1, 2]
    assert first["t"].tolist() == steps * 2  # environment by environment
    assert second["t"].tolist() == [3, 4, 0, 1, 2, 3, 4, 0] * 2
    assert first["obs"][:, 0].tolist() == steps * 2
    assert first["rewards"].tolist() == [t + 1 for t in steps] * 2
    assert first["terminateds"].tolist() == [t == 4 for t in steps] * 2
    # The successor of a last step is the final observation, of a cut one what comes next.
    assert first["new_obs"][:, 0].tolist() == [1, 2, 3, 4, 5, 1, 2, 3] * 2
    assert len(np.unique(first["eps_id"])) == 4


def test_every_episode_has_its_own_seed():
    worker = make_worker(counter(length=4), num_envs_per_worker=2, entropy=5, index=3)
    batch = rows(worker.sample())
    seeds = WorkerSeeds(5, Role.SAMPLING, 3)
    expected = [seeds.episode_seed(env, n) % 1000 for env in (0, 1) for n in (0, 1)]
    assert batch["obs"][::4, 1].tolist() == expected
    assert len({seeds.episode_seed(env, n) for env in range(9) for n in range(9)}) == 81


def test_returns_and_lengths_of_the_episodes_that_ended():
    worker = make_worker(counter(length=3), num_envs_per_worker=2)
    fragment = worker.sample()
    assert fragment.episode_returns.tolist() == [6.0] * 4
    assert fragment.episode_lengths.tolist() == [3] * 4


@pytest.mark.parametrize("num_envs", [1, 3])
def test_complete_episodes_lose_and_repeat_no_row(num_envs):
    worker = make_worker(
        counter(length=7), num_envs_per_worker=num_envs, batch_mode="complete_episodes"
    )
    seen = []
    for _ in range(5):
        batch = rows(worker.sample())
        assert batch.count >= 8 * num_envs and batch.count % 7 == 0
        assert batch["t"].tolist() == list(range(7)) * (batch.count // 7)
        assert batch["terminateds"].sum() == batch.count // 7
        seen += batch["eps_id"][::7].tolist()
    assert len(seen) == len(set(seen))
    per_env = {}
    for eps_id in seen:
        per_env.setdefault(eps_id >> 32, []).append(eps_id & 0xFFFFFFFF)
    assert all(numbers == list(range(len(numbers))) for numbers in per_env.values())


def test_horizon_truncates_and_does_not_terminate():
    worker = make_worker(counter(length=100), horizon=3)
    batch = rows(worker.sample())
    assert batch["truncateds"].tolist() == [False, False, True] * 2 + [False, False]
    assert not batch["terminateds"].any()
    assert batch["t"].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert batch["new_obs"][2, 0] == 3


def test_truncation_bootstraps_and_termination_does_not():
    for kind in ("terminate", "truncate"):
        worker = make_worker(counter(length=4, kind=kind), postprocess=ADVANTAGES)
        batch = rows(worker.sample())
        policy = worker.policies["default_policy"]
        value = policy.compute_values(batch["new_obs"][3:4])[0]
        bootstrap = 0.0 if kind == "terminate" else 0.99 * value
        expected = 4.0 + bootstrap - batch["vf_preds"][3]
        assert batch["advantages"][3] == pytest.approx(expected, rel=1e-5)
        np.testing.assert_allclose(
            batch["value_targets"], batch["advantages"] + batch["vf_preds"], rtol=1e-6
        )


def test_time_limit_of_a_registered_environment_is_a_truncation():
    worker = make_worker("Pendulum-v1", rollout_fragment_length=201)
    batch = rows(worker.sample())
    assert np.flatnonzero(batch["truncateds"]).tolist() == [199]
    assert not batch["terminateds"].any()


def test_same_steps_as_gymnasium_itself():
    """The lean environment against gym.make with all its wrappers, step by step."""
    worker = make_worker("CartPole-v1", rollout_fragment_length=300, entropy=3)
    batch = rows(worker.sample())
    env = gym.make("CartPole-v1")
    obs, _ = env.reset(seed=WorkerSeeds(3, Role.SAMPLING, 1).episode_seed(0, 0))
    episode = 0
    for row in range(300):
        np.testing.assert_array_equal(batch["obs"][row], obs)
        obs, reward, terminated, truncated, _ = env.step(batch["actions"][row])
        assert (reward, terminated, truncated) == (
            batch["rewards"][row],
            batch["terminateds"][row],
            batch["truncateds"][row],
        )
        np.testing.assert_array_equal(batch["new_obs"][row], obs)
        if terminated or truncated:
            episode += 1
            obs, _ = env.reset(seed=WorkerSeeds(3, Role.SAMPLING, 1).episode_seed(0, episode))
    assert episode > 3


def test_self_vectorised_environment_gives_no_row_for_its_own_resets():
    worker = make_worker(
        "CartPole-v1",
        num_envs_per_worker=8,
        rollout_fragment_length=100,
        vectorize_mode="self",
        postprocess=ADVANTAGES,
    )
    fragments = [worker.sample() for _ in range(3)]
    for fragment in fragments:
        batch = rows(fragment)
        ends = batch["terminateds"] | batch["truncateds"]
        assert 700 < batch.count < 800  # 800 steps less the resets
        assert np.all(batch["rewards"] == 1.0)
        # Within an episode t counts up and the next row is the successor.
        follows = (batch["eps_id"][1:] == batch["eps_id"][:-1]) & ~ends[:-1]
        assert np.all(batch["t"][1:][follows] == batch["t"][:-1][follows] + 1)
        np.testing.assert_array_equal(batch["new_obs"][:-1][follows], batch["obs"][1:][follows])
        # Final observations are beyond a limit; what follows starts near the middle.
        final = batch["new_obs"][batch["terminateds"]]
        assert np.all((np.abs(final[:, 0]) > 2.4) | (np.abs(final[:, 2]) > 0.2094))
        assert np.all(np.abs(batch["obs"][batch["t"] == 0]) <= 0.05)
    total = sum(int(f.episode_lengths.sum()) for f in fragments)
    open_rows = sum(rows(f).count for f in fragments) - total
    assert 0 <= open_rows < 8 * 500


@pytest.mark.parametrize(
    ("clip", "expected"), [(True, [1, 1, 1]), (2.0, [1, 2, 2]), (False, [1, 2, 3])]
)
def test_reward_clipping_leaves_the_metrics_alone(clip, expected):
    worker = make_worker(counter(length=3), rollout_fragment_length=3, clip_rewards=clip)
    fragment = worker.sample()
    assert rows(fragment)["rewards"].tolist() == expected
    assert fragment.episode_returns.tolist() == [6.0]


def test_batch_keeps_the_chosen_action_and_the_environment_gets_the_clipped_one():
    taken = []

    class Recorder(Walk):
        def step(self, action):
            taken.append(np.array(action))
            return super().step(action)

    worker = make_worker(lambda context: Recorder(), weights=2.0)
    taken.clear()  # the probe has stepped too
    batch = rows(worker.sample())
    assert np.abs(batch["actions"]).max() > 1
    np.testing.assert_array_equal(np.stack(taken), np.clip(batch["actions"], -1, 1))


@pytest.mark.parametrize("num_envs", [1, 3, 8])
def test_plays_exactly_the_episodes_asked_for(num_envs):
    worker = make_worker(counter(length=6), num_envs_per_worker=num_envs)
    returns, lengths = worker.run_episodes(7)
    assert returns.tolist() == [21.0] * 7 and lengths.tolist() == [6] * 7


def test_fake_sampler_gives_the_first_fragment_for_ever():
    worker = make_worker("CartPole-v1", fake_sampler=True)
    assert rows(worker.sample()) is rows(worker.sample())


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raise", r"raised in step\(\): RuntimeError: the simulator crashed"),
        ("shape", r"returned an observation of shape \(3,\)"),
        ("dtype", r"returned an observation of dtype <U1"),
        ("nan", r"returned the observation \[ 3. nan\]"),
        ("nan_reward", "returned the reward nan"),
    ],
)
def test_faults_name_seed_step_and_action(fault, message):
    worker = make_worker(lambda context: Faulty(fault), entropy=11, index=2)
    seed = WorkerSeeds(11, Role.SAMPLING, 2).episode_seed(0, 0)
    with pytest.raises(EnvError, match=message) as caught:
        worker.sample()
    text = str(caught.value)
    assert f"worker 2, environment 0, episode 0, seed {seed}, at step 2, action" in text


def test_the_state_of_the_global_generator_does_not_matter():
    np.random.seed(0)  # noqa: NPY002
    one = rows(make_worker(lambda context: Walk()).sample())
    np.random.seed(1)  # noqa: NPY002
    other = rows(make_worker(lambda context: Walk()).sample())
    np.testing.assert_array_equal(one["obs"], other["obs"])
