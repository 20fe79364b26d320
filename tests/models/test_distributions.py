"""Numpy and torch sides against SciPy."""

import numpy as np
import pytest
import torch
from scipy import stats

from dtrainer.models import Categorical, DiagGaussian


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_categorical_log_probabilities_are_those_of_the_softmax(rng):
    logits = rng.normal(size=(50, 5)).astype(np.float32) * 3
    dist = Categorical(5)
    actions, logp = dist.sample(logits, rng)
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(logp, np.log(probabilities[np.arange(50), actions]), atol=1e-5)
    torch_logp = dist.log_prob(torch.from_numpy(logits), torch.from_numpy(actions))
    np.testing.assert_allclose(torch_logp.numpy(), logp, atol=1e-5)


def test_categorical_samples_with_its_probabilities(rng):
    logits = np.log(np.array([[0.1, 0.2, 0.7]], np.float32)).repeat(60_000, 0)
    actions, _ = Categorical(3).sample(logits, rng)
    observed = np.bincount(actions, minlength=3)
    assert stats.chisquare(observed, 60_000 * np.array([0.1, 0.2, 0.7])).pvalue > 1e-3


def test_categorical_never_draws_what_is_impossible(rng):
    logits = np.array([[-np.inf, 0.0, -np.inf]], np.float32).repeat(10_000, 0)
    actions, logp = Categorical(3).sample(logits, rng)
    assert set(actions) == {1}
    assert np.all(logp == 0)


def test_categorical_entropy_and_kl(rng):
    p, q = rng.dirichlet(np.ones(4), 20), rng.dirichlet(np.ones(4), 20)
    dist = Categorical(4)
    log_p, log_q = torch.from_numpy(np.log(p)), torch.from_numpy(np.log(q))
    np.testing.assert_allclose(dist.entropy(log_p), stats.entropy(p, axis=1), atol=1e-6)
    np.testing.assert_allclose(dist.kl(log_p, log_q), stats.entropy(p, q, axis=1), atol=1e-6)


def test_gaussian_log_probabilities_and_entropy(rng):
    inputs = rng.normal(size=(30, 6)).astype(np.float32)
    mean, std = inputs[:, :3], np.exp(inputs[:, 3:])
    dist = DiagGaussian(3)
    actions, logp = dist.sample(inputs, rng)
    expected = stats.norm.logpdf(actions, mean, std).sum(1)
    np.testing.assert_allclose(logp, expected, atol=1e-4)
    torch_inputs = torch.from_numpy(inputs)
    np.testing.assert_allclose(
        dist.log_prob(torch_inputs, torch.from_numpy(actions)), expected, atol=1e-4
    )
    np.testing.assert_allclose(
        dist.entropy(torch_inputs), stats.norm.entropy(mean, std).sum(1), atol=1e-5
    )


def test_gaussian_samples_are_normal(rng):
    inputs = np.array([[1.5, np.log(0.5)]], np.float32).repeat(20_000, 0)
    actions, _ = DiagGaussian(1).sample(inputs, rng)
    assert stats.kstest(actions[:, 0], stats.norm(1.5, 0.5).cdf).pvalue > 1e-3


def test_gaussian_kl_agrees_with_torch_distributions(rng):
    a, b = (torch.from_numpy(rng.normal(size=(10, 4)).astype(np.float32)) for _ in range(2))
    normal_a, normal_b = (torch.distributions.Normal(x[:, :2], x[:, 2:].exp()) for x in (a, b))
    expected = torch.distributions.kl_divergence(normal_a, normal_b).sum(1)
    torch.testing.assert_close(DiagGaussian(2).kl(a, b), expected)


@pytest.mark.parametrize("dist", [Categorical(3), DiagGaussian(2)])
def test_mode_is_the_most_probable_action(dist, rng):
    inputs = rng.normal(size=(40, dist.num_inputs)).astype(np.float32)
    best, logp = dist.mode(inputs)
    tensor = torch.from_numpy(inputs)
    np.testing.assert_allclose(dist.log_prob(tensor, torch.from_numpy(best)), logp, atol=1e-5)
    others, _ = dist.sample(inputs, rng)
    assert np.all(logp + 1e-5 >= dist.log_prob(tensor, torch.from_numpy(others)).numpy())
