"""Log lines within their bounds."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from onbeat.model.limits import (
    LOG_FIELD_DEPTH_MAX,
    LOG_FIELD_ITEMS_MAX,
    LOG_FIELDS_BYTES_MAX,
    LOG_LEVEL_CHARS_MAX,
    LOG_LINE_BYTES_MAX,
    LOG_LINES_MAX,
    LOG_LINES_SHOWN,
    LOG_NAME_CHARS_MAX,
    LOG_NUMBERS,
)
from onbeat.model.log_line import LogEntry, line_number
from onbeat.rules.log_lines import bounded_entry, fields_text, plain_value, shortened


@pytest.mark.parametrize("letter", ["a", "\u00e4", "\u2603", "\U0001f600"])
def test_a_text_is_whole_up_to_its_bound(letter: str) -> None:
    most = 60
    whole = letter * (most // len(letter.encode()))
    assert shortened(whole, most) == whole
    cut = shortened("<" + whole + letter * 1_000 + ">", most)
    assert len(cut.encode()) <= most
    assert cut.startswith("<" + letter)
    assert cut.endswith(letter + ">")
    assert " \u2026 " in cut


def test_what_stores_refuse_is_replaced() -> None:
    assert shortened("a\x00b\ud800c", 100) == "a\ufffdb?c"


def test_an_entry_is_cut_to_its_bounds() -> None:
    entry = LogEntry(
        at=datetime.now(UTC),
        level="l" * (LOG_LEVEL_CHARS_MAX + 1),
        logger="n" * (LOG_NAME_CHARS_MAX + 1),
        text="t" * (LOG_LINE_BYTES_MAX + 1),
    )
    result = bounded_entry(entry)
    assert len(result.level) == LOG_LEVEL_CHARS_MAX
    assert len(result.logger) == LOG_NAME_CHARS_MAX
    assert len(result.text.encode()) == LOG_LINE_BYTES_MAX


def test_fields_that_do_not_fit_are_left_out() -> None:
    assert fields_text({}) is None
    room = LOG_FIELDS_BYTES_MAX - len('{"a":"","b":1}')
    whole = fields_text({"a": "x" * room, "b": 1})
    assert whole is not None
    assert len(whole) == LOG_FIELDS_BYTES_MAX
    assert fields_text({"a": "x" * (room + 1), "b": 1}) == f'{{"a":"{"x" * (room + 1)}"}}'
    assert fields_text({"a": "x" * LOG_FIELDS_BYTES_MAX, "b": 1}) == '{"b":1}'


class Odd:
    def __str__(self) -> str:
        return "odd"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (2**63, str(2**63)),
        (0.5, 0.5),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        ("a\x00", "a\ufffd"),
        (Odd(), "odd"),
        ({1: Odd(), "b": (1, [2])}, {"1": "odd", "b": [1, [2]]}),
        ({"s": {7}}, {"s": [7]}),
        (b"ab", "b'ab'"),
    ],
)
def test_any_value_becomes_json(value: Any, plain: Any) -> None:
    assert plain_value(value) == plain
    msgspec.json.encode(plain_value(value))


def test_large_and_deep_values_are_cut() -> None:
    assert len(plain_value(range(9))) == len("range(0, 9)")
    assert len(plain_value(list(range(LOG_FIELD_ITEMS_MAX + 1)))) == LOG_FIELD_ITEMS_MAX
    assert len(plain_value({str(n): n for n in range(LOG_FIELD_ITEMS_MAX + 1)})) == (
        LOG_FIELD_ITEMS_MAX
    )
    ring: list[Any] = []
    ring.append(ring)
    depth, value = 0, plain_value(ring)
    while isinstance(value, list):
        depth, value = depth + 1, value[0]
    assert (depth, value) == (LOG_FIELD_DEPTH_MAX, "\u2026")


def test_numbers_of_two_attempts_never_meet() -> None:
    # The lines of an attempt, and the one that counts those that were dropped.
    assert LOG_LINES_MAX + 1 < LOG_NUMBERS
    assert LOG_LINES_MAX + 1 <= LOG_LINES_SHOWN
    assert line_number(1, LOG_LINES_MAX + 1) < line_number(2, 1)  # type: ignore[arg-type]
