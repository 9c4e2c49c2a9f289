"""Which events end which waits, and how that is told."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.event import Event, StoredEvent
from onbeat.model.event_wait import EventWait, FreedWait
from onbeat.model.ids import EventSeq, JobId
from onbeat.model.limits import VERDICTS_MAX
from onbeat.model.route import Routing
from onbeat.rules.event_waits import (
    FREED,
    after_look,
    ends_wait,
    freed_waits,
    is_awaiting,
    is_later_wait,
    patterns_of,
    reason_of,
    with_freed,
)
from onbeat.testing.build import DAY, NOW

PAID = "order.paid"


def a_wait(job: str = "a", step: str = "s", **fields: Any) -> EventWait:
    return replace(EventWait(job_id=JobId(job), step=step, type=PAID, by="7"), **fields)


def stored(seq: int, **fields: Any) -> StoredEvent:
    event = Event(id=str(seq), source="/shop", type=PAID, time=NOW, subject="7")
    return StoredEvent(seq=EventSeq(seq), event=replace(event, **fields), received_at=NOW)


@pytest.mark.parametrize(
    ("type", "by", "fits"),
    [
        (PAID, "7", True),
        (PAID, None, True),
        (PAID, "8", False),
        ("order.*", "7", True),
        ("*", None, True),
        ("order.paid.*", "7", False),
        ("order", None, False),
    ],
)
def test_a_wait_is_for_a_type_and_a_subject(type: str, by: str | None, *, fits: bool) -> None:
    wait = a_wait(type=type, by=by)
    assert ends_wait(wait, stored(1).event) is fits
    assert bool(freed_waits([stored(1)], [wait])) is fits


def test_the_patterns_of_a_type() -> None:
    assert patterns_of("a.b") == ["a.b", "*", "a*", "a.*", "a.b*"]


def test_the_first_event_that_fits_ends_a_wait() -> None:
    events = [stored(1, subject="8"), stored(2), stored(3)]
    waits = [a_wait("b"), a_wait("a"), a_wait("a", "t", by=None), a_wait("c", by="9")]
    assert freed_waits(events, waits) == (
        FreedWait(JobId("a"), "s", EventSeq(2)),
        FreedWait(JobId("a"), "t", EventSeq(1)),
        FreedWait(JobId("b"), "s", EventSeq(2)),
    )


def test_a_wait_after_a_look() -> None:
    wait = a_wait(since=EventSeq(5), until=NOW + DAY)
    assert after_look(wait, None, NOW) == a_wait(until=wait.until)
    over = after_look(wait, None, NOW + DAY)
    assert (over.is_open, over.seq) == (False, None)
    ended = after_look(wait, EventSeq(6), NOW + DAY)
    assert (ended.is_open, ended.seq, ended.since) == (False, 6, None)
    endless = after_look(a_wait(since=EventSeq(5)), None, NOW + timedelta(days=9_999))
    assert endless == a_wait()


def test_the_reason_names_what_is_waited_for() -> None:
    until = a_wait(until=NOW + DAY)
    texts = [
        reason_of(until, is_sensitive=False),
        reason_of(until, is_sensitive=True),
        reason_of(a_wait(by=None), is_sensitive=True),
    ]
    end = (NOW + DAY).isoformat().replace("+00:00", "Z")
    assert texts == [
        f"waits for event order.paid by 7 until {end}",
        f"waits for event order.paid by … until {end}",
        "waits for event order.paid, without end",
    ]
    assert all(map(is_awaiting, texts))
    assert not is_awaiting("condition is false: waits for event")
    assert not is_awaiting(None)


def test_an_event_tells_of_the_first_jobs_that_it_freed() -> None:
    routing = Routing(verdicts={EventSeq(1): ()}, at=NOW)
    few = with_freed(routing, [FreedWait(JobId("a"), "s", EventSeq(1))])
    ((verdict,),) = few.verdicts.values()
    assert (verdict.job_id, verdict.reason) == ("a", FREED)
    many = [FreedWait(JobId(f"{n:04}"), "s", EventSeq(1)) for n in range(VERDICTS_MAX + 2)]
    (verdicts,) = with_freed(routing, many).verdicts.values()
    assert len(verdicts) == VERDICTS_MAX + 1
    assert verdicts[-1].reason == "and freed 2 more jobs"


def test_a_copy_does_not_open_a_wait_again() -> None:
    open_, ended = a_wait(), a_wait(is_open=False, seq=EventSeq(3))
    assert is_later_wait(open_, None)
    assert is_later_wait(ended, open_)
    assert not is_later_wait(open_, ended)
    assert not is_later_wait(open_, open_)
    assert is_later_wait(a_wait(by="8"), open_)
