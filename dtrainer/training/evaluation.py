"""Playing episodes to see how good a policy is."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from dtrainer.config.errors import EnvError
from dtrainer.envs import EnvContext, EnvMaker
from dtrainer.rollout.seeding import Role
from dtrainer.rollout.worker import RolloutWorker, SyncUpdate

if TYPE_CHECKING:
    from dtrainer.training.trainer import Trainer


@dataclass(frozen=True)
class Evaluation:
    """Episodes that were played.

    Attributes
    ----------
    returns
        Undiscounted, float64 `[E]`.
    lengths
        Steps, int64 `[E]`.
    """

    returns: NDArray[np.float64]
    lengths: NDArray[np.int64]


def evaluate(
    trainer: Trainer[Any], num_episodes: int, *, explore: bool = False, video: Path | None = None
) -> Evaluation:
    """Play exactly `num_episodes` episodes with the trainer's present policy.

    The episodes have other seeds than training's, and the observation filter does not learn
    from them. The same trainer plays the same episodes each time.

    Parameters
    ----------
    trainer
        Whose policy; it is not changed.
    num_episodes
        At least 1.
    explore
        Sample actions instead of taking the most probable.
    video
        Folder for a video of each episode; the environment must render.

    Raises
    ------
    EnvError
        If the environment fails or cannot be filmed.
    """
    maker = trainer._spec.env
    num_envs = min(num_episodes, trainer.config.num_envs_per_worker)
    if video is not None:
        maker = dataclasses.replace(
            maker, creator=_Filmed(maker, video, num_episodes), vector_spec=None
        )
        num_envs = 1
    # Single environments also where training steps them as one: each episode has its own seed.
    config = trainer._spec.config.model_copy(
        update={"num_envs_per_worker": num_envs, "vectorize_mode": "sync"}
    )
    spec = dataclasses.replace(
        trainer._spec, env=maker, config=config, role=Role.EVALUATION, explore=explore
    )
    worker = RolloutWorker(spec, 0)
    local = trainer.workers.local_worker
    weights = {pid: (policy.version, policy.flat_weights) for pid, policy in local.policies.items()}
    filters = {pid: filter_.get_state() for pid, filter_ in local.filters.items()}
    try:
        worker.take_over(SyncUpdate(weights, filters))
        returns, lengths = worker.run_episodes(num_episodes)
    finally:
        worker.close()
    return Evaluation(returns, lengths)


@dataclass(frozen=True)
class _Filmed:
    """Makes environments that film every episode."""

    maker: EnvMaker
    folder: Path
    num_episodes: int

    def __call__(self, context: EnvContext) -> gym.Env:
        context["render_mode"] = "rgb_array"
        try:
            env = self.maker.make(context)
        except EnvError as error:
            raise self._cannot_render() from error
        if env.render_mode != "rgb_array":
            raise self._cannot_render()
        try:
            return gym.wrappers.RecordVideo(
                env,
                str(self.folder),
                episode_trigger=lambda number: number < self.num_episodes,
                disable_logger=True,
            )
        except gym.error.DependencyNotInstalled as error:
            raise EnvError(
                f"no video without moviepy: {error}", hint="pip install 'dtrainer[video]'"
            ) from error

    def _cannot_render(self) -> EnvError:
        return EnvError(
            f"environment {self.maker.name!r} cannot be filmed",
            hint="It has to take render_mode='rgb_array', keep it as render_mode, and render.",
        )
