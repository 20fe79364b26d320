"""What a value is, and what a key wants, in plain words."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_LONGEST = 60
"""Characters of a value that a message repeats."""


@dataclass(frozen=True)
class Slot:
    """Where a value goes: its type, and bounds such as `>= 1`."""

    annotation: Any
    bounds: tuple[str, ...] = ()


def found(value: Any) -> str:
    """Say what a value is, shortly: `'fast' (a string)`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 3] + "..."
    if isinstance(value, str):
        return f"{text} (a string{_unquoting(value)})"
    kinds: dict[type, str] = {dict: "a mapping", list: "a list", tuple: "a tuple"}
    kind = kinds.get(type(value))
    return f"{text} ({kind})" if kind else text


def _unquoting(value: str) -> str:
    try:
        float(value)
    except ValueError:
        return ""
    return "; without the quotes it is a number"


def expected(slot: Slot) -> str:
    """Say what a slot takes: `an integer >= 1 or null`."""
    members = sorted(
        union_members(slot), key=lambda member: member.annotation in (None, type(None))
    )  # null comes last
    return " or ".join(dict.fromkeys(_one(member) for member in members))


_WORDS: dict[Any, tuple[str, str]] = {
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
    str: ("a string", "strings"),
    dict: ("a mapping", "mappings"),
    list: ("a list", "lists"),
    tuple: ("a list", "lists"),
    None: ("null", "null"),
    type(None): ("null", "null"),
}
"""A kind of value: one of it, several of it."""


def _one(slot: Slot, number: int = 0) -> str:
    annotation = slot.annotation
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        names = ", ".join(str(argument) for argument in arguments)
        return names if len(arguments) == 1 else f"one of {names}"
    kind = origin or annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        kind = dict
    word = _WORDS.get(kind, ("a value", "values"))[number]
    if kind is tuple and arguments and arguments[-1] is not Ellipsis:
        return f"{word} of {len(arguments)} values"
    if kind in (list, tuple) and arguments:
        entries = list(union_members(Slot(arguments[0])))
        return f"{word} of {_one(entries[0], 1) if len(entries) == 1 else 'values'}"
    return " ".join([word, " and ".join(slot.bounds)]) if slot.bounds else word


def union_members(slot: Slot) -> Iterator[Slot]:
    """Take a type apart into its alternatives, each with the bounds that hold for it."""
    annotation, bounds = slot.annotation, slot.bounds
    if get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        yield from union_members(Slot(annotation, (*bounds, *_bounds(metadata))))
    elif get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from union_members(Slot(member, bounds))
    else:
        yield Slot(annotation, bounds if annotation in (int, float) else ())


def _bounds(metadata: Iterable[Any]) -> Iterator[str]:
    """Bounds among the metadata of a type; `Field` inside `Annotated` wraps them once more."""
    for entry in metadata:
        if isinstance(entry, FieldInfo):
            yield from _bounds(entry.metadata)
        for name, sign in (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<=")):
            bound = getattr(entry, name, None)
            if bound is not None:
                yield f"{sign} {bound:g}"


def field_of(model: type[BaseModel], key: str) -> FieldInfo | None:
    """Field of a model by key or by attribute name."""
    for name, field in model.model_fields.items():
        if key in (name, field.alias):
            return field
    return None


def slot_at(model: type[BaseModel], path: Iterable[str | int]) -> Slot | None:
    """Find the slot that a path of keys leads to; None where anything goes."""
    slot: Slot | None = Slot(model)
    for part in path:
        slot = None if slot is None else _step(slot, part)
    return slot


def _step(slot: Slot, part: str | int) -> Slot | None:
    for member in union_members(slot):
        annotation = member.annotation
        origin, arguments = get_origin(annotation), get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = field_of(annotation, str(part))
            if field is not None:
                return Slot(field.annotation, tuple(_bounds(field.metadata)))
        elif origin is list and isinstance(part, int):
            return Slot(arguments[0])
        elif origin is tuple and isinstance(part, int) and arguments:
            return Slot(arguments[min(part, len(arguments) - 1)])
        elif origin is dict and isinstance(part, str):
            return Slot(arguments[1])
    return None


def model_at(model: type[BaseModel], path: Iterable[str | int]) -> type[BaseModel] | None:
    """Section class that a path of keys leads to, if it leads to one."""
    slot = slot_at(model, path)
    for member in union_members(slot) if slot is not None else ():
        if isinstance(member.annotation, type) and issubclass(member.annotation, BaseModel):
            return member.annotation
    return None


def keys_of(model: type[BaseModel]) -> list[str]:
    """Keys of a section as people write them."""
    return [field.alias or name for name, field in model.model_fields.items()]
