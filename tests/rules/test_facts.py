"""Facts of jobs and events, alike for conditions, keys and templates."""

from datetime import UTC, datetime

import msgspec

from onbeat.model.event import Event
from onbeat.model.target import HandlerTarget
from onbeat.rules import condition, notices
from onbeat.rules.event_patterns import EventFacts
from onbeat.rules.facts import event_facts, job_facts
from onbeat.testing.build import a_job

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
BARE = Event(id="e1", source="/shop", type="paid", time=NINE, data=None)
EVENT = msgspec.structs.replace(
    BARE,
    data=msgspec.Raw(b'{"sum":7}'),
    subject="order",
    datacontenttype="application/json",
    extensions={"region": "eu", "id": "forged"},
)


def test_an_event_has_what_is_set() -> None:
    time = "2026-03-02T09:00:00Z"
    bare = {"id": "e1", "source": "/shop", "type": "paid", "time": time}
    assert event_facts(BARE) == bare
    assert event_facts(EVENT) == bare | {
        "subject": "order",
        "datacontenttype": "application/json",
        "data": {"sum": 7},
        "region": "eu",
    }


def test_a_job_has_its_times_as_texts() -> None:
    job = a_job(target=HandlerTarget("work"), created_at=NINE, due_at=NINE, labels={"a": "b"})
    facts = job_facts(job)
    assert facts["created_at"] == facts["run_at"] == "2026-03-02T09:00:00Z"
    assert (facts["task"], facts["attempt"], facts["labels"]) == ("work", 0, {"a": "b"})


def test_all_readers_have_the_same() -> None:
    job = a_job()
    asked = condition.facts_of(job, NINE, events=[EVENT])
    told = notices.facts_of(job, msgspec.Raw(b"{}"), None, NINE, [EVENT])
    routed = EventFacts(EVENT, NINE).values()
    assert asked["event"] == told["event"] == routed["event"] == event_facts(EVENT)
    assert asked["events"] == told["events"]
    assert asked["job"] == told["job"] == job_facts(job)
