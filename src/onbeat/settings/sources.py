"""The sources of settings, each as keys with value and origin."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from onbeat.model.errors import Misconfigured
from onbeat.settings.parsers import did_you_mean
from onbeat.settings.setting import ENVIRONMENT_PREFIX, LEVEL_SEPARATOR
from onbeat.settings.table import GROUPS, RESERVED, TABLE
from onbeat.settings.texts import read_text
from onbeat.telemetry.redaction import escape_controls


class Written(msgspec.Struct, frozen=True):
    """One configured value. `origin` ends a message: "from ONBEAT_STORE"."""

    path: str
    value: object
    origin: str


def from_flags(flags: Mapping[str, object]) -> Iterator[Written]:
    """Flags by the key of their setting; None is a flag that was not given."""
    for path, value in flags.items():
        if path not in TABLE:
            raise unknown(path, "the flags")
        if value is not None:
            yield Written(path, value, f"from {TABLE[path].flag or path}")


def from_environment(environment: Mapping[str, str], place: str = "") -> Iterator[Written]:
    """Every variable with the prefix `ONBEAT_`; others are ignored."""
    for name, value in environment.items():
        if not name.startswith(ENVIRONMENT_PREFIX) or name in RESERVED:
            continue
        path = name.removeprefix(ENVIRONMENT_PREFIX).replace(LEVEL_SEPARATOR, ".").lower()
        if path not in TABLE:
            raise unknown_variable(name, place)
        yield Written(path, value, f"from {name}{place}")


def unknown_variable(name: str, place: str) -> Misconfigured:
    known = [setting.environment for setting in TABLE.values()]
    hint = did_you_mean(name, [*known, *RESERVED])
    return Misconfigured(f"{name}{place} is not a setting of Onbeat{hint}", key=name)


def unknown(path: str, place: str) -> Misconfigured:
    hint = (
        did_you_mean(path, [*TABLE, *sorted(GROUPS)])
        or f"; the settings are {', '.join(neighbours_of(path))}"
    )
    return Misconfigured(f"{path}: unknown setting in {place}{hint}", key=path)


def neighbours_of(path: str) -> Sequence[str]:
    """The settings of the same group, or the groups and the ungrouped settings."""
    group = path.partition(".")[0]
    inside = [known for known in TABLE if known.startswith(f"{group}.")]
    return inside or [*(known for known in TABLE if "." not in known), *sorted(GROUPS)]


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables in a `.env` file, parsed by python-dotenv without interpolation."""
    if not path.is_file():
        return {}
    from dotenv.parser import parse_stream  # noqa: PLC0415  slow to load

    variables: dict[str, str] = {}
    for binding in parse_stream(io.StringIO(read_text(path))):
        if binding.error:
            line = binding.original.line
            raise Misconfigured(f"{path}, line {line} cannot be read; write NAME=value")
        if binding.key is not None:
            variables[binding.key] = binding.value or ""
    return variables


def from_yaml(path: Path) -> Iterator[Written]:
    """The settings in a YAML file, with their lines. Raises `Misconfigured` where it is invalid."""
    import yaml  # noqa: PLC0415  slow to load

    text = read_text(path)
    try:
        loader = yaml.SafeLoader(text)
        yield from flatten(loader, loader.get_single_node(), "", path)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # The mark has the line; its own text has several lines.
        mark: Any = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or error
        raise Misconfigured(f"{path}{place} is not YAML: {problem}") from error


def flatten(loader: Any, node: Any, prefix: str, path: Path) -> Iterator[Written]:
    """Leaves of a YAML mapping under dotted keys; empty values are ignored."""
    import yaml  # noqa: PLC0415  as above

    if node is None or node.tag == "tag:yaml.org,2002:null":
        return
    if not isinstance(node, yaml.MappingNode):
        where = f"{path}, line {node.start_mark.line + 1}"
        what = prefix.rstrip(".") or "the file"
        raise Misconfigured(f"{what} must be a group of settings, KEY: VALUE ({where})", key=what)
    seen: set[str] = set()
    for key_node, value_node in node.value:
        key = prefix + escape_controls(str(key_node.value))
        where = f"{path}, line {key_node.start_mark.line + 1}"
        if key in seen:
            raise Misconfigured(f"{key} is given twice in {where}", key=key)
        seen.add(key)
        yield from flatten_entry(loader, key, value_node, where, path)


def flatten_entry(loader: Any, key: str, node: Any, where: str, path: Path) -> Iterator[Written]:
    if key in GROUPS:
        yield from flatten(loader, node, f"{key}.", path)
    elif key not in TABLE:
        raise unknown(key, where)
    elif node.tag != "tag:yaml.org,2002:null":
        yield Written(key, loader.construct_object(node, deep=True), f"from {where}")
