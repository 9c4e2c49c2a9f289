"""Reads the settings once: defaults < `onbeat.yaml` < `.env` < environment < flags."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, cast

import msgspec

from onbeat.model.errors import Misconfigured
from onbeat.model.role import Role
from onbeat.settings.keys import Setting
from onbeat.settings.records import Settings
from onbeat.settings.sources import (
    Written,
    from_environment,
    from_flags,
    from_yaml,
    read_dotenv,
)
from onbeat.settings.table import TABLE
from onbeat.telemetry.redaction import HIDDEN, escape_controls, without_credentials

DEFAULT_FILE: Final = "onbeat.yaml"
VALUE_CHARS_SHOWN: Final = 80


def load(
    flags: Mapping[str, object] | None = None,
    *,
    config: Path | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings in force. Raises `Misconfigured`, naming key, value, place and what would do.

    `flags` are by key ("api.port"), None where not given. `config` names the file, which then must
    exist. `folder` is where `onbeat.yaml` and `.env` are looked for, else the working directory.
    """
    variables = os.environ if environment is None else environment
    written = {
        found.path: found for found in layers(flags or {}, config, variables, folder or Path())
    }
    settings = cast("Settings", fill(Settings(), "", written))
    check(settings, written)
    return settings


def layers(
    flags: Mapping[str, object], config: Path | None, variables: Mapping[str, str], folder: Path
) -> Iterator[Written]:
    """All that was written, weakest first."""
    dotenv = read_dotenv(folder / ".env")
    named = variables.get("ONBEAT_CONFIG") or dotenv.get("ONBEAT_CONFIG")
    yield from from_file(config or (Path(named) if named else None), folder)
    yield from from_environment(dotenv, " in .env")
    yield from from_environment(variables)
    yield from from_flags(flags)


def from_file(named: Path | None, folder: Path) -> Iterator[Written]:
    if named is None and not (folder / DEFAULT_FILE).exists():
        return
    path = named or folder / DEFAULT_FILE
    if not path.exists():
        raise Misconfigured(f"the configuration file {path} does not exist")
    yield from from_yaml(path)


def fill(record: msgspec.Struct, prefix: str, written: Mapping[str, Written]) -> msgspec.Struct:
    """The record with what was written in place of its defaults."""
    changes: dict[str, object] = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, msgspec.Struct):
            changes[name] = fill(value, f"{prefix}{name}.", written)
        elif found := written.get(prefix + name):
            changes[name] = read(TABLE[found.path], found)
    return msgspec.structs.replace(record, **changes)


def read(setting: Setting, found: Written) -> object:
    try:
        return setting.key.read(found.value)
    except ValueError as error:
        raise wrong(found, f"must be {error}") from None


def wrong(found: Written, reason: str) -> Misconfigured:
    shown = shown_value(found)
    return Misconfigured(f"{found.path}: {shown} {reason} ({found.origin})", key=found.path)


def shown_value(found: Written) -> str:
    """The value for a message: never a secret, never long, always on one line."""
    if TABLE[found.path].key.secret:
        return HIDDEN
    text = found.value if isinstance(found.value, str) else str(found.value)
    shown = escape_controls(without_credentials(text))
    return repr(shown[:VALUE_CHARS_SHOWN])


def check(settings: Settings, written: Mapping[str, Written]) -> None:
    """What no single setting can tell."""
    check_exposure(settings)
    if settings.retry.delay > settings.retry.delay_max:
        name = "retry.delay" if "retry.delay" in written else "retry.delay_max"
        raise wrong(written[name], "makes retry.delay longer than retry.delay_max")


def check_exposure(settings: Settings) -> None:
    api = settings.api
    if Role.API not in settings.roles or api.is_loopback or api.keys or api.insecure:
        return
    raise Misconfigured(
        f"api.host: {api.host} can be reached from other machines and api.keys is empty: set "
        "ONBEAT_API__KEYS, or api.insecure (--insecure) to let everyone in",
        key="api.host",
    )
