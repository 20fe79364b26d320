"""The same network in numpy and in torch."""

import numpy as np
import pytest
import torch

from dtrainer.models.acting import ACTIVATIONS, NumpyActorCritic
from dtrainer.models.networks import ActorCritic
from dtrainer.models.spec import ActorCriticSpec

CPU = torch.device("cpu")


def spec(**changes):
    defaults = {
        "obs_size": 5,
        "num_outputs": 4,
        "hiddens": (16, 8),
        "activation": "tanh",
        "vf_share_layers": False,
    }
    return ActorCriticSpec(**{**defaults, **changes})


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("free_log_std", [False, True])
def test_acting_and_learning_networks_agree(activation, shared, free_log_std):
    described = spec(activation=activation, vf_share_layers=shared, free_log_std=free_log_std)
    rng = np.random.default_rng(0)
    flat = rng.normal(size=described.layout.size).astype(np.float32) * 0.5
    acting, learning = NumpyActorCritic(described), ActorCritic(described, CPU)
    acting.load(flat)
    learning.load(flat)
    obs = rng.normal(size=(2500, 5)).astype(np.float32)  # more rows than one block
    with torch.no_grad():
        logits, values = learning(torch.from_numpy(obs))
    np.testing.assert_allclose(acting.logits(obs), logits.numpy(), atol=2e-5)
    np.testing.assert_allclose(acting.values(obs), values.numpy(), atol=2e-5)
    np.testing.assert_array_equal(learning.numpy(), flat)


def test_every_parameter_gets_its_gradient_in_the_flat_vector():
    learning = ActorCritic(spec(), CPU)
    learning.load(spec().initial_weights(np.random.default_rng(0)))
    logits, values = learning(torch.randn(7, 5))
    flat = learning.gradient(logits.square().sum() + values.square().sum())
    for name, gradient in spec().layout.views(flat).items():
        assert gradient.abs().sum() > 0, name


def test_gradient_equals_that_of_ordinary_layers():
    described = spec(hiddens=(6,))
    learning = ActorCritic(described, CPU)
    flat = described.initial_weights(np.random.default_rng(1))
    learning.load(flat)
    named = {
        k: torch.tensor(v, requires_grad=True) for k, v in described.layout.views(flat).items()
    }
    obs = torch.randn(9, 5)

    def head(trunk):
        hidden = torch.tanh(obs @ named[f"{trunk}.0.weight"].T + named[f"{trunk}.0.bias"])
        return hidden @ named[f"{trunk}.head.weight"].T + named[f"{trunk}.head.bias"]

    (head("policy").exp().sum() + head("value").square().sum()).backward()
    logits, values = learning(obs)
    flat_gradient = learning.gradient(logits.exp().sum() + values.square().sum())
    for name, gradient in described.layout.views(flat_gradient).items():
        torch.testing.assert_close(gradient, named[name].grad, rtol=1e-5, atol=1e-6)


def test_first_weights_are_orthogonal_and_the_first_policy_almost_uniform():
    described = spec(hiddens=(32, 32))
    views = described.layout.views(described.initial_weights(np.random.default_rng(3)))
    gram = views["policy.1.weight"] @ views["policy.1.weight"].T
    np.testing.assert_allclose(gram, 2 * np.eye(32), atol=1e-5)  # gain sqrt(2)
    assert np.abs(views["policy.head.weight"]).max() < 0.011
    assert all(not view.any() for name, view in views.items() if name.endswith("bias"))


def test_packing_names_what_does_not_fit():
    layout = spec().layout
    named = {name: np.zeros(shape) for name, shape in layout.shapes.items()}
    del named["value.head.bias"]
    named["policy.0.weight"] = np.zeros((2, 2))
    named["policy.9.weight"] = np.zeros(1)
    with pytest.raises(ValueError, match=r"policy\.9\.weight: unknown") as caught:
        layout.pack(named)
    assert "value.head.bias: missing" in str(caught.value)
    assert "policy.0.weight: shape (2, 2), expected (16, 5)" in str(caught.value)
