"""Log lines within their bounds."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, cast

import msgspec

from onbeat.model.limits import (
    LOG_FIELD_DEPTH_MAX,
    LOG_FIELD_ITEMS_MAX,
    LOG_FIELDS_BYTES_MAX,
    LOG_LEVEL_CHARS_MAX,
    LOG_LINE_BYTES_MAX,
    LOG_NAME_CHARS_MAX,
)
from onbeat.model.log_line import LogEntry
from onbeat.rules.storable import storable_text

CUT: Final = " … "
UNCLEAN_CHARS_MAX: Final = 4 * LOG_LINE_BYTES_MAX
"""Of a text before secrets in it are hidden, so that hiding does not cost more for a longer one."""


def shortened(text: str, bytes_max: int) -> str:
    """The storable text in at most so many bytes; of a longer one its begin and its end."""
    # A character has at most four bytes, so no more of them are needed.
    if len(text) > 2 * bytes_max:
        text = text[:bytes_max] + text[-bytes_max:]
    raw = storable_text(text).encode()
    if len(raw) <= bytes_max:
        return raw.decode()
    left = bytes_max - len(CUT.encode())
    first, last = raw[: left // 2], raw[left // 2 - left :]
    return first.decode("utf-8", "ignore") + CUT + last.decode("utf-8", "ignore")


def bounded_entry(entry: LogEntry) -> LogEntry:
    return LogEntry(
        at=entry.at,
        level=entry.level[:LOG_LEVEL_CHARS_MAX],
        logger=shortened(entry.logger[:LOG_NAME_CHARS_MAX], LOG_NAME_CHARS_MAX),
        text=shortened(entry.text, LOG_LINE_BYTES_MAX),
        fields=entry.fields,
    )


def fields_text(fields: Mapping[str, Any]) -> str | None:
    """The fields as a JSON object; what does not fit is left out. None without any."""
    kept: dict[str, Any] = {}
    size = len("{")
    for name, value in fields.items():
        pair = len(msgspec.json.encode({name: value})) - 1  # with a comma or the last brace
        if size + pair <= LOG_FIELDS_BYTES_MAX:
            kept[name] = value
            size += pair
    return msgspec.json.encode(kept).decode() if kept else None


def plain_value(value: object, depth: int = LOG_FIELD_DEPTH_MAX) -> Any:
    """The value in plain JSON values, within the bounds of a field. May raise as its `str` does."""
    match value:
        case None | bool():
            return value
        case int() | float() if type(value) in {int, float} and is_short(value):
            return value
        case str():
            return shortened(value, LOG_FIELDS_BYTES_MAX)
        case _ if depth == 0:
            return CUT.strip()
        case Mapping():
            items = islice(cast("Mapping[object, object]", value).items(), LOG_FIELD_ITEMS_MAX)
            return {
                shortened(str(key), LOG_NAME_CHARS_MAX): plain_value(item, depth - 1)
                for key, item in items
            }
        case list() | tuple() | set() | frozenset():
            each = islice(cast("list[object]", value), LOG_FIELD_ITEMS_MAX)
            return [plain_value(item, depth - 1) for item in each]
        case _:
            return shortened(str(value), LOG_FIELDS_BYTES_MAX)


def is_short(value: float) -> bool:
    """Whether it has a form in JSON that others read; infinity and huge numbers become texts."""
    return abs(value) < 2**63
