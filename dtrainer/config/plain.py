"""Configurations as plain data, for files and results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


def plain(value: Any) -> Any:
    """Reduce a value to what JSON and YAML have; classes and functions to their dotted names."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, BaseModel):
        return {
            field.alias or name: plain(getattr(value, name))
            for name, field in type(value).model_fields.items()
        }
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # numpy
        return plain(value.tolist())
    name = getattr(value, "__qualname__", None)
    return f"{value.__module__}.{name}" if name else repr(value)
