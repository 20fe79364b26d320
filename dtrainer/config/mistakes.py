"""Mistakes in configurations: collected, worded, and raised all at once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from dtrainer.config.errors import ConfigError

Path = tuple[str | int, ...]


class ConfigWarning(UserWarning):
    """Something in a configuration that has no effect or is not exactly as asked for."""


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong.

    Attributes
    ----------
    path
        Keys from the outermost to the wrong one.
    message
        What was found and what was expected.
    """

    path: Path
    message: str

    @property
    def key(self) -> str:
        """The path as people write it: `config.model.fcnet_hiddens`."""
        return ".".join(str(part) for part in self.path)

    def under(self, *prefix: str | int) -> Mistake:
        """Return the same mistake, seen from further out."""
        return Mistake((*prefix, *self.path), self.message)


def raise_mistakes(
    mistakes: Iterable[Mistake],
    where: str | None = None,
    locate: Callable[[Path], str | None] = lambda path: None,
) -> None:
    """Raise one ConfigError for all mistakes, if there are any.

    Parameters
    ----------
    mistakes
        In any order; those with a line are sorted by it.
    where
        File or object that they are in.
    locate
        From a path to where it is, such as `line 7`.
    """
    lines = []
    for mistake in mistakes:
        place = locate(mistake.path)
        line = f"{mistake.key}: {mistake.message}" if mistake.path else mistake.message
        number = int(place.split()[1]) if place and place.startswith("line ") else 1 << 30
        lines.append((number, f"{place}: {line}" if place else line))
    if not lines:
        return
    lines = sorted(set(lines), key=lambda entry: entry[0])
    count = f"{len(lines)} mistake{'s' if len(lines) > 1 else ''}"
    head = f"{where}: {count}" if where else f"the configuration has {count}"
    raise ConfigError("\n  ".join([head, *(text for _, text in lines)]))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def show(value: Any) -> str:
    """Say what a value is, shortly."""
    kinds = {str: "a string", dict: "a mapping", list: "a list"}
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text} ({kinds[type(value)]})" if type(value) in kinds else text


def from_pydantic(error: ValidationError, model: type[BaseModel]) -> list[Mistake]:
    """Put pydantic's complaints about a model into words of ours, one for each key."""
    found: dict[Path, list[str]] = {}
    value_at: dict[Path, Any] = {}
    for detail in error.errors(include_url=False):
        path, expected = _place(detail, model)
        entries = found.setdefault(path, [])
        if expected not in entries:
            entries.append(expected)
        value_at.setdefault(path, detail.get("input"))
    mistakes = []
    for path, expected in found.items():
        if expected[0].startswith("!"):
            mistakes.append(Mistake(path, expected[0][1:]))
        else:
            text = f"expected {' or '.join(expected)}, found {show(value_at[path])}"
            mistakes.append(Mistake(path, text))
    return mistakes


def _place(detail: Any, model: type[BaseModel]) -> tuple[Path, str]:
    """Path of a complaint without pydantic's own parts, and what was expected there."""
    path: list[str | int] = []
    current: Any = model
    for part in detail["loc"]:
        if isinstance(part, str) and path and not _is_key(part, current, detail):
            continue  # names a member of a union, not a key
        path.append(part)
        current = _section(current, part)
    return tuple(path), _expected(detail, model, tuple(path))


def _is_key(part: str, current: Any, detail: Any) -> bool:
    if isinstance(current, type) and issubclass(current, BaseModel):
        return True
    return current == "mapping" and not any(mark in part for mark in "[(-")


def _section(current: Any, part: str | int) -> Any:
    if isinstance(current, type) and issubclass(current, BaseModel):
        names = {field.alias or name: field for name, field in current.model_fields.items()}
        field = names.get(str(part))
        if field is None:
            return None
        annotation: Any = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        return "mapping" if "dict" in str(annotation) else None
    return None


_PHRASES = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "a string",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "model_type": "a mapping",
    "missing": "a value",
}


def _expected(detail: Any, model: type[BaseModel], path: Path) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return "!" + unknown_key(str(path[-1]), _known_keys(model, path[:-1]))
    if kind == "literal_error":
        return "one of " + str(context["expected"]).replace(" or ", ", ").replace("'", "")
    signs = {
        "greater_than": ">",
        "greater_than_equal": ">=",
        "less_than": "<",
        "less_than_equal": "<=",
    }
    if kind in signs:
        bound = next(value for name, value in context.items() if name in ("gt", "ge", "lt", "le"))
        return f"a number {signs[kind]} {bound:g}"
    if kind == "value_error":
        return "!" + str(context.get("error", detail["msg"]))
    if kind == "string_pattern_mismatch" and path[-1:] == ("device",):
        return "auto, cpu, cuda or cuda:N"
    if kind in ("too_short", "too_long"):
        return "a pair [timestep, value]"
    return _PHRASES.get(kind, str(detail["msg"]))


def _known_keys(model: type[BaseModel], path: Path) -> list[str]:
    current: Any = model
    for part in path:
        current = _section(current, part)
    if not (isinstance(current, type) and issubclass(current, BaseModel)):
        return []
    return [field.alias or name for name, field in current.model_fields.items()]


def unknown_key(name: str, known: Iterable[str]) -> str:
    """Say that a key is unknown, and which was meant."""
    meant = nearest(name, known)
    return "unknown key" + (f". Did you mean {meant}?" if meant else "")
