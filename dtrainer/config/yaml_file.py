"""YAML files, with the line of every key."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarfloat import ScalarFloat
from ruamel.yaml.scalarint import ScalarInt
from ruamel.yaml.scalarstring import ScalarString

from dtrainer.config.errors import ConfigError

KeyPath = tuple[str | int, ...]


class YamlFile:
    """A YAML document as plain data, and where its keys stand.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ConfigError
        If it cannot be read, is not YAML, is empty, or is not a mapping.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ConfigError(f"cannot read {path}: {reason}") from error
        try:
            document = YAML(typ="rt").load(text)
        except MarkedYAMLError as error:
            raise _not_yaml(path, error) from error
        except YAMLError as error:
            raise ConfigError(f"{path} is not YAML: {error}") from error
        if document is None:
            raise ConfigError(
                f"{path} is empty; expected an experiment with at least run: and env:",
                hint="`dtrainer config defaults` prints one to start from.",
            )
        if not isinstance(document, CommentedMap):
            kind = "a list" if isinstance(document, CommentedSeq) else f"{document!r}"
            raise ConfigError(f"{path}: expected a mapping of keys to values, found {kind}")
        self._document = document
        self.data: dict[str, Any] = _plain(document)

    def line(self, path: KeyPath) -> int | None:
        """Line of a key, from 1; of the nearest key around it where it is not written."""
        node: Any = self._document
        line = None
        for part in path:
            if isinstance(node, CommentedMap) and part in node:
                line = node.lc.key(part)[0] + 1
            elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
                line = node.lc.item(part)[0] + 1
            else:
                break
            node = node[part]
        return line


def parse_value(text: str) -> Any:
    """Read one value as YAML would, numbers such as 1e5 included."""
    try:
        return _plain(YAML(typ="rt").load(text))
    except YAMLError:
        return text


def dump(data: Any) -> str:
    """Write plain data as YAML."""
    yaml = YAML(typ="safe")
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 100
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


def _not_yaml(path: Path, error: MarkedYAMLError) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    where = f", line {mark.line + 1}" if mark is not None else ""
    problem = (error.problem or "it does not parse").strip().splitlines()[0]
    hint = None
    if mark is not None and "\\t" in repr(problem):
        hint = "YAML is indented with spaces, not with tabs."
    return ConfigError(f"{path}{where}: not YAML: {problem}", hint=hint)


def _plain(node: Any) -> Any:
    """Strip ruamel's own types: what is left is dict, list, str, int, float, bool, None."""
    if isinstance(node, dict):
        return {_plain(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(entry) for entry in node]
    if isinstance(node, bool) or node is None:
        return node
    if isinstance(node, ScalarFloat | float):
        return float(node)
    if isinstance(node, ScalarInt | int):
        return int(node)
    if isinstance(node, ScalarString | str):
        return _number(str(node)) if type(node) is str else str(node)
    return str(node)


def _number(text: str) -> Any:
    """Read 1e5, which YAML 1.1 takes for a string, as the number that people mean."""
    if text[:1] in "+-.0123456789" and ("e" in text or "E" in text):
        try:
            return float(text)
        except ValueError:
            return text
    return text
