"""PPO's loss against numbers worked out by hand, and its update's parts."""

import math

import numpy as np
import pytest
import torch

from dtrainer.algorithms.ppo import (
    PPO,
    TRAIN_COLUMNS,
    PPOConfig,
    PPOLearner,
    policy_stats,
    ppo_loss,
    standardized,
)
from dtrainer.data import SampleBatch
from dtrainer.models import Categorical
from dtrainer.policies import Policy
from dtrainer.training.schedules import PiecewiseSchedule


def log(*probabilities):
    return torch.log(torch.tensor([probabilities]))


def batch(old, advantage, target=0.0, vf_pred=0.0, action=0):
    return {
        "actions": torch.tensor([action]),
        "action_logp": old[:, action],
        "action_dist_inputs": old,
        "vf_preds": torch.tensor([vf_pred]),
        "advantages": torch.tensor([advantage]),
        "value_targets": torch.tensor([target]),
    }


def loss_of(new, data, value=0.0, kl_coeff=0.0, entropy_coeff=0.0, **config):
    loss, stats = ppo_loss(
        new,
        torch.tensor([value]),
        data,
        Categorical(2),
        PPOConfig.from_dict({"clip_param": 0.2, "vf_loss_coeff": 0.5, **config}),
        kl_coeff=kl_coeff,
        entropy_coeff=entropy_coeff,
    )
    stats |= policy_stats(new, data, Categorical(2))
    return float(loss), {name: float(value) for name, value in stats.items()}


@pytest.mark.parametrize(
    ("new", "advantage", "expected"),
    [
        # The ratio is new / 0.5; the surrogate min(r A, clip(r, 0.8, 1.2) A), negated.
        (0.55, 2.0, -2.2),  # r = 1.1: inside
        (0.75, 2.0, -2.4),  # r = 1.5, A > 0: clipped to 1.2
        (0.75, -2.0, 3.0),  # r = 1.5, A < 0: not clipped, the worse one counts
        (0.25, 2.0, -1.0),  # r = 0.5, A > 0: not clipped
        (0.25, -2.0, 1.6),  # r = 0.5, A < 0: clipped to 0.8
    ],
)
def test_clipped_surrogate(new, advantage, expected):
    loss, stats = loss_of(log(new, 1 - new), batch(log(0.5, 0.5), advantage))
    assert loss == pytest.approx(expected, rel=1e-5)
    assert stats["policy_loss"] == pytest.approx(expected, rel=1e-5)


def test_entropy_and_kl():
    # KL((.5, .5) || (.25, .75)) = .5 ln 2 + .5 ln(2/3); H(.25, .75) = .25 ln 4 + .75 ln(4/3)
    kl = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
    entropy = 0.25 * math.log(4) + 0.75 * math.log(4 / 3)
    loss, stats = loss_of(
        log(0.25, 0.75), batch(log(0.5, 0.5), 0.0), kl_coeff=3.0, entropy_coeff=0.1
    )
    assert stats["kl"] == pytest.approx(kl, rel=1e-5)
    assert stats["entropy"] == pytest.approx(entropy, rel=1e-5)
    assert loss == pytest.approx(3 * kl - 0.1 * entropy, rel=1e-5)


@pytest.mark.parametrize(
    ("clip", "expected"),
    [
        (None, 1.0),  # (4 - 3)^2
        (0.5, 6.25),  # the value may reach 0.5: (0.5 - 3)^2 is more
    ],
)
def test_value_loss(clip, expected):
    data = batch(log(0.5, 0.5), 0.0, target=3.0, vf_pred=0.0)
    loss, stats = loss_of(log(0.5, 0.5), data, value=4.0, vf_clip_param=clip)
    assert stats["vf_loss"] == pytest.approx(expected)
    assert loss == pytest.approx(0.5 * expected)


def test_without_critic_values_are_not_learnt():
    data = batch(log(0.5, 0.5), 0.0, target=3.0)
    config = {"use_critic": False, "batch_mode": "complete_episodes"}
    assert loss_of(log(0.5, 0.5), data, value=4.0, **config)[0] == pytest.approx(0)


def test_advantages_are_standardized():
    shifted = standardized(torch.tensor([1.0, 2.0, 3.0, 6.0]))
    np.testing.assert_allclose(shifted, np.array([-2, -1, 0, 3]) / math.sqrt(14 / 4), rtol=1e-5)
    assert torch.equal(standardized(torch.full((4,), 5.0)), torch.zeros(4))


def learner(**config):
    import gymnasium as gym

    resolved = PPOConfig.from_dict(
        {"model": {"fcnet_hiddens": [8]}, "sgd_minibatch_size": 16, "torch_num_threads": 1} | config
    )
    box, discrete = gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(2)
    policy = Policy(box, discrete, resolved)
    return PPOLearner(policy, resolved, torch.device("cpu"), entropy=5), policy


@pytest.mark.parametrize(
    ("kl", "factor"), [(0.021, 1.5), (0.019, 1.0), (0.0051, 1.0), (0.0049, 0.5)]
)
def test_kl_penalty_adapts_beyond_twice_and_half_of_the_target(kl, factor):
    made, _ = learner(kl_coeff=0.4, kl_target=0.01)
    made._adapt_kl_coeff(kl)
    assert made.kl_coeff == pytest.approx(0.4 * factor)


def rows(policy, learner, count=64):
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(count, 3)).astype(np.float32)
    policy.load_flat_weights(*reversed(learner.weights()))
    out = policy.compute_actions(obs, rng)
    good = (out.actions == (obs[:, 0] > 0)).astype(np.float32)
    zeros = np.zeros(count, np.float32)
    return SampleBatch(
        {
            "obs": obs,
            "actions": out.actions,
            "action_logp": out.logp,
            "action_dist_inputs": out.dist_inputs,
            "vf_preds": zeros,
            "advantages": good,
            "value_targets": good,
        }
    )


def test_update_makes_good_actions_likelier_and_counts_a_version():
    made, policy = learner(lr=0.01, num_sgd_iter=20)
    data = rows(policy, made)
    version = made.version
    stats = made.update(data, timestep=64)
    assert made.version == version + 1
    policy.load_flat_weights(*reversed(made.weights()))
    best, _ = policy.distribution.mode(policy._network.logits(data["obs"]))
    assert (best == (data["obs"][:, 0] > 0)).mean() > 0.9
    assert stats["cur_lr"] == 0.01 and stats["kl"] > 0


def test_learning_rate_and_entropy_follow_their_schedules():
    made, policy = learner(
        lr_schedule=[[0, 0.1], [100, 0.2]], entropy_coeff_schedule=[[0, 1.0], [100, 0.0]]
    )
    stats = made.update(rows(policy, made), timestep=25)
    assert stats["cur_lr"] == pytest.approx(0.125)
    assert stats["entropy_coeff"] == pytest.approx(0.75)


def test_schedules_are_linear_between_points_and_flat_outside():
    schedule = PiecewiseSchedule([(10, 1.0), (20, 3.0), (40, 2.0)], 9.0)
    assert [schedule(t) for t in (0, 10, 15, 20, 30, 40, 99)] == [1, 1, 2, 3, 2.5, 2, 2]
    assert PiecewiseSchedule(None, 9.0)(123) == 9.0


def test_gradients_are_clipped_to_their_norm():
    made, _ = learner()
    seen = []
    made.optimizer.step = lambda gradient, lr: seen.append((gradient, lr))
    loss = made.model(torch.ones(4, 3))[1].sum() * 100
    norm = made.descend(loss, lr=0.25, max_norm=0.5)
    assert float(norm) > 0.5
    ((gradient, lr),) = seen
    assert float(gradient.norm()) == pytest.approx(0.5, rel=1e-3) and lr == 0.25


def test_minibatches_hold_every_row_once_but_a_short_rest():
    made, _ = learner()
    numbers = {"n": torch.arange(70)}
    parts = [part["n"] for part in made.minibatches(numbers, 16, shuffle=True)]
    assert [len(part) for part in parts] == [16, 16, 16, 16]
    assert len(set(torch.cat(parts).tolist())) == 64
    parts = [part["n"] for part in made.minibatches(numbers, 16, shuffle=False)]
    assert torch.cat(parts).tolist() == list(range(64))
    assert [len(p["n"]) for p in made.minibatches({"n": torch.arange(10)}, 16, shuffle=True)] == [
        10
    ]


@pytest.mark.parametrize("kl_coeff", [0.0, 0.2])
def test_everything_of_an_update_is_on_the_learners_device(kl_coeff):
    """PyTorch's meta device stands for a GPU: an operation that mixes devices raises."""
    made, policy = learner(kl_coeff=kl_coeff)
    data = rows(policy, made)
    remote = PPOLearner(policy, made.config, torch.device("meta"), entropy=5)
    tensors = remote.to_device(data, TRAIN_COLUMNS)
    tensors["advantages"] = standardized(tensors["advantages"])
    for minibatch in remote.minibatches(tensors, 16, shuffle=True):
        logits, values = remote.model(minibatch["obs"])
        loss, stats = ppo_loss(
            logits,
            values,
            minibatch,
            remote.distribution,
            remote.config,
            kl_coeff=kl_coeff,
            entropy_coeff=0.1,
        )
        stats |= policy_stats(logits.detach(), minibatch, remote.distribution)
        norm = remote.descend(loss, 0.1, max_norm=0.5)
        assert {t.device.type for t in (loss, norm, remote.model.flat, *stats.values())} == {"meta"}


@pytest.mark.gpu
def test_an_update_on_a_gpu_is_close_to_that_on_the_cpu():
    made, policy = learner(lr=0.01)
    data = rows(policy, made)
    remote = PPOLearner(policy, made.config, torch.device("cuda"), entropy=5)
    here, there = made.update(data, 0), remote.update(data, 0)
    np.testing.assert_allclose(made.weights()[1], remote.weights()[1], atol=1e-3)
    assert here["kl"] == pytest.approx(there["kl"], rel=0.05)
    remote.set_state(remote.get_state(), remote.weights()[1])


def test_the_class_names_its_parts():
    assert PPO.name == "PPO" and PPO.config_class is PPOConfig and PPO.learner_class is PPOLearner
