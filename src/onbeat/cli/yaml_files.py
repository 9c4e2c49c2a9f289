"""Reads and writes YAML without surprises: texts stay texts, and nothing is dropped in silence."""

import sys
from pathlib import Path
from typing import Any, Final

import click
import yaml

from onbeat.model.limits import FILE_BYTES_MAX, FILE_DEPTH_MAX, FILE_VALUES_MAX

STANDARD_INPUT: Final = "-"
TOO_DEEP: Final = "it has too many values within one another"
PLAIN_TAG: Final = "tag:yaml.org,2002:"
BOOLEANS: Final = {"true": True, "false": False}


class BadFile(click.ClickException):
    exit_code = 2


def read_yaml(name: str) -> Any:
    """The JSON values in the file, or in standard input for `-`. Raises `BadFile`.

    Only `true` and `false`, decimal numbers and null are more than text, as in YAML 1.2: a time
    such as 22:30 and the key `on` stay what they look like.
    """
    text = read_text(name)
    try:
        node = composed(text)
        return None if node is None else Values(name).value_of(node, 0)
    except (yaml.YAMLError, RecursionError) as error:
        mark: Any = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or TOO_DEEP
        raise BadFile(f"{name}{place} is not YAML: {problem}") from None


def composed(text: str) -> Any:
    """The nodes of the text, with their lines."""
    loader: Any = yaml.SafeLoader(text)
    return loader.get_single_node()


def read_text(name: str, *, bytes_max: int | None = None) -> str:
    limit = FILE_BYTES_MAX if bytes_max is None else bytes_max
    try:
        if name == STANDARD_INPUT:
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(limit + 1)
        if len(data) > limit:
            raise BadFile(f"{name} has more than {limit} bytes; write several files")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise BadFile(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadFile(f"{name} is not text in UTF-8") from None


class Values:
    """The values of one file, which are counted: an alias repeats what it stands for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def value_of(self, node: yaml.Node, depth: int) -> Any:
        self.count += 1
        if self.count > FILE_VALUES_MAX:
            raise self.bad(node, f"with its aliases it has more than {FILE_VALUES_MAX} values")
        if depth > FILE_DEPTH_MAX:
            raise self.bad(node, f"it has more than {FILE_DEPTH_MAX} values within one another")
        if isinstance(node, yaml.MappingNode):
            return self.mapping_of(node, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value_of(one, depth + 1) for one in node.value]
        if isinstance(node, yaml.ScalarNode):
            return scalar(node)
        raise self.bad(node, "it cannot be read")

    def mapping_of(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        """Own entries go before those of `<<`, as YAML merges."""
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.bad(key, "a key must be a text")
            if key.tag == f"{PLAIN_TAG}merge":
                merged |= self.merged_of(value, depth)
            elif key.value in own:
                raise self.bad(key, f"{key.value} is given twice")
            else:
                own[key.value] = self.value_of(value, depth + 1)
        return merged | own

    def merged_of(self, node: yaml.Node, depth: int) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise self.bad(node, "<< needs a mapping")
        return self.mapping_of(node, depth + 1)

    def bad(self, node: yaml.Node, problem: str) -> BadFile:
        return BadFile(f"{self.name}, line {node.start_mark.line + 1}: {problem}")


def scalar(node: yaml.ScalarNode) -> Any:
    text: str = node.value
    if node.style is not None:
        return text
    if node.tag == f"{PLAIN_TAG}null":
        return None
    if node.tag == f"{PLAIN_TAG}bool":
        return BOOLEANS.get(text.lower(), text)
    return number(text) if node.tag in {f"{PLAIN_TAG}int", f"{PLAIN_TAG}float"} else text


def number(text: str) -> int | float | str:
    """The number, or the text where it is none in JSON: `22:30`, `0x1f`, `1_000`, `.inf`."""
    is_plain = text.lstrip("+-").replace(".", "", 1).isdigit() and not text.startswith("0" * 2)
    if not is_plain:
        return text
    return float(text) if "." in text else int(text)


class Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def written_text(_dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    made = yaml.ScalarNode(f"{PLAIN_TAG}str", text)
    made.style = "|" if "\n" in text else None
    return made


Dumper.add_representer(str, written_text)


def yaml_text(value: object) -> str:
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)
