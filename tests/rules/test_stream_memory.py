"""What readers of the stream get, and what they are told that they missed."""

from collections.abc import Sequence
from typing import Any

import pytest

from onbeat.model.live import LiveEvent
from onbeat.rules.stream_memory import (
    AGE_MAX,
    BYTES_BEHIND_MAX,
    CHANGED,
    ENTRIES_MAX,
    EVENTS_BEHIND_MAX,
    IDS_MAX,
    PULSE,
    ChangeSummary,
    Place,
    Portion,
    Ring,
    StreamFilter,
    unknown_kinds,
)
from onbeat.testing.build import NOW

ALL = StreamFilter(kinds=frozenset({"job", "schedule", "queue", PULSE, CHANGED}))


def an_event(kind: Any = "job", id: str = "1", **fields: Any) -> LiveEvent:
    given: dict[str, Any] = {"to": "running", **fields}
    return LiveEvent(kind=kind, id=id, at=NOW, **given)


def add(ring: Ring, kind: str = "job", *, now: float = 0.0, size: int = 0, **fields: Any) -> None:
    event = None if kind in {PULSE, CHANGED} else an_event(kind, **fields)

    def frame(number: int) -> bytes:
        return str(number).encode().ljust(size)

    ring.add(kind, now, frame, event)


def fill(ring: Ring, count: int, **fields: Any) -> None:
    for _ in range(count):
        add(ring, **fields)


def numbers(portion: Portion) -> Sequence[int]:
    return [int(frame) for frame in portion.frames]


def read_all(place: Place) -> list[int]:
    """As a reader that is as fast as the ring."""
    found: list[int] = []
    while not place.is_at_end:
        found += numbers(place.take())
    place.wait()
    return found


# The ring


def test_a_ring_forgets_what_is_too_old() -> None:
    ring = Ring()
    assert (ring.first, ring.last) == (1, 0)
    add(ring, now=0.0)
    add(ring, now=1.0)
    add(ring, now=AGE_MAX)
    assert (ring.first, ring.last) == (1, 3)
    add(ring, now=AGE_MAX + 0.5)
    assert (ring.first, ring.last) == (2, 4)


def test_a_ring_keeps_a_bounded_number() -> None:
    ring = Ring()
    fill(ring, ENTRIES_MAX)
    assert ring.first == 1
    add(ring)
    assert (ring.first, ring.last) == (2, ENTRIES_MAX + 1)


def test_entries_are_found_by_their_number() -> None:
    ring = Ring()
    fill(ring, 5)
    assert [entry.number for entry in ring.since(3)] == [4, 5]
    assert [entry.number for entry in ring.since(0)] == [1, 2, 3, 4, 5]
    assert list(ring.since(5)) == list(ring.since(9)) == []


def test_entries_of_jobs_can_be_left_out() -> None:
    ring = Ring()
    add(ring, PULSE)
    fill(ring, 3)
    add(ring, "schedule")
    assert [entry.number for entry in ring.since(0, jobs=False)] == [1, 5]
    assert [entry.number for entry in ring.since(1, jobs=False)] == [5]
    assert ring.kinds_since(0) == {PULSE, "job", "schedule"}
    assert ring.kinds_since(3) == {"job", "schedule"}
    assert ring.kinds_since(4) == {"schedule"}
    assert ring.kinds_since(5) == set()
    fill(ring, ENTRIES_MAX - 1)
    assert [entry.number for entry in ring.since(0, jobs=False)] == [5]
    add(ring)
    assert list(ring.since(0, jobs=False)) == []


def test_a_text_is_made_once_and_only_for_who_wants_it() -> None:
    ring, made = Ring(), list[int]()

    def frame(number: int) -> bytes:
        made.append(number)
        return b"text"

    ring.add("job", 0.0, frame, an_event())
    ring.add(PULSE, 0.0, frame)
    pulses = StreamFilter(kinds=frozenset({PULSE}))
    for _ in range(2):
        assert Place(ring, pulses, after=0).take().frames == [b"text"]
    assert made == [2]


# A reader


def test_a_reader_that_is_passed_over_has_missed_nothing() -> None:
    """However many entries came that are not for it."""
    ring = Ring()
    place = Place(ring, StreamFilter(kinds=frozenset({"schedule"})))
    fill(ring, ENTRIES_MAX)
    place.pass_over(0)
    before = ring.last
    fill(ring, 5)
    place.pass_over(before)
    add(ring, "schedule")
    portion = place.take()
    assert (numbers(portion), portion.missed) == ([ENTRIES_MAX + 6], 0)


def test_a_reader_that_has_something_to_read_is_not_passed_over() -> None:
    ring = Ring()
    add(ring, PULSE)
    place = Place(ring, StreamFilter(kinds=frozenset({PULSE})), after=0)
    add(ring)
    place.pass_over(1)
    assert numbers(place.take()) == [1]


def test_a_reader_begins_at_the_end_or_where_it_was() -> None:
    ring = Ring()
    fill(ring, 3)
    new, back = Place(ring, ALL), Place(ring, ALL, after=1)
    assert new.is_at_end
    assert numbers(new.take()) == []
    assert numbers(back.take()) == [2, 3]
    add(ring)
    assert numbers(new.take()) == numbers(back.take()) == [4]


def test_a_reader_that_comes_back_gets_all_that_is_known_in_portions() -> None:
    ring = Ring()
    fill(ring, 2 * EVENTS_BEHIND_MAX + 1)
    place = Place(ring, ALL, after=0)
    portion = place.take()
    assert numbers(portion) == [*range(1, EVENTS_BEHIND_MAX + 1)]
    assert portion.missed == 0
    assert read_all(place) == [*range(EVENTS_BEHIND_MAX + 1, 2 * EVENTS_BEHIND_MAX + 2)]


def test_a_portion_is_bounded_in_bytes_and_has_one_event_at_least() -> None:
    ring = Ring()
    fill(ring, 3, size=BYTES_BEHIND_MAX)
    add(ring, size=BYTES_BEHIND_MAX + 1)
    add(ring)
    place = Place(ring, ALL, after=0)
    assert [numbers(place.take()) for _ in range(3)] == [[1, 2], [3, 4], [5]]


def test_what_comes_meanwhile_follows_if_it_is_little() -> None:
    ring = Ring()
    add(ring)
    place = Place(ring, ALL, after=0)
    assert numbers(place.take()) == [1]
    fill(ring, EVENTS_BEHIND_MAX)
    portion = place.take()
    assert (len(portion.frames), portion.missed) == (EVENTS_BEHIND_MAX, 0)


def test_a_slow_reader_gets_the_number_of_what_it_missed_and_the_newest_pulse() -> None:
    ring = Ring()
    add(ring)
    place = Place(ring, ALL, after=0)
    place.take()
    add(ring, PULSE)
    fill(ring, EVENTS_BEHIND_MAX - 1)
    add(ring, PULSE)
    ring.miss(7)
    add(ring, "queue", id="mail")
    portion = place.take()
    assert portion.missed == EVENTS_BEHIND_MAX + 7
    assert numbers(portion) == [ring.last - 1]
    assert place.is_at_end
    add(ring)
    assert numbers(place.take()) == [ring.last]


def test_a_slow_reader_may_be_behind_by_bytes() -> None:
    ring = Ring()
    place = Place(ring, ALL)
    place.take()
    fill(ring, 2, size=BYTES_BEHIND_MAX)
    portion = place.take()
    assert (portion.missed, numbers(portion)) == (2, [])


def test_events_that_a_reader_does_not_want_keep_it_from_nothing() -> None:
    ring = Ring()
    place = Place(ring, StreamFilter(kinds=frozenset({PULSE})))
    place.take()
    ring.miss(3)
    fill(ring, 2 * EVENTS_BEHIND_MAX)
    add(ring, PULSE)
    portion = place.take()
    assert (portion.missed, numbers(portion)) == (0, [ring.last])
    fill(ring, EVENTS_BEHIND_MAX + 1, kind=PULSE)
    portion = place.take()
    assert (portion.missed, numbers(portion)) == (0, [ring.last])


def test_a_reader_that_waited_gets_a_burst_of_any_size_whole() -> None:
    ring = Ring()
    place = Place(ring, ALL)
    assert read_all(place) == []
    fill(ring, 3 * EVENTS_BEHIND_MAX)
    assert len(read_all(place)) == 3 * EVENTS_BEHIND_MAX


def test_a_reader_is_told_of_events_that_had_no_room() -> None:
    ring = Ring()
    place, other = Place(ring, ALL), Place(ring, StreamFilter(kinds=frozenset({CHANGED})))
    ring.miss(5)
    ring.miss(2)
    add(ring, CHANGED)
    assert place.take().missed == 7
    assert other.take().missed == 0


def test_a_reader_is_told_of_events_that_the_ring_forgot() -> None:
    ring = Ring()
    fill(ring, 3)
    place, slow = Place(ring, ALL, after=0), Place(ring, ALL)
    slow.take()
    fill(ring, ENTRIES_MAX)
    portion = place.take()
    # Its goal was the third, which is gone.
    assert (portion.missed, numbers(portion)) == (3, [])
    assert slow.take().missed == ENTRIES_MAX
    add(ring)
    fill(ring, ENTRIES_MAX)
    assert slow.take().missed == ENTRIES_MAX + 1


def test_of_several_pulses_the_newest_is_enough() -> None:
    ring = Ring()
    for kind in (PULSE, "job", PULSE, CHANGED, PULSE, "job"):
        add(ring, kind)
    assert read_all(Place(ring, ALL, after=0)) == [2, 4, 5, 6]


# Filters

JOB: dict[str, Any] = {
    "to": "failed",
    "queue": "mail",
    "task": "send",
    "schedule_id": "s",
    "labels": {"run": "a:b"},
}


@pytest.mark.parametrize(
    ("fields", "is_wanted"),
    [
        ({}, True),
        ({"state": "failed"}, True),
        ({"state": "running"}, False),
        ({"queue": "mail"}, True),
        ({"queue": "other"}, False),
        ({"task": "send"}, True),
        ({"task": "other"}, False),
        ({"schedule_id": "s"}, True),
        ({"schedule_id": "t"}, False),
        ({"label": ("run", "a:b")}, True),
        ({"label": ("run", "a")}, False),
        ({"state": "failed", "queue": "mail", "task": "send", "schedule_id": "s"}, True),
    ],
)
def test_a_filter_chooses_jobs(fields: dict[str, Any], is_wanted: bool) -> None:
    ring = Ring()
    place = Place(ring, StreamFilter(**fields))
    add(ring, **JOB)
    assert bool(place.take().frames) is is_wanted


def test_a_job_without_labels_has_none_that_is_asked_for() -> None:
    ring = Ring()
    place = Place(ring, StreamFilter(label=("run", "a")))
    add(ring)
    assert place.take().frames == []


@pytest.mark.parametrize(
    ("filter", "wanted"),
    [
        (StreamFilter(), [1, 2, 3]),
        (StreamFilter(queue="mail"), [2, 3]),
        (StreamFilter(queue="other", schedule_id="s"), [3]),
        (StreamFilter(state="failed"), [2, 3]),
        (StreamFilter(kinds=frozenset({"queue"})), [2]),
        (StreamFilter(kinds=frozenset({PULSE, CHANGED}), queue="mail"), [4, 5]),
    ],
)
def test_a_filter_chooses_other_kinds_by_their_own_names(
    filter: StreamFilter, wanted: list[int]
) -> None:
    ring = Ring()
    add(ring)
    add(ring, "queue", id="mail")
    add(ring, "schedule", id="s")
    add(ring, PULSE)
    add(ring, CHANGED)
    assert read_all(Place(ring, filter, after=0)) == wanted


def test_kinds_that_are_not_known_are_named() -> None:
    assert unknown_kinds({"job", "b", "a", "changed"}) == ["a", "b"]
    assert unknown_kinds({"job", "schedule", "queue", "pulse", "changed"}) == []


# ChangeSummary


def test_changes_name_what_an_event_touches() -> None:
    changes = ChangeSummary()
    assert not changes
    changes.note(an_event(id="1", schedule_id="s", queue="mail", flow="f"))
    changes.note(an_event(id="1", queue="mail"))
    changes.note(an_event("queue", id="slow"))
    assert changes
    found = {kind: changes.of(kind) for kind in ("job", "schedule", "queue", "flow")}
    assert found == {
        "job": ("1",),
        "schedule": ("s",),
        "queue": ("mail", "slow"),
        "flow": ("f",),
    }
    assert changes.more == 0
    assert ChangeSummary().of("job") == ()


def test_changes_name_a_bounded_number_and_count_the_others() -> None:
    changes = ChangeSummary()
    for number in range(IDS_MAX):
        changes.note(an_event(id=str(number)))
    assert (len(changes.of("job")), changes.more) == (IDS_MAX, 0)
    changes.note(an_event(id="0"))
    assert changes.more == 0
    changes.note(an_event(id="another"))
    assert (len(changes.of("job")), changes.more) == (IDS_MAX, 1)


def test_there_is_a_change_without_ids() -> None:
    missed, moved = ChangeSummary(), ChangeSummary()
    missed.miss(1)
    moved.workers = True
    assert missed
    assert moved
