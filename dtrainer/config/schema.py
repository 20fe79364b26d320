"""Experiment files for editors and for people who start: JSON schema, commented defaults."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dtrainer.config.building import TUNE_KEYS
from dtrainer.config.checks import EXPERIMENT_ONLY
from dtrainer.config.cluster import ClusterSpec
from dtrainer.config.compat import OLD_NAMES, WITHOUT_EFFECT
from dtrainer.config.experiment import Experiment
from dtrainer.config.model import ModelConfig
from dtrainer.config.notyet import KEYS, MODEL_KEYS
from dtrainer.config.plain import plain
from dtrainer.config.trainer import TrainerConfig
from dtrainer.config.yaml_file import dump

_WIDTH = 88


def experiment_schema(run: str, config_class: type[TrainerConfig]) -> dict[str, Any]:
    """JSON schema of experiment files of an algorithm, in both forms.

    Parameters
    ----------
    run
        The algorithm's name.
    config_class
        Its configuration.

    Returns
    -------
    Schema of draft 2020-12; keys of RLlib that are understood are marked as deprecated.
    """
    schema = Experiment.model_json_schema(mode="validation")
    config = config_class.model_json_schema(by_alias=True, mode="validation")
    definitions = {**schema.pop("$defs"), **config.pop("$defs", {})}
    definitions.pop(TrainerConfig.__name__, None)
    for old, new in OLD_NAMES.items():
        kind = {key: value for key, value in config["properties"][new].items() if key != "default"}
        config["properties"][old] = {**kind, "deprecated": True}
    for key in (*WITHOUT_EFFECT, "vf_share_layers"):
        config["properties"].setdefault(key, {})["deprecated"] = True
    config["properties"]["framework"] = {"enum": ["torch", "tf", "tf2", "tfe"]}
    definitions[config_class.__name__] = config
    cluster = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/ClusterSpec"}]}
    schema["properties"]["config"] = {"$ref": f"#/$defs/{config_class.__name__}"}
    schema["properties"]["cluster"] = {**schema["properties"]["cluster"], **cluster}
    schema["properties"]["cluster"].pop("$ref", None)
    schema["properties"]["stop"] = _stop_schema(schema["properties"]["stop"])
    schema["properties"]["local_dir"] = {"type": "string", "deprecated": True}
    for key in TUNE_KEYS:
        schema["properties"][key] = {"deprecated": True}
    schema["properties"]["num_samples"] = {"const": 1, "deprecated": True}
    schema["required"] = ["run"]
    definitions["Experiment"] = schema
    one = {"$ref": "#/$defs/Experiment"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"dtrainer experiment ({run})",
        "if": {"anyOf": [{"required": [key]} for key in ("run", "env", "config", "stop")]},
        "then": one,
        "else": {"type": "object", "additionalProperties": one, "minProperties": 1},
        "$defs": definitions,
    }


def _stop_schema(schema: dict[str, Any]) -> dict[str, Any]:
    numbers = {"type": "object", "additionalProperties": {"type": ["number", "object"]}}
    return {"description": schema["description"], "default": {}, **numbers}


def commented_defaults(run: str, config_class: type[TrainerConfig]) -> str:
    """Write an experiment file with every key at its default and what it means.

    It trains as it is, on CartPole, for ever: it is meant to be shortened.
    """
    lines = [f"# Every key of an experiment with {run}, at its default."]
    example = {"run": run, "env": "CartPole-v1"}
    for name, field in Experiment.model_fields.items():
        if name == "config":
            lines += ["", "config:", *_indented(_config_lines(config_class))]
        elif name == "cluster":
            lines += ["", "cluster:", *_indented(_section_lines(ClusterSpec, frozenset()))]
        else:
            value = example.get(name, None if field.is_required() else _default(field))
            lines += _entry(name, value, field.description or "")
    return "\n".join(lines) + "\n"


def _config_lines(config_class: type[TrainerConfig]) -> Iterator[str]:
    for name, field in config_class.model_fields.items():
        key = field.alias or name
        if key in ("env", "seed", *EXPERIMENT_ONLY):
            continue
        if key == "model":
            yield from ["", *_comment(field.description or ""), "model:"]
            yield from _indented(_section_lines(ModelConfig, MODEL_KEYS))
            continue
        yield from _entry(key, _default(field), (field.description or "") + _note(key, KEYS))


def _section_lines(section: type[BaseModel], not_built: frozenset[str]) -> Iterator[str]:
    for name, field in section.model_fields.items():
        text = (field.description or "") + _note(name, not_built)
        yield from _entry(field.alias or name, _default(field), text)


def _note(key: str, not_built: frozenset[str]) -> str:
    return " Not built yet." if key in not_built else ""


def _default(field: FieldInfo) -> Any:
    return plain(field.get_default(call_default_factory=True))


def _entry(key: str, value: Any, description: str) -> list[str]:
    return ["", *_comment(description), *dump({key: value}).rstrip("\n").split("\n")]


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), _WIDTH)]


def _indented(lines: Iterator[str]) -> list[str]:
    return [f"  {line}" if line else "" for line in lines]
