"""Server-sent events as text, and the parameters of the stream."""

import pytest

from onbeat.model.errors import Invalid
from onbeat.model.live import LiveEvent
from onbeat.testing.build import NOW
from onbeat.wire.stream import (
    event_data,
    frame,
    gap,
    read_kinds,
    read_label,
    read_place,
    read_stream_schedule,
    reset,
)

ID = "01a20987-6b30-74e8-a76b-b7d3289b6d43"


def test_an_event_is_one_block_of_lines() -> None:
    assert frame("job", "ab.7", b'{"id":"1"}') == b'id: ab.7\nevent: job\ndata: {"id":"1"}\n\n'
    assert gap(3) == b'event: gap\ndata: {"missed":3}\n\n'
    assert reset("ab.7") == b"id: ab.7\nevent: reset\ndata: {}\n\n"


def test_a_job_tells_what_is_known_and_no_label() -> None:
    least = LiveEvent(kind="job", id="1", at=NOW, to="waiting")
    assert event_data(least) == b'{"id":"1","to":"waiting","at":"2030-01-01T12:00:00Z"}'
    whole = LiveEvent(
        kind="job",
        id="1",
        at=NOW,
        to="failed",
        before="running",
        task="a\nb",
        queue="mail",
        attempt=2,
        cause="no answer",
        schedule_id="s",
        flow="f",
        labels={"a": "b"},
    )
    assert event_data(whole) == (
        b'{"id":"1","to":"failed","at":"2030-01-01T12:00:00Z","from":"running","task":"a\\nb",'
        b'"queue":"mail","attempt":2,"cause":"no answer","schedule_id":"s"}'
    )


def test_a_queue_tells_what_was_done() -> None:
    event = LiveEvent(kind="queue", id="mail", at=NOW, to="paused")
    assert event_data(event) == b'{"id":"mail","to":"paused","at":"2030-01-01T12:00:00Z"}'


def test_kinds_are_separated_by_commas() -> None:
    assert read_kinds("job, pulse,,job") == {"job", "pulse", ""}


def test_a_label_has_a_key_and_a_value() -> None:
    assert read_label(None) is None
    assert read_label("run:2026:11") == ("run", "2026:11")
    assert read_label("run:") == ("run", "")
    for text in ("run", ":x", ""):
        with pytest.raises(Invalid, match="KEY:VALUE"):
            read_label(text)


def test_a_schedule_is_named_by_its_id() -> None:
    assert read_stream_schedule(None) is None
    assert read_stream_schedule(ID) == ID
    with pytest.raises(Invalid):
        read_stream_schedule("nightly")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("ab.7", 7),
        ("ab.0", 0),
        ("cd.7", None),
        ("ab", None),
        ("ab.", None),
        ("ab.-1", None),
        ("ab.x", None),
        ("ab.٣", None),
        ("", None),
        (None, None),
        ("ab." + "9" * 100, int("9" * 37)),
    ],
)
def test_only_ids_of_this_process_are_a_place(text: str | None, place: int | None) -> None:
    assert read_place(text, "ab") == place
