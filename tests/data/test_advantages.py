"""Advantages against hand computations and an independent recursion."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtrainer.data import generalized_advantages


def column(*values, dtype=np.float32):
    return np.array(values, dtype)[:, None]


def test_terminal_state_is_worth_nothing():
    # delta_1 = 1 - 0.5, delta_0 = 1 + 0.9 * 0.5 - 0.4 = 1.05; A_0 = 1.05 + 0.9 * 0.8 * 0.5
    advantages = generalized_advantages(
        column(1, 1),
        column(0.4, 0.5),
        column(0.5, 7.0),
        column(False, True, dtype=bool),
        column(False, True, dtype=bool),
        gamma=0.9,
        lambda_=0.8,
    )
    np.testing.assert_allclose(advantages[:, 0], [1.41, 0.5], rtol=1e-6)


def test_truncation_bootstraps_from_the_final_observation():
    # The same with a truncated end: delta_1 = 1 + 0.9 * 7 - 0.5 = 6.8; A_0 = 1.05 + 0.72 * 6.8
    advantages = generalized_advantages(
        column(1, 1),
        column(0.4, 0.5),
        column(0.5, 7.0),
        column(False, False, dtype=bool),
        column(False, True, dtype=bool),
        gamma=0.9,
        lambda_=0.8,
    )
    np.testing.assert_allclose(advantages[:, 0], [5.946, 6.8], rtol=1e-6)


def test_nothing_crosses_from_one_episode_into_the_one_before():
    rewards, values = column(1, 1, 100), column(0, 0, 0)
    ends = column(False, True, False, dtype=bool)
    advantages = generalized_advantages(
        rewards, values, column(0, 0, 0), ends, ends, gamma=1.0, lambda_=1.0
    )
    np.testing.assert_allclose(advantages[:, 0], [2, 1, 100])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4))
def test_equals_the_sum_of_discounted_deltas(seed, steps, envs):
    """Equation 16 of the paper, summed term by term within each episode."""
    rng = np.random.default_rng(seed)
    shape = (steps, envs)
    rewards, values, next_values = rng.normal(size=(3, *shape)).astype(np.float32)
    terminateds = rng.random(shape) < 0.2
    cuts = terminateds | (rng.random(shape) < 0.2)
    gamma, lambda_ = 0.97, 0.9
    got = generalized_advantages(
        rewards, values, next_values, terminateds, cuts, gamma=gamma, lambda_=lambda_
    )
    deltas = rewards + gamma * next_values * (1 - terminateds) - values
    for env in range(envs):
        for t in range(steps):
            expected, decay = 0.0, 1.0
            for k in range(t, steps):
                expected += decay * deltas[k, env]
                decay *= gamma * lambda_
                if cuts[k, env]:
                    break
            assert got[t, env] == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert got.dtype == np.float32
