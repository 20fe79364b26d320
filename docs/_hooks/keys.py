"""Fill in the tables of configuration keys from the classes, so that they cannot go stale.

A page asks for one with a line `<!-- keys: dtrainer.config.TrainerConfig -->`.
`<!-- keys: A - B -->` lists what class A has beyond, or otherwise than, class B.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from dtrainer.config import ModelConfig, TrainerConfig, notyet

NOT_BUILT_YET = notyet.KEYS | notyet.MODEL_KEYS

MARKER = re.compile(r"<!-- keys: ([\w.]+)(?: - ([\w.]+))? -->")


WORDS = {
    int: "whole number",
    float: "number",
    str: "text",
    bool: "true or false",
    dict: "mapping",
    list: "list",
    tuple: "list",
}


def load(dotted: str) -> type[BaseModel]:
    module, _, name = dotted.rpartition(".")
    loaded: type[BaseModel] = getattr(importlib.import_module(module), name)
    return loaded


def default_of(info: FieldInfo) -> object:
    return info.get_default(call_default_factory=True, validated_data={})


def cell(value: object) -> str:
    """Write a default as YAML would have it."""
    if value is PydanticUndefined:
        return "none: it must be given"
    if isinstance(value, BaseModel):
        return "see below"
    if value is None or isinstance(value, bool):
        text = {None: "null", True: "true", False: "false"}[value]
    elif isinstance(value, type):
        text = value.__name__
    elif isinstance(value, float) and value.is_integer():
        text = f"{value:.1f}"
    else:
        text = str(value)
    return f"`{text}`"


def describe_type(annotation: Any) -> str:
    """Name a type in few words."""
    if annotation is type(None):
        return "null"
    if annotation is Any:
        return "any"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (types.UnionType, Union):
        return " or ".join(dict.fromkeys(describe_type(each) for each in arguments))
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    if origin is Annotated:
        return describe_type(arguments[0])
    plain = origin or annotation
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return "section"
    return WORDS.get(plain, plain.__name__)


def described_in_docstring(config: type[BaseModel]) -> dict[str, str]:
    """Read the numpydoc section "Parameters" of a class: a name, then its indented text."""
    section = inspect.cleandoc(config.__doc__ or "").partition("Parameters\n----------\n")[2]
    return dict(re.findall(r"^(\w+)\n((?:    .*\n?|\n(?=    ))+)", section, re.MULTILINE))


def rows(config: type[BaseModel], without: type[BaseModel] | None) -> Iterator[str]:
    known = {} if without is None else without.model_fields
    elsewhere = described_in_docstring(config)
    for name, info in config.model_fields.items():
        if name in known and default_of(known[name]) == default_of(info):
            continue
        kind = describe_type(info.annotation)
        if name in NOT_BUILT_YET and config in (TrainerConfig, ModelConfig):
            kind += "; *not built yet*"
        description = info.description or elsewhere.get(name, "")
        description = " ".join(description.split()).replace("|", "\\|")
        yield f"| `{info.alias or name}` | {cell(default_of(info))} | {kind} | {description} |"


def table(match: re.Match[str]) -> str:
    config, without = match.groups()
    lines = ["| key | default | type | meaning |", "| --- | --- | --- | --- |"]
    lines += rows(load(config), load(without) if without else None)
    return "\n".join(lines)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the markers of a page; mkdocs calls this."""
    return MARKER.sub(table, markdown)
