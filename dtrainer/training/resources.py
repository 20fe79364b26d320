"""What a run needs of machines, and how configurations merge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dtrainer.config import TrainerConfig


class Resources:
    """Class methods of a trainer that need no run.

    Attributes
    ----------
    config_class
        The algorithm's configuration.
    """

    config_class: ClassVar[type[TrainerConfig]]

    @classmethod
    def default_resource_request(cls, config: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        """Resources that a run with this configuration takes.

        Parameters
        ----------
        config
            Keys that differ from the defaults.

        Returns
        -------
        `driver` with `cpus` and `gpus`; `worker` with these of one actor; `total` of both, for
        all actors.

        Raises
        ------
        ConfigError
            If the configuration has mistakes.
        """
        resolved = cls.config_class.from_dict(config)
        count = resolved.num_workers + resolved.evaluation_num_workers
        driver = {"cpus": float(resolved.num_cpus_for_driver), "gpus": float(resolved.num_gpus)}
        worker = {
            "cpus": float(resolved.num_cpus_per_worker),
            "gpus": float(resolved.num_gpus_per_worker),
        }
        total = {name: driver[name] + count * worker[name] for name in driver}
        return {"driver": driver, "worker": {**worker, "count": float(count)}, "total": total}

    @classmethod
    def resource_help(cls, config: Mapping[str, Any]) -> str:
        """Say in words what a run with this configuration takes and which keys change it."""
        request = cls.default_resource_request(config)
        driver, worker = request["driver"], request["worker"]
        return (
            f"The driver takes {driver['cpus']:g} cores (num_cpus_for_driver) and "
            f"{driver['gpus']:g} GPUs (num_gpus); each of {worker['count']:g} actors (num_workers) "
            f"{worker['cpus']:g} cores (num_cpus_per_worker) and {worker['gpus']:g} GPUs "
            "(num_gpus_per_worker)."
        )

    @classmethod
    def merge_trainer_configs(
        cls, config1: Mapping[str, Any], config2: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Merge a partial configuration over another one and check the result.

        Sections such as `model` and `env_config` merge key by key.

        Returns
        -------
        The whole configuration as plain data.
        """
        return cls.config_class.from_dict(config1).merge(config2).to_dict()
