"""What a start of a program changes about the schedules that it declared before."""

import itertools

import msgspec
import pytest

from onbeat.model.owner import NOBODY, Owner
from onbeat.model.schedule import PauseReason, ScheduleStatus
from onbeat.rules.declarations import (
    declared_status,
    is_older,
    newest_release,
    orphan_event,
    orphaned,
    owner_after,
    paused_as_orphan,
)
from onbeat.testing.build import MINUTE, NOW, a_schedule

ACTIVE, PAUSED, FINISHED = ScheduleStatus
DECLARED, ORPHANED = PauseReason


@pytest.mark.parametrize(
    ("status", "reason", "paused", "after"),
    [
        (ACTIVE, None, True, (PAUSED, DECLARED)),
        (ACTIVE, None, False, (ACTIVE, None)),
        (ACTIVE, None, None, (ACTIVE, None)),
        (PAUSED, DECLARED, True, (PAUSED, DECLARED)),
        (PAUSED, DECLARED, False, (ACTIVE, None)),
        (PAUSED, DECLARED, None, (PAUSED, DECLARED)),
        (PAUSED, ORPHANED, True, (PAUSED, DECLARED)),
        (PAUSED, ORPHANED, False, (ACTIVE, None)),
        (PAUSED, ORPHANED, None, (ACTIVE, None)),
        (PAUSED, None, True, (PAUSED, None)),
        (PAUSED, None, False, (PAUSED, None)),
        (PAUSED, None, None, (PAUSED, None)),
        (FINISHED, None, True, (PAUSED, DECLARED)),
        (FINISHED, None, False, (FINISHED, None)),
        (FINISHED, None, None, (FINISHED, None)),
    ],
)
def test_a_program_decides_on_its_own_pauses_only(status, reason, paused, after) -> None:
    before = a_schedule(status=status, pause_reason=reason)
    assert declared_status(before, paused=paused) == after


@pytest.mark.parametrize(
    ("paused", "after"),
    [(True, (PAUSED, DECLARED)), (False, (ACTIVE, None)), (None, (ACTIVE, None))],
)
def test_a_new_schedule_is_paused_where_its_program_says_so(paused, after) -> None:
    assert declared_status(None, paused=paused) == after


IN_ORDER = ["1.9", "1.10", "1.10.1", "2", "2-rc1", "2026-11-03", "2026-11-23T07:00", "v1", "v1.2"]


@pytest.mark.parametrize(("older", "newer"), list(itertools.combinations(IN_ORDER, 2)))
def test_numbers_in_a_release_count_by_their_size(older: str, newer: str) -> None:
    assert is_older(older, newer)
    assert not is_older(newer, older)


def test_no_release_is_older_than_itself_or_than_none() -> None:
    assert not is_older("1.10", "1.10")
    assert not is_older("1", None)
    assert not is_older(None, "1")


def test_the_newest_release_is_that_of_any_schedule() -> None:
    owned = [a_schedule(release=release) for release in ("1.9", None, "1.10", "1.2")]
    assert newest_release(owned) == "1.10"
    assert newest_release(owned[1:2]) is None


NAMED = Owner("billing", "2")
DERIVED = Owner("host:/srv/app.py", "2", is_named=False)


@pytest.mark.parametrize(
    ("stored", "owner", "after"),
    [
        (None, NAMED, NAMED),
        ("shop", NAMED, NAMED),
        (None, DERIVED, DERIVED),
        (DERIVED.name, DERIVED, DERIVED),
        ("shop", DERIVED, Owner("shop", "1")),
        ("shop", NOBODY, NOBODY),
    ],
)
def test_a_name_that_nobody_gave_takes_no_schedule_of_another(stored, owner, after) -> None:
    before = a_schedule(owner=stored, release=stored and "1")
    assert owner_after(before, owner) == after
    assert owner_after(None, owner) == owner


def test_what_is_declared_no_longer_and_active_is_orphaned() -> None:
    kept, gone, still = a_schedule(key="a"), a_schedule(key="b"), a_schedule(key="c", status=PAUSED)
    assert orphaned([kept, gone, still], {"a"}) == [gone]


def test_an_orphan_is_paused_with_an_event() -> None:
    schedule = a_schedule(key="b", owner="billing", release="1", version=4)
    paused = paused_as_orphan(schedule, Owner("billing", "2"), NOW + MINUTE)
    assert (paused.status, paused.pause_reason) == (PAUSED, ORPHANED)
    assert (paused.release, paused.version, paused.updated_at) == ("2", 5, NOW + MINUTE)
    event = orphan_event(paused, NOW + MINUTE)
    assert (event.type, event.subject) == ("onbeat.schedule.orphaned", schedule.id)
    assert event.id == f"{schedule.id}/5"
    assert event.data is not None
    assert msgspec.json.decode(event.data) == {
        "schedule_id": schedule.id,
        "key": "b",
        "name": schedule.name,
        "target": "work",
        "owner": "billing",
        "release": "2",
    }
