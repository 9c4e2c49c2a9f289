"""Reads the settings once: defaults < `onbeat.yaml` < `.env` < environment < flags."""

import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Final, cast

import msgspec

from onbeat.model.credentials import HIDDEN
from onbeat.model.errors import Misconfigured
from onbeat.model.role import Role
from onbeat.rules.access import KEY_CHARS_MIN, clear_key, read_configured_keys
from onbeat.settings.records import Settings
from onbeat.settings.setting import ENVIRONMENT_PREFIX, Setting
from onbeat.settings.sources import (
    Written,
    from_environment,
    from_flags,
    from_yaml,
    read_dotenv,
)
from onbeat.settings.table import TABLE
from onbeat.telemetry.redaction import escape_controls, without_credentials

DEFAULT_FILE: Final = "onbeat.yaml"
VALUE_CHARS_SHOWN: Final = 80


def load(
    flags: Mapping[str, object] | None = None,
    *,
    config: Path | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The effective settings. Raises `Misconfigured` with key, value, origin and valid values.

    `flags` are by key ("api.port"), None where not given. `config` names the file, which must then
    exist. `folder` is where `onbeat.yaml` and `.env` are searched, by default the working
    directory; ONBEAT_DOTENV names another file than `.env`, or is `off`.
    """
    variables = os.environ if environment is None else environment
    written = {
        result.path: result for result in layers(flags or {}, config, variables, folder or Path())
    }
    origins = {path: one.origin.removeprefix("from ") for path, one in written.items()}
    bare = Settings(store_is_named="store" in written, origins=origins)
    settings = cast("Settings", fill(bare, "", written))
    check(settings, written)
    return settings


def layers(
    flags: Mapping[str, object], config: Path | None, variables: Mapping[str, str], folder: Path
) -> Iterator[Written]:
    """All configured values, lowest precedence first."""
    dotenv = dotenv_of(variables, folder)
    named = variables.get("ONBEAT_CONFIG") or dotenv.get("ONBEAT_CONFIG")
    yield from from_file(config or (Path(named) if named else None), folder)
    yield from from_environment(dotenv, " in .env")
    yield from from_environment(variables)
    yield from from_flags(flags)


def dotenv_of(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    named = variables.get("ONBEAT_DOTENV", "")
    if named.lower() == "off":
        return {}
    if named and not (folder / named).is_file():
        raise Misconfigured(f"ONBEAT_DOTENV: the file {named} does not exist", key="ONBEAT_DOTENV")
    return read_dotenv(folder / (named or ".env"))


def export_dotenv(environment: MutableMapping[str, str], folder: Path | None = None) -> None:
    """Set the variables of `.env` that are not Onbeat's own, for handlers and client libraries.

    A variable that is set already keeps its value. Raises `Misconfigured` as `load` does.
    """
    for name, value in dotenv_of(environment, folder or Path()).items():
        if not name.startswith(ENVIRONMENT_PREFIX):
            environment.setdefault(name, value)


def from_file(named: Path | None, folder: Path) -> Iterator[Written]:
    if named is None and not (folder / DEFAULT_FILE).exists():
        return
    path = named or folder / DEFAULT_FILE
    if not path.exists():
        raise Misconfigured(f"the configuration file {path} does not exist")
    yield from from_yaml(path)


def fill(record: msgspec.Struct, prefix: str, written: Mapping[str, Written]) -> msgspec.Struct:
    """The record with configured values in place of its defaults."""
    changes: dict[str, object] = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, msgspec.Struct):
            changes[name] = fill(value, f"{prefix}{name}.", written)
        elif result := written.get(prefix + name):
            changes[name] = read(TABLE[result.path], result)
    return msgspec.structs.replace(record, **changes)


def read(setting: Setting, written: Written) -> object:
    try:
        return setting.key.read(written.value)
    except ValueError as error:
        raise misconfigured(written, f"must be {error}") from None


def misconfigured(written: Written, reason: str) -> Misconfigured:
    shown = shown_value(written)
    return Misconfigured(f"{written.path}: {shown} {reason} ({written.origin})", key=written.path)


def shown_value(written: Written) -> str:
    """The value for a message: without secrets, shortened, on one line."""
    if TABLE[written.path].key.secret:
        return HIDDEN
    text = written.value if isinstance(written.value, str) else str(written.value)
    shown = escape_controls(without_credentials(text))
    return repr(shown[:VALUE_CHARS_SHOWN])


def check(settings: Settings, written: Mapping[str, Written]) -> None:
    """Checks that involve several settings."""
    check_exposure(settings)
    if settings.retry.delay > settings.retry.delay_max:
        name = "retry.delay" if "retry.delay" in written else "retry.delay_max"
        raise misconfigured(written[name], "makes retry.delay longer than retry.delay_max")


def check_exposure(settings: Settings) -> None:
    api = settings.api
    if Role.API not in settings.roles or api.is_loopback:
        return
    check_key_lengths(api.keys)
    if api.keys or api.insecure:
        return
    raise Misconfigured(
        f"api.host: {api.host} can be reached from other machines and api.keys is empty: set "
        "ONBEAT_API__KEYS, or api.insecure (--insecure) to let everyone in",
        key="api.host",
    )


def check_key_lengths(keys: Sequence[str]) -> None:
    """Refuse guessable keys where the API is reachable from a network."""
    for configured, text in zip(read_configured_keys(keys), keys, strict=True):
        clear = clear_key(text)
        if clear is not None and len(clear) < KEY_CHARS_MIN:
            raise Misconfigured(
                f"api.keys: the key {configured.name!r} has {len(clear)} characters; where other "
                f"machines can reach the API it needs {KEY_CHARS_MIN}: make one with "
                "`onbeat key new`, or by `openssl rand -hex 24`",
                key="api.keys",
            )
