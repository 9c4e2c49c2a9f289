"""Parsers of settings, from a file, a variable or a flag.

Each parser returns the value or raises `ValueError` with a text that continues "must be".
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar, cast
from urllib.parse import urlsplit

from onbeat.model.errors import Invalid
from onbeat.model.job import JobState
from onbeat.model.keep_rule import KeepRule
from onbeat.model.limits import NAME_CHARS_MAX, SPAN_MAX, URL_CHARS_MAX
from onbeat.model.remote_task import RemoteTask
from onbeat.operations.remote_tasks import read_remote_task
from onbeat.rules.access import clear_key, read_configured_keys, split_keys
from onbeat.rules.encryption import read_keys
from onbeat.rules.keep_rules import check_rules
from onbeat.wire.commands import read_programs
from onbeat.wire.values import read_queue_name, read_task, span_seconds, span_text

Choice = TypeVar("Choice", bound=StrEnum)

NOTHING_RENAMED: Final[Mapping[str, str]] = {}
TRUE: Final = frozenset({"true", "yes", "on", "1"})
FALSE: Final = frozenset({"false", "no", "off", "0"})
KEYS: Final = "a list of texts (in YAML in quotes): KEY or NAME:SCOPE[+SCOPE][:QUEUE,QUEUE]=KEY"
KEY_DEFAULTS: Final = (("scopes", "admin"), ("queues", ""))
DESTINATIONS: Final = "a list of stdout, file:PATH, tcp://HOST:PORT and cloudwatch:GROUP"
LOG_GROUP: Final = re.compile(r"[\w./#-]{1,512}", re.ASCII)  # as the API of CloudWatch has it
KEEP_RULES: Final = 'a list of rules like "queue=bulk state=succeeded after=1h"'
KEEP_RULE_KEYS: Final = frozenset({"after", "queue", "state"})
REMOTE_OPTIONS: Final = frozenset({"requires", "key", "unique_for"})
HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?", re.IGNORECASE)


def whole(least: int, most: int) -> Callable[[object], int]:
    """A whole number between the two, both included."""

    def read(value: object) -> int:
        text = str(value).strip()
        fits = not isinstance(value, bool | float) and re.fullmatch(r"[+-]?\d{1,18}", text)
        if not fits or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)

    return read


def whole_or(word: str, least: int, most: int) -> Callable[[object], int | None]:
    """A whole number, or the word for no value."""
    read_whole = whole(least, most)

    def read(value: object) -> int | None:
        if value == word:
            return None
        try:
            return read_whole(value)
        except ValueError as error:
            raise ValueError(f"{error}, or {word}") from None

    return read


def truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in TRUE | FALSE:
        raise ValueError("true or false")
    return text in TRUE


def truth_or_auto(value: object) -> bool | None:
    """True, False, or None for `auto`."""
    if str(value).strip().lower() == "auto":
        return None
    try:
        return truth(value)
    except ValueError:
        raise ValueError("auto, true or false") from None


def http_url(value: object) -> str:
    """A URL of HTTP, with a host."""
    text = value.strip() if isinstance(value, str) else ""
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or any(character.isspace() for character in text):
        raise ValueError("a URL like https://HOST/PATH")
    return text


def base_url(value: object) -> str:
    """A URL of HTTP to which a path can be added; without the slash at its end."""
    text = http_url(value)
    parts = urlsplit(text)
    is_base = not parts.query and not parts.fragment and "@" not in parts.netloc
    if not is_base or not text.isascii() or len(text) > URL_CHARS_MAX // 2:
        raise ValueError("a URL like https://HOST or https://HOST/PATH, without a query")
    return text.rstrip("/")


def span(least: timedelta, most: timedelta) -> Callable[[object], timedelta]:
    """A span between the two, both included."""

    def read(value: object) -> timedelta:
        seconds = seconds_of(value)
        if seconds is None:
            raise ValueError('a span of time like "90s", "5m", "1h30m", "PT5M" or 90 (seconds)')
        # Compare first: a timedelta cannot hold every number.
        if not least.total_seconds() <= seconds <= most.total_seconds():
            raise ValueError(f"from {span_text(least)} to {span_text(most)}")
        return timedelta(seconds=seconds)

    return read


def seconds_of(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return span_seconds(value)


def one_of(choices: type[Choice]) -> Callable[[object], Choice]:
    """A member of the enumeration, by its value in any case."""

    def read(value: object) -> Choice:
        text = str(value).strip().lower()
        names = [choice.value for choice in choices]
        if text not in names:
            raise ValueError(f"one of {', '.join(names)}{did_you_mean(text, names)}")
        return choices(text)

    return read


def some_of(
    choices: type[Choice], renamed: Mapping[str, str] = NOTHING_RENAMED
) -> Callable[[object], tuple[Choice, ...]]:
    """One or more members of the enumeration, in its order; `all` is every one.

    `renamed` maps older names to those of the members.
    """
    read_one = one_of(choices)

    def read(value: object) -> tuple[Choice, ...]:
        texts = words(value)
        if texts == ("all",):
            return tuple(choices)
        if not texts:
            raise ValueError(f"all, or some of {', '.join(choices)}")
        chosen = {read_one(renamed.get(text, text)) for text in texts}
        return tuple(choice for choice in choices if choice in chosen)

    return read


def items_of(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)


def words(value: object) -> tuple[str, ...]:
    """A list, or comma-separated text."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    items = items_of(value)
    if any(isinstance(item, dict | list | None) for item in items):
        raise ValueError("a list of texts")
    return tuple(str(item).strip() for item in items)


def remote_tasks(value: object) -> tuple[RemoteTask, ...]:
    """A list of task names, possibly empty, or a mapping of names to declarations."""
    if not isinstance(value, dict):
        names = check_names("a list of names of tasks", words(value), read_task)
        return tuple(RemoteTask(name=name) for name in dict.fromkeys(names))
    declared = cast("dict[object, object]", value)
    return tuple(remote_task(str(name), options) for name, options in declared.items())


def remote_task(name: str, options: object) -> RemoteTask:
    given = cast("dict[object, object]", options if isinstance(options, dict) else {})
    if (options is not None and options is not given) or given.keys() - REMOTE_OPTIONS:
        raise ValueError(f"names of tasks, each with some of requires, key, unique_for ({name})")
    key, unique_for = given.get("key"), given.get("unique_for")
    if not isinstance(key, str | None) or not isinstance(unique_for, str | int | float | None):
        raise ValueError(f"with texts as key and unique_for ({name})")  # noqa: TRY004  as above
    try:
        return read_remote_task(
            name, requires=words(given.get("requires", ())), key=key, unique_for=unique_for
        )
    except Invalid as error:
        raise ValueError(f"declarations of tasks: {name}: {error}") from None


def queue_names_or_all(value: object) -> tuple[str, ...] | None:
    """A list of queue names, or None for `all`."""
    result = words_or_all(value)
    return (
        None
        if result is None
        else check_names("a list of names of queues", result, read_queue_name)
    )


def check_names(
    what: str, names: tuple[str, ...], read: Callable[[str, str], str]
) -> tuple[str, ...]:
    try:
        return tuple(read(name, "a name") for name in names)
    except Invalid as error:
        raise ValueError(f"{what}: {error}") from None


def words_or_all(value: object) -> tuple[str, ...] | None:
    """A list of names, or None for `all`."""
    result = words(value)
    if not result:
        raise ValueError("all, or at least one name")
    return None if result == ("all",) else result


def text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value.strip()


def name(value: object) -> str:
    """A name of one line."""
    result = text(value)
    if len(result) > NAME_CHARS_MAX or not result.isprintable():
        raise ValueError(f"a name of at most {NAME_CHARS_MAX} characters in one line")
    return result


def host_name(value: object) -> str:
    """A name or address to listen on."""
    if not isinstance(value, str) or not is_host(value.strip().strip("[]")):
        raise ValueError('a host name or address like "127.0.0.1", without scheme and port')
    return value.strip().strip("[]")


def host_names(value: object) -> tuple[str, ...]:
    """Names as in a Host header, without a port."""
    result = words(value)
    for item in result:
        if not is_host(item):
            raise ValueError(
                'a list of host names like "onbeat.internal", without scheme and port;'
                f" {item!r} is none"
            )
    return result


def is_host(name: str) -> bool:
    return is_address(name) or HOST.fullmatch(name) is not None


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def api_keys(value: object) -> tuple[str, ...]:
    """API keys with their options, each in the form of `read_configured_key`."""
    # YAML reads 0123 as a number, 83, which would then be the accepted key.
    items = [key_text(item) for item in items_of(value)]
    parts = [part for item in items for part in (words(item) if isinstance(value, str) else [item])]
    result = split_keys(parts)
    if not all(is_header_text(clear_key(key) or "sha256") for key in result):
        raise ValueError(f"{KEYS}, of ASCII characters without spaces")
    try:
        read_configured_keys(result)
    except Invalid as error:
        raise ValueError(f"{KEYS}: {error}") from None
    return result


def keep_rules(value: object) -> tuple[KeepRule, ...]:
    """Rules of keeping: mappings, or texts like `queue=bulk state=succeeded after=1h`."""
    items = words(value) if isinstance(value, str) else items_of(value)
    result = tuple(map(keep_rule, items))
    try:
        check_rules(result)
    except Invalid as error:
        raise ValueError(f"{KEEP_RULES}: {error}") from None
    return result


def keep_rule(item: object) -> KeepRule:
    pairs = [part.partition("=") for part in item.split()] if isinstance(item, str) else []
    given = {name: text for name, _, text in pairs} if pairs else item
    if not isinstance(given, dict) or "after" not in given or given.keys() - KEEP_RULE_KEYS:
        raise ValueError(f"{KEEP_RULES}, each with after and some of queue and state")
    found = cast("dict[str, object]", given)
    try:
        queue, state = found.get("queue"), found.get("state")
        return KeepRule(
            after=span(timedelta(), SPAN_MAX)(found["after"]),
            queue=None if queue is None else read_queue_name(text(queue), "queue"),
            state=None if state is None else one_of(JobState)(state),
        )
    except (Invalid, ValueError) as error:
        raise ValueError(f"{KEEP_RULES}: must be {error}") from None


def encryption_keys(value: object) -> tuple[str, ...]:
    """Keys of encryption at rest, each as `ID:BASE64`; the error message shows none of them."""
    texts = words(value)
    try:
        read_keys(texts)
    except Invalid as error:
        raise ValueError(f"a list of ID:KEY ({error})") from None
    return texts


def key_text(item: object) -> str:
    """A key as text; a mapping names its parts."""
    if isinstance(item, str):
        return item.strip()
    if not isinstance(item, dict):
        raise ValueError(KEYS)  # noqa: TRY004  the error of every parser
    given = cast("dict[object, object]", item)
    unknown = sorted(
        map(str, given.keys() - {"name", "scopes", "queues", "key", "sha256", "expires"})
    )
    if unknown or ("key" in given) is ("sha256" in given) or "name" not in given:
        raise ValueError(f"{KEYS}; a mapping has name, scopes, queues, expires, and key or sha256")
    scopes, queues = (words(given.get(name, default)) for name, default in KEY_DEFAULTS)
    key = given["key"] if "key" in given else f"sha256:{given['sha256']}"
    if not isinstance(key, str):
        raise ValueError(KEYS)  # noqa: TRY004  the error of every parser
    of_queues = "" if given.get("queues") is None else f":{','.join(queues)}"
    until = f"@{given['expires']}" if "expires" in given else ""
    return f"{given['name']}:{'+'.join(scopes)}{of_queues}={key}{until}"


def is_header_text(key: str) -> bool:
    return key != "" and key.isascii() and key.isprintable() and " " not in key


def log_destinations(value: object) -> tuple[str, ...]:
    """Destinations of log lines."""
    result = words(value)
    if not result or not all(is_destination(item) for item in result):
        raise ValueError(DESTINATIONS)
    return result


def is_destination(item: str) -> bool:
    kind, _, rest = item.partition(":")
    match kind:
        case "stdout":
            return item == "stdout"
        case "file":
            return rest != ""
        case "tcp":
            return is_tcp_address(item)
        case "cloudwatch":
            return LOG_GROUP.fullmatch(rest) is not None
        case _:
            return False


def is_tcp_address(item: str) -> bool:
    """`tcp://HOST:PORT`, without anything else."""
    try:
        parts = urlsplit(item)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    rest = (parts.username, parts.path, parts.query, parts.fragment)
    return bool(host) and bool(port) and not any(rest)


def networks(value: object) -> tuple[str, ...]:
    """Addresses, networks in CIDR form, and host names."""
    result = words(value)
    for item in result:
        if not is_network(item) and not is_host(item):
            raise ValueError(
                f'a list of host names, addresses and networks like "10.1.0.0/16"; {item!r} is none'
            )
    return result


def is_network(item: str) -> bool:
    try:
        ipaddress.ip_network(item, strict=False)
    except ValueError:
        return False
    return True


def programs(value: object) -> tuple[str, ...]:
    """Absolute paths of programs."""
    try:
        return read_programs(words(value), "each")
    except Invalid as error:
        raise ValueError(f"a list of absolute paths of programs; {error}") from None


def did_you_mean(given: str, known: Sequence[str]) -> str:
    """The end of a message with the closest known name, if any is similar."""
    near = difflib.get_close_matches(given, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
