"""YAML files, with the line of every key."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.representer import SafeRepresenter

from dtrainer.config.errors import ConfigError
from dtrainer.config.mistakes import Mistake, nearest
from dtrainer.config.wording import found

KeyPath = tuple[str | int, ...]

_MOST_NODES = 100_000
"""Values of a document, aliases counted each time: a small file can name itself very often."""


class YamlFile:
    """A YAML document as plain data, and where its keys stand.

    Parameters
    ----------
    path
        The file.

    Attributes
    ----------
    data
        Its keys: dict, list, str, int, float, bool and None, nothing else.
    mistakes
        What is YAML but means nothing here: a key that stands twice, a tag.

    Raises
    ------
    ConfigError
        If it cannot be read, is not YAML, is empty, or is not a mapping.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        text = _read(path)
        try:
            root = _compose(text)
        except MarkedYAMLError as error:
            raise _not_yaml(path, error, text) from error
        except YAMLError as error:
            raise ConfigError(f"{path}: not YAML: {error}") from error
        reader = _Reader()
        data = None if root is None else reader.read(root, ())
        if data is None or data == {}:
            raise ConfigError(
                f"{path} is empty: expected an experiment with at least run: and env:",
                hint="`dtrainer config defaults` prints one to start from.",
            )
        if not isinstance(data, dict):
            raise ConfigError(
                f"{path}: expected a mapping of keys such as run:, env: and config:, "
                f"found {found(data)}",
                hint="`dtrainer config defaults` prints an experiment to start from.",
            )
        self.data: dict[str, Any] = data
        self.mistakes = reader.mistakes
        self._lines = reader.lines

    def line(self, path: KeyPath) -> int | None:
        """Line of a key, from 1; of the nearest key around it where it is not written."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return None


def parse_value(text: str) -> Any:
    """Read one value as YAML would; what is not YAML is text."""
    try:
        root = _compose(text)
    except YAMLError:
        return text
    reader = _Reader()
    value = None if root is None else reader.read(root, ())
    return text if reader.mistakes else value


def dump(data: Any) -> str:
    """Write plain data as YAML."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.allow_unicode = True
    yaml.width = 100
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


def _compose(text: str) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = True  # they are found below, each with its line
    node: Node | None = yaml.compose(text)
    return node


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        meant = None
        if path.parent.is_dir():
            files = {
                each.stem: each
                for each in path.parent.iterdir()
                if each.suffix in (".yaml", ".yml")
            }
            meant = files.get(nearest(path.stem, files) or "")
        hint = f"Did you mean {meant}?" if meant else None
        raise ConfigError(f"there is no file {path}", hint=hint) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(f"cannot read {path}: {reason}") from error


def _not_yaml(path: Path, error: MarkedYAMLError, text: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    where = f", line {mark.line + 1}" if mark is not None else ""
    problem = " ".join(filter(None, (error.context, error.problem)))
    line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
    hint = None
    if "\t" in line[: len(line) - len(line.lstrip())]:
        hint = "The line is indented with a tab. YAML takes spaces only."
    elif "mapping values are not allowed" in problem:
        hint = "There is one colon too many, or the line is indented too far."
    elif "single document" in problem:
        hint = "Write one document, without a second --- line."
    return ConfigError(f"{path}{where}: not YAML: {problem.strip()}", hint=hint)


class _Representer(SafeRepresenter):
    """Writes lists on one line where they are short, mappings always in a block."""

    def sequence(self, entries: list[Any]) -> Node:
        on_one_line = not any(isinstance(entry, dict) for entry in entries)
        node: Node = self.represent_sequence(
            "tag:yaml.org,2002:seq", entries, flow_style=on_one_line
        )
        return node

    def text(self, text: str) -> Node:
        # Plain text with a line separator of another script, say, is read back as something else.
        style = None if text.isprintable() else '"'
        node: Node = self.represent_scalar("tag:yaml.org,2002:str", text, style=style)
        return node


_Representer.add_representer(list, _Representer.sequence)
_Representer.add_representer(str, _Representer.text)


class _Reader:
    """Turns YAML's nodes into plain data, without making anything that a tag asks for."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.mistakes: list[Mistake] = []
        self._open: list[Node] = []
        self._count = 0

    def read(self, node: Node, path: KeyPath) -> Any:
        self._count += 1
        if self._count > _MOST_NODES or any(node is other for other in self._open):
            raise ConfigError(
                f"line {node.start_mark.line + 1}: this alias makes the document endless",
                hint="Write out what the alias stands for.",
            )
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        self._open.append(node)
        try:
            if isinstance(node, SequenceNode):
                self._check_tag(node, path, "seq")
                return [self.read(entry, (*path, i)) for i, entry in enumerate(node.value)]
            assert isinstance(node, MappingNode)
            self._check_tag(node, path, "map")
            return self._mapping(node, path)
        finally:
            self._open.pop()

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[Any, Any]:
        data: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        first: dict[Any, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if str(key_node.tag).endswith(":merge"):
                for each in _merge_sources(value_node):
                    for key, value in self.read(each, path).items():
                        merged.setdefault(key, value)
                continue
            key = self._key(key_node, path)
            where = (*path, key)
            if key in first:
                text = f"stands twice: on line {first[key]} too"
                self.mistakes.append(Mistake(where, text))
            first.setdefault(key, line)
            self.lines[where] = line
            data[key] = self.read(value_node, where)
        return {**merged, **data}

    def _key(self, node: Node, path: KeyPath) -> Any:
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        text = "a list or a mapping is no key"
        self.lines[(*path, "?")] = node.start_mark.line + 1
        self.mistakes.append(Mistake((*path, "?"), text))
        return "?"

    def _scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        kind = str(node.tag).rpartition(":")[2]
        text = node.value
        if kind == "null":
            return None
        if kind == "bool":
            return text.casefold() in ("true", "yes", "on")
        try:
            if kind == "int":
                return _whole(text.replace("_", ""))
            if kind == "float":
                return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            return text
        if kind not in ("str", "timestamp"):
            self._check_tag(node, path, "str")
        return text

    def _check_tag(self, node: Node, path: KeyPath, kind: str) -> None:
        if not str(node.tag).endswith(f":{kind}"):
            self.mistakes.append(Mistake(path, f"the tag {node.tag} means nothing here"))


def _merge_sources(node: Node) -> Iterator[Node]:
    """Mappings that `<<` names, the strongest first."""
    if isinstance(node, MappingNode):
        yield node
    elif isinstance(node, SequenceNode):
        yield from (entry for entry in node.value if isinstance(entry, MappingNode))


def _whole(text: str) -> int:
    """Read an integer of YAML 1.2: 010 is ten, 0o10 and 0x8 are eight."""
    digits = text.lstrip("+-")
    return int(text, 0) if digits[:2].casefold() in ("0o", "0x", "0b") else int(text)
