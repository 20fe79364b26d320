"""What all sections of a configuration have in common."""

from __future__ import annotations

from numbers import Integral, Real
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from dtrainer.config.wording import Slot, union_members


class Section(BaseModel):
    """A part of a configuration: frozen, no unknown keys, no guessing at types.

    A string is no number and `true` is not 1. What people and programs write for the same thing
    is the same: 1e5 where an integer is expected, numpy's numbers, a list for a tuple.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        populate_by_name=True,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )

    @field_validator("*", mode="before")
    @classmethod
    def _same_things(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields.get(str(info.field_name))
        return value if field is None else same_thing(Slot(field.annotation), value)


def same_thing(slot: Slot, value: Any) -> Any:
    """Rewrite a value into the type that a slot has for it, where nothing is lost."""
    kinds = [member.annotation for member in union_members(slot)]
    if isinstance(value, bool) or value is None or Any in kinds:
        return value
    if isinstance(value, Real):
        return _same_number(kinds, value)
    if isinstance(value, Path) and str in kinds:
        return str(value)
    if isinstance(value, list | tuple):
        return _same_list(kinds, value)
    return value


def _same_number(kinds: list[Any], value: Real) -> Any:
    if isinstance(value, Integral):
        return int(value) if int in kinds else float(value) if float in kinds else value
    number = float(value)
    whole = int in kinds and float not in kinds and number.is_integer()
    return int(number) if whole else number


def _same_list(kinds: list[Any], value: list[Any] | tuple[Any, ...]) -> Any:
    for kind in kinds:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is list:
            return [same_thing(Slot(arguments[0]), entry) for entry in value]
        if origin is tuple:
            fixed = arguments[-1] is not Ellipsis
            slots = arguments if fixed else arguments[:1] * len(value)
            slots = (*slots, *[Any] * (len(value) - len(slots)))
            return tuple(
                same_thing(Slot(slot), entry) for slot, entry in zip(slots, value, strict=False)
            )
    return value
