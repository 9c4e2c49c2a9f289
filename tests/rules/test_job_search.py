"""The line of search, and the instants in it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from onbeat.model.errors import Invalid
from onbeat.model.limits import SEARCH_CHARS_MAX, SEARCH_LABELS_MAX
from onbeat.rules.job_search import read_moment, read_search, search_line

NOW = datetime(2026, 3, 29, 10, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", {}),
        ("   ", {}),
        (
            'state:failed task:billing.* label:run:2026-11 "timeout" since:2h',
            {
                "state": "failed",
                "task": "billing.*",
                "label": ("run:2026-11",),
                "error": "timeout",
                "since": "2h",
            },
        ),
        ("mail", {"task": "mail"}),
        ('"timeout"', {"error": "timeout"}),
        ('"no answer"', {"error": "no answer"}),
        ('error:"no answer"', {"error": "no answer"}),
        ('queue:"a b"', {"queue": "a b"}),
        (
            "schedule:0199 flow:0198 until:today",
            {"schedule_id": "0199", "flow": "0198", "until": "today"},
        ),
        ("label:a:b label:c:d", {"label": ("a:b", "c:d")}),
        ('"HTTP:500"', {"error": "HTTP:500"}),
        ("since:2026-03-29T09:00:00Z", {"since": "2026-03-29T09:00:00Z"}),
    ],
)
def test_a_line_stands_for_parameters(line: str, expected: dict[str, Any]) -> None:
    assert read_search(line) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("state:odd", "Character 1: state must be one of"),
        ("queue:a foo:bar", "Character 9: foo: is no filter"),
        ('task:a "open', "Character 8: a quoted text needs an end"),
        ("label:run", "Character 1: a label is looked for as"),
        ("queue:a queue:b", "Character 9: queue is given twice"),
        ("a b", "Character 3: task is given twice"),
        ('queue:""', "Character 1: queue is empty"),
        ("x" * (SEARCH_CHARS_MAX + 1), "at most 500 characters"),
        ("label:a:b " * (SEARCH_LABELS_MAX + 1), "at most 10 of label:"),
    ],
)
def test_an_error_says_where(line: str, message: str) -> None:
    with pytest.raises(Invalid, match=message) as raised:
        read_search(line)
    assert raised.value.field == "q"


def test_bounds_are_included() -> None:
    assert read_search("x" * SEARCH_CHARS_MAX)
    assert len(read_search("label:a:b " * SEARCH_LABELS_MAX)["label"]) == SEARCH_LABELS_MAX


@pytest.mark.parametrize(
    "line",
    ['state:failed task:a label:b:c label:d:e "no answer" since:2h', 'queue:"a b" schedule:01'],
)
def test_a_line_and_its_parameters_are_the_same(line: str) -> None:
    parameters = read_search(line)
    assert read_search(search_line(parameters)) == parameters


def test_a_quote_in_a_text_is_left_out_of_a_line() -> None:
    assert search_line({"error": 'say "hi'}) == '"say  hi"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", NOW - timedelta(hours=2)),
        ("1.5d", NOW - timedelta(hours=36)),
        ("90s", NOW - timedelta(seconds=90)),
        ("2w", NOW - timedelta(weeks=2)),
        ("10m", NOW - timedelta(minutes=10)),
        ("today", datetime(2026, 3, 28, 23, tzinfo=UTC)),
        ("yesterday", datetime(2026, 3, 27, 23, tzinfo=UTC)),
        ("2026-03-29T09:00:00Z", datetime(2026, 3, 29, 9, tzinfo=UTC)),
        ("2026-03-29T09:00:00 02:00", datetime(2026, 3, 29, 7, tzinfo=UTC)),
        ("2026-03-29T09:00", datetime(2026, 3, 29, 7, tzinfo=UTC)),
        ("2026-03-28", datetime(2026, 3, 27, 23, tzinfo=UTC)),
    ],
)
def test_an_instant_has_many_forms(text: str, expected: datetime) -> None:
    assert read_moment(text, "since", NOW, BERLIN) == expected


@pytest.mark.parametrize(
    "text", ["", "2x", "tomorrow", "99999999h", "999999w", "0001-01-01T00:00:00+14:00"]
)
def test_other_texts_are_refused_by_name(text: str) -> None:
    with pytest.raises(Invalid, match="since must be an instant"):
        read_moment(text, "since", NOW, BERLIN)
