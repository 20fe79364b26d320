"""A little algorithm, so that these tests need no other room."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from dtrainer.config import ConfigError, TrainerConfig


class LittleConfig(TrainerConfig):
    """Keys as PPO has them, in the plain types of Python."""

    train_batch_size: int = Field(4000, ge=1)
    lambda_: float = Field(0.95, ge=0, le=1, alias="lambda")
    sgd_minibatch_size: int = Field(128, ge=1)
    lr_schedule: list[tuple[float, float]] | None = None

    def cross_checks(self) -> list[tuple[str, str]]:
        mistakes = super().cross_checks()
        if self.sgd_minibatch_size > self.train_batch_size:
            text = f"{self.sgd_minibatch_size} is above train_batch_size: {self.train_batch_size}"
            mistakes.append(("sgd_minibatch_size", text))
        return mistakes


class ReplayConfig(TrainerConfig):
    """Learns from a replay buffer: its train batch is not what is sampled."""

    samples_train_batches: ClassVar[bool] = False
    train_batch_size: int = 32
    rollout_fragment_length: int = 400


def config_class(name: str) -> type[TrainerConfig]:
    if name != "PPO":
        raise ConfigError(f"there is no algorithm {name!r}", hint="Did you mean PPO?")
    return LittleConfig
