import numpy as np
import torch

from dtrainer.training.adam import Adam


def test_equals_pytorchs_adam():
    """Twenty steps with changing rates against torch.optim.Adam."""
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(50, generator=generator)
    theirs = ours.clone().requires_grad_()
    adam, reference = Adam(ours), torch.optim.Adam([theirs], lr=0.1)
    for step in range(20):
        gradient = torch.randn(50, generator=generator)
        theirs.grad = gradient.clone()
        reference.param_groups[0]["lr"] = 0.1 / (1 + step)
        reference.step()
        adam.step(gradient, 0.1 / (1 + step))
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)


def test_state_continues_bit_for_bit():
    def run(interrupted):
        parameters = torch.ones(8)
        adam = Adam(parameters)
        for step in range(10):
            if interrupted and step == 5:
                state = adam.get_state()
                adam = Adam(parameters)
                adam.set_state(state)
            adam.step(torch.linspace(-1, 1, 8) * (step + 1), 0.01)
        return parameters.numpy()

    np.testing.assert_array_equal(run(interrupted=True), run(interrupted=False))
