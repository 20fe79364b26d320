"""Mistakes in configurations: collected, worded, and raised all at once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from dtrainer.config.errors import ConfigError
from dtrainer.config.synonyms import SYNONYMS
from dtrainer.config.wording import Slot, expected, found, keys_of, model_at, slot_at, union_members

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
    meant
        The known key that an unknown one probably stands for.
    """

    path: Path
    message: str
    meant: str | None = None

    @property
    def key(self) -> str:
        """The path as files have it: `config.model.fcnet_hiddens[0]`."""
        text = ""
        for part in self.path:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
        return text

    @property
    def item(self) -> str:
        """The path as programs have it: `config['model']['fcnet_hiddens'][0]`."""
        return "config" + "".join(f"[{part!r}]" for part in self.path)

    def under(self, *prefix: str | int) -> Mistake:
        """Return the same mistake, seen from further out."""
        return replace(self, path=(*prefix, *self.path))


@dataclass(frozen=True)
class Place:
    """Where a key was written: on a line of the file, or in an override (which has no line)."""

    text: str
    line: int | None = None


class MistakesError(ConfigError):
    """Everything that is wrong with a configuration.

    Attributes
    ----------
    mistakes
        One for each wrong key.
    """

    def __init__(self, message: str, mistakes: Sequence[Mistake]) -> None:
        super().__init__(message)
        self.mistakes = tuple(mistakes)


def raise_mistakes(
    mistakes: Iterable[Mistake],
    where: str,
    locate: Callable[[Path], Place | None] | None = None,
) -> None:
    """Raise one ConfigError for all mistakes, if there are any.

    Parameters
    ----------
    mistakes
        In any order; those with a line are sorted by it.
    where
        File or object that they are in.
    locate
        From a path to where in the file it is; None for a configuration made by a program.
    """
    entries = []
    for mistake in dict.fromkeys(mistakes):
        place = locate(mistake.path) if locate is not None else None
        key = mistake.key if locate is not None else mistake.item
        text = f"{key}: {mistake.message}" if key else mistake.message
        line = place.line if place is not None and place.line is not None else 1 << 30
        entries.append((line, mistake, f"{place.text}: {text}" if place else text))
    if not entries:
        return
    entries.sort(key=lambda entry: entry[0])
    head = f"{where}: {len(entries)} mistake{'s' if len(entries) > 1 else ''}"
    message = "\n  ".join([head, *(text for _, _, text in entries)])
    raise MistakesError(message, [mistake for _, mistake, _ in entries])


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, whatever its case."""
    folded = {other.casefold(): other for other in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def from_pydantic(error: ValidationError, model: type[BaseModel], data: Any) -> list[Mistake]:
    """Put pydantic's complaints about a model into words of ours, one for each key.

    Parameters
    ----------
    error
        What pydantic raised.
    model
        The model that it checked.
    data
        What was checked; tells keys from the names that pydantic gives the members of a union.
    """
    mistakes: dict[Path, Mistake] = {}
    for detail in error.errors(include_url=False):
        path = _keys_only(detail["loc"], data, missing=detail["type"] == "missing")
        if path not in mistakes:
            mistakes[path] = _mistake(path, detail, model, _value_at(data, path))
    # Of a union's complaints, one may be about the whole value and another about an entry of it.
    return [
        mistake
        for path, mistake in mistakes.items()
        if not any(other[: len(path)] == path and other != path for other in mistakes)
    ]


def _keys_only(loc: tuple[str | int, ...], data: Any, *, missing: bool) -> Path:
    path: list[str | int] = []
    value = data
    for number, part in enumerate(loc):
        is_key = isinstance(value, dict) and part in value
        is_index = isinstance(value, list | tuple) and isinstance(part, int) and part < len(value)
        if is_key or is_index:
            path.append(part)
            value = value[part]
        elif missing and number == len(loc) - 1:
            path.append(part)
    return tuple(path)


def _value_at(data: Any, path: Path) -> Any:
    """Value as it was given: validators may have rewritten it since."""
    try:
        for part in path:
            data = data[part]
    except (KeyError, IndexError, TypeError):
        return None  # it is missing
    return data


def _mistake(path: Path, detail: Any, model: type[BaseModel], value: Any) -> Mistake:
    kind = detail["type"]
    if kind == "extra_forbidden":
        section = model_at(model, path[:-1])
        return unknown_key(path, keys_of(section) if section is not None else [])
    if kind == "value_error":  # raised by a validator of ours, in words for people
        return Mistake(path, str(detail["ctx"]["error"]))
    slot = slot_at(model, path)
    if kind == "missing":
        return Mistake(path, "is missing" + (f": expected {expected(slot)}" if slot else ""))
    if slot is None:
        return Mistake(path, f"{detail['msg'].lower()}, found {found(value)}")
    return Mistake(path, wrong_value(expected(slot), value, _choices(slot)))


def _choices(slot: Slot) -> list[str]:
    return [
        str(choice)
        for member in union_members(slot)
        if get_origin(member.annotation) is Literal
        for choice in get_args(member.annotation)
    ]


def wrong_value(wanted: str, value: Any, choices: Iterable[str] = ()) -> str:
    """Say what was expected, what was found, and which of the choices was meant."""
    meant = nearest(value, choices) if isinstance(value, str) else None
    return f"expected {wanted}, found {found(value)}" + (
        f". Did you mean {meant}?" if meant else ""
    )


def unknown_key(path: Path, known: Iterable[str]) -> Mistake:
    """Say that a key is unknown, and which was meant."""
    key, known = str(path[-1]), list(known)
    meant = SYNONYMS.get(key)
    if meant not in known:
        meant = nearest(key, known)
    return Mistake(path, "unknown key" + (f". Did you mean {meant}?" if meant else ""), meant)
