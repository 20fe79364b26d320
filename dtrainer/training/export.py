"""Policies for use without dtrainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.numpy import save_file
from torch import Tensor, nn

from dtrainer.config.errors import ResultsError
from dtrainer.models.networks import ACTIVATIONS, ActorCritic
from dtrainer.rollout.filters import MeanStdFilter, NoFilter

if TYPE_CHECKING:
    from dtrainer.training.trainer import Trainer


class _FilteredPolicy(nn.Module):
    """Observation filter and network in one, on the CPU."""

    def __init__(self, model: ActorCritic, obs_filter: NoFilter) -> None:
        super().__init__()
        self.spec = model.spec
        for name, weight in model.spec.layout.views(model.flat.detach().cpu()).items():
            self.register_buffer(name.replace(".", "_"), weight.clone())
        size = model.spec.obs_size
        mean, scale = torch.zeros(size), torch.ones(size)
        if isinstance(obs_filter, MeanStdFilter) and obs_filter.stats.count:
            mean = torch.from_numpy(obs_filter.stats.mean.reshape(-1)).float()
            scale = torch.from_numpy(obs_filter.stats.std.reshape(-1) + 1e-8).float()
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Distribution parameters `[B, P]` and values `[B]` of raw observations `[B, D]`."""
        x = (obs - self.get_buffer("mean")) / self.get_buffer("scale")
        logits = self._head("policy", x)
        if self.spec.free_log_std:
            log_std = self.get_buffer("policy_log_std").expand_as(logits)
            logits = torch.cat([logits, log_std], dim=1)
        return logits, self._head("value", x).squeeze(1)

    def _head(self, head: str, x: Tensor) -> Tensor:
        for name in self.spec.trunk_names(head):
            x = ACTIVATIONS[self.spec.activation](self._linear(name, x))
        return self._linear(f"{head}.head", x)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        name = name.replace(".", "_")
        weight, bias = self.get_buffer(f"{name}_weight"), self.get_buffer(f"{name}_bias")
        return nn.functional.linear(x, weight, bias)


def export_policy(trainer: Trainer[Any], folder: Path, policy_id: str) -> list[Path]:
    """Write a policy; see `Trainer.export_policy_model`.

    Raises
    ------
    ResultsError
        If the folder cannot be written.
    """
    policy = trainer.get_policy(policy_id)
    model = _FilteredPolicy(
        trainer.learners[policy_id].model, trainer.workers.local_worker.filters[policy_id]
    ).eval()
    example = torch.zeros(2, policy.spec.obs_size)
    batch = torch.export.Dim("batch")
    program = torch.export.export(model, (example,), dynamic_shapes=({0: batch},))
    description = {
        "algorithm": trainer.name,
        "env": trainer._spec.env.name,
        "input": f"observations, float32 [B, {policy.spec.obs_size}], as the environment gives",
        "outputs": ["parameters of the action distribution, float32 [B, P]", "values [B]"],
        "distribution": type(policy.distribution).__name__,
        "observation_space": str(policy.observation_space),
        "action_space": str(policy.action_space),
        "normalize_actions": trainer.config.normalize_actions,
        "clip_actions": trainer.config.clip_actions,
    }
    paths = [folder / name for name in ("policy.pt2", "policy.safetensors", "policy.json")]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        torch.export.save(program, paths[0])
        save_file(policy.get_weights(), paths[1])
        paths[2].write_text(json.dumps(description, indent=2) + "\n")
    except OSError as error:
        raise ResultsError(f"cannot export to {folder}: {error.strerror}") from error
    return paths
