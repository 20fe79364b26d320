"""PPO learns the examples; a broken one does not.

Best means of the last 100 episodes, measured with the seeds 0, 1 and 2:

===========================================  ==================  =====================
variant                                      CartPole, 30,000    Pendulum, 62,000
                                             steps               steps
===========================================  ==================  =====================
as it is                                     263, 237, 264       -348, -192, -341
the advantages' sign turned                  23, 19, 23          -1226 (seed 0)
no gradient through the ratio                25, 24, 25          -1176 (seed 0)
the values' sign turned in the advantages    253, 170, 105       -1251 (seed 0)
bootstrapping from terminal states           136, 181, 130       the same: it has none
===========================================  ==================  =====================
"""

import pytest

from dtrainer.algorithms.ppo import PPO, PPOConfig
from dtrainer.config import load_experiments

pytestmark = pytest.mark.learning


def best_mean_return(file, steps, folder, **changes):
    (experiment,) = load_experiments(file, config_class=lambda name: PPOConfig)
    config = experiment.config.merge({"num_workers": 0, "num_envs_per_worker": 8, **changes})
    means = []
    with PPO(config, experiment.env, logdir=folder) as trainer:
        while trainer.timesteps_total < steps:
            means.append(trainer.train()["episode_reward_mean"])
    return max(mean for mean in means if mean == mean)  # nan before the first episode has ended


@pytest.mark.parametrize("seed", [0, 2])
def test_cartpole(seed, pytestconfig, tmp_path):
    file = pytestconfig.rootpath / "examples/cartpole-ppo.yaml"
    assert best_mean_return(file, 30_000, tmp_path, seed=seed) > 200


def test_pendulum(pytestconfig, tmp_path):
    file = pytestconfig.rootpath / "examples/pendulum-ppo.yaml"
    assert best_mean_return(file, 62_000, tmp_path, seed=0) > -500
