"""Where the learner learns."""

from __future__ import annotations

import torch

from dtrainer.config.errors import ConfigError

SMALL_NETWORK = 200_000
"""Parameters below which a second thread of PyTorch waits longer than it computes."""


def set_threads(wanted: int | None, num_parameters: int) -> None:
    """Set PyTorch's threads in this process.

    Parameters
    ----------
    wanted
        The `torch_num_threads` key; None for one thread for small networks, and PyTorch's own
        choice for others.
    num_parameters
        Of all networks together.
    """
    if wanted is not None:
        torch.set_num_threads(wanted)
    elif num_parameters < SMALL_NETWORK:
        torch.set_num_threads(1)


def choose_device(device: str, num_gpus: float) -> torch.device:
    """Resolve the `device` and `num_gpus` keys.

    Parameters
    ----------
    device
        `auto` (a GPU where there is one), `cpu`, `cuda` or `cuda:N`.
    num_gpus
        GPUs that the configuration asks for; above 0 makes one a condition.

    Raises
    ------
    ConfigError
        If a GPU is asked for and there is none, or not that one.
    """
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if num_gpus > 0 and (found < num_gpus or device == "cpu"):
        why = "device is cpu" if device == "cpu" else f"PyTorch finds {found} here"
        raise ConfigError(
            f"num_gpus: {num_gpus:g} asks for a GPU, but {why}",
            hint="Set num_gpus: 0, or install a CUDA build of PyTorch on a machine with a GPU.",
        )
    if device == "auto":
        return torch.device("cuda" if found else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda" and (chosen.index or 0) >= found:
        raise ConfigError(
            f"device: {device}, but PyTorch finds {found} GPUs here",
            hint="Set device: auto to use a GPU only where there is one.",
        )
    return chosen
