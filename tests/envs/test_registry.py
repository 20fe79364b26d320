import cloudpickle
import gymnasium as gym
import pytest

from dtrainer.config import TrainerConfig
from dtrainer.config.errors import EnvError
from dtrainer.envs import EnvContext, episode_limit, make_env_batch, register_env, resolve_env
from dtrainer.envs.factory import steps_as_one
from tests.envs_for_tests import Counter


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("CartPole-v1", "CartPole-v1"),
        (Counter, "Counter"),
        ("tests.envs_for_tests.Counter", "Counter"),
        (lambda context: Counter(), "<lambda>"),
        ("gymnasium.envs.classic_control:Pendulum-v1", "Pendulum-v1"),
    ],
)
def test_what_names_an_environment(env, name):
    maker = resolve_env(env)
    assert maker.name == name
    assert isinstance(maker.make(EnvContext({})), gym.Env)
    copy = cloudpickle.loads(cloudpickle.dumps(maker))  # as it travels to an actor
    assert isinstance(copy.make(EnvContext({})), gym.Env)


def test_a_registered_name_is_told_where_it_is():
    seen = []

    def creator(context):
        seen.append((dict(context), context.worker_index, context.vector_index))
        return Counter(length=context["length"])

    register_env("my-counter", creator)
    config = TrainerConfig.from_dict({"num_envs_per_worker": 2, "env_config": {"length": 3}})
    batch = make_env_batch(resolve_env("my-counter"), config, 4)
    assert seen == [({"length": 3}, 4, 0), ({"length": 3}, 4, 1)]
    assert batch.envs[0].length == 3


@pytest.mark.parametrize(
    ("env", "nearest"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("Pendulum-v0", "Pendulum-v1"),
        ("MountianCar-v0", "MountainCar-v0"),
    ],
)
def test_the_nearest_names_are_told(env, nearest):
    with pytest.raises(EnvError, match=f"no environment '{env}'") as caught:
        resolve_env(env)
    assert nearest in caught.value.hint


@pytest.mark.parametrize("env", ["no.such.Env", "tests.envs_for_tests.Nope", "nowhere:X-v0"])
def test_paths_that_lead_nowhere(env):
    with pytest.raises(EnvError):
        resolve_env(env)


def test_env_config_that_does_not_fit_is_told():
    with pytest.raises(EnvError, match=r"could not be made: TypeError.*nonsense"):
        resolve_env(Counter).make(EnvContext({"nonsense": 1}))


def test_the_time_limit_is_kept_by_the_sampler():
    maker = resolve_env("CartPole-v1")
    env = maker.make(EnvContext({}))
    assert not isinstance(env, gym.wrappers.TimeLimit) and env.unwrapped is env
    config = TrainerConfig.from_dict
    assert episode_limit(maker, config({})) == 500
    assert episode_limit(maker, config({"horizon": 50})) == 50
    assert episode_limit(resolve_env(Counter), config({})) is None
    with pytest.raises(EnvError, match="above the 500 steps"):
        episode_limit(maker, config({"horizon": 501}))
    with pytest.raises(EnvError, match="cannot be kept"):
        episode_limit(maker, config({"horizon": 50, "vectorize_mode": "self"}))


@pytest.mark.parametrize(
    ("mode", "num_envs", "expected"),
    [
        ("auto", 1, False),
        ("auto", 15, False),
        ("auto", 16, True),
        ("sync", 64, False),
        ("self", 1, True),
    ],
)
def test_who_steps_as_one(mode, num_envs, expected):
    config = TrainerConfig.from_dict({"vectorize_mode": mode, "num_envs_per_worker": num_envs})
    assert steps_as_one(resolve_env("CartPole-v1"), config) is expected
    if mode == "self":
        with pytest.raises(EnvError, match="does not vectorise itself"):
            steps_as_one(resolve_env("Pendulum-v1"), config)
