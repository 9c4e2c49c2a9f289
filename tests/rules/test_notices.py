"""What templates may read, and for whom a notice is."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from onbeat.model.errors import Invalid, TooLarge
from onbeat.model.event import Event
from onbeat.model.limits import KEY_CHARS_MAX, NOTICE_RECIPIENTS_MAX
from onbeat.rules.notices import (
    SCHEDULE_KNOWN,
    distinct_recipients,
    facts_of,
    key_for,
    one_line,
)
from onbeat.testing.build import a_job

NINE = datetime(2026, 3, 2, 9, 0, 0, 250_000, tzinfo=UTC)
EVENT = Event(
    id="e1",
    source="/shop",
    type="order.paid",
    time=NINE,
    data=msgspec.Raw(b'{"sum":7}'),
    extensions={"region": "eu", "id": "forged"},
)


def test_the_facts_of_a_job_have_all_names_that_a_template_may_read() -> None:
    job = a_job(occurrence=NINE, labels={"a": "b"})
    data = msgspec.Raw(b'{"name":"Ada"}')
    facts: Any = facts_of(job, data, "ada@example.com", NINE, [EVENT, EVENT])
    assert facts.keys() == SCHEDULE_KNOWN
    assert facts["data"] == {"name": "Ada"}
    assert facts["to"] == "ada@example.com"
    assert str(facts["now"]) == str(facts["occurrence"]) == "2026-03-02T09:00:00.250000Z"
    assert facts["job"]["id"] == job.id
    assert facts["job"]["labels"] == {"a": "b"}
    assert facts["event"]["data"] == {"sum": 7}
    assert facts["event"]["region"] == "eu"
    assert facts["event"]["id"] == "e1"
    assert len(facts["events"]) == 2


def test_a_name_without_a_value_is_absent() -> None:
    facts = facts_of(a_job(), msgspec.Raw(b"{}"), None, NINE)
    assert facts.keys() == {"data", "job", "now"}


def test_a_recipient_counts_once() -> None:
    assert distinct_recipients(["a", "b", " a ", "c"]) == {"a": "to[0]", "b": "to[1]", "c": "to[3]"}
    with pytest.raises(Invalid, match="no recipient"):
        distinct_recipients([])


def test_recipients_have_a_bound() -> None:
    most = [str(n) for n in range(NOTICE_RECIPIENTS_MAX)]
    assert len(distinct_recipients([*most, "0"])) == NOTICE_RECIPIENTS_MAX
    with pytest.raises(TooLarge) as caught:
        distinct_recipients([*most, "one more"])
    assert caught.value.field == "to"


def test_a_unique_key_is_of_one_recipient() -> None:
    assert key_for("invoice:7", "ada@example.com") == "invoice:7:ada@example.com"
    assert key_for("invoice:7", None) == "invoice:7"
    assert key_for(None, "ada@example.com") is None
    assert key_for("k" * (KEY_CHARS_MAX - 2), "a") == "k" * (KEY_CHARS_MAX - 2) + ":a"
    with pytest.raises(Invalid) as caught:
        key_for("k" * (KEY_CHARS_MAX - 1), "a")
    assert caught.value.field == "unique"


def test_a_title_is_one_line() -> None:
    assert one_line("a\r\nBcc: b\tc\u2028d\x00") == "a Bcc: b c d"
