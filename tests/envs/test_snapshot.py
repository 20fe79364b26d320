import gymnasium as gym
import numpy as np
import pytest

from dtrainer.envs.snapshot import restore_snapshot, take_snapshot
from dtrainer.training.state_tree import decode, encode


def play(env, steps, seed):
    rng = np.random.default_rng(seed)
    return [env.step(rng.integers(0, 2, env.num_envs))[0] for _ in range(steps)]


def test_a_vector_environment_goes_on_where_its_copy_was_taken():
    env, other = (gym.make_vec("CartPole-v1", num_envs=5).unwrapped for _ in range(2))
    env.reset(seed=3)
    play(env, 60, seed=0)  # some episodes have ended, some resets are ahead
    snapshot = decode(*encode(take_snapshot(env)))  # over the disk
    expected = play(env, 100, seed=1)
    other.reset(seed=99)
    restore_snapshot(other, snapshot)
    np.testing.assert_array_equal(play(other, 100, seed=1), expected)


def test_a_copy_does_not_change_with_the_environment():
    env = gym.make_vec("CartPole-v1", num_envs=2).unwrapped
    env.reset(seed=0)
    snapshot = take_snapshot(env)
    before = snapshot["attributes"]["state"].copy()
    play(env, 5, seed=0)
    np.testing.assert_array_equal(snapshot["attributes"]["state"], before)


class Own:
    def __init__(self):
        self.handle = object()
        self.value = 1

    def get_state(self):
        return {"value": self.value}

    def set_state(self, state):
        self.value = state["value"]


def test_an_environments_own_methods_are_preferred():
    env = Own()
    snapshot = take_snapshot(env)
    env.value = 2
    restore_snapshot(env, snapshot)
    assert env.value == 1


@pytest.mark.parametrize("thing", [object(), lambda: 0, np.array([object()])])
def test_what_cannot_be_copied_is_no_snapshot(thing):
    env = gym.make_vec("CartPole-v1", num_envs=2).unwrapped
    env.reset(seed=0)
    env.simulator = thing
    assert take_snapshot(env) is None
