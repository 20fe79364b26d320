"""Saving and restoring a trainer: everything that its next iteration depends on."""

from __future__ import annotations

import logging
from abc import ABC
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from dtrainer.config.errors import CheckpointError
from dtrainer.data import DEFAULT_POLICY_ID
from dtrainer.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from dtrainer.training.export import export_policy

if TYPE_CHECKING:
    from dtrainer.training.trainer import Trainer

log = logging.getLogger(__name__)


class Persistence(ABC):  # noqa: B024 - a part of Trainer, not a thing of its own
    """The trainer's methods that have to do with disk."""

    def save(self, checkpoint_dir: str | Path | None = None, *, keep: int | None = None) -> str:
        """Write a checkpoint: all or nothing, without pickle.

        Parameters
        ----------
        checkpoint_dir
            Folder to write `checkpoint_<iteration>` into; None: `checkpoints` in the logdir.
        keep
            How many of the latest to keep in that folder; None for all.

        Returns
        -------
        The checkpoint's path.

        Raises
        ------
        CheckpointError
            If it cannot be written; earlier ones stay as they were.
        """
        trainer = cast("Trainer[Any]", self)
        trainer._check_running()
        folder = trainer.logdir / "checkpoints" if checkpoint_dir is None else Path(checkpoint_dir)
        try:
            path = write_checkpoint(
                folder,
                trainer.iteration,
                _state(trainer),
                weights=cast("Any", trainer.get_weights()),
                metadata=_metadata(trainer),
                keep=keep,
            )
        except TypeError as error:
            raise CheckpointError(
                f"the run cannot be saved: {error}",
                hint="What an environment's get_state returns has to be plain data: dicts, lists, "
                "numbers, text, bytes and numpy arrays.",
            ) from error
        return str(path)

    def restore(self, checkpoint_path: str | Path) -> None:
        """Continue from a checkpoint, exactly.

        Parameters
        ----------
        checkpoint_path
            A checkpoint, a folder of them, or a run (then the newest).

        Raises
        ------
        CheckpointError
            If it is damaged, or of another algorithm, other spaces or another network.
        """
        trainer = cast("Trainer[Any]", self)
        trainer._check_running()
        checkpoint = read_checkpoint(Path(checkpoint_path))
        _check_fits(trainer, checkpoint)
        _load(trainer, checkpoint)

    @classmethod
    def from_checkpoint(
        cls, checkpoint_path: str | Path, config: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> Self:
        """Make a trainer as it was saved.

        Parameters
        ----------
        checkpoint_path
            As for `restore`.
        config
            Keys to change.
        kwargs
            The other arguments of the class: `env` (needed if it was no name), `client`,
            `cluster`, `logdir`.
        """
        trainer_class = cast("type[Trainer[Any]]", cls)
        checkpoint = read_checkpoint(Path(checkpoint_path))
        _check_algorithm(trainer_class.name, checkpoint)
        saved = dict(checkpoint.metadata["config"])
        if "env" in kwargs:
            saved["env"] = None
        resolved = trainer_class.config_class.from_dict(saved).merge(config or {})
        trainer = trainer_class(resolved, **kwargs)
        try:
            trainer.restore(checkpoint.path)
        except BaseException:
            trainer.stop()
            raise
        return cast("Self", trainer)

    def export_policy_model(
        self, export_dir: str | Path, policy_id: str = DEFAULT_POLICY_ID
    ) -> list[str]:
        """Write a policy for use without dtrainer.

        Parameters
        ----------
        export_dir
            Folder, made if missing.
        policy_id
            Which policy.

        Returns
        -------
        Paths: `policy.pt2` (`torch.export`: raw observations float32 `[B, D]` to distribution
        parameters `[B, P]` and values `[B]`, the observation filter included),
        `policy.safetensors` (the weights by name) and `policy.json` (what they mean).
        """
        trainer = cast("Trainer[Any]", self)
        return [str(path) for path in export_policy(trainer, Path(export_dir), policy_id)]


def _state(trainer: Trainer[Any]) -> dict[str, Any]:
    return {
        "iteration": trainer.iteration,
        "timesteps_total": trainer.timesteps_total,
        "steps_trained": trainer.steps_trained,
        "time_total_s": trainer.time_total_s,
        "experiment_id": trainer.experiment_id,
        "entropy": trainer.entropy,
        "history": trainer.history.get_state(),
        "learners": {pid: learner.get_state() for pid, learner in trainer.learners.items()},
        "workers": trainer.workers.get_state(),
    }


def _metadata(trainer: Trainer[Any]) -> dict[str, Any]:
    spec = trainer._spec
    return {
        "algorithm": trainer.name,
        "env": spec.env.name,
        "observation_space": str(spec.observation_space),
        "action_space": str(spec.action_space),
        "policies": {
            policy_id: {name: list(shape) for name, shape in learner.spec.layout.shapes.items()}
            for policy_id, learner in trainer.learners.items()
        },
        "timesteps_total": trainer.timesteps_total,
        "config": trainer.config.to_dict(),
    }


def _load(trainer: Trainer[Any], checkpoint: Checkpoint) -> None:
    state = cast("dict[str, Any]", checkpoint.state)
    trainer.iteration = int(state["iteration"])
    trainer.timesteps_total = int(state["timesteps_total"])
    trainer.steps_trained = int(state["steps_trained"])
    trainer.time_total_s = float(state["time_total_s"])
    trainer.experiment_id = str(state["experiment_id"])
    trainer.history.set_state(state["history"])
    trainer.timers.take_seconds()
    for policy_id, learner in trainer.learners.items():
        flat = learner.spec.layout.pack(checkpoint.weights[policy_id])
        learner.set_state(state["learners"][policy_id], flat)
    trainer.entropy = int(state["entropy"])
    trainer.workers.set_state(state["workers"], trainer.entropy)
    trainer.sync_weights()
    trainer._restored_at = (trainer.iteration, trainer.timesteps_total, trainer.time_total_s)


def _check_algorithm(name: str, checkpoint: Checkpoint) -> None:
    saved = checkpoint.metadata.get("algorithm")
    if saved != name:
        raise CheckpointError(
            f"{checkpoint.path} is a checkpoint of {saved}, expected one of {name}",
            hint=f"Restore it with the {saved} trainer.",
        )


def _check_fits(trainer: Trainer[Any], checkpoint: Checkpoint) -> None:
    """Compare what the checkpoint is of with what the trainer is."""
    _check_algorithm(trainer.name, checkpoint)
    own, saved = _metadata(trainer), checkpoint.metadata
    for key in ("observation_space", "action_space"):
        if saved[key] != own[key]:
            raise CheckpointError(
                f"{checkpoint.path} was saved with the {key.replace('_', ' ')} {saved[key]} "
                f"(environment {saved['env']}), this trainer's is {own[key]} ({own['env']})"
            )
    if saved["policies"] != own["policies"]:
        raise CheckpointError(
            f"{checkpoint.path} was saved with other networks: {_differences(saved, own)}",
            hint="Use the model section that it was saved with: it is in its metadata.json.",
        )


def _differences(saved: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    found = []
    for policy_id in sorted({*saved["policies"], *own["policies"]}):
        theirs = saved["policies"].get(policy_id, {})
        ours = own["policies"].get(policy_id, {})
        found += [
            f"{policy_id}/{name} is {theirs.get(name, 'missing')}, here {ours.get(name, 'missing')}"
            for name in [*theirs, *(name for name in ours if name not in theirs)]
            if theirs.get(name) != ours.get(name)
        ]
    return "; ".join(found[:4]) + ("; …" if len(found) > 4 else "")
