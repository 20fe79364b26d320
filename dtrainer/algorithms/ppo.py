"""Proximal policy optimization (PPO).

References
----------
Schulman et al., "Proximal Policy Optimization Algorithms", 2017, arXiv:1707.06347.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from dtrainer.config import TrainerConfig
from dtrainer.config.types import Int, Number, Schedule
from dtrainer.data import SampleBatch, columns
from dtrainer.models import ActionDistribution
from dtrainer.policies import Policy
from dtrainer.rollout.postprocessing import Advantages
from dtrainer.training.learner import Learner, Tensors, explained_variance
from dtrainer.training.schedules import PiecewiseSchedule
from dtrainer.training.trainer import Trainer


class PPOConfig(TrainerConfig):
    """Configuration of PPO: the common keys and these."""

    lr: Number = Field(3e-4, gt=0, description="Learning rate of Adam.")
    train_batch_size: Int = Field(
        4000, ge=1, description="Environment steps that are sampled for each update, at least."
    )
    use_critic: bool = Field(True, description="Use the value function as a baseline.")
    use_gae: bool = Field(
        True, description="Generalized advantage estimation; without it, lambda counts as 1."
    )
    lambda_: Number = Field(
        0.95, ge=0, le=1, alias="lambda", description="Decay of generalized advantage estimation."
    )
    sgd_minibatch_size: Int = Field(128, ge=1, description="Rows of one step of SGD.")
    num_sgd_iter: Int = Field(10, ge=1, description="Passes over each train batch.")
    shuffle_sequences: bool = Field(True, description="Shuffle the train batch for each pass.")
    clip_param: Number = Field(
        0.2, gt=0, description="How far the probability ratio may move before it is clipped."
    )
    kl_coeff: Number = Field(
        0.0, ge=0, description="First weight of the KL penalty, then adapted; 0 for no penalty."
    )
    kl_target: Number = Field(0.01, gt=0, description="KL divergence that an update should make.")
    vf_loss_coeff: Number = Field(0.5, ge=0, description="Weight of the value loss.")
    vf_clip_param: Number | None = Field(
        None, gt=0, description="How far a value may move in an update; null for any distance."
    )
    entropy_coeff: Number = Field(0.0, ge=0, description="Weight of the entropy bonus.")
    entropy_coeff_schedule: Schedule | None = Field(
        None, description="entropy_coeff as [timestep, value] points, linear between them."
    )
    lr_schedule: Schedule | None = Field(
        None, description="lr as [timestep, value] points, linear between them."
    )
    grad_clip: Number | None = Field(
        0.5, gt=0, description="Largest global norm of a gradient; null for no clipping."
    )

    def cross_checks(self) -> list[tuple[str, str]]:
        """Check keys against each other; see the base class."""
        mistakes = super().cross_checks()
        if self.sgd_minibatch_size > self.train_batch_size:
            mistakes.append(
                (
                    "sgd_minibatch_size",
                    f"{self.sgd_minibatch_size} is above train_batch_size: {self.train_batch_size}",
                )
            )
        if not self.use_critic and self.batch_mode == "truncate_episodes":
            mistakes.append(
                (
                    "use_critic",
                    "false needs batch_mode: complete_episodes: without a critic nothing says what "
                    "a cut episode is still worth",
                )
            )
        return mistakes


class PPOLearner(Learner[PPOConfig]):
    """Minibatch SGD on the clipped surrogate, several passes over each batch.

    Attributes
    ----------
    kl_coeff
        Weight of the KL penalty, adapted after each update.
    """

    def __init__(
        self,
        policy: Policy,
        config: PPOConfig,
        device: torch.device,
        entropy: int,
        number: int = 0,
    ) -> None:
        super().__init__(policy, config, device, entropy, number)
        self.kl_coeff = config.kl_coeff
        self.entropy_coeff = PiecewiseSchedule(config.entropy_coeff_schedule, config.entropy_coeff)

    def update(self, batch: SampleBatch, timestep: int) -> dict[str, float]:
        """Learn from a batch; see the base class."""
        config = self.config
        lr = self.lr(timestep)
        entropy_coeff = self.entropy_coeff(timestep)
        tensors = self.to_device(batch, TRAIN_COLUMNS)
        tensors[columns.ADVANTAGES] = standardized(tensors[columns.ADVANTAGES])
        for number in range(config.num_sgd_iter):
            epoch = []
            last = number == config.num_sgd_iter - 1
            for minibatch in self.minibatches(
                tensors, config.sgd_minibatch_size, shuffle=config.shuffle_sequences
            ):
                logits, values = self.model(minibatch[columns.OBS])
                loss, stats = ppo_loss(
                    logits,
                    values,
                    minibatch,
                    self.distribution,
                    config,
                    kl_coeff=self.kl_coeff,
                    entropy_coeff=entropy_coeff,
                )
                stats["grad_gnorm"] = self.descend(loss, lr, config.grad_clip)
                if last:  # what the update did in the end; measuring costs time
                    stats |= policy_stats(logits.detach(), minibatch, self.distribution)
                    epoch.append(stats)
        self.version += 1
        means = mean_stats(epoch)
        self._adapt_kl_coeff(means["kl"])
        explained = explained_variance(batch[columns.VALUE_TARGETS], batch[columns.VF_PREDS])
        return {
            **means,
            "vf_explained_var": explained,
            "cur_kl_coeff": self.kl_coeff,
            "cur_lr": lr,
            "entropy_coeff": entropy_coeff,
        }

    def _adapt_kl_coeff(self, kl: float) -> None:
        """Raise the penalty after updates that went too far, lower it after timid ones.

        The adaptive KL penalty of section 4 of the paper, with RLlib's thresholds.
        """
        if kl > 2.0 * self.config.kl_target:
            self.kl_coeff *= 1.5
        elif kl < 0.5 * self.config.kl_target:
            self.kl_coeff *= 0.5

    def get_state(self) -> dict[str, Any]:
        """See the base class."""
        return {**super().get_state(), "kl_coeff": self.kl_coeff}

    def set_state(self, state: Mapping[str, Any], flat: NDArray[np.float32]) -> None:
        """See the base class."""
        super().set_state(state, flat)
        self.kl_coeff = float(state["kl_coeff"])


TRAIN_COLUMNS = (
    columns.OBS,
    columns.ACTIONS,
    columns.ACTION_LOGP,
    columns.ACTION_DIST_INPUTS,
    columns.VF_PREDS,
    columns.ADVANTAGES,
    columns.VALUE_TARGETS,
)


def ppo_loss(
    logits: Tensor,
    values: Tensor,
    batch: Tensors,
    distribution: ActionDistribution,
    config: PPOConfig,
    *,
    kl_coeff: float,
    entropy_coeff: float,
) -> tuple[Tensor, Tensors]:
    r"""Clipped surrogate, KL penalty, clipped value loss and entropy bonus.

    .. math::
        L = -\min(\rho A, \mathrm{clip}(\rho, 1 \pm \epsilon) A) + \beta\, KL
            + c_v \max((V - R)^2, (V_{clip} - R)^2) - c_e H,
        \qquad \rho = \pi(a|s) / \pi_{old}(a|s)

    Parameters
    ----------
    logits, values
        The network's answer, `[B, P]` and `[B]`.
    batch
        Columns `TRAIN_COLUMNS` of the minibatch.
    distribution
        Of the actions.
    config
        Reads `clip_param`, `vf_clip_param`, `vf_loss_coeff`, `use_critic`.
    kl_coeff, entropy_coeff
        :math:`\beta` and :math:`c_e` at present.

    Returns
    -------
    loss
        0-d.
    stats
        Parts of it, detached, 0-d each.

    References
    ----------
    Equations 7 to 9 of the paper; the clipped value loss is that of OpenAI Baselines' ppo2.
    """
    advantages = batch[columns.ADVANTAGES]
    log_ratio = distribution.log_prob(logits, batch[columns.ACTIONS]) - batch[columns.ACTION_LOGP]
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip_param, 1 + config.clip_param)
    policy_loss = -torch.minimum(ratio * advantages, clipped * advantages).mean()

    loss = policy_loss
    if entropy_coeff != 0:
        loss = loss - entropy_coeff * distribution.entropy(logits).mean()
    if kl_coeff > 0:
        old_inputs = batch[columns.ACTION_DIST_INPUTS]
        loss = loss + kl_coeff * distribution.kl(old_inputs, logits).mean()

    targets = batch[columns.VALUE_TARGETS]
    errors = (values - targets).square()
    if config.vf_clip_param is not None:
        old = batch[columns.VF_PREDS]
        near = old + (values - old).clamp(-config.vf_clip_param, config.vf_clip_param)
        errors = torch.maximum(errors, (near - targets).square())
    vf_loss = errors.mean()
    if config.use_critic:
        loss = loss + config.vf_loss_coeff * vf_loss

    stats = {"total_loss": loss, "policy_loss": policy_loss, "vf_loss": vf_loss}
    return loss, {name: stat.detach() for name, stat in stats.items()}


def policy_stats(logits: Tensor, batch: Tensors, distribution: ActionDistribution) -> Tensors:
    """Divergence from the policy that sampled, KL(old || new), and entropy; means, 0-d each."""
    return {
        "kl": distribution.kl(batch[columns.ACTION_DIST_INPUTS], logits).mean(),
        "entropy": distribution.entropy(logits).mean(),
    }


def standardized(advantages: Tensor) -> Tensor:
    """Shift and scale to zero mean and unit deviation, `[B]`."""
    return (advantages - advantages.mean()) / advantages.std(correction=0).clamp(min=1e-4)


def mean_stats(stats: list[Tensors]) -> dict[str, float]:
    """Average each statistic over minibatches, with one copy from the device."""
    names = list(stats[0])
    table = torch.stack([torch.stack([row[name] for name in names]) for row in stats])
    return dict(zip(names, table.mean(0).tolist(), strict=True))


class PPO(Trainer[PPOConfig]):
    """Samples with the current policy, learns from the samples, and forgets them."""

    name: ClassVar[str] = "PPO"
    config_class = PPOConfig
    learner_class = PPOLearner

    def postprocessing(self) -> Advantages:
        """Advantages are computed where the trajectories are sampled."""
        config = self.config
        lambda_ = config.lambda_ if config.use_gae else 1.0
        return Advantages(config.gamma, lambda_, config.use_critic)

    def training_step(self) -> None:
        """Sample a train batch, learn from it, and send the new weights out."""
        batch = self.sample(self.config.train_batch_size)
        self.learn(batch)
        self.sync_weights()
